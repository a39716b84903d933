//! What is asked for of a limit, whether another limit refuses it or not.
//!
//! A refused request is charged nowhere. So the limit of a client that another limit holds below it is never used up, and alone would
//! never refuse. Its demand says whether it would have: a state with the same numbers and a smaller table of its own, charged with all
//! requests that the limit itself does not refuse, as if there were no other. Nothing is promised by it, and nothing is admitted by it.
//!
//! A client that waits as it was told and comes again with the same requests asks for nothing more: as many as were refused to it before
//! its pause are not counted again, refused or admitted.

use super::kind::MIXED;
use super::state::State;
use super::{Judgement, Kind, Moved, Place, Probe, Spec};
use crate::sketch::Seed;
use crate::sync::{AtomicU64, Ordering};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// How long a demand is counted after the last refusal elsewhere, in nanoseconds: without refusals nobody asks for it.
const WATCHED_NANOS: u64 = 600_000_000_000;

/// A refusal moves the end of the watch only if it lies so much nearer than it could.
const COARSE_NANOS: u64 = 10_000_000_000;

/// The longest wait that requests add to which find no room, in nanoseconds.
const REMEMBERED_NANOS: u64 = 1_000_000_000;

/// What is asked for of a limit.
#[derive(Debug)]
pub struct Demand {
    state: Box<dyn State>,
    /// Until when requests are counted. Relaxed: one that reads it too early is not counted.
    watched: AtomicU64,
    /// The longest that a request may wait for the limit instead of being refused, in nanoseconds.
    longest_wait: u64,
    /// The refusals of keys, as [`Refusals`] packs them. Relaxed: a lost note counts one request twice, or one too few.
    refusals: Box<[AtomicU64]>,
}

/// How many keys are told apart by their refusals. Of two that share a room the later has it.
const KEYS: usize = 2_048;

/// A client that was refused and asks for nothing for so long has waited as it was told: a second, less what clocks and jitter take.
const PAUSE_TICKS: u16 = 13;

/// One that comes after so long asks for something new: nobody is told to wait longer than a minute.
const FORGOTTEN_TICKS: u16 = 1_024;

/// Nanoseconds of a tick: 16 in a second.
const TICK_NANOS: u64 = 62_500_000;

/// What was refused to one key lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Refusals {
    /// Which key it is, of those that share the room.
    key: u16,
    /// When it was refused last, in ticks.
    last: u16,
    /// How many were refused before the last pause and have not come again.
    before: u16,
    /// How many were refused since.
    since: u16,
}

impl Refusals {
    fn pack(self) -> u64 {
        let Refusals { key, last, before, since } = self;
        [key, last, before, since].iter().fold(0, |word, part| word << 16 | u64::from(*part))
    }

    fn unpack(word: u64) -> Refusals {
        let [key, last, before, since] = [48, 32, 16, 0].map(|bits| (word >> bits) as u16);
        Refusals { key, last, before, since }
    }

    /// The same at `now`: what was refused before a pause may come again.
    fn at(self, now: u16) -> Refusals {
        match now.wrapping_sub(self.last) {
            FORGOTTEN_TICKS.. => Refusals { key: self.key, last: now, ..Refusals::default() },
            PAUSE_TICKS.. if self.since > 0 => Refusals { before: self.since, since: 0, ..self },
            _ => self,
        }
    }

    /// One more is refused. Says whether it has come before, too.
    fn refused(self, now: u16) -> (Refusals, bool) {
        let again = self.before > 0;
        (
            Refusals { last: now, before: self.before.saturating_sub(1), since: self.since.saturating_add(1), ..self },
            again,
        )
    }
}

impl Demand {
    /// The demand of the limit that has this seed; nothing has been asked for.
    ///
    /// # Errors
    /// Numbers that the kind does not take.
    pub(super) fn new(spec: &Spec<'_>, seed: &Seed) -> Result<Demand, OutOfRange> {
        let kinds = smaller(spec);
        let state = kinds.first().ok_or(MIXED)?.state(&Spec { kinds: &kinds, ..*spec }, &seed.derive("demand"))?;
        let refusals = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        Ok(Demand { state, watched: AtomicU64::new(0), longest_wait: spec.longest_wait, refusals })
    }

