//! Limits that several gates share: what this gate may decide by itself, what it must ask the store, and what an answer or
//! its absence means for a request.
//!
//! The engine never waits. A face takes every shared limit of a request through [`Snapshot::step`] after it has been
//! judged and before it is admitted: either the gate holds enough already, or the step says what to ask, or that somebody else is
//! asking. What comes back is told by [`Snapshot::brought`]. By then the limit is settled, and [`Snapshot::admit`]
//! charges it like any other. A face without stores (replay, tests of a policy) leaves them out: one gate alone is all gates.

mod alone;
mod names;
mod refill;

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::ask::Ask;
use super::by::By;
use super::decision::{Outcome, Verdict};
use super::judge::Judged;
use super::keys::keys_into;
use super::snapshot::Snapshot;
use super::succession::shared_as;
use crate::client::Client;
use crate::client::key::Keys;
use crate::limiter::cluster::{
    Answer, Asking, Begin, Ends, Leases, Look, OnStoreError, Promise, Question, Rotation, Sharing, Silence, Watch,
};
use crate::limiter::{Judgement, Kind, Lost, Place};
use crate::policy::{Mode, OnLimit, Policy, Route, Rule, Shared};
use crate::request::Request;
use crate::sketch::{KeyHash, NextUnit};
use crate::units::{Cost, OutOfRange, Period, Timestamp};
use names::Names;

/// A shared limit as this gate sees it.
#[derive(Debug)]
pub struct Cluster {
    shared: Shared,
    leases: Arc<Leases>,
    names: Names,
    /// Those under the secret of before, while gates have it.
    previous: Option<Names>,
    /// The windows, of a quota.
    period: Option<Period>,
}

/// What became of one shared limit of a request: at which position, and what.
pub(super) type Settled = (usize, Brought);

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// Paid for; so much is left.
    Paid { left: u32 },
    /// It does not fit, and will after so many nanoseconds.
    Refused { retry_nanos: Option<u64> },
    /// Nobody knows. There are so many gates, as far as is known.
    Silent { silence: Silence, nodes: u32 },
}

/// What is to be done about a shared limit.
#[derive(Debug)]
pub enum Step {
    /// Nothing: this gate knows.
    Settled,
    /// The same, but what it holds goes to its end: the store should be asked for more, and the request need not wait.
    Refill(Errand),
    /// The store must be asked, and the request waits for it.
    Ask(Errand),
    /// Another request is asking about the key; when it is through, ask again for a step.
    Wait(KeyHash),
    /// Ask again for a step at once: what is held has changed meanwhile.
    Again,
}

/// A question on its way.
#[derive(Debug)]
pub struct Errand {
    /// What to ask now; see [`Errand::heard`].
    pub question: Question,
    /// What whoever waits for it waits by; see [`Step::Wait`].
    pub key: KeyHash,
    cluster: Arc<Cluster>,
    watch: Watch,
    asking: Option<Asking>,
    /// While the key has two names.
    rotation: Option<Rotation>,
}

/// What an errand brought home, for the request that ran it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brought {
    by: By,
    end: End,
    /// Whether so little came with it that the key's next request would have to wait, too.
    low: bool,
    /// When what was taken of a lease ends, should another limit refuse the request; and among how many gates.
    back: Option<(Ends, u32)>,
}

impl Errand {
    /// Takes in the answer to [`Errand::question`]. Gives what is to be [`done`](Errand::done) with; `None` while a secret is being
    /// replaced and there is another question, which then stands in the place of the one answered.
    pub fn heard(&mut self, answer: Answer) -> Option<Answer> {
        if answer.granted > 0 {
            self.cluster.leases.granted(&mut self.watch, self.cluster.names.tiers.len());
        }
        match &mut self.rotation {
            Some(rotation) => rotation.heard(&mut self.question, answer),
            None => Some(answer),
        }
    }

