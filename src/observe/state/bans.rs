//! Bans as the admin API tells them.

use serde::{Deserialize, Serialize};

use super::Word;

/// A ban in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanState {
    /// Its number, which no other ban of the process has had.
    pub number: u32,
    /// Who is banned: a client or network as the access log names it, or `LIMIT=` and a pseudonym of the key.
    pub target: String,
    /// `network`, `client` or `key`.
    pub kind: Word,
    /// Who gave it.
    pub by: String,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Time since it was given.
    pub given_seconds_ago: u64,
    /// Time until it ends.
    pub ends_in_seconds: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Whether a limit's penalty brought it, and nobody ordered it.
    #[serde(default)]
    pub automatic: bool,
    /// Whether it was given on another gate.
    #[serde(default)]
    pub elsewhere: bool,
}

/// The outcome of a ban.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Banned {
    /// The ban.
    pub ban: BanState,
    /// Whether a restart and a crash keep it: it is on disk.
    pub on_disk: bool,
    /// Whether there is a directory for state at all.
    pub has_directory: bool,
    /// Stores that share bans and do not have this one yet: other gates hear of it later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<String>,
    /// Always `tidegate.ban/1`.
    pub schema: Word,
}

/// The bans that were lifted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unbanned {
    /// Those that were lifted.
    pub lifted: Vec<BanState>,
    /// Whether a restart and a crash keep that: it is on disk.
    pub on_disk: bool,
    /// Whether there is a directory for state at all.
    pub has_directory: bool,
    /// Stores that share bans and do not know of it yet: other gates hear of it later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<String>,
    /// Always `tidegate.unban/1`.
    pub schema: Word,
}

/// The bans in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bans {
    /// The one that ends first comes first.
    pub bans: Vec<BanState>,
    /// How many there can be.
    pub most: usize,
    /// Always `tidegate.bans/1`.
    pub schema: Word,
}

/// The banned networks by their addresses, for a firewall.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNetworks {
    /// Each network with the seconds until its ban ends.
    pub networks: Vec<(String, u64)>,
    /// How many bans are of no network.
    pub left_out: usize,
    /// Always `tidegate.bans.networks/1`.
    pub schema: Word,
}
