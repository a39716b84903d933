//! Resolved counters, found by position or by comparing with a short list.

use std::time::Duration;

use prometheus::{Counter, Gauge, Histogram, IntCounter, IntGauge};

use super::catalogue::{self as all, Family};
use super::families::{Families, Series};
use super::labels::{
    CONNECTION_REASONS, ORIGIN_ERRORS, OriginError, RATE_REASONS, REFUSALS, SHED_REASONS, TLS_KINDS, UNMATCHED, known,
};
use super::shape::{LimitLabels, ListenerLabels, RouteLabels};
use crate::edge::tls::handshake::HandshakeFault;
use crate::edge::tls::secure::TlsVersion;
use crate::engine::{Outcome, Refusal};
use crate::observe::state::{Answers, Ending};
use crate::policy::Mode;
use crate::units::Criticality;
use tidegate_http::h2::frames::Violation;

/// One counter per value of a fixed list, found by comparing; a value that is not in it counts as the last.
pub(super) struct Each<T>(Vec<(T, IntCounter)>);

impl<T: PartialEq> Each<T> {
    pub fn add(&self, value: T) {
        if let Some((_, counter)) = self.find(&value) {
            counter.inc();
        }
    }

    /// The counter of this value.
    pub fn counter(&self, value: T) -> Option<IntCounter> {
        self.find(&value).map(|(_, counter)| counter.clone())
    }

    /// Every value and how often it was counted.
    pub fn counts(&self) -> impl Iterator<Item = (&T, u64)> {
        self.0.iter().map(|(value, counter)| (value, counter.get()))
    }

    /// How often any was counted.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, counter)| counter.get()).sum()
    }

    fn find(&self, value: &T) -> Option<&(T, IntCounter)> {
        self.0.iter().find(|(known, _)| known == value).or(self.0.last())
    }
}

pub(super) struct ListenerCells {
    pub open: IntGauge,
    pub accepted: IntCounter,
    pub refused: Each<&'static str>,
    pub pauses: IntCounter,
    /// Of a listener that does TLS.
    pub tls: Option<TlsCells>,
    pub h2_abuse: Each<Violation>,
    pub routes: Vec<CodeCells>,
    pub unmatched: CodeCells,
}

/// Handshakes.
pub(super) struct TlsCells {
    pub done: Each<(TlsVersion, bool)>,
    pub failed: Each<HandshakeFault>,
}

/// Requests by class of status.
pub(super) struct CodeCells {
    /// 1xx to 5xx.
    classes: [IntCounter; 5],
    aborted: IntCounter,
}

impl CodeCells {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.classes.iter().chain([&self.aborted]).map(IntCounter::get).sum()
    }

    pub fn of(&self, status: u16) -> &IntCounter {
        let [one, two, three, four, five] = &self.classes;
        match status {
            0..=99 | 499 => &self.aborted,
            100..=199 => one,
            200..=299 => two,
            300..=399 => three,
            400..=498 => four,
            500.. => five,
        }
    }
}

pub(super) struct RouteCells {
    pub duration: Histogram,
    /// Of a route that forwards.
    pub forwarded: Option<ForwardedCells>,
    pub refused: Each<Refusal>,
    delays: IntCounter,
    delay_seconds: Counter,
    limits: Vec<LimitCells>,
}

impl RouteCells {
    /// Counts an admitted request that waited so long.
    pub fn delayed(&self, nanos: u64) {
        self.delays.inc();
        self.delay_seconds.inc_by(Duration::from_nanos(nanos).as_secs_f64());
    }

    /// Returns the decisions of each of its limits in each mode, with the limit's position in the policy.
    pub fn limits(&self) -> impl Iterator<Item = (usize, Mode, [(Outcome, u64); 5])> {
        self.limits.iter().flat_map(|limit| {
            let counts = |verdicts: &Verdicts| Outcome::ALL.map(|outcome| (outcome, verdicts.of(outcome).get()));
            limit.verdicts.iter().map(move |(mode, verdicts)| (limit.rule, *mode, counts(verdicts)))
        })
    }

    /// Returns how many of the requests that each of its limits allowed were refused elsewhere, with the limit's position in the policy.
    pub fn refused_elsewhere(&self) -> impl Iterator<Item = (usize, u64)> {
        self.limits
            .iter()
            .flat_map(|limit| limit.verdicts.iter().map(|(_, verdicts)| (limit.rule, verdicts.refused_elsewhere.get())))
    }

    /// Requests that waited.
    pub fn delays(&self) -> u64 {
        self.delays.get()
    }

    /// Readings come in the route's order, so the first guess is right unless the engine left some out.
    pub fn limit(&self, slot: usize, rule: usize) -> Option<&LimitCells> {
        let guess = self.limits.get(slot).filter(|limit| limit.rule == rule);
        guess.or_else(|| self.limits.iter().find(|limit| limit.rule == rule))
    }
}

