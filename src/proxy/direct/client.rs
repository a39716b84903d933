//! The client's side of one request on the direct lane.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderValue, Method, StatusCode, header};
use pingora::protocols::http::date::get_cached_date;
use pingora::{Error, ErrorType};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::time::{Instant, timeout};

use super::super::downstream::Downstream;
use super::super::fields::{AnswerHead, Fields, Name};
use super::super::request_view::{RequestHead as _, WholeHead as _};
use super::head::LaneHead;
use crate::edge::client_side::ClientSide;
use crate::edge::stream::Wire;
use crate::edge::transport::Transport;
use crate::origins::exchange::AnswerLines;
use crate::system::timer::Alarm;
use tidegate_http::head::Body as RequestBody;
use tidegate_http::lines::{Lines, Lookup as _};

/// A client's side that the lane can serve: it tells when its client has gone, and takes an answer head by head and piece by piece.
pub trait Client: Downstream<Head = LaneHead, Answer = AnswerLines> {
    /// Ready when the client has gone, or its answer is late. Not while a part of the request is still to be read, as nothing may be
    /// taken out of it: then only when the answer is late.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>>;
    /// Reads some of the request's body behind `into`, as an origin of HTTP/1.1 gets it: as it is where the head tells its length,
    /// otherwise as one chunk, and the last one at its end. Says how many bytes of the body that is.
    ///
    /// # Errors
    /// The client has gone or is too slow, or the body is malformed or too large.
    fn poll_body(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<pingora::Result<u64>>;
    /// The number of the connection that carries its answer alone.
    fn connection(&self) -> Option<RawFd>;
    /// Whether the client may take its time with its body: it waits for `100 Continue`, or its answer has begun.
    fn may_pause(&self) -> bool;
    /// Notes that not all that was read of the body can be sent again.
    fn cannot_be_repeated(&mut self);
    /// Takes the head of an answer, or an interim one.
    ///
    /// # Errors
    /// The client has gone.
    fn write_head(&mut self, head: &mut AnswerLines) -> impl Future<Output = pingora::Result<()>> + Send;
    /// Takes a piece of the body. `ends`: it is the last; nothing is held back then.
    ///
    /// # Errors
    /// The client has gone.
    fn write_piece(&mut self, data: &[u8], ends: bool) -> impl Future<Output = pingora::Result<()>> + Send;
    /// Sends what is held back of the answer.
    ///
    /// # Errors
    /// The client has gone.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<pingora::Result<()>>;
}

/// A client that speaks HTTP/1.1.
pub struct Http1<'a> {
    wire: &'a mut Wire<Transport>,
    head: &'a mut LaneHead,
    /// Where heads are written before they are sent.
    text: &'a mut Vec<u8>,
    /// The connection serves another request behind this one.
    stays: bool,
    written: Option<StatusCode>,
    body: Framing,
    bytes_out: u64,
    upload: Reading,
    /// What is left of a small body is read and thrown away behind the answer.
    drains: bool,
    /// All that was read of the body can be sent again.
    is_repeatable: bool,
}

/// How a body is read.
struct Reading {
    /// The longest pause.
    patience: Duration,
    /// When the present one is over.
    ends: Option<Instant>,
    /// When all of it must have come, once the answer is complete.
    rest: Option<Instant>,
    alarm: Alarm,
}

/// What is read of a body at once.
const BODY_BYTES: usize = 64 * 1024;

/// What stands around the data of a chunk that the wire has packed, and the last chunk.
const CHUNK_FRAME: usize = 12;
const LAST_CHUNK: usize = 5;

/// An unread body up to this size is read and thrown away, so that the client keeps its connection; behind a larger one
/// the connection closes.
const WORTH_DRAINING: u64 = 64 * 1024;

/// How long that may take, and whatever comes of a request whose answer is complete.
const DRAINING: Duration = Duration::from_secs(2);
const REST: &str = "the rest of a request that was answered";

/// How the client is told where the answer's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// There is no body.
    None,
    Length,
    Chunked,
    UntilClose,
}

