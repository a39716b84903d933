//! Counts the decisions of a gate into an [`Outcome`].
//!
//! `Clients` counts the requests of each client; the particulars of clients that a limit touched are kept of [`MOST_TOUCHED`].

use std::collections::HashMap;
use std::sync::Arc;

use super::clients::Clients;
use super::exact::Exact;
use super::outcome::{Error, LimitOutcome, Minute, Outcome, Touched};
use super::prepare::{Prepared, Unjudged};
use super::record::{LoggedClient, Record};
use crate::client::Client;
use crate::engine::{Evaluation, Outcome as Said, Refusal, Verdict};
use crate::policy::{Policy, Rule};

/// Touched clients whose particulars are kept.
pub const MOST_TOUCHED: usize = 200_000;

/// Characters of a path that are kept.
const LONGEST_PATH: usize = 80;

const MINUTE: u64 = 60 * 1_000_000_000;

/// The question.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only requests that this route takes.
    pub route: Option<String>,
    /// Exact counters beside the sketches.
    pub exact: bool,
}

/// The counts so far, of one policy.
#[derive(Debug)]
pub struct Ledger {
    route: Option<usize>,
    outcome: Outcome,
    clients: Clients,
    touched: HashMap<u32, About>,
    /// Which clients each limit was asked about, a bit each: of every 64 clients a word for each limit, side by side.
    asked: Vec<u64>,
}

/// What is kept of a touched one.
#[derive(Debug)]
struct About {
    touched: Touched,
    /// How far the path that is kept leads (Boyer and Moore 1981).
    votes: u32,
}

/// What a decision comes to, for whoever compares two.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    /// The client.
    pub client: Client,
    /// Its number; none beyond those that are told apart.
    pub number: Option<u32>,
    /// The policy as it stands refuses it.
    pub refused: bool,
    /// At least one limit would, whether it decides or only watches.
    pub limited: bool,
}

impl Ledger {
    /// Nothing yet.
    pub fn new(policy: &Policy, missing: &[Option<String>], enforced: &[bool], wanted: &Wanted) -> Ledger {
        let limit = |((rule, missing), enforced): ((&Arc<Rule>, &Option<String>), &bool)| LimitOutcome {
            name: rule.name.clone(),
            enforced: *enforced,
            missing: missing.clone(),
            ..LimitOutcome::default()
        };
        let limits: Vec<LimitOutcome> = policy.rules.iter().zip(missing).zip(enforced).map(limit).collect();
        let route = wanted.route.as_ref().map(|name| {
            let found = policy.routes.iter().position(|route| route.name == *name);
            found.unwrap_or(usize::MAX)
        });
        Ledger {
            route,
            asked: Vec::new(),
            outcome: Outcome { limits, ..Outcome::default() },
            clients: Clients::default(),
            touched: HashMap::new(),
        }
    }

    /// A request that was not judged.
    pub fn unjudged(&mut self, why: Unjudged) {
        match why {
            Unjudged::Malformed => self.outcome.malformed += 1,
            Unjudged::Unresolved => self.outcome.unresolved += 1,
        }
    }

