//! Findings in words, as YAML and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::findings::{Findings, Found};
use super::plan;
use super::proposal::Row;
use crate::config::percent_text;
use crate::human::{columns, count, duration, grouped, percent_of, span};
use crate::replay::Outcome;

/// What the log itself is, for the first line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// Such as `nginx/Apache combined`.
    pub format: String,
    /// The step of its stamps, such as `1 s`.
    pub resolution: String,
    /// What reading it left out or doubted, a sentence each.
    pub notes: Vec<String>,
}

/// For people: the frontier and the proposals of each group, the policy to paste, and what it is worth.
pub fn text(findings: &Findings, log: &Log) -> String {
    let mut text = String::new();
    _ = writeln!(
        text,
        "{} in {} ({}, stamps of {})",
        count(findings.seen, "request"),
        span(findings.span_seconds as u64),
        log.format,
        log.resolution
    );
    if let Some(alarm) = findings.alarm() {
        _ = writeln!(text, "\nWARNING: {alarm}");
    }
    for found in &findings.groups {
        text.push_str(&group(findings, found));
    }
    if !findings.groups.is_empty() {
        text.push_str("\nTo paste, all in shadow mode; or let `--format yaml` write a whole policy file:\n\n");
        let limits = findings.limits();
        if findings.by_route() {
            text.push_str(&plan::limits_text(&findings.scope, &limits));
            for found in &findings.groups {
                _ = writeln!(text, "# route {}: limits: [{}]", found.name, found.limit_name());
            }
        } else {
            text.push_str(&plan::limits_text(&findings.scope, &limits));
            text.push_str(&plan::routes_text(&findings.scope, &limits, &findings.without()));
        }
    }
    text.push_str("\nTo know:\n");
    for note in log.notes.iter().cloned().chain(findings.notes()) {
        _ = writeln!(text, "- {note}");
    }
    text
}

fn group(findings: &Findings, found: &Found) -> String {
    let mut text = format!(
        "\n{}: {}; {} requests of {} (busiest: {})\n",
        found.name,
        found.told,
        grouped(found.requests),
        count(found.clients as u64, "client"),
        percent_of(found.busiest, found.requests)
    );
    let shares: Vec<String> = findings.levels.iter().map(|level| percent_text(level.share.get())).collect();
    let mut rows = vec![["rate".to_owned(), "50%".to_owned()].into_iter().chain(shares).collect::<Vec<_>>()];
    if let Some(head) = rows.first_mut() {
        head.push("nobody".into());
    }
    rows.extend(shown_rows(found).into_iter().map(|row| {
        let bursts = row.bursts.iter().map(|(burst, _)| burst.to_string());
        let ends = [row.rate.to_string(), row.median.to_string()];
        ends.into_iter().chain(bursts).chain([row.nobody.to_string()]).collect()
    }));
    text.push_str("  burst that touches so many clients:\n");
    text.extend(columns(&rows, 2, &[]).lines().map(|line| format!("    {line}\n")));
    let recommended = found.recommended().map(|(place, _)| place);
    for (place, proposal) in found.proposals.iter().enumerate().rev() {
        let word = match recommended == Some(place) {
            true if findings.doubt(found).is_some() => "a start",
            true => "recommended",
            false => "or",
        };
        let promise = found.promise(place, findings.tried);
        _ = writeln!(text, "  {word}: {} burst {}: {promise}", proposal.rate, proposal.burst);
        if recommended == Some(place) {
            _ = writeln!(text, "    {}", findings.reason(found));
        }
    }
    if findings.is_idle(found) {
        text.push_str("    needs no limit of its own: that on all requests is no looser\n");
    }
    text
}

/// The rates near the proposals: two slower and two faster, and all between.
fn shown_rows(found: &Found) -> Vec<&Row> {
    let columns = || found.proposals.iter().map(|proposal| proposal.column);
    let from = columns().min().unwrap_or_default().saturating_sub(2);
    let until = columns().max().unwrap_or_default() + 3;
    found.rows.iter().take(until).skip(from).collect()
}

