//! The bytes of one request and its answer on a stream of HTTP/2, whoever serves it: with their time kept and their room counted.
//!
//! The time is kept as on the HTTP/1 side: the same credit for bodies and answers, the same deadline for the beginning of the answer. The
//! window of a stream alone would bound what a stalled stream holds, and nothing how long.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use pingora::protocols::http::date::get_cached_date;
use pingora::{Error, ErrorType, Result};
use tokio::time::Instant;

use super::streams::Stream;
use crate::edge::absence::Departure;
use crate::edge::answer_deadline::LateAnswer;
use crate::edge::common::Edge;
use crate::edge::idle_place::{Awaits, GaveWay, IdlePlace};
use crate::edge::min_rate::TransferCredit;
use crate::system::buffers::Stall;
use crate::system::timer::Alarm;
use tidegate_http::fault::BodyFault;
use tidegate_http::h2::frames::SMALL;
use tidegate_http::h2::trailers;

mod absent;
mod ending;

/// What the library may hold of an answer that the socket does not take.
pub const SEND_BUFFER: usize = 32 * 1024;

/// Small pieces of a request's body that have come are joined up to this.
const JOINED_BYTES: usize = 16 * 1024;

/// A request's body and its answer.
pub struct StreamIo {
    body: RecvStream,
    /// Why the body ends early, found while its pieces were joined.
    failed: Option<h2::Error>,
    respond: SendResponse<Bytes>,
    /// Present from the head of the answer on.
    send: Option<SendStream<Bytes>>,
    /// The head of the answer was sent, or taken for a client that has gone.
    begun: bool,
    /// The answer is complete.
    ended: bool,
    /// The request has come to its end. Of a stream that was reset the library no longer says so.
    whole: bool,
    /// The head says that the body has no bytes.
    says_zero: bool,
    /// The request has the method `HEAD`, whose answer has no body.
    asks_head: bool,
    read: usize,
    sent: usize,
    /// The client waits for us to say `100 Continue`, so the pace of its upload is ours.
    holds_back: bool,
    /// Messages come when they come (gRPC): only the deadline of the answer counts.
    unhurried: bool,
    /// When the rest of the request must have come, once the answer is complete.
    rest: Option<Instant>,
    upload: TransferCredit,
    download: TransferCredit,
    stall: Stall,
    idle_place: IdlePlace,
    deadline: Alarm,
    departure: Departure,
    stream: Arc<Stream>,
    edge: Arc<Edge>,
}

impl StreamIo {
    /// The body of the request with this head, and the way back.
    pub fn new(
        (head, expect_continue): (&Parts, bool),
        body: RecvStream,
        respond: SendResponse<Bytes>,
        stream: Arc<Stream>,
        edge: Arc<Edge>,
    ) -> StreamIo {
        let media = head.headers.get(header::CONTENT_TYPE).map_or(b"".as_slice(), HeaderValue::as_bytes);
        let whole = body.is_end_stream();
        let limits = &edge.limits;
        StreamIo {
            holds_back: expect_continue && !whole,
            unhurried: media.starts_with(b"application/grpc"),
            asks_head: head.method == Method::HEAD,
            says_zero: head.headers.get(header::CONTENT_LENGTH).is_some_and(|length| length == "0"),
            respond,
            send: None,
            begun: false,
            ended: false,
            whole,
            body,
            failed: None,
            read: 0,
            sent: 0,
            upload: TransferCredit::new(limits.least_rate, limits.body_time),
            download: TransferCredit::new(limits.least_answer_rate, limits.answer_time),
            stall: Stall::default(),
            idle_place: IdlePlace::default(),
            rest: None,
            deadline: Alarm::default(),
            departure: Departure::default(),
            stream,
            edge,
        }
    }

    /// The stream, as the gate sees it.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Whether the head of the answer was taken.
    pub fn has_begun(&self) -> bool {
        self.begun || self.ended
    }

    /// Bytes of the request's body so far.
    pub fn bytes_read(&self) -> usize {
        self.read
    }

    /// Bytes of the answer's body so far, those included that were thrown away.
    pub fn bytes_sent(&self) -> usize {
        self.sent
    }

    /// Changes its alarm for another: one that has rung for requests before is cheaper than a new one.
    pub fn swap_alarm(&mut self, alarm: &mut Alarm) {
        std::mem::swap(&mut self.deadline, alarm);
    }

