//! What the report of a replay is made of, gathered request by request.

use std::collections::HashMap;
use std::net::IpAddr;

use arrayvec::ArrayVec;
use http::Method;

use super::bins::{Calendar, Series};
use super::heavy::Heavy;
use crate::client::{Client, ClientNetwork};
use crate::engine::{Evaluation, Outcome};
use crate::policy::{CostRule, Counted, Mode, Policy, Route, Rule};
use crate::replay::record::Record;
use crate::replay::suggest::{Frontier, grid};
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::units::{Cost, Rate, Timestamp};

/// One request, as the engine judged it.
pub struct Asked<'a> {
    /// When it came. Never before the one before.
    pub at: Timestamp,
    /// Who sent it.
    pub client: KeyHash,
    /// The client's name, as it may be shown.
    pub name: &'a dyn Fn() -> String,
    /// What it asked for.
    pub path: &'a str,
    /// What each limit said.
    pub heard: &'a [Heard],
}

/// What one limit said.
#[derive(Debug, Clone, Copy)]
pub struct Heard {
    /// Its position in the policy.
    pub rule: usize,
    /// Its key, where it has one.
    pub key: Option<KeyHash>,
    /// Whether these are the limit's own numbers, not those of a tier.
    pub own_numbers: bool,
    /// Whether it did not fit, obeyed or not.
    pub limited: bool,
    /// What it cost.
    pub cost: Cost,
}

/// The state of a report.
#[derive(Debug)]
pub struct Ledger {
    pub(super) calendar: Calendar,
    pub(super) limits: Vec<Limit>,
    pub(super) heavy: Heavy,
    pub(super) requests: u64,
    pub(super) limited: u64,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// All requests, with those that an enforced or shadowed limit did not fit.
    pub(super) flow: Series,
}

/// One limit of the policy.
#[derive(Debug)]
pub(super) struct Limit {
    pub name: String,
    pub mode: Mode,
    pub cost: CostRule,
    pub judged: u64,
    pub limited: u64,
    /// Those that it limited.
    pub touched: HashMap<KeyHash, Touched>,
    /// Touched ones beyond those that are kept.
    pub untold: u64,
    pub worst: Worst,
    /// Of a plain `rate` limit: its numbers, and what all its clients would need.
    pub frontier: Option<(Rate, u32, Frontier)>,
}

/// A client that a limit touches.
#[derive(Debug, Clone)]
pub(super) struct Touched {
    pub name: String,
    pub limited: u64,
    pub first: Timestamp,
    pub last: Timestamp,
    /// A path that more than half of what was limited asked for, if there is such a path (Boyer and Moore's majority vote).
    pub path: String,
    pub votes: u64,
}

/// The minute in which most was limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Worst {
    pub minute: u64,
    pub limited: u64,
    current: u64,
    count: u64,
}

/// So many touched clients are kept of one limit.
const MOST_TOUCHED: usize = 100_000;

const MINUTE: u64 = 60 * 1_000_000_000;

impl Ledger {
    /// An empty one for the limits of a policy.
    pub fn new(policy: &Policy) -> Ledger {
        Ledger {
            calendar: Calendar::default(),
            limits: policy.rules.iter().map(|rule| Limit::new(rule)).collect(),
            heavy: Heavy::default(),
            requests: 0,
            limited: 0,
            first: Timestamp::ZERO,
            last: Timestamp::ZERO,
            flow: Series::default(),
        }
    }

    /// Counts a request as the engine judged it. `name`: that of its client, as it may be shown.
    pub fn note(&mut self, record: &Record<'_>, judged: &Evaluation, name: &dyn Fn() -> String) {
        let Some(client) = &judged.decision.client else { return };
        let method = Method::from_bytes(record.method).unwrap_or(Method::GET);
        let mut heard: ArrayVec<Heard, { Route::MAX_RULES }> = ArrayVec::new();
        for (slot, reading) in judged.decision.readings.iter().enumerate() {
            if reading.outcome == Outcome::Exempt {
                continue;
            }
            let cost = self.limits.get(reading.rule).map_or(Cost::ONE, |limit| limit.cost.on_entry(&method));
            heard.push(Heard {
                rule: reading.rule,
                key: judged.key(slot),
                own_numbers: reading.tier == 0,
                limited: matches!(reading.outcome, Outcome::Refused | Outcome::Tagged),
                cost,
            });
        }
        let path = String::from_utf8_lossy(record.path);
        let at = Timestamp::from_nanos(record.start);
        self.count(&Asked { at, client: key_of(client), name, path: &path, heard: &heard });
    }

