//! A policy under a virtual clock: every request of a log is judged and charged at the moment when it began, and gives back
//! what it held at the moment when it ended.
//!
//! The clock is the log's. Its origin is the one that the gate had which wrote the log, if the log says it, so that every number
//! is the same; otherwise 400 days before the first request, so that a level of zero means "long ago" here too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use http::{HeaderMap, StatusCode};

use super::belt::Logged;
use super::ready::{After, Fields, Ready, SEED};
use crate::client::ClientAddress;
use crate::engine::{Arrival, DecisionId, Holds, Judged, Refusal, Snapshot, Verdict};
use crate::policy::Policy;
use crate::request::{Peer, Request};
use crate::units::dice::mixed;
use crate::units::{OutOfRange, Timestamp};

pub use super::ready::Unjudged;

/// The policy and the state of its limits, at the log's time.
#[derive(Debug)]
pub struct Gate {
    snapshot: Snapshot,
    zero: u64,
    fields: Fields,
    /// Header fields of the last request that had any to show.
    headers: HeaderMap,
    /// Of the last request, and empty between requests; large both, and so not made anew for each.
    judged: Judged,
    holds: Holds,
    ends: BinaryHeap<Reverse<End>>,
    sequence: u64,
    maintained: u64,
}

const HEAD_START: u64 = 400 * 86_400 * 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// No request's.
const NEVER: Arrival = Arrival { id: DecisionId(0), at: Timestamp::ZERO, dice: 0 };

/// Something that is due at a later moment.
#[derive(Debug)]
struct End {
    at: u64,
    sequence: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The wait of a limit with `action: delay` is over.
    Waited(Box<Judged>, After),
    /// The answer is complete.
    Answered(Box<(Judged, Holds)>, After),
}

impl Gate {
    /// Before the first request, which begins at `start`. `told`: what the wall clock showed at the origin of the stamps of the gate
    /// that wrote the log, if it says so. `policy` is that of a [`Plan`](super::plan::Plan).
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses, by name; a loaded policy has none.
    pub fn new(policy: Policy, told: Option<u64>, start: u64) -> Result<Gate, (String, OutOfRange)> {
        let zero = told.unwrap_or(start.saturating_sub(HEAD_START));
        let fields = Fields::of(&policy);
        let snapshot = Snapshot::new(policy, &SEED, zero)?;
        Ok(Gate {
            snapshot,
            zero,
            fields,
            headers: HeaderMap::new(),
            judged: Judged::new(NEVER),
            holds: Holds::new(),
            ends: BinaryHeap::new(),
            sequence: 0,
            maintained: 0,
        })
    }

    /// What the wall clock shows at the origin of stamps, in nanoseconds since 1970.
    pub fn zero(&self) -> u64 {
        self.zero
    }

