//! Gives and lifts bans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::ban::{Ban, LONGEST_TEXT, Order, Target};
use super::offences::{Offence, Offences, Offender, Sentence};
use super::table::BanTable;
use crate::client::ban_terms::BanTerms;
use crate::sketch::{KeyHasher, Seed};
use crate::units::{Bytes, Prefix, Timestamp};

/// So many bans are in force at a time. Longer lists belong in a file of `deny:`.
pub const MOST_BANS: usize = 4_096;

/// So many of them are those of penalties: operators always find room.
pub const MOST_AUTOMATIC: usize = 3_072;

/// The most memory that all bans take, while one table is made beside the one in force: an entry with three texts, and two ranges
/// of IPv6 in each table.
pub const MEMORY: Bytes = Bytes((MOST_BANS * (size_of::<Ban>() + 3 * LONGEST_TEXT + 2 * 2 * RANGE)) as u64);

/// A range of IPv6 with its position, and its part of the list above.
const RANGE: usize = size_of::<(u128, u128, u32)>() + size_of::<u128>() + size_of::<(Prefix, u32)>();

/// There are [`MOST_BANS`] already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// All bans of a process.
#[derive(Debug)]
pub struct Bans {
    table: ArcSwap<BanTable>,
    /// Held by whoever makes the next table, never by a request.
    orders: Mutex<Orders>,
    offences: Offences,
    ordered: AtomicU64,
    automatic: AtomicU64,
}

/// How many bans were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// By operators.
    pub ordered: u64,
    /// By penalties.
    pub automatic: u64,
}

#[derive(Debug)]
struct Orders {
    /// Names keys. Handed over with them, as the hashes mean nothing without it.
    secret: [u8; 16],
    /// The number of the next ban.
    next: u32,
}

impl Bans {
    /// No ban. Keys are hashed under a secret derived from the seed.
    pub fn new(seed: &Seed) -> Bans {
        let [low, high] = KeyHasher::new(&seed.derive("bans")).finish().halves();
        let secret = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        let table = ArcSwap::from_pointee(BanTable::new(Seed::from_bytes(secret), Vec::new()));
        Bans {
            table,
            orders: Mutex::new(Orders { secret, next: 1 }),
            offences: Offences::new(),
            ordered: AtomicU64::new(0),
            automatic: AtomicU64::new(0),
        }
    }

    /// The bans in force, as of now. Waits for nobody.
    #[inline]
    pub fn table(&self) -> Guard<Arc<BanTable>> {
        self.table.load()
    }

    /// Gives a ban, in the place of the one of the same target, whose number and count it keeps. Returns it.
    ///
    /// # Errors
    /// There are too many.
    pub fn give(&self, order: Order, now: Timestamp) -> Result<Arc<Ban>, Full> {
        let mut orders = self.orders.lock();
        let mut bans = self.list(now);
        let ban = orders.put(&mut bans, order)?;
        self.replace(&orders, bans);
        self.ordered.fetch_add(1, Ordering::Relaxed);
        Ok(ban)
    }

    /// Notes a request of a client in this network that a penalty refused. Waits for nobody and allocates nothing.
    #[inline]
    pub fn strike(&self, network: Prefix, terms: &Arc<BanTerms>, now: Timestamp) {
        self.offences.strike(network, terms, now);
    }

    /// Gives the bans that penalties have brought, to all but `spared` networks. Returns these. A longer ban of the same client stays,
    /// and none is given where there are [`MOST_AUTOMATIC`]. Call it about once a second. `wall`: nanoseconds since 1970.
    pub fn settle(&self, spared: impl Fn(Prefix) -> bool, now: Timestamp, wall: u64) -> Vec<Arc<Ban>> {
        if self.offences.is_settled() {
            return Vec::new();
        }
        let due = self.offences.settle(spared);
        if due.is_empty() {
            return Vec::new();
        }
        let mut orders = self.orders.lock();
        let mut bans = self.list(now);
        let mut room = MOST_AUTOMATIC.saturating_sub(bans.iter().filter(|ban| ban.automatic).count());
        let mut given = Vec::new();
        for Sentence { network, limit, length, strikes, nth } in due {
            let (target, until) = (Target::Network(network), now.after(length));
            if room == 0 || bans.iter().any(|ban| ban.target == target && ban.until >= until) {
                continue;
            }
            let more = if nth > 1 { format!(", ban {nth} in a row") } else { String::new() };
            let why = format!("sent {strikes} requests under the penalty of `{limit}` without a pause{more}");
            let by = format!("limit {limit} (automatic)");
            let order = Order { target, given: wall, until, by, why, automatic: true };
            let Ok(ban) = orders.put(&mut bans, order) else { break };
            room -= 1;
            given.push(ban);
        }
        self.replace(&orders, bans);
        self.automatic.fetch_add(given.len() as u64, Ordering::Relaxed);
        given
    }

