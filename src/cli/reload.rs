//! `tidegate reload`: the policy file's present content in force, without a restart.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::global::Global;
use super::output::{print, say};
use super::{exit, running};
use crate::admin::order::{Answer, Verb};
use crate::config;
use crate::process::control;

/// Reload the policy file; limits keep their counts
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo tidegate reload\n  sudo tidegate reload --dry-run\n\n\
    The running process reads the files that it was started with; with -c it refuses any other. If there is a fault in them, it\n\
    goes on as before, and the fault is printed with its place. Otherwise it says what changed, which limits keep their counts,\n\
    and what has to wait for `tidegate upgrade`. SIGHUP does the same, and says it in the log.\n\n\
    Exit codes: 0 reloaded, 1 refused, 69 no server answers.")]
pub struct Arguments {
    /// How long to wait for the outcome
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = config::parse_duration)]
    wait: Duration,
    /// Say what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How to write the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON document
    Json,
}

/// Asks for it, and prints what came of it.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let verb = Verb::Reload { dry_run: arguments.dry_run, file: global.file_at_server() };
    let Answer { done, text, report } =
        match running::ask(global, |socket| control::ask_within(socket, &verb, arguments.wait)) {
            Ok(answer) => answer,
            Err(code) => return code,
        };
    match arguments.format {
        Format::Json => {
            let refused = || json!({ "schema": crate::process::reload::JSON_SCHEMA, "refused": text });
            print(&format!("{:#}\n", report.unwrap_or_else(refused)));
        }
        Format::Text if done && global.quiet => {}
        Format::Text if done => print(&format!("{}\n", text.trim_end())),
        Format::Text => say(&format!("{}\n", text.trim_end())),
    }
    if done {
        return ExitCode::SUCCESS;
    }
    say("tidegate: refused, the running process goes on as before\n");
    ExitCode::from(exit::NO)
}
