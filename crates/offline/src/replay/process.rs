//! The processes that wrote a log of our own: each has limits of its own, which began empty when it began.
//!
//! A line says what the wall clock showed at the origin of its process's stamps, so a restart, an upgrade or a second machine shows
//! by another origin. Lines of several processes at once are those of machines side by side, or of an upgrade while the old process
//! still answers; every one is judged by the state of its own. What says no origin is one process altogether.

use std::sync::Arc;

use super::exact::Exact;
use super::gate::Gate;
use super::outcome::Error;
use crate::policy::{Policy, Rule};
use crate::units::OutOfRange;

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
    zero: Option<u64>,
    /// Its limits.
    pub gate: Gate,
    /// Exact counters beside them, by limit; none without `--exact`.
    pub exact: Vec<Option<Exact>>,
}

impl Processes {
    /// None yet.
    pub fn new(policy: Policy, counts_exactly: bool) -> Processes {
        let errors = vec![None; policy.rules.len()];
        Processes { policy, counts_exactly, kept: Vec::new(), begun: 0, errors }
    }

    /// The one whose stamps begin where the wall clock showed this, which wrote a line of a request that began at `start`.
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses, by name; a loaded policy has none.
    #[inline]
    pub fn of(&mut self, zero: Option<u64>, start: u64) -> Result<&mut Process, (String, OutOfRange)> {
        match self.kept.iter().rposition(|process| process.zero == zero) {
            Some(at) if at + 1 == self.kept.len() => {}
            Some(at) => {
                let process = self.kept.remove(at);
                self.kept.push(process);
            }
            None => {
                let process = self.begin(zero, start)?;
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

    fn begin(&self, zero: Option<u64>, start: u64) -> Result<Process, (String, OutOfRange)> {
        let gate = Gate::new(self.policy.clone(), zero, start)?;
        let exact = |rule: &Arc<Rule>| if self.counts_exactly { Exact::new(rule, gate.zero()) } else { None };
        let exact = self.policy.rules.iter().map(exact).collect();
        Ok(Process { zero, gate, exact })
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
    fn tell(self, errors: &mut [Option<Error>]) {
        for (sum, exact) in errors.iter_mut().zip(&self.exact) {
            if let Some(own) = exact.as_ref().map(Exact::error) {
                *sum = Some(sum.map_or(own, |sum| sum.with(own)));
            }
        }
    }
}
