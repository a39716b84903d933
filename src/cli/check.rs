//! `tidegate check`: all that is wrong with a policy file, in one pass.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};

use super::exit;
use super::global::{Global, load_to_serve};
use super::output::{print, say};
use crate::bans::{self, MOST_BANS};
use crate::config::fault::Severity;
use crate::config::render::{self, render};
use crate::config::{Config, Loaded, Tree};
use crate::door::TokenDoor;
use crate::engine::has_demand;
use crate::human;
use crate::limiter::Kind;
use crate::limiter::sharing::Sharing;
use crate::observe::metrics::Metrics;
use crate::origins::door::OriginDoor;
use crate::policy::{CostRule, Rule};
use crate::sketch::{Accuracy, Shape};
use crate::system::clock::Clock;
use crate::units::Criticality;

/// Check a policy file: every error, with its place and a fix
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tidegate check tidegate.yaml\n\nFour lines are a policy file:\n  listen: \":8080\"\n  \
    routes:\n    - origin: 127.0.0.1:3000\n      limit: 10/s\n\n\
    Exit codes: 0 valid, 1 warnings under --deny-warnings, 78 invalid"
)]
pub struct Arguments {
    /// Policy file or directory; wins over --config
    pub file: Option<PathBuf>,
    /// How to print the findings
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Fail on warnings too
    #[arg(long)]
    pub deny_warnings: bool,
}

/// How to write diagnostics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// With an excerpt of the file
    Text,
    /// One JSON document
    Json,
    /// One line each, for editors
    Short,
    /// Annotations of a GitHub workflow
    Github,
}

/// Checks, and says what it found.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let path = arguments.file.as_deref().unwrap_or(global.policy());
    let mut loaded = load_to_serve(path);
    loaded.warn_of_old_presets(now() / 86_400);
    loaded.warn_of_old_shadows(now() / 86_400);
    loaded.warn_of_certificates(now());
    let series = loaded.outcome.as_ref().ok().map_or(0, series);
    loaded.warn_of_many_series(series);
    let warnings = loaded.warnings();
    if global.quiet {
        loaded.diagnostics.retain(|fault| fault.severity() == Severity::Error);
    }
    let format = match arguments.format {
        Format::Text => render::Format::Text,
        Format::Json => render::Format::Json,
        Format::Short => render::Format::Short,
        Format::Github => render::Format::Github,
    };
    print(&render(&loaded, format, global.colored(&std::io::stdout())));
    if let Ok(config) = &loaded.outcome
        && arguments.format == Format::Text
    {
        if global.verbose > 0 {
            print(&details(config, series));
        }
        if !global.quiet {
            config.policy.rules.iter().for_each(|rule| print(&overshoot(rule)));
        }
    }
    if !global.quiet {
        say(&summary(&path.display().to_string(), &loaded, warnings));
    }
    match loaded.outcome {
        Err(_) => ExitCode::from(exit::INVALID),
        Ok(_) if arguments.deny_warnings && warnings > 0 => ExitCode::from(exit::NO),
        Ok(_) => ExitCode::SUCCESS,
    }
}

/// One line for people.
fn summary(name: &str, loaded: &Loaded, warnings: usize) -> String {
    let count = |number: usize, noun| human::count(number as u64, noun);
    match &loaded.outcome {
        Err(refused) => {
            format!("{name}: invalid: {}, {}\n", count(refused.errors, "error"), count(warnings, "warning"))
        }
        Ok(config) => format!(
            "{name}: valid: {}, {}, {}, {}; fingerprint {}\n",
            count(config.policy.routes.len(), "route"),
            count(config.policy.rules.len(), "limit"),
            count(config.policy.origins.len(), "origin"),
            count(warnings, "warning"),
            config.fingerprint
        ),
    }
}

