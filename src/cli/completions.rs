//! `tidegate completions`: what a shell needs to complete the command line.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::output::print;

/// Print a shell's completions
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate")]
pub struct Arguments {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints it; `command` is the whole command line.
pub fn run(arguments: &Arguments, mut command: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "tidegate", &mut script);
    print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}