    /// How many were given by this process.
    pub fn given(&self) -> Given {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Given { ordered: load(&self.ordered), automatic: load(&self.automatic) }
    }

    /// Lifts every ban that is wanted, and forgets the bans before it. Returns these.
    pub fn lift(&self, wanted: impl Fn(&Ban) -> bool, now: Timestamp) -> Vec<Arc<Ban>> {
        let orders = self.orders.lock();
        let (lifted, kept): (Vec<_>, Vec<_>) = self.list(now).into_iter().partition(|ban| wanted(ban));
        if !lifted.is_empty() {
            self.replace(&orders, kept);
        }
        for ban in &lifted {
            if let Target::Network(network) = ban.target {
                self.offences.forget(network);
            }
        }
        lifted
    }

    /// Clears away the bans that have ended. Returns these. Call it about once a second.
    pub fn clear_ended(&self, now: Timestamp) -> Vec<Arc<Ban>> {
        // the one that ends first stands first
        if self.table.load().bans().first().is_none_or(|ban| ban.until > now) {
            return Vec::new();
        }
        let orders = self.orders.lock();
        let all = self.table.load().bans().to_vec();
        let (kept, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(|ban| ban.until > now);
        self.replace(&orders, kept);
        ended
    }

    /// The bans that hold at `now`; the one that ends first comes first.
    pub fn list(&self, now: Timestamp) -> Vec<Arc<Ban>> {
        self.table.load().bans().iter().filter(|ban| ban.until > now).cloned().collect()
    }

    /// The secret of the keys, the number of the next ban, and the bans that hold at `now`.
    pub(super) fn all(&self, now: Timestamp) -> ([u8; 16], u32, Vec<Arc<Ban>>) {
        let orders = self.orders.lock();
        (orders.secret, orders.next, self.list(now))
    }

    /// The clients that penalties have banned.
    pub(super) fn offenders(&self) -> Vec<(Offender, Offence)> {
        self.offences.banned()
    }

    /// Takes over bans of another process, in the place of its own.
    pub(super) fn take_over(
        &self,
        secret: [u8; 16],
        next: u32,
        mut bans: Vec<Ban>,
        offenders: Vec<(Offender, Offence)>,
    ) {
        self.offences.take_over(offenders);
        bans.truncate(MOST_BANS);
        let mut orders = self.orders.lock();
        orders.secret = secret;
        orders.next = next.max(orders.next);
        self.replace(&orders, bans.into_iter().map(Arc::new).collect());
    }

    fn replace(&self, orders: &Orders, bans: Vec<Arc<Ban>>) {
        self.table.store(Arc::new(BanTable::new(Seed::from_bytes(orders.secret), bans)));
    }
}

impl Orders {
    /// Puts a ban among others, in the place of the one of the same target.
    fn put(&mut self, bans: &mut Vec<Arc<Ban>>, order: Order) -> Result<Arc<Ban>, Full> {
        let known = bans.iter().position(|ban| ban.target == order.target).map(|at| bans.swap_remove(at));
        if bans.len() >= MOST_BANS {
            return Err(Full);
        }
        let (number, refused) = known.map_or((self.next, 0), |known| (known.number, known.refused()));
        self.next = self.next.max(number.saturating_add(1));
        let ban = Arc::new(Ban::new(number, order, refused));
        bans.push(Arc::clone(&ban));
        Ok(ban)
    }
}
