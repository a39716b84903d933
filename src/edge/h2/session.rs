//! One request and its answer on a stream of HTTP/2, as the framework's proxy wants to see them.
//!
//! The framework has a session for HTTP/2 of its own. It is not used, because nothing limits how slowly a body may be sent to
//! it or an answer be taken from it, it swallows interim answers, and its window is the only bound on what a stalled stream
//! holds. This one stands on [`StreamIo`], which keeps the time. It hands on interim answers and trailers.

use std::any::Any;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{Extensions, Response};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::Digest;
use pingora::protocols::http::HttpTask;
use pingora::{Error, ErrorType, Result};

use super::stream_io::StreamIo;

mod framework;

/// How much of a request's body is kept for another attempt; as much as the framework keeps in HTTP/1.
const KEPT_BYTES: usize = 64 * 1024;

/// A request and its answer.
pub struct Session {
    head: RequestHeader,
    io: StreamIo,
    /// The head of the answer.
    written: Option<Box<ResponseHeader>>,
    kept: Kept,
    digest: Arc<Digest>,
}

/// What came of the request's body so far, for another attempt.
#[derive(Default)]
enum Kept {
    #[default]
    Off,
    On(BytesMut),
    TooMuch,
}

impl Session {
    /// The request with this head. `evaluation`: what was decided about it, if it was judged.
    pub fn new(
        mut head: Parts,
        io: StreamIo,
        digest: Arc<Digest>,
        evaluation: Option<Box<dyn Any + Send + Sync>>,
    ) -> Session {
        head.extensions.insert(Arc::clone(io.stream()));
        if evaluation.is_some() {
            head.extensions.insert(Judged(evaluation));
        }
        Session { head: RequestHeader::from(head), io, written: None, kept: Kept::Off, digest }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        let piece = ready!(self.io.poll_body(cx))?;
        // of an empty last piece the framework would make a last chunk, and another one of the end
        let piece = piece.filter(|data| !data.is_empty());
        if let Some(data) = &piece {
            self.kept.add(data);
        }
        Poll::Ready(Ok(piece))
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>> {
        let gone = self.io.poll_gone(cx);
        if self.io.is_gone() {
            // there is no other attempt at a request whose client has left
            self.kept = Kept::Off;
        }
        gone
    }

    fn put_head(&mut self, head: Box<ResponseHeader>, end: bool) -> Result<()> {
        if self.io.has_begun() {
            return Ok(());
        }
        self.io.put_head(Response::from_parts(head.as_owned_parts(), ()), end)?;
        if !head.status.is_informational() {
            self.written = Some(head);
        }
        Ok(())
    }

    /// Does what the proxy has gathered; says whether the answer is complete.
    async fn perform(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        let mut done = false;
        for task in tasks {
            done |= match task {
                HttpTask::Header(head, end) => {
                    let interim = head.status.is_informational();
                    self.put_head(head, end)?;
                    end && !interim
                }
                HttpTask::Body(data, end) => {
                    if let Some(data) = data {
                        self.io.put_body(data, end).await?;
                    }
                    end
                }
                HttpTask::Trailer(Some(trailers)) => {
                    self.io.put_trailers(*trailers)?;
                    true
                }
                HttpTask::Trailer(None) | HttpTask::Done => true,
                HttpTask::UpgradedBody(..) => {
                    return Err(Error::explain(ErrorType::InternalError, "there are no upgrades in HTTP/2"));
                }
                HttpTask::Failed(error) => return Err(error),
            };
        }
        if done {
            self.io.put_end()?;
        }
        self.io.note_taken();
        Ok(done)
    }
}

impl Kept {
    fn add(&mut self, data: &[u8]) {
        if let Kept::On(bytes) = self {
            if bytes.len() + data.len() > KEPT_BYTES {
                *self = Kept::TooMuch;
            } else {
                bytes.extend_from_slice(data);
            }
        }
    }
}

/// What was decided about a request before its session. Travels in the extensions of its head, as Pingora carries such a thing along for
/// HTTP/1 only.
struct Judged(Option<Box<dyn Any + Send + Sync>>);

impl Clone for Judged {
    /// Nothing: a copy of a head is not the request, and what is decided is decided once.
    fn clone(&self) -> Judged {
        Judged(None)
    }
}

/// Takes out what was decided about the request with these extensions.
pub fn take_judged(extensions: &mut Extensions) -> Option<Box<dyn Any + Send + Sync>> {
    extensions.remove::<Judged>()?.0
}
