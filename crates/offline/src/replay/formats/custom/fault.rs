//! Why the operator's words make no format.

use std::fmt;

/// Why a format is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomFault {
    /// Two values side by side: the second one.
    Unseparated(String),
    /// Something that every replay needs is not in it.
    Lacks(&'static str),
    /// A directive that Apache does not have, or one that is cut.
    Directive(String),
}

impl fmt::Display for CustomFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CustomFault::Unseparated(word) => {
                write!(f, "log format: nothing separates `{word}` from the value before it")
            }
            CustomFault::Lacks(what) => write!(f, "log format: found no {what}"),
            CustomFault::Directive(text) => write!(f, "log format: unknown directive `{text}`"),
        }
    }
}

impl std::error::Error for CustomFault {}
