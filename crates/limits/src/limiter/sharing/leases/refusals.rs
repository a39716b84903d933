//! Refusals that are remembered, and what makes the table forget them before their time.
//!
//! A refusal names a time. Whatever the store grants of the key afterwards, at another cost or in another tier, makes that time too
//! early: who is told it and is silent until then is refused again. So every answer that grants anything is told to the table,
//! which forgets what it remembers of the key in all tiers, and the next refusal is the store's own. What is spent of a lease
//! changes nothing: the store charged it when it granted it. What the store grants to other gates is not known here.
//!
//! **Answers that overtake each other.** A refusal may be written down after a grant was told that the store made later. So
//! grants are counted, in up to 256 counters by a part of the key's hash. Who asks reads the counter before; who has written down a
//! refusal reads it again, and forgets it if anything was counted. *Why none slips through:* both write the counter, so there is an order. If the
//! grant's is the first of the two, the refusal's sees it. Otherwise the grant's sees all that was written before the refusal's, the
//! refusal among it, and it looks for refusals afterwards. Two keys of one counter cost each other a question now and then, no more.

use super::size;
use super::words::{LEAD_NANOS, State, tick, tick_from, until};
use super::{Asking, Begin, Leases, Look};
use crate::limiter::sharing::{Answer, Promise};
use crate::sketch::{KeyHash, Word};
use crate::sync::{AtomicU64, Ordering};
use crate::units::{Cost, Timestamp};

/// What is held against a refusal while its question is on its way: how many grants had been counted before it was sent.
#[derive(Debug)]
pub struct Watch {
    /// In no tier.
    key: KeyHash,
    tier: u8,
    grants: u64,
}

impl<C: Word> Leases<C> {
    /// Begins before a question about the key in this tier is sent. Here `key` is the limit's own, in no tier.
    pub fn watch(&self, key: KeyHash, tier: u8) -> Watch {
        Watch { key, tier, grants: self.counter(key).map_or(0, |counter| counter.load(Ordering::Relaxed)) }
    }

    /// Takes note that an answer has granted some, of a limit of so many tiers: refusals of the key are forgotten.
    pub fn granted(&self, watch: &mut Watch, tiers: usize) {
        if let Some(counter) = self.counter(watch.key) {
            counter.fetch_add(1, Ordering::Acquire);
        }
        // a question about two names may be refused by the second: its own grant does not count against that
        watch.grants = watch.grants.wrapping_add(1);
        for tier in (0..=u8::MAX).take(tiers) {
            self.forget(watch.key.of_tier(tier));
        }
    }

    /// Takes note that a refusal has been written down: it is forgotten again if a grant was told since its watch began.
    pub fn unless_overtaken(&self, watch: &Watch) {
        // written back, so that it has an order with the counts of grants
        let grants = self.counter(watch.key).map_or(0, |counter| counter.fetch_add(0, Ordering::Release));
        if grants != watch.grants {
            self.forget(watch.key.of_tier(watch.tier));
        }
    }

    fn counter(&self, key: KeyHash) -> Option<&AtomicU64> {
        let [_, high] = key.halves();
        self.grants.get(high as usize & self.grants.len().wrapping_sub(1))
    }

    /// Forgets a refusal of the key in its tier. If the state changes meanwhile, its new one is of an answer that is checked by itself.
    fn forget(&self, key: KeyHash) {
        let (line, tag) = self.place(key);
        let Some((_, entry, _)) = self.line(line).find(tag) else { return };
        let word = entry.state.load();
        // should the entry change hands just now, another key asks once more
        if let State::Refused { .. } = State::of(word) {
            let _ = entry.state.exchange(word, State::Idle { low: 0 }.word());
        }
    }

    /// Remembers of a limit whose gates hold nothing in advance that the store refused this cost for so long, by an answer to a
    /// question of `sent`. Forgotten at the last tick before that time, so that nobody is refused by it whom the store would
    /// admit: [`Leases::SLACK_NANOS`] after what [`Leases::look`] then says it fits for certain. Not remembered are less than two
    /// ticks (4 ms), an answer that took more than 8 ms, and one for which there is no room.
    pub fn remember(
        &self,
        key: KeyHash,
        cost: Cost,
        promise: &Promise,
        retry_nanos: u64,
        (sent, now): (Timestamp, Timestamp),
    ) {
        let until = tick(Timestamp::from_nanos(sent.nanos().saturating_add(retry_nanos)));
        if until < tick(now).saturating_add(2) || now.nanos().saturating_sub(sent.nanos()) > LEAD_NANOS {
            return;
        }
        if let Begin::Ask(asking) = self.begin(key, cost, promise, 1, now)
            && let Some((entry, kept)) = self.kept(&asking)
        {
            let refused = State::refused(until, cost.get(), false).unwrap_or(State::Idle { low: 0 });
            let _ = entry.state.exchange(kept.asking, refused.word());
        }
    }

    /// Remembers that the store said no.
    pub(super) fn refused(&self, asking: &Asking, answer: &Answer, now: Timestamp) -> Look {
        let idle = |low| State::Idle { low };
        let Some(retry) = answer.retry_nanos else {
            if let Some((entry, kept)) = self.kept(asking) {
                let _ = entry.state.exchange(kept.asking, idle(kept.low).word());
            }
            return Look::Refused { retry_nanos: None, due: false };
        };
        let Some((entry, kept)) = self.kept(asking) else {
            return Look::Refused { retry_nanos: Some(retry), due: false };
        };
        let pause = size::pause(asking.size, &asking.promise);
        // a little longer than the store's time, so that somebody asks in the background when it has come
        // but not of a value, which would count by that
        let early = asking.least == 1 && !matches!(asking.promise, Promise::Values { .. });
        let wait = if early { retry.saturating_add(LEAD_NANOS) } else { retry };
        let back = tick_from(now.nanos().saturating_add(wait.max(pause)));
        let state = State::refused(back, asking.least, early);
        let remembered = entry.state.exchange(kept.asking, state.unwrap_or(idle(kept.low)).word());
        let retry = if remembered && state.is_some() { until(back, now) } else { retry };
        Look::Refused { retry_nanos: Some(retry), due: false }
    }
}
