//! To whom a holder owes his place, if he keeps it idle.

use super::{Active, Line, Next};
use crate::units::Criticality;

impl Line {
    /// The one who is next, if its request matters more than one of this class, or its key would hold no more with a place of these nodes than
    /// their key without, each for what its weight stands for; of keys that hold nothing also if that is true of a network of both, or if the
    /// holder has been idle for `long`.
    pub(in crate::door) fn owed_by(
        &self,
        holder: &Active,
        (weight, long): (f32, bool),
        criticality: Criticality,
    ) -> Option<Next> {
        let holds = |at: u32| self.nodes.numbers(at).map_or(0.0, |[held, ..]| held);
        let [key, networks @ ..] = holder;
        let keeps = holds(*key) - 1.0;
        let (before, from) = self.waiting.split_at_checked(criticality.position())?;
        // most owe nothing, which is known without a look at all that wait
        let matters_more = before.iter().any(|waiting| *waiting > 0);
        let heavy = long || keeps > 0.0 || networks.iter().any(|network| holds(*network) > 1.0);
        if !matters_more && (from.first() == Some(&0) || !heavy) {
            return None;
        }
        let next = self.best(false)?;
        let group = self.groups.get(next.group as usize)?;
        let [own, around @ ..] = &group.nodes;
        let is_lighter = (holds(*own) + 1.0) / group.weight <= keeps / weight;
        let has_none = holds(*own) < 1.0 && own != key;
        let lighter_around = || {
            let pairs = networks.iter().zip(around).filter(|(network, other)| network != other);
            pairs
                .into_iter()
                .any(|(network, other)| (holds(*other) + 1.0) / group.weight <= (holds(*network) - 1.0) / weight)
        };
        (matters_more || is_lighter || has_none && (long || lighter_around())).then_some(next)
    }
}