    /// Takes in what the store said to questions of which the first was sent at `sent`, and says what it means for the request that
    /// asked; `nodes` is how many gates there are.
    pub fn done(self, said: Result<Answer, Silence>, nodes: u32, sent: Timestamp, now: Timestamp) -> Brought {
        let (mut more, mut back) = (false, None);
        let end = match (said, self.asking) {
            (Err(silence), asking) => {
                if let Some(asking) = asking {
                    self.cluster.leases.silent(asking);
                }
                End::Silent { silence, nodes }
            }
            (Ok(answer), Some(asking)) => match self.cluster.leases.answered_until(asking, &answer, sent, now) {
                (Look::Holds { left, low }, ends) => {
                    (more, back) = (low, Some((ends, nodes)));
                    End::Paid { left: left.saturating_add(answer.left).min(self.question.promise().most()) }
                }
                (Look::Refused { retry_nanos, .. }, _) => End::Refused { retry_nanos },
                // it came too late to be used
                (Look::Unknown, _) => End::Silent { silence: Silence::TimedOut, nodes },
            },
            (Ok(answer), None) if answer.granted > 0 => End::Paid { left: answer.left },
            (Ok(answer), None) => {
                let (leases, promise) = (&self.cluster.leases, self.question.promise());
                let cost = Cost::new(self.question.least).ok();
                // what is not there any more may have come home with another's question meanwhile
                let held = cost.map(|cost| leases.take_until(self.key, cost, &promise, now));
                if let Some((Look::Holds { left, low }, ends)) = held {
                    (more, back) = (low, Some((ends, nodes)));
                    End::Paid { left }
                } else {
                    if let (Some(retry_nanos), Some(cost)) = (answer.retry_nanos, cost) {
                        leases.remember(self.key, cost, &promise, retry_nanos, (sent, now));
                    }
                    End::Refused { retry_nanos: answer.retry_nanos }
                }
            }
        };
        if let End::Refused { .. } = end {
            self.cluster.leases.unless_overtaken(&self.watch);
        }
        let by = if matches!(end, End::Silent { .. }) { By::Fallback } else { By::Store };
        Brought { by, end, low: more, back }
    }
}

impl Cluster {
    /// The rule's, on what it held before if that is given; `None` for one that is not shared.
    pub(super) fn of(
        rule: &Rule,
        (secret, previous): (&[u8], Option<&[u8]>),
        before: Option<&Cluster>,
    ) -> Result<Option<Cluster>, OutOfRange> {
        // of an estimate no store is asked
        let Some(shared) = rule.shared.filter(|shared| shared.sharing != Sharing::Estimate) else { return Ok(None) };
        let names = Names::new(rule, secret)?;
        let promises = |names: &Names| names.tiers.iter().map(|tier| tier.promise).collect::<Vec<_>>();
        let period = if let Kind::Quota { window, .. } = &rule.kind { Some(window) } else { None };
        let leases = match before {
            // what was granted under other numbers says nothing about these
            Some(before) if promises(&before.names) == promises(&names) && before.period.as_ref() == period => {
                Arc::clone(&before.leases)
            }
            _ => Arc::new(Leases::new(<Leases>::MEMORY)?),
        };
        let previous = previous.map(|previous| Names::new(rule, previous)).transpose()?;
        Ok(Some(Cluster { shared, leases, names, previous, period: period.cloned() }))
    }

    /// Where and how it is shared.
    pub fn shared(&self) -> Shared {
        self.shared
    }

    /// What this gate holds of it.
    pub fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// What there is of a key of which this gate holds so much, as far as is known.
    fn left(&self, place: &Place, held: u32) -> u32 {
        held.saturating_add(self.leases.left_in_store(place.key.of_tier(place.tier)))
            .min(self.promise(place.tier).most())
    }

    /// By what leases of this key are found, and what they are of.
    fn held_by(&self, place: &Place) -> (KeyHash, Promise) {
        (place.key.of_tier(place.tier), self.promise(place.tier))
    }

    fn promise(&self, tier: u8) -> Promise {
        let tiers = &self.names.tiers;
        tiers.get(usize::from(tier)).or(tiers.first()).map_or(Promise::NOTHING, |tier| tier.promise)
    }

