//! `type: fair_share`: one capacity for all, the heaviest give way first. [`share`] says how.

pub mod caps;
pub mod controller;
mod follows;
pub mod offer;
pub mod root;
pub mod share;
pub mod spec;
pub mod word;

use std::time::Duration;

use super::form::{Bound, Form, FromWords, LimitKind, Part, compared, own};
use follows::Follows;
use offer::Offer;
use spec::{FairShareSpec, NodeSpec, Parents};

use super::words::{Takes, Value, Word, Words};
use crate::limiter::kind::{Capacity, Sketch};
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::probe::{Probe, Seen};
use crate::limiter::{Gauges, Judgement, Kind, Lost, Moved, Place, Refuses, Spec, State, Taken};
use crate::sketch::Seed;
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// At most `capacity` in all; above it the heaviest give way first.
#[derive(Debug, Clone, PartialEq)]
pub struct FairShare {
    /// What is shared.
    pub capacity: Capacity,
    /// How many times a client's share each node may take, in the order of the rule's nodes; at least 1.
    pub multipliers: Vec<u32>,
    /// How far each node is generalised, in the same order: never less than the one before it. Nodes of one level are compared
    /// with each other, and the heaviest stands for all.
    pub levels: Vec<u8>,
    /// Whether traffic that one node limited still counts in the wider ones.
    pub charge_parents: bool,
    /// Size of the table of offered rates.
    pub memory: Bytes,
}

const CAPACITY: Word = Word::new(
    "capacity",
    Takes::Capacity,
    "What is shared out: a rate such as `2000/s`, or `origin:NAME`, which is what that origin's `inflight` can take at its present speed. \
     For `fair_share`; must be given.",
);

const NODES: Word = Word::new(
    "nodes",
    Takes::Nodes,
    "What requests are grouped by, the most specific first, at most 12. Default: `[client_ip, route]` and `client_ip` once a client's \
     share, its /24 (IPv6: /48) 16 times and its /16 (/32) 64 times that. For `fair_share`.",
);

const CHARGE_PARENTS: Word = Word::new(
    "charge_parents",
    Takes::Flag,
    "Whether traffic that one node limits still counts in the wider ones. Default `false`, so that a limited client is not held against \
     its network. For `fair_share`.",
);

impl FairShare {
    /// What is shared out, and by which numbers.
    fn numbers(&self) -> (Capacity, FairShareSpec) {
        let shared = match self.capacity {
            Capacity::Rate(rate) => spec::Capacity::Rate(rate),
            Capacity::Origin(_) => spec::Capacity::Follows,
        };
        let node = |(level, multiplier): (&u8, &u32)| NodeSpec { level: *level, multiplier: f64::from(*multiplier) };
        let numbers = FairShareSpec {
            nodes: self.levels.iter().zip(&self.multipliers).map(node).collect(),
            memory: self.memory,
            parents: if self.charge_parents { Parents::Charged } else { Parents::Apart },
            ..FairShareSpec::new(shared)
        };
        (self.capacity, numbers)
    }

    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        words: &[&CAPACITY, &NODES, &CHARGE_PARENTS],
        warns_of_small_sketch: false,
        no_delay: Some("the share of a moment from now is not known"),
        no_stand_in: Some("a `fair_share` weighs all requests of a route, not some"),
        ..Form::new::<FairShare>(
            "fair_share",
            "at most `capacity` in all; above it the heaviest give way first.",
            "{ type: fair_share, capacity: 20/s }",
        )
    };
}

impl FromWords for FairShare {
    fn from_words(words: &mut Words) -> Option<FairShare> {
        words.require(&[&CAPACITY]);
        let memory = words.sketch(Sketch::HALF);
        let charge_parents = words.flag(&CHARGE_PARENTS);
        let (Value::Capacity(capacity), Value::Nodes(nodes)) = (words.value(&CAPACITY)?.0, words.value(&NODES)?.0)
        else {
            return None;
        };
        let (multipliers, levels) = nodes.into_iter().unzip();
        Some(FairShare { capacity, multipliers, levels, charge_parents, memory })
    }
}

