//! The processes that wrote a log of our own: each has limits of its own, which began empty when it began.
//!
//! A line says what the wall clock showed at the origin of its process's stamps, so a restart, an upgrade or a second machine shows
//! by another origin. Lines of several processes at once are those of machines side by side, or of an upgrade while the old process
//! still answers; every one is judged by the state of its own. What says no origin is one process altogether.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::exact::Exact;
use super::outcome::Error;
use super::prepare::Prepared;
use crate::engine::{Arrival, DecisionId, Evaluation, Refusal};
use crate::gate::{Course, HEAD_START, OfflineGate, PlaceAt, Submission};
use crate::policy::{Policy, Rule};
use crate::units::dice::mixed;
use crate::units::time::saturating_nanos;
use crate::units::{OutOfRange, Timestamp};

/// So many are kept at once; the one that wrote nothing for longest goes.
pub const MOST: usize = 4;

/// All processes so far, of one policy.
#[derive(Debug)]
pub struct Processes {
    policy: Policy,
    counts_exactly: bool,
    /// The one that wrote last at the end.
    kept: Vec<Process>,
    begun: u64,
    /// Of every limit, by processes that have gone.
    errors: Vec<Option<Error>>,
}

/// One of them.
#[derive(Debug)]
pub struct Process {
    told: Option<u64>,
    /// The wall clock at the origin of stamps, in nanoseconds since 1970.
    zero: u64,
    gate: OfflineGate<'static, ()>,
    judged: u64,
    /// Exact counters beside the limits; none without `--exact`.
    exact: Vec<Option<Exact>>,
}

impl Processes {
    /// None yet.
    pub fn new(policy: Policy, counts_exactly: bool) -> Processes {
        let errors = vec![None; policy.rules.len()];
        Processes { policy, counts_exactly, kept: Vec::new(), begun: 0, errors }
    }

    /// The process that wrote a line of a request that began at `start`. `told`: what the line says of the wall clock at the origin of
    /// stamps; without it, that origin lies long before the first request, so that every level of zero means "long ago".
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses, by name; a loaded policy has none.
    #[inline]
    pub fn of(&mut self, told: Option<u64>, start: u64) -> Result<&mut Process, (String, OutOfRange)> {
        match self.kept.iter().rposition(|process| process.told == told) {
            Some(at) if at + 1 == self.kept.len() => {}
            Some(at) => {
                let process = self.kept.remove(at);
                self.kept.push(process);
            }
            None => {
                let process = self.begin(told, start)?;
                if self.kept.len() >= MOST {
                    let gone = self.kept.remove(0);
                    gone.tell(&mut self.errors);
                }
                self.kept.push(process);
                self.begun += 1;
            }
        }
        // there is at least one; a policy that is refused has been told
        self.kept.last_mut().ok_or_else(|| (String::new(), OutOfRange { allowed: "one process or more" }))
    }

    fn begin(&self, told: Option<u64>, start: u64) -> Result<Process, (String, OutOfRange)> {
        let zero = told.unwrap_or(start.saturating_sub(saturating_nanos(HEAD_START)));
        let gate = OfflineGate::new(self.policy.clone(), zero, Duration::from_secs(1))?;
        let exact = |rule: &Arc<Rule>| if self.counts_exactly { Exact::new(rule, zero) } else { None };
        let exact = self.policy.rules.iter().map(exact).collect();
        Ok(Process { told, zero, gate, judged: 0, exact })
    }

    /// How many there were.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The error of every limit's sketch against exact counters, over all processes; `None` for one that was not counted so.
    pub fn errors(mut self) -> Vec<Option<Error>> {
        for process in self.kept {
            process.tell(&mut self.errors);
        }
        self.errors
    }
}

impl Process {
    /// Judges a request, and passes its first decision on: before its wait, if a limit delays it. Whether the origin had room for it is a
    /// fact of that day, and so is its end.
    #[inline]
    pub fn judge(&mut self, request: &Prepared<'_>, mut then: impl FnMut(&Evaluation, &mut [Option<Exact>])) {
        let Process { gate, exact, .. } = self;
        self.judged += 1;
        let record = request.record;
        let id = record.told.and_then(|told| DecisionId::parse(std::str::from_utf8(told.id).ok()?));
        let at = Timestamp::from_nanos(record.start.saturating_sub(self.zero));
        let arrival = Arrival { id: id.unwrap_or(DecisionId(self.judged)), at, dice: mixed(self.judged) };
        let found_none = record.told.is_some_and(|told| told.reason == Refusal::OriginFull.word().as_bytes());
        let course = Course::Known {
            takes: Duration::from_nanos(record.duration.unwrap_or(0)),
            status: StatusCode::from_u16(record.status).ok(),
            bytes: record.bytes,
            place: if found_none { PlaceAt::NotFound } else { PlaceAt::Found },
        };
        // the decisions of earlier requests have been passed on already
        gate.advance(at, &mut |_| {});
        let submission =
            Submission { request: &request.request(), client: Some(request.client), arrival, course, of: () };
        gate.submit(submission, &mut |step| then(step.evaluation, exact));
    }

    fn tell(self, errors: &mut [Option<Error>]) {
        for (sum, exact) in errors.iter_mut().zip(&self.exact) {
            if let Some(own) = exact.as_ref().map(Exact::error) {
                *sum = Some(sum.map_or(own, |sum| sum.with(own)));
            }
        }
    }
}
