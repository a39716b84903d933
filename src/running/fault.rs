//! Why a generation cannot be made.

use crate::origins::tls::TlsFault;
use crate::units::OutOfRange;

/// Why a generation cannot be made, with the name of what it fails on. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The files of an origin's TLS cannot be used.
    #[error("the TLS of origin `{0}`: {1}")]
    Origin(String, TlsFault),
    /// A store cannot be reached as the policy says.
    #[error("store `{0}`: {1}")]
    Store(String, String),
    /// A limiter refuses its limit's numbers, or the limit cannot be shared.
    #[error("limit `{0}`: {1}")]
    Limit(String, OutOfRange),
}
