//! A client's connection as Pingora sees it: one request at a time, and never a byte more.
//!
//! [`Wire`] keeps account of every byte of the current request. Pingora may read exactly its body, small chunks joined to
//! larger ones: what follows stays in the [inbox](Wire::inbox) for the next round, so that a pipelined request neither disturbs the one before it nor gets
//! lost, and what is left of a body can never be taken for a request. While the answer is awaited Pingora polls the
//! connection to see whether the client has gone: it is told the truth about a close, and nothing about further requests. Where the
//! answer of a client that has gone is awaited ([`absence`](super::absence)), the connection is closed and Pingora is told nothing.
//!
//! Small writes are gathered as Pingora's own stream would do (its buffer can only be sized from inside Pingora); a large
//! one takes what was gathered along in the same system call.
//!
//! [`EdgeStream`] is the handle given to Pingora, which drops it wherever it likes. The wire survives that: it goes home
//! to the connection loop, which closes it in a way that lets the client read its answer.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use pingora::protocols::IO;
use tokio::io::ReadBuf;
use tokio::sync::oneshot;

use super::absence::Departure;
use super::answer_deadline::LateAnswer;
use super::client_side::ClientSide;
use super::common::Edge;
use super::connection_info::ConnectionInfo;
use super::idle_place::{Awaits, IdlePlace};
use super::min_rate::TransferCredit;
use crate::system::buffers::{SWITCHED_READ, Stall, poll_piece};
use tidegate_http::fault::{BodyFault, HeadFault};
use tidegate_http::head::{self, Head, HeadLimits};
use tidegate_http::ranges::LineRanges;

mod absent;
mod begin;
mod body;
mod delegate;
mod left;
mod parts;
mod reading;
mod spare;
mod waiting;

use parts::send_parts;
use reading::Reading;

/// What one read takes from the kernel when the bytes go to the inbox.
const READ_BYTES: usize = 4096;
/// How much of later requests is taken in while one is answered. Beyond this the client waits in the kernel's buffers,
/// and its disappearance is noticed at the next write.
const PIPELINED_BYTES: usize = 16 * 1024;
/// Small writes are gathered up to this: a segment, as in Pingora, so that a trickling answer is not held back for long.
const GATHERED_BYTES: usize = 1460;

/// How far the answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// No final status has been written.
    Awaited,
    /// One has.
    Begun,
}

/// One client connection, with its bytes accounted for.
pub struct Wire<S> {
    /// Gone once the client has left a request whose answer is awaited.
    transport: Option<S>,
    /// Bytes from the client that nobody has read yet.
    inbox: BytesMut,
    /// Where the lines of the head at their front stand, once it was judged.
    lines: LineRanges,
    /// Bytes to the client that have not been sent yet.
    outbox: BytesMut,
    reading: Reading,
    answer: Answer,
    may_switch: bool,
    /// The client waits for us to say `100 Continue`, so the pace of its upload is ours.
    holds_back: bool,
    /// The client has closed its side, or the connection is broken.
    ended: bool,
    upload: TransferCredit,
    download: TransferCredit,
    stall: Stall,
    idle_place: IdlePlace,
    /// A part of the answer's body was written since the client was last found to have taken all.
    owes: bool,
    /// Of the transport's bytes: how many had left when this was last looked at.
    sent: u64,
    hop_by_hop: bool,
    /// The present request was refused. Atomic for the reason that [`ClientSide`] gives.
    refused: AtomicBool,
    departure: Departure,
    /// How large the body may be, until the chunks have been told; `u64::MAX`: any size. Atomic for the same reason.
    body_limit: AtomicU64,
    client: ClientSide,
    edge: Arc<Edge>,
}

