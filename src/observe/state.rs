//! The state of the running process at one moment: the one model that the metrics page, the admin API, the HTML page, `status` and
//! `top` show.
//!
//! As JSON a [`State`] is `tidegate.status/1`. Members that the JSON does not have are skipped there, and empty in a state that was read
//! from it: only the process itself shows them, on its pages. What a process of a later version adds is left out.
//!
//! [`Metrics::state`](super::metrics::Metrics::state) fills in the counters, `running::state` everything else.

mod answers;
mod bans;
mod condition;
mod door;
mod offenders;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lines::LogState;
use super::notices::notice::Notice;
use crate::engine::Outcome;
use crate::human::percent;
use crate::limiter::Gauges;
use crate::policy::Mode;
use crate::store::StoreState;

pub use bans::{BanState, Banned, Bans, NamedNetworks, Unbanned};

pub use answers::{Answers, Ending, FAILS, Recent};
pub use condition::{Condition, ConditionKind, Sign};
pub use offenders::{Network, Offender, Offenders};

pub use door::{Door, Holder};

/// A word of a fixed list, such as a kind of limit.
pub type Word = Cow<'static, str>;

/// The process at one moment. Counts are those since its start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Always `tidegate.status/1`.
    pub schema: Word,
    /// Version of the program.
    pub version: Word,
    /// Name of the machine.
    pub instance: String,
    /// Number of the process.
    pub process: u32,
    /// `starting`, `ready` or `stopping`.
    pub state: Word,
    /// Time since the start.
    pub uptime_seconds: u64,
    /// The process as a whole, in one sentence.
    #[serde(default)]
    pub condition: Condition,
    /// The configuration in force.
    pub config: Config,
    /// The policies that were loaded or refused lately, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// The file of the access log; `None`: it is not a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<String>,
    /// All requests.
    pub requests: Requests,
    /// How near the process is to what it can serve; `None` with `server.overload: off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// Snapshots of limits; `None` without `server.state`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<Snapshots>,
    /// In the order of the settings.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// In the policy's order.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// In the policy's order.
    pub origins: Vec<Origin>,
    /// In the policy's order.
    pub limits: Vec<Limit>,
    /// In the policy's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreState>,
    /// Number of clients that are pardoned.
    #[serde(default)]
    pub pardons: usize,
    /// Number of bans in force.
    #[serde(default)]
    pub bans: usize,
    /// Bans that were given: by operators, by penalties of limits, and on other gates.
    #[serde(skip)]
    pub bans_given: [u64; 3],
    /// Differences from the file that need a new process.
    #[serde(default)]
    pub waiting_for_upgrade: Vec<String>,
    /// The most urgent first.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// Certificates and authorities of the listeners.
    #[serde(skip)]
    pub certificates: Vec<Certificate>,
    /// Lost lines by log.
    #[serde(skip)]
    pub logs: Vec<(&'static str, LogState)>,
    /// Panics that were caught.
    #[serde(skip)]
    pub panics: u64,
    /// Upper bounds of the durations, in seconds.
    #[serde(skip)]
    pub bounds: &'static [f64],
}

/// The configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The file or folder that it was read from; `None`: the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Its fingerprint: twelve hexadecimal digits.
    pub fingerprint: String,
    /// When it was loaded, in seconds since 1970.
    pub loaded_at: u64,
    /// Time since then.
    pub age_seconds: u64,
    /// Number of the policy, 1 at start.
    #[serde(skip)]
    pub generation: u64,
    /// Time since the policy is in force.
    #[serde(skip)]
    pub in_force_seconds: u64,
}

/// A policy file that was loaded, or refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Its fingerprint; empty of one that was refused.
    pub fingerprint: String,
    /// `in_force`, `replaced` or `refused`.
    pub state: Word,
    /// What it changed, or the first fault.
    pub text: String,
}

/// Snapshots of the state of limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshots {
    /// Their directory.
    pub directory: String,
    /// age of the latest one; `None`: there is none yet.
    pub age_seconds: Option<f64>,
    /// Size of the latest one.
    pub bytes: u64,
    /// How long it took.
    pub write_seconds: f64,
    /// Snapshots that could not be written.
    pub errors: u64,
    /// Limits that began with their saved counts.
    pub kept: usize,
    /// Limits that began with them under other numbers.
    pub rerated: usize,
    /// Limits that began empty although one of their name was saved, each with the reason.
    pub reset: Vec<String>,
}