/// A policy file that `tidegate check` accepts; of routes of an operator's own, only the section `limits`.
pub fn yaml(findings: &Findings, log: &Log) -> String {
    let mut text =
        String::from("# Proposed by `tidegate suggest`; every limit is in shadow mode: counted, never obeyed.\n");
    for note in findings.alarm().into_iter().chain(log.notes.iter().cloned()).chain(findings.notes()) {
        _ = writeln!(text, "# - {}", note.replace(['\n', '\r'], " "));
    }
    let limits = findings.limits();
    text.push_str(&if findings.by_route() {
        plan::limits_text(&findings.scope, &limits)
    } else {
        plan::policy(&findings.scope, &limits, &findings.without())
    });
    text
}

/// For programs.
pub fn json(findings: &Findings, log: &Log) -> Value {
    let group = |found: &Found| {
        let row = |row: &Row| {
            let bursts = row.bursts.iter().zip(&findings.levels);
            let bursts: Vec<Value> = bursts
                .map(|((burst, touched), level)| {
                    json!({ "share": level.share.get(), "burst": burst, "clients_touched": touched })
                })
                .collect();
            json!({ "rate": row.rate.to_string(), "bursts": bursts, "median": row.median, "nobody": row.nobody })
        };
        let proposal = |(place, proposal): (usize, &super::Proposal)| {
            let trial = found.trials.get(place).filter(|_| findings.tried);
            json!({
                "limit": found.recommended().filter(|(of, _)| *of == place && !findings.is_idle(found)).map(|_| found.limit_name()),
                "recommended": found.recommended().is_some_and(|(of, _)| of == place),
                "level": proposal.level.name,
                "share": proposal.level.share.get(),
                "clients_allowed": proposal.allowed,
                "rate": proposal.rate.to_string(),
                "burst": proposal.burst,
                "clients_touched": proposal.touched,
                "requests_limited": trial.map(super::Trial::refused),
                "exact_burst": proposal.exact_burst,
                "exact_clients_touched": proposal.exact_touched,
            })
        };
        json!({
            "name": found.name,
            "requests": found.requests,
            "clients": found.clients,
            "busiest_client_requests": found.busiest,
            "reason": findings.reason(found),
            "too_small": findings.doubt(found).is_some(),
            "requests_of_clients_not_followed": found.beyond,
            "frontier": found.rows.iter().map(row).collect::<Vec<_>>(),
            "proposals": found.proposals.iter().enumerate().map(proposal).collect::<Vec<_>>(),
        })
    };
    let uncounted = findings.uncounted;
    let notes: Vec<String> = log.notes.iter().cloned().chain(findings.notes()).collect();
    json!({
        "schema": "tidegate.suggest/1",
        "requests": findings.seen,
        "seconds": findings.span_seconds,
        "format": log.format,
        "key": findings.scope.key,
        "not_counted": {
            "static_files": uncounted.static_files,
            "elsewhere": uncounted.elsewhere,
            "without_key": uncounted.keyless,
        },
        "groups": findings.groups.iter().map(group).collect::<Vec<_>>(),
        "warning": findings.alarm(),
        "notes": notes,
        "policy": yaml(findings, log),
    })
}

/// What reading left out or doubted, a sentence each.
pub fn reading(outcome: &Outcome, resolution: u64) -> Vec<String> {
    let tally = &outcome.tally;
    let mut notes = Vec::new();
    if resolution >= 100_000_000 {
        notes.push(format!(
            "stamps of {} put what came within one at the same instant: bursts are over-stated by up to as much as \
             the rate lets through in it",
            duration(resolution as f64 / 1e9)
        ));
    }
    if tally.unreadable > 0 {
        let shown = tally.shown.first().map_or_else(String::new, |shown| format!(", such as line {}", shown.line));
        notes.push(format!("{} of {} lines could not be read{shown}", grouped(tally.unreadable), grouped(tally.lines)));
    }
    if outcome.malformed > 0 {
        let malformed = count(outcome.malformed, "malformed request");
        notes.push(format!("{malformed} left out: a live gate answers 400 before any limit"));
    }
    if tally.late > 0 {
        notes.push(format!("{} lines came too late to be put in order", grouped(tally.late)));
    }
    notes
}
