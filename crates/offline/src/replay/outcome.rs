//! What a replay found out, as numbers: for tables, pictures and conditions.

use std::collections::BTreeMap;

use super::read::Tally;
use crate::engine::Refusal;
use crate::human::grouped;
use crate::policy::Mode;

/// Of one policy.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What was read.
    pub tally: Tally,
    /// Requests that were judged.
    pub judged: u64,
    /// Requests that a live gate refuses as malformed, before any limit.
    pub malformed: u64,
    /// Requests that the gate which wrote the log refused because their client could not be told.
    pub unresolved: u64,
    /// Requests that no route takes.
    pub no_route: u64,
    /// Requests that the policy as it stands refuses.
    pub refused: u64,
    /// Requests whose answer was 429 or 503 in the log: another limit had its say already.
    pub limited_before: u64,
    /// What was decided when they came, beside what is decided now; none but of logs of our own.
    pub then: Option<Then>,
    /// Different clients.
    pub clients: u64,
    /// There were more clients than are told apart; the rest counts as none.
    pub clients_capped: bool,
    /// Clients that are names or pseudonyms in the log.
    pub named_clients: bool,
    /// Every limit, in the policy's order.
    pub limits: Vec<LimitOutcome>,
    /// Every minute with a request, in order.
    pub minutes: Vec<Minute>,
    /// Clients that a limit touched, those with the most refusals first.
    pub touched: Vec<Touched>,
    /// What must be known to read the numbers right.
    pub notes: Vec<String>,
}

/// What the gate that wrote the log decided, beside what this policy decides. Each pair: admitted now, refused now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Then {
    /// Admitted then.
    pub admitted: [u64; 2],
    /// Refused then, by the policy.
    pub refused: [u64; 2],
    /// Refused then for a reason that no log tells again: the gate's overload, a full origin, a silent store.
    pub unfit: [u64; 2],
    /// Refused then, and the log has no line of it.
    pub untold: u64,
}

impl Then {
    /// One request. `verdict`, `reason`: those of its line; what is neither admitted nor refused is not counted.
    pub(super) fn note(&mut self, verdict: &[u8], reason: &[u8], refused_now: bool) {
        let pair = match verdict {
            b"admitted" => &mut self.admitted,
            b"refused" if UNFIT.iter().any(|why| why.word().as_bytes() == reason) => &mut self.unfit,
            b"refused" => &mut self.refused,
            _ => return,
        };
        let [admitted, refused] = pair;
        *if refused_now { refused } else { admitted } += 1;
    }

    /// Its rows, for tables: what was decided then, admitted now, refused now.
    pub(super) fn rows(&self) -> Vec<[String; 3]> {
        let row = |then: &str, [admitted, refused]: [u64; 2]| [then.to_owned(), grouped(admitted), grouped(refused)];
        let mut rows = vec![row("admitted then", self.admitted), row("refused then", self.refused)];
        if self.unfit != [0, 0] {
            rows.push(row("refused then by overload, a full origin or a silent store", self.unfit));
        }
        if self.untold > 0 {
            rows.push([format!("refused then without a line: {}", grouped(self.untold)), String::new(), String::new()]);
        }
        rows
    }
}

/// Reasons that a replay cannot judge again.
const UNFIT: [Refusal; 3] = [Refusal::Overload, Refusal::OriginFull, Refusal::StoreSilent];

/// What became of one limit.
#[derive(Debug, Clone, Default)]
pub struct LimitOutcome {
    /// Its name.
    pub name: String,
    /// Whether it decides.
    pub enforced: bool,
    /// Why it could not be replayed; all else is zero then.
    pub missing: Option<String>,
    /// Requests that it was asked about.
    pub judged: u64,
    /// Requests that it would limit.
    pub limited: u64,
    /// Requests that it would make wait.
    pub delayed: u64,
    /// Clients that it would limit at least once.
    pub clients: u64,
    /// Clients that it was asked about.
    pub clients_judged: u64,
    /// The minute with the most limited requests, in minutes since 1970, and how many.
    pub worst_minute: Option<(u64, u32)>,
    /// Of `--exact`: how the sketch compares with one counter per key.
    pub error: Option<Error>,
}

/// A sketch against exact counters that were charged alike.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Error {
    /// Questions that were put to both.
    pub asked: u64,
    /// Of these, such that the sketch refused and the exact counter would not have.
    pub wrongly_limited: u64,
    /// How much too little the sketch saw left, at most, in requests.
    pub most: u32,
    /// The same, on average.
    pub mean: f64,
}

/// One minute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Minute {
    /// Minutes since 1970.
    pub minute: u64,
    /// Requests that were judged.
    pub requests: u32,
    /// Of these, such that the policy as it stands refuses.
    pub refused: u32,
    /// Of every limit, by its position: how many it was asked about, how many it would limit.
    pub limits: Vec<(u32, u32)>,
}

/// A client that a limit touched.
#[derive(Debug, Clone)]
pub struct Touched {
    /// Its number, from 0, in the order of first requests.
    pub number: u32,
    /// What it is called: a pseudonym unless the operator asked for addresses.
    pub name: String,
    /// All its requests.
    pub requests: u64,
    /// Requests that it would lose: at least one limit would limit them, whether that one decides or only watches.
    pub limited: u64,
    /// By which limits, by position, and how often.
    pub by: BTreeMap<usize, u64>,
    /// The path that most of what it would lose is for, if one is.
    pub path: String,
    /// The most requests in one second.
    pub peak: u32,
    /// When it was first limited, and last, in nanoseconds since 1970.
    pub from: u64,
    /// See [`Touched::from`].
    pub to: u64,
}

impl Error {
    /// Both together.
    #[must_use]
    pub fn with(self, other: Error) -> Error {
        let asked = self.asked + other.asked;
        let sum = self.mean * self.asked as f64 + other.mean * other.asked as f64;
        Error {
            asked,
            wrongly_limited: self.wrongly_limited + other.wrongly_limited,
            most: self.most.max(other.most),
            mean: if asked == 0 { 0.0 } else { sum / asked as f64 },
        }
    }
}

impl LimitOutcome {
    /// The share of questions that it would answer with no.
    pub fn limited_share(&self) -> f64 {
        share(self.limited, self.judged)
    }

    /// The share of its clients that it touches.
    pub fn clients_share(&self) -> f64 {
        share(self.clients, self.clients_judged)
    }

    /// Its word for the mode.
    pub fn mode(&self) -> &'static str {
        if self.enforced { Mode::Enforce.word() } else { Mode::Shadow.word() }
    }
}

/// A part of a whole; zero of nothing.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
