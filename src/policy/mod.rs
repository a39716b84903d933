//! The rule book: immutable, already valid, and all that a decision needs to know of the policy file.
//!
//! `config` makes it from text; `engine` adds the limiters' state to it. Nothing here reads a file or a clock, and nothing
//! in it can be half-right: a [`Policy`] exists only when every fault of the file it came from has been mended.

pub mod condition;
pub mod edit;
pub mod origin;
pub mod response;
pub mod route;
pub mod rule;
pub mod statuses;
pub mod store;

use std::sync::Arc;

use http::{HeaderName, header};

use crate::client::ClientRules;
use crate::client::key::KeyPart;
use crate::client::trust::X_FORWARDED_FOR;
pub use crate::limiter::{Capacity, Kind, RefusedCount, Scope};
pub use condition::Condition;
pub use edit::{HeaderEdits, Template};
pub use origin::{
    Balance, CertificateFiles, Ejection, HealthCheck, InflightCap, OnClientAbort, Origin, OriginAddress, OriginTls,
    Probe, Protocol, Retries, Timeouts,
};
pub use response::{BodyFormat, FieldStyle, Report, Responses};
pub use route::{Action, FixedAnswer, Route, RouteTable, Taken};
pub use rule::{CostRule, Counted, Mode, OnLimit, Rule, Tier};
pub use statuses::StatusSet;
pub use store::{Breaker, Shared, Store, StoreMode};

/// Everything the operator decided, compiled.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Who is believed about a client's address, and how clients are counted.
    pub clients: ClientRules,
    /// All limits, named ones first, then the unnamed ones of the routes. [`Route::rules`] are positions in this list.
    pub rules: Vec<Arc<Rule>>,
    /// All origins. [`Action::Forward`] holds a position in this list.
    pub origins: Vec<Arc<Origin>>,
    /// All stores that limits are shared through. [`Shared::store`] is a position in this list.
    pub stores: Vec<Arc<Store>>,
    /// All routes and the index that finds the most specific one.
    pub routes: RouteTable,
    /// What a refused client sees.
    pub responses: Responses,
    /// A short hash over the effective policy text: equal policies have equal fingerprints.
    pub fingerprint: String,
}

impl Policy {
    /// The names of all header fields that a decision may read; without doubles. A request that has just these is judged as
    /// one that has them all.
    pub fn fields_read(&self) -> Vec<HeaderName> {
        let mut names =
            vec![header::HOST, X_FORWARDED_FOR.clone(), header::FORWARDED, self.clients.header.name().clone()];
        let hashed = self.origins.iter().filter_map(|origin| match &origin.balance {
            Balance::Hash(key) => Some(key),
            Balance::RoundRobin | Balance::LeastInflight => None,
        });
        let keys = self.rules.iter().flat_map(|rule| std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes));
        for part in keys.chain(hashed).flat_map(|key| key.parts()) {
            match part {
                KeyPart::Header(name) => names.push(name.clone()),
                KeyPart::Cookie(_) => names.push(header::COOKIE),
                _ => {}
            }
        }
        let conditions =
            self.rules.iter().flat_map(|rule| rule.exempt.iter().chain(rule.tiers.iter().map(|tier| &tier.when)));
        names.extend(conditions.flat_map(|condition| &condition.headers).map(|(name, _)| name.clone()));
        let matches = self.routes.iter().flat_map(|route| &route.matches);
        names.extend(matches.flat_map(|matched| &matched.headers).map(|(name, _)| name.clone()));
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        names
    }
}
