//! Charges what has been judged: all limits, or none.
//!
//! Between asking and charging the face may wait for a place at the origin, and drop the request without anything having
//! been charged. Charging asks again, atomically: what has been spent meanwhile by others is refused, so a promise
//! holds under any interleaving. If one limit falls so, the places that were taken return. Budgets that were charged
//! before stay charged: it takes two requests racing for the last unit, over-counts by one cost and fades by itself.
//!
//! A request that must wait passes the limits that delay one after the other, as through shapers in a row: it is charged by the
//! first as of the moment that this one has for it, waits until then, and meets the next. Limits that count by windows come last,
//! all at once, as their windows must hold what goes on in them. All limits that do not delay follow after the last wait. So whoever
//! waits takes nothing from anybody else meanwhile, neither a place nor a budget nor a moment.
//!
//! What this costs: a limit that delays keeps its promise by the moments at which it lets go. Where a later one of the same route
//! makes the request wait again, for `D` at most, the origin sees up to `D` more of its budget in any interval. The last one's promise,
//! and those of all limits that do not delay, hold by the moments at which requests go on.

use super::core::Engine;
use super::decision::{Decision, Outcome, Reading, Readings, Refusal, Verdict};
use super::evaluation::{Evaluation, Held, Holds, More};
use crate::limiter::{Judgement, Limiter, Lost, Place, Probe};
use crate::policy::{Mode, OnLimit, Route, Rule};
use crate::units::Timestamp;
use crate::units::time::saturating_nanos;

impl Decision {
    /// When the request may go on: at once, or after its wait.
    pub fn goes_on(&self) -> Timestamp {
        Timestamp::from_nanos(self.at.nanos().saturating_add(self.delay_nanos))
    }
}

impl Engine {
    /// Charges limits that delay, up to the first that makes the request wait: [`Decision::goes_on`] is then after `now`. To be called
    /// again when that wait is over, until there is none. Another request may have come first since the limits were read: then the
    /// verdict may turn into a refusal, also after a wait.
    ///
    /// Without a limit that delays it does nothing. Gives the position in [`Decision::readings`] of a limit that refused only because a
    /// race for one key could not be settled.
    pub fn reserve(&self, evaluation: &mut Evaluation, now: Timestamp) -> Option<usize> {
        if evaluation.decision.verdict != Verdict::Admitted {
            return None;
        }
        // what was read is not what is charged
        evaluation.decision.delay_nanos = saturating_nanos(now.since(evaluation.decision.at));
        let mut windows = false;
        for slot in 0..evaluation.decision.readings.len() {
            match self.delaying(evaluation, slot) {
                None => {}
                Some((limiter, _)) if limiter.has_windows() => windows = true,
                Some((_, most)) => match self.reserve_slot(evaluation, slot, now, most) {
                    Err(contended) => return contended.then_some(slot),
                    Ok(()) if evaluation.decision.goes_on() > now => return None,
                    Ok(()) => {}
                },
            }
        }
        if windows { self.reserve_windows(evaluation, now) } else { None }
    }

    /// All of it at once, as if waits passed in no time.
    pub fn reserve_all(&self, evaluation: &mut Evaluation) -> Option<usize> {
        let mut now = evaluation.decision.at;
        loop {
            let contended = self.reserve(evaluation, now);
            if contended.is_some() || evaluation.decision.goes_on() <= now {
                return contended;
            }
            now = evaluation.decision.goes_on();
        }
    }

    /// The limit of one reading, if it delays and has not been charged, and the longest that the request may then have waited in all,
    /// in nanoseconds.
    fn delaying(&self, evaluation: &Evaluation, slot: usize) -> Option<(&Limiter, u64)> {
        let reading = evaluation.decision.readings.get(slot)?;
        let (rule, limiter) = self.rule(reading.rule)?;
        let most = longest_wait(rule, reading)?;
        (evaluation.charged >> slot & 1 == 0).then(|| (limiter, most.saturating_add(evaluation.decision.delay_nanos)))
    }