    /// A request that was; `exact` are the counters beside the limits that judged it.
    pub fn note(
        &mut self,
        request: &Prepared<'_>,
        judged: &Evaluation,
        name: &dyn Fn(&Record<'_>, &Client) -> String,
        exact: &mut [Option<Exact>],
    ) -> Option<Fate> {
        let (record, decision) = (request.record, &judged.decision);
        if self.route.is_some() && decision.route != self.route {
            return None;
        }
        self.outcome.judged += 1;
        self.outcome.limited_before += u64::from(matches!(record.status, 429 | 503));
        self.outcome.named_clients |= matches!(record.client, LoggedClient::Name(_));
        let refused = match decision.verdict {
            Verdict::Admitted | Verdict::Refused(Refusal::OriginFull) => false,
            Verdict::Refused(Refusal::NoRoute) => {
                self.outcome.no_route += 1;
                false
            }
            Verdict::Refused(_) => true,
        };
        self.outcome.refused += u64::from(refused);
        if let Some(told) = &record.told {
            self.outcome.then.get_or_insert_default().note(told.verdict, told.reason, refused);
        }
        let number = self.clients.count(&request.client.network, record.start);
        let minute = self.minute(record.start / MINUTE);
        if let Some(minute) = self.outcome.minutes.get_mut(minute) {
            minute.requests += 1;
            minute.refused += u32::from(refused);
        }
        let (mut limited, limits) = (false, self.outcome.limits.len());
        for (slot, reading) in decision.readings.iter().enumerate() {
            let Some(limit) = self.outcome.limits.get_mut(reading.rule) else { continue };
            if limit.missing.is_some() || reading.outcome == Said::Exempt {
                continue;
            }
            limit.judged += 1;
            limit.delayed += u64::from(reading.outcome == Said::Delayed);
            let said_no = matches!(reading.outcome, Said::Refused | Said::Tagged);
            limit.limited += u64::from(said_no);
            let cell = self.outcome.minutes.get_mut(minute).and_then(|minute| minute.limits.get_mut(reading.rule));
            if let Some((asked, no)) = cell {
                (*asked, *no) = (*asked + 1, *no + u32::from(said_no));
            }
            if let Some(number) = number {
                mark(&mut self.asked, number, (reading.rule, limits));
            }
            if let Some(Some(exact)) = exact.get_mut(reading.rule) {
                exact.note(judged, slot, &request.method);
            }
            if said_no {
                limited = true;
                if let Some(number) = number {
                    self.touch(number, reading.rule, request, name);
                }
            }
        }
        if limited
            && let Some(number) = number
            && let Some(about) = self.touched.get_mut(&number)
        {
            about.touched.limited += 1;
        }
        Some(Fate { client: request.client, number, refused, limited })
    }

    /// The position of this minute; minutes come in order.
    fn minute(&mut self, minute: u64) -> usize {
        let minutes = &mut self.outcome.minutes;
        if minutes.last().is_none_or(|last| last.minute < minute) {
            let limits = vec![(0, 0); self.outcome.limits.len()];
            minutes.push(Minute { minute, requests: 0, refused: 0, limits });
        }
        minutes.len() - 1
    }

    fn touch(
        &mut self,
        number: u32,
        rule: usize,
        request: &Prepared<'_>,
        name: &dyn Fn(&Record<'_>, &Client) -> String,
    ) {
        let room = self.touched.len() < MOST_TOUCHED;
        let about = match self.touched.get_mut(&number) {
            Some(about) => about,
            None if room => self.touched.entry(number).or_insert_with(|| About::new(number, request, name)),
            None => return,
        };
        *about.touched.by.entry(rule).or_insert(0) += 1;
        about.touched.to = request.record.start;
        let path = beginning(&request.path);
        if about.votes == 0 {
            path.clone_into(&mut about.touched.path);
            about.votes = 1;
        } else if about.touched.path == path {
            about.votes += 1;
        } else {
            about.votes -= 1;
        }
    }

    /// The end. `errors`: of every limit's sketch.
    pub fn finish(mut self, notes: Vec<String>, errors: &[Option<Error>]) -> Outcome {
        let limits = self.outcome.limits.len().max(1);
        let count =
            |index| self.asked.iter().skip(index).step_by(limits).map(|word| u64::from(word.count_ones())).sum();
        for (index, limit) in self.outcome.limits.iter_mut().enumerate() {
            limit.clients_judged = count(index);
            limit.clients = self.touched.values().filter(|about| about.touched.by.contains_key(&index)).count() as u64;
            let minutes = self.outcome.minutes.iter().filter_map(|minute| Some((minute, minute.limits.get(index)?.1)));
            let worst =
                minutes.filter(|(_, no)| *no > 0).max_by_key(|(minute, no)| (*no, std::cmp::Reverse(minute.minute)));
            limit.worst_minute = worst.map(|(minute, no)| (minute.minute, no));
            limit.error = errors.get(index).copied().flatten();
        }
        self.outcome.clients = self.clients.len() as u64;
        self.outcome.clients_capped = self.clients.is_capped();
        let mut touched: Vec<Touched> = self.touched.into_values().map(|about| about.touched).collect();
        for client in &mut touched {
            if let Some((requests, peak)) = self.clients.sent(client.number) {
                (client.requests, client.peak) = (u64::from(requests), peak);
            }
        }
        touched.sort_by_key(|client| (std::cmp::Reverse(client.limited), client.number));
        self.outcome.touched = touched;
        self.outcome.notes.extend(notes);
        self.outcome
    }
}

impl About {
    #[cold]
    fn new(number: u32, request: &Prepared<'_>, name: &dyn Fn(&Record<'_>, &Client) -> String) -> About {
        let touched = Touched {
            number,
            name: name(request.record, &request.client),
            requests: 0,
            limited: 0,
            by: Default::default(),
            path: String::new(),
            peak: 0,
            from: request.record.start,
            to: request.record.start,
        };
        About { touched, votes: 0 }
    }
}

/// The part of a path that is kept.
fn beginning(path: &str) -> &str {
    path.char_indices().nth(LONGEST_PATH).and_then(|(end, _)| path.get(..end)).unwrap_or(path)
}

/// Sets the bit of a client in the words of this limit, of so many.
#[inline]
fn mark(bits: &mut Vec<u64>, number: u32, (limit, limits): (usize, usize)) {
    let (word, bit) = (number as usize / 64 * limits + limit, number % 64);
    if bits.len() <= word {
        bits.resize((number as usize / 64 + 1) * limits, 0);
    }
    if let Some(word) = bits.get_mut(word) {
        *word |= 1 << bit;
    }
}
