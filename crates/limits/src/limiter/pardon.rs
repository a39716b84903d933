//! Pardons: keys whose debt is forgotten, and keys that a limit leaves alone for a while.
//!
//! A key's debt cannot be taken out of a sketch: its cells are those of other keys too, whose budgets would grow with it. So
//! a pardoned key is counted **under another hash** from then on, one that no key has had before. In the table that is a
//! key never seen; nobody else's cells are touched.
//!
//! **Promise.** From the pardon on the key is under the limit's promise as if it had never been seen before; for every other key
//! nothing changes.
//!
//! *How it ends.* The old debt fades by itself within a known time F, which every kind can tell. Whatever the new hash is charged
//! until then, the old one is raised to as well: not by it, but *to* it, which leaves the old debt to fade as it would have. After F
//! the old hash alone says all that the new one does, which is forgotten then. For a moment before that both are
//! judged and charged, so that of any two requests of which one saw the new hash alone and the other the old one, the
//! first has long been carried over. A pardon that is revoked ends like this at once: the old debt counts again, as far as it
//! has not faded, and what was spent since the pardon is not forgotten either.
//!
//! The list is bounded by [`MOST_PARDONS`](super::MOST_PARDONS); a limit without pardons pays one load for it, one with them a search.

use std::sync::Arc;
use std::time::Duration;

use super::pardoned::{Full, Pardoned, Standing};
use super::{Hold, Judgement, Limiter, Lost, Place};
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::units::time::saturating_nanos;
use crate::units::{Cost, Timestamp};

/// How long both hashes are charged: more than a thread sleeps between being judged and being carried over.
const BOTH_NANOS: u64 = 2_000_000_000;

impl Limiter {
    /// Forgets what the key was charged before `now`, and leaves it alone until `exempt` is over. The key is the limit's
    /// [own](Limiter::own_hash) hash. Of kinds that count what is there and not what was (`inflight`, `fair_share`) there is nothing
    /// to forget. Says until when the pardon matters.
    ///
    /// # Errors
    /// [`MOST_PARDONS`](super::MOST_PARDONS) keys are pardoned already.
    pub fn pardon(&self, key: KeyHash, now: Timestamp, exempt: Duration) -> Result<Timestamp, Full> {
        let fade = self.fade_nanos();
        if fade.is_none() && exempt.is_zero() {
            return Ok(now);
        }
        let exempt_until = now.nanos().saturating_add(saturating_nanos(exempt));
        let both_from = fade.map_or(exempt_until, |fade| now.nanos().saturating_add(fade));
        let ends = both_from.max(exempt_until).saturating_add(BOTH_NANOS);
        self.pardons.put(key, now, |number| Pardoned {
            key,
            fresh: fade.map(|_| tag(number)),
            exempt_until,
            both_from,
            ends,
        })?;
        Ok(Timestamp::from_nanos(ends))
    }

    /// Ends the key's pardon: what it was charged before counts again, as far as it has not faded, and what it was charged since goes
    /// on to count. Says whether it had one.
    pub fn revoke_pardon(&self, key: KeyHash, now: Timestamp) -> bool {
        self.pardons.change(key, now, |pardoned| {
            pardoned.exempt_until = pardoned.exempt_until.min(now.nanos());
            pardoned.both_from = pardoned.both_from.min(now.nanos());
            pardoned.ends = now.nanos().saturating_add(BOTH_NANOS);
        })
    }

    /// Whether the limit leaves the key alone at the moment.
    #[inline]
    pub fn is_exempt(&self, key: KeyHash, now: Timestamp) -> bool {
        self.pardons.find(key).is_some_and(|pardoned| now.nanos() < pardoned.exempt_until)
    }

    /// Whether the request would fit. Changes nothing. `fair_share` has its own question, [`Limiter::offer`].
    #[inline]
    pub fn probe(&self, place: &Place, now: Timestamp, cost: Cost) -> Judgement {
        let probe = |place: &Place| self.probe_beside(place, now, cost, self.held_back(place));
        match self.pardons.standing(place.key, now) {
            Standing::Own => probe(place),
            Standing::Fresh(tag) => probe(&self.fresh(place, tag)),
            Standing::Both(tag) => stricter(probe(&self.fresh(place, tag)), probe(place)),
        }
    }