    /// Charges the limits that delay and count by windows, as of one moment that all of them have room at.
    fn reserve_windows(&self, evaluation: &mut Evaluation, now: Timestamp) -> Option<usize> {
        let mut open = [None; Route::MAX_RULES];
        for (slot, open) in open.iter_mut().enumerate() {
            *open = self.delaying(evaluation, slot);
        }
        self.agree_on_a_wait(evaluation, &open);
        // what each was charged as of; a limit after which the wait grew is charged for the later moment, too
        let mut moments = [None; Route::MAX_RULES];
        for _ in 0..=MAX_TRIES {
            let mut all = true;
            for (slot, (open, moment)) in open.iter().zip(&mut moments).enumerate() {
                let Some((_, most)) = *open else { continue };
                if *moment == Some(evaluation.decision.goes_on()) {
                    continue;
                }
                match self.reserve_slot(evaluation, slot, now, most) {
                    Ok(()) => (*moment, all) = (Some(evaluation.decision.goes_on()), false),
                    Err(contended) => return contended.then_some(slot),
                }
            }
            if all {
                break;
            }
        }
        None
    }

    /// Lets the wait grow until all of these limits have room at its end, if there is such a moment within what each of them allows.
    fn agree_on_a_wait(&self, evaluation: &mut Evaluation, open: &[Option<(&Limiter, u64)>]) {
        for _ in 0..MAX_TRIES {
            let (at, mut more) = (evaluation.decision.goes_on(), 0);
            for (slot, open) in open.iter().enumerate() {
                let Some((limiter, most)) = *open else { continue };
                let first =
                    evaluation.probes.get(slot).and_then(Option::as_ref).map(|probe| (&probe.place, probe.cost));
                let further =
                    evaluation.more.iter().filter(|more| more.slot == slot).map(|more| (&more.place, more.cost));
                for (place, cost) in first.into_iter().chain(further) {
                    let said = limiter.probe(place, at, cost).judgement;
                    match said.retry_nanos {
                        _ if said.admitted => {}
                        Some(wait) if evaluation.decision.delay_nanos.saturating_add(wait) <= most => {
                            more = more.max(wait)
                        }
                        // there is none, as the charge will find
                        _ => return,
                    }
                }
            }
            if more == 0 {
                return;
            }
            evaluation.decision.delay_nanos += more;
        }
    }

    /// Charges the limit of one reading, which delays, as of the first moment that it has for the request, if the request has then
    /// waited for at most `most` nanoseconds. The error says whether it was a race that was lost.
    fn reserve_slot(&self, evaluation: &mut Evaluation, slot: usize, now: Timestamp, most: u64) -> Result<(), bool> {
        evaluation.charged |= 1 << slot;
        let Some(reading) = evaluation.decision.readings.get(slot).copied() else { return Ok(()) };
        let Some(first) = evaluation.probes.get(slot).copied().flatten() else { return Ok(()) };
        let noted = |place: Place, cost| Probe::unasked(&Place { noted: Some(now), ..place }, cost);
        let mut charged = self.reserve_one(evaluation, &reading, &noted(first.place, first.cost), most);
        for More { place, cost, .. } in evaluation.more.clone().into_iter().filter(|more| more.slot == slot) {
            charged = charged.and_then(|_| self.reserve_one(evaluation, &reading, &noted(place, cost), most));
        }
        match charged {
            Ok(judgement) => {
                let waits = evaluation.decision.goes_on() > now;
                if let Some(reading) = evaluation.decision.readings.get_mut(slot) {
                    reading.fill(&judgement);
                    reading.outcome = if waits { Outcome::Delayed } else { Outcome::Admitted };
                }
                Ok(())
            }
            Err(mut lost) => {
                // it was asked about a later moment than the client is told at
                let ahead = saturating_nanos(evaluation.decision.goes_on().since(now));
                lost.judgement.retry_nanos = lost.judgement.retry_nanos.map(|wait| wait.saturating_add(ahead));
                self.refuse_late(evaluation, slot, &lost, now);
                Err(lost.contended)
            }
        }
    }

    /// Charges every other limit that the request fits, shadow ones among them, as of `now`, the end of its wait or the moment
    /// its place at the origin was found; if its verdict is still [`Verdict::Admitted`].
    ///
    /// What comes back is taken first, then budgets, the one nearest to its end first. If an enforced limit has been spent by
    /// others since it was read, the verdict turns into a refusal and the places return. The second value is as that of
    /// [`Engine::reserve`].
    pub fn admit(&self, evaluation: &mut Evaluation, now: Timestamp) -> (Holds, Option<usize>) {
        // written where it is returned, as there is room for much
        let mut result = (Holds::new(), None);
        result.1 = self.admit_into(evaluation, now, &mut result.0);
        result
    }

