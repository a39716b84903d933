//! What a request asks its origin's door with.

use super::core::Engine;
use super::evaluation::Read;
use super::keys::Hashed;
use crate::client::Client;
use crate::client::key::{KeyPart, KeySpec};
use crate::door::{Asks, Label, Path};
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
        Some(self.asks(path, class, label(about.client, cap.nodes().iter().map(|(key, _)| key))))
    }

    /// What a request of this class asks with.
    pub(super) fn asks(&self, path: Path, class: Class, label: Label) -> Asks {
        let weight = self.policy().tier(class.tier).map_or(1.0, |tier| tier.weight as f32);
        Asks { path, weight, criticality: class.criticality, label }
    }
}

/// The client for people who look at a door: by what it is counted at each level, the key first.
pub(super) fn label<'a>(client: &Client, levels: impl Iterator<Item = &'a KeySpec>) -> Label {
    let mut networks = [Some(client.network), None, None];
    for (network, key) in networks.iter_mut().zip(levels) {
        let lengths = key.parts().iter().find_map(|part| match part {
            KeyPart::ClientIp { ipv4_prefix, ipv6_prefix } => Some((*ipv4_prefix, *ipv6_prefix)),
            _ => None,
        });
        if let Some((ipv4_prefix, ipv6_prefix)) = lengths {
            *network = Some(client.network_for(ipv4_prefix, ipv6_prefix));
        }
    }
    client.label(networks)
}