/// What became of the requests that a route forwards.
pub(super) struct ForwardedCells {
    /// Position of their origin.
    pub origin: usize,
    /// The time to the answer's head.
    pub duration: Histogram,
    /// In the order of [`Answers::WORDS`].
    pub answers: [IntCounter; 7],
}

impl ForwardedCells {
    /// Counts a request that ended so.
    pub fn ended(&self, ending: Ending) {
        if let Some(counter) = self.answers.get(ending.index()) {
            counter.inc();
        }
    }
}

pub(super) struct LimitCells {
    rule: usize,
    verdicts: Vec<(Mode, Verdicts)>,
    pub contended: IntCounter,
    /// Of `fair_share`: refusals by node.
    nodes: Vec<IntCounter>,
    /// Of `fair_share`: refusals by reason.
    shed: Option<Each<&'static str>>,
}

impl LimitCells {
    /// Counts a refusal at a node of `fair_share`.
    pub fn refused_at(&self, node: u8) {
        if let Some(counter) = self.nodes.get(usize::from(node)) {
            counter.inc();
        }
    }

    /// Counts a request that got no unit of `fair_share`, for one of [`RATE_REASONS`].
    pub fn shed(&self, reason: &'static str) {
        if let Some(shed) = &self.shed {
            shed.add(reason);
        }
    }

    /// Counts what the limit said in this mode to a request that was `refused`, by it or by others, or not.
    pub fn count(&self, mode: Mode, outcome: Outcome, refused: bool) {
        let in_mode = self.verdicts.iter().find(|(known, _)| *known == mode).or(self.verdicts.first());
        if let Some((_, verdicts)) = in_mode {
            verdicts.of(outcome).inc();
            if refused && matches!(outcome, Outcome::Admitted | Outcome::Delayed) {
                verdicts.refused_elsewhere.inc();
            }
        }
    }
}

/// Decisions of a limit in one mode.
struct Verdicts {
    allowed: IntCounter,
    delayed: IntCounter,
    tagged: IntCounter,
    limited: IntCounter,
    exempt: IntCounter,
    refused_elsewhere: IntCounter,
}

impl Verdicts {
    fn of(&self, outcome: Outcome) -> &IntCounter {
        match outcome {
            Outcome::Admitted => &self.allowed,
            Outcome::Delayed => &self.delayed,
            Outcome::Tagged => &self.tagged,
            Outcome::Refused => &self.limited,
            Outcome::Exempt => &self.exempt,
        }
    }
}

pub(super) struct OriginCells {
    /// By criticality, in the order of [`Criticality::ALL`].
    pub shed: [Each<&'static str>; 4],
    pub errors: Each<OriginError>,
    pub connections: Each<bool>,
    pub retries: IntCounter,
    pub retries_refused: IntCounter,
}

/// Resolves label values, and notes them.
pub(super) struct Resolver<'f> {
    families: &'f Families,
    pub series: Series,
}

