//! Why logs cannot be read.

use std::fmt;
use std::io;

/// Why logs cannot be read.
#[derive(Debug)]
pub enum Fault {
    /// The system does not give one: its name.
    Read(String, io::Error),
    /// No format fits the first hundred lines of one: its name, and three of them.
    Unknown(String, Vec<String>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Read(log, error) => write!(f, "{log}: {error}"),
            Fault::Unknown(log, lines) => {
                write!(f, "{log}: no known log format fits its first lines; name it with --format or --log-format")?;
                lines.iter().try_for_each(|line| write!(f, "\n    {line}"))
            }
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Fault::Read(_, error) => Some(error),
            Fault::Unknown(..) => None,
        }
    }
}
