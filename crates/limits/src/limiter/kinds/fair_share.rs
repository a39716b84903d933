//! `type: fair_share`: one capacity for all, the heaviest give way first.

use super::form::{Form, LimitKind, Part, Value, compared};
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

impl FairShare {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        words: &["capacity", "nodes", "charge_parents"],
        no_delay: Some("the share of a moment from now is not known"),
        no_stand_in: Some("a `fair_share` weighs all requests of a route, not some"),
        ..Form::new("fair_share")
    };
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
