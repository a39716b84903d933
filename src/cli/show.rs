//! `tidegate show`: what is in force.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::global::Global;
use super::output::{print, say};
use super::{exit, running};
use crate::admin::client;

/// Print the policy with all defaults, secrets masked
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate show -c tidegate.yaml limits.login")]
pub struct Arguments {
    /// The part to show, such as `limits.login` or `routes.0`; all of it when left out
    pub path: Option<String>,
    /// Ask the running process, not the file
    #[arg(long)]
    pub running: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Yaml)]
    pub format: Format,
}

/// How to write a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As a policy file
    Yaml,
    /// The same as JSON
    Json,
}

/// Prints it, or what is wrong with it.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let path = arguments.path.as_deref().unwrap_or_default();
    let part = if arguments.running { of_running(path, global) } else { of_file(path, global) };
    match part {
        Ok((_, json)) if arguments.format == Format::Json => print(&format!("{json:#}\n")),
        Ok((yaml, _)) => print(&yaml),
        Err(code) => return code,
    }
    ExitCode::SUCCESS
}

/// A part of a configuration, as YAML and as JSON.
type Part = (String, Value);

fn of_file(path: &str, global: &Global) -> Result<Part, ExitCode> {
    let loaded = global.load();
    let Ok(config) = &loaded.outcome else {
        global.tell(&loaded);
        return Err(ExitCode::from(exit::INVALID));
    };
    let Some(part) = config.shown.at(path) else {
        say(&format!("tidegate: {}\n", config.shown.missing(path)));
        return Err(ExitCode::from(exit::NO));
    };
    Ok((part.to_yaml(), part.to_json()))
}

fn of_running(path: &str, global: &Global) -> Result<Part, ExitCode> {
    let target = client::target("/api/v1/config", &[("path", path)]);
    let (_, mut told): (_, Value) = running::told(global, |socket| client::get(socket, &target))?;
    let yaml = told.get("yaml").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok((yaml, told.get_mut("config").map(Value::take).unwrap_or_default()))
}
