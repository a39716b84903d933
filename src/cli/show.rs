//! `tidegate show`: what is in force.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::{Global, exit, print, say};
use crate::config::fault::nearest;

/// Print the configuration in force: short forms expanded, defaults filled in, secrets masked
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate show -c tidegate.yaml limits.login")]
pub struct Arguments {
    /// The part to show, such as `limits.login` or `routes.0`; all of it when left out
    pub path: Option<String>,
    /// How to write it
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
    let loaded = global.load();
    let Ok(config) = &loaded.outcome else {
        global.tell(&loaded);
        return ExitCode::from(exit::INVALID);
    };
    let path = arguments.path.as_deref().unwrap_or_default();
    let Some(part) = config.effective.at(path) else {
        say(&format!("tidegate: there is no `{path}` in the configuration{}\n", way_out(&config.effective, path)));
        return ExitCode::from(exit::NO);
    };
    print(&match arguments.format {
        Format::Yaml => part.to_yaml(),
        Format::Json => format!("{:#}\n", part.to_json()),
    });
    ExitCode::SUCCESS
}

/// The nearest path, or what there is instead.
fn way_out(effective: &crate::config::Tree, path: &str) -> String {
    let (parent, step) = path.rsplit_once('.').unwrap_or(("", path));
    let Some(parent_tree) = effective.at(parent) else { return String::new() };
    let steps = parent_tree.steps();
    let dot = if parent.is_empty() { "" } else { "." };
    match nearest(step, steps.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean `{parent}{dot}{near}`?"),
        None => format!("; there are: {}", steps.join(", ")),
    }
}