    /// What is known without asking, and whether the store should be asked in the background all the same. A request that
    /// nothing is known about fits so far.
    pub(super) fn look(&self, place: &Place, now: Timestamp, cost: Cost) -> (Judgement, bool) {
        let (key, promise) = self.held_by(place);
        let most = promise.most();
        if cost.get() > most {
            return (refused(most, None), false);
        }
        let known = self.leases.look(key, cost, &promise, now);
        if self.shared.sharing == Sharing::Exact {
            return match known {
                Look::Refused { retry_nanos, .. } => {
                    (refused(most, retry_nanos.map(|nanos| nanos.saturating_add(<Leases>::SLACK_NANOS))), false)
                }
                _ => (admitted(most, most), false),
            };
        }
        match known {
            // the low are filled up when they are taken from
            Look::Holds { left, .. } => (admitted(self.left(place, left), most), false),
            Look::Refused { retry_nanos, due } => (refused(most, retry_nanos), due),
            Look::Unknown => (admitted(0, most), false),
        }
    }
}

fn admitted(left: u32, quota: u32) -> Judgement {
    Judgement {
        admitted: true,
        remaining: left,
        quota,
        retry_nanos: Some(0),
        next_unit: NextUnit::Known(None),
        standing: 0,
    }
}

fn refused(quota: u32, retry_nanos: Option<u64>) -> Judgement {
    Judgement {
        admitted: false,
        remaining: 0,
        quota,
        retry_nanos,
        next_unit: NextUnit::Known(retry_nanos),
        standing: 0,
    }
}

impl Snapshot {
    /// The limit at this position, if it is shared through a store and this face has stores.
    pub fn cluster(&self, rule: usize) -> Option<&Arc<Cluster>> {
        self.clusters().get(rule)?.as_ref()
    }

    /// The positions of the readings whose limits are shared, if the request is to be admitted at all; in the order in which they
    /// are to be settled. Those first of which this gate can take back what it took if another refuses; then, since what the store
    /// was asked for exactly stays charged, the one that allows least, which is the likeliest to refuse.
    pub fn to_settle(&self, judged: &Judged) -> ArrayVec<usize, { Route::MAX_RULES }> {
        if judged.shared_slots == 0 || judged.decision.verdict != Verdict::Admitted {
            return ArrayVec::new();
        }
        let mut slots: ArrayVec<usize, { Route::MAX_RULES }> = (0..Route::MAX_RULES)
            .filter(|slot| judged.shared_slots >> slot & 1 == 1)
            .filter(|slot| judged.decision.readings.get(*slot).is_some_and(|read| read.outcome == Outcome::Admitted))
            .collect();
        slots.sort_unstable_by_key(|slot| {
            let exact =
                self.shared_at(judged, *slot).filter(|(_, cluster, _)| cluster.shared.sharing == Sharing::Exact);
            (exact.map(|(_, cluster, ask)| cluster.promise(ask.place.tier).most()), *slot)
        });
        slots
    }

    /// Gives back what was taken of leases for a request that another limit has refused.
    pub(super) fn give_back(&self, judged: &Judged, now: Timestamp) {
        for (slot, Brought { end, back, .. }) in &judged.settled {
            if let (End::Paid { .. }, Some((ends, nodes)), Some((_, cluster, ask))) =
                (end, *back, self.shared_at(judged, *slot))
            {
                let (key, promise) = cluster.held_by(&ask.place);
                cluster.leases.give_back(key, ask.cost, ends, &promise, nodes, now);
            }
        }
    }