/// How near the process is to what it can serve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overload {
    /// The pressure of the scarcest resource, 0 to 1. From 0.5 on clients are refused.
    pub pressure: f64,
    /// The scarcest resource.
    pub resource: Word,
    /// The pressure by resource.
    pub resources: BTreeMap<Word, f64>,
    /// How late the worker threads begin with what is ready.
    pub delay_seconds: f64,
    /// Whether clients are refused if they are heavy enough.
    pub refusing: bool,
}

impl Overload {
    /// From the pressure of each resource.
    pub fn of(parts: impl IntoIterator<Item = (&'static str, f64)>, delay: Duration, refusing: bool) -> Overload {
        let resources: BTreeMap<Word, f64> = parts.into_iter().map(|(word, part)| (word.into(), part)).collect();
        let scarcest = resources.iter().max_by(|one, other| one.1.total_cmp(other.1));
        let (resource, pressure) = scarcest.map_or((Word::default(), 0.0), |(word, part)| (word.clone(), *part));
        Overload { pressure, resource, resources, delay_seconds: delay.as_secs_f64(), refusing }
    }

    /// In a few words, for people.
    pub fn line(&self) -> String {
        let refusing = if self.refusing { ", REFUSING" } else { "" };
        format!("pressure {} ({}{refusing})", percent(self.pressure), self.resource)
    }
}

/// All requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Requests that ended.
    pub ended: u64,
    /// Requests that the policy refused.
    pub refused: u64,
    /// Requests refused for their form or pace.
    pub malformed: u64,
    /// Requests that ended without a route.
    #[serde(skip)]
    pub unmatched: u64,
}

/// A listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// The address that it is bound to.
    pub address: String,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused.
    pub refused: u64,
}

/// A route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// Requests that ended.
    pub ended: u64,
    /// Requests that were held back first.
    pub delayed: u64,
    /// Requests that its limits refused.
    pub limited: u64,
    /// Requests refused for lack of room: at an origin, or under a limit of all requests together.
    pub shed: u64,
    /// Requests that it forwarded, by what came of them.
    pub answers: Answers,
    /// The last seconds of these.
    pub recent: Recent,
    /// Position of the origin that it forwards to, if it does.
    #[serde(skip)]
    pub origin: Option<usize>,
    /// Forwarded requests by the time to the answer's head: one number for each of [`State::bounds`], one for longer ones.
    #[serde(skip)]
    pub durations: Vec<u64>,
}

/// An origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// Its name.
    pub name: String,
    /// Requests that are with it.
    pub inflight: u64,
    /// Cap on these, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Requests that wait for a place.
    pub queued: u64,
    /// Requests that found no place.
    pub shed: u64,
    /// Attempts that failed, those that another attempt made good among them.
    pub errors: u64,
    /// Requests that its routes forwarded, by what came of them.
    pub answers: Answers,
    /// The last seconds of these.
    pub recent: Recent,
    /// Attempts after the first of a request.
    pub retries: u64,
    /// Endpoints in use.
    pub healthy: usize,
    /// Every address that its names lead to.
    pub endpoints: Vec<Endpoint>,
    /// Who holds its places and who waits for one; `None` without a cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub door: Option<Door>,
    /// Requests whose client has left and that still hold their places.
    #[serde(skip)]
    pub abandoned: u64,
    /// The requests that wait, by class in the order of [`Criticality::ALL`](crate::units::Criticality::ALL).
    #[serde(skip)]
    pub queued_by_class: [u64; 4],
    /// Requests sent although all its addresses were out; `None` where none ever is.
    #[serde(skip)]
    pub despite: Option<u64>,
    /// Its addresses as the policy has them, in that order.
    #[serde(skip)]
    pub addresses: Vec<Address>,
}

/// One address of an origin, resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    /// Address and port.
    pub address: String,
    /// Whether it is in use.
    pub healthy: bool,
    /// How often it was left out because requests failed.
    pub ejections: u64,
}