impl LimitKind for FairShare {
    fn form(&self) -> &'static Form {
        &FairShare::FORM
    }

    fn state(&self, spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
        Ok(Box::new(FairShareState::new(spec, seed)?))
    }

    fn bound(&self) -> Option<Bound> {
        // a quarter of a second's worth, at least eight
        let per_second = fixed(self.capacity)?;
        Some(Bound::Interval { burst: (per_second / 4.0).max(8.0), per_second })
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((Sketch::HALF, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let nodes = self.multipliers.iter().copied().zip(self.levels.iter().copied());
        vec![
            ("capacity", Value::Capacity(self.capacity)),
            ("nodes", Value::Nodes(nodes.collect())),
            ("charge_parents", Value::Flag(self.charge_parents)),
        ]
    }

    fn needs(&self, owed: Owed) -> Needs {
        match owed.as_shares() {
            Some((offered, share)) => Needs { offered: Some(offered), share: Some(share), ..Needs::default() },
            None => Needs::default(),
        }
    }

    fn standing(&self) -> Vec<Part> {
        vec![Part::Text("offered "), Part::Offered, Part::Text(", a client's share was "), Part::Share]
    }

    fn summary(&self) -> String {
        "{capacity} in all".to_owned()
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &FairShare| self == other)
    }

    fn nodes_summary(&self) -> Option<String> {
        let mut different = self.levels.clone();
        different.dedup();
        // a chain has a level for each
        let of = match different.len() == self.levels.len() {
            true => String::new(),
            false => format!(" in {} levels", different.len()),
        };
        Some(format!("{} nodes{of}", self.levels.len()))
    }

    fn follows_origin(&self) -> Option<usize> {
        if let Capacity::Origin(origin) = self.capacity { Some(origin) } else { None }
    }
}

/// The state of one `fair_share` limit.
#[derive(Debug)]
struct FairShareState {
    share: share::FairShare,
    follows: Option<Follows>,
    /// What the policy says is shared out, per second; `None` where an origin says it.
    capacity: Option<f64>,
}

impl FairShareState {
    fn new(spec: &Spec<'_>, seed: &Seed) -> Result<FairShareState, OutOfRange> {
        let (capacity, numbers) = own::<FairShare>(spec)?.numbers();
        Ok(FairShareState {
            share: share::FairShare::new(&numbers, seed)?,
            follows: Follows::new(capacity, spec.origin_caps),
            capacity: fixed(capacity),
        })
    }
}

impl State for FairShareState {
    fn prefetch(&self, at: &Place<'_>) {
        for (node, key) in at.nodes.iter().enumerate() {
            if let Some(key) = key {
                self.share.prefetch(*key, node);
            }
        }
    }

    /// Counts the request as offered.
    fn probe(&self, at: &Place<'_>, now: Timestamp, cost: Cost, _held: u32) -> Probe {
        let offered = self.share.offer(at.nodes, now, at.dice);
        let judgement = offered.judgement(self.share.nodes());
        Probe::new(at, cost, judgement, Seen::Share(Offer::new(offered, at.nodes)))
    }

    fn commit(&self, probe: &Probe, now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost> {
        let Seen::Share(offer) = &probe.seen else { return Err(Lost::refused(Judgement::REFUSED)) };
        Ok((self.share.admit(&offer.nodes(), &offer.offered, now)?, None))
    }

    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange> {
        let (capacity, numbers) = own::<FairShare>(spec)?.numbers();
        let follows = Follows::new(capacity, spec.origin_caps);
        Ok(Box::new(FairShareState {
            share: self.share.followed_by(&numbers)?,
            follows: follows.map(|after| after.following(self.follows.as_ref(), moved.origins)),
            capacity: fixed(capacity),
        }))
    }

    fn take_over(&self) {
        if let Some(capacity) = self.capacity {
            self.share.set_capacity(capacity);
        }
    }

    fn maintain(&self, now: Timestamp) {
        self.share.maintain(now);
    }

    fn completed(&self, origin: usize, took: Duration, cap: u32) {
        if let Some(capacity) = self.follows.as_ref().and_then(|follows| follows.completed(origin, took, cap)) {
            self.share.set_capacity(capacity);
        }
    }

    fn owed(&self, _: &Kind, _: u8, standing: u64, _: Cost) -> Owed {
        Owed::shares(standing)
    }

    fn refuses(&self) -> Refuses {
        Refuses::Share
    }

    fn is_by_nodes(&self) -> bool {
        true
    }

    fn gauge(&self, gauges: &mut Gauges) {
        gauges.share = Some(self.share.alpha());
        gauges.capacity = self.share.capacity();
        gauges.offered = Some(self.share.offered_rate());
    }

    fn memory(&self) -> Bytes {
        self.share.memory()
    }
}

/// What a number in the policy says, per second.
fn fixed(capacity: Capacity) -> Option<f64> {
    match capacity {
        Capacity::Rate(rate) => Some(rate.per_second()),
        Capacity::Origin(_) => None,
    }
}