    /// Counts a request.
    pub fn count(&mut self, asked: &Asked<'_>) {
        let (bin, widening) = self.calendar.bin(asked.at.nanos());
        if let Some(widening) = widening {
            self.flow.widen(widening);
        }
        if self.requests == 0 {
            self.first = asked.at;
        }
        self.last = self.last.max(asked.at);
        self.requests += 1;
        let limited = asked.heard.iter().any(|heard| heard.limited);
        self.limited += u64::from(limited);
        self.flow.count(bin, limited);
        self.heavy.count(asked.client, asked.name);
        for heard in asked.heard {
            if let Some(limit) = self.limits.get_mut(heard.rule) {
                limit.count(asked, heard);
            }
        }
    }
}

/// What a client is told apart by.
fn key_of(client: &Client) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes(*b"tidegate replays"));
    match client.network {
        ClientNetwork::Prefix(prefix) => match prefix.address() {
            IpAddr::V4(v4) => hasher.part(4, &v4.octets()),
            IpAddr::V6(v6) => hasher.part(6, &v6.octets()),
        },
        ClientNetwork::Unix => hasher.part(0, &[]),
    }
    hasher.finish()
}

impl Limit {
    fn new(rule: &Rule) -> Limit {
        let plain = !rule.cost.is_deferred()
            && !matches!(rule.cost, CostRule::Bytes { .. })
            && rule.counted == Counted::Requests;
        let bucket = rule.kind.bucket().filter(|_| plain);
        let frontier = bucket.and_then(|(rate, burst)| {
            let frontier = Frontier::new(grid::rates_with(rate), Frontier::MOST_CLIENTS).ok()?;
            Some((rate, burst, frontier))
        });
        Limit {
            name: rule.name.clone(),
            mode: rule.mode,
            cost: rule.cost.clone(),
            judged: 0,
            limited: 0,
            touched: HashMap::new(),
            untold: 0,
            worst: Worst::default(),
            frontier,
        }
    }

    fn count(&mut self, asked: &Asked<'_>, heard: &Heard) {
        self.judged += 1;
        if let (Some((_, _, frontier)), Some(key), true) = (&mut self.frontier, heard.key, heard.own_numbers) {
            frontier.observe(key, asked.at, heard.cost);
        }
        if !heard.limited {
            return;
        }
        self.limited += 1;
        self.worst.count(asked.at);
        let key = heard.key.unwrap_or(asked.client);
        if self.touched.len() >= MOST_TOUCHED && !self.touched.contains_key(&key) {
            self.untold += 1;
            return;
        }
        let touched = self.touched.entry(key).or_insert_with(|| Touched {
            name: (asked.name)(),
            limited: 0,
            first: asked.at,
            last: asked.at,
            path: asked.path.to_owned(),
            votes: 0,
        });
        touched.count(asked);
    }
}

impl Touched {
    fn count(&mut self, asked: &Asked<'_>) {
        self.limited += 1;
        self.last = asked.at;
        if self.path == asked.path {
            self.votes += 1;
        } else if self.votes == 0 {
            asked.path.clone_into(&mut self.path);
            self.votes = 1;
        } else {
            self.votes -= 1;
        }
    }
}

impl Worst {
    fn count(&mut self, at: Timestamp) {
        let minute = at.nanos() / MINUTE;
        if minute != self.current {
            (self.current, self.count) = (minute, 0);
        }
        self.count += 1;
        if self.count > self.limited {
            (self.minute, self.limited) = (minute, self.count);
        }
    }
}
