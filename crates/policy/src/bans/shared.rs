//! Bans of all gates that share a store: what gates tell each other, and which of two orders counts.
//!
//! A gate knows one [`Record`] of a target: that it is banned, or that its ban was lifted. Of two records of a target the one of the
//! higher [`Rank`] counts. A rank never falls and ranks have one order on all gates, so gates that have told each other everything know
//! the same, in whatever order they heard it. A record is remembered until all bans have ended that it took the place of: until then a
//! gate that was away may still know one of those.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::ban::{Ban, InRow, LONGEST_TEXT, MOST_BANS, MOST_REMEMBERED, Target, text_of};
use super::saved_target::SavedTarget;
use crate::client::ClientNetwork;

/// What is known of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who.
    pub target: Target,
    /// Which of two records counts.
    pub rank: Rank,
    /// How long an earlier record of the target may be known somewhere, in nanoseconds since 1970; at least until the ban ends. Of two
    /// records the later time counts.
    pub known_until: u64,
    /// Who gave the ban; nobody of one that was lifted.
    pub by: String,
    /// The reason.
    pub why: String,
    /// Which of those of its limit, of a ban by a penalty.
    pub in_row: Option<InRow>,
}

/// Which of two records of a target counts: the greater one. Fields are compared from the first on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// One more than that of the record that was known when the order was given. So an order counts more than any that its gate knew,
    /// whatever clocks say.
    pub turn: u32,
    /// Whether an operator gave the order. Of two that did not know of each other an operator's counts.
    pub ordered: bool,
    /// When it was given, in nanoseconds since 1970.
    pub given: u64,
    /// When the ban ends, in nanoseconds since 1970.
    pub ends: u64,
    /// Whether the ban was lifted.
    pub lifted: bool,
}

/// A record as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    target: SavedTarget,
    turn: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ordered: bool,
    given: u64,
    ends: u64,
    known_until: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lifted: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_row: Option<InRow>,
}

impl Record {
    /// What is known of a ban.
    pub(super) fn of(ban: &Ban) -> Record {
        let Ban { target, turn, automatic, given, ends, by, why, in_row, .. } = ban;
        let rank = Rank { turn: *turn, ordered: !automatic, given: *given, ends: *ends, lifted: false };
        let (by, why, in_row) = (by.clone(), why.clone(), in_row.clone());
        Record { target: target.clone(), rank, known_until: *ends, by, why, in_row }
    }

    /// What is known of a ban that an operator lifted.
    pub(super) fn lifted(ban: &Ban, given: u64) -> Record {
        let rank = Rank { turn: ban.turn.saturating_add(1), ordered: true, given, ends: ban.ends, lifted: true };
        let (by, why) = (String::new(), String::new());
        Record { target: ban.target.clone(), rank, known_until: ban.ends, by, why, in_row: None }
    }

    /// Returns whether it says that its target is banned at this time.
    pub(super) fn bans_at(&self, wall: u64) -> bool {
        !self.rank.lifted && self.rank.ends > wall
    }

    /// Returns whether other gates can know the target. Clients of UNIX sockets are of one machine.
    pub(super) fn is_shared(target: &Target) -> bool {
        !matches!(target, Target::Client { network: ClientNetwork::Unix, .. })
    }
}

/// The records that are to be shared: those of both lists that somebody may need at `wall`, of a target the one that counts. Where there are
/// too many, those of penalties and those that end soon are left out, by every gate alike. Says whether any of them is not among those that
/// were `received`.
pub(super) fn joined(own: Vec<Record>, received: Vec<Record>, wall: u64) -> (Vec<Record>, bool) {
    let standing = |record: &Record| (record.rank, record.known_until);
    let known: HashMap<Target, _> = received.iter().map(|record| (record.target.clone(), standing(record))).collect();
    let mut all: HashMap<Target, Record> = HashMap::new();
    for record in received.into_iter().chain(own).filter(|record| record.known_until > wall) {
        match all.get_mut(&record.target) {
            Some(other) => {
                let known_until = other.known_until.max(record.known_until);
                if other.rank < record.rank {
                    *other = record;
                }
                other.known_until = known_until;
            }
            None => drop(all.insert(record.target.clone(), record)),
        }
    }
    let (mut banned, mut remembered): (Vec<_>, Vec<_>) = all.into_values().partition(|record| record.bans_at(wall));
    let first = |record: &Record| std::cmp::Reverse((record.rank.ordered, record.known_until, record.rank));
    for (list, most) in [(&mut remembered, MOST_REMEMBERED), (&mut banned, MOST_BANS)] {
        list.sort_by_key(first);
        list.truncate(most);
    }
    banned.append(&mut remembered);
    let differs = banned.iter().any(|record| known.get(&record.target) != Some(&standing(record)));
    (banned, differs)
}

/// Writes records: they hold addresses and the secret of banned keys.
pub fn encode(records: &[Record]) -> Vec<u8> {
    // texts, numbers and bytes can be written
    serde_json::to_vec(&records.iter().map(Written::of).collect::<Vec<_>>()).unwrap_or_default()
}

/// Reads records; `None` if these bytes are none. More than there can be are left out.
pub fn decode(bytes: &[u8]) -> Option<Vec<Record>> {
    let written: Vec<Written> = serde_json::from_slice(bytes).ok()?;
    let most = MOST_BANS + MOST_REMEMBERED;
    Some(written.into_iter().take(most).filter_map(Written::read).collect())
}

impl Written {
    pub fn of(Record { target, rank, known_until, by, why, in_row }: &Record) -> Written {
        let Rank { turn, ordered, given, ends, lifted } = *rank;
        let (target, known_until) = (SavedTarget::of(target), *known_until);
        let (by, why, in_row) = (by.clone(), why.clone(), in_row.clone());
        Written { target, turn, ordered, given, ends, known_until, lifted, by, why, in_row }
    }

    pub fn read(self) -> Option<Record> {
        let Written { target, turn, ordered, given, ends, known_until, lifted, by, why, in_row } = self;
        let target = target.read(None).filter(Record::is_shared)?;
        let rank = Rank { turn, ordered, given, ends, lifted };
        let in_row = in_row.map(|in_row| InRow { limit: text_of(&in_row.limit), ..in_row });
        Some(Record { target, rank, known_until: known_until.max(ends), by: text_of(&by), why: text_of(&why), in_row })
    }
}

/// Bytes of the longest list of records: two texts that are escaped, and a limit's name.
pub const LONGEST: usize = (MOST_BANS + MOST_REMEMBERED) * (4 * LONGEST_TEXT + 512);

#[cfg(test)]
mod tests;
