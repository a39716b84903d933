//! The table for people.

use std::fmt::Write;

use super::instant;
use crate::human::{NOTHING, columns, duration, grouped, percent, span};
use crate::replay::diff::Difference;
use crate::replay::outcome::{LimitOutcome, Outcome, share};

/// What stands above the table and is not of the outcome.
#[derive(Debug, Clone)]
pub struct Head<'a> {
    /// What the logs are, in words.
    pub log: &'a str,
    /// The step of their stamps, in nanoseconds.
    pub resolution: u64,
    /// How long it took, in seconds.
    pub took: f64,
    /// Only this limit.
    pub limit: Option<&'a str>,
    /// Whether exact counters were asked for.
    pub exact: bool,
}

/// So many clients are shown.
const CLIENTS: usize = 10;

/// The outcome, with what differs from another policy if that was asked.
pub fn text(outcome: &Outcome, against: Option<&(Outcome, Difference)>, head: &Head<'_>) -> String {
    let mut text = String::new();
    let tally = &outcome.tally;
    let _ = writeln!(
        text,
        "{} requests  {} clients  {}  ({}, {} stamps)  in {}",
        grouped(outcome.judged),
        grouped(outcome.clients),
        span(tally.last.saturating_sub(tally.first) / 1_000_000_000),
        head.log,
        duration(head.resolution as f64 / 1e9),
        duration(head.took)
    );
    text.push('\n');
    text.push_str(&table(outcome, head));
    let shown: Vec<&LimitOutcome> = outcome.limits.iter().filter(|limit| limit.missing.is_some()).collect();
    for limit in shown {
        let _ = writeln!(text, "{}  not replayable: {}", limit.name, limit.missing.as_deref().unwrap_or_default());
    }
    if !outcome.touched.is_empty() {
        text.push_str(&touched(outcome));
    }
    if let Some(then) = &outcome.then {
        let head =
            ["Decided then, as the log says", "would be admitted now", "would be refused now"].map(str::to_owned);
        let rows: Vec<[String; 3]> = std::iter::once(head).chain(then.rows()).collect();
        let _ = write!(text, "\n{}", columns(&rows, 2, &[0]));
    }
    if let Some((old, difference)) = against {
        text.push_str(&differs(outcome, old, difference));
    }
    let _ = writeln!(text, "\nTo read this right");
    for note in notes(outcome, head) {
        let _ = writeln!(text, "  - {note}");
    }
    text
}

fn table(outcome: &Outcome, head: &Head<'_>) -> String {
    let mut rows = vec![
        ["LIMIT", "mode", "judged", "would limit", "", "clients touched", "", "worst minute", "error"]
            .map(str::to_owned),
    ];
    for limit in outcome.limits.iter().filter(|limit| limit.missing.is_none()) {
        if head.limit.is_some_and(|only| only != limit.name) {
            continue;
        }
        let worst = limit.worst_minute.map_or(NOTHING.to_owned(), |(minute, limited)| {
            let at = instant(minute * 60);
            format!("{} {}", at.get(5..16).unwrap_or_default().replace('T', " "), grouped(u64::from(limited)))
        });
        let error = match limit.error {
            Some(error) if error.wrongly_limited > 0 => format!("{} wrong, ≤ {}", error.wrongly_limited, error.most),
            Some(error) => format!("≤ {}", error.most),
            None => NOTHING.to_owned(),
        };
        rows.push([
            limit.name.clone(),
            limit.mode().to_owned(),
            grouped(limit.judged),
            grouped(limit.limited),
            percent(limit.limited_share()),
            grouped(limit.clients),
            percent(limit.clients_share()),
            worst,
            error,
        ]);
    }
    columns(&rows, 2, &[0, 1])
}

fn touched(outcome: &Outcome) -> String {
    let mut rows = vec![["Clients touched most", "would lose", "share", "by", "what it asked for"].map(str::to_owned)];
    for client in outcome.touched.iter().take(CLIENTS) {
        let by: Vec<&str> =
            client.by.keys().filter_map(|index| Some(outcome.limits.get(*index)?.name.as_str())).collect();
        let minutes = (client.to.saturating_sub(client.from) / 60_000_000_000).max(1);
        rows.push([
            client.name.clone(),
            grouped(client.limited),
            percent(share(client.limited, client.requests)),
            by.join(", "),
            format!("{}, up to {} in a second, over {}", printable(&client.path), client.peak, span(60 * minutes)),
        ]);
    }
    let more = outcome.touched.len().saturating_sub(CLIENTS);
    let mut text = format!("\n{}", columns(&rows, 2, &[0, 3, 4]));
    if more > 0 {
        let _ = writeln!(text, "and {} more", grouped(more as u64));
    }
    text
}

fn differs(new: &Outcome, old: &Outcome, difference: &Difference) -> String {
    let mut text = format!(
        "\nAgainst the other policy\n  refused       {} → {}\n  newly limited {} requests, {} clients that were not limited at all\n  freed         {} requests, {} clients that are not limited any more\n",
        grouped(old.refused),
        grouped(new.refused),
        grouped(difference.newly),
        grouped(difference.clients_newly),
        grouped(difference.freed),
        grouped(difference.clients_freed),
    );
    let mut rows = vec![["  client", "refused before", "refused now", "newly limited", "freed"].map(str::to_owned)];
    for client in difference.changed.iter().take(CLIENTS) {
        rows.push([
            format!("  {}", client.name),
            grouped(client.refused_before),
            grouped(client.refused_now),
            grouped(client.newly),
            grouped(client.freed),
        ]);
    }
    if rows.len() > 1 {
        text.push_str(&columns(&rows, 2, &[0]));
    }
    text
}

/// What the numbers do not say by themselves.
fn notes(outcome: &Outcome, head: &Head<'_>) -> Vec<String> {
    let tally = &outcome.tally;
    let mut notes = outcome.notes.clone();
    let mut count = |number: u64, what: &str| {
        if number > 0 {
            notes.push(format!("{} {what}", grouped(number)));
        }
    };
    count(tally.unreadable, "lines could not be read");
    count(tally.other, "lines are no requests (empty, comments, other logs)");
    count(tally.no_request, "lines are of connections without a request");
    count(tally.late, "requests came too late to be put in order and were judged at the time of the line before");
    count(outcome.malformed, "requests are malformed: a live gate answers 400 before any limit");
    count(outcome.unresolved, "requests were refused because their client could not be told");
    count(outcome.no_route, "requests are taken by no route");
    // a log of our own says more: it stands in its table
    let limited_before = if outcome.then.is_none() { outcome.limited_before } else { 0 };
    count(limited_before, "answers in the log are 429 or 503: a limit had its say already");
    if tally.shortened {
        notes.push("the reorder window was cut short, as too much stood in it".to_owned());
    }
    if outcome.clients_capped {
        notes.push("clients beyond 5,000,000 are not counted apart".to_owned());
    }
    if outcome.named_clients {
        notes.push("clients are names or pseudonyms in the log: no network is known of them, so no list of networks holds them".to_owned());
    }
    if head.resolution >= 1_000_000_000 {
        notes.push(
            "stamps are whole seconds: all requests of a second are judged at one instant, which over-states bursts by up to a second's worth"
                .to_owned(),
        );
    }
    if head.exact {
        notes.push("error: how many requests too few the sketch saw left, at most; `wrong` are refusals that exact counters would not make".to_owned());
    }
    notes.push("clients are assumed to go on as they did: retries would add load, back-off would remove it".to_owned());
    notes
}

fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
