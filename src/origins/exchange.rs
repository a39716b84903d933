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
use tidegate_http::head::Body as RequestBody;
use tidegate_http::head::fields::plain_number;
use tidegate_http::lines::{Lines, Lookup as _};

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

    /// Takes the place of the one before: a head that was judged.
    fn read(&mut self, head: &[u8]) -> pingora::Result<()> {
        let broken = || Error::explain(ErrorType::InvalidHTTPHeader, "a head that was not judged");
        let line_end = memchr::memchr(b'\n', head).ok_or_else(broken)?;
        let line = head.get(..line_end).and_then(|line| line.strip_suffix(b"\r")).ok_or_else(broken)?;
        self.status = line.get(9..12).and_then(|code| StatusCode::from_bytes(code).ok()).ok_or_else(broken)?;
        self.is_http10 = line.starts_with(b"HTTP/1.0");
        // one that is not ASCII is left out, as Pingora's parser does
        let is_ascii = line.get(13..).is_some_and(<[u8]>::is_ascii);
        self.reason = Some(if is_ascii { 13..line.len() } else { 0..0 });
        self.lines.read(head, line_end + 1).ok_or_else(broken)
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
    /// The alarm is best one that the same task has used before.
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
                    self.send_ends = None;
                }
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        self.poll_sent(cx, sent, within)
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
            let known = self.stream.next_head().filter(|length| *length <= self.buffers.inbox.len());
            let end = known.or_else(|| memmem::find(&self.buffers.inbox, HEAD_END).map(|end| end + HEAD_END.len()));
            if let Some(end) = end {
                head.read(self.buffers.inbox.get(..end).unwrap_or_default())?;
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

    /// How the body of the answer ends, once its head has come.
    pub fn body(&self) -> Body {
        self.body
    }

    /// Whether a piece of the body has come already.
    pub fn has_more(&self) -> bool {
        !self.buffers.inbox.is_empty()
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
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;

    use super::*;
    use crate::origins::way::Way;
    use crate::origins::wire::Wire;
    use crate::policy::Origin;
    use crate::system::socket::Socket;

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// An exchange whose request was sent, and the origin at its other end. `asks`: as on a connection that was used before.
    async fn asked<'a>(
        method: &Method,
        (buffers, alarm): &'a mut (Buffers, Alarm),
        asks: bool,
    ) -> (Exchange<'a>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let way = Way::open(&Arc::new(Origin::of("app".into(), Vec::new()))).unwrap();
        let stream = Box::new(OriginStream::new(Wire::Plain(Socket::Unix(near)), way, 0));
        let mut exchange = Exchange::new(stream, (Instant::now(), Duration::from_secs(5)), (buffers, alarm));
        let head = [method.as_str().as_bytes(), GET.get(3..).unwrap()].concat();
        if asks {
            exchange.asks(method, &head, RequestBody::None);
        }
        exchange.begin(method, &head, Duration::from_secs(5)).await.unwrap();
        (exchange, far)
    }

    async fn head(exchange: &mut Exchange<'_>) -> pingora::Result<AnswerLines> {
        let mut head = AnswerLines::default();
        poll_fn(|cx| exchange.poll_head(cx, &mut head)).await.map(|()| head)
    }

    /// The body, or the error that cut it.
    async fn body_of(exchange: &mut Exchange<'_>) -> (Vec<u8>, Option<Box<Error>>) {
        let mut body = Vec::new();
        loop {
            match poll_fn(|cx| exchange.poll_piece(cx)).await {
                Ok(piece) => {
                    body.extend_from_slice(exchange.data(&piece));
                    exchange.taken();
                    if piece.ends {
                        return (body, None);
                    }
                }
                Err(error) => return (body, Some(error)),
            }
        }
    }

    /// What comes of an answer in pieces of this size: its body, and whether the connection can be kept.
    async fn through(answer: &[u8], size: usize, closes: bool) -> (Vec<u8>, bool, bool) {
        let mut buffers = Default::default();
        let (mut exchange, mut far) = asked(&Method::GET, &mut buffers, size % 2 == 0).await;
        let sent = answer.to_vec();
        let origin = tokio::spawn(async move {
            // a close with unread bytes would be a reset
            let _ = far.read(&mut [0; 1024]).await.unwrap();
            for piece in sent.chunks(size) {
                far.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            (!closes).then_some(far)
        });
        head(&mut exchange).await.unwrap();
        let (body, error) = body_of(&mut exchange).await;
        let far = origin.await.unwrap();
        let kept = exchange.kept().is_some();
        drop(far);
        (body, error.is_none(), kept)
    }

    #[tokio::test]
    async fn a_body_comes_out_whole_however_it_is_framed_and_cut() {
        let coded =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\nT: x\r\n\r\n";
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!";
        let endless = b"HTTP/1.1 200 OK\r\n\r\nhello!";
        for size in [1, 2, 7, 1000] {
            assert_eq!(through(coded, size, false).await, (b"hello!".to_vec(), true, true), "chunks by {size}");
            assert_eq!(through(sized, size, false).await, (b"hello!".to_vec(), true, true), "a length by {size}");
            assert_eq!(through(endless, size, true).await, (b"hello!".to_vec(), true, false), "an end by {size}");
            let cut = sized.get(..sized.len() - 1).unwrap();
            assert_eq!(through(cut, size, true).await, (b"hello".to_vec(), false, false), "a cut by {size}");
        }
    }

    #[tokio::test]
    async fn connections_are_kept_as_their_answers_say() {
        let answers: [(&[u8], bool); 5] = [
            (b"HTTP/1.1 204 None\r\n\r\n", true),
            (b"HTTP/1.1 204 None\r\nConnection: x, close\r\n\r\n", false),
            (b"HTTP/1.0 204 None\r\n\r\n", false),
            (b"HTTP/1.0 204 None\r\nConnection: keep-alive\r\n\r\n", true),
            // bytes that nobody asked for
            (b"HTTP/1.1 204 None\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", false),
        ];
        for (answer, kept) in answers {
            let got = through(answer, 1000, false).await.2;
            assert_eq!(got, kept, "{}", String::from_utf8_lossy(answer));
        }
    }

    #[tokio::test]
    async fn heads_keep_their_spelling_and_interim_ones_come_first() {
        let mut buffers = Default::default();
        let (mut exchange, mut far) = asked(&Method::HEAD, &mut buffers, false).await;
        let answer = b"HTTP/1.1 103 Early\r\nLINK: </a>\r\n\r\nHTTP/1.1 200 Fine\r\nX-a: 1\r\nx-A:  2\t\r\nContent-Length: 9\r\n\r\n";
        far.write_all(answer).await.unwrap();
        assert_eq!(head(&mut exchange).await.unwrap().status(), 103);
        let last = head(&mut exchange).await.unwrap();
        let mut wire = Vec::new();
        last.write(&mut wire);
        assert_eq!(
            String::from_utf8_lossy(&wire),
            "HTTP/1.1 200 Fine\r\nX-a: 1\r\nx-A: 2\r\nContent-Length: 9\r\n\r\n"
        );
        assert_eq!((exchange.body(), exchange.kept().is_some()), (Body::None, true), "HEAD has no body");
    }

    #[tokio::test]
    async fn only_a_connection_that_closed_without_a_word_is_a_reason_to_ask_again() {
        let mut buffers = Default::default();
        let (mut exchange, far) = asked(&Method::GET, &mut buffers, true).await;
        drop(far);
        let closed = head(&mut exchange).await.unwrap_err();
        assert_eq!(closed.retry, RetryType::ReusedOnly);
        let (mut exchange, mut far) = asked(&Method::GET, &mut buffers, true).await;
        far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").await.unwrap();
        let garbled = head(&mut exchange).await.unwrap_err();
        assert_ne!(garbled.retry, RetryType::ReusedOnly);
    }

    #[tokio::test(start_paused = true)]
    async fn an_origin_that_says_nothing_is_given_up() {
        let mut buffers = Default::default();
        let (mut exchange, _far) = asked(&Method::GET, &mut buffers, true).await;
        let began = Instant::now();
        let silent = head(&mut exchange).await.unwrap_err();
        assert_eq!((silent.etype(), began.elapsed().as_secs()), (&ErrorType::ReadTimedout, 5));
    }
}
