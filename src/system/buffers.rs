//! A bound on what the whole process buffers of bodies: bytes that were read from one side and not yet taken by the other.
//!
//! One counter for the process. What a transfer may hold follows from its largest piece, as the framework keeps a known number
//! of pieces at most; that much is counted from its first bytes on (`Share::carries`). It ends when the client has taken what
//! was written of an answer without a length ([`Share::taken`]), so that an idle event stream counts for nothing, otherwise with the
//! request ([`Share::clear`]). The count is an upper estimate: a transfer that flows holds less.
//!
//! As the counter rises,
//!
//! 1. less is read at once ([`poll_piece`]), so that transfers which begin now hold a sixteenth;
//! 2. transfers that hold more than the average and whose client takes nothing are cut off ([`Stall`]);
//! 3. transfers that owe their client more than [`LIGHT`] bytes are refused, and light ones served from the rest;
//! 4. light ones are refused, and tiny ones and answers whose client has taken all so far still go on.
//!
//! Nothing waits for a lock. The inequality is in `docs/connections.md`, section "Memory in all".

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, sleep};

use crate::system::timer::Alarm;

/// A transfer is light while no more than this was carried since its client had taken all.
pub const LIGHT: usize = 16 * 1024;
/// A transfer that holds no more goes on as long as there is any room: most answers.
const TINY: usize = 4 * 1024;
/// One read from a quarter of the bound on, and from half of it on.
const SMALLER_READ: usize = 16 * 1024;
const SMALLEST_READ: usize = 4 * 1024;
/// One read of a connection that was switched to another protocol. Small, because nothing tells when the origin has taken
/// what such a client sent: its six pieces are not counted, but are part of what a connection costs.
pub const SWITCHED_READ: usize = 4 * 1024;
/// How much of a request's body the framework keeps for another attempt. Of a longer one it keeps nothing.
const KEPT: usize = 64 * 1024;
/// How long a client takes nothing before its transfer can be cut off for others.
const STALLED: Duration = Duration::from_secs(2);
/// How long a transfer waits for others to be cut off before it is refused, and how often it looks.
const WAIT: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(100);

/// How many pieces of a body the framework holds at most, for each way that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces(usize);

impl Pieces {
    /// A request's body by HTTP/1: the read buffer, a queue of four, one being written.
    pub const UP: Pieces = Pieces(6);
    /// By HTTP/2: a stream's window (64 KiB in frames of 16 KiB) in the place of the read buffer.
    pub const UP_H2: Pieces = Pieces(9);
    /// An answer by HTTP/1: the read buffer, one that waits for the queue, the queue of four, five joined for one write.
    pub const DOWN: Pieces = Pieces(11);
    /// By HTTP/2: a stream's window (256 KiB) in the place of the read buffer.
    pub const DOWN_H2: Pieces = Pieces(26);
}

/// The bytes that the process holds, and how many it may.
#[derive(Debug)]
pub struct Buffers {
    held: AtomicUsize,
    /// Transfers that hold any of them.
    transfers: AtomicUsize,
    most: AtomicUsize,
    refused: AtomicU64,
}

/// Those of this process. A static because there is one memory, and both ends of every connection must find it.
pub static BUFFERS: Buffers = Buffers::new(usize::MAX);

impl Buffers {
    const fn new(most: usize) -> Buffers {
        Buffers {
            held: AtomicUsize::new(0),
            transfers: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
            refused: AtomicU64::new(0),
        }
    }

