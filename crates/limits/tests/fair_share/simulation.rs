//! A virtual world of clients: everything happens at numbers, and every run of a seed is the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::Duration;

use tidegate_limits::limiter::kinds::fair_share::share::{Capacity, FairShare, FairShareSpec, NodeSpec};
use tidegate_limits::sketch::KeyHash;
use tidegate_limits::units::{Prefix, Rate, Timestamp};

pub use crate::ground::*;
pub use tidegate_limits::units::Dice;

pub const SECOND: u64 = 1_000_000_000;

/// How the requests of one client follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Evenly, from a random phase.
    Steady,
    /// Independently of each other.
    Poisson,
    /// So many at the same instant, evenly spaced.
    Bursts(u32),
}

/// One sender of requests.
#[derive(Clone)]
pub struct Source {
    /// What its numbers are added to.
    pub group: &'static str,
    pub per_second: f64,
    pub arrivals: Arrivals,
    /// When it sends, in seconds of the simulation.
    pub from: f64,
    pub until: f64,
    pub keys: Vec<Option<KeyHash>>,
}

/// Requests of one group in one second.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Tally {
    pub offered: u64,
    pub passed: u64,
}

/// What came of a run: per group, one tally a second, and α at each second's end.
pub struct Outcome {
    groups: Vec<(&'static str, Vec<Tally>)>,
    pub alphas: Vec<f64>,
}

impl Outcome {
    /// Requests per second of `group` that passed, over the seconds `from..until`.
    pub fn passed(&self, group: &str, from: usize, until: usize) -> f64 {
        self.sum(group, from, until).passed as f64 / (until - from) as f64
    }

    /// The part of what `group` offered that passed.
    pub fn part(&self, group: &str, from: usize, until: usize) -> f64 {
        let sum = self.sum(group, from, until);
        sum.passed as f64 / sum.offered as f64
    }

    /// Requests per second of all groups that passed.
    pub fn total(&self, from: usize, until: usize) -> f64 {
        self.groups.iter().map(|(group, _)| self.passed(group, from, until)).sum()
    }

    fn sum(&self, group: &str, from: usize, until: usize) -> Tally {
        let (_, tallies) = self.groups.iter().find(|(name, _)| *name == group).expect("a group of this run");
        tallies[from..until].iter().fold(Tally::default(), |sum, tally| Tally {
            offered: sum.offered + tally.offered,
            passed: sum.passed + tally.passed,
        })
    }

    /// One line a group, for messages: passed per second over the whole run.
    pub fn table(&self) -> String {
        let line = |(group, tallies): &(&str, Vec<Tally>)| {
            let passed: Vec<String> =
                tallies.iter().map(|tally| format!("{}/{}", tally.passed, tally.offered)).collect();
            format!("\n  {group}: {}", passed.join(" "))
        };
        let alphas: Vec<String> = self.alphas.iter().map(|alpha| format!("{alpha:.2}")).collect();
        format!("{}\n  alpha: {}", self.groups.iter().map(line).collect::<String>(), alphas.join(" "))
    }
}

/// Lets `sources` send to `limit` for `seconds`.
pub fn run(limit: &FairShare, sources: &[Source], seconds: usize, seed: u64) -> Outcome {
    let decide = |keys: &[Option<KeyHash>], now, dice| passes(limit, keys, now, dice);
    drive(sources, seconds, seed, decide, || limit.alpha())
}

/// The same with anything that decides: the reference, too.
pub fn drive(
    sources: &[Source],
    seconds: usize,
    seed: u64,
    mut decide: impl FnMut(&[Option<KeyHash>], Timestamp, u64) -> bool,
    alpha: impl Fn() -> f64,
) -> Outcome {
    let mut dice = Dice(seed);
    let mut groups: Vec<(&'static str, Vec<Tally>)> = Vec::new();
    let mut group_of = Vec::new();
    let mut queue = BinaryHeap::new();
    for (number, source) in sources.iter().enumerate() {
        let known = groups.iter().position(|(name, _)| *name == source.group);
        group_of.push(known.unwrap_or_else(|| {
            groups.push((source.group, vec![Tally::default(); seconds]));
            groups.len() - 1
        }));
        let first = source.from * 1e9 + gap(source, &mut dice) * dice.unit();
        queue.push(Reverse((first as u64, number)));
    }
    let mut alphas = vec![f64::NAN; seconds];
    while let Some(Reverse((at, number))) = queue.pop() {
        let source = &sources[number];
        let second = (at / SECOND) as usize;
        if second >= seconds || at as f64 >= source.until * 1e9 {
            continue;
        }
        let repeats = if let Arrivals::Bursts(many) = source.arrivals { many } else { 1 };
        for _ in 0..repeats {
            let tally = &mut groups[group_of[number]].1[second];
            tally.offered += 1;
            tally.passed += u64::from(decide(&source.keys, Timestamp::from_nanos(START + at), dice.roll()));
        }
        alphas[second] = alpha();
        let next = at as f64 + gap(source, &mut dice);
        queue.push(Reverse((next as u64, number)));
    }
    Outcome { groups, alphas }
}

/// Nanoseconds to the next arrival.
fn gap(source: &Source, dice: &mut Dice) -> f64 {
    let mean = 1e9 / source.per_second;
    match source.arrivals {
        Arrivals::Steady => mean,
        Arrivals::Poisson => -mean * (1.0 - dice.unit()).ln(),
        Arrivals::Bursts(many) => mean * f64::from(many),
    }
}

/// The keys of a client in the default chain: address, /24 or /48, /16 or /32.
pub fn chain(address: IpAddr) -> Vec<Option<KeyHash>> {
    [(32, 64), (24, 48), (16, 32)]
        .map(|(v4, v6)| {
            let (bytes, length) = Prefix::around(address, v4, v6).key_bytes();
            Some(key(&[&bytes[..length]]))
        })
        .to_vec()
}

/// The default chain below a client × path node and beside a path node: `[client × path, client, net, wide net, path]`.
pub fn chain_with_path(address: IpAddr, path: &str) -> Vec<Option<KeyHash>> {
    let mut keys = chain(address);
    let (bytes, length) = Prefix::around(address, 32, 64).key_bytes();
    keys.insert(0, Some(key(&[&bytes[..length], path.as_bytes()])));
    keys.push(Some(key(&[path.as_bytes()])));
    keys
}

/// A sender for the whole run.
pub fn source(group: &'static str, per_second: f64, keys: Vec<Option<KeyHash>>) -> Source {
    Source { group, per_second, arrivals: Arrivals::Steady, from: 0.0, until: f64::INFINITY, keys }
}

/// A chain of one node a level, with these multipliers.
pub fn nodes(multipliers: &[f64]) -> Vec<NodeSpec> {
    (0..).zip(multipliers).map(|(level, multiplier)| NodeSpec { level, multiplier: *multiplier }).collect()
}

/// The default chain at a capacity, with these multipliers.
pub fn steered(capacity: u32, multipliers: &[f64]) -> FairShareSpec {
    let rate = Rate::new(capacity, Duration::from_secs(1)).unwrap();
    FairShareSpec { nodes: nodes(multipliers), ..FairShareSpec::new(Capacity::Rate(rate)) }
}
