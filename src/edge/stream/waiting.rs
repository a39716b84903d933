//! What the wire does while it waits for its client.

use std::io;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pingora::protocols::{IO, UniqueID};

use super::Wire;
use crate::edge::idle_place::{Awaits, GaveWay};
use crate::edge::transport::Transport;
use tidegate_http::fault::BodyFault;

impl<S: IO> Wire<S> {
    /// With TLS, what was written may lie in records that the kernel has had no room for: the client is waited for as at a write.
    pub(super) fn poll_records(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(transport) = &mut self.transport else { return Poll::Ready(Ok(())) };
        let flushed = Pin::new(&mut *transport).poll_flush(cx);
        if flushed.is_ready() {
            self.download.progressed(0);
            return flushed;
        }
        let sent = transport.as_any().downcast_ref().map_or(0, Transport::sent);
        if sent > self.sent {
            let moved = usize::try_from(sent - self.sent).unwrap_or(usize::MAX);
            self.download.progressed(moved);
            self.idle_place.moved(moved);
            self.sent = sent;
        }
        self.poll_idle(Awaits::Room(self.connection()), cx)?;
        ready!(self.download.poll_wait(cx));
        Poll::Ready(Err(self.fault(BodyFault::SlowDownload)))
    }

    /// The number of its connection, as long as that is open.
    pub fn connection(&self) -> Option<RawFd> {
        self.transport.as_ref().map(UniqueID::id)
    }

    /// The client is waited for.
    ///
    /// # Errors
    /// Others wait for the place that it keeps idle, and have it now.
    pub(super) fn poll_idle(&mut self, awaits: Awaits, cx: &mut Context<'_>) -> io::Result<()> {
        match self.idle_place.poll_lent(&self.client.lent, awaits, cx) {
            Poll::Ready(()) => Err(GaveWay.into()),
            Poll::Pending => Ok(()),
        }
    }
}