    /// The policy and its limiters.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Judges a request and charges it, and shows the record of it to `then` before it goes on. `ready`: what was made of
    /// the request ahead, for this policy.
    ///
    /// # Errors
    /// It is not for the limits to judge.
    pub fn judge<T>(
        &mut self,
        logged: &Logged<'_>,
        ready: &Result<Ready, Unjudged>,
        then: impl FnOnce(&Judged, &Ready) -> T,
    ) -> Result<T, Unjudged> {
        let at = logged.start().saturating_sub(self.zero);
        self.advance(at);
        let ready = ready.as_ref().map_err(|why| *why)?;
        self.sequence += 1;
        let Gate { snapshot, judged, holds, headers, fields, .. } = self;
        // limits were told who the client is, and ask for no peer
        let peer = match ready.client.address {
            ClientAddress::Ip(address) => Peer::Ip(address),
            ClientAddress::Unix => Peer::Unix,
        };
        // few need more, and the first touch of a line that another thread has read costs more than most limits do
        let record = (!fields.is_none()).then(|| logged.record());
        if let Some(record) = &record {
            fields.fill(headers, record);
        }
        let mut request =
            Request { peer, method: ready.method(), host: "", path: "", query: None, headers, tls_sni: None };
        if let Some(record) = record {
            request.query = record.query.and_then(|query| std::str::from_utf8(query).ok());
            if fields.holds_texts() {
                (request.host, request.path) = (ready.host(&record), ready.path(&record));
            }
        }
        let told = ready.is_told.then(|| logged.record().told).flatten();
        let id = told.and_then(|told| DecisionId::parse(std::str::from_utf8(told.id).ok()?));
        let arrival = Arrival {
            id: id.unwrap_or(DecisionId(self.sequence)),
            at: Timestamp::from_nanos(at),
            dice: mixed(self.sequence),
        };
        *judged = Judged::new(arrival);
        snapshot.judge_into(&request, Some(ready.client), judged);
        if judged.decision.verdict == Verdict::Admitted
            && told.is_some_and(|told| told.reason == Refusal::OriginFull.word().as_bytes())
        {
            // whether the origin had room is a fact of that day, and who found none was not charged
            judged.decision.verdict = Verdict::Refused(Refusal::OriginFull);
        }
        let after = ready.after;
        snapshot.reserve(judged, judged.decision.at);
        let waits = judged.decision.goes_on() > judged.decision.at;
        if !waits {
            let now = judged.decision.at;
            snapshot.admit_into(judged, now, holds);
        }
        let seen = then(judged, ready);
        if waits {
            let until = judged.decision.goes_on().nanos();
            let judged = std::mem::replace(judged, Judged::new(NEVER));
            self.push(until, What::Waited(Box::new(judged), after));
        } else if !holds.is_empty() || snapshot.counts_bytes(judged) {
            let (judged, holds) = (std::mem::replace(judged, Judged::new(NEVER)), std::mem::take(holds));
            self.hold(at, judged, holds, after);
        }
        Ok(seen)
    }

    /// Lets everything happen that is due until `at`.
    fn advance(&mut self, at: u64) {
        while self.ends.peek().is_some_and(|Reverse(end)| end.at <= at)
            && let Some(Reverse(end)) = self.ends.pop()
        {
            match end.what {
                What::Waited(mut judged, after) => {
                    let now = Timestamp::from_nanos(end.at);
                    self.snapshot.reserve(&mut judged, now);
                    let goes_on = judged.decision.goes_on();
                    if goes_on > now {
                        // the next limit makes it wait again
                        self.push(goes_on.nanos(), What::Waited(judged, after));
                    } else {
                        let (holds, _) = self.snapshot.admit(&mut judged, now);
                        self.hold(end.at, *judged, holds, after);
                    }
                }
                What::Answered(of, after) => {
                    let (judged, holds) = *of;
                    self.end(end.at, judged, holds, after);
                }
            }
        }
        if at / SECOND != self.maintained {
            self.maintained = at / SECOND;
            self.snapshot.maintain(Timestamp::from_nanos(at));
        }
    }

    /// What an admitted request holds is given back at its end.
    fn hold(&mut self, at: u64, judged: Judged, holds: Holds, after: After) {
        if after.duration == 0 {
            self.end(at, judged, holds, after);
        } else {
            self.push(at.saturating_add(after.duration), What::Answered(Box::new((judged, holds)), after));
        }
    }

    fn end(&mut self, at: u64, mut judged: Judged, mut holds: Holds, after: After) {
        let now = Timestamp::from_nanos(at);
        self.snapshot.sent(&mut holds);
        if let Ok(status) = StatusCode::from_u16(after.status) {
            self.snapshot.answered(&judged, &mut holds, status, &HeaderMap::new(), now);
        }
        if judged.decision.verdict == Verdict::Admitted {
            self.snapshot.carried(&mut judged, after.bytes, now);
        }
    }

    fn push(&mut self, at: u64, what: What) {
        self.sequence += 1;
        self.ends.push(Reverse(End { at, sequence: self.sequence, what }));
    }
}

impl PartialEq for End {
    fn eq(&self, other: &End) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for End {}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &End) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for End {
    fn cmp(&self, other: &End) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}
