//! How a store stands at one moment: as the admin API writes it, with the further numbers of the metrics page.

use serde::{Deserialize, Serialize};

use super::breaker::BreakerState;

/// A store at one moment. Counts are those since the start, or since the store is in the policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreState {
    /// The operator's name for it.
    pub name: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// State of its breaker; of a cluster the one that is furthest from closed.
    pub breaker: BreakerState,
    /// Servers of a cluster; empty otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerState>,
    /// Gates that share it, as far as is known, this one among them.
    pub nodes: u32,
    /// Questions to it.
    pub questions: u64,
    /// Questions that it answered.
    pub answers: u64,
    /// Requests that waited for it.
    pub waits: u64,
    /// Decisions of its limits that were made without it.
    pub fallbacks: u64,
    /// Age of the oldest knowledge of another gate, where limits have `sharing: estimate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_seconds: Option<f64>,
    /// Time since gate and store last had the same bans; absent where they share none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bans_age_seconds: Option<f64>,
    /// The last fault, also when it has been mended since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<String>,
    /// Time since that fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_fault_seconds_ago: Option<u64>,
    /// Questions on their way.
    #[serde(skip)]
    pub on_their_way: u32,
    /// Number of servers by how they stand.
    #[serde(skip)]
    pub standings: Vec<(ServerStanding, u64)>,
    /// Questions by duration in seconds, cumulative; the rest under infinity.
    #[serde(skip)]
    pub durations: Vec<(f64, u64)>,
    /// All these durations together, in seconds.
    #[serde(skip)]
    pub duration_seconds: f64,
    /// Questions without an answer, by reason.
    #[serde(skip)]
    pub errors: Vec<(&'static str, u64)>,
    /// Decisions without the store, by what was done.
    #[serde(skip)]
    pub fallbacks_by_direction: Vec<(&'static str, u64)>,
    /// Messages between gates; `None` where they send none.
    #[serde(skip)]
    pub exchange: Option<ExchangeState>,
}

/// One server of a cluster at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerState {
    /// Host and port.
    pub address: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// State of its breaker.
    pub breaker: BreakerState,
}

impl ServerState {
    /// Returns whether questions go to it.
    pub fn is_asked(&self) -> bool {
        self.connected && self.breaker == BreakerState::Closed
    }
}

impl StoreState {
    /// Returns the servers of a cluster that get no questions just now.
    pub fn not_asked(&self) -> Vec<&str> {
        self.servers.iter().filter(|server| !server.is_asked()).map(|server| server.address.as_str()).collect()
    }
}

/// How a server of a store stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ServerStanding {
    /// Questions go to it.
    Asked,
    /// Its breaker is not closed.
    LeftAlone,
    /// There is no connection.
    NotConnected,
}

impl ServerStanding {
    /// Every standing, for metrics.
    pub const ALL: &'static [ServerStanding] = <ServerStanding as strum::VariantArray>::VARIANTS;

    /// The word in metrics.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Messages between gates through one store, since the start.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExchangeState {
    /// Age of the oldest knowledge of another gate, in seconds.
    pub staleness_seconds: f64,
    /// Messages that the store has.
    pub messages_sent: u64,
    /// Messages of others that were read, dropped ones among them.
    pub messages_received: u64,
    /// Messages of others that were never seen, by their numbers.
    pub messages_missed: u64,
    /// Messages, or their parts on one limit, that were not charged, by reason.
    pub messages_dropped: Vec<(&'static str, u64)>,
    /// Keys in the messages that the store has.
    pub deltas_sent: u64,
    /// Keys of others that were charged.
    pub deltas_received: u64,
    /// Units admitted and not reported, because there was no place for their key.
    pub units_unreported: u64,
}

/// Why a message, or what it says of one limit, was not charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Dropped {
    /// Of another version of its form.
    Version,
    /// No message at all.
    Garbled,
    /// By a gate that names clients under another secret.
    Secret,
    /// It was charged before.
    Replay,
    /// Of a limit that this gate does not have, or does not share so.
    Limit,
    /// Of a limit of this name and another kind or window.
    Shape,
}

impl Dropped {
    /// All of them.
    pub const ALL: &'static [Dropped] = <Dropped as strum::VariantArray>::VARIANTS;

    /// The word in metrics.
    pub const fn word(self) -> &'static str {
        self.into_str()
    }
}
