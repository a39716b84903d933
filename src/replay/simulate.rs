//! Runs one policy, or two side by side, over logs.

use super::diff::{Diff, Difference};
use super::gate::{Canonical, Unjudged};
use super::ledger::{Fate, Ledger, Wanted};
use super::outcome::Outcome;
use super::plan::{Given, Plan};
use super::process::{Process, Processes};
use super::read::{self, Fault, Options, Tally, read};
use super::record::Record;
use super::source::Sources;
use crate::client::Client;
use crate::engine::Judged;
use crate::policy::Policy;
use crate::request::Request;

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
    /// How strangers' texts become canonical.
    pub canonical: Canonical,
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
    fn new(policy: Policy, given: &Given<'_>, question: &Question<'_>) -> Side {
        let Plan { policy, missing, enforced, notes } = Plan::new(policy, given);
        let wanted = &question.wanted;
        let ledger = Ledger::new(&policy, &missing, &enforced, wanted);
        Side {
            notes,
            processes: Processes::new(policy, question.canonical, question.host.clone(), wanted.exact),
            ledger,
        }
    }

    /// Judges and counts one request.
    fn run(
        &mut self,
        record: &Record<'_>,
        question: &Question<'_>,
        seen: &mut dyn FnMut(&Judged, &Client, &Request<'_>),
    ) -> Result<Option<Fate>, Failed> {
        let Side { processes, ledger, .. } = self;
        let Process { gate, exact, .. } =
            processes.of(record).map_err(|(limit, fault)| Failed::Limit(limit, fault.to_string()))?;
        let judged = gate.judge(record, |judged, client, request| {
            seen(judged, client, request);
            ledger.note(record, judged, client, request, question.name, exact)
        });
        Ok(judged.unwrap_or_else(|why: Unjudged| {
            ledger.unjudged(why);
            None
        }))
    }

    fn finish(self, tally: &Tally) -> Outcome {
        let Side { mut notes, processes, ledger } = self;
        match processes.begun() {
            0 => return Outcome { tally: tally.clone(), ..Outcome::default() },
            1 => {}
            many => notes.push(format!("{many} processes wrote this: the limits of each begin empty, as they did")),
        }
        let mut outcome = ledger.finish(notes, &processes.errors());
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
    mut decided: impl FnMut(&Record<'_>, &Judged),
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
    let mut failed = None;
    let tally = read(sources, &question.options, |record| {
        if failed.is_some() || record.start < question.since || record.start >= question.until {
            return;
        }
        let mut who = None;
        let fate = side.run(record, question, &mut |judged, client, _| {
            who = Some(*client);
            decided(record, judged);
        });
        let old = other.as_mut().map(|(other, _)| other.run(record, question, &mut |_, _, _| {}));
        match (fate, old) {
            (Ok(fate), Some(Ok(old))) => {
                if let (Some(new), Some(old), Some((_, diff))) = (fate, old, &mut other) {
                    diff.note(new, old, || who.map_or_else(String::new, |client| (question.name)(record, &client)));
                }
            }
            (Err(fault), _) | (_, Some(Err(fault))) => failed = Some(fault),
            (Ok(_), None) => {}
        }
    })
    .map_err(Failed::Read)?;
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