impl<S: IO> Wire<S> {
    /// A new connection, of which these bytes have been read already.
    pub fn new(transport: S, first: BytesMut, info: Arc<ConnectionInfo>, edge: Arc<Edge>) -> Wire<S> {
        let limits = &edge.limits;
        let upload = TransferCredit::new(limits.least_rate, limits.body_time);
        let download = TransferCredit::new(limits.least_answer_rate, limits.answer_time);
        Wire {
            transport: Some(transport),
            inbox: first,
            lines: LineRanges::default(),
            outbox: BytesMut::new(),
            reading: Reading::Complete,
            answer: Answer::Awaited,
            may_switch: false,
            holds_back: false,
            ended: false,
            upload,
            download,
            stall: Stall::default(),
            idle_place: IdlePlace::default(),
            owes: false,
            sent: 0,
            hop_by_hop: true,
            refused: AtomicBool::new(false),
            departure: Departure::default(),
            body_limit: AtomicU64::new(u64::MAX),
            client: ClientSide::new(info),
            edge,
        }
    }

    /// The client's side of the present request.
    pub fn client(&self) -> &ClientSide {
        &self.client
    }

    /// Bytes of the next request, as far as they have come.
    pub fn inbox(&self) -> &[u8] {
        &self.inbox
    }

    /// Whether the request was refused, so that the next one is judged at the edge.
    pub fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the request has been read to its end, so that what follows is the next one.
    pub fn is_between_requests(&self) -> bool {
        self.reading == Reading::Complete
    }

    /// Gives back the memory of empty buffers: an idle connection should hold none.
    pub fn release_buffers(&mut self) {
        for buffer in [&mut self.inbox, &mut self.outbox] {
            if buffer.is_empty() && buffer.capacity() > 0 {
                spare::put(mem::take(buffer));
            }
        }
        if self.inbox.is_empty() && self.lines.capacity() > 0 {
            spare::put_lines(mem::take(&mut self.lines));
        }
    }

    /// Judges the head at the front of the inbox, and notes where its lines stand.
    ///
    /// # Errors
    /// As [`head::parse`].
    pub fn parse(&mut self, limits: &HeadLimits) -> Result<Option<Head>, HeadFault> {
        if self.lines.capacity() == 0 {
            self.lines = spare::take_lines();
        }
        let parsed = head::parse_noting(&self.inbox, limits, &mut self.lines);
        if let Ok(Some(head)) = &parsed
            && head.empty_port
        {
            head::drop_empty_port(self.inbox.get_mut(..head.end).unwrap_or_default());
        }
        parsed
    }

    /// Where the lines of that head stand.
    pub fn lines(&self) -> &LineRanges {
        &self.lines
    }

