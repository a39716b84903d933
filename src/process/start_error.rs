//! Why the gate did not start.

use std::fmt;

use crate::edge::bind::BindError;

/// Why the gate did not start. All of it is the system's word: exit code 71.
#[derive(Debug)]
pub enum StartError {
    /// A listener could not be bound.
    Bind(BindError),
    /// The system refused something else; the text says what it was for.
    System(&'static str, String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(error) => error.fmt(f),
            StartError::System(what, cause) => write!(f, "{what}: {cause}"),
        }
    }
}

impl std::error::Error for StartError {}
