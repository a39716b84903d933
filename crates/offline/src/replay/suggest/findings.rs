//! What a study found: proposals per group, tried on the log, and what they are worth.

use super::class::Class;
use super::frontier::Frontier;
use super::plan::{Limit, Scope};
use super::proposal::{self, Level, Proposal, Row, SLOWEST_PER_SECOND};
use super::study::{Group, Study, Uncounted};
use super::trial::Trial;
use crate::config::percent_text;
use crate::human::{count, grouped, percent_of, span};
use crate::sketch::KeyHash;
use crate::units::{Bytes, Cost, Timestamp};

/// What came out.
#[derive(Debug)]
pub struct Findings {
    /// What was narrowed, and what is counted by.
    pub scope: Scope,
    /// Requests of the log.
    pub seen: u64,
    /// What was not counted.
    pub uncounted: Uncounted,
    /// From the first request to the last, in seconds.
    pub span_seconds: f64,
    /// Whose proposals there are, in the study's order.
    pub groups: Vec<Found>,
    /// The levels that were asked for, strict first.
    pub levels: Vec<Level>,
    /// Whether the log was read again for what the touched would lose.
    pub tried: bool,
    by_route: bool,
    unseen: Vec<Class>,
}

/// Of one group.
#[derive(Debug)]
pub struct Found {
    /// Its name, and that of its limit.
    pub name: String,
    /// What it is.
    pub told: String,
    /// Which limits count it.
    pub class: Class,
    /// Requests counted.
    pub requests: u64,
    /// Clients.
    pub clients: usize,
    /// The most requests of one client.
    pub busiest: u64,
    /// Whether bursts below the floor are not known exactly.
    pub has_floor: bool,
    /// Requests of clients that there was no room for.
    pub beyond: u64,
    /// What every rate would need.
    pub rows: Vec<Row>,
    /// The strictest first; equal ones once.
    pub proposals: Vec<Proposal>,
    /// Of each proposal, when the log was read again.
    pub trials: Vec<Trial>,
    /// Its place in the study.
    place: usize,
}

/// A group with fewer requests or clients than these says nothing.
const FEWEST_REQUESTS: u64 = 20;
const FEWEST_CLIENTS: usize = 3;

/// In a log of fewer clients, or of less time, nothing can be told of those who ask much: 1 % of them is less than one.
const ENOUGH_CLIENTS: usize = 100;
const ENOUGH_SECONDS: f64 = 3_600.0;

impl Findings {
    /// What the first pass found.
    pub fn new(study: &Study, scope: Scope, levels: Vec<Level>) -> Findings {
        let span_seconds = study.span_seconds();
        let whole = study.groups().first().map_or(0, |group| group.frontier.requests());
        let shown = |(place, group): &(usize, &Group)| {
            let enough = group.frontier.requests() >= FEWEST_REQUESTS && group.frontier.clients() >= FEWEST_CLIENTS;
            // a class that is all there is says nothing of its own
            let own = group.class == Class::All || group.class == Class::Chosen || group.frontier.requests() < whole;
            (*place == 0 && !study.is_by_route()) || (enough && own)
        };
        let groups = study.groups().iter().enumerate().filter(shown);
        let groups = groups.filter(|(_, group)| group.frontier.requests() > 0);
        let groups =
            groups.map(|(place, group)| Found::new(place, group, &levels, span_seconds, study.is_by_route())).collect();
        let none = |group: &&Group| group.frontier.requests() == 0;
        let unseen = study.groups().iter().filter(none).map(|group| group.class).collect();
        Findings {
            scope,
            seen: study.seen(),
            uncounted: study.uncounted(),
            span_seconds,
            groups,
            levels,
            tried: false,
            by_route: study.is_by_route(),
            unseen,
        }
    }

    /// Judges one request of the second pass by every proposal.
    pub fn try_on(&mut self, study: &Study, route: Option<usize>, key: Option<KeyHash>, now: Timestamp) {
        self.tried = true;
        let (Ok(groups), Some(key)) = (study.sort(route), key) else { return };
        for found in self.groups.iter_mut().filter(|found| groups.contains(&found.place)) {
            for trial in &mut found.trials {
                // what becomes of the request is counted in the trial
                _ = trial.observe(key, now, Cost::ONE);
            }
        }
    }

    /// Whether groups are the routes of an operator's own policy.
    pub fn by_route(&self) -> bool {
        self.by_route
    }