    /// One step towards an answer about the shared limit of the reading at this position, for a request of this client;
    /// `nodes` is how many gates there are.
    pub fn step(
        &self,
        judged: &mut Judged,
        slot: usize,
        (request, client): (&Request<'_>, &Client),
        nodes: u32,
        now: Timestamp,
    ) -> Step {
        let Some((rule, cluster, ask)) = self.shared_at(judged, slot) else { return Step::Settled };
        let (cluster, cost) = (Arc::clone(cluster), ask.cost);
        let (key, promise) = cluster.held_by(&ask.place);
        let route = judged.decision.route;
        let errand = |asking: Option<Asking>, wanted, least| {
            let numbers = (wanted, least);
            self.errand((rule, &cluster, &ask), (request, client, route), asking, numbers, now)
        };
        if cluster.shared.sharing == Sharing::Exact {
            return errand(None, cost.get(), cost.get()).map_or(Step::Settled, Step::Ask);
        }
        if judged.noted >> slot & 1 == 0 {
            judged.noted |= 1 << slot;
            cluster.leases.note(key, cost, now);
        }
        let settled = |end| (slot, Brought { by: By::Lease, end, low: false, back: None });
        let (look, ends) = cluster.leases.take_until(key, cost, &promise, now);
        match look {
            Look::Holds { left, low } => {
                let (left, back) = (cluster.left(&ask.place, left), Some((ends, nodes)));
                judged.settled.push((slot, Brought { by: By::Lease, end: End::Paid { left }, low: false, back }));
                if low && let Begin::Ask(asking) = cluster.leases.refill(key, &promise, nodes, now) {
                    let (wanted, least) = (asking.wanted(), asking.least());
                    return errand(Some(asking), wanted, least).map_or(Step::Settled, Step::Refill);
                }
                Step::Settled
            }
            Look::Refused { retry_nanos, .. } => {
                judged.settled.push(settled(End::Refused { retry_nanos }));
                Step::Settled
            }
            Look::Unknown => match cluster.leases.begin(key, cost, &promise, nodes, now) {
                Begin::Ask(asking) => {
                    let (wanted, least) = (asking.wanted(), asking.least());
                    errand(Some(asking), wanted, least).map_or(Step::Settled, Step::Ask)
                }
                Begin::Busy => Step::Wait(key),
                Begin::Known(Look::Refused { retry_nanos, .. }) => {
                    judged.settled.push(settled(End::Refused { retry_nanos }));
                    Step::Settled
                }
                // somebody brought some this very moment
                Begin::Known(_) => Step::Again,
            },
        }
    }

    fn errand(
        &self,
        (rule, cluster, ask): (usize, &Arc<Cluster>, &Ask),
        (request, client, route): (&Request<'_>, &Client, Option<usize>),
        asking: Option<Asking>,
        (wanted, least): (u32, u32),
        now: Timestamp,
    ) -> Option<Errand> {
        let (limit, _) = self.rule(rule)?;
        let route = route.and_then(|route| self.policy().routes.route(route))?;
        let name = |names: &Names| {
            let mut keys = Keys::from_iter([names.keys.begin()]);
            keys_into(&mut keys, limit, self.policy(), (request, client, route)).ok()?;
            // a request that has several is refused before anybody asks
            Some((keys.pop()?.finish(), Arc::clone(&names.tiers)))
        };
        let begins = self.limiters().get(rule).and_then(|limiter| limiter.windows_begin(now));
        let (key, tiers) = name(&cluster.names)?;
        let mut question = Question { rule, key, tiers, tier: ask.place.tier, begins, wanted, least };
        let previous = cluster.previous.as_ref().and_then(name);
        let rotation = previous.map(|previous| Rotation::begin(&mut question, previous));
        Some(Errand {
            question,
            key: ask.place.key.of_tier(ask.place.tier),
            watch: cluster.leases.watch(ask.place.key, ask.place.tier),
            cluster: Arc::clone(cluster),
            asking,
            rotation,
        })
    }

    /// Tells what an errand brought to the request that waited for it. Then [`Snapshot::refill`] may have another to run.
    pub fn brought(&self, judged: &mut Judged, slot: usize, brought: Brought) {
        judged.refills |= u8::from(brought.low) << slot;
        judged.settled.push((slot, brought));
    }

    /// Whether what the limit at this position came to ends the request, so that no other need be asked.
    pub fn is_against(&self, judged: &Judged, slot: usize) -> bool {
        let Some(reading) = judged.decision.readings.get(slot) else { return false };
        let obeyed = self.rule(reading.rule).is_some_and(|(rule, _)| !matches!(rule.action, OnLimit::Tag { .. }));
        let refused = matches!(settled(judged, slot), Some(Brought { end: End::Refused { .. }, .. }));
        reading.mode == Mode::Enforce && obeyed && (refused || self.refuses_in_the_dark(judged, slot))
    }

    /// Tells that the request has waited long enough for a limit of which nobody brought anything.
    pub fn silent(&self, judged: &mut Judged, slot: usize, silence: Silence, nodes: u32) {
        judged
            .settled
            .push((slot, Brought { by: By::Fallback, end: End::Silent { silence, nodes }, low: false, back: None }));
    }

    fn shared_at(&self, judged: &Judged, slot: usize) -> Option<(usize, &Arc<Cluster>, Ask)> {
        let rule = judged.decision.readings.get(slot)?.rule;
        Some((rule, self.cluster(rule)?, judged.asks.get(slot).copied().flatten()?))
    }

    /// Charges a shared limit by what is settled; the second value is whose word that was.
    pub(super) fn charge_shared(&self, judged: &Judged, slot: usize, now: Timestamp) -> (Result<Judgement, Lost>, By) {
        let lost = |judgement| Err(Lost { judgement, contended: false });
        let Some((rule, cluster, ask)) = self.shared_at(judged, slot) else {
            return (lost(refused(0, None)), By::Gate);
        };
        let most = cluster.promise(ask.place.tier).most();
        // one that nobody settled is as good as one of which nothing was heard
        let end = End::Silent { silence: Silence::TimedOut, nodes: 1 };
        let silent = Brought { by: By::Fallback, end, low: false, back: None };
        let Brought { by, end, .. } = settled(judged, slot).unwrap_or(silent);
        let said = match end {
            // in requests like this one, as of a limit of the gate itself
            End::Paid { left } => Ok(admitted(left / ask.cost.get(), most / ask.cost.get())),
            End::Refused { retry_nanos } => lost(refused(most, retry_nanos)),
            End::Silent { silence, nodes } => match direction(cluster, silence) {
                OnStoreError::Open => Ok(admitted(0, most)),
                OnStoreError::Closed => lost(refused(most, None)),
                OnStoreError::Local => match self.limiters().get(rule) {
                    Some(limiter) => limiter.admit_part(&ask.place, now, ask.cost, nodes),
                    None => lost(refused(most, None)),
                },
            },
        };
        (said, by)
    }

    /// Whether the limit refuses because nobody knows, and not because of what the client did.
    pub(super) fn refuses_in_the_dark(&self, judged: &Judged, slot: usize) -> bool {
        match (settled(judged, slot).map(|settled| settled.end), self.shared_at(judged, slot)) {
            (Some(End::Silent { silence, .. }), Some((_, cluster, _))) => {
                direction(cluster, silence) == OnStoreError::Closed
            }
            _ => false,
        }
    }

    /// Which shared limits were decided without the store, and in which direction.
    pub fn fallbacks<'a>(&'a self, judged: &'a Judged) -> impl Iterator<Item = (usize, OnStoreError)> + 'a {
        judged.settled.iter().filter_map(|(slot, settled)| match settled.end {
            End::Silent { silence, .. } => {
                let (_, cluster, _) = self.shared_at(judged, *slot)?;
                Some((cluster.shared.store, direction(cluster, silence)))
            }
            _ => None,
        })
    }
}

/// What became of the limit at this position.
fn settled(judged: &Judged, slot: usize) -> Option<Brought> {
    judged.settled.iter().find(|(known, _)| *known == slot).map(|(_, brought)| *brought)
}

/// A fault of ours, or of the store's configuration, opens nothing.
fn direction(cluster: &Cluster, silence: Silence) -> OnStoreError {
    if silence == Silence::Faulty { OnStoreError::Closed } else { cluster.shared.on_store_error }
}

/// The position of the limit of the same counts in the same store in the snapshot before.
pub(super) fn shared_before(rule: &Rule, policy: &Policy, before: &Snapshot) -> Option<usize> {
    let old = before.policy();
    let place = shared_as(rule, policy);
    place.and(old.rules.iter().position(|was| shared_as(was, old) == place))
}

/// The limits of a policy that a store is asked about, each on what the one of the same counts in the same store held in the snapshot before.
pub(super) fn clusters(
    policy: &Policy,
    secrets: (&[u8], Option<&[u8]>),
    before: Option<&Snapshot>,
) -> Result<Vec<Option<Arc<Cluster>>>, (String, OutOfRange)> {
    let cluster = |rule: &Arc<Rule>| {
        let before = before.and_then(|before| before.cluster(shared_before(rule, policy, before)?));
        let made = Cluster::of(rule, secrets, before.map(Arc::as_ref));
        made.map(|made| made.map(Arc::new)).map_err(|fault| (rule.name.clone(), fault))
    };
    policy.rules.iter().map(cluster).collect()
}
