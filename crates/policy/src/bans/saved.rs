//! Bans on their way to another process: over an upgrade, or by a file.
//!
//! Holds addresses and the secret of banned keys: for the process that takes this one's place, and for files that nobody else reads.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::ban::{Ban, Order, Target};
use super::offences::{MOST_OFFENDERS, Offence, Offender};
use super::register::{Bans, MOST_BANS};
use crate::client::{ClientNetwork, Mark};
use crate::saved::{Fault, Key, Reader, Writer};
use crate::sketch::KeyHash;
use crate::units::{Prefix, Timestamp};

/// Bytes of the longest document that is read.
pub const LONGEST: usize = MOST_BANS * 2_048 + MOST_OFFENDERS * 512;

/// The version of the file. Increase it with every change of [`Saved`] that an earlier version would read wrongly.
const VERSION: u32 = 1;

/// The only section of the file.
const SECTION: &str = "bans";

/// The bans of a process. Times are those of the wall clock, so they mean the same to every process of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    secret: [u8; 16],
    /// The number of the next ban.
    next: u32,
    bans: Vec<SavedBan>,
    /// Clients that penalties have banned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    offenders: Vec<SavedOffender>,
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
    refused: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedTarget {
    Network(std::net::IpAddr, u8),
    Client { network: Option<(std::net::IpAddr, u8)>, mark: String },
    Key { limit: String, hash: [u64; 2] },
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
        let (secret, next, bans) = bans.all(now);
        let saved = bans.iter().map(|ban| SavedBan {
            number: ban.number,
            target: SavedTarget::of(&ban.target),
            given: ban.given,
            until: origin.saturating_add(ban.until.nanos()),
            by: ban.by.clone(),
            why: ban.why.clone(),
            automatic: ban.automatic,
            refused: ban.refused(),
        });
        Saved { secret, next, bans: saved.collect(), offenders }
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
            let SavedBan { number, target, given, until, by, why, automatic, refused } = saved;
            let target = target.read().ok_or("a ban of an unknown form")?;
            let order = Order { target, given, until: stamp(until), by, why, automatic };
            if order.until > now {
                restored.push(Ban::new(number, order, refused));
            }
        }
        let count = restored.len();
        let offender = |saved: SavedOffender| {
            let network = Prefix::new(saved.network.0, saved.network.1).ok()?;
            Some(((network, saved.limit), Offence::of(saved.bans, stamp(saved.until))))
        };
        let offenders = self.offenders.into_iter().filter_map(offender).collect();
        bans.take_over(self.secret, self.next, restored, offenders);
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

impl SavedTarget {
    fn of(target: &Target) -> SavedTarget {
        let parts = |network: &Prefix| (network.address(), network.length());
        match target {
            Target::Network(network) => SavedTarget::Network(network.address(), network.length()),
            Target::Client { network: ClientNetwork::Prefix(network), mark } => {
                SavedTarget::Client { network: Some(parts(network)), mark: mark.as_str().to_owned() }
            }
            Target::Client { network: ClientNetwork::Unix, mark } => {
                SavedTarget::Client { network: None, mark: mark.as_str().to_owned() }
            }
            Target::Key { limit, hash } => SavedTarget::Key { limit: limit.clone(), hash: hash.halves() },
        }
    }

    fn read(self) -> Option<Target> {
        const MARKS: [Mark; 4] = [Mark::Verified, Mark::Degraded, Mark::Short, Mark::AllTrusted];
        Some(match self {
            SavedTarget::Network(address, length) => Target::Network(Prefix::new(address, length).ok()?),
            SavedTarget::Client { network, mark } => Target::Client {
                network: match network {
                    Some((address, length)) => ClientNetwork::Prefix(Prefix::new(address, length).ok()?),
                    None => ClientNetwork::Unix,
                },
                mark: MARKS.into_iter().find(|known| known.as_str() == mark)?,
            },
            SavedTarget::Key { limit, hash } => Target::Key { limit, hash: KeyHash::from_halves(hash) },
        })
    }
}
