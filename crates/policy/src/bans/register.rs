//! Gives and lifts bans.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::ban::{Ban, InRow, KeySecret, LONGEST_TEXT, MOST_AUTOMATIC, MOST_BANS, MOST_REMEMBERED, Order, Target};
use super::offences::{Offence, Offences, Offender, Sentence};
use super::shared::{Record, joined};
use super::table::BanTable;
use crate::client::ban_terms::BanTerms;
use crate::units::time::saturating_nanos;
use crate::units::{Bytes, Prefix, Timestamp};

/// Banned keys may be hashed under so many secrets: a request is hashed under each. Gates with one secret of the operator have one, two
/// while that changes.
const MOST_SECRETS: usize = 4;

/// The most memory that all bans take, while one table is made beside the one in force: an entry with three texts, and a network
/// of IPv6 in each table, twice while that is made. Then what is remembered.
pub const MEMORY: Bytes = Bytes(
    (MOST_BANS * (size_of::<Ban>() + 3 * LONGEST_TEXT + 2 * 2 * NETWORK)
        + MOST_REMEMBERED * (size_of::<Record>() + LONGEST_TEXT)) as u64,
);

/// A network of IPv6 with its position, and its part of the list above.
const NETWORK: usize = size_of::<(u128, u128, u32)>() + size_of::<u128>() + size_of::<(Prefix, u32)>();

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
    elsewhere: AtomicU64,
    /// Increases with each change that other gates are to know.
    revision: AtomicU64,
}

/// How many bans were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// By operators.
    pub ordered: u64,
    /// By penalties.
    pub automatic: u64,
    /// On other gates.
    pub elsewhere: u64,
}

/// What other gates brought, for the log.
#[derive(Debug, Default)]
pub struct News {
    /// The bans that they gave.
    pub given: Vec<Arc<Ban>>,
    /// The bans that they lifted.
    pub lifted: Vec<Arc<Ban>>,
    /// How many bans found no room here.
    pub left_out: usize,
}

/// What all gates are to know.
#[derive(Debug)]
pub struct Merged {
    /// All of it.
    pub records: Vec<Record>,
    /// Whether some of it was not received.
    pub differs: bool,
    /// The [revision](Bans::revision) of this gate's bans that are in it.
    pub revision: u64,
}

/// All bans, on their way to another process or from there.
#[derive(Debug)]
pub(super) struct All<B> {
    /// What this process hashes keys under.
    pub secret: KeySecret,
    /// The number of the next ban.
    pub next: u32,
    /// The bans.
    pub bans: Vec<B>,
    /// What took the place of bans that other gates may still know.
    pub remembered: Vec<Record>,
}

#[derive(Debug)]
struct Orders {
    /// What keys are hashed under from now on. Handed over with the bans.
    secret: KeySecret,
    /// The number of the next ban.
    next: u32,
    /// What took the place of bans that other gates may still know: each of another target.
    remembered: Vec<Record>,
    /// What was not told yet.
    news: News,
}

