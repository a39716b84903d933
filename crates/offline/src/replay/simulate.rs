//! Runs one policy, or two side by side, over logs.

use std::ops::Range;

use tidegate_http::path::EscapedSlash;

use super::ahead::{Ahead, Visit, read_ahead};
use super::belt::Logged;
use super::clients::Clients;
use super::diff::{Diff, Difference};
use super::fault::Fault;
use super::ledger::{Fate, Ledger, Wanted};
use super::outcome::Outcome;
use super::plan::{Given, Plan};
use super::process::{Process, Processes};
use super::read::{self, Options, Tally};
use super::ready::{Ready, Readying, Unjudged};
use super::record::Record;
use super::source::Sources;
use crate::client::Client;
use crate::engine::Judged;
use crate::policy::Policy;
use crate::sketch::bring_near;

/// What is asked of logs.
#[derive(Clone)]
pub struct Question<'a> {
    /// How logs are read.
    pub options: Options<'a>,
    /// The host of requests whose log has none.
    pub host: Option<String>,
    /// Only requests that began at this moment or later, in nanoseconds since 1970.
    pub since: u64,
    /// Only requests that began before this moment.
    pub until: u64,
    /// What to count.
    pub wanted: Wanted,
    /// What is done with escaped slashes in paths.
    pub escaped_slash: EscapedSlash,
    /// What a client is called: a pseudonym, or what the log has if the operator asked for that.
    pub name: &'a dyn Fn(&Record<'_>, &Client) -> String,
}

/// What came of it.
#[derive(Debug)]
pub struct Replayed {
    /// Of the policy.
    pub outcome: Outcome,
    /// Of the one that it is compared with, and what differs.
    pub against: Option<(Outcome, Difference)>,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failed {
    /// The logs cannot be read.
    Read(Fault),
    /// Too many lines cannot be read; the rest says nothing.
    Unreadable(Tally),
    /// A limit's numbers are refused: its name and what is allowed.
    Limit(String, String),
}

/// One policy at work.
struct Side {
    notes: Vec<String>,
    processes: Processes,
    ledger: Ledger,
}

impl Side {
    /// It, and what makes requests ready for it on another thread.
    fn new(policy: Policy, given: &Given<'_>, question: &Question<'_>) -> (Side, Readying) {
        let Plan { policy, missing, enforced, notes } = Plan::new(policy, given);
        let wanted = &question.wanted;
        let ledger = Ledger::new(&policy, &missing, &enforced, wanted);
        let (host, route) = (question.host.as_deref(), wanted.route.as_deref());
        let readying = Readying::new(policy.clone(), question.escaped_slash, host, route);
        (Side { notes, processes: Processes::new(policy, wanted.exact), ledger }, readying)
    }

    /// Judges and counts one request.
    fn run(
        &mut self,
        logged: &Logged<'_>,
        zero: Option<u64>,
        ready: &Result<Ready, Unjudged>,
        question: &Question<'_>,
        seen: &mut impl FnMut(&Judged),
    ) -> Result<Option<Fate>, Failed> {
        let Side { processes, ledger, .. } = self;
        let Process { gate, exact, .. } =
            processes.of(zero, logged.start()).map_err(|(limit, fault)| Failed::Limit(limit, fault.to_string()))?;
        let judged = gate.judge(logged, ready, |judged, ready| {
            seen(judged);
            ledger.note(logged, ready, judged, question.name, exact)
        });
        Ok(judged.unwrap_or_else(|why: Unjudged| {
            ledger.unjudged(why);
            None
        }))
    }

    fn finish(self, clients: &Clients, tally: &Tally) -> Outcome {
        let Side { mut notes, processes, ledger } = self;
        match processes.begun() {
            0 => return Outcome { tally: tally.clone(), ..Outcome::default() },
            1 => {}
            many => notes.push(format!("{many} processes wrote this: the limits of each begin empty, as they did")),
        }
        let mut outcome = ledger.finish(clients, notes, &processes.errors());
        outcome.tally = tally.clone();
        outcome
    }
}

/// What is made of a request for one policy, or two; none beside the question.
type Made = Option<Pair>;

/// For one policy, or two.
struct Pair {
    /// What the wall clock showed at the origin of stamps, if the line says so.
    zero: Option<u64>,
    ready: Result<Ready, Unjudged>,
    other: Option<Box<Result<Ready, Unjudged>>>,
}

/// Makes requests ready, on a thread of its own.
struct Making {
    readying: Readying,
    other: Option<Readying>,
    span: Range<u64>,
}

impl Ahead for Making {
    type Made = Made;

