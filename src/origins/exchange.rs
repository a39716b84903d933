//! One request and its answer on a connection to an HTTP/1 origin, spoken by the direct lane itself.
//!
//! Reads what [`OriginStream`] lets through: whole heads with one reading, and bodies to their end and no further. Errors have the
//! words of Pingora's own client, as retries, answers and metrics are chosen by them.

use std::future::{Future as _, poll_fn};
use std::io;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use http::{Method, StatusCode, header};
use memchr::memmem;
use pingora::{Error, ErrorType, RetryType};
use tokio::io::{AsyncReadExt, AsyncWrite as _};
use tokio::time::Instant;

use super::stream::OriginStream;
use crate::system::timer::Alarm;
use tidegate_http::answer_head::{ANSWER_LIMITS, parse_noting};
use tidegate_http::head::Body as RequestBody;
use tidegate_http::head::fields::plain_number;
use tidegate_http::lines::{Lines, Lookup as _};
use tidegate_http::ranges::LineRanges;

/// What is read at once of a head and what comes with it.
const HEAD_BYTES: usize = 4096;
/// What is read at once of a body. Less while the process is short of memory
/// ([`poll_piece`](crate::system::buffers::poll_piece)).
const BODY_BYTES: usize = 64 * 1024;
/// The size line before a chunk of [`poll_repack`](crate::edge::repack::poll_repack), and what stands behind it.
const CHUNK_HEAD: usize = 10;
const CHUNK_END: usize = 2;
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The head of an answer: as the origin wrote it, or as it is made here.
#[derive(Debug, Default)]
pub struct AnswerLines {
    status: StatusCode,
    /// The origin's own words for it, where they stand in the head.
    reason: Option<Range<usize>>,
    is_http10: bool,
    /// The fields.
    pub lines: Lines,
}

impl AnswerLines {
    /// One without fields, with the usual words for its status.
    pub fn of(status: StatusCode) -> AnswerLines {
        AnswerLines { status, ..AnswerLines::default() }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Says that we speak HTTP/1.1.
    pub fn speak_http11(&mut self) {
        self.is_http10 = false;
    }

    /// Writes it as it is.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.is_http10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
        out.extend_from_slice(self.status.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(match &self.reason {
            Some(reason) => self.lines.head(reason.clone()),
            None => self.status.canonical_reason().unwrap_or_default().as_bytes(),
        });
        out.extend_from_slice(b"\r\n");
        self.lines.write(out);
    }

    /// Takes the place of the one before: a head that was judged, whose lines stand there.
    fn read(&mut self, head: &[u8], lines: &LineRanges) -> pingora::Result<()> {
        let broken = || Error::explain(ErrorType::InvalidHTTPHeader, "a head that was not judged");
        let line_end = memchr::memchr(b'\n', head).ok_or_else(broken)?;
        let line = head.get(..line_end).and_then(|line| line.strip_suffix(b"\r")).ok_or_else(broken)?;
        self.status = line.get(9..12).and_then(|code| StatusCode::from_bytes(code).ok()).ok_or_else(broken)?;
        self.is_http10 = line.starts_with(b"HTTP/1.0");
        // one that is not ASCII is left out, as Pingora's parser does
        let is_ascii = line.get(13..).is_some_and(<[u8]>::is_ascii);
        self.reason = Some(if is_ascii { 13..line.len() } else { 0..0 });
        self.lines.take(head, lines);
        Ok(())
    }

    /// How the body ends that follows (RFC 9112 section 6.3).
    fn body(&self, no_body: bool) -> pingora::Result<Body> {
        if no_body || matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Ok(Body::None);
        }
        if self.lines.has(&header::TRANSFER_ENCODING) {
            return Ok(Body::Chunked);
        }
        let Some(length) = self.lines.first(&header::CONTENT_LENGTH) else { return Ok(Body::UntilClose) };
        match plain_number(length) {
            Some(0) => Ok(Body::None),
            Some(length) => Ok(Body::Length(length)),
            None => Err(Error::explain(ErrorType::InvalidHTTPHeader, "a length that was not judged")),
        }
    }

    /// Whether the origin keeps the connection open (RFC 9112 section 9.3).
    fn keeps(&self) -> bool {
        !self.says(b"close") && (!self.is_http10 || self.says(b"keep-alive"))
    }

    /// Whether `Connection` has this option.
    fn says(&self, option: &[u8]) -> bool {
        let lines = self.lines.lines(&header::CONNECTION);
        lines
            .flat_map(|line| line.split(|byte| *byte == b','))
            .any(|said| said.trim_ascii().eq_ignore_ascii_case(option))
    }
}

/// What exchanges use one after the other.
#[derive(Debug, Default)]
pub struct Buffers {
    /// What came and was not taken.
    inbox: BytesMut,
    send_alarm: Alarm,
}

