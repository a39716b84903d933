//! `tidegate suggest`: from yesterday's log to a policy in shadow mode.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::exit;
use super::global::{Global, environment};
use super::output::{print, say};
use super::replay::stop::{Stop, stop};
use super::replay::times;
use crate::config::render::{self, render};
use crate::config::{self, Loaded};
use crate::human::duration;
use crate::policy::Policy;
use crate::replay::formats::Custom;
use crate::replay::ledger::Wanted;
use crate::replay::simulate::end_of;
use crate::replay::suggest::{Findings, Frontier, Level, Scope, Study, study, text};
use crate::replay::{Format as LogFormat, Options, Place, Question, Sources, simulate};
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::system::clock;
use crate::units::{Share, Timestamp};
use tidegate_http::path::EscapedSlash;

/// The exit code of wrong usage, which is clap's own.
const USAGE: u8 = 2;

/// Find a limit in an access log
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate suggest /var/log/nginx/access.log.1\n  \
    tidegate suggest --format yaml access.log.1 >suggested.yaml\n  \
    tidegate suggest --path /login --method POST --touch 1% access.log.1\n\n\
    Every proposal is in shadow mode: counted, never obeyed. The log is read twice, so that what the touched\n\
    would lose can be told; of standard input (-) only the clients are.\n\n\
    Exit codes: 0 done, 1 the logs are empty or too many lines cannot be read, 71 a log cannot be read,\n\
    78 the policy of --per-route is invalid")]
pub struct Arguments {
    /// Access logs, plain or gzipped; - for standard input
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,
    #[command(flatten)]
    pub asked: Asked,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The format of the logs: a name, or the words of nginx ('$remote_addr …') or Apache ('%h …')
    #[arg(long, default_value = "auto", value_name = "FORMAT")]
    pub log_format: String,
    /// Only requests from then on: RFC 3339, `yesterday`, or so long before the end (`2h`)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only requests before then, in the same words
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// The host, for logs that do not have it
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
}

/// The options of `suggest` and of `replay --suggest`.
#[derive(Debug, Clone, Args)]
pub struct Asked {
    /// Shares of clients that a limit may touch, one proposal each; at most four
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_value = "1%,0.1%,0.01%", value_parser = share)]
    pub touch: Vec<Share>,
    /// What requests are counted by, as in `key:` of a limit
    #[arg(long, value_name = "KEY", default_value = "client_ip")]
    pub key: String,
    /// Only requests below this path
    #[arg(long, value_name = "PREFIX")]
    pub path: Option<String>,
    /// Only requests with this method
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Leave static files out, as a page view is a burst of them (the default)
    #[arg(long, overrides_with = "no_skip_static")]
    pub skip_static: bool,
    /// Count static files as well
    #[arg(long)]
    pub no_skip_static: bool,
    /// Proposals for each route of the policy file (-c), instead of by kinds of requests
    #[arg(long, conflicts_with_all = ["path", "method"])]
    pub per_route: bool,
}

/// How to write the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, with the parts to paste
    Text,
    /// A policy file
    Yaml,
    /// One JSON document
    Json,
}

/// Reads the logs, and prints what they suggest.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    match all(arguments, global) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop(code, why)) => {
            // what is wrong with a policy file has been told in full
            if !why.is_empty() {
                say(&format!("tidegate: {why}\n"));
            }
            ExitCode::from(code)
        }
    }
}

fn all(arguments: &Arguments, global: &Global) -> Result<(), Stop> {
    let log_format = log_format(&arguments.log_format)?;
    let places: Vec<Place> = arguments.logs.iter().map(|log| Place::of(log)).collect();
    let options = Options::default();
    let end = || -> Result<u64, Stop> {
        if places.contains(&Place::Stdin) {
            return Err(Stop(USAGE, "a time before the end needs logs that can be read twice; `-` cannot".to_owned()));
        }
        end_of(open(&places, log_format.as_ref())?, &options).map_err(|fault| Stop(exit::SYSTEM, fault.to_string()))
    };
    let (since, until) =
        times::range(arguments.since.as_deref(), arguments.until.as_deref(), clock::wall_nanos(), end)?;
    let question = Question {
        options,
        host: arguments.host.clone(),
        since,
        until,
        wanted: Wanted::default(),
        escaped_slash: EscapedSlash::Keep,
        // nobody is called by a name here
        name: &|_, _| String::new(),
    };
    suggest(&places, log_format.as_ref(), &question, &arguments.asked, arguments.format, global)
}

/// The whole of it, for both verbs that can be asked.
///
/// # Errors
/// There is nothing to print.
pub fn suggest(
    places: &[Place],
    log_format: Option<&LogFormat>,
    question: &Question<'_>,
    asked: &Asked,
    format: Format,
    global: &Global,
) -> Result<(), Stop> {
    if asked.touch.len() > Level::MOST {
        return Err(Stop(USAGE, format!("--touch takes at most {} shares", Level::MOST)));
    }
    if asked.per_route && asked.key != "client_ip" {
        return Err(Stop(USAGE, "--per-route counts by client_ip".to_owned()));
    }
    let scope = Scope {
        key: asked.key.clone(),
        path: asked.path.clone(),
        method: asked.method.clone(),
        skip_static: !asked.no_skip_static && !asked.per_route,
    };
    let task = Task { places, log_format, question, per_route: asked.per_route, scope };
    let (findings, log) = task.findings(Level::all(&asked.touch), global)?;
    print(&match format {
        Format::Text => text::text(&findings, &log),
        Format::Yaml => text::yaml(&findings, &log),
        Format::Json => format!("{:#}\n", text::json(&findings, &log)),
    });
    if format != Format::Text
        && let Some(alarm) = findings.alarm()
    {
        say(&format!("tidegate: WARNING: {alarm}\n"));
    }
    Ok(())
}

