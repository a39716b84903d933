//! The bytes of a connection on their way to and from the library that speaks HTTP/2, with every frame counted.
//!
//! The library is handed the head of one request at a time: what came behind it in the same read stays here until the
//! [loop](super::connection) has taken the request. So however many heads come in one packet, no more than one of them is
//! unpacked and not yet judged, and the memory for heads can be budgeted. All other bytes go straight from the kernel to
//! where the library wants them.
//!
//! A peer that does not take what is written to it is given up by the same credit as in HTTP/1.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrayvec::ArrayVec;
use bytes::{Buf, BytesMut};
use h2::Reason;
use pingora::protocols::IO;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::streams::Streams;
use crate::edge::min_rate::TransferCredit;
use crate::system::timer::Alarm;
use tidegate_http::fault::{BodyFault, HeadFault};
use tidegate_http::h2::field_names::FieldNames;
use tidegate_http::h2::frames::{Account, Found, Kind, Scanner, Violation};

/// How soon a client with too many small frames is looked at again if none is taken.
const CHOKED: Duration = Duration::from_millis(50);

/// What the loop must know of the bytes. One task owns both ends, but the library keeps the tap to itself; the values are
/// atomic for that reason alone, and nothing needs to be ordered.
#[derive(Debug)]
pub struct TapState {
    epoch: Instant,
    /// The head of a request has been handed on, and nothing more is until the loop has looked.
    held: AtomicBool,
    /// The stream of the last request that the loop took.
    taken: AtomicU32,
    /// Heads that the library answered by itself because they unpack to too much; the loop has not seen them yet.
    answered: AtomicU32,
    /// Heads whose streams the library reset for their form; the loop has not seen them yet.
    unread: AtomicU32,
    /// One more than the place in [`Violation::ALL`]; zero for none.
    abuse: AtomicU8,
    /// Nanoseconds after the epoch, plus one; zero for none.
    head_since: AtomicU64,
    /// When a part of an answer last went out, in nanoseconds after the epoch.
    written: AtomicU64,
    /// Streams that we have reset.
    resets: AtomicU32,
    /// The type of the client's last frame, as a place in [`Kind::ALL`].
    last: AtomicU8,
}

impl TapState {
    /// Of a connection that begins.
    pub fn new(epoch: Instant) -> Arc<TapState> {
        Arc::new(TapState {
            epoch,
            held: AtomicBool::new(false),
            taken: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            unread: AtomicU32::new(0),
            abuse: AtomicU8::new(0),
            head_since: AtomicU64::new(0),
            written: AtomicU64::new(0),
            resets: AtomicU32::new(0),
            last: AtomicU8::new(u8::MAX),
        })
    }

    /// Lets the next head through; says whether one was held back, or may have been.
    pub fn release(&self) -> bool {
        self.held.swap(false, Ordering::Relaxed)
    }

    /// The loop has the request of this stream: whatever is answered on it is ours.
    pub fn take(&self, stream: u32) {
        self.taken.store(stream, Ordering::Relaxed);
    }

    /// The heads that the library has refused by itself since this was last asked.
    pub fn refused_by_library(&self) -> impl Iterator<Item = HeadFault> + use<> {
        let some = |fault, count: &AtomicU32| (0..count.swap(0, Ordering::Relaxed)).map(move |_| fault);
        some(HeadFault::TooLarge, &self.answered).chain(some(HeadFault::Stream, &self.unread))
    }

    /// Why nothing more is read from the client, if that is so.
    pub fn abuse(&self) -> Option<Violation> {
        Violation::ALL.get(usize::from(self.abuse.load(Ordering::Relaxed)).checked_sub(1)?).copied()
    }

    /// From now on nothing is read from the client any more.
    pub fn stop(&self, abuse: Violation) {
        let place = Violation::ALL.iter().position(|known| *known == abuse).unwrap_or_default();
        self.abuse.store(u8::try_from(place + 1).unwrap_or(u8::MAX), Ordering::Relaxed);
    }

