//! The client's side of one request on the direct lane: its head, and the answer as it is written to the wire.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode, Version, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::date::get_cached_date;
use pingora::{Error, ErrorType};

use super::super::downstream::Downstream;
use crate::edge::client_side::ClientSide;
use crate::edge::stream::Wire;
use crate::edge::transport::Transport;

/// Room for the head of an answer.
const HEAD_BYTES: usize = 1024;

/// The client's side of one request.
pub struct Client<'a> {
    wire: &'a mut Wire<Transport>,
    head: RequestHeader,
    hop_by_hop: bool,
    /// The connection serves another request behind this one.
    stays: bool,
    written: Option<StatusCode>,
    body: Framing,
    bytes_out: u64,
}

/// How the client is told where the answer's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// There is no body.
    None,
    Length,
    Chunked,
    UntilClose,
}

impl<'a> Client<'a> {
    /// The side of a request with this head. `stays`: the connection may serve another one.
    pub fn new(wire: &'a mut Wire<Transport>, head: RequestHeader, hop_by_hop: bool, stays: bool) -> Client<'a> {
        Client { wire, head, hop_by_hop, stays, written: None, body: Framing::None, bytes_out: 0 }
    }

    /// Whether the connection serves another request behind this one.
    pub fn stays(&self) -> bool {
        self.stays && self.wire.is_between_requests()
    }

    /// Ready when the client has gone, or its answer is late.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>> {
        self.wire.poll_gone(cx).map(|gone| {
            match gone {
                Err(error) => Error::because(ErrorType::ReadError, "waiting for the answer", error),
                Ok(()) => Error::explain(ErrorType::ConnectionClosed, "before the end of the answer"),
            }
            .into_down()
        })
    }

    /// Writes the head of an answer, or an interim one.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn write_head(&mut self, mut head: ResponseHeader) -> pingora::Result<()> {
        let interim = head.status.is_informational();
        if !interim {
            head.insert_header(header::DATE, get_cached_date())?;
            self.body = self.framing(&head);
            let last = if self.stays { "keep-alive" } else { "close" };
            head.insert_header(header::CONNECTION, last)?;
            self.stays &= self.body != Framing::UntilClose;
        }
        let mut bytes = BytesMut::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(if head.version == Version::HTTP_10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
        bytes.extend_from_slice(head.status.as_str().as_bytes());
        bytes.extend_from_slice(b" ");
        bytes.extend_from_slice(head.get_reason_phrase().unwrap_or_default().as_bytes());
        bytes.extend_from_slice(b"\r\n");
        head.header_to_h1_wire(&mut bytes);
        bytes.extend_from_slice(b"\r\n");
        self.written = Some(head.status);
        self.write(&[&bytes]).await?;
        if interim { self.flush().await } else { Ok(()) }
    }

    /// Writes a piece of the body. `ends`: it is the last; nothing is held back then.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn write_piece(&mut self, data: &[u8], ends: bool) -> pingora::Result<()> {
        if !data.is_empty() && self.body != Framing::None {
            match self.body {
                Framing::Chunked => {
                    let size = format!("{:X}\r\n", data.len());
                    self.write(&[size.as_bytes(), data, b"\r\n"]).await?;
                }
                _ => self.write(&[data]).await?,
            }
            self.bytes_out += data.len() as u64;
        }
        if ends && self.body == Framing::Chunked {
            self.write(&[b"0\r\n\r\n"]).await?;
        }
        // of a known length the rest comes, and with it the time to send; what has none may be for now
        if ends || self.body != Framing::Length { self.flush().await } else { Ok(()) }
    }

    /// Sends the head, unless a body of known length follows it.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn flush_head(&mut self) -> pingora::Result<()> {
        if self.body == Framing::Length { Ok(()) } else { self.flush().await }
    }

    /// Sends what was held back.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn flush(&mut self) -> pingora::Result<()> {
        poll_fn(|cx| self.wire.poll_flush(cx)).await.map_err(broken)
    }

    /// Writes up to three parts, one behind the other.
    async fn write(&mut self, parts: &[&[u8]]) -> pingora::Result<()> {
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        let mut written = 0;
        let wire = &mut *self.wire;
        poll_fn(|cx| {
            while written < whole {
                let mut rest = [IoSlice::new(&[]); 3];
                let mut before = written;
                for (place, part) in rest.iter_mut().zip(parts) {
                    let (done, left) = part.split_at(before.min(part.len()));
                    before -= done.len();
                    *place = IoSlice::new(left);
                }
                written += ready!(wire.poll_write(cx, &rest))?;
            }
            Poll::Ready(Ok(()))
        })
        .await
        .map_err(broken)
    }

    fn framing(&self, head: &ResponseHeader) -> Framing {
        if self.head.method == Method::HEAD || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        {
            Framing::None
        } else if head.headers.contains_key(header::TRANSFER_ENCODING) {
            Framing::Chunked
        } else if head.headers.contains_key(header::CONTENT_LENGTH) {
            Framing::Length
        } else {
            Framing::UntilClose
        }
    }
}

fn broken(error: io::Error) -> Box<Error> {
    Error::because(ErrorType::WriteError, "writing the answer", error).into_down()
}

impl Downstream for Client<'_> {
    fn head(&self) -> &RequestHeader {
        &self.head
    }

    fn head_mut(&mut self) -> &mut RequestHeader {
        &mut self.head
    }

    fn client(&self) -> Option<&ClientSide> {
        Some(self.wire.client())
    }

    fn is_http2(&self) -> bool {
        false
    }

    fn is_read(&mut self) -> bool {
        self.wire.is_between_requests()
    }

    fn can_be_repeated(&self) -> bool {
        // there is no body
        true
    }

    fn has_hop_by_hop(&self) -> bool {
        self.hop_by_hop
    }

    fn wants_upgrade(&self) -> bool {
        false
    }

    fn was_upgraded(&self) -> bool {
        false
    }

    fn written(&self) -> Option<StatusCode> {
        self.written
    }

    fn bytes_out(&self) -> u64 {
        self.bytes_out
    }

    fn bound_body(&mut self, _pause: Duration, _size: Option<u64>) {}

    fn close(&mut self) {
        self.stays = false;
    }

    fn leave(&mut self) {
        self.stays = false;
    }

    fn note_refusal(&self) {}

    fn gone(&mut self) -> impl Future<Output = Box<Error>> + Send {
        poll_fn(|cx| self.poll_gone(cx))
    }

    async fn reply(&mut self, head: ResponseHeader, body: Bytes) -> pingora::Result<()> {
        self.write_head(head).await?;
        self.write_piece(&body, true).await
    }
}
