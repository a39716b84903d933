//! Requests that have several keys under one limit: a cookie or parameter came with different values, and the gate cannot
//! know which of them the origin reads.
//!
//! The limit is asked by each of the keys, and the request is charged under each, or under none: a second value buys nothing.
//! The reading is that of the key that the limit objects to most. An ordinary request does not come here.

use super::core::Engine;
use super::decision::{DecidedBy, Outcome, Reading, Refusal};
use super::evaluation::{Evaluation, Holds, More, Read};
use super::judge::strictest;
use super::keys::{Hashed, Unkeyed, all};
use crate::client::key;
use crate::limiter::sharing::StoreKey;
use crate::limiter::{Limiter, Lost, Place, Probe};
use crate::policy::{Mode, Rule};
use crate::sketch::KeyHash;
use crate::units::{Cost, Timestamp};

/// All keys of a request under one limit, each with the value that is counted, if one is.
type Keys = key::Keys<(KeyHash, KeyHash)>;

impl Engine {
    /// Finds all keys of a request under the rule whose reading was just added; says why it forbids the request if they are too
    /// many.
    #[cold]
    pub(super) fn with_several(
        &self,
        (index, rule, limiter): (usize, &Rule, &Limiter),
        unkeyed: Unkeyed,
        about: &Read<'_>,
        (place, cost): (Place, Cost),
        evaluation: &mut Evaluation,
        hashed: &mut Hashed,
    ) -> Option<Refusal> {
        // a store is asked about one key of a request
        let asks_one = self.shared_limit(index).is_some() || unkeyed == Unkeyed::TooMany;
        let keys = if asks_one { None } else { self.all_keys((index, rule, limiter), unkeyed, about, hashed).ok() };
        let keys = keys.filter(|keys| keys.len() <= evaluation.more.remaining_capacity() + 1);
        let slot = evaluation.probes.len().checked_sub(1)?;
        let Some(keys) = keys else {
            let reading = evaluation.decision.readings.last_mut()?;
            reading.outcome = Outcome::Refused;
            return (reading.mode == Mode::Enforce).then_some(Refusal::AmbiguousValue);
        };
        for (number, (key, value)) in keys.into_iter().enumerate() {
            let place = Place { key, value, ..place };
            if number > 0 {
                // there is room for all
                let _ = evaluation.more.try_push(More { slot, place, cost });
            } else if let Some(asked) = evaluation.probes.last_mut() {
                *asked = Some(Probe::unasked(&place, cost));
            }
        }
        None
    }

    fn all_keys(
        &self,
        (index, rule, limiter): (usize, &Rule, &Limiter),
        unkeyed: Unkeyed,
        about: &Read<'_>,
        hashed: &mut Hashed,
    ) -> Result<Keys, Unkeyed> {
        if let Some(sync) = self.peer_sync(index) {
            let names = all(Err(unkeyed))?;
            return Ok(names.iter().map(|name| (sync.key(StoreKey::from_halves(name.halves())), *name)).collect());
        }
        let own = limiter.own_hash();
        let keys = all(self.keys().key(index, rule, self.policy(), about, hashed))?;
        let Some(of) = &rule.of else {
            return Ok(keys.iter().map(|key| (own.of(*key), KeyHash::default())).collect());
        };
        let values = all(self.keys().value(index, of, about, hashed))?;
        let mut found = Keys::new();
        for (key, value) in keys.iter().flat_map(|key| values.iter().map(|value| (*key, *value))) {
            found.try_push((own.of(key), own.of_pair(key, value))).map_err(|_| Unkeyed::TooMany)?;
        }
        Ok(found)
    }

    /// Asks the limits by the further keys of the request; says why one of them forbids it if one does.
    #[cold]
    pub(super) fn ask_more(&self, about: &Read<'_>, evaluation: &mut Evaluation) -> Option<Refusal> {
        let (mut worst, mut at) = (None, 0);
        while let Some(more) = evaluation.more.get(at).copied() {
            let (kept, refusal) = self.ask_one_more(more, about, evaluation);
            match (kept, evaluation.more.get_mut(at)) {
                (Some(place), Some(more)) => {
                    more.place = place;
                    at += 1;
                }
                _ => _ = evaluation.more.swap_pop(at),
            }
            worst = refusal.map_or(worst, |refusal| strictest(worst, refusal));
        }
        worst
    }

    /// Asks by one key. Gives the place that is still to be charged beside that of the reading; `None` if there is none.
    fn ask_one_more(
        &self,
        more: More,
        about: &Read<'_>,
        evaluation: &mut Evaluation,
    ) -> (Option<Place>, Option<Refusal>) {
        let More { slot, place, cost } = more;
        let Evaluation { decision, probes, .. } = evaluation;
        let (Some(reading), Some(asked)) = (decision.readings.get_mut(slot), probes.get_mut(slot)) else {
            return (None, None);
        };
        let Some((rule, limiter)) = self.rule(reading.rule) else { return (None, None) };
        if limiter.is_exempt(place.key, about.at) {
            return (None, None);
        }
        let (before, own) = (*reading, *asked);
        // asked about one key, it knows its mode already, which is the same for all
        if own.is_none() {
            reading.mode = self.mode_of(reading.rule, rule, about);
        }
        let probe = limiter.probe(&place, about.at, cost);
        reading.fill(&probe.judgement);
        if self.peer_sync(reading.rule).is_some() {
            reading.by = DecidedBy::Estimate;
        }
        let fits = reading.outcome == Outcome::Admitted;
        *asked = Some(probe);
        let refusal = if fits { None } else { self.over_limit(slot, about, evaluation) };
        let Some(own) = own else { return (None, refusal) };
        let Evaluation { decision, probes, .. } = evaluation;
        if let (Some(reading), Some(asked)) = (decision.readings.get_mut(slot), probes.get_mut(slot))
            && objection(&before) >= objection(reading)
        {
            (*reading, *asked) = (before, Some(own));
            return (Some(place), refusal);
        }
        (Some(own.place), refusal)
    }

    /// Charges the limit of one reading under the further keys of the request.
    ///
    /// # Errors
    /// Others were faster at one of them, or a `distinct` limit has room for some of several new values of one key but not for
    /// all. What was charged before stays: too high by one cost for each.
    #[cold]
    pub(super) fn charge_more(
        &self,
        evaluation: &mut Evaluation,
        slot: usize,
        now: Timestamp,
        holds: &mut Holds,
    ) -> Result<(), Lost> {
        let Evaluation { decision, more, .. } = evaluation;
        let Some(reading) = decision.readings.get_mut(slot) else { return Ok(()) };
        for More { place, cost, .. } in more.iter().filter(|more| more.slot == slot) {
            let judgement = self.commit((slot, reading.rule), &Probe::unasked(place, *cost), now, holds)?;
            if judgement.remaining < reading.remaining {
                reading.fill(&judgement);
            }
        }
        Ok(())
    }
}

/// How much a limit objects, to compare what it said of several keys.
fn objection(reading: &Reading) -> (u8, u64) {
    let wait = reading.retry_nanos.unwrap_or(u64::MAX);
    match reading.outcome {
        Outcome::Exempt => (0, 0),
        Outcome::Admitted => (1, u64::from(u32::MAX - reading.remaining)),
        Outcome::Delayed => (2, wait),
        Outcome::Tagged => (3, wait),
        Outcome::Refused => (4, wait),
    }
}
