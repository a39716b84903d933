//! One ban.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::{ClientNetwork, Mark};
use crate::sketch::KeyHash;
use crate::units::{Prefix, Timestamp};

/// Bytes of a reason or of a name, at most. Longer ones are cut.
pub const LONGEST_TEXT: usize = 200;

/// Who is banned, by whom and until when.
#[derive(Debug)]
pub struct Ban {
    /// Its number, from 1, which no other ban of the process has had.
    pub number: u32,
    /// Who is banned.
    pub target: Target,
    /// When it was given, in nanoseconds since 1970.
    pub given: u64,
    /// When it ends.
    pub until: Timestamp,
    /// Who gave it.
    pub by: String,
    /// The reason, for people.
    pub why: String,
    /// Whether a limit's penalty brought it, and nobody ordered it.
    pub automatic: bool,
    refused: AtomicU64,
}

/// A ban that is to be given.
#[derive(Debug, Clone)]
pub struct Order {
    /// Who is banned.
    pub target: Target,
    /// When it is given, in nanoseconds since 1970.
    pub given: u64,
    /// When it ends.
    pub until: Timestamp,
    /// Who gives it.
    pub by: String,
    /// The reason.
    pub why: String,
    /// Whether a limit's penalty brings it.
    pub automatic: bool,
}

/// Who is banned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Every client whose address is in the network, however sure the address is.
    Network(Prefix),
    /// One client as it is counted: for those whose address is not their own.
    Client {
        /// What it is counted by.
        network: ClientNetwork,
        /// How the address came about.
        mark: Mark,
    },
    /// Every request that counts under one key of a limit, on the routes that have the limit.
    Key {
        /// The limit's name.
        limit: String,
        /// The key, under the secret of the table.
        hash: KeyHash,
    },
}

impl Ban {
    pub(super) fn new(number: u32, order: Order, refused: u64) -> Ban {
        let Order { target, given, until, by, why, automatic } = order;
        Ban {
            number,
            target,
            given,
            until,
            by: text_of(&by),
            why: text_of(&why),
            automatic,
            refused: AtomicU64::new(refused),
        }
    }

    /// Returns how many requests it refused.
    pub fn refused(&self) -> u64 {
        // Relaxed: a number of its own
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a refused request.
    pub(super) fn count(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// A text of an operator as it is kept: one line, at most [`LONGEST_TEXT`] bytes.
pub fn text_of(text: &str) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let line = line.trim();
    let end = (0..=LONGEST_TEXT.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    line.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_and_ends_at_a_letter() {
        assert_eq!(text_of(" scraping\nall night\u{7} "), "scraping all night");
        let long = text_of(&"é".repeat(LONGEST_TEXT));
        assert_eq!(long.len(), LONGEST_TEXT);
        assert_eq!(text_of(&format!("a{}", "é".repeat(LONGEST_TEXT))).len(), LONGEST_TEXT - 1);
    }
}
