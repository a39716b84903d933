//! The verbs that a request meets: probe reads, commit charges what was probed, charge does not ask.
//!
//! Each of them goes by the hashes under which the key counts at the moment: its own, and one more after a [pardon](super::pardon).
//! A limit whose charge waits for the answer holds an attempt back at the commit.

use std::sync::Arc;

use super::attempt::Attempt;
use super::demand::Demand;
use super::hold::Lent;
use super::journal::What;
use super::pardoned::Standing;
use super::pending::Pending;
use super::{Hold, Judgement, Limiter, Lost, Place, Probe};
use crate::sketch::KeyHash;
use crate::units::{Cost, Timestamp};

impl Limiter {
    /// Reads whether the request fits. Charges nothing.
    #[inline]
    pub fn probe(&self, at: &Place, now: Timestamp, cost: Cost) -> Probe {
        match self.pardons.standing(at.key, now) {
            Standing::Own => self.look(at, now, cost),
            Standing::Fresh(tag) => {
                Probe { judgement: self.look(&self.fresh(at, tag), now, cost).judgement, ..Probe::unasked(at, cost) }
            }
            Standing::Both(tag) => {
                let fresh = self.look(&self.fresh(at, tag), now, cost).judgement;
                Probe { judgement: stricter(fresh, self.look(at, now, cost).judgement), ..Probe::unasked(at, cost) }
            }
        }
    }

    /// Charges what was probed. Where the cells moved since, it reads them again. A limit whose charge waits for the answer holds
    /// an attempt instead. Gives the judgement after the charge, and what the request holds.
    ///
    /// # Errors
    /// It does not fit any more, and the limit is as it was.
    #[inline]
    pub fn commit(self: &Arc<Self>, probe: &Probe, now: Timestamp) -> Result<(Judgement, Option<Hold>), Lost> {
        let (judgement, mut hold) = self.commit_where_it_counts(probe, now)?;
        let what = match &hold {
            // a value that was counted before costs nothing
            None if self.deferred => return Ok((judgement, hold)),
            None => What::Charged,
            Some(Hold::Attempt(_)) => What::HeldBack,
            Some(Hold::Place(_) | Hold::Elsewhere(_)) => What::Taken,
        };
        if !self.journal.note_admitted(what, &probe.place, now, probe.cost) {
            hold.iter_mut().for_each(Hold::untold);
        }
        Ok((judgement, hold))
    }

    #[inline]
    fn commit_where_it_counts(
        self: &Arc<Self>,
        probe: &Probe,
        now: Timestamp,
    ) -> Result<(Judgement, Option<Hold>), Lost> {
        let place = &probe.place;
        match self.pardons.standing(place.key, now) {
            Standing::Own => self.commit_at(probe, place, now),
            Standing::Fresh(tag) => {
                let fresh = Probe::unasked(&self.fresh(place, tag), probe.cost);
                let (judgement, mut hold) = self.commit_at(&fresh, place, now)?;
                if let (Some(Hold::Attempt(attempt)), Some(pending)) = (&mut hold, &self.pending) {
                    attempt.join(pending.hold(place.key, probe.cost));
                }
                self.state.carry(&fresh.place, place, now);
                Ok((judgement, hold))
            }
            Standing::Both(tag) => {
                let fresh = Probe::unasked(&self.fresh(place, tag), probe.cost);
                let (first, mut hold) = self.commit_at(&fresh, place, now)?;
                // lost here, the first stays charged: too high by one cost, for one key, and only after a race
                let (second, also) = self.commit_at(probe, place, now)?;
                if let (Some(Hold::Attempt(attempt)), Some(Hold::Attempt(also))) = (&mut hold, also) {
                    attempt.join(also.into_held());
                }
                Ok((stricter(first, second), hold))
            }
        }
    }

    /// Charges the key, whether that fits or not.
    pub fn charge(&self, at: &Place, now: Timestamp, cost: Cost) {
        self.charge_where_it_counts(at, now, cost);
        self.journal.note(What::Charged, at, now, cost);
    }

    fn charge_where_it_counts(&self, at: &Place, now: Timestamp, cost: Cost) {
        match self.pardons.standing(at.key, now) {
            Standing::Own => self.state.charge(at, now, cost),
            Standing::Fresh(tag) => {
                let fresh = self.fresh(at, tag);
                self.state.charge(&fresh, now, cost);
                self.state.carry(&fresh, at, now);
            }
            Standing::Both(tag) => {
                self.state.charge(&self.fresh(at, tag), now, cost);
                self.state.charge(at, now, cost);
            }
        }
    }

