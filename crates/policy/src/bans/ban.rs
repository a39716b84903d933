//! One ban.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::subkey::subkey;
use crate::client::{ClientNetwork, Mark};
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::units::{Prefix, Timestamp};

/// Bytes of a reason or of a name, at most. Longer ones are cut.
pub const LONGEST_TEXT: usize = 200;

/// So many bans are in force at a time. Longer lists belong in a file of `deny:`.
pub const MOST_BANS: usize = 4_096;

/// So many of them are those of penalties: operators always find room.
pub const MOST_AUTOMATIC: usize = 3_072;

/// So many records are remembered that took the place of bans which other gates may still know. Of more those are forgotten whose time ends
/// first.
pub const MOST_REMEMBERED: usize = 1_024;

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
    /// When it ends, in nanoseconds since 1970: what all gates that share it know it by.
    pub ends: u64,
    /// Which of the orders about the target it is, from 1; see [`Rank`](super::shared::Rank).
    pub turn: u32,
    /// Who gave it.
    pub by: String,
    /// The reason, for people.
    pub why: String,
    /// Whether a limit's penalty brought it, and nobody ordered it.
    pub automatic: bool,
    /// Which of those of its limit, if a penalty brought it.
    pub in_row: Option<InRow>,
    /// Whether it was given on another gate.
    pub elsewhere: bool,
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
    /// Which of those of its limit, if a penalty brings it.
    pub in_row: Option<InRow>,
    /// Whether it comes from another gate.
    pub elsewhere: bool,
}

/// Which of the bans in a row that a limit's penalty brings one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InRow {
    /// The limit's name.
    pub limit: String,
    /// From 1.
    pub nth: u32,
    /// How long after its end the next one begins a new row.
    pub forgive: Duration,
}

/// Who is banned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
        /// What the key is hashed under.
        secret: KeySecret,
        /// The key.
        hash: KeyHash,
    },
}

/// What banned keys are hashed under. Its own text does not show it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeySecret(pub(super) [u8; 16]);

impl KeySecret {
    /// The one of all gates with this secret of the operator.
    pub fn of_operator(secret: &[u8]) -> KeySecret {
        let mut first = [0; 16];
        first.iter_mut().zip(subkey(secret, b"tidegate bans: keys")).for_each(|(to, from)| *to = from);
        KeySecret(first)
    }

    /// One that no other process has, derived from the seed.
    pub fn of_seed(seed: &Seed) -> KeySecret {
        let [low, high] = KeyHasher::new(&seed.derive("bans")).finish().halves();
        KeySecret((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(‹secret›)")
    }
}

impl Ban {
    pub(super) fn new((number, turn): (u32, u32), order: Order, ends: u64, refused: u64) -> Ban {
        let Order { target, given, until, by, why, automatic, in_row, elsewhere } = order;
        Ban {
            number,
            target,
            given,
            until,
            ends,
            turn,
            by: text_of(&by),
            why: text_of(&why),
            automatic,
            in_row,
            elsewhere,
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
