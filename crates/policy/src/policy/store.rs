//! A store that several gates share limits through: Redis or Valkey.

use std::path::PathBuf;
use std::time::Duration;

use crate::limiter::sharing::{OnStoreError, Sharing};

/// Where a store is and how it is spoken to. Its passwords are no part of the policy; `settings` has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The operator's name for it, in metrics and log.
    pub name: String,
    /// How its servers belong together.
    pub mode: StoreMode,
    /// Its servers (of `sentinel`: the sentinels), at least one: host and port.
    pub servers: Vec<(String, u16)>,
    /// Whether connections are encrypted (`rediss://`).
    pub tls: bool,
    /// The certificates to trust, PEM; `None`: those of the system. Only with `tls`.
    pub ca: Option<PathBuf>,
    /// Which database; 0 but for `single` and `sentinel`.
    pub database: u8,
    /// The user of the store's access list; `None` for the default one.
    pub username: Option<String>,
    /// How long a request waits for an answer at most.
    pub timeout: Duration,
    /// How long a start or a reload waits at most for its first answer.
    pub ready_within: Duration,
    /// What the names of all keys begin with.
    pub prefix: String,
    /// Whether gates share their bans through it.
    pub share_bans: bool,
    /// When a server of it is left alone.
    pub breaker: Breaker,
}

/// How the servers of a store belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreMode {
    /// One server, whatever follows it.
    Single,
    /// Sentinels that know which server is the primary of this name.
    Sentinel {
        /// The name of the primary.
        primary: String,
    },
    /// A cluster that shares its keys out.
    Cluster,
}

/// When a silent server of a store is left alone for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// After so many failures in a row.
    pub open_after: u32,
    /// How long at first until one question tries again; doubles up to ten seconds.
    pub half_open_every: Duration,
}

/// Position of a store in [`Policy::stores`](super::Policy::stores).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreId(pub usize);

/// That a limit is shared through a store, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    /// Which store.
    pub store: StoreId,
    /// How gates share it.
    pub sharing: Sharing,
    /// What happens when the store says nothing. Of [`Sharing::Estimate`] `local`: no request asks it.
    pub on_store_error: OnStoreError,
}