    /// Reads some bytes into the inbox and says how many; 0 at the end of the stream.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let mut taken = ReadBuf::uninit(&mut space);
        ready!(self.poll_transport(cx, &mut taken))?;
        if self.inbox.capacity() == 0 {
            self.inbox = spare::take();
        }
        self.inbox.extend_from_slice(taken.filled());
        Poll::Ready(Ok(taken.filled().len()))
    }

    /// Reads some bytes, throws them away and says how many; 0 at the end of the stream.
    pub fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let mut taken = ReadBuf::uninit(&mut space);
        ready!(self.poll_transport(cx, &mut taken))?;
        Poll::Ready(Ok(taken.filled().len()))
    }

    fn poll_transport(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let most = if self.reading == Reading::Switched { SWITCHED_READ } else { usize::MAX };
        let read = match &mut self.transport {
            Some(transport) => ready!(poll_piece(transport, cx, buf, most)),
            None => Ok(()),
        };
        if read.is_err() || buf.filled().len() == before {
            self.ended = true;
        }
        Poll::Ready(read)
    }

    /// Reads some of the body, one in chunks as one chunk; nothing at the end of the stream. Of a request that was read to its end: as
    /// [`Wire::poll_gone`].
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if self.reading == Reading::Complete {
            return self.poll_gone(cx);
        }
        ready!(self.poll_late(cx))?;
        if let Reading::Broken(fault) = self.reading {
            return Poll::Ready(Err(fault.into()));
        }
        match self.poll_body(cx, buf) {
            Poll::Pending if self.holds_back || self.reading == Reading::Switched => {
                self.idle_place.moved(0);
                Poll::Pending
            }
            Poll::Pending => {
                // once the answer has begun both sides may have nothing to say for a while
                match self.answer {
                    Answer::Awaited => self.poll_idle(Awaits::Upload, cx)?,
                    Answer::Begun => self.idle_place.moved(0),
                }
                ready!(self.upload.poll_wait(cx));
                let late = self.upload.is_over();
                Poll::Ready(Err(self.fault(if late { BodyFault::LateUpload } else { BodyFault::SlowUpload })))
            }
            Poll::Ready(Ok(taken)) => {
                self.idle_place.moved(taken);
                self.upload.progressed(taken);
                let goes_on = matches!(self.reading, Reading::Length(_) | Reading::Chunked(_));
                if goes_on && self.upload.is_over() {
                    return Poll::Ready(Err(self.broken(BodyFault::LateUpload)));
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }

    /// Ready with an error when the answer is late, at once if it is not.
    pub fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let late = self.answer == Answer::Awaited && self.client.deadline.poll(cx).is_ready();
        Poll::Ready(if late { Err(LateAnswer.into()) } else { Ok(()) })
    }

    /// Of a request that was read to its end: ready when the client has gone, and with [`LateAnswer`] when its answer is late.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_late(cx))?;
        self.poll_watch(cx)
    }

    /// Nothing more may be read: only the end of the stream is of interest. Bytes of later requests are kept.
    fn poll_watch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.client.absence.is_gone() && self.inbox.len() < PIPELINED_BYTES {
            let filled = ready!(self.poll_fill(cx));
            if !matches!(filled, Ok(1..)) && !self.leave() {
                return Poll::Ready(filled.map(|_| ()));
            }
        }
        self.departure.poll_over(cx).map(Ok)
    }

    /// Writes a part of the answer, or gathers it; says how many bytes it took. A head comes with one call.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        if length == 0 {
            return Poll::Ready(Ok(0));
        }
        self.holds_back = false;
        if self.client.absence.is_gone() {
            return Poll::Ready(self.discard(parts));
        }
        if self.answer == Answer::Awaited {
            // Pingora writes each head with one call. All of it is taken, so that no second half is mistaken for a head.
            self.note_status(parts.first().map_or(&[], |head| head));
            self.gather(parts);
            return Poll::Ready(Ok(length));
        }
        self.owes = true;
        loop {
            if self.outbox.len() + length <= GATHERED_BYTES {
                self.gather(parts);
                return Poll::Ready(Ok(length));
            }
            let gathered = self.outbox.len();
            let sent = match ready!(self.poll_send(cx, parts)) {
                Err(_) if self.leave() => return Poll::Ready(self.discard(parts)),
                sent => sent?,
            };
            if sent > gathered {
                return Poll::Ready(Ok(sent - gathered));
            }
        }
    }

    fn gather(&mut self, parts: &[IoSlice<'_>]) {
        for part in parts {
            self.put(part);
        }
    }

    /// Sends what can be sent.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() {
            let sent = ready!(self.poll_send(cx, &[]));
            if sent.is_err() && !self.leave() {
                return Poll::Ready(sent.map(|_| ()));
            }
        }
        let flushed = ready!(self.poll_records(cx));
        // the head alone can be flushed while the body's first pieces are counted already
        if mem::take(&mut self.owes) {
            self.client.share.taken(0);
        }
        Poll::Ready(if flushed.is_err() && self.leave() { Ok(()) } else { flushed })
    }

    /// Sends what can be sent and ends our side of the stream.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        self.transport.as_mut().map_or(Poll::Ready(Ok(())), |transport| Pin::new(transport).poll_shutdown(cx))
    }

    /// Adds to what is to be sent.
    pub fn put(&mut self, data: &[u8]) {
        if self.outbox.capacity() == 0 {
            self.outbox = spare::take();
        }
        self.outbox.extend_from_slice(data);
    }

    /// One system call for the outbox and what stands behind it; says how many bytes of both went out.
    fn poll_send(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        // a protocol that was switched to is no answer
        let switched = self.reading == Reading::Switched;
        if !switched && self.download.is_over() {
            self.ended = true;
            return Poll::Ready(Err(self.fault(BodyFault::LateDownload)));
        }
        let Some(transport) = &mut self.transport else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let attempt = if parts.is_empty() {
            // a plain send is cheaper for the kernel than one of parts
            Pin::new(transport).poll_write(cx, &self.outbox)
        } else {
            send_parts(Pin::new(transport), &self.outbox, parts, cx)
        };
        match attempt {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(sent)) => {
                self.download.progressed(sent);
                self.idle_place.moved(sent);
                self.stall.over();
                self.outbox.advance(sent.min(self.outbox.len()));
                Poll::Ready(Ok(sent))
            }
            Poll::Ready(Err(error)) => {
                self.ended = true;
                Poll::Ready(Err(error))
            }
            Poll::Pending => {
                if self.stall.poll_cut(&self.client.share, cx).is_ready() {
                    self.ended = true;
                    return Poll::Ready(Err(self.fault(BodyFault::BuffersFull)));
                }
                if let Err(gave_way) = self.poll_idle(Awaits::Room(self.connection()), cx) {
                    self.ended = true;
                    return Poll::Ready(Err(gave_way));
                }
                ready!(self.download.poll_wait(cx));
                let late = !switched && self.download.is_over();
                Poll::Ready(Err(self.fault(if late { BodyFault::LateDownload } else { BodyFault::SlowDownload })))
            }
        }
    }

    /// The start of an answer's head: a final status begins the answer, 101 to who asked for it ends HTTP.
    fn note_status(&mut self, head: &[u8]) {
        match head.get(9..12) {
            Some(b"101") => {
                self.answer = Answer::Begun;
                if self.may_switch {
                    self.reading = Reading::Switched;
                }
            }
            Some([b'1', _, _]) => {}
            _ => self.answer = Answer::Begun,
        }
    }

    fn broken(&mut self, fault: BodyFault) -> io::Error {
        self.reading = Reading::Broken(fault);
        self.fault(fault)
    }

    fn fault(&self, fault: BodyFault) -> io::Error {
        self.edge.events.body_refused(fault);
        self.edge.events.noticed(fault.reason(), self.client.info.peer);
        fault.into()
    }
}