impl Bans {
    /// No ban. Keys are hashed under this secret.
    pub fn new(secret: KeySecret) -> Bans {
        Bans {
            table: ArcSwap::from_pointee(BanTable::new(secret, Vec::new())),
            orders: Mutex::new(Orders { secret, next: 1, remembered: Vec::new(), news: News::default() }),
            offences: Offences::new(),
            ordered: AtomicU64::new(0),
            automatic: AtomicU64::new(0),
            elsewhere: AtomicU64::new(0),
            revision: AtomicU64::new(0),
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
        let ban = orders.put(&mut bans, order, now)?;
        self.replace(&orders, bans);
        self.changed();
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
        for Sentence { network, length, strikes, in_row } in due {
            let (target, until) = (Target::Network(network), now.after(length));
            if room == 0 || bans.iter().any(|ban| ban.target == target && ban.until >= until) {
                continue;
            }
            let InRow { limit, nth, .. } = &in_row;
            let more = if *nth > 1 { format!(", ban {nth} in a row") } else { String::new() };
            let why = format!("sent {strikes} requests under the penalty of `{limit}` without a pause{more}");
            let by = format!("limit {limit} (automatic)");
            let order =
                Order { target, given: wall, until, by, why, automatic: true, in_row: Some(in_row), elsewhere: false };
            let Ok(ban) = orders.put(&mut bans, order, now) else { break };
            room -= 1;
            given.push(ban);
        }
        self.replace(&orders, bans);
        self.changed();
        self.automatic.fetch_add(given.len() as u64, Ordering::Relaxed);
        given
    }

    /// How many were given by this process.
    pub fn given(&self) -> Given {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Given { ordered: load(&self.ordered), automatic: load(&self.automatic), elsewhere: load(&self.elsewhere) }
    }

    /// Lifts every ban that is wanted, and forgets the bans before it. Returns these. `wall`: nanoseconds since 1970.
    pub fn lift(&self, wanted: impl Fn(&Ban) -> bool, now: Timestamp, wall: u64) -> Vec<Arc<Ban>> {
        let mut orders = self.orders.lock();
        let (lifted, kept): (Vec<_>, Vec<_>) = self.list(now).into_iter().partition(|ban| wanted(ban));
        if !lifted.is_empty() {
            self.replace(&orders, kept);
            for ban in lifted.iter().filter(|ban| Record::is_shared(&ban.target)) {
                orders.remember(Record::lifted(ban, wall), wall);
            }
            self.changed();
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

    /// A number that is another after each change that other gates are to know.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Takes in what other gates know, and returns what all gates are to know. Networks that are `spared` are not banned by other gates'
    /// penalties. `wall`: nanoseconds since 1970, at `now`.
    pub fn merge(&self, received: Vec<Record>, spared: impl Fn(Prefix) -> bool, now: Timestamp, wall: u64) -> Merged {
        let mut orders = self.orders.lock();
        let bans = self.list(now);
        let mut by_target: HashMap<Target, Arc<Ban>> = bans.into_iter().map(|ban| (ban.target.clone(), ban)).collect();
        let mut news = News::default();
        for record in received.iter().filter(|record| record.known_until > wall) {
            let Record { target, rank, by, why, in_row, .. } = record;
            let banned = by_target.get(target).map(|ban| Record::of(ban));
            let own = banned.into_iter().chain(orders.remembered(target).cloned()).max_by_key(|own| own.rank);
            if let Some(own) = own.filter(|own| own.rank >= *rank) {
                // as long as the other gate's
                orders.remember(Record { known_until: record.known_until, ..own }, wall);
                continue;
            }
            if !record.bans_at(wall) {
                news.lifted.extend(by_target.remove(target));
                orders.remember(record.clone(), wall);
                continue;
            }
            let is_spared = matches!(target, Target::Network(network) if !rank.ordered && spared(*network));
            if is_spared || !has_room(&by_target, record, orders.secret) {
                news.left_out += usize::from(!is_spared);
                continue;
            }
            let until = now.after(Duration::from_nanos(rank.ends - wall));
            if let (Target::Network(network), Some(in_row)) = (target, in_row) {
                let given = now.nanos().saturating_sub(wall.saturating_sub(rank.given));
                self.offences.learn(*network, in_row, Timestamp::from_nanos(given), until);
            }
            let (by, why, automatic, in_row) = (by.clone(), why.clone(), !rank.ordered, in_row.clone());
            let given = rank.given;
            let order = Order { target: target.clone(), given, until, by, why, automatic, in_row, elsewhere: true };
            let before = by_target.remove(target);
            let known_until = before.as_ref().map_or(0, |ban| ban.ends).max(record.known_until);
            let (number, refused) = before.map_or((orders.next, 0), |ban| (ban.number, ban.refused()));
            orders.next = orders.next.max(number.saturating_add(1));
            orders.remember(Record { known_until, ..record.clone() }, wall);
            let ban = Arc::new(Ban::new((number, rank.turn), order, rank.ends, refused));
            by_target.insert(target.clone(), Arc::clone(&ban));
            news.given.push(ban);
        }
        for ban in &news.lifted {
            if let Target::Network(network) = ban.target {
                self.offences.forget(network);
            }
        }
        let own = by_target.values().filter(|ban| Record::is_shared(&ban.target)).map(|ban| Record::of(ban));
        let own = own.chain(orders.remembered.iter().cloned()).collect();
        if !news.given.is_empty() || !news.lifted.is_empty() {
            self.elsewhere.fetch_add(news.given.len() as u64, Ordering::Relaxed);
            self.replace(&orders, by_target.into_values().collect());
            // for gates that share another store, or have another secret
            self.changed();
        }
        orders.tell(news);
        // orders wait meanwhile: it is the revision of what is returned
        let revision = self.revision();
        let (records, differs) = joined(own, received, wall);
        Merged { records, differs, revision }
    }

    /// What other gates brought since the last call.
    pub fn news(&self) -> News {
        std::mem::take(&mut self.orders.lock().news)
    }

    /// What another process is to have, or a file: what holds at `now`.
    pub(super) fn all(&self, now: Timestamp) -> All<Arc<Ban>> {
        let orders = self.orders.lock();
        All { secret: orders.secret, next: orders.next, bans: self.list(now), remembered: orders.remembered.clone() }
    }

    /// The clients that penalties have banned.
    pub(super) fn offenders(&self) -> Vec<(Offender, Offence)> {
        self.offences.banned()
    }

    /// Takes over bans of another process, in the place of its own.
    pub(super) fn take_over(&self, all: All<Ban>, offenders: Vec<(Offender, Offence)>) {
        let All { secret, next, mut bans, mut remembered } = all;
        self.offences.take_over(offenders);
        bans.truncate(MOST_BANS);
        remembered.truncate(MOST_REMEMBERED);
        let mut orders = self.orders.lock();
        (orders.secret, orders.remembered) = (secret, remembered);
        orders.next = next.max(orders.next);
        self.replace(&orders, bans.into_iter().map(Arc::new).collect());
        self.changed();
    }

    fn replace(&self, orders: &Orders, bans: Vec<Arc<Ban>>) {
        self.table.store(Arc::new(BanTable::new(orders.secret, bans)));
    }

    fn changed(&self) {
        // Release: whoever sees the number sees the change
        self.revision.fetch_add(1, Ordering::Release);
    }
}

impl Orders {
    /// Puts a ban among others, in the place of the one of the same target.
    fn put(&mut self, bans: &mut Vec<Arc<Ban>>, order: Order, now: Timestamp) -> Result<Arc<Ban>, Full> {
        let known = bans.iter().position(|ban| ban.target == order.target).map(|at| bans.swap_remove(at));
        if bans.len() >= MOST_BANS {
            return Err(Full);
        }
        let (number, refused) = known.as_ref().map_or((self.next, 0), |known| (known.number, known.refused()));
        let remembered = self.remembered(&order.target);
        let turn = known.as_ref().map(|known| known.turn).max(remembered.map(|record| record.rank.turn));
        self.next = self.next.max(number.saturating_add(1));
        let (wall, ends) = (order.given, order.given.saturating_add(saturating_nanos(order.until.since(now))));
        let ban = Arc::new(Ban::new((number, turn.unwrap_or(0).saturating_add(1)), order, ends, refused));
        let known_until = known.map_or(0, |known| known.ends).max(ends);
        self.remember(Record { known_until, ..Record::of(&ban) }, wall);
        bans.push(Arc::clone(&ban));
        Ok(ban)
    }

    fn remembered(&self, target: &Target) -> Option<&Record> {
        self.remembered.iter().find(|record| record.target == *target)
    }

    /// Remembers this record of a target, as long as an earlier one may be known elsewhere. A ban is known by itself until it ends.
    fn remember(&mut self, mut record: Record, wall: u64) {
        let before = self.remembered(&record.target).map_or(0, |before| before.known_until);
        record.known_until = record.known_until.max(before);
        self.remembered.retain(|known| known.target != record.target && known.known_until > wall);
        if !record.rank.lifted && record.known_until <= record.rank.ends || !Record::is_shared(&record.target) {
            return;
        }
        if self.remembered.len() >= MOST_REMEMBERED {
            let first = self.remembered.iter().enumerate().min_by_key(|(_, record)| record.known_until);
            if let Some((at, _)) = first {
                self.remembered.swap_remove(at);
            }
        }
        self.remembered.push(record);
    }

    /// Adds to the news, of which no more are kept than there are bans.
    fn tell(&mut self, mut news: News) {
        self.news.given.append(&mut news.given);
        self.news.lifted.append(&mut news.lifted);
        self.news.left_out += news.left_out;
        self.news.given.truncate(MOST_BANS);
        self.news.lifted.truncate(MOST_BANS);
    }
}

/// Returns whether there is room for a ban of another gate.
fn has_room(bans: &HashMap<Target, Arc<Ban>>, record: &Record, own: KeySecret) -> bool {
    let secret = |target: &Target| match target {
        Target::Key { secret, .. } => Some(*secret),
        Target::Network(_) | Target::Client { .. } => None,
    };
    if let Some(new) = secret(&record.target).filter(|new| *new != own) {
        let mut others: Vec<KeySecret> = bans.keys().filter_map(secret).filter(|known| *known != own).collect();
        others.sort_unstable();
        others.dedup();
        if !others.contains(&new) && others.len() + 1 >= MOST_SECRETS {
            return false;
        }
    }
    let of_same = bans.get(&record.target);
    let automatic = || bans.values().filter(|ban| ban.automatic).count();
    of_same.is_some() || bans.len() < MOST_BANS && (record.rank.ordered || automatic() < MOST_AUTOMATIC)
}
