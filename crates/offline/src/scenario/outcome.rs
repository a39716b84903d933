//! What came of a case, as numbers and differences.

use std::time::Duration;

/// What came of a case.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How many requests were sent.
    pub sent: u64,
    /// How long it took by the clock of the case.
    pub lasted: Duration,
    /// What is not as expected; nothing when the case holds.
    pub differences: Vec<Difference>,
    /// The first request that differs, and how its decision came about; lines of text without an indent.
    pub account: Option<String>,
}

impl Outcome {
    /// Whether everything is as expected.
    pub fn holds(&self) -> bool {
        self.differences.is_empty()
    }
}

/// One thing that is not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which of the maps under `send`, from 1; `None` for all of them together.
    pub step: Option<usize>,
    /// The word under `expect`.
    pub word: String,
    /// What was expected of it.
    pub expected: String,
    /// What came instead.
    pub found: String,
    /// Of how many requests, where each is looked at by itself.
    pub requests: Option<u64>,
}