/// What `-v` adds: for every limit its memory and the error that it buys, and the number of metric series.
fn details(config: &Config, series: usize) -> String {
    let mut rows = vec![
        ["limit", "promise", "key", "memory", "columns", "wrongly refused*", "error**", "store"].map(str::to_owned),
    ];
    rows.extend((0..).zip(&config.policy.rules).map(|(index, rule)| row((index, rule), config)));
    // a file without stores need not hear of them
    let columns = if config.policy.stores.is_empty() { 7 } else { 8 };
    let shown: Vec<&[String]> = rows.iter().filter_map(|row| row.get(..columns)).collect();
    let mut text = human::columns(&shown, 2, &[0, 1, 2, 3, 4, 5, 6, 7]);
    text.push_str("* probability for a client below its limit while 1,000 others are at theirs\n");
    text.push_str(
        "** of what all keys together have spent lately: no count is higher by more than that, with this confidence; \
         docs/limits/README.md#memory-and-accuracy\n",
    );
    if config.policy.rules.iter().any(|rule| rule.kind.falsely_seen().is_some()) {
        text.push_str("  (seen): probability that a new value is taken for one that was seen\n");
    }
    if (0..).zip(&config.policy.rules).any(|(index, rule)| has_demand(&config.policy, index, rule)) {
        text.push_str(
            "+ 12.5 %: beside a fair_share, for what clients ask of their own limit; docs/limits/fair_share.md\n",
        );
    }
    let page = if config.settings.metrics.is_some() { "" } else { ", if `telemetry.metrics` were on" };
    text.push_str(&format!("metric series: at most {series}{page}\n"));
    for origin in &config.policy.origins {
        let Some(cap) = &origin.inflight else { continue };
        // a door without anybody at it holds as much as a busy one
        let memory = OriginDoor::new(Some(cap), cap.max, Clock::start()).memory().0.div_ceil(1_024);
        let (places, queue) = (human::grouped(u64::from(cap.max)), human::grouped(u64::from(cap.queue)));
        let kept = |class: &Criticality| {
            let class = Criticality::ALL.get(class.position() + 1)?;
            let more = cap.reserved.before(*class, cap.max);
            (more > 0).then_some((class, more))
        };
        let kept: String = Criticality::ALL
            .iter()
            .filter_map(kept)
            .map(|(class, places)| format!(" {} leaves {} free,", class.word(), human::grouped(u64::from(places))))
            .collect();
        let kept = kept.strip_suffix(',').map_or_else(String::new, |kept| format!(";{kept}"));
        text.push_str(&format!(
            "origin {}: {places} at once, {queue} wait{kept}; {memory} KiB of memory\n",
            origin.name
        ));
    }
    text.push_str(&overload(config));
    let (most, memory) = (human::grouped(MOST_BANS as u64), bans::MEMORY.0.div_ceil(1 << 20));
    text.push_str(&format!("bans: at most {most}, {memory} MiB of memory with all of them\n"));
    text
}

/// From when on the process refuses because it has too much to do, in the words of the effective configuration.
fn overload(config: &Config) -> String {
    let words = config.shown.field("server").and_then(|server| server.field("overload"));
    let word = |name: &str| words.and_then(|words| words.field(name)).map_or_else(String::new, joined);
    if config.settings.overload.is_none() {
        return "overload: off, nobody is refused for it\n".to_owned();
    }
    let of = match word("memory_limit") {
        limit if limit.is_empty() => "what the control group may have".to_owned(),
        limit => limit,
    };
    format!(
        "overload: refuses from a delay of {}, {} of the memory ({of}), {} of the descriptors and {} of an accept queue on\n",
        word("delay"),
        word("memory"),
        word("descriptors"),
        word("backlog")
    )
}

/// How many metric series the configuration makes at most; the formula is the metrics' own.
fn series(config: &Config) -> usize {
    Metrics::series_bound(&config.policy, &config.settings)
}

