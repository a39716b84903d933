//! The body of a request on its way from the client to the origin, piece by piece, while the answer is awaited or comes already.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use pingora::Error;
use tokio::time::{Sleep, sleep};

use super::client::Client;
use crate::origins::exchange::Exchange;

/// How much of a body is kept for another attempt. Of a longer one nothing is kept.
const KEPT: usize = 64 * 1024;

/// The body under way.
#[derive(Debug, Default)]
pub struct Upload {
    /// What was read and not sent yet, as the origin gets it.
    piece: BytesMut,
    /// All that was read, in that form, unless it was too much.
    kept: BytesMut,
    /// How many bytes of the body that is.
    read: u64,
    /// What is read is kept.
    keeps: bool,
    /// A piece is held back until then.
    hold: Option<Pin<Box<Sleep>>>,
    /// The origin has to be told to look.
    unflushed: bool,
    /// The origin takes no more, for this reason.
    failed: Option<Box<Error>>,
    /// Nothing more is to be sent in this attempt.
    over: bool,
}

impl Upload {
    /// Forgets the one before. `keeps`: what is read may have to be sent again.
    pub fn begin(&mut self, keeps: bool) {
        self.piece.clear();
        self.kept.clear();
        self.read = 0;
        self.keeps = keeps;
        self.hold = None;
        self.unflushed = false;
        self.failed = None;
        self.over = false;
    }

    /// Begins again, for another attempt: what was read is to be sent first. Gives the number of bytes that have been read so far.
    pub fn again(&mut self) -> u64 {
        self.piece.clear();
        self.piece.extend_from_slice(&self.kept);
        self.hold = None;
        self.unflushed = !self.piece.is_empty();
        self.failed = None;
        self.over = false;
        self.read
    }

    /// Whether nothing more is to be sent in this attempt.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// How many bytes of the body were read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Whether all that was read has gone on, and more is to come.
    pub fn awaits_client(&self) -> bool {
        !self.over && self.hold.is_none() && self.piece.is_empty() && !self.unflushed
    }

    /// Holds what is to be sent next back for so long.
    pub fn hold(&mut self, time: Option<Duration>) {
        self.hold = time.map(|time| Box::pin(sleep(time)));
    }

    /// Why the origin takes no more, if it does not.
    pub fn failed(&mut self) -> Option<Box<Error>> {
        self.failed.take()
    }

    /// The memory that is kept for the next one, in bytes.
    pub fn capacity(&self) -> usize {
        self.piece.capacity() + self.kept.capacity()
    }

    /// Keeps the piece that was read, if it may be needed and is not too much.
    fn keep(&mut self, client: &mut impl Client) {
        if self.keeps && self.kept.len() + self.piece.len() <= KEPT {
            self.kept.extend_from_slice(&self.piece);
        } else {
            self.keeps = false;
            self.kept.clear();
            client.cannot_be_repeated();
        }
    }

    /// Takes the body on as far as both sides allow; `Ready` when nothing more is to be sent. `passes` is told the bytes of each
    /// piece before it is sent, and says how long it is to be held back.
    ///
    /// # Errors
    /// The client does not send it, or `passes` forbids it. What the origin does to it is in [`Upload::failed`].
    pub fn poll<C: Client>(
        &mut self,
        client: &mut C,
        exchange: &mut Exchange<'_>,
        within: Duration,
        mut passes: impl FnMut(&C, u64) -> pingora::Result<Option<Duration>>,
        cx: &mut Context<'_>,
    ) -> Poll<pingora::Result<()>> {
        loop {
            if self.over {
                return Poll::Ready(Ok(()));
            }
            if let Some(hold) = &mut self.hold {
                exchange.wait_anew();
                ready!(hold.as_mut().poll(cx));
                self.hold = None;
            }
            if !self.piece.is_empty() || self.unflushed {
                match ready!(exchange.poll_send(cx, &mut self.piece, within)) {
                    Ok(()) => self.unflushed = false,
                    Err(error) => {
                        self.failed = Some(error.into_up());
                        self.over = true;
                        continue;
                    }
                }
            }
            if client.is_read() {
                self.over = true;
                continue;
            }
            let length = ready!(client.poll_body(cx, &mut self.piece))?;
            self.unflushed = true;
            self.read += length;
            self.keep(client);
            let time = passes(client, length)?;
            self.hold(time);
        }
    }
}
