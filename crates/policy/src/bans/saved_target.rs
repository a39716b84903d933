//! A ban's target as it is written: for another process, a file, or other gates.

use serde::{Deserialize, Serialize};

use super::ban::{KeySecret, Target};
use crate::client::{ClientNetwork, Mark};
use crate::sketch::KeyHash;
use crate::units::Prefix;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SavedTarget {
    Network(std::net::IpAddr, u8),
    Client {
        network: Option<(std::net::IpAddr, u8)>,
        mark: String,
    },
    Key {
        limit: String,
        hash: [u64; 2],
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<KeySecret>,
    },
}

impl SavedTarget {
    pub fn of(target: &Target) -> SavedTarget {
        let parts = |network: &Prefix| (network.address(), network.length());
        match target {
            Target::Network(network) => SavedTarget::Network(network.address(), network.length()),
            Target::Client { network: ClientNetwork::Prefix(network), mark } => {
                SavedTarget::Client { network: Some(parts(network)), mark: mark.as_str().to_owned() }
            }
            Target::Client { network: ClientNetwork::Unix, mark } => {
                SavedTarget::Client { network: None, mark: mark.as_str().to_owned() }
            }
            Target::Key { limit, secret, hash } => {
                SavedTarget::Key { limit: limit.clone(), hash: hash.halves(), secret: Some(*secret) }
            }
        }
    }

    /// Leaves out this secret, which stands elsewhere.
    pub fn without(mut self, known: KeySecret) -> SavedTarget {
        if let SavedTarget::Key { secret, .. } = &mut self {
            *secret = secret.filter(|secret| *secret != known);
        }
        self
    }

    /// The target. `known`: what a key is hashed under that does not say it.
    pub fn read(self, known: Option<KeySecret>) -> Option<Target> {
        const MARKS: [Mark; 4] = [Mark::Verified, Mark::Degraded, Mark::Short, Mark::AllTrusted];
        Some(match self {
            SavedTarget::Network(address, length) => Target::Network(Prefix::new(address, length).ok()?),
            SavedTarget::Client { network, mark } => Target::Client {
                network: match network {
                    Some((address, length)) => ClientNetwork::Prefix(Prefix::new(address, length).ok()?),
                    None => ClientNetwork::Unix,
                },
                mark: MARKS.into_iter().find(|known| known.as_str() == mark)?,
            },
            SavedTarget::Key { limit, hash, secret } => {
                Target::Key { limit, secret: secret.or(known)?, hash: KeyHash::from_halves(hash) }
            }
        })
    }
}