impl<'a> Http1<'a> {
    /// The side of a request with this head. `stays`: the connection may serve another one.
    pub fn new(wire: &'a mut Wire<Transport>, head: &'a mut LaneHead, text: &'a mut Vec<u8>, stays: bool) -> Http1<'a> {
        let upload = Reading { patience: Duration::MAX, ends: None, rest: None, alarm: Alarm::default() };
        Http1 {
            wire,
            head,
            text,
            stays,
            written: None,
            body: Framing::None,
            bytes_out: 0,
            upload,
            drains: false,
            is_repeatable: true,
        }
    }

    /// Whether what is left of a small body is to be read before the connection serves another request.
    pub fn drains(&self) -> bool {
        self.stays && self.drains && !self.wire.is_between_requests()
    }

    /// Reads what is left of a small body.
    pub async fn drain(&mut self) {
        let mut thrown = BytesMut::new();
        let drained = poll_fn(|cx| -> Poll<pingora::Result<()>> {
            while !self.wire.is_between_requests() {
                thrown.clear();
                ready!(self.poll_body(cx, &mut thrown))?;
            }
            Poll::Ready(Ok(()))
        });
        // what is not read then is found by [`Http1::stays`]
        let _ = timeout(DRAINING, drained).await;
    }

    /// Whether the connection serves another request behind this one.
    pub fn stays(&self) -> bool {
        self.stays && self.wire.is_between_requests()
    }

    /// Whether what the client is still sending is so little that reading it is cheaper than a new connection. Not for a
    /// client that waits for `100 Continue`: it will not send the body after a final answer (RFC 9110 section 10.1.1).
    fn leaves_a_small_body(&self) -> bool {
        !self.wire.is_between_requests()
            && self.head.content_length().is_some_and(|length| length <= WORTH_DRAINING)
            && !self.head.expects()
    }

    /// Sends what was held back.
    async fn flush(&mut self) -> pingora::Result<()> {
        poll_fn(|cx| self.wire.poll_flush(cx)).await.map_err(broken)
    }

    /// Writes up to three parts, one behind the other.
    async fn write(&mut self, parts: &[&[u8]]) -> pingora::Result<()> {
        write(self.wire, parts).await
    }

    fn framing(&self, head: &AnswerLines) -> Framing {
        if self.head.method() == Method::HEAD
            || matches!(head.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        {
            Framing::None
        } else if head.lines.has(&header::TRANSFER_ENCODING) {
            Framing::Chunked
        } else if head.lines.has(&header::CONTENT_LENGTH) {
            Framing::Length
        } else {
            Framing::UntilClose
        }
    }
}

/// Writes up to three parts, one behind the other.
async fn write(wire: &mut Wire<Transport>, parts: &[&[u8]]) -> pingora::Result<()> {
    let whole: usize = parts.iter().map(|part| part.len()).sum();
    let mut written = 0;
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

/// The body of a request on its wire.
struct Body<'a>(&'a mut Wire<Transport>);

impl AsyncRead for Body<'_> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read(cx, buf)
    }
}

/// The client has gone, or its answer is late.
fn gone(news: io::Result<()>) -> Box<Error> {
    match news {
        Err(error) => Error::because(ErrorType::ReadError, "waiting for the answer", error),
        Ok(()) => Error::explain(ErrorType::ConnectionClosed, "before the end of the answer"),
    }
    .into_down()
}

fn broken(error: io::Error) -> Box<Error> {
    Error::because(ErrorType::WriteError, "writing the answer", error).into_down()
}

