//! Runs one policy, or two side by side, over logs.

use tidegate_http::path::EscapedSlash;

use super::diff::{Diff, Difference};
use super::fault::Fault;
use super::ledger::{Fate, Ledger, Wanted};
use super::outcome::Outcome;
use super::plan::{Given, Plan};
use super::prepare::Preparer;
use super::processes::Processes;
use super::read::{self, Options, Tally};
use super::record::Record;
use super::source::Sources;
use crate::client::Client;
use crate::engine::Evaluation;
use crate::policy::Policy;

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
    preparer: Preparer,
    processes: Processes,
    ledger: Ledger,
    /// Refused requests that the log has no line for.
    left_out: u64,
}

impl Side {
    fn new(policy: Policy, given: &Given<'_>, question: &Question<'_>) -> Side {
        let Plan { policy, missing, enforced, notes } = Plan::new(policy, given);
        let ledger = Ledger::new(&policy, &missing, &enforced, &question.wanted);
        let preparer = Preparer::new(&policy, question.escaped_slash, question.host.as_deref());
        Side { notes, preparer, processes: Processes::new(policy, question.wanted.exact), ledger, left_out: 0 }
    }

    /// Judges and counts one request.
    #[inline]
    fn run(
        &mut self,
        record: &Record<'_>,
        question: &Question<'_>,
        mut seen: impl FnMut(&Evaluation),
    ) -> Result<Option<Fate>, Failed> {
        self.left_out = self.left_out.saturating_add(record.told.map_or(0, |told| told.left_out));
        let Side { preparer, processes, ledger, .. } = self;
        let process = processes.of(record.told.and_then(|told| told.zero), record.start);
        let process = process.map_err(|(limit, fault)| Failed::Limit(limit, fault.to_string()))?;
        let request = match preparer.prepare(record) {
            Ok(request) => request,
            Err(why) => {
                ledger.unjudged(why);
                return Ok(None);
            }
        };
        let mut fate = None;
        process.judge(&request, |evaluation, exact| {
            seen(evaluation);
            fate = ledger.note(&request, evaluation, question.name, exact);
        });
        Ok(fate)
    }

    fn finish(self, tally: &Tally) -> Outcome {
        let Side { mut notes, processes, ledger, left_out, .. } = self;
        match processes.begun() {
            0 => return Outcome { tally: tally.clone(), ..Outcome::default() },
            1 => {}
            many => notes.push(format!("{many} processes wrote this: the limits of each begin empty, as they did")),
        }
        if left_out > 0 {
            notes.push(format!(
                "{left_out} refused requests have no line, as the log says (`sampled`): what counts refused requests is \
                 judged too mildly; `sample: {{ refused: none }}` writes them all"
            ));
        }
        let mut outcome = ledger.finish(notes, &processes.errors());
        if let Some(then) = &mut outcome.then {
            then.untold = left_out;
        }
        outcome.tally = tally.clone();
        outcome
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
    mut decided: impl FnMut(&Record<'_>, &Evaluation),
) -> Result<Replayed, Failed> {
    let header = |name: &str| sources.gives_header(name);
    let given = Given {
        duration: sources.gives_duration(),
        query: sources.gives_query(),
        header: &header,
        addresses: !sources.gives_pseudonyms(),
    };
    let mut side = Side::new(policy, &given, question);
    let mut other = against.map(|policy| (Side::new(policy, &given, question), Diff::default()));
    let mut run = |record: &Record<'_>| -> Result<(), Failed> {
        let new = side.run(record, question, |evaluation| decided(record, evaluation))?;
        let Some((other, diff)) = &mut other else { return Ok(()) };
        if let (Some(new), Some(old)) = (new, other.run(record, question, |_| {})?) {
            diff.note(new, old, || (question.name)(record, &new.client));
        }
        Ok(())
    };
    let span = question.since..question.until;
    let mut failed = None;
    let tally = read::read(sources, &question.options, |record| {
        if failed.is_none() && span.contains(&record.start) {
            failed = run(record).err();
        }
    });
    let tally = tally.map_err(Failed::Read)?;
    if let Some(failed) = failed {
        return Err(failed);
    }
    if tally.is_unreadable() {
        return Err(Failed::Unreadable(tally));
    }
    let outcome = side.finish(&tally);
    let against = other.map(|(other, diff)| (other.finish(&tally), diff.finish()));
    Ok(Replayed { outcome, against })
}

/// The latest beginning of a request in the logs, for times that are told back from the end.
///
/// # Errors
/// A log cannot be read.
pub fn end_of(sources: Sources, options: &Options<'_>) -> Result<u64, Fault> {
    Ok(read::read(sources, options, |_| {})?.last)
}
