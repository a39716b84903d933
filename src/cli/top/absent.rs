//! `tidegate top` of a program that was built without the feature `tui`: says how to get it, and what stands in.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use super::exit;
use super::global::Global;
use super::output::say;

/// Watch the running process live (not in this build)
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tidegate top\n\nThis tidegate was built without the feature `tui`: `tidegate top` \
    ends with exit code 2. `tidegate status` and the admin page show the same numbers."
)]
pub struct Arguments {
    /// Whatever a script gives to a build that has it
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _ignored: Vec<OsString>,
}

/// Says how to get a live view.
pub fn run(_: &Arguments, _: &Global) -> ExitCode {
    say(
        "tidegate: this tidegate was built without the feature `tui`, which `top` needs; `tidegate status` and the admin page show \
         the same numbers. Build it with: cargo build --release --features tui\n",
    );
    ExitCode::from(exit::USAGE)
}
