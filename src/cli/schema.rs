//! `tidegate schema`: the JSON Schema of policy files.

use std::process::ExitCode;

use clap::Args;

use crate::config::schema::json_schema;

/// Print the JSON Schema (draft 2020-12) of policy files
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate schema > tidegate.schema.json\n  \
    and in the first line of a policy file:\n  # yaml-language-server: $schema=tidegate.schema.json")]
pub struct Arguments {}

/// Prints it.
pub fn run(_: &Arguments) -> ExitCode {
    super::print(&format!("{:#}\n", json_schema().as_value()));
    ExitCode::SUCCESS
}