    /// Charges the request, or says that it no longer fits and leaves the limit as it was. A limit whose charge waits for
    /// the answer holds the attempt instead. What the request holds then is put into `hold`.
    ///
    /// # Errors
    /// Another request took the last of the budget since the probe.
    #[inline]
    pub fn admit(
        self: &Arc<Self>,
        place: &Place,
        now: Timestamp,
        cost: Cost,
        hold: &mut Option<Hold>,
    ) -> Result<Judgement, Lost> {
        match self.pardons.standing(place.key, now) {
            Standing::Own => self.admit_at(place, place, now, cost, hold),
            Standing::Fresh(tag) => {
                let fresh = self.fresh(place, tag);
                let judgement = self.admit_at(&fresh, place, now, cost, hold)?;
                if let (Some(Hold::Attempt(hold)), Some(pending)) = (hold, &self.pending) {
                    hold.join(pending.hold(place.key, cost));
                }
                self.carry(&fresh, place, now);
                Ok(judgement)
            }
            Standing::Both(tag) => {
                let first = self.admit_at(&self.fresh(place, tag), place, now, cost, hold)?;
                let mut also = None;
                // lost here, the first stays charged: too high by one cost, for one key, and only after a race
                let second = match self.admit_at(place, place, now, cost, &mut also) {
                    Ok(second) => second,
                    Err(lost) => {
                        *hold = None;
                        return Err(lost);
                    }
                };
                if let (Some(Hold::Attempt(hold)), Some(Hold::Attempt(also))) = (hold, also) {
                    hold.join(also.into_held());
                }
                Ok(stricter(first, second))
            }
        }
    }

    /// Counts a request that this limit has refused, if it counts those, and says what it says after that; the second value
    /// tells whether the key is as far over as it can get.
    pub fn count_refusal(&self, place: &Place, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        match self.pardons.standing(place.key, now) {
            Standing::Own => self.count_refusal_at(place, now, cost),
            Standing::Fresh(tag) => {
                let fresh = self.fresh(place, tag);
                let counted = self.count_refusal_at(&fresh, now, cost)?;
                self.carry(&fresh, place, now);
                Some(counted)
            }
            Standing::Both(tag) => {
                let (fresh, at_the_cap) = self.count_refusal_at(&self.fresh(place, tag), now, cost)?;
                let (own, own_at_the_cap) = self.count_refusal_at(place, now, cost)?;
                Some((stricter(fresh, own), at_the_cap || own_at_the_cap))
            }
        }
    }

    /// Charges the key, whether that fits or not.
    pub fn charge(&self, place: &Place, now: Timestamp, cost: Cost) {
        match self.pardons.standing(place.key, now) {
            Standing::Own => self.charge_at(place, now, cost),
            Standing::Fresh(tag) => {
                let fresh = self.fresh(place, tag);
                self.charge_at(&fresh, now, cost);
                self.carry(&fresh, place, now);
            }
            Standing::Both(tag) => {
                self.charge_at(&self.fresh(place, tag), now, cost);
                self.charge_at(place, now, cost);
            }
        }
    }

    /// Nanoseconds until the key is within its budget again, after charges that did not ask.
    pub fn ahead_nanos(&self, place: &Place, now: Timestamp) -> u64 {
        let ahead = |place: &Place| self.probe_beside(place, now, Cost::ONE, 0).retry_nanos.unwrap_or(0);
        match self.pardons.standing(place.key, now) {
            Standing::Own => ahead(place),
            Standing::Fresh(tag) => ahead(&self.fresh(place, tag)),
            Standing::Both(tag) => ahead(&self.fresh(place, tag)).max(ahead(place)),
        }
    }

    /// The same place under another hash.
    fn fresh(&self, place: &Place, tag: KeyHash) -> Place {
        Place { key: self.own_hash.of_pair(place.key, tag), value: self.own_hash.of_pair(place.value, tag), ..*place }
    }
}

/// Public, as it only tells one pardon from another: the limiter's own hash is what makes a secret of it.
fn tag(number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes(*b"tidegate pardons"));
    hasher.part(0, &number.to_le_bytes());
    hasher.finish()
}

/// What a key is told that has to fit both.
fn stricter(one: Judgement, other: Judgement) -> Judgement {
    let (mut strict, lax) = match (one.admitted, other.admitted) {
        (true, false) => (other, one),
        (false, true) => (one, other),
        _ if other.remaining < one.remaining => (other, one),
        _ => (one, other),
    };
    // `None` is what no wait can help
    strict.retry_nanos = strict.retry_nanos.zip(lax.retry_nanos).map(|(one, other)| one.max(other));
    strict.admitted &= lax.admitted;
    strict
}

#[cfg(test)]
mod tests;