    /// Since when a block of header fields is incomplete.
    pub fn head_since(&self) -> Option<Instant> {
        let nanos = self.head_since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.epoch + Duration::from_nanos(nanos))
    }

    /// How many streams we have reset.
    pub fn resets(&self) -> u32 {
        self.resets.load(Ordering::Relaxed)
    }

    /// When a part of an answer last went out.
    pub fn written(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.written.load(Ordering::Relaxed))
    }

    /// The type of the last frame that the client began; `None` before its first.
    pub fn last(&self) -> Option<Kind> {
        Kind::ALL.get(usize::from(self.last.load(Ordering::Relaxed))).copied()
    }

    /// How long the connection has been open.
    fn age(&self) -> Duration {
        self.epoch.elapsed()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// The transport with its frames counted. Goes home when the library drops it.
pub struct FrameTap<S> {
    transport: Option<S>,
    home: Option<oneshot::Sender<S>>,
    /// Bytes from the client that the library has not been given yet.
    rest: BytesMut,
    reading: Scanner,
    writing: Scanner,
    names: FieldNames,
    account: Account,
    download: TransferCredit,
    tap_state: Arc<TapState>,
    /// The stream of the last head that was handed on.
    last_head: u32,
    /// Streams whose head the library refused; the connection ends before there is no room for another.
    refused: ArrayVec<u32, 128>,
    streams: Arc<Streams>,
    /// Rings while nothing is read because of small frames.
    choked: Alarm,
}

impl<S> FrameTap<S> {
    /// Over a transport of which these bytes have been read already; and where it arrives in the end.
    pub fn new(
        transport: S,
        first: BytesMut,
        preface: usize,
        account: Account,
        download: TransferCredit,
        tap_state: Arc<TapState>,
        streams: Arc<Streams>,
    ) -> (FrameTap<S>, oneshot::Receiver<S>) {
        let (home, arrivals) = oneshot::channel();
        let tap = FrameTap {
            transport: Some(transport),
            home: Some(home),
            rest: first,
            reading: Scanner::new(preface),
            writing: Scanner::new(0),
            names: FieldNames::new(),
            account,
            download,
            tap_state,
            last_head: 0,
            refused: ArrayVec::new(),
            streams,
            choked: Alarm::default(),
        };
        (tap, arrivals)
    }

    /// How many of these bytes the library may have now.
    fn admit(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        let mut passed = 0;
        loop {
            let fields = self.account.head_since().is_some();
            let (more, found) = self.reading.next(bytes.get(passed..).unwrap_or_default());
            if fields {
                self.names.feed(bytes.get(passed..passed + more).unwrap_or_default());
            }
            passed += more;
            match found {
                None => return Ok(passed),
                Some(Found::Begun(frame)) => {
                    self.tap_state.last.store(frame.kind as u8, Ordering::Relaxed);
                    self.account.begun(frame, self.tap_state.age())?;
                    self.names.begun(frame);
                    if frame.kind == Kind::Data && self.account.is_choked() {
                        return Ok(passed);
                    }
                    let since = self.account.head_since().map_or(0, |since| nanos(since) + 1);
                    self.tap_state.head_since.store(since, Ordering::Relaxed);
                }
                Some(Found::Ended(frame)) => {
                    let opens = self.account.ended(frame);
                    let bad = !opens && frame.ends_headers() && self.names.found();
                    if bad && !self.streams.note_bad_trailers(frame.stream) {
                        return Err(Violation::Protocol);
                    }
                    if self.account.head_since().is_none() {
                        self.tap_state.head_since.store(0, Ordering::Relaxed);
                    }
                    if opens {
                        self.note_head(frame.stream);
                        self.tap_state.held.store(true, Ordering::Relaxed);
                        return Ok(passed);
                    }
                }
            }
        }
    }

    /// Another head is handed on: the one before it has been taken by now, or the library has refused it.
    fn note_head(&mut self, stream: u32) {
        if self.last_head != 0 && self.tap_state.taken.load(Ordering::Relaxed) != self.last_head {
            let _ = self.refused.try_push(self.last_head);
        }
        self.last_head = stream;
    }

    /// Whether an answer on this stream is the library's own, be it a head or a reset. True once for each.
    fn is_of_library(&mut self, stream: u32) -> bool {
        if stream == self.last_head {
            let is_taken = self.tap_state.taken.load(Ordering::Relaxed) == stream;
            if !is_taken {
                self.last_head = 0;
            }
            return !is_taken;
        }
        let refused = self.refused.iter().position(|refused| *refused == stream);
        refused.and_then(|place| self.refused.swap_pop(place)).is_some()
    }

    fn note_sent(&mut self, parts: &[IoSlice<'_>], sent: usize) {
        self.download.progressed(sent);
        let mut left = sent;
        let mut answers = self.writing.is_inside_an_answer();
        for part in parts {
            let mut bytes = part.get(..left).unwrap_or(part);
            left -= bytes.len();
            loop {
                let (passed, found) = self.writing.next(bytes);
                let (frame_bytes, rest) = bytes.split_at_checked(passed).unwrap_or_default();
                bytes = rest;
                match found {
                    Some(Found::Begun(frame)) => {
                        self.account.sent(frame);
                        answers |= frame.is_of_an_answer();
                        if frame.kind == Kind::Headers && self.is_of_library(frame.stream) {
                            self.tap_state.answered.fetch_add(1, Ordering::Relaxed);
                        }
                        if frame.kind == Kind::Reset {
                            self.tap_state.resets.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Some(Found::Ended(frame)) if frame.kind == Kind::Reset && self.is_of_library(frame.stream) => {
                        // the last byte of the code tells all codes apart; one stream too many is no fault of the head
                        if frame_bytes.last().copied().map(u32::from) != Some(Reason::REFUSED_STREAM.into()) {
                            self.tap_state.unread.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Some(Found::Ended(_)) => {}
                    None => break,
                }
            }
        }
        // a PING that we answer does not keep an idle connection
        if answers {
            self.tap_state.written.store(nanos(self.tap_state.age()), Ordering::Relaxed);
        }
    }

    /// `Pending` while too many small frames wait for the proxy to take them.
    fn poll_small_frames(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.account.is_choked() {
            return Poll::Ready(());
        }
        self.account.relieve(self.streams.small_frames_taken(), self.tap_state.age());
        if !self.account.is_choked() {
            return Poll::Ready(());
        }
        self.streams.choke();
        self.choked.poll(Instant::now() + CHOKED, cx)
    }

    /// The client does not take what we have for it.
    fn poll_patience<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        ready!(self.download.poll_wait(cx));
        self.tap_state.stop(Violation::Stalled);
        Poll::Ready(Err(BodyFault::SlowDownload.into()))
    }
}

fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl<S: IO> AsyncRead for FrameTap<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.poll_small_frames(cx));
        if this.tap_state.held.load(Ordering::Relaxed) || this.tap_state.abuse().is_some() {
            // the loop looks at both after every turn and polls again
            return Poll::Pending;
        }
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if this.rest.is_empty() {
            let before = buf.filled().len();
            let transport = this.transport.as_mut().ok_or_else(gone)?;
            ready!(Pin::new(transport).poll_read(cx, buf))?;
            let fresh = buf.filled().get(before..).unwrap_or_default();
            match this.admit(fresh) {
                Ok(passed) => {
                    this.rest.extend_from_slice(fresh.get(passed..).unwrap_or_default());
                    buf.set_filled(before + passed);
                    Poll::Ready(Ok(()))
                }
                Err(abuse) => {
                    buf.set_filled(before);
                    this.tap_state.stop(abuse);
                    Poll::Pending
                }
            }
        } else {
            let mut rest = std::mem::take(&mut this.rest);
            let offered = rest.get(..buf.remaining()).unwrap_or(&rest);
            match this.admit(offered) {
                Ok(passed) => {
                    buf.put_slice(offered.get(..passed).unwrap_or_default());
                    rest.advance(passed);
                    if !rest.is_empty() {
                        this.rest = rest;
                    }
                    Poll::Ready(Ok(()))
                }
                Err(abuse) => {
                    this.tap_state.stop(abuse);
                    Poll::Pending
                }
            }
        }
    }
}

impl<S: IO> AsyncWrite for FrameTap<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let transport = this.transport.as_mut().ok_or_else(gone)?;
        let attempt = match parts {
            [only] => Pin::new(transport).poll_write(cx, only),
            _ => Pin::new(transport).poll_write_vectored(cx, parts),
        };
        match attempt {
            Poll::Ready(Ok(sent)) => {
                this.note_sent(parts, sent);
                Poll::Ready(Ok(sent))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.poll_patience(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let transport = this.transport.as_mut().ok_or_else(gone)?;
        match Pin::new(transport).poll_flush(cx) {
            Poll::Pending => this.poll_patience(cx),
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let transport = self.transport.as_mut().ok_or_else(gone)?;
        Pin::new(transport).poll_shutdown(cx)
    }
}

impl<S> Drop for FrameTap<S> {
    fn drop(&mut self) {
        if let (Some(transport), Some(home)) = (self.transport.take(), self.home.take()) {
            // nobody waits for it when the whole connection task is being dropped: then it closes here
            drop(home.send(transport));
        }
    }
}
