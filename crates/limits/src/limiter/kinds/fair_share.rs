//! `type: fair_share`: one capacity for all, the heaviest give way first.

use super::form::{Form, FromWords, LimitKind, Part, compared};
use super::words::{Takes, Value, Word, Words};
use crate::limiter::kind::{Capacity, Sketch};
use crate::limiter::needs::{Needs, Owed};
use crate::units::Bytes;

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
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        promise: "at most `capacity` in all; above it the heaviest give way first.",
        words: &[&CAPACITY, &NODES, &CHARGE_PARENTS],
        warns_of_small_sketch: false,
        no_delay: Some("the share of a moment from now is not known"),
        no_stand_in: Some("a `fair_share` weighs all requests of a route, not some"),
        ..Form::new::<FairShare>("fair_share")
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
