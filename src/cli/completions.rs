//! `tidegate completions`: what a shell needs to complete the command line.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print what a shell needs to complete the command line
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate")]
pub struct Arguments {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints it.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "tidegate", &mut script);
    super::print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}
