//! `tidegate upgrade`: a new process in the place of the running one.

use std::process::ExitCode;

use clap::Args;

use super::global::Global;
use super::output::{print, say};
use super::{exit, running};
use crate::admin::order::{Answer, Verb};
use crate::process::control;

/// Replace the running process without refusing a connection
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sudo tidegate upgrade\n\n\
    The running process starts its program again, with the same arguments; with -c it refuses any other policy\n\
    file. When the new process serves, the old one\n\
    ends its connections and goes. If the new process cannot serve, nothing changes and its words are printed.\n\
    The new process goes on with the counts of limits.\n\n\
    Exit codes: 0 replaced, 1 the new process cannot serve, 69 no server answers.")]
pub struct Arguments {}

/// Asks for it, and prints what came of it.
pub fn run(_: &Arguments, global: &Global) -> ExitCode {
    let verb = Verb::Upgrade { file: global.file_at_server() };
    match running::ask(global, |socket| control::ask(socket, &verb)) {
        Ok(Answer { done: true, text, .. }) => {
            if !global.quiet {
                print(&format!("{text}\n"));
            }
            ExitCode::SUCCESS
        }
        Ok(Answer { done: false, text, .. }) => {
            say(&format!("tidegate: not upgraded, the running process goes on\n{}\n", text.trim_end()));
            ExitCode::from(exit::NO)
        }
        Err(code) => code,
    }
}
