//! `tidegate replay`: what a policy would have done to past traffic.

mod drawing;
mod progress;
pub mod stop;
pub mod times;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use self::drawing::Drawing;
use self::stop::{Stop, stop, system};
use super::global::{Global, environment};
use super::output::{print, say};
use super::{exit, suggest};
use crate::client::Client;
use crate::config::{self, Config};
use crate::engine::{Evaluation, Verdict};
use crate::observe::pseudonym::Pseudonyms;
use crate::policy::Policy;
use crate::replay::condition::FailIf;
use crate::replay::formats::Custom;
use crate::replay::ledger::Wanted;
use crate::replay::report::{self, Head};
use crate::replay::simulate::end_of;
use crate::replay::{
    Format as LogFormat, LoggedClient, Options, Place, Progress, Question, Record, Replayed, Sources, simulate,
};
use crate::system::clock;

/// What says something of a policy that judges, and nothing to `--suggest`.
const JUDGING: [&str; 11] =
    ["against", "limit", "route", "fail_if", "exact", "csv", "decisions", "html", "svg", "show_clients", "reorder"];

/// The headings of its flags in the help.
const LOGS: &str = "What is read";
const QUESTION: &str = "What is asked";
const RESULT: &str = "What is written";
const SUGGEST: &str = "With --suggest";

/// Show what a policy would have done to an access log
#[derive(Debug, Args)]
#[command(mut_group("Asked", |asked| asked.requires("suggest")))]
#[command(after_help = "Example:\n  tidegate replay -c new.yaml --against old.yaml /var/log/nginx/access.log*\n\n\
    Formats: tidegate, caddy, traefik, traefik-text, envoy, envoy-text, alb, cloudfront, haproxy, combined (nginx and Apache, \
    common too)\n\
    Exit codes: 0 done, 1 a --fail-if holds or too many lines cannot be read, 71 a log cannot be read, 78 invalid policy")]
pub struct Arguments {
    /// Access logs, plain or gzipped, in any order; `-` for standard input
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// The format of the logs: `auto`, a name, or the words of nginx ('$remote_addr …') or Apache ('%h …')
    #[arg(long, default_value = "auto", value_name = "FORMAT", help_heading = LOGS)]
    pub log_format: String,
    /// Only requests from then on: RFC 3339, `yesterday`, or so long before the end (`2h`)
    #[arg(long, value_name = "TIME", help_heading = LOGS)]
    pub since: Option<String>,
    /// Only requests before then, in the same words
    #[arg(long, value_name = "TIME", help_heading = LOGS)]
    pub until: Option<String>,
    /// The host, for logs that do not have it
    #[arg(long, value_name = "NAME", help_heading = LOGS)]
    pub host: Option<String>,
    /// Lines may come so much later than others that began after them
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = times::duration, help_heading = LOGS)]
    pub reorder: Duration,
    /// Compare with this policy: who is newly limited, who is freed
    #[arg(long, value_name = "FILE", help_heading = QUESTION)]
    pub against: Option<PathBuf>,
    /// Show this limit only
    #[arg(long, value_name = "NAME", help_heading = QUESTION)]
    pub limit: Option<String>,
    /// Count only requests that this route takes
    #[arg(long, value_name = "NAME", help_heading = QUESTION)]
    pub route: Option<String>,
    /// Exit with 1 if this holds: `LIMIT.limited > 100`, `LIMIT.clients > 0.5%`
    #[arg(long, value_name = "CONDITION", help_heading = QUESTION)]
    pub fail_if: Vec<FailIf>,
    /// Count exactly beside the sketches, and show the error of these
    #[arg(long, help_heading = QUESTION)]
    pub exact: bool,
    /// text or json (default text)
    #[arg(long, value_name = "FORMAT", help_heading = RESULT)]
    pub format: Vec<String>,
    /// Show clients as the log has them, not as pseudonyms
    #[arg(long, help_heading = RESULT)]
    pub show_clients: bool,
    /// Write every minute and limit into this file
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub csv: Option<PathBuf>,
    /// Write every decision into this file, one JSON object a line
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub decisions: Option<PathBuf>,
    #[command(flatten, next_help_heading = RESULT)]
    pub pictures: drawing::Pictures,
    /// Propose limits instead of judging by some, as `tidegate suggest` does
    #[arg(long, conflicts_with_all = JUDGING, help_heading = SUGGEST)]
    pub suggest: bool,
    #[command(flatten, next_help_heading = SUGGEST)]
    pub asked: suggest::Asked,
}

/// Replays, and says what came of it.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    if arguments.suggest {
        return suggest::run(&suggest_instead(arguments), global);
    }
    let Some(config) = load(global.policy(), global) else { return ExitCode::from(exit::INVALID) };
    let against = match &arguments.against {
        None => None,
        Some(path) => match load(path, global) {
            Some(config) => Some(config.policy),
            None => return ExitCode::from(exit::INVALID),
        },
    };
    match replay(arguments, global, config, against) {
        Ok(code) => code,
        Err(Stop(code, why)) => {
            say(&format!("tidegate: {why}\n"));
            ExitCode::from(code)
        }
    }
}