    /// Sets how many bytes may be held from now on.
    pub fn limit(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// How many may be held.
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// How many transfers were refused or cut off.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// How many bytes are to be read at once.
    fn read_size(&self) -> usize {
        let (held, most) = (self.held(), self.most());
        if held < most / 4 {
            usize::MAX
        } else if held < most / 2 {
            SMALLER_READ
        } else {
            SMALLEST_READ
        }
    }

    /// Whether those who hold more than the average must make room.
    fn is_short(&self) -> bool {
        self.held() >= self.most() / 4 * 3
    }

    /// How far transfers that are not light fill it; the rest is for light ones.
    fn for_heavy(&self) -> usize {
        self.most() - self.most() / 8
    }

    /// How far light ones fill it. The rest is for tiny ones, and for answers that flow: what they take is free again at once.
    fn for_light(&self) -> usize {
        self.most() - self.most() / 16
    }

    /// Waits until there is room for another body of this length, for `WAIT` at most.
    ///
    /// # Errors
    /// [`Full`]: there is none.
    pub async fn room(&self, length: u64) -> Result<(), Full> {
        if length <= LIGHT as u64 {
            return Ok(());
        }
        let begun = Instant::now();
        while self.held() + LIGHT >= self.for_heavy() {
            if begun.elapsed() >= WAIT {
                self.refused.fetch_add(1, Relaxed);
                return Err(Full);
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    fn take(&self, bytes: usize, most: usize) -> Result<(), Full> {
        let room = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
        self.held.fetch_update(Relaxed, Relaxed, room).map(|_| ()).map_err(|_| {
            self.refused.fetch_add(1, Relaxed);
            Full
        })
    }
}

/// There is no room for another piece of this transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// What one request and its answer hold. Its owner is lent to the framework, which gives it back to look at only: therefore
/// atomic. One task owns it, so nothing needs to be ordered.
#[derive(Debug)]
pub struct Share {
    buffers: &'static Buffers,
    up: Side,
    down: Side,
}

/// One direction of a transfer.
#[derive(Debug, Default)]
struct Side {
    carried: AtomicUsize,
    /// Of these, what came since all was taken.
    since: AtomicUsize,
    largest: AtomicUsize,
    held: AtomicUsize,
}

impl Default for Share {
    fn default() -> Share {
        Share::of(&BUFFERS)
    }
}

impl Share {
    fn of(buffers: &'static Buffers) -> Share {
        Share { buffers, up: Side::default(), down: Side::default() }
    }

    /// Counts another piece of the request's body.
    ///
    /// # Errors
    /// [`Full`].
    pub fn carries_up(&self, pieces: Pieces, bytes: usize) -> Result<(), Full> {
        let carried = self.up.carried.load(Relaxed).saturating_add(bytes);
        let kept = if carried > KEPT { 0 } else { carried };
        self.carries(&self.up, pieces, bytes, kept, false)
    }

    /// Counts another piece of the answer's body.
    ///
    /// # Errors
    /// [`Full`].
    pub fn carries_down(&self, pieces: Pieces, bytes: usize) -> Result<(), Full> {
        let flows = self.down.carried.load(Relaxed) > 0 && self.down.since.load(Relaxed) == 0;
        self.carries(&self.down, pieces, bytes, 0, flows)
    }

    /// `flows`: all that came before was taken.
    fn carries(&self, side: &Side, Pieces(pieces): Pieces, bytes: usize, kept: usize, flows: bool) -> Result<(), Full> {
        let [carried, since] = [&side.carried, &side.since].map(|sum| {
            let more = sum.load(Relaxed).saturating_add(bytes);
            sum.store(more, Relaxed);
            more
        });
        let largest = side.largest.load(Relaxed).max(bytes);
        side.largest.store(largest, Relaxed);
        // a byte is never in more than two places: where it was read, and where it waits
        let wanted = largest.saturating_mul(pieces).min(carried.saturating_mul(2)) + kept;
        let most = match since {
            _ if flows || wanted <= TINY => self.buffers.most(),
            ..=LIGHT => self.buffers.for_light(),
            _ => self.buffers.for_heavy(),
        };
        self.hold(side, wanted, most)
    }

    /// The client has taken all that was written of the answer, but for so many bytes. What the framework holds of the next pieces
    /// is counted with the first of them, before it is written.
    pub fn taken(&self, still: usize) {
        let held = self.down.held.load(Relaxed);
        self.down.since.store(0, Relaxed);
        // less can always be held
        let _ = self.hold(&self.down, held.min(still), usize::MAX);
    }

    /// Counts so many bytes for one direction in the place of those before.
    fn hold(&self, side: &Side, wanted: usize, most: usize) -> Result<(), Full> {
        let (held, all) = (side.held.load(Relaxed), self.held());
        if wanted > held {
            self.buffers.take(wanted - held, most)?;
        } else {
            self.buffers.held.fetch_sub(held - wanted, Relaxed);
        }
        side.held.store(wanted, Relaxed);
        match (all, all - held + wanted) {
            (0, 1..) => _ = self.buffers.transfers.fetch_add(1, Relaxed),
            (1.., 0) => _ = self.buffers.transfers.fetch_sub(1, Relaxed),
            _ => {}
        }
        Ok(())
    }

    /// How many bytes are counted for it.
    fn held(&self) -> usize {
        self.up.held.load(Relaxed) + self.down.held.load(Relaxed)
    }

    /// Whether it is one of those that must make room.
    fn is_heavy(&self) -> bool {
        let (held, all) = (self.held(), self.buffers.held());
        held > 0 && self.buffers.is_short() && held.saturating_mul(self.buffers.transfers.load(Relaxed)) >= all
    }

    /// The request is over: gives everything back.
    pub fn clear(&self) {
        for side in [&self.up, &self.down] {
            let _ = self.hold(side, 0, usize::MAX);
            for count in [&side.carried, &side.since, &side.largest] {
                count.store(0, Relaxed);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

/// For how long a client has taken nothing of what its transfer holds.
#[derive(Debug, Default)]
pub struct Stall {
    since: Option<Instant>,
    alarm: Alarm,
}

impl Stall {
    /// The client took something.
    pub fn over(&mut self) {
        self.since = None;
    }

    /// `Ready` once the transfer is to be cut off for others; wakes the task to look again.
    pub fn poll_cut(&mut self, share: &Share, cx: &mut Context<'_>) -> Poll<()> {
        if share.held() == 0 {
            return Poll::Pending;
        }
        let mut next = *self.since.get_or_insert_with(Instant::now) + STALLED;
        loop {
            ready!(self.alarm.poll(next, cx));
            if share.is_heavy() {
                share.buffers.refused.fetch_add(1, Relaxed);
                return Poll::Ready(());
            }
            next = Instant::now() + STALLED / 4;
        }
    }
}

/// Reads so many bytes at most into `buf`, less at once the less memory there is.
pub fn poll_piece<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
    most: usize,
) -> Poll<io::Result<()>> {
    let most = BUFFERS.read_size().min(most);
    if buf.remaining() <= most {
        return Pin::new(stream).poll_read(cx, buf);
    }
    let mut space = [MaybeUninit::uninit(); SMALLER_READ];
    let mut piece = ReadBuf::uninit(space.get_mut(..most).unwrap_or_default());
    ready!(Pin::new(stream).poll_read(cx, &mut piece))?;
    buf.put_slice(piece.filled());
    Poll::Ready(Ok(()))
}

#[cfg(test)]
mod tests;
