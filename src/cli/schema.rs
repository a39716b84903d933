//! `tidegate schema`: every word of a policy file, for editors and for people.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::output::print;
use crate::config::reference;
use crate::config::schema::json_schema;

/// Print the JSON Schema (draft 2020-12) of policy files, or their reference
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate schema > tidegate.schema.json\n  \
    and in the first line of a policy file:\n  # yaml-language-server: $schema=tidegate.schema.json")]
pub struct Arguments {
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub format: Format,
}

/// How to write the words of a policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A JSON Schema, for editors
    Json,
    /// A manual for people
    Markdown,
}

/// Prints it.
pub fn run(arguments: &Arguments) -> ExitCode {
    print(&match arguments.format {
        Format::Json => format!("{:#}\n", json_schema().as_value()),
        Format::Markdown => reference::markdown(),
    });
    ExitCode::SUCCESS
}
