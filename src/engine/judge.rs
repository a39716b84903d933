//! The verdict: every limit of the route is read, and only when all enforced ones agree is anything charged.
//!
//! Two steps, because a face may have to wait for a place at the origin in between: [`Snapshot::judge`] reads and changes
//! nothing, [`Snapshot::admit`] charges. A request that is refused in between, or that finds its budget gone when it is
//! charged, has cost nobody anything that can be given back; what a lost race leaves in a sketch fades by itself.

use arrayvec::ArrayVec;

use super::decision::{Decision, DecisionId, Outcome, Reading, Readings, Refusal, Verdict};
use super::snapshot::Snapshot;
use crate::client::key::Missing;
use crate::client::{self, Client};
use crate::limiter::{Judgement, Limiter, Permit, Place};
use crate::policy::{Action, Mode, Route, Rule};
use crate::request::Request;
use crate::sketch::KeyHash;
use crate::units::Timestamp;

/// What the face adds to a request: when it came, and one roll of the dice.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The request's identifier.
    pub id: DecisionId,
    /// The stamp that every limit judges by.
    pub at: Timestamp,
    /// A uniform random number.
    pub dice: u64,
}

/// A request that has been judged and not yet charged.
#[derive(Debug)]
pub struct Judged {
    /// The record so far. Its verdict says whether [`Snapshot::admit`] is worth asking.
    pub decision: Decision,
    places: ArrayVec<Option<Place>, { Route::MAX_RULES }>,
}

/// What an admitted request holds until its last byte.
pub type Permits = ArrayVec<Permit, { Route::MAX_RULES }>;

impl Snapshot {
    /// Finds the client and the route, and reads every limit of it. Charges nothing.
    pub fn judge(&self, request: &Request, arrival: Arrival) -> Judged {
        let Arrival { id, at, dice } = arrival;
        let blank = Decision {
            id,
            at,
            dice,
            client: None,
            route: None,
            readings: Readings::new(),
            verdict: Verdict::Refused(Refusal::NoRoute),
        };
        let mut judged = Judged { decision: blank, places: ArrayVec::new() };
        let found = self.policy().routes.find(request);
        judged.decision.route = found.map(|(index, _)| index);
        let Ok(client) = client::resolve(&self.policy().clients, request.peer, request.headers) else {
            judged.decision.verdict = Verdict::Refused(Refusal::ClientUnresolved);
            return judged;
        };
        judged.decision.client = Some(client);
        if let Some((index, route)) = found {
            judged.decision.verdict = self.read_limits(&mut judged, request, &client, index, route);
        }
        judged
    }

    /// Charges every limit that the request fits, shadow ones among them, if its verdict is still [`Verdict::Admitted`].
    ///
    /// Exact places are taken first, as they can be given back, then budgets, the one nearest to its end first. If an
    /// enforced limit has been spent by others since it was read, the verdict turns into a refusal and the places return.
    /// The second value is the position in [`Decision::readings`] of a limit that refused only because a race for
    /// one key could not be settled.
    pub fn admit(&self, judged: &mut Judged) -> (Permits, Option<usize>) {
        let mut permits = Permits::new();
        let mut contended = None;
        if judged.decision.verdict != Verdict::Admitted {
            return (permits, contended);
        }
        let at = judged.decision.at;
        for slot in charging_order(self, &judged.decision.readings) {
            let Some(reading) = judged.decision.readings.get_mut(slot) else { continue };
            let Some((rule, limiter)) = self.rule(reading.rule) else { continue };
            let Some(Some(place)) = judged.places.get(slot) else { continue };
            if reading.outcome != Outcome::Admitted {
                continue;
            }
            match limiter.admit(*place, at, rule.cost) {
                Ok((judgement, permit)) => {
                    fill(reading, &judgement);
                    // there are as many places for permits as readings, so none is ever dropped here
                    permits.extend(permit);
                }
                Err(lost) => {
                    fill(reading, &lost.judgement);
                    contended = contended.or(lost.contended.then_some(slot));
                    if rule.mode == Mode::Enforce {
                        judged.decision.verdict = Verdict::Refused(refusal_of(limiter));
                        permits.clear();
                        break;
                    }
                }
            }
        }
        (permits, contended)
    }