impl Client for Http1<'_> {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>> {
        if !self.wire.is_between_requests() {
            return match self.wire.poll_late(cx) {
                Poll::Ready(Err(late)) => {
                    Poll::Ready(Error::because(ErrorType::ReadError, "waiting for the answer", late).into_down())
                }
                Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
            };
        }
        self.wire.poll_gone(cx).map(gone)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<pingora::Result<()>> {
        if !self.wire.is_unflushed() {
            return Poll::Ready(Ok(()));
        }
        self.wire.poll_flush(cx).map_err(broken)
    }

    fn poll_body(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<pingora::Result<u64>> {
        let most = self
            .wire
            .left()
            .and_then(|left| usize::try_from(left).ok())
            .map_or(BODY_BYTES, |left| left.min(BODY_BYTES));
        into.reserve(most);
        let read = pin!(Body(self.wire).read_buf(&mut into.limit(most))).poll(cx);
        let error = match read {
            Poll::Ready(Ok(0)) => Error::explain(ErrorType::ConnectionClosed, "before the end of the request"),
            Poll::Ready(Ok(_)) if self.upload.rest.is_some_and(|rest| Instant::now() >= rest) => {
                Error::explain(ErrorType::ReadTimedout, REST)
            }
            Poll::Ready(Ok(read)) => {
                self.upload.ends = None;
                return Poll::Ready(Ok(match self.head.body() {
                    RequestBody::Chunked => {
                        let last = if self.wire.is_between_requests() { LAST_CHUNK } else { 0 };
                        read.saturating_sub(last).saturating_sub(CHUNK_FRAME) as u64
                    }
                    RequestBody::None | RequestBody::Length(_) => read as u64,
                }));
            }
            Poll::Ready(Err(error)) => Error::because(ErrorType::ReadError, "reading the request", error),
            Poll::Pending => {
                let Reading { patience, ends, rest, alarm } = &mut self.upload;
                let pause = ends.or_else(|| Instant::now().checked_add(*patience));
                let Some(until) = pause.into_iter().chain(*rest).min() else { return Poll::Pending };
                *ends = pause;
                ready!(alarm.poll(until, cx));
                Error::explain(ErrorType::ReadTimedout, if rest.is_some() { REST } else { "the client says nothing" })
            }
        };
        Poll::Ready(Err(error.into_down()))
    }

    async fn write_head(&mut self, head: &mut AnswerLines) -> pingora::Result<()> {
        // who is answered before all was read may send anything behind it
        self.stays &= self.drains || self.wire.is_between_requests();
        let interim = head.status().is_informational();
        if !interim {
            Fields::set(&mut head.lines, Name::Of(&header::DATE), get_cached_date())?;
            self.body = self.framing(head);
            let last = HeaderValue::from_static(if self.stays { "keep-alive" } else { "close" });
            Fields::set(&mut head.lines, Name::Of(&header::CONNECTION), last)?;
            self.stays &= self.body != Framing::UntilClose;
        }
        self.text.clear();
        head.write(self.text);
        self.written = Some(head.status());
        write(self.wire, &[self.text]).await?;
        if interim { self.flush().await } else { Ok(()) }
    }

    fn connection(&self) -> Option<RawFd> {
        self.wire.connection()
    }

    fn may_pause(&self) -> bool {
        self.wire.holds_back() || self.written.is_some_and(|status| !status.is_informational())
    }

    fn cannot_be_repeated(&mut self) {
        self.is_repeatable = false;
    }

    async fn write_piece(&mut self, data: &[u8], ends: bool) -> pingora::Result<()> {
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
        if ends && !self.wire.is_between_requests() {
            self.upload.rest = Some(Instant::now() + DRAINING);
        }
        // what follows comes soon, or else it is [flushed](Client::poll_flush)
        if ends { self.flush().await } else { Ok(()) }
    }
}

impl Downstream for Http1<'_> {
    type Head = LaneHead;
    type Answer = AnswerLines;

    fn head(&self) -> &LaneHead {
        self.head
    }

    fn head_mut(&mut self) -> &mut LaneHead {
        self.head
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
        self.is_repeatable
    }

    fn has_hop_by_hop(&self) -> bool {
        self.head.has_hop_by_hop()
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

    fn bound_body(&mut self, pause: Duration, size: Option<u64>) {
        self.upload.patience = pause;
        if let Some(size) = size {
            self.wire.limit_body(size);
        }
    }

    fn close(&mut self) {
        self.stays = false;
    }

    fn leave(&mut self) {
        self.stays = false;
    }

    fn note_refusal(&self) {}

    fn gone(&mut self) -> impl Future<Output = Box<Error>> + Send {
        // what is read ahead of the body is found by whoever reads it
        poll_fn(|cx| self.wire.poll_gone(cx).map(gone))
    }

    async fn reply(&mut self, mut head: AnswerLines, body: Bytes) -> pingora::Result<()> {
        self.drains |= self.leaves_a_small_body();
        self.write_head(&mut head).await?;
        self.write_piece(&body, true).await
    }
}

impl Fields for AnswerLines {
    type Lines = Lines;

    fn fields(&self) -> &Lines {
        &self.lines
    }

    fn set(&mut self, name: Name<'_>, value: HeaderValue) -> pingora::Result<()> {
        Fields::set(&mut self.lines, name, value)
    }

    fn add(&mut self, name: Name<'_>, value: HeaderValue) -> pingora::Result<()> {
        Fields::add(&mut self.lines, name, value)
    }

    fn remove(&mut self, name: &http::HeaderName) {
        Fields::remove(&mut self.lines, name);
    }

    fn remove_where(&mut self, may_be: impl Fn(&[u8]) -> bool, unwanted: impl Fn(&str) -> bool) {
        self.lines.remove_where(may_be, unwanted);
    }
}

impl AnswerHead for AnswerLines {
    fn of(status: StatusCode, _fields: usize) -> pingora::Result<AnswerLines> {
        Ok(AnswerLines::of(status))
    }

    fn status(&self) -> StatusCode {
        AnswerLines::status(self)
    }

    fn speak_http11(&mut self) {
        AnswerLines::speak_http11(self);
    }
}
