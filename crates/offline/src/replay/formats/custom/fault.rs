//! Why the operator's words make no format.

/// Why a format is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CustomFault {
    /// Two values side by side: the second one.
    #[error("log format: nothing separates `{0}` from the value before it")]
    Unseparated(String),
    /// Something that every replay needs is not in it.
    #[error("log format: found no {0}")]
    Lacks(&'static str),
    /// A directive that Apache does not have, or one that is cut.
    #[error("log format: unknown directive `{0}`")]
    Directive(String),
}
