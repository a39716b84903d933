//! The compiled policy: immutable and valid. Begin with [`Policy`].
//!
//! `config` makes it from text; `engine` adds the state of the limits. A [`Policy`] exists only if its file has no fault. Nothing
//! here reads a file or a clock.

pub mod body;
pub mod client_list;
pub mod condition;
pub mod cors;
pub mod edit;
pub mod fields;
pub mod guard;
pub mod known_by;
pub mod origin;
pub mod response;
pub mod route;
pub mod rule;
pub mod statuses;
pub mod store;
pub mod tier;

use std::sync::Arc;

use crate::client::ClientRules;
pub use crate::limiter::{Kind, RefusedCount, Scope, kinds};
pub use client_list::ClientList;
pub use condition::Condition;
pub use cors::Cors;
pub use edit::{HeaderEdits, Template};
pub use fields::{FieldFault, FieldsRead, RepeatedFields};
pub use known_by::KnownBy;
pub use origin::{
    Balance, CertificateFiles, Ejection, HealthCheck, InflightCap, OnClientAbort, Origin, OriginAddress, OriginTls,
    Probe, Protocol, QueueOrder, Retries, Timeouts,
};
pub use response::{BodyFormat, FieldStyle, OwnAnswer, Report, Responses};
pub use route::{Action, FixedAnswer, LONGEST_VALUE, Route, RouteTable, Taken, Undecided};
pub use rule::{CostRule, Counted, Mode, OnLimit, Preflights, Rule, Tier};
pub use statuses::StatusSet;
pub use store::{Breaker, Shared, Store, StoreId, StoreMode};
pub use tier::{CRITICALITY_FIELD, Class, ClientTier};

/// Everything the operator decided, compiled.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Who is believed about a client's address, and how clients are counted.
    pub clients: ClientRules,
    /// What becomes of a request that has several lines of a field that a route or an enforced limit reads.
    pub repeated_fields: RepeatedFields,
    /// Clients that count for more, or matter more or less, than others; the first whose condition holds.
    pub tiers: Vec<ClientTier>,
    /// All limits, named ones first, then the unnamed ones of the routes. [`Route::rules`] are positions in this list.
    pub rules: Vec<Arc<Rule>>,
    /// All origins. [`Action::Forward`] holds a position in this list.
    pub origins: Vec<Arc<Origin>>,
    /// All stores that limits are shared through, by [`StoreId`].
    pub stores: Vec<Arc<Store>>,
    /// All routes and the index that finds the most specific one.
    pub routes: RouteTable,
    /// What a refused client sees.
    pub responses: Responses,
}

impl Policy {
    /// Returns a store.
    pub fn store(&self, id: StoreId) -> Option<&Arc<Store>> {
        self.stores.get(id.0)
    }
}