impl<'f> Resolver<'f> {
    pub fn new(families: &'f Families) -> Resolver<'f> {
        Resolver { families, series: Series::new() }
    }

    pub fn counter(&mut self, family: &'static Family, values: &[&str]) -> IntCounter {
        self.families.counter(&mut self.series, family, values)
    }

    pub fn gauge(&mut self, family: &'static Family, values: &[&str]) -> IntGauge {
        self.families.gauge(&mut self.series, family, values)
    }

    pub fn ratio(&mut self, family: &'static Family, values: &[&str]) -> Gauge {
        self.families.ratio(&mut self.series, family, values)
    }

    pub fn histogram(&mut self, family: &'static Family, values: &[&str]) -> Histogram {
        self.families.histogram(&mut self.series, family, values)
    }

    /// A counter for each value; `before` are the values of the labels before the one that tells them apart.
    pub fn each<T>(
        &mut self,
        family: &'static Family,
        before: &[&str],
        values: impl IntoIterator<Item = (T, &'static str)>,
    ) -> Each<T> {
        let counter = |(value, word)| (value, self.counter(family, &[before, &[word]].concat()));
        Each(values.into_iter().map(counter).collect())
    }

    pub fn clients<T: Copy>(&mut self, labels: &[(T, &str, &str)]) -> Each<T> {
        let counter =
            |(value, source, result): &(T, &str, &str)| (*value, self.counter(&all::CLIENT_ADDRESS, &[source, result]));
        Each(labels.iter().map(counter).collect())
    }

    pub fn listener(&mut self, labels: &ListenerLabels, routes: &[RouteLabels]) -> ListenerCells {
        let listener = labels.name.as_str();
        ListenerCells {
            open: self.gauge(&all::CONNECTIONS, &[listener]),
            accepted: self.counter(&all::CONNECTIONS_ACCEPTED, &[listener]),
            refused: self.each(&all::CONNECTIONS_REFUSED, &[listener], known(CONNECTION_REASONS)),
            pauses: self.counter(&all::ACCEPT_PAUSES, &[listener]),
            tls: labels.tls.is_some().then(|| self.tls(listener)),
            h2_abuse: self.each(&all::H2_ABUSE, &[listener], Violation::ALL.iter().map(|abuse| (*abuse, abuse.word()))),
            routes: routes.iter().map(|route| self.codes(listener, &route.name)).collect(),
            unmatched: self.codes(listener, UNMATCHED),
        }
    }

    fn tls(&mut self, listener: &str) -> TlsCells {
        let mut done = |version: TlsVersion, resumed: bool| {
            let word = if resumed { "true" } else { "false" };
            ((version, resumed), self.counter(&all::TLS_HANDSHAKES, &[listener, version.word(), word]))
        };
        let done = Each(TLS_KINDS.map(|(version, resumed)| done(version, resumed)).into());
        let reasons = HandshakeFault::ALL.iter().map(|fault| (*fault, fault.reason()));
        TlsCells { done, failed: self.each(&all::TLS_FAILURES, &[listener], reasons) }
    }

    fn codes(&mut self, listener: &str, route: &str) -> CodeCells {
        let mut code = |code| self.counter(&all::REQUESTS, &[listener, route, code]);
        CodeCells { classes: ["1xx", "2xx", "3xx", "4xx", "5xx"].map(&mut code), aborted: code("aborted") }
    }

    pub fn route(&mut self, route: &RouteLabels, limits: &[LimitLabels], origins: &[String]) -> RouteCells {
        let forwards_to = route.origin.and_then(|origin| Some((origin, origins.get(origin)?)));
        let used = route.rules.iter().filter_map(|rule| Some((*rule, limits.get(*rule)?)));
        RouteCells {
            limits: used.map(|(rule, limit)| self.limit(&route.name, rule, limit)).collect(),
            duration: self.histogram(&all::REQUEST_DURATION, &[&route.name]),
            forwarded: forwards_to.map(|(origin, name)| self.forwarded(origin, name, &route.name)),
            refused: self.refused(&route.name),
            delays: self.counter(&all::DELAYS, &[&route.name]),
            delay_seconds: self.families.fractions(&mut self.series, &all::DELAY_SECONDS, &[&route.name]),
        }
    }

    fn forwarded(&mut self, origin: usize, name: &str, route: &str) -> ForwardedCells {
        ForwardedCells {
            origin,
            duration: self.histogram(&all::ORIGIN_DURATION, &[name, route]),
            answers: Answers::WORDS.map(|code| self.counter(&all::ORIGIN_ANSWERS, &[name, route, code])),
        }
    }

    /// Refusals of a route, or of requests that none took.
    pub fn refused(&mut self, route: &str) -> Each<Refusal> {
        self.each(&all::REFUSED, &[route], REFUSALS.map(|refusal| (refusal, refusal.word())))
    }

    fn limit(&mut self, route: &str, rule: usize, limit: &LimitLabels) -> LimitCells {
        let mut verdicts = |mode: &Mode| {
            let mut verdict =
                |outcome: Outcome| self.counter(&all::DECISIONS, &[route, &limit.name, mode.word(), outcome.word()]);
            let verdicts = Verdicts {
                allowed: verdict(Outcome::Admitted),
                delayed: verdict(Outcome::Delayed),
                tagged: verdict(Outcome::Tagged),
                limited: verdict(Outcome::Refused),
                exempt: verdict(Outcome::Exempt),
                refused_elsewhere: self.counter(&all::REFUSED_ELSEWHERE, &[route, &limit.name, mode.word()]),
            };
            (*mode, verdicts)
        };
        LimitCells {
            rule,
            verdicts: limit.modes.iter().map(&mut verdicts).collect(),
            contended: self.counter(&all::LIMIT_CONTENDED, &[&limit.name]),
            nodes: limit
                .nodes
                .iter()
                .map(|node| self.counter(&all::FAIR_SHARE_REFUSED, &[&limit.name, node]))
                .collect(),
            shed: (!limit.nodes.is_empty())
                .then(|| self.each(&all::FAIR_SHARE_SHED, &[&limit.name], known(RATE_REASONS))),
        }
    }

    pub fn origin(&mut self, origin: &str) -> OriginCells {
        OriginCells {
            shed: Criticality::ALL
                .map(|class| self.each(&all::ORIGIN_SHED, &[origin, class.word()], known(SHED_REASONS))),
            errors: self.each(&all::ORIGIN_ERRORS, &[origin], ORIGIN_ERRORS),
            connections: self.each(&all::ORIGIN_CONNECTIONS, &[origin], [(false, "false"), (true, "true")]),
            retries: self.counter(&all::ORIGIN_RETRIES, &[origin]),
            retries_refused: self.counter(&all::ORIGIN_RETRIES_REFUSED, &[origin]),
        }
    }
}