    /// Classes that need no route in the proposed policy. That of logins is left out only when there were none: some of its
    /// paths would be static files otherwise.
    pub fn without(&self) -> Vec<Class> {
        let own = |class: Class| self.groups.iter().any(|found| found.class == class);
        let unseen = |class: Class| self.unseen.contains(&class);
        [Class::Login, Class::Api]
            .into_iter()
            .filter(|class| unseen(*class) || (*class == Class::Api && !own(*class)))
            .collect()
    }

    /// The recommended limits, one for each group that needs one of its own, with promise and reason as remarks.
    pub fn limits(&self) -> Vec<Limit> {
        let of = |found: &Found| {
            let (place, proposal) = found.recommended()?;
            Some(Limit {
                name: found.limit_name(),
                class: found.class,
                rate: proposal.rate,
                burst: proposal.burst,
                memory: memory(found, proposal),
                remarks: vec![found.promise(place, self.tried), self.reason(found)],
            })
        };
        self.groups.iter().filter(|found| !self.is_idle(found)).filter_map(of).collect()
    }

    /// Returns whether a limit of the group's own could never refuse what that on all requests admits.
    pub fn is_idle(&self, found: &Found) -> bool {
        let Some(whole) = self.groups.first().filter(|whole| whole.class == Class::All && !self.by_route) else {
            return false;
        };
        let (Some((_, all)), Some((_, own))) = (whole.recommended(), found.recommended()) else { return false };
        found.class != Class::All && own.rate.per_second() >= all.rate.per_second() && own.burst >= all.burst
    }

    /// Why a group's limit is recommended, or why the log cannot tell.
    pub fn reason(&self, found: &Found) -> String {
        let Some((_, proposal)) = found.recommended() else { return String::new() };
        if let Some(doubt) = self.doubt(found) {
            return format!("{doubt}: try it in shadow mode for longer than the log is");
        }
        let slowest = if self.may_be_slow(found.class) { "" } else { ", at 1/s or more" };
        format!(
            "of all limits that touch at most {} of clients, it lets the least through in a minute{slowest}",
            percent_text(proposal.level.share.get())
        )
    }

    /// Why the log is too small for a recommendation; none if it is not.
    pub fn doubt(&self, found: &Found) -> Option<String> {
        if found.clients < ENOUGH_CLIENTS {
            return Some(format!(
                "too small to tell: {}, fewer than {ENOUGH_CLIENTS}",
                count(found.clients as u64, "client")
            ));
        }
        let short = self.span_seconds < ENOUGH_SECONDS;
        short.then(|| format!("too short to tell: {}, less than an hour", span(self.span_seconds as u64)))
    }

    fn may_be_slow(&self, class: Class) -> bool {
        self.by_route || may_be_slow(class)
    }

    /// What to know before trusting it, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let Some(first) = self.groups.first() else {
            return vec!["nothing was counted: no request of the log is among those asked for".into()];
        };
        let clients = first.clients;
        let small = self.levels.iter().filter(|level| level.of(clients) == 0);
        let small: Vec<String> = small.map(|level| percent_text(level.share.get())).collect();
        if !small.is_empty() {
            notes.push(format!(
                "{} of {} clients is less than one, which is no measurement: such a proposal touches none of this log; \
                 use --touch {} or a longer log",
                small.join(" or "),
                grouped(clients as u64),
                percent_text(touchable(clients)),
            ));
        }
        if self.uncounted.static_files > 0 {
            notes.push(format!(
                "{} requests for static files are left out, as a page view is a burst of them: the proposed policy has \
                 a route `static` without limits; --no-skip-static counts them",
                grouped(self.uncounted.static_files)
            ));
        } else if !self.scope.skip_static && !self.scope.is_narrowed() {
            notes.push("static files are counted: a page view is a burst of them, so bursts are large".into());
        }
        if self.groups.iter().any(|found| found.has_floor) {
            let floor = Frontier::FLOOR;
            notes.push(format!(
                "there are so many clients that bursts below {floor} are not told apart; larger ones are exact"
            ));
        }
        let beyond: u64 = self.groups.iter().map(|found| found.beyond).sum();
        if beyond > 0 {
            notes.push(format!(
                "{} requests are of clients that there was no memory for: the numbers of touched clients are lower bounds",
                grouped(beyond)
            ));
        }
        notes.push(
            "a proposal is exact for this log and this limit alone; clients are taken not to change when limited"
                .into(),
        );
        notes
    }

    /// The unmistakable hint when one client makes most of the log.
    pub fn alarm(&self) -> Option<String> {
        let first = self.groups.first()?;
        let by_client = self.scope.key.starts_with("client_ip");
        (by_client && first.requests >= FEWEST_REQUESTS && first.busiest * 5 > first.requests * 4).then(|| {
            format!(
                "one client makes {} of the requests: is a proxy missing from trusted_proxies? If the log was written \
                 behind one, its clients are not those of the site, and no proposal below means anything",
                percent_of(first.busiest, first.requests)
            )
        })
    }
}

