//! The command line: one file per verb.
//!
//! Data goes to standard output, messages to standard error (`output`). A new verb is a file here with its arguments and a function
//! from them and `Global` (`global`) to an [`ExitCode`] ([`exit`]), a variant of `Verb`, and an arm in [`main`].

mod ban;
mod bans;
mod check;
mod command;
mod completions;
mod demo;
mod doctor;
pub mod exit;
mod explain;
mod global;
mod init;
mod man;
mod output;
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
#[cfg(feature = "tui")]
mod top;
#[cfg(not(feature = "tui"))]
#[path = "top/absent.rs"]
mod top;
mod unban;
mod upgrade;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::global::Global;

/// A reverse proxy that limits, shares and protects
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, long_version = VERSION, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// The version with the features that it was built with; `-V` prints the version alone.
const VERSION: &str = match (cfg!(feature = "store"), cfg!(feature = "tui")) {
    (true, true) => concat!(env!("CARGO_PKG_VERSION"), "\nfeatures: store, tui"),
    (true, false) => concat!(env!("CARGO_PKG_VERSION"), "\nfeatures: store; not built: tui"),
    (false, true) => concat!(env!("CARGO_PKG_VERSION"), "\nfeatures: tui; not built: store"),
    (false, false) => concat!(env!("CARGO_PKG_VERSION"), "\nfeatures: none; not built: store, tui"),
};

/// The whole command line.
fn whole() -> Command {
    command::completed(Arguments::command())
}

/// What tidegate can be asked to do.
#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Arguments),
    Run(run::Run),
    Demo(demo::Demo),
    Doctor(doctor::Arguments),
    Check(check::Arguments),
    Test(test::Arguments),
    Show(show::Arguments),
    Suggest(suggest::Arguments),
    Explain(Box<explain::Arguments>),
    Schema(schema::Arguments),
    Status(status::Arguments),
    Top(top::Arguments),
    Pardon(pardon::Arguments),
    Ban(ban::Arguments),
    Unban(unban::Arguments),
    Bans(bans::Arguments),
    Reload(reload::Arguments),
    Replay(Box<replay::Arguments>),
    Upgrade(upgrade::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// Runs the verb that the arguments name. Output that could not be written makes every verb fail.
pub fn main() -> ExitCode {
    let code = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments.run(),
        // help and version too
        Err(told) => {
            output::keep_failure(told.print().and_then(|()| io::stdout().flush()));
            ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(exit::USAGE))
        }
    };
    let Some(failure) = output::failure() else { return code };
    output::say(&format!("error: standard output: {failure}\n"));
    ExitCode::from(exit::SYSTEM)
}

impl Arguments {
    /// Reads a command line: the program first.
    ///
    /// # Errors
    /// It is not valid, or it asks for help or the version, which the error then is.
    fn read<T: Into<OsString> + Clone>(words: impl IntoIterator<Item = T>) -> Result<Arguments, clap::Error> {
        let mut command = whole();
        let mut matches = command.try_get_matches_from_mut(words)?;
        Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    fn run(self) -> ExitCode {
        let Arguments { global, verb } = self;
        match &verb {
            Verb::Init(arguments) => init::run(arguments, &global),
            Verb::Run(arguments) => run::run(arguments, &global),
            Verb::Demo(arguments) => demo::demo(arguments, &global),
            Verb::Doctor(arguments) => doctor::run(arguments, &global),
            Verb::Check(arguments) => check::run(arguments, &global),
            Verb::Test(arguments) => test::run(arguments, &global),
            Verb::Show(arguments) => show::run(arguments, &global),
            Verb::Suggest(arguments) => suggest::run(arguments, &global),
            Verb::Explain(arguments) => explain::run(arguments, &global),
            Verb::Schema(arguments) => schema::run(arguments),
            Verb::Status(arguments) => status::run(arguments, &global),
            Verb::Top(arguments) => top::run(arguments, &global),
            Verb::Pardon(arguments) => pardon::run(arguments, &global),
            Verb::Ban(arguments) => ban::run(arguments, &global),
            Verb::Unban(arguments) => unban::run(arguments, &global),
            Verb::Bans(arguments) => bans::run(arguments, &global),
            Verb::Reload(arguments) => reload::run(arguments, &global),
            Verb::Replay(arguments) => replay::run(arguments, &global),
            Verb::Upgrade(arguments) => upgrade::run(arguments, &global),
            Verb::Completions(arguments) => completions::run(arguments, whole()),
            Verb::Man(arguments) => man::run(arguments, whole()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        whole().debug_assert();
    }

    #[test]
    fn a_client_whose_name_begins_with_a_dash_can_be_named() {
        let orders: [&[&str]; 6] = [
            &["pardon", "-6k6K9S4enpJmKvA", "--for", "10m"],
            &["pardon", "--revoke", "-6k6K9S4"],
            &["pardon", "--list"],
            &["explain", "--client", "-6k6K9S4"],
            &["ban", "-6k6K9S4", "--for", "1h", "--why", "a test"],
            &["unban", "-6k6K9S4"],
        ];
        for order in orders {
            let parsed = Arguments::read(std::iter::once(&"tidegate").chain(order));
            assert!(parsed.is_ok(), "{order:?}: {:?}", parsed.err());
        }
    }

    #[test]
    fn every_verb_shows_an_example() {
        for verb in whole().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("tidegate {}", verb.get_name())), "{}", verb.get_name());
        }
    }
}