impl Buffers {
    /// Forgets what was there, and gives large memory back.
    pub fn rest(&mut self, most: usize) {
        self.inbox.clear();
        if self.inbox.capacity() > most {
            self.inbox = BytesMut::new();
        }
    }
}

/// The exchange under way.
#[derive(Debug)]
pub struct Exchange<'a> {
    stream: Box<OriginStream>,
    buffers: &'a mut Buffers,
    alarm: &'a mut Alarm,
    body: Body,
    /// The request has the method `HEAD`.
    no_body: bool,
    /// The origin keeps the connection open behind the answer.
    keeps: bool,
    /// The longest wait for bytes.
    patience: Duration,
    /// When the present one is over.
    ends: Option<Instant>,
    /// When the connection must have taken more of the request.
    send_ends: Option<Instant>,
    /// How much of the request's head was sent.
    begun: usize,
}

/// How the end of the answer's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// By its length: what is left of it.
    Length(u64),
    /// By chunks.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// A piece of the answer's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it stands in what was read.
    data: Range<usize>,
    /// It is the last.
    pub ends: bool,
}

impl<'a> Exchange<'a> {
    /// An exchange that begins now on a connection that waits for a request. `patience`: the longest wait for the head of the answer, or a
    /// piece of its body.
    /// An alarm that the same task has used before is cheapest.
    pub fn new(
        stream: Box<OriginStream>,
        (now, patience): (Instant, Duration),
        (buffers, alarm): (&'a mut Buffers, &'a mut Alarm),
    ) -> Exchange<'a> {
        buffers.inbox.clear();
        Exchange {
            stream,
            buffers,
            alarm,
            body: Body::None,
            no_body: false,
            keeps: false,
            patience,
            ends: Some(now + patience),
            send_ends: None,
            begun: 0,
        }
    }

    /// The head is about to be sent on a connection that was found quiet a moment ago: what it says of the body, so that it need not be read
    /// again for that.
    pub fn asks(&mut self, method: &Method, head: &[u8], body: RequestBody) {
        self.stream.asking(head.len(), body, method == Method::HEAD);
    }

    /// Begins a request: its head is sent.
    ///
    /// # Errors
    /// As for [`Exchange::poll_send`].
    pub async fn begin(&mut self, method: &Method, head: &[u8], within: Duration) -> pingora::Result<()> {
        self.no_body = method == Method::HEAD;
        poll_fn(|cx| {
            let sent = loop {
                let Some(rest) = head.get(self.begun..).filter(|rest| !rest.is_empty()) else {
                    break Pin::new(&mut self.stream).poll_flush(cx);
                };
                match Pin::new(&mut self.stream).poll_write(cx, rest) {
                    Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(sent)) => {
                        self.begun += sent;
                        self.send_ends = None;
                    }
                    Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                    Poll::Pending => {
                        // the wait for the answer begins when the request was sent
                        self.ends = None;
                        break Poll::Pending;
                    }
                }
            };
            self.poll_sent(cx, sent, within)
        })
        .await
    }

    /// Sends more of the request: all of this, which is empty then.
    ///
    /// # Errors
    /// The connection is broken, or takes nothing for so long.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut BytesMut,
        within: Duration,
    ) -> Poll<pingora::Result<()>> {
        let sent = loop {
            if data.is_empty() {
                break Pin::new(&mut self.stream).poll_flush(cx);
            }
            match Pin::new(&mut self.stream).poll_write(cx, data) {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => {
                    data.advance(sent);
                    // an origin that takes the request need not answer yet
                    (self.send_ends, self.ends) = (None, None);
                }
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        self.poll_sent(cx, sent, within)
    }

    /// The request is held back: the wait for the answer begins anew.
    pub fn wait_anew(&mut self) {
        self.ends = None;
    }

    /// What came of sending, which may take so long.
    fn poll_sent(
        &mut self,
        cx: &mut Context<'_>,
        sent: Poll<io::Result<()>>,
        within: Duration,
    ) -> Poll<pingora::Result<()>> {
        if let Poll::Ready(sent) = sent {
            self.send_ends = None;
            return Poll::Ready(
                sent.map_err(|error| Error::because(ErrorType::WriteError, "sending the request", error)),
            );
        }
        let ends = *self.send_ends.get_or_insert_with(|| Instant::now() + within);
        ready!(self.buffers.send_alarm.poll(ends, cx));
        Poll::Ready(Err(Error::explain(ErrorType::WriteTimedout, "sending the request")))
    }

    /// The next head: an interim one, or that of the answer, whose body follows.
    ///
    /// # Errors
    /// None came, or none that may be passed on.
    pub fn poll_head(&mut self, cx: &mut Context<'_>, head: &mut AnswerLines) -> Poll<pingora::Result<()>> {
        loop {
            let known = self.stream.next_head().filter(|(length, _)| *length <= self.buffers.inbox.len());
            let end = match known {
                Some((end, lines)) => {
                    head.read(self.buffers.inbox.get(..end).unwrap_or_default(), lines)?;
                    Some(end)
                }
                // two came at once
                None => self.find_head(head)?,
            };
            if let Some(end) = end {
                self.stream.took_head();
                self.buffers.inbox.advance(end);
                if !head.status.is_informational() {
                    self.body = head.body(self.no_body)?;
                    self.keeps = head.keeps() && self.body != Body::UntilClose;
                }
                return Poll::Ready(Ok(()));
            }
            match ready!(self.poll_fill(cx, HEAD_BYTES)) {
                Ok(1..) => {}
                Ok(0) => {
                    let mut closed = Error::explain(ErrorType::ConnectionClosed, "before the head of an answer");
                    closed.retry = RetryType::ReusedOnly;
                    return Poll::Ready(Err(closed));
                }
                Err(mut error) => {
                    // the system's, as for a kept connection that was closed; what the reader refuses is no reason to ask again
                    let cause = error.root_cause().downcast_ref::<io::Error>();
                    if cause.is_some_and(|cause| cause.raw_os_error().is_some()) {
                        error.retry = RetryType::ReusedOnly;
                    }
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Looks for the head at the front of what was read, of which only that is known that it was judged; says how long it is.
    fn find_head(&self, head: &mut AnswerLines) -> pingora::Result<Option<usize>> {
        let Some(end) = memmem::find(&self.buffers.inbox, HEAD_END).map(|end| end + HEAD_END.len()) else {
            return Ok(None);
        };
        let (found, mut lines) = (self.buffers.inbox.get(..end).unwrap_or_default(), LineRanges::default());
        let judged = parse_noting(found, &ANSWER_LIMITS, &mut lines);
        judged.map_err(|fault| Error::because(ErrorType::InvalidHTTPHeader, "a head that was judged", fault))?;
        head.read(found, &lines).map(|()| Some(end))
    }

    /// How the body of the answer ends, once its head has come.
    pub fn body(&self) -> Body {
        self.body
    }

    /// The next piece of the body, whose bytes [`Exchange::data`] gives.
    ///
    /// # Errors
    /// The body was cut, is malformed, or does not come.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<pingora::Result<Piece>> {
        let most = match self.body {
            Body::None => return Poll::Ready(Ok(Piece { data: 0..0, ends: true })),
            Body::Length(left) => usize::try_from(left).map_or(BODY_BYTES, |left| left.min(BODY_BYTES)),
            Body::Chunked | Body::UntilClose => BODY_BYTES,
        };
        if self.buffers.inbox.is_empty() && ready!(self.poll_fill(cx, most))? == 0 && self.body != Body::UntilClose {
            // the stream tells of a cut with an error
            return Poll::Ready(Err(Error::explain(ErrorType::ConnectionClosed, "before the end of a body")));
        }
        let ends = self.stream.has_answered();
        let whole = self.buffers.inbox.len();
        let data = match &mut self.body {
            Body::Chunked => {
                let behind = if ends { LAST_CHUNK.len() } else { 0 };
                let end = whole.saturating_sub(behind + CHUNK_END);
                if end > CHUNK_HEAD { CHUNK_HEAD..end } else { 0..0 }
            }
            Body::Length(left) => {
                *left = left.saturating_sub(whole as u64);
                0..whole
            }
            Body::None | Body::UntilClose => 0..whole,
        };
        Poll::Ready(Ok(Piece { data, ends }))
    }

    /// The bytes of a piece.
    pub fn data(&self, piece: &Piece) -> &[u8] {
        self.buffers.inbox.get(piece.data.clone()).unwrap_or_default()
    }

    /// The piece was passed on.
    pub fn taken(&mut self) {
        self.buffers.inbox.clear();
    }

    /// The connection, if it can serve another request.
    pub fn kept(self) -> Option<Box<OriginStream>> {
        // whether something has come meanwhile is looked at when it is lent again
        (self.keeps && self.buffers.inbox.is_empty() && self.stream.is_ready()).then_some(self.stream)
    }

    /// Reads so many bytes at most into the inbox and says how many came; 0 at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<pingora::Result<usize>> {
        self.buffers.inbox.reserve(most.max(HEAD_BYTES));
        let filled = pin!(self.stream.read_buf(&mut self.buffers.inbox)).poll(cx);
        match filled {
            Poll::Ready(filled) => {
                self.ends = None;
                Poll::Ready(filled.map_err(|error| Error::because(ErrorType::ReadError, "reading the answer", error)))
            }
            Poll::Pending => {
                let ends = *self.ends.get_or_insert_with(|| Instant::now() + self.patience);
                ready!(self.alarm.poll(ends, cx));
                Poll::Ready(Err(Error::explain(ErrorType::ReadTimedout, "the origin says nothing")))
            }
        }
    }
}

#[cfg(test)]
mod tests;
