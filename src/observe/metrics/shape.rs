//! The label values that come from the operator, and how many series they make.

use std::collections::HashMap;
use std::sync::Arc;

use super::families::SERIES_PER_HISTOGRAM;
use super::labels::{
    CLIENTS, CONNECTION_REASONS, ORIGIN_ERRORS, RATE_REASONS, REFUSALS, SHED_REASONS, TLS_KINDS, malformed_reasons,
};
use crate::answer::entry::node_names;
use crate::config::settings::{Listener, Settings, Tls};
use crate::edge::tls::handshake::HandshakeFault;
use crate::engine::Outcome;
use crate::limiter::sharing::StoreError;
use crate::observe::notices::notice::Kind as NoticeKind;
use crate::observe::state::Answers;
use crate::overload::Resource;
use crate::policy::{Action, Mode, Policy, Rule};
use crate::store::{BUCKETS_MICROS, Dropped, ServerStanding};
use crate::units::Criticality;
use tidegate_http::h2::frames::Violation;

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    pub listeners: Vec<ListenerLabels>,
    pub limits: Vec<LimitLabels>,
    pub routes: Vec<RouteLabels>,
    pub origins: Vec<String>,
    /// How many addresses all origins have together, as the policy counts them.
    pub addresses: usize,
    /// How many stores there are.
    pub stores: usize,
}

#[derive(Debug, Clone)]
pub(super) struct ListenerLabels {
    pub name: String,
    /// Of one that does TLS: how many gauges its files have.
    pub tls: Option<usize>,
}

impl ListenerLabels {
    fn new(listener: &Listener) -> ListenerLabels {
        // each certificate has its end and whether it is the newest; the authorities of clients have the latter
        let gauges = |tls: &Tls| 2 * tls.certificates.len() + usize::from(tls.client_certificates.is_some());
        ListenerLabels { name: listener.name.clone(), tls: listener.tls.as_ref().map(gauges) }
    }
}

#[derive(Debug, Clone)]
pub(super) struct LimitLabels {
    pub name: String,
    pub mode: Mode,
    /// The modes whose decisions have series: those that its keys are judged in, and those before a reload.
    pub modes: Vec<Mode>,
    /// Of `fair_share`: the words for its nodes.
    pub nodes: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct RouteLabels {
    pub name: String,
    /// Positions in [`Shape::limits`]: the route's own limits, then those that may take the place of one
    /// (`missing: { use: NAME }`).
    pub rules: Vec<usize>,
    /// Position of the origin that it forwards to, in [`Shape::origins`].
    pub origin: Option<usize>,
}

impl Shape {
    pub fn new(policy: &Policy, settings: &Settings) -> Shape {
        let listeners = settings.listeners.iter().map(ListenerLabels::new).collect();
        Shape { listeners, ..Shape::default() }.with_policy(policy)
    }

    /// Returns the same listeners under another policy. Series of a limit's modes stay as long as the limit.
    pub fn with_policy(&self, policy: &Policy) -> Shape {
        let route = |route: &crate::policy::Route| {
            let mut rules = route.rules.clone();
            for instead in route.rules.iter().filter_map(|rule| policy.rules.get(*rule)?.instead) {
                if !rules.contains(&instead) {
                    rules.push(instead);
                }
            }
            let origin = if let Action::Forward(origin) = route.action { Some(origin) } else { None };
            RouteLabels { name: route.name.clone(), rules, origin }
        };
        let before: HashMap<&str, &LimitLabels> =
            self.limits.iter().map(|limit| (limit.name.as_str(), limit)).collect();
        let limit = |rule: &Arc<Rule>| {
            let partial = rule.mode == Mode::Enforce && rule.enforced.get() < 1.0;
            let known = |mode: &Mode| before.get(rule.name.as_str()).is_some_and(|before| before.modes.contains(mode));
            let mut modes = vec![Mode::Enforce, Mode::Shadow];
            modes.retain(|mode| partial || *mode == rule.mode || known(mode));
            LimitLabels { name: rule.name.clone(), mode: rule.mode, modes, nodes: node_names(rule) }
        };
        Shape {
            listeners: self.listeners.clone(),
            limits: policy.rules.iter().map(limit).collect(),
            routes: policy.routes.iter().map(route).collect(),
            origins: policy.origins.iter().map(|origin| origin.name.clone()).collect(),
            stores: policy.stores.len(),
            addresses: policy.origins.iter().map(|origin| origin.addresses.len()).sum(),
        }
    }

