//! Why logs cannot be read.

use std::io;

/// Why logs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system does not give one: its name.
    #[error("{0}: {1}")]
    Read(String, #[source] io::Error),
    /// No format fits the first hundred lines of one: its name, and three of them.
    #[error("{0}: no known log format fits its first lines; name it with --format or --log-format{lines}", lines = lines(.1))]
    Unknown(String, Vec<String>),
}

/// Each line on one of its own, indented.
fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n    {line}")).collect()
}
