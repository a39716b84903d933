//! Every metric, fed by [`Decision`]s and by what the face sees; never a source of anything a decision is made from.
//!
//! All label values come from the policy and the settings, or from the fixed lists here, so the number of series is known
//! when a policy is installed ([`Metrics::series_bound`]) and no request can add one. Each series is resolved at that
//! moment: a request adds to counters that it finds by position, without locks, look-ups by name or allocation.
//!
//! * [`catalogue`]: the list of all metrics.
//! * `families`: the registry behind it; `live`: numbers of the [`State`] that the page shows beside them; `process`: what the kernel knows.
//! * `labels`: fixed label values; `shape`: a policy's label values; `cells`: the counters resolved from them; `state`: reads them back.
//!
//! Source: Prometheus' "Metric and label naming" and "Instrumentation", text format 0.0.4.

pub mod catalogue;
mod cells;
mod families;
mod labels;
mod live;
#[cfg(test)]
mod page;
mod process;
mod shape;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, Histogram, IntCounter, IntGauge};

use super::notices::notice::Kind as NoticeKind;
use super::state::{Ending, State};
use crate::config::settings::Settings;
use crate::edge::tls::handshake::HandshakeFault;
use crate::edge::tls::secure::Secure;
use crate::engine::{Decision, NoPlace, Outcome, Refusal, Scarce, Verdict};
use crate::policy::Policy;
use crate::units::Criticality;
use cells::{Each, ListenerCells, OriginCells, Resolver, RouteCells};
use families::{Families, Series};
pub(super) use labels::malformed_reasons;
use labels::{CLIENTS, Found, UNMATCHED};
use shape::Shape;
use tidegate_http::h2::frames::Violation;

use catalogue as all;
pub use labels::{CONNECTION_REASONS, OriginError, SHED_REASONS};

/// The metrics of one policy. Counters of names that the next policy keeps go on from where they are.
pub struct Metrics {
    families: Arc<Families>,
    shape: Shape,
    /// What this policy resolved, so that the next one can end what it does not keep.
    series: Series,
    listeners: Vec<ListenerCells>,
    routes: Vec<RouteCells>,
    unmatched: Histogram,
    origins: Vec<OriginCells>,
    /// Of requests that no route took.
    refused: Each<Refusal>,
    malformed: Each<&'static str>,
    clients: Each<Found>,
    generation: IntGauge,
    reload_successful: IntGauge,
    reload_time: IntGauge,
    reloads: Each<bool>,
    notices: Vec<(NoticeKind, IntGauge)>,
    top_client_share: Gauge,
}

impl Metrics {
    /// Makes the metrics of the policy that the process starts with: generation 1, loaded now.
    pub fn new(policy: &Policy, settings: &Settings, fingerprint: &str) -> Metrics {
        let metrics = Metrics::resolve(Arc::new(Families::new()), Shape::new(policy, settings), fingerprint);
        metrics.generation(1);
        metrics
    }

    /// Makes the metrics of the policy that follows. To be taken into use together with it, because positions are those of the
    /// policy. Series of names that are gone end; requests that still run under the old policy count into nothing there.
    /// Those of a limit whose mode changed go on.
    pub fn next(&self, policy: &Policy, fingerprint: &str) -> Metrics {
        let next = Metrics::resolve(self.families.clone(), self.shape.with_policy(policy), fingerprint);
        self.families.retire(&self.series, &next.series);
        next
    }

    fn resolve(families: Arc<Families>, shape: Shape, fingerprint: &str) -> Metrics {
        let mut resolver = Resolver::new(&families);
        resolver.gauge(&all::BUILD_INFO, &[env!("CARGO_PKG_VERSION")]).set(1);
        resolver.gauge(&all::POLICY_INFO, &[fingerprint]).set(1);
        Metrics {
            listeners: shape.listeners.iter().map(|listener| resolver.listener(listener, &shape.routes)).collect(),
            routes: shape.routes.iter().map(|route| resolver.route(route, &shape.limits, &shape.origins)).collect(),
            unmatched: resolver.histogram(&all::REQUEST_DURATION, &[UNMATCHED]),
            origins: shape.origins.iter().map(|origin| resolver.origin(origin)).collect(),
            refused: resolver.refused(UNMATCHED),
            malformed: resolver.each(&all::MALFORMED, &[], malformed_reasons().map(|word| (word, word))),
            clients: resolver.clients(&CLIENTS),
            generation: resolver.gauge(&all::POLICY_GENERATION, &[]),
            reload_successful: resolver.gauge(&all::RELOAD_SUCCESSFUL, &[]),
            reload_time: resolver.gauge(&all::RELOAD_TIME, &[]),
            reloads: resolver.each(&all::RELOADS, &[], [(true, "success"), (false, "failure")]),
            notices: NoticeKind::ALL.iter().map(|kind| (*kind, resolver.gauge(&all::NOTICE, &[kind.word()]))).collect(),
            top_client_share: resolver.ratio(&all::TOP_CLIENT_SHARE, &[]),
            series: resolver.series,
            families,
            shape,
        }
    }

