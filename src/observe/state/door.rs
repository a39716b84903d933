//! Who holds what is scarce, and who waits for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{State, Word};

/// The places of an origin, or the units of a `fair_share`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Door {
    /// The requests that hold a place, by class. Of units nothing is held.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<Word, u64>,
    /// The requests that wait, by class.
    pub waiting: BTreeMap<Word, u64>,
    /// How many places or units the heaviest leave to lighter ones, now.
    pub reserve: f64,
    /// In this time a use counts half.
    pub half_life_seconds: f64,
    /// The clients that have most, at most [`Door::SHOWN`]. A key that is no client is named by its latest request's.
    pub clients: Vec<Holder>,
    /// The networks that have most, at most [`Door::SHOWN`].
    pub networks: Vec<Holder>,
}

/// A client or a network that holds places or waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    /// Its name, as in the access log.
    pub name: String,
    /// How much its latest request matters.
    pub criticality: Word,
    /// How many places it holds.
    pub held: u64,
    /// How many of its requests wait.
    pub waiting: u64,
    /// What it used lately while others waited: places on average, or units, of which a use counts half after the half-life.
    pub used: f64,
}

impl Door {
    /// More clients, and more networks, are not named.
    pub const SHOWN: usize = 10;

    /// Returns whether anybody waits.
    pub fn is_contended(&self) -> bool {
        self.waiting.values().any(|waiting| *waiting > 0)
    }

    /// Returns what the client that holds most holds, or the network.
    pub fn most(holders: &[Holder]) -> u64 {
        holders.iter().map(|holder| holder.held).max().unwrap_or(0)
    }
}

impl State {
    /// Returns the doors at which somebody waits, by the name of their origin or limit.
    pub fn contended_doors(&self) -> Vec<(&str, &Door)> {
        let origins = self.origins.iter().map(|origin| (origin.name.as_str(), origin.door.as_ref()));
        let limits = self.limits.iter().map(|limit| (limit.name.as_str(), limit.door.as_ref()));
        let doors = origins.chain(limits).filter_map(|(name, door)| Some((name, door?)));
        doors.filter(|(_, door)| door.is_contended()).collect()
    }
}

impl Door {
    /// Returns those who have most, clients first, each with `client` or `network`.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &Holder)> {
        let clients = self.clients.iter().map(|client| ("client", client));
        clients.chain(self.networks.iter().map(|network| ("network", network)))
    }
}
