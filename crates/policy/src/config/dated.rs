//! What of a configuration is good for a time only: the caller has a clock.

use super::span::Span;

/// After so many days a list of somebody else's networks should be looked at again.
pub const OLD_AFTER_DAYS: i64 = 180;

/// A preset that the configuration uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedPreset {
    /// Its name.
    pub name: String,
    /// Its `# date:`, in days since 1970-01-01; `None` when it has none, as lists that never change.
    pub date: Option<i64>,
    /// Where it is used.
    pub at: Span,
}

/// A limit in shadow that says since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    /// The limit's name.
    pub limit: String,
    /// Where it says so.
    pub at: Span,
    /// The day, in days since 1970-01-01.
    pub since: i64,
}

/// A certificate that the file names, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedCertificate {
    /// The path as it was written.
    pub written: String,
    /// Where.
    pub at: Span,
    /// The names that it is shown for: those of the file, or those that it holds.
    pub names: Vec<String>,
    /// When it begins to be valid, in seconds since 1970.
    pub not_before: i64,
    /// When it ends, in seconds since 1970.
    pub not_after: i64,
}