    /// The same; what the request holds then is put into `holds`, which is empty.
    pub fn admit_into(&self, evaluation: &mut Evaluation, now: Timestamp, holds: &mut Holds) -> Option<usize> {
        let contended = self.charge_all(evaluation, now, holds);
        self.keep_grants(evaluation, holds);
        if let Some(token) = evaluation.token.take()
            && evaluation.decision.verdict == Verdict::Admitted
        {
            token.spend();
            let mut limiters = evaluation.decision.readings.iter().filter_map(|reading| self.limiter(reading.rule));
            limiters
                .find(|limiter| limiter.rate_door().is_some())
                .into_iter()
                .for_each(|limiter| limiter.note_unit(now));
        }
        contended
    }

    fn charge_all(&self, evaluation: &mut Evaluation, now: Timestamp, holds: &mut Holds) -> Option<usize> {
        let mut contended = None;
        if evaluation.decision.verdict != Verdict::Admitted {
            return contended;
        }
        if evaluation.shared_slots != 0 {
            self.admit_shared(evaluation, now, &mut contended, holds);
            if evaluation.decision.verdict != Verdict::Admitted {
                holds.clear();
                self.give_back(evaluation, now);
                return contended;
            }
        }
        let order = charging_order(self, &evaluation.decision.readings);
        for position in 0..evaluation.decision.readings.len() {
            let Some(slot) = order.get(position).map(|word| usize::from(*word as u8)) else { break };
            let Some(reading) = evaluation.decision.readings.get(slot) else { continue };
            if reading.outcome != Outcome::Admitted || (evaluation.charged | evaluation.shared_slots) >> slot & 1 == 1 {
                continue;
            }
            let charged = match self.charge_one(evaluation, slot, now, holds) {
                Ok(()) if !evaluation.more.is_empty() => self.charge_more(evaluation, slot, now, holds),
                charged => charged,
            };
            if let Err(lost) = charged {
                contended = contended.or(lost.contended.then_some(slot));
                self.refuse_late(evaluation, slot, &lost, now);
                if evaluation.decision.verdict != Verdict::Admitted {
                    holds.clear();
                    if evaluation.shared_slots != 0 {
                        self.give_back(evaluation, now);
                    }
                    return contended;
                }
            }
        }
        self.charge_watched_demands(evaluation, now);
        contended
    }

    /// Charges the limits that gates share, as they were settled; the first that is against the request ends it.
    fn admit_shared(
        &self,
        evaluation: &mut Evaluation,
        now: Timestamp,
        contended: &mut Option<usize>,
        holds: &mut Holds,
    ) {
        for slot in self.to_settle(evaluation) {
            let (said, by) = self.charge_shared(evaluation, slot, now);
            let Some(reading) = evaluation.decision.readings.get_mut(slot) else { continue };
            reading.by = by;
            match said {
                Ok((judgement, hold)) => {
                    reading.fill(&judgement);
                    if let Some(hold) = hold {
                        // as of a limit of the gate itself
                        let _ = holds.try_push(Held { slot, hold });
                    }
                }
                Err(lost) => {
                    *contended = contended.or(lost.contended.then_some(slot));
                    self.refuse_late(evaluation, slot, &lost, now);
                    if evaluation.decision.verdict != Verdict::Admitted {
                        return;
                    }
                }
            }
        }
    }

    /// Charges a limit that delays at the first moment that is free, at most `most` away.
    fn reserve_one(
        &self,
        evaluation: &mut Evaluation,
        reading: &Reading,
        probe: &Probe,
        most: u64,
    ) -> Result<Judgement, Lost> {
        let Some(limiter) = self.limiters().get(reading.rule) else { return Err(GONE) };
        let mut tries = 0;
        loop {
            // limits that delay are charged on entry, so there is nothing to hold
            let lost = match limiter.commit(probe, evaluation.decision.goes_on()) {
                Ok((judgement, _)) => {
                    limiter.note_reserved(&probe.place, evaluation.decision.goes_on(), probe.cost);
                    return Ok(judgement);
                }
                Err(lost) => lost,
            };
            tries += 1;
            match lost.judgement.retry_nanos {
                Some(more) if tries <= MAX_TRIES && evaluation.decision.delay_nanos.saturating_add(more) <= most => {
                    evaluation.decision.delay_nanos += more;
                }
                _ => return Err(lost),
            }
        }
    }