    /// Counts a request that this limit has refused, if it counts those: the judgement after it, and whether the key is as far over
    /// as it can get.
    pub fn count_refusal(&self, at: &Place, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        let counted = self.count_refusal_where_it_counts(at, now, cost)?;
        self.journal.note(What::Refused, at, now, cost);
        Some(counted)
    }

    fn count_refusal_where_it_counts(&self, at: &Place, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        match self.pardons.standing(at.key, now) {
            Standing::Own => self.state.count_refusal(at, now, cost),
            Standing::Fresh(tag) => {
                let fresh = self.fresh(at, tag);
                let counted = self.state.count_refusal(&fresh, now, cost)?;
                self.state.carry(&fresh, at, now);
                Some(counted)
            }
            Standing::Both(tag) => {
                let (fresh, fresh_at_the_cap) = self.state.count_refusal(&self.fresh(at, tag), now, cost)?;
                let (own, own_at_the_cap) = self.state.count_refusal(at, now, cost)?;
                Some((stricter(fresh, own), fresh_at_the_cap || own_at_the_cap))
            }
        }
    }

    /// What is asked for of the limit, where that is counted, and where it is: under the hash that a pardon gave the key, if it has one.
    pub fn demand(&self, at: &Place, now: Timestamp) -> Option<(&Demand, Place)> {
        let demand = self.demand.as_ref()?;
        let at = *at;
        let place = match self.pardons.standing(at.key, now) {
            Standing::Own => at,
            Standing::Fresh(tag) | Standing::Both(tag) => self.fresh(&at, tag),
        };
        Some((demand, place))
    }

    /// Nanoseconds until the key is within its budget again, after charges that did not ask.
    pub fn ahead_nanos(&self, at: &Place, now: Timestamp) -> u64 {
        let ahead = |at: &Place| self.state.probe(at, now, Cost::ONE, 0).judgement.retry_nanos.unwrap_or(0);
        match self.pardons.standing(at.key, now) {
            Standing::Own => ahead(at),
            Standing::Fresh(tag) => ahead(&self.fresh(at, tag)),
            Standing::Both(tag) => ahead(&self.fresh(at, tag)).max(ahead(at)),
        }
    }

    /// Probes one hash of the key, beside what attempts of it hold back.
    #[inline]
    fn look(&self, at: &Place, now: Timestamp, cost: Cost) -> Probe {
        let held = self.pending.as_ref().map_or(0, |pending| pending.estimate(at.key));
        self.state.probe(at, now, cost, held)
    }

    /// Commits under the key of the probe, or holds the request back under that one to be charged later as at `place`.
    fn commit_at(
        self: &Arc<Self>,
        probe: &Probe,
        place: &Place,
        now: Timestamp,
    ) -> Result<(Judgement, Option<Hold>), Lost> {
        if let Some(pending) = &self.pending {
            if self.deferred {
                return self.hold_back(pending, probe, place, now);
            }
            // attempts from before the reload after which none are held back
            let beside = self.look(&probe.place, now, probe.cost).judgement;
            if !beside.admitted {
                return Err(Lost::refused(beside));
            }
        }
        let (judgement, taken) = self.state.commit(probe, now)?;
        Ok((judgement, taken.map(|taken| Hold::Place(Lent::new(taken, self, place, probe.cost)))))
    }

    /// Holds an attempt back until its answer, if it fits on top of what is charged and of all that is held back already.
    fn hold_back(
        self: &Arc<Self>,
        pending: &Arc<Pending>,
        probe: &Probe,
        place: &Place,
        now: Timestamp,
    ) -> Result<(Judgement, Option<Hold>), Lost> {
        let (at, cost) = (&probe.place, probe.cost);
        let beside = |held| self.state.probe(at, now, cost, held).judgement;
        if self.state.is_free(at, now) {
            return Ok((beside(0), None));
        }
        let mut judgement = Judgement::REFUSED;
        let fits = |sum: u32| {
            judgement = beside(sum.saturating_sub(cost.get()));
            judgement.admitted
        };
        match pending.attempt(at.key, cost, fits) {
            Ok((_, held)) => {
                let attempt = Attempt::new(Arc::clone(self), held, *place, cost, now);
                Ok((judgement, Some(Hold::Attempt(attempt))))
            }
            Err(_) => Err(Lost::refused(judgement)),
        }
    }

    /// The place under the hash that a pardon gave its key.
    fn fresh(&self, place: &Place, tag: KeyHash) -> Place {
        Place { key: self.own_hash.of_pair(place.key, tag), value: self.own_hash.of_pair(place.value, tag), ..*place }
    }
}

/// The judgement of a key that has to fit under two hashes.
pub(super) fn stricter(one: Judgement, other: Judgement) -> Judgement {
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
