//! A connection to an HTTP/1 origin as Pingora sees it: only what [`Reader`] lets through.
//!
//! The head of an answer is held back until it is complete and judged, so that Pingora's time-out for one read is the time
//! for the whole head, however it drips; a `101` also until the request is over, as Pingora would lose the switch. Everything else
//! passes as it comes, without a copy, small chunks joined to larger ones; no more than one head is ever held. Between requests
//! Pingora looks whether the origin has closed or said something; either way it then gives the connection up.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
    UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::unconstrained;

use super::reader::Reader;
use super::way::Way;
use super::wire::Wire;
use crate::edge::repack::{Failed, poll_repack};
use crate::system::buffers::poll_piece;
use tidegate_http::fault::AnswerFault;
use tidegate_http::head::Body;
use tidegate_http::ranges::LineRanges;

/// What one read takes from the kernel when a head does not come in one piece.
const READ_BYTES: usize = 4096;

/// The connection.
pub struct OriginStream<S = Wire> {
    wire: S,
    reader: Reader,
    /// Bytes that came and were not passed on: the beginning of a head, a head whose reader has a small buffer, or chunks that
    /// came with their head.
    inbox: BytesMut,
    /// How many of them may be passed on.
    passed: usize,
    /// Who waits for the request to be over.
    waiting: Option<Waker>,
    way: Arc<Way>,
    /// The [key](Way::key) of the way when it was made.
    key: u64,
    digest: Arc<SocketDigest>,
}

impl<S: AsRawFd> OriginStream<S> {
    /// A connection that stands, nothing sent yet. `key`: the [key](Way::key) of the way before it was made.
    pub fn new(wire: S, way: Arc<Way>, key: u64) -> OriginStream<S> {
        let digest = Arc::new(SocketDigest::from_raw_fd(wire.as_raw_fd()));
        OriginStream { wire, reader: Reader::new(), inbox: BytesMut::new(), passed: 0, waiting: None, way, key, digest }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> OriginStream<S> {
    /// The key of what it may be used for.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether the last answer has ended.
    pub fn has_answered(&self) -> bool {
        self.reader.has_answered()
    }

    /// Whether another request may be sent, as far as is known without a look.
    pub fn is_ready(&self) -> bool {
        self.reader.is_between_requests() && !self.reader.is_spoilt()
    }

    /// A request is about to be sent whose head is so long: what [`Reader::asking`] says. The connection was found quiet a moment ago.
    pub fn asking(&mut self, head: usize, body: Body, no_body: bool) {
        self.reader.asking(head, body, no_body);
    }

    /// The length of the next head among what was read, and where its lines stand, if that is known.
    pub fn next_head(&self) -> Option<(usize, &LineRanges)> {
        self.reader.next_head()
    }

    /// The next head was taken out of what was read.
    pub fn took_head(&mut self) {
        self.reader.took_head();
    }

    /// Whether another request may be sent: nothing has come, and it was not closed, since the last answer has ended.
    pub fn is_quiet(&mut self) -> bool {
        if !self.reader.is_between_requests() {
            return false;
        }
        let mut space = [MaybeUninit::uninit(); 1];
        let mut byte = ReadBuf::uninit(&mut space);
        // a task that has done much already would be told that nothing has come
        let look = unconstrained(poll_fn(|cx| Pin::new(&mut *self).poll_read(cx, &mut byte)));
        pin!(look).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Nothing may come before the first byte of a request is sent. What Pingora saw when it took the connection from its
    /// pool may be a moment old.
    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); 1];
        let mut byte = ReadBuf::uninit(&mut space);
        match Pin::new(&mut self.wire).poll_read(cx, &mut byte) {
            Poll::Ready(Ok(())) if !byte.filled().is_empty() => Err(AnswerFault::Unasked.into()),
            // an end or an error shows again when the answer is read; only there does Pingora take it for a kept connection
            // that was closed, after which the request may be tried on another
            Poll::Ready(_) | Poll::Pending => Ok(()),
        }
    }

    /// What is read while no answer is awaited.
    fn poll_between(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.reader.is_spoilt() {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            // not for anybody to read; the end of the stream says all that must be known
            buf.set_filled(before);
            self.way.note_surplus();
        }
        self.reader.spoil();
        Poll::Ready(Ok(()))
    }

