//! The one place where a live gate reads time and rolls dice.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::units::time::saturating_nanos;
use crate::units::{Dice, Timestamp};

/// Time for limits: monotonic, and far enough from zero that a level of zero always means "long ago".
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    began: Timestamp,
    unix_nanos_at_zero: u64,
}

/// What a clock showed, for the clock of the process that goes on with its stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Its stamp.
    pub stamp: Timestamp,
    /// The wall clock's time then, in nanoseconds since 1970.
    pub wall_nanos: u64,
    /// [`Clock::unix_nanos_at_zero`].
    pub unix_nanos_at_zero: u64,
}

/// Where the clock starts: 400 days, more than the longest time a limit can look back.
const HEAD_START: Duration = Duration::from_secs(400 * 86_400);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        let start = Instant::now();
        let unix_nanos_at_zero = wall_nanos().saturating_sub(saturating_nanos(HEAD_START));
        Clock { start, began: Timestamp::ZERO.after(HEAD_START), unix_nanos_at_zero }
    }

    /// A clock that goes on from what another process's clock showed, later by what the wall clock says has passed since. A wall clock that
    /// was put back says that no time has passed: then a budget comes back later by as long as nobody served, and never sooner. One
    /// that was put forward makes it come sooner by as much. Windows keep their phase.
    pub fn resumed(shown: &Shown) -> Clock {
        let passed = wall_nanos().saturating_sub(shown.wall_nanos);
        let began = shown.stamp.after(Duration::from_nanos(passed));
        Clock { start: Instant::now(), began, unix_nanos_at_zero: shown.unix_nanos_at_zero }
    }

    /// What it shows now.
    pub fn shown(&self) -> Shown {
        Shown { stamp: self.now(), wall_nanos: wall_nanos(), unix_nanos_at_zero: self.unix_nanos_at_zero }
    }

    /// The stamp of this moment. Never goes back.
    pub fn now(&self) -> Timestamp {
        self.began.after(self.start.elapsed())
    }

    /// What the wall clock would have shown at stamp zero, in nanoseconds since 1970: aligned windows take their phase from it,
    /// and the access log says it, so that a replay has the same phase. Found once, so no step of the wall clock moves it.
    pub fn unix_nanos_at_zero(&self) -> u64 {
        self.unix_nanos_at_zero
    }

    /// How long this clock has been running.
    pub fn uptime(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Wall-clock time in nanoseconds since 1970, for people; no limit ever sees it. Zero if the clock stands before that.
pub fn wall_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A uniform random number, for identifiers, jitter and sampling; not for secrets.
///
/// One stream of [`Dice`] per thread, each started from the system's randomness.
pub fn roll() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(system_random());
    }
    STATE.with(|state| {
        let mut dice = Dice(state.get());
        let rolled = dice.roll();
        state.set(dice.0);
        rolled
    })
}

fn system_random() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        // no randomness at this moment: threads still differ, and nothing secret hangs on it
        Err(_) => wall_nanos() ^ (std::ptr::from_ref(&bytes) as u64),
    }
}

/// Sixteen secret bytes for hashing, from the system.
///
/// # Errors
/// The system gives none. A gate must not serve with a seed that can be guessed.
pub fn secret<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_starts_far_from_zero_and_does_not_go_back() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first.nanos() >= 400 * 86_400 * 1_000_000_000);
        assert!(clock.now() >= first);
    }

    #[test]
    fn a_resumed_clock_counts_the_time_between_and_never_goes_back() {
        let shown = Clock::start().shown();
        let hour = 3_600_000_000_000;
        let later = Clock::resumed(&Shown { wall_nanos: shown.wall_nanos - hour, ..shown });
        let passed = later.now().since(shown.stamp);
        assert!((Duration::from_secs(3_600)..Duration::from_secs(3_660)).contains(&passed), "{passed:?}");
        assert_eq!(later.unix_nanos_at_zero(), shown.unix_nanos_at_zero);
        let put_back = Clock::resumed(&Shown { wall_nanos: shown.wall_nanos + hour, ..shown });
        let passed = put_back.now().since(shown.stamp);
        assert!(passed < Duration::from_secs(60), "{passed:?}");
    }

    #[test]
    fn rolls_differ_between_calls_and_threads() {
        let here: Vec<u64> = (0..100).map(|_| roll()).collect();
        let there = std::thread::spawn(|| (0..100).map(|_| roll()).collect::<Vec<u64>>()).join().unwrap();
        let all: std::collections::HashSet<u64> = here.iter().chain(&there).copied().collect();
        assert_eq!(all.len(), 200);
    }
}
