//! Why a generation cannot be made.

use std::fmt;

use crate::origins::tls::TlsFault;
use crate::units::OutOfRange;

/// Why a generation cannot be made, with the name of what it fails on. Nothing has changed then.
#[derive(Debug)]
pub enum Fault {
    /// The files of an origin's TLS cannot be used.
    Origin(String, TlsFault),
    /// A store cannot be reached as the policy says.
    Store(String, String),
    /// A limiter refuses its limit's numbers, or the limit cannot be shared.
    Limit(String, OutOfRange),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Origin(name, fault) => write!(f, "the TLS of origin `{name}`: {fault}"),
            Fault::Store(name, fault) => write!(f, "store `{name}`: {fault}"),
            Fault::Limit(name, fault) => write!(f, "limit `{name}`: {fault}"),
        }
    }
}

impl std::error::Error for Fault {}