/// The same logs, and another question.
fn suggest_instead(arguments: &Arguments) -> suggest::Arguments {
    let says = |word: &str| arguments.format.iter().any(|format| format == word);
    suggest::Arguments {
        logs: arguments.logs.clone(),
        asked: arguments.asked.clone(),
        format: match (says("yaml"), says("json")) {
            (true, _) => suggest::Format::Yaml,
            (_, true) => suggest::Format::Json,
            _ => suggest::Format::Text,
        },
        log_format: format_of_logs(arguments).to_owned(),
        since: arguments.since.clone(),
        until: arguments.until.clone(),
        host: arguments.host.clone(),
    }
}

fn load(path: &Path, global: &Global) -> Option<Config> {
    let loaded = config::load(path, &environment);
    if loaded.outcome.is_err() {
        global.tell(&loaded);
    }
    loaded.outcome.ok()
}

fn replay(arguments: &Arguments, global: &Global, config: Config, against: Option<Policy>) -> Result<ExitCode, Stop> {
    check_names(arguments, &config.policy)?;
    let began = Instant::now();
    let format = log_format(arguments)?;
    let open =
        || Sources::open(&places(arguments), format.as_ref()).map_err(|fault| Stop(exit::SYSTEM, fault.to_string()));
    let sources = open()?;
    if sources.is_empty() {
        return Err(Stop(exit::NO, "the logs are empty".to_owned()));
    }
    let (title, resolution) = (title(&sources), sources.resolution());
    let needs_host = !sources.gives_host() && arguments.host.is_none() && tells_hosts_apart(&config.policy);
    let counted = Arc::new(Progress::default());
    let options = Options { reorder: arguments.reorder, progress: Some(&counted) };
    let end = || -> Result<u64, Stop> {
        if arguments.logs.iter().any(|log| log.as_os_str() == "-") {
            return Err(Stop(2, "a time before the end needs logs that can be read twice; `-` cannot".to_owned()));
        }
        end_of(open()?, &Options { progress: None, ..options }).map_err(|fault| Stop(exit::SYSTEM, fault.to_string()))
    };
    let (since, until) =
        times::range(arguments.since.as_deref(), arguments.until.as_deref(), clock::wall_nanos(), end)?;
    let secret = config.settings.client_hmac.as_ref().map(|secret| secret.0.clone());
    let fallback = clock::secret().map_err(|error| Stop(exit::SYSTEM, error.to_string()))?;
    let pseudonyms = Pseudonyms::new(secret.as_deref(), fallback);
    let name = |record: &Record<'_>, client: &Client| name(record, client, arguments.show_clients, &pseudonyms);
    let question = Question {
        options,
        host: arguments.host.clone(),
        since,
        until,
        wanted: Wanted { route: arguments.route.clone(), exact: arguments.exact },
        escaped_slash: config.escaped_slash(),
        name: &name,
    };
    let rules: Vec<String> = config.policy.rules.iter().map(|rule| rule.name.clone()).collect();
    let mut decisions = match &arguments.decisions {
        Some(path) => Some(BufWriter::new(File::create(path).map_err(system(path))?)),
        None => None,
    };
    let mut drawing = Drawing::new(&arguments.pictures, &config.policy, arguments.route.as_deref());
    let mut written = Ok(());
    let speaker = progress::speak(&counted, global.quiet);
    let replayed = simulate(sources, &question, config.policy, against, |record, evaluation| {
        drawing.note(record, evaluation, &name);
        if let Some(out) = &mut decisions
            && written.is_ok()
        {
            written = decision(out, record.start, evaluation, &rules);
        }
    });
    drop(speaker);
    if let (Some(path), Some(mut out)) = (&arguments.decisions, decisions) {
        written.and_then(|()| out.flush()).map_err(system(path))?;
    }
    let mut replayed = replayed.map_err(stop)?;
    if needs_host {
        replayed.outcome.notes.push(
            "routes ask for hosts, which this log does not have: give one with --host, or those routes take nothing"
                .to_owned(),
        );
    }
    let head = Head {
        log: &title,
        resolution,
        took: began.elapsed().as_secs_f64(),
        limit: arguments.limit.as_deref(),
        exact: arguments.exact,
    };
    tell(arguments, &replayed, &head)?;
    drawing.write(&replayed.outcome, &head, &arguments.logs, global.policy())?;
    Ok(fails(arguments, &replayed))
}