    /// What is read of a body in chunks: all that has come, as one chunk.
    fn poll_chunks(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(scanner) = self.reader.chunks() else { return Poll::Pending };
        let wire = &mut self.wire;
        let read = |buf: &mut ReadBuf<'_>| poll_piece(wire, cx, buf, usize::MAX);
        match ready!(poll_repack(scanner, &mut self.inbox, buf, read)) {
            Ok(0) => return self.ended(),
            Ok(_) => {}
            Err(Failed::Read(error)) => return Poll::Ready(Err(error)),
            Err(Failed::Body(fault)) => return Poll::Ready(Err(AnswerFault::from(fault).into())),
        }
        self.reader.scanned(!self.inbox.is_empty());
        if self.reader.has_answered() {
            self.inbox.clear();
            self.note_spoilt();
        }
        Poll::Ready(Ok(()))
    }

    /// The connection has ended inside or behind an answer.
    fn ended(&mut self) -> Poll<io::Result<()>> {
        Poll::Ready(self.reader.ended(self.inbox.len()).map_err(io::Error::from))
    }

    fn note_spoilt(&self) {
        if self.reader.has_answered() && self.reader.is_spoilt() {
            self.way.note_surplus();
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for OriginStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.passed > 0 {
                let here = this.passed.min(buf.remaining());
                buf.put_slice(this.inbox.get(..here).unwrap_or_default());
                this.inbox.advance(here);
                this.passed -= here;
                return Poll::Ready(Ok(()));
            }
            if this.reader.has_answered() {
                return this.poll_between(cx, buf);
            }
            if this.reader.chunks().is_some() {
                return this.poll_chunks(cx, buf);
            }
            if this.inbox.is_empty() {
                let before = buf.filled().len();
                ready!(poll_piece(&mut this.wire, cx, buf, usize::MAX))?;
                let fresh = buf.filled().get(before..).unwrap_or_default();
                if fresh.is_empty() {
                    return this.ended();
                }
                let taken = this.reader.received(fresh)?;
                if taken.hold {
                    this.inbox.extend_from_slice(fresh.get(taken.pass..).unwrap_or_default());
                } else if taken.pass < fresh.len() {
                    this.note_spoilt();
                }
                buf.set_filled(before + taken.pass);
                if taken.pass > 0 {
                    return Poll::Ready(Ok(()));
                }
            } else {
                if this.reader.holds_switch() {
                    this.waiting = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                if !this.reader.has_switched() {
                    let mut space = [MaybeUninit::uninit(); READ_BYTES];
                    let mut piece = ReadBuf::uninit(&mut space);
                    ready!(Pin::new(&mut this.wire).poll_read(cx, &mut piece))?;
                    if piece.filled().is_empty() {
                        return this.ended();
                    }
                    this.inbox.extend_from_slice(piece.filled());
                }
                let taken = this.reader.received(&this.inbox)?;
                if !taken.hold && taken.pass < this.inbox.len() {
                    this.inbox.truncate(taken.pass);
                    this.note_spoilt();
                }
                this.passed = taken.pass;
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for OriginStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.reader.is_between_requests() {
            this.poll_unasked(cx)?;
            this.reader.sending(data);
        }
        let sent = ready!(Pin::new(&mut this.wire).poll_write(cx, data))?;
        this.reader.sent(data.get(..sent).unwrap_or_default());
        Poll::Ready(Ok(sent))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.reader.is_between_requests() {
            let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
            return Pin::new(this).poll_write(cx, first);
        }
        let sent = ready!(Pin::new(&mut this.wire).poll_write_vectored(cx, parts))?;
        let mut left = sent;
        for part in parts {
            let here = left.min(part.len());
            this.reader.sent(part.get(..here).unwrap_or_default());
            left -= here;
        }
        Poll::Ready(Ok(sent))
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.wire).poll_flush(cx))?;
        this.reader.flushed();
        if let Some(waiting) = this.waiting.take() {
            waiting.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(cx)
    }
}

impl<S> fmt::Debug for OriginStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginStream").field("reader", &self.reader).finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: AsyncWrite + Unpin + Send + Sync> Shutdown for OriginStream<S> {
    async fn shutdown(&mut self) {
        // an origin that has gone cannot be told goodbye
        let _ = self.wire.shutdown().await;
    }
}

impl<S: AsRawFd> UniqueID for OriginStream<S> {
    fn id(&self) -> UniqueIDType {
        self.wire.as_raw_fd()
    }
}

impl<S> Ssl for OriginStream<S> {}

impl<S> Peek for OriginStream<S> {}

impl<S> GetTimingDigest for OriginStream<S> {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl<S> GetProxyDigest for OriginStream<S> {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl<S> GetSocketDigest for OriginStream<S> {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(Arc::clone(&self.digest))
    }
}

#[cfg(test)]
mod tests;
