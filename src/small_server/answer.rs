//! An answer and its bytes.

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

/// What is answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// What the body is.
    pub content_type: &'static str,
    /// Further fields; no value may hold a line break.
    pub fields: Vec<(&'static str, Cow<'static, str>)>,
    /// The body.
    pub body: Body,
    /// Dropped when the answer has been written, or cannot be.
    pub witness: Option<oneshot::Sender<()>>,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// All of it, sent with its length.
    Whole(Cow<'static, [u8]>),
    /// Pieces as they come, such as server-sent events. It ends when the sender is dropped; the sender sees the channel
    /// closed when the client has left or the process stops.
    Stream(mpsc::Receiver<Bytes>),
}

impl Answer {
    /// With this body, of this type.
    pub fn new(status: StatusCode, content_type: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Answer {
        Answer { status, content_type, fields: Vec::new(), body: Body::Whole(body.into()), witness: None }
    }

    /// A text.
    pub fn plain(status: StatusCode, text: impl Into<String>) -> Answer {
        Answer::new(status, "text/plain; charset=utf-8", text.into().into_bytes())
    }

    /// This value as JSON, on one line.
    pub fn json(status: StatusCode, value: &impl Serialize) -> Answer {
        // maps with keys that are no texts are all that could fail
        let mut text = serde_json::to_vec(value).unwrap_or_default();
        text.push(b'\n');
        Answer::new(status, "application/json", text)
    }

    /// `{ "error": … }`.
    pub fn error(status: StatusCode, why: impl AsRef<str>) -> Answer {
        Answer::json(status, &serde_json::json!({ "error": why.as_ref() }))
    }

    /// Server-sent events, each piece one or more whole events.
    pub fn events(pieces: mpsc::Receiver<Bytes>) -> Answer {
        Answer { body: Body::Stream(pieces), ..Answer::new(StatusCode::OK, "text/event-stream", "".as_bytes()) }
    }

    /// The same with one more field.
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Answer {
        self.fields.push((name, value.into()));
        self
    }

    /// The bytes before the body.
    pub(super) fn head(&self) -> Vec<u8> {
        let Answer { status, content_type, .. } = self;
        let reason = status.canonical_reason().unwrap_or("-");
        let mut head = format!("HTTP/1.1 {} {reason}\r\nContent-Type: {content_type}\r\n", status.as_str());
        if let Body::Whole(body) = &self.body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n");
        head.into_bytes()
    }
}
