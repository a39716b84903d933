//! What a probe of a fair share keeps for the commit.

use super::share::Offered;
use crate::limiter::MAX_NODES;
use crate::sketch::KeyHash;

/// What was offered, and the keys whose caps it uses up if admitted.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// What was offered.
    pub offered: Offered,
    /// By node; of others than the limited it does not matter.
    keys: [KeyHash; MAX_NODES],
    /// Which nodes have a key, a bit each.
    known: u16,
}

impl Offer {
    /// Keeps an offer and the keys of its nodes.
    pub fn new(offered: Offered, nodes: &[Option<KeyHash>]) -> Offer {
        let mut offer = Offer { offered, keys: [KeyHash::default(); MAX_NODES], known: 0 };
        for (number, (known, key)) in nodes.iter().zip(&mut offer.keys).enumerate() {
            *key = known.unwrap_or_default();
            offer.known |= u16::from(known.is_some()) << number;
        }
        offer
    }

    /// The keys of all nodes.
    pub fn nodes(&self) -> [Option<KeyHash>; MAX_NODES] {
        let mut number = 0;
        self.keys.map(|key| {
            number += 1;
            (self.known >> (number - 1) & 1 == 1).then_some(key)
        })
    }
}
