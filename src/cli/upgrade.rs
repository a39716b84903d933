//! `tidegate upgrade`: a new process in the place of the running one.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{Global, exit, print, say};
use crate::serve::lifecycle::control::{self, Answer, Verb};

/// Replace the running process (new binary, new listeners, new policy file) without refusing a connection
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sudo tidegate upgrade\n\n\
    The running process starts its program again, with the same arguments. When the new process serves, the old one\n\
    ends its connections and goes. If the new process cannot serve, nothing changes and its words are printed.\n\
    The new process begins with full budgets: the state of limits is not carried over.\n\n\
    Exit codes: 0 replaced, 1 the new process cannot serve, 69 no server answers.")]
pub struct Arguments {
    /// The running process's control socket [default: the first that is there of those that `run` has by default, and
    /// /run/tidegate/private/control.sock]
    #[arg(long, value_name = "SOCKET", env = "TIDEGATE_CONTROL", hide_env_values = true)]
    control: Option<PathBuf>,
}

/// Asks for it, and prints what came of it.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let places = arguments.control.clone().map_or_else(control::places, |path| vec![path]);
    let mut refusals = Vec::new();
    for place in &places {
        match control::ask(place, Verb::Upgrade) {
            Ok(Answer { done: true, text }) => {
                if !global.quiet {
                    print(&format!("{text}\n"));
                }
                return ExitCode::SUCCESS;
            }
            Ok(Answer { done: false, text }) => {
                say(&format!("tidegate: not upgraded, the running process goes on\n{}\n", text.trim_end()));
                return ExitCode::from(exit::NO);
            }
            Err(error) => {
                let nobody = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
                let cause = if nobody { "nobody listens there".to_owned() } else { error.to_string() };
                refusals.push(format!("  {}: {cause}\n", place.display()));
            }
        }
    }
    say(&format!("tidegate: no running server answers\n{}", refusals.concat()));
    ExitCode::from(exit::UNAVAILABLE)
}