    /// Charges the limit of one reading, if it was asked, and adds what the request holds then.
    fn charge_one(
        &self,
        evaluation: &mut Evaluation,
        slot: usize,
        now: Timestamp,
        holds: &mut Holds,
    ) -> Result<(), Lost> {
        let Evaluation { decision, probes, .. } = evaluation;
        if let (Some(reading), Some(Some(probe))) = (decision.readings.get_mut(slot), probes.get(slot)) {
            reading.fill(&self.commit((slot, reading.rule), probe, now, holds)?);
        }
        Ok(())
    }

    /// Charges what was found of one key of a request, and adds what the request holds then.
    pub(super) fn commit(
        &self,
        (slot, rule): (usize, usize),
        probe: &Probe,
        now: Timestamp,
        holds: &mut Holds,
    ) -> Result<Judgement, Lost> {
        let limiter = self.limiters().get(rule).ok_or(GONE)?;
        let (judgement, mut hold) = limiter.commit(probe, now)?;
        if let Some(sync) = self.peer_sync(rule) {
            sync.admitted(&probe.place, probe.cost, &mut hold);
        }
        if let Some(hold) = hold {
            // there are as many places for holds as keys, so none is ever dropped here
            let _ = holds.try_push(Held { slot, hold });
        }
        Ok(judgement)
    }

    /// Others were faster: a refusal, unless the limit only watches or marks.
    pub(super) fn refuse_late(&self, evaluation: &mut Evaluation, slot: usize, lost: &Lost, now: Timestamp) {
        let probe = evaluation.probes.get(slot).copied().flatten();
        let store_error = self.refuses_on_store_error(evaluation, slot);
        let Some(reading) = evaluation.decision.readings.get_mut(slot) else { return };
        let Some((rule, limiter)) = self.rule(reading.rule) else { return };
        reading.fill(&lost.judgement);
        if reading.mode == Mode::Enforce && matches!(rule.action, OnLimit::Tag { .. }) {
            reading.outcome = Outcome::Tagged;
            return;
        }
        // a limit that counts its refusals counts this one too
        if let Some((judgement, _)) = probe.and_then(|probe| limiter.count_refusal(&probe.place, now, probe.cost)) {
            // what it was refused for is what stood before it was counted
            reading.fill(&Judgement { standing: reading.standing, ..judgement });
            reading.outcome = Outcome::Refused;
        }
        if reading.mode == Mode::Enforce {
            let refusal = if store_error { Refusal::StoreSilent } else { limiter.refusal().into() };
            evaluation.decision.verdict = Verdict::Refused(refusal);
            evaluation.decision.delay_nanos = 0;
        }
    }
}

/// How long the limit may make this request wait; `None` if it does not delay, or was not asked.
fn longest_wait(rule: &Rule, reading: &Reading) -> Option<u64> {
    match (&rule.action, reading.mode, reading.outcome) {
        (OnLimit::Delay { max }, Mode::Enforce, Outcome::Admitted | Outcome::Delayed) => Some(saturating_nanos(*max)),
        _ => None,
    }
}

/// How often a delayed request may find that another took the moment it was to go at.
const MAX_TRIES: u32 = 8;

/// A limit that is not there: cannot happen, and refuses if it does.
const GONE: Lost = Lost::refused(Judgement::REFUSED);

/// The readings in the order of charging: what can be given back first, then by what is left of it. One word for each, whose
/// lowest byte is its position; there are as many as readings.
#[inline]
fn charging_order(engine: &Engine, readings: &Readings) -> [u64; Route::MAX_RULES] {
    let mut order = [u64::MAX; Route::MAX_RULES];
    for (slot, reading) in readings.iter().enumerate() {
        // whether it cannot be given back, what is left, and, where all else is equal, the position
        let rank = |limiter: &Limiter| u64::from(!limiter.gives_back()) << 48 | u64::from(reading.remaining) << 8;
        // one that is not there comes first, and is passed over
        let mut word = engine.limiter(reading.rule).map_or(0, rank) | slot as u64;
        for placed in order.iter_mut().take(slot) {
            if word < *placed {
                std::mem::swap(&mut word, placed);
            }
        }
        if let Some(last) = order.get_mut(slot) {
            *last = word;
        }
    }
    order
}