    /// The same demand under other numbers.
    ///
    /// # Errors
    /// As those of [`State::follow`].
    pub(super) fn followed_by(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Demand, OutOfRange> {
        let state = self.state.follow(&Spec { kinds: &smaller(spec), ..*spec }, moved)?;
        let watched = AtomicU64::new(self.watched.load(Ordering::Relaxed));
        let refusals = self.refusals.iter().map(|word| AtomicU64::new(word.load(Ordering::Relaxed))).collect();
        Ok(Demand { state, watched, longest_wait: spec.longest_wait, refusals })
    }

    /// The room of a key, what is known of it at `now`, and the tick of that.
    fn refusals(&self, at: &Place, now: Timestamp) -> Option<(&AtomicU64, Refusals, u16)> {
        let [hash, _] = at.key.halves();
        let word = self.refusals.get(hash as usize % KEYS)?;
        let (key, tick) = ((hash >> 48) as u16, (now.nanos() / TICK_NANOS) as u16);
        let known = Refusals::unpack(word.load(Ordering::Relaxed));
        let known = if known.key == key { known } else { Refusals { key, ..Refusals::default() } };
        Some((word, known.at(tick), tick))
    }

    /// Notes that the request is refused. Says whether it has come and was counted before.
    fn note_refusal(&self, at: &Place, now: Timestamp) -> bool {
        let Some((word, known, tick)) = self.refusals(at, now) else { return false };
        let (known, again) = known.refused(tick);
        word.store(known.pack(), Ordering::Relaxed);
        again
    }

    /// Tells whether another limit has refused requests lately, so that admitted ones have to be counted too.
    #[inline]
    pub fn is_watched(&self, now: Timestamp) -> bool {
        now.nanos() < self.watched.load(Ordering::Relaxed)
    }

    /// Has all requests counted from now on, as another limit refuses some.
    pub fn watch(&self, now: Timestamp) {
        let until = now.nanos().saturating_add(WATCHED_NANOS);
        if self.watched.load(Ordering::Relaxed).saturating_add(COARSE_NANOS) < until {
            self.watched.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Returns why the limit would refuse this request if there were no other; `None` if it would admit it, at once or after a wait.
    pub fn refusal(&self, at: &Place, now: Timestamp, cost: Cost) -> Option<Judgement> {
        let judgement = self.state.probe(at, now, cost, 0).judgement;
        let waits = judgement.retry_nanos.is_some_and(|wait| wait <= self.longest_wait);
        (!judgement.admitted && !waits).then_some(judgement)
    }

    /// Counts a request that the limit would refuse. Says whether the key is as far over as it can get, of a limit that counts what it
    /// refuses. Of another limit up to a second's worth is remembered: a client that goes on asking for too much stays over its limit, and
    /// not only between two requests that would have fitted.
    pub fn refuse(&self, at: &Place, now: Timestamp, judgement: &Judgement, cost: Cost) -> bool {
        self.note_refusal(at, now);
        self.remember(at, now, judgement, cost)
    }

    fn remember(&self, at: &Place, now: Timestamp, judgement: &Judgement, cost: Cost) -> bool {
        if let Some((_, penalised)) = self.state.count_refusal(at, now, cost) {
            return penalised;
        }
        if judgement.retry_nanos.is_some_and(|wait| wait <= REMEMBERED_NANOS) {
            self.state.charge(at, now, cost);
        }
        false
    }

    /// Counts an admitted request, but for one that was counted when it was refused.
    pub fn charge_admitted(&self, at: &Place, now: Timestamp, cost: Cost) {
        if let Some((word, known, _)) = self.refusals(at, now)
            && known.before > 0
        {
            word.store(Refusals { before: known.before - 1, ..known }.pack(), Ordering::Relaxed);
            return;
        }
        self.charge(at, now, cost);
    }

    /// Counts a request that another limit refuses, but for one that was counted when it was refused before.
    pub fn charge_refused(&self, at: &Place, now: Timestamp, cost: Cost) {
        if !self.note_refusal(at, now) {
            self.charge(at, now, cost);
        }
    }

    /// Charges the request as the limit would if there were no other: after a wait that it allows, or as one that it refuses.
    fn charge(&self, at: &Place, now: Timestamp, cost: Cost) {
        let probe = Probe::unasked(at, cost);
        let Err(lost) = self.state.commit(&probe, now) else { return };
        match lost.judgement.retry_nanos {
            Some(wait) if wait <= self.longest_wait => {
                let later = Probe::unasked(&Place { noted: Some(now), ..probe.place }, cost);
                // one that loses a race for that moment is not counted
                let _ = self.state.commit(&later, Timestamp::from_nanos(now.nanos().saturating_add(wait)));
            }
            _ => _ = self.remember(at, now, &lost.judgement, cost),
        }
    }

    pub(super) fn take_over(&self) {
        self.state.take_over();
    }

    pub(super) fn maintain(&self, now: Timestamp) {
        self.state.maintain(now);
    }

    pub(super) fn memory(&self) -> Bytes {
        Bytes(self.state.memory().0 + (KEYS * size_of::<AtomicU64>()) as u64)
    }
}

/// The numbers of the limit over an eighth of its table: nothing is promised by it.
fn smaller(spec: &Spec<'_>) -> Vec<Kind> {
    let smaller = |kind: &Kind| {
        let (mut kind, least) = (kind.clone(), kind.form().least_memory);
        if let Some(memory) = kind.memory_mut() {
            *memory = Bytes(memory.0 / 8).max(least);
        }
        kind
    };
    spec.kinds.iter().map(smaller).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(known: Refusals, times: u16, now: u16) -> (Refusals, u16) {
        (0..times).fold((known.at(now), 0), |(known, again), _| {
            let (known, was) = known.refused(now);
            (known, again + u16::from(was))
        })
    }

    #[test]
    fn only_after_a_pause_requests_come_again_and_no_more_than_were_refused() {
        let (known, again) = refused(Refusals::default(), 6, 100);
        assert_eq!((known.since, again), (6, 0), "all are new");
        let (known, again) = refused(known, 300, 100 + PAUSE_TICKS - 1);
        assert_eq!((known.since, again), (306, 0), "it did not wait");
        let (known, again) = refused(known, 310, 200);
        assert_eq!((known.since, again), (310, 306));
        let (known, again) = refused(known, 2, 300);
        assert_eq!((known.before, again), (308, 2), "the others may still come");
        assert_eq!(known.at(300 + FORGOTTEN_TICKS), Refusals { last: 300 + FORGOTTEN_TICKS, ..Refusals::default() });
        assert_eq!(Refusals::unpack(known.pack()), known);
    }
}