/// Writes the result where it belongs.
fn tell(arguments: &Arguments, replayed: &Replayed, head: &Head<'_>) -> Result<(), Stop> {
    let against = replayed.against.as_ref();
    let as_json = arguments.format.iter().any(|format| format == "json");
    print(&if as_json {
        format!("{:#}\n", report::json(&replayed.outcome, against, head.log, head.resolution))
    } else {
        report::text(&replayed.outcome, against, head)
    });
    if let Some(path) = &arguments.csv {
        std::fs::write(path, report::csv(&replayed.outcome)).map_err(system(path))?;
    }
    Ok(())
}

/// The exit code, after the conditions that hold have been told.
fn fails(arguments: &Arguments, replayed: &Replayed) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for condition in &arguments.fail_if {
        match condition.holds(&replayed.outcome) {
            Some((false, _)) => {}
            Some((true, found)) => {
                say(&format!("tidegate: {condition}: found {found:.2}\n"));
                code = ExitCode::from(exit::NO);
            }
            // what could not be judged cannot be said to hold
            None => {
                say(&format!("tidegate: {condition}: `{}` could not be replayed\n", condition.limit()));
                code = ExitCode::from(exit::NO);
            }
        }
    }
    code
}

/// Names that the policy does not have are wrong usage.
fn check_names(arguments: &Arguments, policy: &Policy) -> Result<(), Stop> {
    let limits: Vec<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
    let routes: Vec<&str> = policy.routes.iter().map(|route| route.name.as_str()).collect();
    let asked = arguments.fail_if.iter().map(FailIf::limit).chain(arguments.limit.as_deref());
    for (what, name, known) in asked
        .map(|name| ("limit", name, &limits))
        .chain(arguments.route.as_deref().map(|name| ("route", name, &routes)))
    {
        if !known.contains(&name) {
            let near = crate::config::nearest::nearest(name, known.iter().copied());
            let hint = near.map_or_else(
                || format!("; there are: {}", known.join(", ")),
                |near| format!("; did you mean `{near}`?"),
            );
            return Err(Stop(2, format!("there is no {what} `{name}` in the policy{hint}")));
        }
    }
    Ok(())
}

/// The words of servers have signs in them that no name has.
fn log_format(arguments: &Arguments) -> Result<Option<LogFormat>, Stop> {
    let usage = |fault: String| Stop(2, fault);
    let format = format_of_logs(arguments);
    if format.contains(['$', '%']) {
        let custom = Custom::new(format).map_err(|fault| usage(fault.to_string()))?;
        return Ok(Some(LogFormat::Custom(custom.into())));
    }
    match format {
        "auto" => Ok(None),
        name => LogFormat::named(name).map(Some).map_err(|fault| usage(fault.to_string())),
    }
}

/// As it was written, under either name.
fn format_of_logs(arguments: &Arguments) -> &str {
    let named = arguments.format.iter().find(|format| !matches!(format.as_str(), "text" | "json" | "yaml"));
    named.unwrap_or(&arguments.log_format)
}

fn places(arguments: &Arguments) -> Vec<Place> {
    arguments.logs.iter().map(|log| Place::of(log)).collect()
}

/// What the logs are, in words.
fn title(sources: &Sources) -> String {
    let mut titles: Vec<&str> = Vec::new();
    for (_, format) in sources.formats() {
        if !titles.contains(&format.title()) {
            titles.push(format.title());
        }
    }
    titles.join(" and ")
}

fn tells_hosts_apart(policy: &Policy) -> bool {
    use crate::policy::route::HostMatch;
    policy.routes.iter().flat_map(|route| &route.matches).any(|matched| matched.host != HostMatch::Any)
}

/// What a client is called. A log of our own has pseudonyms already, unless it was told to have addresses.
fn name(record: &Record<'_>, client: &Client, shows: bool, pseudonyms: &Pseudonyms) -> String {
    match record.client {
        LoggedClient::Name(name) if shows || record.told.is_some() => String::from_utf8_lossy(name).into_owned(),
        LoggedClient::Address(_) if shows => client.network.to_string(),
        _ => pseudonyms.of(client).to_string(),
    }
}

/// A decision as one line.
fn decision(out: &mut impl Write, start: u64, evaluation: &Evaluation, rules: &[String]) -> io::Result<()> {
    let decision = &evaluation.decision;
    let limits: Vec<_> = decision
        .readings
        .iter()
        .map(|reading| {
            json!({
                "name": rules.get(reading.rule),
                "mode": reading.mode.word(),
                "tier": reading.tier,
                "outcome": reading.outcome.word(),
                "remaining": reading.remaining,
                "retry_ns": reading.retry_nanos,
            })
        })
        .collect();
    let (verdict, reason) = match decision.verdict {
        Verdict::Admitted => ("admitted", None),
        Verdict::Refused(why) => ("refused", Some(why.word())),
    };
    let line = json!({
        "id": decision.id.to_string(),
        "time_ns": start,
        "verdict": verdict,
        "reason": reason,
        "limits": limits,
    });
    writeln!(out, "{line}")
}
