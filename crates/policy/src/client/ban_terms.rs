//! When a client that does not stop is banned.

use std::time::Duration;

/// When a limit's penalty brings a ban, and how long that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BanTerms {
    /// The limit's name.
    pub limit: String,
    /// How many requests must be refused by the penalty.
    pub after: u32,
    /// How long the first ban lasts.
    pub first: Duration,
    /// How long any ban lasts at most.
    pub longest: Duration,
    /// How long after a ban a client must go without another to begin anew.
    pub forgive: Duration,
    /// A client that sends nothing for so long has stopped: the limit lets it in again.
    pub pause: Duration,
}

impl BanTerms {
    /// How long the ban lasts that comes after so many others in a row.
    pub fn length(&self, bans: u32) -> Duration {
        let doubled = 1_u32.checked_shl(bans).and_then(|times| self.first.checked_mul(times));
        doubled.unwrap_or(self.longest).min(self.longest)
    }
}
