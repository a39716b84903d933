//! Why the gate did not start.

use crate::edge::bind::BindError;
use crate::running::fault::Fault;

/// Why the gate did not start. All of it is the system's word: exit code 71.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be bound.
    #[error("{0}")]
    Bind(BindError),
    /// The system refused something else; the text says what it was for.
    #[error("{0}: {1}")]
    System(&'static str, String),
}

impl From<Fault> for StartError {
    fn from(fault: Fault) -> StartError {
        match fault {
            Fault::Origin(name, cause) => StartError::System("an origin's TLS", format!("{name}: {cause}")),
            Fault::Store(name, cause) => StartError::System("a store cannot be reached so", format!("{name}: {cause}")),
            Fault::Limit(name, cause) => StartError::System("a limit cannot be built", format!("{name}: {cause}")),
        }
    }
}
