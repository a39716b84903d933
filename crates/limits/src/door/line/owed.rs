//! To whom a holder owes his place, if he keeps it idle.

use super::{Active, Line, Next};
use crate::units::Criticality;

impl Line {
    /// The one who is next, if its request matters more than one of this class, or its key would hold no more with a place of these nodes than
    /// their key without, each for what its weight stands for.
    pub(in crate::door) fn owed_by(&self, holder: &Active, weight: f32, criticality: Criticality) -> Option<Next> {
        let holds = |nodes: &Active| {
            let [key, ..] = *nodes;
            self.nodes.numbers(key).map_or(0.0, |[held, ..]| held)
        };
        let keeps = holds(holder) - 1.0;
        let (before, from) = self.waiting.split_at_checked(criticality.position())?;
        // most owe nothing, which is known without a look at all that wait
        let matters_more = before.iter().any(|waiting| *waiting > 0);
        if !matters_more && (from.first() == Some(&0) || keeps <= 0.0) {
            return None;
        }
        let next = self.best(false)?;
        let group = self.groups.get(next.group as usize)?;
        let is_lighter = (holds(&group.nodes) + 1.0) / group.weight <= keeps / weight;
        (matters_more || is_lighter).then_some(next)
    }
}