impl Found {
    fn new(place: usize, group: &Group, levels: &[Level], span_seconds: f64, by_route: bool) -> Found {
        let frontier = &group.frontier;
        let rows = proposal::rows(frontier, levels);
        let slowest = if by_route || may_be_slow(group.class) { 0.0 } else { SLOWEST_PER_SECOND };
        let proposals = proposal::proposals(frontier, &rows, levels, span_seconds, slowest);
        let trial = |of: &Proposal| Trial::new(frontier, of.column, of.rate, of.burst).ok();
        Found {
            name: group.name.clone(),
            told: group.told.clone(),
            class: group.class,
            requests: frontier.requests(),
            clients: frontier.clients(),
            busiest: frontier.busiest().map_or(0, |(_, requests)| requests),
            has_floor: frontier.has_floor(),
            beyond: frontier.beyond(),
            trials: proposals.iter().filter_map(trial).collect(),
            proposals,
            rows,
            place,
        }
    }

    /// The name of its limit.
    pub fn limit_name(&self) -> String {
        limit_name(&self.name)
    }

    /// The proposal of the smallest share that is at least one client, and its place; else that which touches nobody.
    pub fn recommended(&self) -> Option<(usize, &Proposal)> {
        self.proposals.iter().enumerate().next_back()
    }

    /// What the proposal at this place promises, in a line.
    pub fn promise(&self, place: usize, tried: bool) -> String {
        let Some(proposal) = self.proposals.get(place) else { return String::new() };
        let clients = self.clients as u64;
        let count = |touched: usize| format!("{} of {} clients", grouped(touched as u64), grouped(clients));
        let mut text = format!(
            "{} ({}): touches {} ({})",
            proposal.level.name,
            percent_text(proposal.level.share.get()),
            count(proposal.touched),
            percent_of(proposal.touched as u64, clients),
        );
        if let (true, Some(trial)) = (tried, self.trials.get(place)) {
            let refused = trial.refused();
            text.push_str(&format!(", {} of {} requests", grouped(refused), grouped(self.requests)));
        }
        text.push_str(&format!(
            "; without the safety factor, burst {} touches {}",
            proposal.exact_burst,
            grouped(proposal.exact_touched as u64)
        ));
        text
    }
}

/// Returns whether a limit on such requests may be slower than one a second: logins, and what the operator chose.
fn may_be_slow(class: Class) -> bool {
    matches!(class, Class::Login | Class::Chosen)
}

/// The smallest share of so many clients that is one: 1 of 853 is 0.2 %, as operators write.
fn touchable(clients: usize) -> f64 {
    let least = 1.0 / clients.max(1) as f64;
    let steps = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
    steps.into_iter().find(|step| *step >= least).unwrap_or(1.0)
}

/// Names of limits are of letters, digits, `_` and `-`; those of routes as well, but who knows of which time.
fn limit_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(safe).collect()
}

/// The size of the sketch with which less than one innocent client in a hundred such logs is refused: all that the limit
/// touches are at their limit at once, in the worst case. `None`: the default will do.
fn memory(found: &Found, proposal: &Proposal) -> Option<Bytes> {
    const LARGEST: u64 = 1 << 29;
    let wrongly = |memory: u64| {
        let crowded = -(-(proposal.touched as f64) / (memory as f64 / 32.0)).exp_m1();
        crowded.powi(4) * found.clients as f64
    };
    let enough = (22..29).map(|shift| 1_u64 << shift).find(|size| wrongly(*size) < 0.01).unwrap_or(LARGEST);
    (enough > 1 << 22).then_some(Bytes(enough))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_share_is_of_one_client() {
        assert_eq!([853, 1_753, 100, 1, 0].map(touchable), [0.002, 0.001, 0.01, 1.0, 1.0]);
    }
}