    /// `Ready` when the answer should have begun by now and has not.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.stream.client().deadline.at() {
            Some(deadline) if !self.begun => self.deadline.poll(deadline, cx),
            _ => Poll::Pending,
        }
    }

    /// The next piece of the request's body; none at its end.
    ///
    /// # Errors
    /// The client has gone or is too slow, its trailers are refused, or the answer is late.
    pub fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        if self.poll_deadline(cx).is_ready() {
            return Poll::Ready(Err(late()));
        }
        if self.ended {
            // the client has its answer, and somebody may hold a place for the rest of what it sends
            let rest = *self.rest.get_or_insert_with(|| Instant::now() + self.edge.limits.linger);
            if self.deadline.poll(rest, cx).is_ready() {
                return Poll::Ready(Err(gone(ErrorType::ReadTimedout, "the rest of a request that was answered")));
            }
        }
        let piece = match self.failed.take() {
            Some(error) => Poll::Ready(Some(Err(error))),
            None => self.body.poll_data(cx).map_ok(|first| self.joined(first, cx)),
        };
        match piece {
            Poll::Ready(Some(Ok(data))) => {
                // the window opens as fast as the body goes on
                if self.body.flow_control().release_capacity(data.len()).is_err() {
                    return Poll::Ready(Err(gone(ErrorType::ReadError, "the stream is closed")));
                }
                self.read += data.len();
                self.whole |= self.body.is_end_stream();
                self.upload.progressed(data.len());
                self.idle_place.moved(data.len());
                if !self.unhurried && !self.body.is_end_stream() && self.upload.is_over() {
                    return Poll::Ready(Err(self.fault(ErrorType::ReadError, BodyFault::LateUpload)));
                }
                Poll::Ready(Ok(Some(data)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(broken(ErrorType::ReadError, error))),
            Poll::Ready(None) => {
                ready!(self.poll_trailers(cx))?;
                self.idle_place.moved(0);
                self.whole = true;
                Poll::Ready(Ok(None))
            }
            Poll::Pending if self.may_pause() => {
                self.idle_place.moved(0);
                Poll::Pending
            }
            Poll::Pending => {
                if self.idle_place.poll_lent(&self.stream.client().lent, Awaits::Upload, cx).is_ready() {
                    return Poll::Ready(Err(GaveWay::error()));
                }
                ready!(self.upload.poll_wait(cx));
                let late = self.upload.is_over();
                let fault = if late { BodyFault::LateUpload } else { BodyFault::SlowUpload };
                Poll::Ready(Err(self.fault(ErrorType::ReadError, fault)))
            }
        }
    }

    /// Whether the client may take its time with its body: it waits for `100 Continue`, or sends messages as they come; and once the answer has
    /// begun both sides may have nothing to say for a while.
    pub fn may_pause(&self) -> bool {
        self.holds_back || self.unhurried || self.begun
    }

    /// Joins a small piece with those that have come behind it: each piece that goes on costs a write. Nothing is
    /// waited for.
    fn joined(&mut self, first: Bytes, cx: &mut Context<'_>) -> Bytes {
        let is_small = |piece: &Bytes| u32::try_from(piece.len()).is_ok_and(|length| length < SMALL);
        if !is_small(&first) || self.body.is_end_stream() {
            self.stream.streams().took_small_frames(u32::from(is_small(&first)));
            return first;
        }
        let (mut small, mut joined) = (1, BytesMut::from(first));
        while joined.len() < JOINED_BYTES {
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(more))) => {
                    small += u32::from(is_small(&more));
                    joined.extend_from_slice(&more);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.failed = Some(error);
                    break;
                }
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        self.stream.streams().took_small_frames(small);
        joined.freeze()
    }

    /// The end of the body: there are no trailers, or such as may be there. They go no further.
    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let trailers = match ready!(self.body.poll_trailers(cx)) {
            Ok(Some(trailers)) => trailers,
            Err(error) => return Poll::Ready(Err(broken(ErrorType::ReadError, error))),
            Ok(None) => return Poll::Ready(Ok(())),
        };
        let bad = self.stream.streams().has_bad_trailers(self.body.stream_id().as_u32());
        if bad || !trailers::are_harmless(&trailers) {
            return Poll::Ready(Err(self.refuse_body(ErrorType::ReadError, BodyFault::Trailer)));
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing is to be read: ready when the client has gone, or its answer is late.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>> {
        if self.poll_deadline(cx).is_ready() {
            return Poll::Ready(late());
        }
        if self.is_gone() {
            return self.departure.poll_over(cx).map(|()| enough());
        }
        let reset = ready!(match &mut self.send {
            Some(send) => send.poll_reset(cx),
            None => self.respond.poll_reset(cx),
        });
        if self.leave() {
            return self.departure.poll_over(cx).map(|()| enough());
        }
        Poll::Ready(match reset {
            Ok(reason) => gone(ErrorType::ConnectionClosed, &format!("the client reset the stream: {reason}")),
            Err(error) => broken(ErrorType::ConnectionClosed, error),
        })
    }

    /// Takes the head of an answer, or an interim one. `end`: no body follows.
    ///
    /// # Errors
    /// The client has gone.
    pub fn put_head(&mut self, mut head: Response<()>, end: bool) -> Result<()> {
        if self.has_begun() {
            return Ok(());
        }
        strip(head.headers_mut());
        let interim = head.status().is_informational();
        if self.is_gone() {
            return if interim { Ok(()) } else { self.discard_head(end) };
        }
        if interim {
            if head.status() == StatusCode::CONTINUE {
                self.holds_back = false;
            }
            // an interim answer that cannot be sent is one that the client has no use for any more
            let _ = self.respond.send_informational(head);
            return Ok(());
        }
        self.holds_back = false;
        head.headers_mut().insert(header::DATE, get_cached_date());
        // whoever writes it may say that it ends only when it ends; gRPC takes a status for one only in a head that says so itself
        let end = end
            || self.asks_head
            || matches!(head.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            || head.headers().get(header::CONTENT_LENGTH).is_some_and(|length| length == "0");
        match self.respond.send_response(head, end) {
            Ok(send) => self.send = Some(send),
            Err(_) if self.leave() => return self.discard_head(end),
            Err(error) => return Err(broken(ErrorType::WriteError, error)),
        }
        self.begun = true;
        self.idle_place.moved(0);
        self.ended = end;
        Ok(())
    }

    /// Takes a piece of the answer's body, as fast as the client does. `end`: it is the last.
    ///
    /// # Errors
    /// The client has gone or is too slow.
    pub async fn put_body(&mut self, mut data: Bytes, end: bool) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        if data.is_empty() {
            return if end { self.put_end() } else { Ok(()) };
        }
        while !data.is_empty() {
            if self.is_gone() {
                return self.discard(data.len(), end);
            }
            let room = match poll_fn(|cx| self.poll_room(data.len(), cx)).await {
                Err(_) if self.leave() => continue,
                room => room?,
            };
            let piece = data.split_to(room.min(data.len()));
            self.sent += piece.len();
            let ends = end && data.is_empty();
            let Some(send) = &mut self.send else { return Err(headless()) };
            match send.send_data(piece, ends) {
                Err(_) if self.leave() => return self.discard(data.len(), end),
                sent => sent.map_err(|error| broken(ErrorType::WriteError, error))?,
            }
            self.ended = ends;
        }
        Ok(())
    }

    /// How many bytes of so many the client and the socket have room for, above zero.
    fn poll_room(&mut self, wanted: usize, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        let Some(send) = &mut self.send else { return Poll::Ready(Err(headless())) };
        send.reserve_capacity(wanted);
        loop {
            match send.poll_capacity(cx) {
                // a window that was taken back between two looks
                Poll::Ready(Some(Ok(0))) => {}
                Poll::Ready(Some(Ok(room))) => {
                    self.download.progressed(room.min(wanted));
                    self.stall.over();
                    self.idle_place.moved(room.min(wanted));
                    return Poll::Ready(Ok(room));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(broken(ErrorType::WriteError, error))),
                Poll::Ready(None) => {
                    return Poll::Ready(Err(gone(ErrorType::WriteError, "the stream is closed")));
                }
                Poll::Pending => break,
            }
        }
        if self.stall.poll_cut(&self.stream.client().share, cx).is_ready() {
            return Poll::Ready(Err(self.refuse_body(ErrorType::WriteError, BodyFault::BuffersFull)));
        }
        if self.idle_place.poll_lent(&self.stream.client().lent, Awaits::Room(None), cx).is_ready() {
            return Poll::Ready(Err(GaveWay::error()));
        }
        ready!(self.download.poll_wait(cx));
        let fault = if self.download.is_over() { BodyFault::LateDownload } else { BodyFault::SlowDownload };
        Poll::Ready(Err(self.fault(ErrorType::WriteError, fault)))
    }

    /// Takes what follows the body.
    ///
    /// # Errors
    /// The client has gone.
    pub fn put_trailers(&mut self, mut trailers: HeaderMap) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        strip(&mut trailers);
        if self.is_gone() {
            return self.discard(0, true);
        }
        let Some(send) = &mut self.send else { return Err(headless()) };
        send.send_trailers(trailers).map_err(|error| broken(ErrorType::WriteError, error))?;
        self.ended = true;
        Ok(())
    }

    /// Ends the answer if it has begun.
    ///
    /// # Errors
    /// The client has gone.
    pub fn put_end(&mut self) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        if self.is_gone() {
            return self.discard(0, true);
        }
        let Some(send) = &mut self.send else { return Ok(()) };
        send.send_data(Bytes::new(), true).map_err(|error| broken(ErrorType::WriteError, error))?;
        self.ended = true;
        Ok(())
    }

    /// Notes that nothing was gathered of what has come of the answer: the client's window and the library have it.
    pub fn note_taken(&self) {
        self.stream.client().share.taken(self.sent.min(SEND_BUFFER));
    }

    /// Whether the request has come to its end and was read.
    pub fn is_body_complete(&self) -> bool {
        self.whole || self.has_no_body() || self.body.is_end_stream()
    }

    /// Whether the request has no body.
    pub fn has_no_body(&self) -> bool {
        self.read == 0 && (self.whole || self.says_zero || self.body.is_end_stream())
    }

    /// Keeps in mind that the request has ended: the library says so of a stream only until its connection is cut, and what was
    /// said of the body must stay true, or the origin waits for an end that never comes.
    pub fn note_end(&mut self) {
        self.whole = self.whole || self.body.is_end_stream();
    }

    /// Gives the stream up; whoever reads the answer can tell that it is not whole.
    pub fn cut(&mut self) {
        if !self.ended {
            self.respond.send_reset(Reason::INTERNAL_ERROR);
            self.ended = true;
        }
    }

    /// The client is too slow: it is counted, and takes no new requests on this connection.
    fn fault(&mut self, kind: ErrorType, fault: BodyFault) -> Box<Error> {
        self.stream.leave();
        self.refuse_body(kind, fault)
    }

    fn refuse_body(&self, kind: ErrorType, fault: BodyFault) -> Box<Error> {
        self.edge.events.body_refused(fault);
        self.edge.events.noticed(fault.reason(), self.stream.client().info.peer);
        Error::because(kind, "the body of the request", io::Error::from(fault)).into_down()
    }
}

