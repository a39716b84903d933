//! When a store's client writes into the log: of each kind of fault a line a minute, and after such lines one when the store is back.
//!
//! Pure: time is an argument, in nanoseconds on any clock that does not go back. Kinds are words in the code, so there are few.

use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use parking_lot::Mutex;

use crate::limiter::sharing::StoreError;

use super::fault::Meaning;

/// At most one line per this time, store and kind of fault.
const QUIET_NANOS: u64 = 60_000_000_000;

/// So long nothing must have failed until a store that was connected all the time is said to answer again.
const WELL_NANOS: u64 = 2_000_000_000;

/// More kinds than there are; of one more the oldest is forgotten.
const MOST_KINDS: usize = 32;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    word: &'static str,
    /// Whether the store is away by it, or keeps us out, so that it can be back. Otherwise it is about a key or a script.
    away: bool,
}

impl Kind {
    /// The store is away.
    pub const fn away(word: &'static str) -> Kind {
        Kind { word, away: true }
    }

    /// It is there, and does not do what it should.
    pub const fn odd(word: &'static str) -> Kind {
        Kind { word, away: false }
    }
}

impl From<Meaning> for Kind {
    fn from(meaning: Meaning) -> Kind {
        Kind { word: meaning.text, away: meaning.store_error == StoreError::Unreachable || meaning.keeps_out }
    }
}

/// Who met a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// A question, so that only the answer to another one shows that it is over.
    Asking,
    /// Connecting, or a gate's stamp.
    Tending,
}

/// What was written about one store.
#[derive(Debug)]
pub struct Lines {
    state: Mutex<State>,
    /// When a question was answered last.
    answered: AtomicU64,
}

#[derive(Debug)]
struct State {
    written: ArrayVec<(&'static str, u64), MOST_KINDS>,
    /// A line said that the store is away, and none yet that it is back; also before the first connection.
    owed: bool,
    /// When it was away last, and for whom.
    last: (u64, Met),
}

impl Lines {
    /// Nothing was written yet.
    pub fn new() -> Lines {
        let state = State { written: ArrayVec::new(), owed: true, last: (0, Met::Tending) };
        Lines { state: Mutex::new(state), answered: AtomicU64::new(0) }
    }

    /// Whether a line is to be written about a fault.
    pub fn fault(&self, kind: Kind, met: Met, now: u64) -> bool {
        let mut state = self.state.lock();
        if kind.away {
            state.last = (now, met);
        }
        let before = state.written.iter().position(|(word, _)| *word == kind.word);
        match before.and_then(|place| state.written.get(place).map(|(_, at)| (place, *at))) {
            Some((_, at)) if now.saturating_sub(at) < QUIET_NANOS => return false,
            Some((place, _)) => drop(state.written.remove(place)),
            None if state.written.is_full() => drop(state.written.remove(0)),
            None => {}
        }
        state.written.push((kind.word, now));
        state.owed |= kind.away;
        true
    }

    /// A question was answered.
    pub fn answered(&self, now: u64) {
        self.answered.store(now, Ordering::Relaxed);
    }

    /// Whether a line is to be written that there is a connection, over which the store has answered.
    pub fn connected(&self) -> bool {
        std::mem::replace(&mut self.state.lock().owed, false)
    }

    /// Whether a line is to be written that the store answers again, to a stamp over the connection that there was all the time.
    pub fn well(&self, now: u64) -> bool {
        let mut state = self.state.lock();
        let (last, met) = state.last;
        let shown = met == Met::Tending || self.answered.load(Ordering::Relaxed) > last;
        let well = state.owed && shown && now.saturating_sub(last) >= WELL_NANOS;
        state.owed &= !well;
        well
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const LOST: Kind = Kind::away("connection lost");
    const REFUSED: Kind = Kind::away("wrong user or password");

    #[test]
    fn each_kind_of_fault_has_a_line_a_minute() {
        let lines = Lines::new();
        assert!(lines.fault(LOST, Met::Tending, S));
        assert!(!lines.fault(LOST, Met::Asking, 60 * S));
        assert!(lines.fault(REFUSED, Met::Tending, 60 * S), "another kind");
        assert!(lines.fault(LOST, Met::Tending, 61 * S));
        assert!(!lines.fault(REFUSED, Met::Tending, 119 * S));
    }

    #[test]
    fn that_it_is_back_is_said_after_every_line_that_it_is_away_and_only_then() {
        let lines = Lines::new();
        assert!(lines.connected(), "the first time");
        assert!(!lines.connected());
        assert!(lines.fault(LOST, Met::Tending, S));
        assert!(lines.fault(REFUSED, Met::Tending, 2 * S));
        assert!(lines.connected(), "once for both");
        assert!(!lines.fault(LOST, Met::Tending, 3 * S));
        assert!(!lines.connected(), "nothing was said");
        assert!(lines.fault(Kind::odd("not understood"), Met::Asking, 4 * S));
        assert!(!lines.connected() && !lines.well(9 * S), "it was not away");
    }

    #[test]
    fn a_store_that_stayed_connected_is_back_when_nothing_failed_for_a_while() {
        let lines = Lines::new();
        assert!(lines.connected());
        assert!(lines.fault(Kind::away("full"), Met::Asking, S));
        lines.answered(S);
        assert!(!lines.well(9 * S), "no question was answered since");
        lines.answered(9 * S);
        assert!(!lines.fault(Kind::away("full"), Met::Asking, 10 * S));
        lines.answered(11 * S);
        assert!(!lines.well(11 * S), "it failed just now");
        assert!(lines.well(12 * S));
        assert!(!lines.well(13 * S));
    }
}
