//! What a request asks its origin's door with.

use super::core::Engine;
use super::evaluation::Read;
use super::keys::Hashed;
use crate::door::{Asks, Path};
use crate::policy::{Action, Class};

/// In the place of a key that a request lacks: those that lack it are held together, so that nobody is light for leaving it out.
pub(super) const LACKING: u64 = 1;

impl Engine {
    /// The hashes of what it is held together with; `None` if its origin takes any number.
    pub(super) fn at_the_door(&self, about: &Read<'_>, class: Class, hashed: &mut Hashed) -> Option<Asks> {
        let Action::Forward(origin) = about.route.action else { return None };
        let cap = self.policy().origins.get(origin)?.inflight.as_ref()?;
        let mut path = Path::default();
        for (level, ((key, _), hash)) in cap.nodes().iter().zip(&mut path.0).enumerate() {
            let found = self.keys().door(origin, level, key, about, hashed);
            // zero says that there is no node
            *hash = Some(found.map_or(LACKING, |hash| hash.halves()[0].max(LACKING)));
        }
        Some(self.asks(path, class))
    }

    /// What a request of this class asks with.
    pub(super) fn asks(&self, path: Path, class: Class) -> Asks {
        let weight = self.policy().tier(class.tier).map_or(1.0, |tier| tier.weight as f32);
        Asks { path, weight, criticality: class.criticality }
    }
}