/// Takes out what concerns a connection of HTTP/1 only (RFC 9113 section 8.2.2).
fn strip(fields: &mut HeaderMap) {
    let concerns = |name: &HeaderName| match *name {
        header::CONNECTION | header::TRANSFER_ENCODING | header::UPGRADE | header::TE => true,
        _ => matches!(name.as_str(), "keep-alive" | "proxy-connection"),
    };
    // mostly one at most, and most fields are told apart by a number
    while let Some(name) = fields.keys().find(|name| concerns(name)).cloned() {
        fields.remove(name);
    }
}

fn late() -> Box<Error> {
    Error::because(ErrorType::ReadError, "awaiting the answer", io::Error::from(LateAnswer)).into_down()
}

fn gone(kind: ErrorType, what: &str) -> Box<Error> {
    Error::explain(kind, what.to_owned()).into_down()
}

fn broken(kind: ErrorType, error: h2::Error) -> Box<Error> {
    Error::because(kind, "on a stream of the client", error).into_down()
}

/// The client has gone, and as much of its answer as is awaited has come.
fn enough() -> Box<Error> {
    gone(ErrorType::ConnectionClosed, "the client has gone, and the rest of its answer is not awaited")
}

fn headless() -> Box<Error> {
    Error::explain(ErrorType::InternalError, "a body without a head")
}

impl Drop for StreamIo {
    fn drop(&mut self) {
        // without an answer the library would say that we cancelled, which a client may take for its own doing
        if !self.begun {
            self.cut();
        }
    }
}