/// What stays the same in both passes.
struct Task<'a> {
    places: &'a [Place],
    log_format: Option<&'a LogFormat>,
    question: &'a Question<'a>,
    per_route: bool,
    scope: Scope,
}

impl Task<'_> {
    fn findings(&self, levels: Vec<Level>, global: &Global) -> Result<(Findings, text::Log), Stop> {
        let policy = self.policy(global)?;
        let study = if self.per_route {
            Study::by_route(&policy, Frontier::MOST_CLIENTS)
        } else {
            Study::by_class(&self.scope, &policy, Frontier::MOST_CLIENTS)
        };
        let mut study = study.map_err(|fault| Stop(USAGE, fault.to_string()))?;
        let log = self.pass(policy, &mut |route, key, now| study.observe(route, key, now))?;
        let mut findings = Findings::new(&study, self.scope.clone(), levels);
        if !self.places.contains(&Place::Stdin) {
            let policy = self.policy(global)?;
            self.pass(policy, &mut |route, key, now| findings.try_on(&study, route, key, now))?;
        }
        Ok((findings, log))
    }

    /// What requests are told apart by: the operator's policy, or one of ours.
    fn policy(&self, global: &Global) -> Result<Policy, Stop> {
        let loaded = if self.per_route {
            global.load()
        } else {
            config::load_text("suggested", &study::outline_policy(&self.scope), &environment, Path::new("."))
        };
        match loaded.outcome {
            Ok(config) => Ok(config.policy),
            Err(_) if self.per_route => {
                global.tell(&loaded);
                Err(Stop(exit::INVALID, String::new()))
            }
            Err(_) => Err(Stop(USAGE, what_is_wrong(&loaded))),
        }
    }

    /// Reads the logs once. Says what they are.
    fn pass(
        &self,
        policy: Policy,
        visit: &mut dyn FnMut(Option<usize>, Option<KeyHash>, Timestamp),
    ) -> Result<text::Log, Stop> {
        let sources = open(self.places, self.log_format)?;
        let mut titles: Vec<&str> = sources.formats().map(|(_, format)| format.title()).collect();
        titles.dedup();
        let (format, resolution) = (titles.join(" and "), sources.resolution());
        let replayed = simulate(sources, self.question, policy, None, |record, evaluation| {
            let decision = &evaluation.decision;
            let key = if self.per_route {
                decision.client.as_ref().map(|client| network_key(&client.network.to_string()))
            } else {
                evaluation.key(0)
            };
            visit(decision.route, key, Timestamp::from_nanos(record.start));
        });
        let outcome = replayed.map_err(stop)?.outcome;
        let lacks = outcome.limits.iter().find_map(|limit| limit.missing.as_ref());
        if let (false, Some(why)) = (self.per_route, lacks) {
            return Err(Stop(USAGE, format!("--key {}: {why}", self.scope.key)));
        }
        let mut notes = text::reading(&outcome, resolution);
        notes.extend(outcome.notes);
        Ok(text::Log { format, resolution: duration(resolution as f64 / 1e9), notes })
    }
}

fn open(places: &[Place], format: Option<&LogFormat>) -> Result<Sources, Stop> {
    let sources = Sources::open(places, format).map_err(|fault| Stop(exit::SYSTEM, fault.to_string()))?;
    if sources.is_empty() { Err(Stop(exit::NO, "the logs are empty".to_owned())) } else { Ok(sources) }
}

fn network_key(network: &str) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes(*b"tidegate replays"));
    hasher.part(0, network.as_bytes());
    hasher.finish()
}

/// The first thing that is wrong with an outline: it holds what came from the command line.
fn what_is_wrong(loaded: &Loaded) -> String {
    let text = render(loaded, render::Format::Short, false);
    let first = text.lines().next().unwrap_or_default();
    let fault = first.split_once("error[").and_then(|(_, rest)| rest.split_once("]: "));
    format!("--key, --path or --method: {}", fault.map_or(first, |(_, fault)| fault))
}

/// A share such as `0.1%`.
fn share(text: &str) -> Result<Share, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.and_then(|number| Share::new(number / 100.0).ok());
    share.filter(|share| share.get() > 0.0).ok_or_else(|| "allowed a share such as 1% or 0.01%".to_owned())
}

/// A format by its name, or in the words of nginx or Apache, which have signs in them that no name has.
fn log_format(text: &str) -> Result<Option<LogFormat>, Stop> {
    let usage = |fault: String| Stop(USAGE, fault);
    if text.contains(['$', '%']) {
        let custom = Custom::new(text).map_err(|fault| usage(fault.to_string()))?;
        return Ok(Some(LogFormat::Custom(custom.into())));
    }
    match text {
        "auto" => Ok(None),
        name => LogFormat::named(name).map(Some).map_err(|fault| usage(fault.to_string())),
    }
}
