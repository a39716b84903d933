//! `tidegate doctor`: what would keep the gate from starting or serving well on this machine, before it is started.

mod finding;
mod here;
mod there;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use serde::Serialize;

use self::finding::{Finding, Verdict};
use super::global::{Global, load_to_serve};
use super::output::print;
use super::{exit, running};
use crate::admin::client;
use crate::human;
use crate::observe::state::State;

/// Check this machine: what would keep tidegate from starting or serving
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate doctor -c tidegate.yaml\n\n\
    It loads the policy, takes each address for a moment, connects to each origin and store, and looks at file\n\
    descriptors, certificates, files, logs, the directory of state and the clock. It changes nothing and sends no request. Run it as the\n\
    user that will serve.\n\n\
    Exit codes: 0 nothing fails, 1 something fails (or warns, under --deny-warnings), 78 the policy is invalid")]
pub struct Arguments {
    /// Policy file or directory; wins over --config
    file: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Fail on warnings too
    #[arg(long)]
    deny_warnings: bool,
}

/// How to write findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON document
    Json,
}

/// All that was found, as a JSON document.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    verdict: Verdict,
    checks: &'a [Finding],
}

/// Looks, and says what it found.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let path = arguments.file.as_deref().unwrap_or(global.policy());
    let loaded = load_to_serve(path);
    let mut findings = vec![here::policy(path, &loaded)];
    if let Ok(config) = &loaded.outcome {
        // asked first: what it holds is not free, and that is well
        let state = running::reach(global, |socket| client::get(socket, "/api/v1/status"));
        let state: Option<State> = state.ok().and_then(|reply| running::read(&reply).ok());
        findings.push(here::descriptors(config));
        findings.extend(here::listeners(config, state.as_ref()));
        findings.push(here::admin_socket(global, state.as_ref()));
        findings.push(here::clock(path, now()));
        findings.extend(here::certificates(config, &loaded.certificates, now()));
        findings.extend(here::files(path, config));
        findings.extend(here::state(config));
        findings.extend(here::access_log(config));
        findings.extend(there::reached(config));
    } else {
        global.tell(&loaded);
    }
    let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok);
    print(&match arguments.format {
        Format::Text => text(&findings, global.quiet),
        Format::Json => {
            let report = Report { schema: "tidegate.doctor/1", verdict, checks: &findings };
            format!("{}\n", serde_json::to_string_pretty(&report).unwrap_or_default())
        }
    });
    match verdict {
        _ if loaded.outcome.is_err() => ExitCode::from(exit::INVALID),
        Verdict::Fail => ExitCode::from(exit::NO),
        Verdict::Warn if arguments.deny_warnings => ExitCode::from(exit::NO),
        Verdict::Ok | Verdict::Warn => ExitCode::SUCCESS,
    }
}

/// A line for each finding, its advice below it, and a count. `quiet` leaves out what is as it should be.
fn text(findings: &[Finding], quiet: bool) -> String {
    let widest = findings.iter().map(|finding| human::width(&finding.check)).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { check, verdict, found, advice } in findings {
        if quiet && *verdict == Verdict::Ok {
            continue;
        }
        let pad = widest.saturating_sub(human::width(check));
        let _ = writeln!(text, "{:<4}  {check}{:pad$}  {found}", verdict.word(), "");
        if let Some(advice) = advice {
            let _ = writeln!(text, "{:indent$}→ {advice}", "", indent = widest + 8);
        }
    }
    let count = |wanted| findings.iter().filter(|finding| finding.verdict == wanted).count();
    let counts =
        [Verdict::Ok, Verdict::Warn, Verdict::Fail].map(|verdict| format!("{} {}", count(verdict), verdict.word()));
    if !quiet {
        let _ = writeln!(text, "\n{}", counts.join(", "));
    }
    text
}

/// Seconds since 1970, by the system's clock.
fn now() -> i64 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_stands_below_its_finding_and_quiet_leaves_out_what_is_well() {
        let findings = [
            Finding::ok("policy", "valid"),
            Finding::new("listener main", Verdict::Fail, "the port is in use").advise("choose another"),
        ];
        let line = "fail  listener main  the port is in use\n                     → choose another\n";
        assert_eq!(text(&findings, true), line);
        assert_eq!(text(&findings, false), format!("ok    policy         valid\n{line}\n1 ok, 0 warn, 1 fail\n"));
    }
}
