//! Where the leases lie: two entries of four words in each line of 64 bytes, and how an entry changes hands.
//!
//! No word is locked, and nobody waits for another. The protocol rests on three rules:
//!
//! * **The end in the word of what is held never falls, and strictly grows whenever the entry changes hands.** Whoever
//!   exchanges that word has read it *before* he read the tag. If the entry has changed hands since, or between those
//!   two reads, the word has another end, and the exchange fails: a word never comes back for another key. If it has not,
//!   an equal word means equal tokens of the same key, however often it was something else meanwhile.
//! * **Who answers has a nonce in the state**, and reads what is held before he reads the state. A state without his nonce
//!   means that the entry may be another's: he keeps out. One with it means that it was his key's when he read what is held; if
//!   it changes hands afterwards, the first rule fails his exchange.
//! * **Who claims an entry marks its state first, and this mark nobody else replaces.** Then he ends what was held, then he
//!   writes the tag. A thread that is stopped in between keeps the entry from others for as long, no more: who needs an
//!   entry passes by.
//!
//! Acquire on every load, release on every store and both on every exchange are enough: each of the arguments follows one chain
//! from a word that was written to the word that was read.

use super::size::Demand;
use super::words::{Held, LAST_TICK, State, tick};
use crate::sketch::Word;
use crate::units::Timestamp;

/// Two entries in one cache line. Which line a key has follows from its hash and never changes.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Line<C>(pub [Entry<C>; 2]);

/// What this gate knows of one key.
#[derive(Default)]
#[repr(align(32))]
pub(super) struct Entry<C> {
    /// The half of the key's hash that did not choose the line; 0 of an entry that was never used.
    pub tag: C,
    /// A [`Held`].
    pub held: C,
    /// A [`State`].
    pub state: C,
    /// A [`Demand`].
    pub demand: C,
}

/// What came of trying to get an entry.
pub(super) enum Claim {
    /// It is ours, and asking with this word.
    Ours(u64),
    /// It is another's, who still needs it.
    Taken,
    /// It has moved meanwhile: look again.
    Moved,
}

impl<C: Word> Line<C> {
    /// The key's entry, by its number, and what was held when it was read, before the tag.
    #[inline]
    pub fn find(&self, tag: u64) -> Option<(usize, &Entry<C>, u64)> {
        self.0.iter().enumerate().find_map(|(number, entry)| {
            let held = entry.held.load();
            (entry.tag.load() == tag).then_some((number, entry, held))
        })
    }
}

impl<C: Word> Entry<C> {
    /// Whether another key may have the entry: its lease has ended, no question is on its way, and no refusal is remembered that
    /// anybody has run into lately. Without the last, keys that are refused for a day would fill the table.
    fn is_free(&self, held: u64, state: State, now: Timestamp) -> bool {
        let needed = match state {
            State::Idle { .. } => false,
            State::Asking { .. } => state.is_asking(now),
            State::Refused { .. } => state.refusal(now).is_some() && !Demand::of(self.demand.load()).is_over(now),
            State::Claimed => true,
        };
        let held = Held::of(held);
        !needed && !held.lives(now) && held.ends < LAST_TICK
    }

    /// [`Entry::is_free`], as it is read now: a hint.
    pub fn is_free_at(&self, now: Timestamp) -> bool {
        let (held, state) = (self.held.load(), State::of(self.state.load()));
        self.is_free(held, state, now)
    }

    /// Makes the entry that of another key, whose first question is `asking`.
    pub fn claim(&self, tag: u64, cost: u32, asking: State, now: Timestamp) -> Claim {
        let (held, state) = (self.held.load(), self.state.load());
        if State::of(state) == State::Claimed {
            return Claim::Moved;
        }
        if !self.is_free(held, State::of(state), now) {
            return Claim::Taken;
        }
        if !self.state.exchange(state, State::Claimed.word()) {
            return Claim::Moved;
        }
        if !self.end(now) {
            // an answer that was thought lost has come: the state it had is void, so nobody misses it
            self.state.store(State::Idle { low: 0 }.word());
            return Claim::Moved;
        }
        self.demand.store(Demand::first(cost, now).word());
        self.tag.store(tag);
        let asking = asking.word();
        self.state.store(asking);
        Claim::Ours(asking)
    }

    /// Ends what is held in a way that no exchange begun before can undo; `false` when it turns out to live.
    fn end(&self, now: Timestamp) -> bool {
        // every failure is one token taken on an old stamp, or one late answer: a few at most
        for _ in 0..64 {
            let word = self.held.load();
            let held = Held::of(word);
            if held.lives(now) || held.ends >= LAST_TICK {
                return false;
            }
            if self.held.exchange(word, Held { ends: tick(now).max(held.ends + 1), tokens: 0 }.word()) {
                return true;
            }
        }
        false
    }

    /// Counts what was asked for. Of two requests in the same nanoseconds one may be forgotten: it is a hint.
    #[inline]
    pub fn note(&self, cost: u32, now: Timestamp) {
        let word = self.demand.load();
        let _ = self.demand.exchange(word, Demand::of(word).plus(cost, now).word());
    }

    /// Remembers what the store has left. May be forgotten as a count may.
    pub fn note_left(&self, left: u32) {
        let word = self.demand.load();
        let _ = self.demand.exchange(word, Demand::of(word).with_left(left).word());
    }
}
