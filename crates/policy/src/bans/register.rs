//! Gives and lifts bans.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::ban::{Ban, LONGEST_TEXT, Order};
use super::table::BanTable;
use crate::sketch::{KeyHasher, Seed};
use crate::units::{Bytes, Prefix, Timestamp};

/// So many bans are in force at a time. Longer lists belong in a file of `deny:`.
pub const MOST_BANS: usize = 4_096;

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
        Bans { table, orders: Mutex::new(Orders { secret, next: 1 }) }
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
        let known = bans.iter().position(|ban| ban.target == order.target).map(|at| bans.swap_remove(at));
        if bans.len() >= MOST_BANS {
            return Err(Full);
        }
        let (number, refused) = known.map_or((orders.next, 0), |known| (known.number, known.refused()));
        orders.next = orders.next.max(number.saturating_add(1));
        let ban = Arc::new(Ban::new(number, order, refused));
        bans.push(Arc::clone(&ban));
        self.replace(&orders, bans);
        Ok(ban)
    }

    /// Lifts every ban that is wanted. Returns these.
    pub fn lift(&self, wanted: impl Fn(&Ban) -> bool, now: Timestamp) -> Vec<Arc<Ban>> {
        let orders = self.orders.lock();
        let (lifted, kept): (Vec<_>, Vec<_>) = self.list(now).into_iter().partition(|ban| wanted(ban));
        if !lifted.is_empty() {
            self.replace(&orders, kept);
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

    /// Takes over bans of another process, in the place of its own.
    pub(super) fn take_over(&self, secret: [u8; 16], next: u32, mut bans: Vec<Ban>) {
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