    /// See [`super::Metrics::series_bound`].
    pub fn series_bound(&self) -> usize {
        // 1xx to 5xx and aborted
        const CODES: usize = 6;
        const VERDICTS: usize = Outcome::ALL.len();
        const CLASSES: usize = Criticality::ALL.len();
        // delays and their time
        const PER_ROUTE: usize = 2;
        // answers by code, and their durations
        const PER_FORWARD: usize = SERIES_PER_HISTOGRAM + Answers::WORDS.len();
        // decisions by verdict, and those that were refused elsewhere
        const PER_SLOT: usize = VERDICTS + 1;
        // contended; read: in flight, upgraded, memory, leased, fill, error, exact keys, load, displaced, pending, share, capacity, offered
        const PER_LIMIT: usize = 14;
        // shed by class, errors, connections new and reused, retries made and refused; read: queue and held by class, in flight, its limit,
        // abandoned, despite, most held by client and by network, reserve
        const PER_ORIGIN: usize = CLASSES * SHED_REASONS.len() + ORIGIN_ERRORS.len() + 2 + 2 + 2 * CLASSES + 4 + 3;
        // healthy, ejections
        const PER_ADDRESS: usize = 2;
        // build, policy, generation, last reload and its time, reloads by result; logs by stream and their errors, panics, the kernel's figures;
        // buffered bytes, their bound and refusals; bans, and those given by whom; notices by kind, the heaviest client's share; pressure, delay, refusing;
        // snapshots: age, bytes, duration, errors
        const PROCESS: usize = 5 + 2 + 4 + 1 + 7 + 3 + 4 + NoticeKind::ALL.len() + 1 + Resource::ALL.len() + 2 + 4;

        // connected, breaker, nodes, questions, answers, waits; servers; errors; fallbacks; the histogram's buckets, infinity, sum and count;
        // age of bans; staleness, messages sent, received and missed, keys sent and received, units not told; messages dropped
        const PER_STORE: usize = 6
            + ServerStanding::ALL.len()
            + StoreError::ALL.len()
            + 3
            + BUCKETS_MICROS.len()
            + 3
            + 1
            + 7
            + Dropped::ALL.len();
        // handshakes by version and kind, failures by reason
        const PER_TLS: usize = TLS_KINDS.len() + HandshakeFault::ALL.len();

        let by_nodes = |limit: &LimitLabels| limit.nodes.len() + RATE_REASONS.len();
        let routes = self.routes.len() + 1;
        let modes = |rule: &usize| self.limits.get(*rule).map_or(0, |limit| limit.modes.len());
        let slots: usize = self.routes.iter().flat_map(|route| route.rules.iter().map(modes)).sum();
        self.listeners.len() * (3 + CONNECTION_REASONS.len() + Violation::ALL.len() + CODES * routes)
            + self.listeners.iter().filter_map(|listener| listener.tls).map(|gauges| PER_TLS + gauges).sum::<usize>()
            + routes * (SERIES_PER_HISTOGRAM + REFUSALS.len())
            + self.routes.len() * PER_ROUTE
            + self.routes.iter().filter(|route| route.origin.is_some()).count() * PER_FORWARD
            + slots * PER_SLOT
            + self.limits.iter().filter(|limit| !limit.nodes.is_empty()).map(by_nodes).sum::<usize>()
            + self.limits.len() * PER_LIMIT
            + self.origins.len() * PER_ORIGIN
            + self.addresses * PER_ADDRESS
            + self.stores * PER_STORE
            + malformed_reasons().count()
            + CLIENTS.len()
            + PROCESS
    }
}