    /// Returns the page in the text format 0.0.4: what is counted here, and what `state` has beside it. Takes milliseconds for thousands of
    /// series.
    pub fn render(&self, state: &State) -> String {
        self.families.render(live::families(state))
    }

    /// Counts what was decided. Once per request, when the verdict is final. `contended` is the place, in the route's
    /// order, of the limit that refused because a race could not be settled.
    pub fn decision(&self, decision: &Decision, contended: Option<usize>) {
        self.decision_over(decision, contended, false);
    }

    /// The same; `conveyed` says whether a PROXY header named the connection's other end.
    pub fn decision_over(&self, decision: &Decision, contended: Option<usize>, conveyed: bool) {
        self.clients.add(Found::of(decision.client.as_ref(), conveyed));
        let route = decision.route.and_then(|route| self.routes.get(route));
        if let Verdict::Refused(refusal) = decision.verdict {
            route.map_or(&self.refused, |route| &route.refused).add(refusal);
        }
        let Some(route) = route else { return };
        if decision.delay_nanos > 0 && decision.verdict == Verdict::Admitted {
            route.delayed(decision.delay_nanos);
        }
        let refused = decision.verdict != Verdict::Admitted;
        for (slot, reading) in decision.readings.iter().enumerate() {
            if let Some(limit) = route.limit(slot, reading.rule) {
                limit.count(reading.mode, reading.outcome, refused);
                if let (Outcome::Refused, Some(node)) = (reading.outcome, reading.node) {
                    limit.refused_at(node);
                    if let Some(NoPlace { reason, of: Scarce::Units { .. }, .. }) = decision.no_place {
                        limit.shed(reason.word());
                    }
                }
                if contended == Some(slot) {
                    limit.contended.inc();
                }
            }
        }
    }

    /// Counts a request that ended. `status` is what was sent; 0, or 499 as others write it, says that the client left
    /// before an answer. Without a `route` no route matched, or none was looked for.
    pub fn request_done(&self, listener: usize, route: Option<usize>, status: u16, duration: Duration) {
        if let Some(listener) = self.listeners.get(listener) {
            let codes = route.and_then(|route| listener.routes.get(route)).unwrap_or(&listener.unmatched);
            codes.of(status).inc();
        }
        let histogram = route.and_then(|route| self.routes.get(route)).map_or(&self.unmatched, |cells| &cells.duration);
        histogram.observe(duration.as_secs_f64());
    }

    /// Counts a request that was answered with an error for its form. `reason` is the word of a
    /// [`HeadFault`](tidegate_http::fault::HeadFault) or [`BodyFault`](tidegate_http::fault::BodyFault); any other counts as `other`.
    pub fn malformed(&self, reason: &'static str) {
        self.malformed.add(reason);
    }

    /// Counts an accepted connection. Whoever calls this owns a value whose drop calls [`Metrics::connection_closed`].
    pub fn connection_opened(&self, listener: usize) {
        if let Some(listener) = self.listeners.get(listener) {
            listener.accepted.inc();
            listener.open.inc();
        }
    }

    /// A connection that was counted is gone.
    pub fn connection_closed(&self, listener: usize) {
        if let Some(listener) = self.listeners.get(listener) {
            listener.open.dec();
        }
    }

    /// Counts a connection that could not be accepted, or was closed before a request. `reason` is one of [`CONNECTION_REASONS`]; any other word
    /// counts as `other`.
    pub fn connection_refused(&self, listener: usize, reason: &'static str) {
        if let Some(listener) = self.listeners.get(listener) {
            listener.refused.add(reason);
        }
    }

    /// Counts a pause in accepting because clients hold all descriptors that they may have.
    pub fn accept_paused(&self, listener: usize) {
        if let Some(listener) = self.listeners.get(listener) {
            listener.pauses.inc();
        }
    }