/// One address of an origin as the policy has it; a name may stand for several endpoints.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Address {
    /// Host and port.
    pub address: String,
    /// Share of its endpoints that are in use, 0 to 1.
    pub healthy: f64,
    /// How often one of them was left out because requests failed.
    pub ejections: u64,
}

/// A limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// The word of its kind.
    pub kind: Word,
    /// `enforce` or `shadow`.
    pub mode: Word,
    /// Size of its table.
    pub memory_bytes: u64,
    /// Share of the table's cells that hold a debt, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<f64>,
    /// Keys with a debt, estimated from that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// Probability that a new key is refused its first unit because of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Keys that are counted exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_keys: Option<u64>,
    /// Requests under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inflight: Option<u64>,
    /// Decisions by verdict, in every mode that it has had.
    pub decisions: BTreeMap<Word, u64>,
    /// How many of those that are `limited` were made in shadow, so that the request passed.
    pub not_obeyed: u64,
    /// Of the requests that it allowed, those that were refused all the same: by another limit, or for lack of room at the origin.
    pub refused_elsewhere: u64,
    /// Of a `fair_share`: who used its units and who waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub door: Option<Door>,
    /// Whether it counts by a key; one that does not has no table worth showing.
    #[serde(skip)]
    pub keyed: bool,
    /// Position of the store that it is shared through, and the word for how.
    #[serde(skip)]
    pub shared: Option<(usize, &'static str)>,
    /// Units leased from the store and not spent, where it is shared by leases.
    #[serde(skip)]
    pub leased: Option<u64>,
    /// The limiter's own numbers.
    #[serde(skip)]
    pub gauges: Gauges,
}

impl Limit {
    /// Returns whether its refusals are counted and not obeyed.
    pub fn is_shadow(&self) -> bool {
        self.mode == Mode::Shadow.word()
    }

    /// Returns how many decisions had this outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.decisions.get(outcome.word()).copied().unwrap_or(0)
    }

    /// Returns how many requests fitted, at once or after a wait, whatever else refused them.
    pub fn allowed(&self) -> u64 {
        self.count(Outcome::Admitted) + self.count(Outcome::Delayed)
    }

    /// Returns how many requests fitted and were refused nowhere else: the ones that were served.
    pub fn admitted(&self) -> u64 {
        self.allowed().saturating_sub(self.refused_elsewhere)
    }

    /// Returns how many requests it turned away.
    pub fn limited(&self) -> u64 {
        self.count(Outcome::Refused).saturating_sub(self.not_obeyed)
    }

    /// Returns how many requests did not fit and passed, because it was in shadow or only tags.
    pub fn shadowed(&self) -> u64 {
        self.not_obeyed + self.count(Outcome::Tagged)
    }
}

/// A certificate of a listener, or the authorities of its clients' certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The listener's name.
    pub listener: String,
    /// Its name there.
    pub certificate: String,
    /// When it ends, in seconds since 1970; `None` for authorities.
    pub expires: Option<i64>,
    /// Whether the content of its files is in use.
    pub current: bool,
}

/// The outcome of a pardon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pardoned {
    /// The client's name.
    pub client: String,
    /// Time that limits leave it alone.
    pub exempt_seconds: u64,
    /// Limits that count by the client.
    pub limits: Vec<PardonedLimit>,
    /// Always `tidegate.pardon/1`.
    pub schema: Word,
}

/// A limit that was asked to pardon a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PardonedLimit {
    /// Its name.
    pub limit: String,
    /// Whether it did.
    pub pardoned: bool,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Word>,
}

/// The end of a pardon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// The client's name.
    pub client: String,
    /// Always true.
    pub revoked: bool,
    /// Always `tidegate.pardon/1`.
    pub schema: Word,
}

/// The clients that are pardoned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pardons {
    /// By name.
    pub pardons: Vec<Pardon>,
    /// Always `tidegate.pardons/1`.
    pub schema: Word,
}

/// A pardon that holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pardon {
    /// The client's present name.
    pub client: String,
    /// Time that limits still leave it alone.
    pub exempt_for_seconds: u64,
    /// Time since it was given.
    pub given_seconds_ago: u64,
    /// Limits that pardon it.
    pub limits: Vec<String>,
}