    /// Both steps at once, for requests that need no place at an origin.
    pub fn decide(&self, request: &Request, arrival: Arrival) -> (Decision, Permits) {
        let mut judged = self.judge(request, arrival);
        let (permits, _) = self.admit(&mut judged);
        (judged.decision, permits)
    }

    fn rule(&self, index: usize) -> Option<(&Rule, &Limiter)> {
        Some((self.policy().rules.get(index)?, self.limiter(index)?))
    }

    fn read_limits(
        &self,
        judged: &mut Judged,
        request: &Request,
        client: &Client,
        index: usize,
        route: &Route,
    ) -> Verdict {
        let mut worst = None;
        for &rule_index in &route.rules {
            let Some((rule, limiter)) = self.rule(rule_index) else { continue };
            let (reading, place, refusal) = match key_of(rule, limiter, request, client, &route.name) {
                Ok(key) => {
                    let origin = if let Action::Forward(origin) = route.action { Some(origin) } else { None };
                    let place = Place { key, route: index, origin };
                    let judgement = limiter.probe(place, judged.decision.at, rule.cost);
                    let mut reading = blank_reading(rule_index, rule.mode);
                    fill(&mut reading, &judgement);
                    (reading, Some(place), refusal_of(limiter))
                }
                Err(missing) => {
                    let mut reading = blank_reading(rule_index, rule.mode);
                    reading.outcome = if missing == Missing::Deny { Outcome::Refused } else { Outcome::Exempt };
                    (reading, None, Refusal::KeyMissing)
                }
            };
            if reading.outcome == Outcome::Refused && rule.mode == Mode::Enforce {
                worst = strictest(worst, refusal);
            }
            // `config` admits at most MAX_RULES limits to a route; one more would go unread, never out of bounds
            if judged.decision.readings.try_push(reading).is_err() || judged.places.try_push(place).is_err() {
                break;
            }
        }
        worst.map_or(Verdict::Admitted, Verdict::Refused)
    }
}

/// Of two reasons the one that says most to the client: a malformed request before its own budget before our capacity.
fn strictest(a: Option<Refusal>, b: Refusal) -> Option<Refusal> {
    let rank = |refusal: Refusal| match refusal {
        Refusal::KeyMissing => 0,
        Refusal::Limit => 1,
        _ => 2,
    };
    Some(a.map_or(b, |a| if rank(b) < rank(a) { b } else { a }))
}

fn key_of(rule: &Rule, limiter: &Limiter, request: &Request, client: &Client, route: &str) -> Result<KeyHash, Missing> {
    match limiter.seed() {
        Some(seed) => rule.key.hash(request, client, route, seed).map_err(|_| rule.key.missing()),
        None => Ok(KeyHash::default()),
    }
}

fn refusal_of(limiter: &Limiter) -> Refusal {
    match limiter {
        Limiter::Rate(_) => Refusal::Limit,
        Limiter::Inflight(_) => Refusal::Inflight,
    }
}

fn blank_reading(rule: usize, mode: Mode) -> Reading {
    Reading { rule, mode, outcome: Outcome::Exempt, remaining: 0, retry_nanos: None, reset_nanos: None }
}

fn fill(reading: &mut Reading, judgement: &Judgement) {
    reading.outcome = if judgement.admitted { Outcome::Admitted } else { Outcome::Refused };
    reading.remaining = judgement.remaining;
    reading.retry_nanos = judgement.retry_nanos;
    reading.reset_nanos = judgement.reset_nanos;
}

/// Positions of the readings in the order of charging: what can be given back first, then by what is left of it.
fn charging_order(snapshot: &Snapshot, readings: &Readings) -> ArrayVec<usize, { Route::MAX_RULES }> {
    let nearness = |slot: &usize| {
        let reading = readings.get(*slot)?;
        let gives_back = matches!(snapshot.limiter(reading.rule)?, Limiter::Inflight(_));
        Some((!gives_back, reading.remaining))
    };
    let mut order: ArrayVec<usize, { Route::MAX_RULES }> = (0..readings.len()).collect();
    if order.len() > 1 {
        order.sort_unstable_by_key(nearness);
    }
    order
}