/// The handle to a [`Wire`] that Pingora reads from, writes to and drops.
pub struct EdgeStream<S> {
    /// Present until the handle is dropped.
    wire: Option<Box<Wire<S>>>,
    home: Option<oneshot::Sender<Box<Wire<S>>>>,
}

impl<S: IO> EdgeStream<S> {
    /// The handle, and where the wire arrives when the handle is dropped.
    pub fn new(wire: Box<Wire<S>>) -> (EdgeStream<S>, oneshot::Receiver<Box<Wire<S>>>) {
        let (home, arrivals) = oneshot::channel();
        (EdgeStream { wire: Some(wire), home: Some(home) }, arrivals)
    }

    /// The wire, without a way home.
    pub fn into_wire(mut self) -> Option<Box<Wire<S>>> {
        self.wire.take()
    }

    /// The client's side of the present request.
    pub fn client(&self) -> Option<&ClientSide> {
        self.wire.as_ref().map(|wire| &wire.client)
    }

    /// Notes that the present request was refused.
    pub fn note_refusal(&self) {
        if let Some(wire) = &self.wire {
            wire.refused.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the present request's head has a field that concerns the client's connection only.
    pub fn has_hop_by_hop(&self) -> bool {
        self.wire.as_ref().is_none_or(|wire| wire.hop_by_hop)
    }

    /// Whether the present request asks for another protocol.
    pub fn may_switch(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.may_switch)
    }

    /// How large the body of the present request may be.
    pub fn limit_body(&self, limit: u64) {
        if let Some(wire) = &self.wire {
            wire.limit_body(limit);
        }
    }
}

impl<S> Drop for EdgeStream<S> {
    fn drop(&mut self) {
        if let (Some(wire), Some(home)) = (self.wire.take(), self.home.take()) {
            // nobody waits for it when the whole connection task is being dropped: then it closes here
            drop(home.send(wire));
        }
    }
}

impl<S: IO> fmt::Debug for EdgeStream<S> {
    /// The transport only: buffers hold what clients sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EdgeStream").field(&self.transport().map(|transport| transport.id())).finish()
    }
}

#[cfg(test)]
mod tests;
