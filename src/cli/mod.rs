//! The command line: one file per verb.
//!
//! Data goes to standard output, talk to standard error. A new verb is a file here with its arguments and a function from
//! them and [`Global`] to an [`ExitCode`], a variant of `Verb`, and an arm in [`main`].

mod check;
mod completions;
mod demo;
mod explain;
mod man;
mod pardon;
mod reload;
mod replay;
mod run;
mod running;
mod schema;
mod show;
mod status;
mod suggest;
mod test;
mod top;
mod upgrade;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::config::render::{Format, render};
use crate::config::{self, Loaded};

/// Exit codes beside 0 (done, nothing wrong) and clap's own 2 (wrong usage).
pub mod exit {
    /// The answer is "no": warnings under `--deny-warnings`, a test that failed, a file that the running process refuses.
    pub const NO: u8 = 1;
    /// Wrong usage that only shows when it is looked at; clap's own number.
    pub const USAGE: u8 = 2;
    /// No server answers (`EX_UNAVAILABLE` of sysexits.h).
    pub const UNAVAILABLE: u8 = 69;
    /// The system refused: bind, file limit, permission.
    pub const SYSTEM: u8 = 71;
    /// The configuration is invalid (`EX_CONFIG` of sysexits.h).
    pub const INVALID: u8 = 78;
}

/// An edge reverse proxy whose rate limits, overload protection and fair sharing are actually correct.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// What tidegate can be asked to do.
#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Run),
    Demo(demo::Demo),
    Check(check::Arguments),
    Test(test::Arguments),
    Show(show::Arguments),
    Suggest(suggest::Arguments),
    Explain(Box<explain::Arguments>),
    Schema(schema::Arguments),
    Status(status::Arguments),
    Top(top::Arguments),
    Pardon(pardon::Arguments),
    Reload(reload::Arguments),
    Replay(Box<replay::Arguments>),
    Upgrade(upgrade::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// Flags that every verb takes.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The policy file, or a directory whose *.yaml files are one configuration
    #[arg(short, long, value_name = "FILE", global = true, env = "TIDEGATE_CONFIG")]
    #[arg(default_value = "/etc/tidegate/tidegate.yaml", hide_env_values = true)]
    pub config: PathBuf,
    /// The admin socket: where `run` has it, and where other verbs ask [default: private/admin.sock in systemd's runtime
    /// folder, or tidegate/admin.sock in $XDG_RUNTIME_DIR]
    #[arg(
        long,
        alias = "control",
        value_name = "SOCKET",
        global = true,
        env = "TIDEGATE_ADMIN",
        hide_env_values = true
    )]
    pub admin: Option<PathBuf>,
    /// When to use colors
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN", global = true)]
    pub color: Color,
    /// Say only what went wrong
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
}

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also in pipes and files
    Always,
    /// Not at all
    Never,
}

/// Runs the verb that the arguments name.
pub fn main() -> ExitCode {
    let Arguments { global, verb } = Arguments::parse();
    match &verb {
        Verb::Run(arguments) => run::run(arguments, &global),
        Verb::Demo(arguments) => demo::demo(arguments, &global),
        Verb::Check(arguments) => check::run(arguments, &global),
        Verb::Test(arguments) => test::run(arguments, &global),
        Verb::Show(arguments) => show::run(arguments, &global),
        Verb::Suggest(arguments) => suggest::run(arguments, &global),
        Verb::Explain(arguments) => explain::run(arguments, &global),
        Verb::Schema(arguments) => schema::run(arguments),
        Verb::Status(arguments) => status::run(arguments, &global),
        Verb::Top(arguments) => top::run(arguments, &global),
        Verb::Pardon(arguments) => pardon::run(arguments, &global),
        Verb::Reload(arguments) => reload::run(arguments, &global),
        Verb::Replay(arguments) => replay::run(arguments, &global),
        Verb::Upgrade(arguments) => upgrade::run(arguments, &global),
        Verb::Completions(arguments) => completions::run(arguments),
        Verb::Man(arguments) => man::run(arguments),
    }
}

impl Global {
    /// Loads the configuration with the process's environment.
    pub fn load(&self) -> Loaded {
        config::load(&self.config, &environment)
    }

    /// Whether to colour what goes to this stream.
    pub fn colored(&self, stream: &impl IsTerminal) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            // https://no-color.org: set and not empty
            Color::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Diagnostics as talk, for verbs whose data is something else.
    pub fn tell(&self, loaded: &Loaded) {
        say(&render(loaded, Format::Text, self.colored(&std::io::stderr())));
    }
}

/// A variable of the process's environment; one that is not UTF-8 counts as not set.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Writes data. A reader that has gone away, as `head` does, is no fault.
pub fn print(data: &str) {
    let _ = std::io::stdout().lock().write_all(data.as_bytes());
}

/// Writes talk.
pub fn say(talk: &str) {
    let _ = std::io::stderr().lock().write_all(talk.as_bytes());
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_verb_shows_an_example() {
        for verb in Arguments::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("tidegate {}", verb.get_name())), "{}", verb.get_name());
        }
    }
}
