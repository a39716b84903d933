//! Bans on their way to another process: over an upgrade, or by a file.
//!
//! Holds addresses and the secret of banned keys: for the process that takes this one's place, and for files that nobody else reads.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::ban::{Ban, InRow, KeySecret, MOST_BANS, MOST_REMEMBERED, Order, Target};
use super::offences::{MOST_OFFENDERS, Offence, Offender};
use super::register::{All, Bans};
use super::saved_target::SavedTarget;
use super::shared::Written;
use crate::saved::{Fault, Key, Reader, Writer};
use crate::units::{Prefix, Timestamp};

/// Bytes of the longest document that is read.
pub const LONGEST: usize = MOST_BANS * 2_048 + (MOST_OFFENDERS + MOST_REMEMBERED) * 512;

/// The version of the file. Increase it with every change of [`Saved`] that an earlier version would read wrongly.
const VERSION: u32 = 1;

/// The only section of the file.
const SECTION: &str = "bans";

/// The bans of a process. Times are those of the wall clock, so they mean the same to every process of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// What keys are hashed under that do not say it.
    secret: KeySecret,
    /// The number of the next ban.
    next: u32,
    bans: Vec<SavedBan>,
    /// Clients that penalties have banned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    offenders: Vec<SavedOffender>,
    /// What took the place of bans that other gates may still know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remembered: Vec<Written>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedOffender {
    network: (std::net::IpAddr, u8),
    limit: String,
    /// Bans in a row.
    bans: u32,
    /// When the last of them ends, in nanoseconds since 1970.
    until: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedBan {
    number: u32,
    target: SavedTarget,
    /// Nanoseconds since 1970.
    given: u64,
    until: u64,
    by: String,
    why: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    automatic: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_row: Option<InRow>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    elsewhere: bool,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    turn: u32,
    refused: u64,
}

fn first() -> u32 {
    1
}

fn is_first(turn: &u32) -> bool {
    *turn == first()
}

impl Saved {
    /// The bans that hold at `now`. `origin`: the wall clock's time at the origin of all stamps, in nanoseconds since 1970.
    pub fn of(bans: &Bans, now: Timestamp, origin: u64) -> Saved {
        let offender = |((network, limit), offence): (Offender, Offence)| SavedOffender {
            network: (network.address(), network.length()),
            limit,
            bans: offence.bans,
            until: origin.saturating_add(offence.until.nanos()),
        };
        let offenders = bans.offenders().into_iter().map(offender).collect();
        let All { secret, next, bans, remembered } = bans.all(now);
        let target = |target: &Target| SavedTarget::of(target).without(secret);
        let saved = bans.iter().map(|ban| SavedBan {
            number: ban.number,
            target: target(&ban.target),
            given: ban.given,
            until: ban.ends,
            by: ban.by.clone(),
            why: ban.why.clone(),
            automatic: ban.automatic,
            in_row: ban.in_row.clone(),
            elsewhere: ban.elsewhere,
            turn: ban.turn,
            refused: ban.refused(),
        });
        let remembered = remembered.iter().map(Written::of).collect();
        Saved { secret, next, bans: saved.collect(), offenders, remembered }
    }

    /// Returns whether no ban was ever given.
    pub fn is_blank(&self) -> bool {
        self.next <= 1 && self.bans.is_empty()
    }

    /// Puts these bans in the place of those that are there. `origin`: as above, of this process. Bans that have ended stay out.
    ///
    /// # Errors
    /// A target that this version does not know, or a network that is none: nothing has changed then.
    pub fn restore(self, bans: &Bans, now: Timestamp, origin: u64) -> Result<usize, &'static str> {
        let stamp = |wall: u64| Timestamp::from_nanos(wall.saturating_sub(origin));
        let mut restored = Vec::new();
        for saved in self.bans {
            let SavedBan { number, target, given, until, by, why, automatic, in_row, elsewhere, turn, refused } = saved;
            let target = target.read(Some(self.secret)).ok_or("a ban of an unknown form")?;
            let order = Order { target, given, until: stamp(until), by, why, automatic, in_row, elsewhere };
            if order.until > now {
                restored.push(Ban::new((number, turn), order, until, refused));
            }
        }
        let remembered = self.remembered.into_iter().filter_map(Written::read).collect();
        let count = restored.len();
        let offender = |saved: SavedOffender| {
            let network = Prefix::new(saved.network.0, saved.network.1).ok()?;
            Some(((network, saved.limit), Offence::of(saved.bans, stamp(saved.until))))
        };
        let offenders = self.offenders.into_iter().filter_map(offender).collect();
        bans.take_over(All { secret: self.secret, next: self.next, bans: restored, remembered }, offenders);
        Ok(count)
    }

    /// Writes them as a file that is checked under this key when it is read.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn write(&self, to: &mut dyn Write, key: &Key) -> io::Result<()> {
        let mut writer = Writer::of_version(to, key, VERSION)?;
        writer.begin(SECTION)?;
        writer.text(&serde_json::to_string(self)?)?;
        writer.end()?;
        writer.finish().map(drop)
    }

    /// Reads what [`Saved::write`] wrote.
    ///
    /// # Errors
    /// A damaged file, or one of another key or version.
    pub fn read(from: &mut dyn Read, key: &Key) -> Result<Saved, Fault> {
        let mut reader = Reader::of_version(from, key, VERSION)?;
        if reader.begin()?.as_deref() != Some(SECTION) {
            return Err(Fault::Unfit("there are no bans in it"));
        }
        let text = reader.text(LONGEST)?;
        reader.end()?;
        if reader.begin()?.is_some() {
            return Err(Fault::Unfit("there is more in it than bans"));
        }
        serde_json::from_str(&text).map_err(|_| Fault::Unfit("its bans cannot be read"))
    }
}