/// Name, promise, key, memory, columns and errors of a limit, and the store that it is shared through. The texts are those of the effective configuration.
fn row((index, rule): (usize, &Rule), config: &Config) -> [String; 8] {
    let limit = config.shown.field("limits").and_then(|limits| limits.field(&rule.name));
    let text = |word: &str| limit.and_then(|limit| limit.field(word)).map_or_else(String::new, joined);
    let none = || "-".to_owned();
    let table = rule.kind.sketch().map(|(sketch, memory)| (memory, sketch.shape(memory)));
    let memory = match &rule.kind {
        Kind::FairShare(share) => {
            let memory = TokenDoor::new(share.tokens()).memory();
            format!("{}KiB", memory.0.div_ceil(1_024))
        }
        _ => table.map_or_else(none, |(memory, _)| memory.to_string()),
    };
    let columns = table.map_or_else(none, |(_, shape)| shape.columns.to_string());
    let refused = table.map_or_else(|| "0 (exact)".to_owned(), |(_, shape)| format!("{:.1e}", shape.covered(BUSY)));
    let error = table.map_or_else(none, |(_, shape)| error(shape, rule.accuracy));
    let refused = match rule.kind.falsely_seen() {
        // an estimate by its nature
        _ if rule.kind.has_nodes() => none(),
        Some(seen) => format!("{refused}, {seen:.1e} (seen)"),
        None => refused,
    };
    let promise = filled(&rule.kind.summary(), text);
    let key = rule.kind.nodes_summary().unwrap_or_else(|| text("key"));
    let store = match &rule.shared {
        Some(shared) if shared.sharing == Sharing::Estimate => format!("{}, {}", text("store"), shared.sharing.word()),
        Some(shared) => format!("{}, {}, else {}", text("store"), shared.sharing.word(), shared.on_store_error.word()),
        None => none(),
    };
    let memory = match tables(rule) {
        1 => memory,
        tables => format!("{tables} × {memory}"),
    };
    let memory = if has_demand(&config.policy, index, rule) { format!("{memory} + 12.5 %") } else { memory };
    [rule.name.clone(), promise, key, memory, columns, refused, error, store]
}

/// How many tables the limit has: one for each tier with numbers of its own, but where all of them count in one.
fn tables(rule: &Rule) -> usize {
    let own_each = rule.kind.has_table_per_tier();
    let mut kinds: Vec<&Kind> = vec![&rule.kind];
    for kind in rule.tiers.iter().filter_map(|tier| tier.kind.as_ref()) {
        if own_each && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.len()
}

/// How far a limit can be exceeded whose cost the answer tells; empty for any other. See `engine::learned`.
fn overshoot(rule: &Rule) -> String {
    let CostRule::Response { estimate, max, .. } = &rule.cost else { return String::new() };
    let tiers = rule.tiers.iter().filter_map(|tier| tier.kind.as_ref());
    let whole = std::iter::once(&rule.kind).chain(tiers).filter_map(|kind| kind.at_once()).max().unwrap_or(0);
    let (name, estimate) = (&rule.name, estimate.get());
    let requests = whole / estimate;
    let bound = match max {
        Some(max) => {
            let each = max.get() - estimate;
            let units = u64::from(requests) * u64::from(each);
            format!("by at most {units} units: {requests} requests at once, {each} units each above `cost_estimate`")
        }
        None => format!(
            "by at most {requests} requests at once, each by what it costs above `cost_estimate` ({estimate}); \
             `cost_max` makes it a number"
        ),
    };
    let each_gate = if rule.shared.is_some() { " at each gate" } else { "" };
    format!("{name}: answers exceed it {bound}{each_gate}; paid back by later requests, less once costs are learned\n")
}

/// So many keys are taken to be at their limit.
const BUSY: u64 = 1_000;

/// The text with settings in the place of their words in braces.
fn filled(text: &str, setting: impl Fn(&str) -> String) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for (word, rest) in parts.filter_map(|part| part.split_once('}')) {
        filled.push_str(&setting(word));
        filled.push_str(rest);
    }
    filled
}

/// By how much of all that is spent a count may be too high, at the confidence that was asked for, or else that of the paper.
fn error(shape: Shape, asked: Option<Accuracy>) -> String {
    let confidence = asked.map_or_else(|| shape.confidence(), |accuracy| accuracy.confidence);
    // two digits of an error, and no more of a confidence than can be written
    let error = shape.error(confidence) * 100.0;
    let digits = (1 - error.log10().floor() as i32).clamp(0, 9) as usize;
    format!("{error:.digits$} % at {} %", (confidence.get() * 1e6).round() / 1e4)
}

/// A text, or those of a list.
fn joined(tree: &Tree) -> String {
    match tree {
        Tree::Text(text) | Tree::Written(text) => text.clone(),
        Tree::List(items) => items.iter().map(joined).collect::<Vec<_>>().join(" + "),
        Tree::Map(_) => String::new(),
    }
}

/// Seconds since 1970, by the system's clock.
fn now() -> i64 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(seconds).unwrap_or_default()
}
