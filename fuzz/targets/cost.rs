//! The time oracle: what is read costs so much a byte, whatever the bytes are.
//!
//! Measured is the CPU time of the thread, not the clock on the wall, and in units of a plain loop over as many bytes: so the
//! bound is the same on a fast machine, on a busy one and in a build without optimisation. An input that is over it is
//! measured again, as others can only make a run dearer; it fails when the cheapest run is over it.
//!
//! Small inputs do not show what grows with the square of their length. So one in [`STRETCHED`] is measured once more with a
//! piece of it repeated up to [`LONG`].

use std::hint::black_box;
use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

/// What the product does with an input. What it needs for that and does not do itself is made before.
pub type Work<'a> = Box<dyn FnOnce() + 'a>;

/// What an input may cost.
#[derive(Clone, Copy)]
pub struct Bound {
    /// Whatever its length, for what is made once: tables, buffers.
    pub once_micros: u64,
    /// So many plain loops over its bytes.
    pub loops: u64,
}

/// For what reads each byte a few times and makes little of it.
pub const USUAL: Bound = Bound { once_micros: 500, loops: 100 };

/// How long a stretched input is: a head, a line of the policy, a message may be as long.
const LONG: usize = 16 << 10;
/// One input in so many is stretched.
const STRETCHED: u64 = 32;
/// How often an input is measured before it is over the bound.
const RUNS: usize = 7;

/// Asserts that the work on `data` costs no more than the bound, and so for a longer input made of it. Nothing is measured
/// where `work` has nothing to do.
pub fn is_bounded(data: &[u8], bound: Bound, work: fn(&[u8]) -> Option<Work<'_>>) {
    is_within(data, bound, work);
    let seed = data.iter().fold(data.len() as u64, |sum, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte));
    if seed % STRETCHED == 0 {
        is_within(&stretched(data, seed / STRETCHED), bound, work);
    }
}

fn is_within(data: &[u8], bound: Bound, work: fn(&[u8]) -> Option<Work<'_>>) {
    let most = 1000 * bound.once_micros + bound.loops * data.len() as u64 * loop_picos() / 1000;
    let mut least = u64::MAX;
    for _ in 0..RUNS {
        let Some(work) = work(data) else { return };
        let nanos = nanos(work);
        if nanos <= most {
            return;
        }
        least = least.min(nanos);
    }
    panic!("{} bytes cost {least} ns, and {most} ns is the most: {}", data.len(), data.escape_ascii());
}

/// CPU time of this thread for the work.
pub fn nanos(work: Work<'_>) -> u64 {
    let before = thread_nanos();
    work();
    thread_nanos() - before
}

fn thread_nanos() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// What a loop that looks at each byte costs in this build on this machine, a byte.
fn loop_picos() -> u64 {
    static PICOS: OnceLock<u64> = OnceLock::new();
    *PICOS.get_or_init(|| {
        let bytes = vec![b'a'; 64 << 10];
        let run = || {
            let bytes = &bytes;
            nanos(Box::new(move || {
                for byte in bytes {
                    black_box(black_box(*byte).is_ascii_graphic());
                }
            }))
        };
        let least = (0..50).map(|_| run()).min().unwrap_or(1);
        // a clock that is too coarse must not make the bound nothing
        (least * 1000 / bytes.len() as u64).max(500)
    })
}

/// The input with one to eight of its bytes repeated.
fn stretched(data: &[u8], seed: u64) -> Vec<u8> {
    let at = usize::try_from(seed % (data.len() as u64 + 1)).unwrap_or(0);
    let length = usize::try_from(seed / 7 % 8).unwrap_or(0) + 1;
    let piece = data.get(at..(at + length).min(data.len())).filter(|piece| !piece.is_empty()).unwrap_or(b"/");
    let times = LONG.saturating_sub(data.len()) / piece.len();
    [&data[..at], &piece.repeat(times), &data[at..]].concat()
}
