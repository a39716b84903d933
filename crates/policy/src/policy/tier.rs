//! How much a request matters, and for how many clients its own stands: by its route, its client's tier, and the word of a trusted peer.
//!
//! The later of these wins. Origins get the result in a field of the gate's own, which no client can send.

use http::{HeaderName, HeaderValue};

use super::{Condition, Policy, Route};
use crate::client::{Client, CriticalityField};
use crate::request::Request;
use crate::units::Criticality;

/// The field in which origins are told how much a request matters, where it is not [`Criticality::Default`].
pub const CRITICALITY_FIELD: HeaderName = HeaderName::from_static("x-tidegate-criticality");

/// Clients that count for more, or matter more or less, than others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTier {
    /// The operator's name.
    pub name: String,
    /// Which requests.
    pub when: Condition,
    /// How many single clients the key of such a request stands for in the queue of an origin: 1 to 1,000,000.
    pub weight: u32,
    /// How much they matter; `None`: as much as their route says.
    pub criticality: Option<Criticality>,
}

impl ClientTier {
    /// More tiers than this are a load error: each request is compared with all of them.
    pub const MOST: usize = 16;
}

/// How much a request matters, and by which tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Class {
    /// How much it matters.
    pub criticality: Criticality,
    /// The client's tier: 0 for none, `n` for the n-th of the policy.
    pub tier: u8,
}

impl Policy {
    /// How much a request on this route matters.
    #[inline]
    pub fn class(&self, request: &Request<'_>, client: &Client, route: &Route) -> Class {
        let mut class = Class { criticality: route.criticality, tier: 0 };
        if !self.tiers.is_empty()
            && let Some((tier, number)) = self.tiers.iter().zip(1..).find(|(tier, _)| tier.when.holds(request, client))
        {
            class = Class { criticality: tier.criticality.unwrap_or(class.criticality), tier: number };
        }
        if let Some(field) = self.clients.criticality.as_ref().filter(|_| client.peer_trusted) {
            class.criticality = field.over(class.criticality, request.headers.get(&field.name));
        }
        class
    }

    /// The tier of this number, as [`Class::tier`] has it.
    pub fn tier(&self, number: u8) -> Option<&ClientTier> {
        self.tiers.get(usize::from(number).checked_sub(1)?)
    }
}

impl CriticalityField {
    /// What a trusted peer makes of a request: what it says, but not more than the ceiling allows. A word that is unknown says nothing.
    fn over(&self, own: Criticality, line: Option<&HeaderValue>) -> Criticality {
        let said = line.and_then(|line| Criticality::from_word(line.to_str().ok()?.trim()));
        // less important is greater
        said.map_or(own, |said| if said < self.ceiling { own.min(self.ceiling) } else { said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trusted_word_lowers_and_raises_up_to_the_ceiling_and_never_lowers_by_it() {
        use Criticality::{Background, Critical, Default, Sheddable};
        let field = |ceiling| CriticalityField { name: HeaderName::from_static("x-c"), ceiling };
        let over = |ceiling, own, said: &'static str| field(ceiling).over(own, Some(&HeaderValue::from_static(said)));
        assert_eq!(over(Critical, Background, "critical"), Critical);
        assert_eq!(over(Critical, Critical, " Background "), Background, "less than its route says");
        assert_eq!(over(Default, Background, "critical"), Default, "up to the ceiling");
        assert_eq!(over(Default, Critical, "critical"), Critical, "the ceiling takes nothing from the route");
        assert_eq!(over(Default, Background, "sheddable"), Sheddable);
        for nothing in ["", "urgent", "critical, background"] {
            assert_eq!(over(Critical, Sheddable, nothing), Sheddable, "{nothing}");
        }
        assert_eq!(field(Critical).over(Sheddable, None), Sheddable);
    }
}
