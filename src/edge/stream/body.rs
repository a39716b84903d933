//! The body of a request, as Pingora reads it from a [`Wire`].

use std::io;
use std::mem;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use pingora::protocols::IO;
use tokio::io::ReadBuf;

use super::Wire;
use super::reading::Reading;
use crate::edge::repack::{Failed, poll_repack};
use crate::system::buffers::poll_piece;

impl<S: IO> Wire<S> {
    /// What is left of the body, if its length is known.
    pub fn left(&self) -> Option<u64> {
        match self.reading {
            Reading::Length(left) => Some(left),
            _ => None,
        }
    }

    /// How large the body of the present request may be.
    pub fn limit_body(&self, limit: u64) {
        self.body_limit.store(limit, Ordering::Relaxed);
    }

    /// Reads a part of the body; returns how many of the client's bytes it was.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        if matches!(self.reading, Reading::Chunked(_)) {
            return self.poll_chunks(cx, buf);
        }
        // A read that could take too much goes through the inbox. Pingora asks for no more than the length itself, so
        // this is for whoever else reads, and bodies go straight from the kernel to where they are wanted.
        let too_much = matches!(self.reading, Reading::Length(left) if left < buf.remaining() as u64);
        if self.inbox.is_empty() && too_much && ready!(self.poll_fill(cx))? == 0 {
            return Poll::Ready(Ok(0));
        }
        let before = buf.filled().len();
        let ours = if self.inbox.is_empty() {
            ready!(self.poll_transport(cx, buf))?;
            let fresh = buf.filled().get(before..).unwrap_or_default();
            let ours = self.reading.account(fresh)?;
            self.inbox.extend_from_slice(fresh.get(ours..).unwrap_or_default());
            buf.set_filled(before + ours);
            ours
        } else {
            let offered = self.inbox.get(..buf.remaining()).unwrap_or(&self.inbox);
            let ours = self.reading.account(offered)?;
            buf.put_slice(offered.get(..ours).unwrap_or_default());
            self.inbox.advance(ours);
            ours
        };
        Poll::Ready(Ok(ours))
    }

    /// Reads a body in chunks; joins all complete bytes into one chunk.
    fn poll_chunks(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let Wire { reading, inbox, transport, ended, body_limit, .. } = self;
        let Reading::Chunked(scanner) = reading else { return Poll::Ready(Ok(0)) };
        scanner.limit(mem::replace(body_limit.get_mut(), u64::MAX));
        let packed = ready!(poll_repack(scanner, inbox, buf, |buf| {
            let before = buf.filled().len();
            let read = match transport {
                Some(transport) => poll_piece(transport, cx, buf, usize::MAX),
                None => Poll::Ready(Ok(())),
            };
            *ended |= matches!(&read, Poll::Ready(read) if read.is_err() || buf.filled().len() == before);
            read
        }));
        if scanner.is_done() {
            *reading = Reading::Complete;
        }
        Poll::Ready(match packed {
            Ok(taken) => Ok(taken),
            Err(Failed::Read(error)) => Err(error),
            Err(Failed::Body(fault)) => Err(self.broken(fault)),
        })
    }
}
