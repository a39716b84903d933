//! Why the gate did not start.

use std::fmt;

use crate::edge::bind::BindError;
use crate::running::fault::Fault;

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

impl From<Fault> for StartError {
    fn from(fault: Fault) -> StartError {
        match fault {
            Fault::Origin(name, cause) => StartError::System("an origin's TLS", format!("{name}: {cause}")),
            Fault::Store(name, cause) => StartError::System("a store cannot be reached so", format!("{name}: {cause}")),
            Fault::Limit(name, cause) => StartError::System("a limit cannot be built", format!("{name}: {cause}")),
        }
    }
}