    /// Counts a handshake that succeeded.
    pub fn handshake(&self, listener: usize, secure: &Secure) {
        if let Some(tls) = self.listeners.get(listener).and_then(|listener| listener.tls.as_ref()) {
            tls.done.add((secure.version, secure.resumed));
        }
    }

    /// Counts one that failed.
    pub fn handshake_failed(&self, listener: usize, fault: HandshakeFault) {
        if let Some(tls) = self.listeners.get(listener).and_then(|listener| listener.tls.as_ref()) {
            tls.failed.add(fault);
        }
    }

    /// Counts a connection in HTTP/2 that was ended for what its client did.
    pub fn h2_abuse(&self, listener: usize, abuse: Violation) {
        if let Some(listener) = self.listeners.get(listener) {
            listener.h2_abuse.add(abuse);
        }
    }

    /// Counts a request that the origin had no place for. `reason` is one of [`SHED_REASONS`].
    pub fn origin_shed(&self, origin: usize, reason: &'static str, criticality: Criticality) {
        self.at_origin(origin, |cells| {
            if let Some(cells) = cells.shed.get(criticality.position()) {
                cells.add(reason);
            }
        });
    }

    /// Counts a request that was sent on a connection, `reused` or new.
    pub fn origin_connection(&self, origin: usize, reused: bool) {
        self.at_origin(origin, |cells| cells.connections.add(reused));
    }

    /// Counts a request that a route forwarded and that came to its answer's head, or failed, after `duration`. `ending` is `None` if its
    /// client left before.
    pub fn origin_done(&self, route: usize, ending: Option<Ending>, duration: Duration) {
        let Some(cells) = self.routes.get(route).and_then(|route| route.forwarded.as_ref()) else { return };
        cells.duration.observe(duration.as_secs_f64());
        if let Some(ending) = ending {
            cells.ended(ending);
        }
    }

    /// Counts a failed attempt.
    pub fn origin_error(&self, origin: usize, error: OriginError) {
        self.at_origin(origin, |cells| cells.errors.add(error));
    }

    /// What counts such failures of this origin, for those who count them where no request is.
    pub fn origin_error_counter(&self, origin: usize, error: OriginError) -> Option<IntCounter> {
        self.origins.get(origin)?.errors.counter(error)
    }

    /// Counts an attempt after the first one of a request.
    pub fn origin_retry(&self, origin: usize) {
        self.at_origin(origin, |cells| cells.retries.inc());
    }

    /// Counts an attempt that was not made because the budget for them is spent.
    pub fn origin_retry_refused(&self, origin: usize) {
        self.at_origin(origin, |cells| cells.retries_refused.inc());
    }

    fn at_origin(&self, origin: usize, count: impl FnOnce(&OriginCells)) {
        if let Some(cells) = self.origins.get(origin) {
            count(cells);
        }
    }

    /// A new policy is in force: the `generation`-th, the one at start being the first.
    pub fn reload_succeeded(&self, generation: u64) {
        self.reloads.add(true);
        self.generation(generation);
    }

    /// A policy file was refused and the old policy stays.
    pub fn reload_failed(&self) {
        self.reloads.add(false);
        self.reload_successful.set(0);
    }

    fn generation(&self, generation: u64) {
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.reload_successful.set(1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.reload_time.set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    }

    /// Tells which notices hold, and the share of the client that asks most, as far as it is known.
    pub fn notices(&self, holds: impl Fn(NoticeKind) -> bool, top_client_share: Option<f64>) {
        for (kind, gauge) in &self.notices {
            gauge.set(i64::from(holds(*kind)));
        }
        self.top_client_share.set(top_client_share.unwrap_or(0.0));
    }

    /// The most series that the page can have under this policy:
    /// (36 + 6·L)·(R + 1) + 2·R + 26·P + 6·S + 50·O + 2·A + 14·N + F + 28·L + 14·T + 2·C + U + 43·D + 95.
    ///
    /// L listeners, T of them with TLS, with C certificates and U lists of authorities of clients; R routes, P of which forward; N limits; S
    /// limits counted once per route that uses them (in their own place or in that of another) and per mode that they have had or that
    /// `enforce` parts their keys into; F nodes of `fair_share` limits and two more for each of these; O origins with A addresses; D stores.
    pub fn series_bound(policy: &Policy, settings: &Settings) -> usize {
        Shape::new(policy, settings).series_bound()
    }
}