    fn make(&mut self, record: &Record<'_>) -> Made {
        if !self.span.contains(&record.start) {
            return None;
        }
        let other = |other: &mut Readying| Box::new(other.ready(record));
        let zero = record.told.and_then(|told| told.zero);
        Some(Pair { zero, ready: self.readying.ready(record), other: self.other.as_mut().map(other) })
    }

    fn complete(&mut self, made: &mut [Made]) {
        // a few at a time, so that their cache misses overlap
        for few in made.chunks_mut(FEW) {
            for is_found in [false, true] {
                let ready = few.iter().flatten().filter_map(|pair| pair.ready.as_ref().ok());
                ready.for_each(|ready| self.readying.approach(ready, is_found));
            }
            for Pair { ready, other, .. } in few.iter_mut().flatten() {
                if let Ok(ready) = ready {
                    self.readying.number(ready);
                }
                if let (Some(readying), Some(Ok(ready))) = (&mut self.other, other.as_deref_mut()) {
                    readying.number(ready);
                }
            }
        }
    }
}

/// As many as a processor waits for at once, about.
const FEW: usize = 16;

/// Judges them.
struct Judging<'a, D> {
    side: Side,
    other: Option<(Side, Diff)>,
    question: &'a Question<'a>,
    decided: &'a mut D,
    failed: Option<Failed>,
}

impl<D: FnMut(&Logged<'_>, &Judged)> Visit<Made> for Judging<'_, D> {
    #[inline]
    fn expect(&mut self, coming: &Made) {
        bring_near(coming);
    }

    #[inline]
    fn approach(&mut self, coming: &Made) {
        if let Some(Pair { ready: Ok(ready), .. }) = coming {
            ready.approach();
            self.side.ledger.approach(ready);
        }
    }

    fn visit(&mut self, logged: &Logged<'_>, made: &Made) {
        let Some(Pair { zero, ready, other: other_ready }) = made else { return };
        let Judging { side, other, question, decided, failed } = self;
        if failed.is_some() {
            return;
        }
        let fate = side.run(logged, *zero, ready, question, &mut |judged| decided(logged, judged));
        let old = other.as_mut().zip(other_ready.as_ref());
        let old = old.map(|((other, _), ready)| other.run(logged, *zero, ready, question, &mut |_| {}));
        match (fate, old) {
            (Ok(fate), Some(Ok(old))) => {
                if let (Some(new), Some(old), Some((_, diff))) = (fate, old, other) {
                    let client = || ready.as_ref().map(|ready| (question.name)(&logged.record(), &ready.client));
                    diff.note(new, old, || client().unwrap_or_default());
                }
            }
            (Err(fault), _) | (_, Some(Err(fault))) => *failed = Some(fault),
            (Ok(_), None) => {}
        }
    }
}

/// Runs `policy` over the logs, and `against` beside it. `decided` sees every decision of `policy`.
///
/// # Errors
/// There is no result that says anything.
pub fn simulate(
    sources: Sources,
    question: &Question<'_>,
    policy: Policy,
    against: Option<Policy>,
    mut decided: impl FnMut(&Logged<'_>, &Judged),
) -> Result<Replayed, Failed> {
    let header = |name: &str| sources.gives_header(name);
    let given = Given {
        duration: sources.gives_duration(),
        query: sources.gives_query(),
        header: &header,
        addresses: !sources.gives_pseudonyms(),
    };
    let (side, readying) = Side::new(policy, &given, question);
    let against = against.map(|policy| Side::new(policy, &given, question));
    let (other, other_readying) = against.unzip();
    let other = other.map(|other| (other, Diff::default()));
    let mut making = Making { readying, other: other_readying, span: question.since..question.until };
    let mut judging = Judging { side, other, question, decided: &mut decided, failed: None };
    let tally = read_ahead(sources, &question.options, &mut making, &mut judging).map_err(Failed::Read)?;
    let (Making { readying, other: other_readying, .. }, Judging { side, other, failed, .. }) = (making, judging);
    if let Some(failed) = failed {
        return Err(failed);
    }
    if tally.is_unreadable() {
        return Err(Failed::Unreadable(tally));
    }
    let outcome = side.finish(&readying.into_clients(), &tally);
    let against = other.zip(other_readying);
    let against = against.map(|((other, diff), ready)| (other.finish(&ready.into_clients(), &tally), diff.finish()));
    Ok(Replayed { outcome, against })
}

/// The latest beginning of a request in the logs, for times that are told back from the end.
///
/// # Errors
/// A log cannot be read.
pub fn end_of(sources: Sources, options: &Options<'_>) -> Result<u64, Fault> {
    Ok(read::read(sources, options, |_| {})?.last)
}
