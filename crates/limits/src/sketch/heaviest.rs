//! The keys that weigh most in a stream, such as those refused most, in fixed memory and with a stated error.
//!
//! The Space-Saving summary of Metwally, Agrawal and El Abbadi, *Efficient computation of frequent and top-k elements in
//! data streams* (2005): so many counters; a key that has none takes over the smallest, and its count with it as possible
//! error. Summaries merge (Agarwal, Cormode, Huang, Phillips, Wei and Yi, *Mergeable summaries*, 2012), so each worker
//! keeps its own and nobody waits for anybody. Not a limiter: nothing is decided by it.
//!
//! **Promise**, with m counters and a total weight N, one summary or many merged: a key's weight is at most its count, and at
//! least its count less its error; the error is at most N/m; every key with more than N/m of the weight is listed. At the
//! default size m is 1,024.
//!
//! **Recently.** All weights, the total and the errors halve at each full [`Heaviest::HALVING`] of time, a minute: a
//! weight counts for what it was, half of it after the next turn of a minute, a thousandth after ten. The promise holds for such weights. A
//! reset would forget a flood at every turn, and name whoever came first after it.

// Three numbers keep the promise, through every step below: (1) `total ≥ Σ (count − floor) + m·floor`, the sum over the
// listed, so that floor ≤ total/m; (2) whoever is not listed weighs at most `floor`; (3) whoever is weighs `count − error` to
// `count`. For a merge add the floors F = Σ floorᵢ. A key with more than N/m that was not among the m largest would leave m keys
// with more than N/m − F above their floors each, N − m·F together, which by (1) is more than there is.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use foldhash::fast::FixedState;

use super::hash::KeyHash;
use crate::saved::{Fault, Reader, Writer};
use crate::units::{Bytes, Timestamp};

/// A summary of a stream of (rule, key) pairs with weights. `T` is what the listing shows of a key, which its hash does not
/// tell: a masked prefix, say.
#[derive(Debug)]
pub struct Heaviest<T> {
    capacity: usize,
    /// In the order of their arrival; a counter stays at its place and is only handed to another key.
    counters: Vec<Counter<T>>,
    /// Places in `counters` as a binary heap, the smallest count first.
    heap: Vec<usize>,
    /// Where a key's counter is. Room for twice the capacity, so that it never grows.
    places: HashMap<(u32, KeyHash), usize, FixedState>,
    /// Both in [`FRACTION`]s.
    total: u64,
    floor: u64,
    /// How many halvings were due by the latest stamp.
    halvings: u64,
}

#[derive(Debug, Clone, Copy)]
struct Counter<T> {
    rule: u32,
    key: KeyHash,
    payload: T,
    /// In [`FRACTION`]s, and so is the error.
    count: u64,
    error: u64,
    last_seen: Timestamp,
    /// Its place in the heap.
    rank: usize,
}

/// One line of the listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<T> {
    /// The rule that refused it.
    pub rule: u32,
    /// The key's hash under that rule.
    pub key: KeyHash,
    /// What was given with the key when it got its counter.
    pub payload: T,
    /// At least the key's weight, rounded up.
    pub count: u64,
    /// By how much the count may be too high, rounded up.
    pub error: u64,
    /// The latest stamp of the key.
    pub last_seen: Timestamp,
}

impl<T: Copy> Heaviest<T> {
    /// Counters of a summary, unless told otherwise: a key with a thousandth of all weight is worth naming.
    pub const DEFAULT_CAPACITY: usize = 1_024;

    /// How long it takes for a weight to count half.
    pub const HALVING: Duration = Duration::from_secs(60);

    /// An empty summary of `capacity` counters, at least one, which allocates all it will ever need.
    pub fn with_capacity(capacity: usize) -> Heaviest<T> {
        let capacity = capacity.max(1);
        Heaviest {
            capacity,
            counters: Vec::with_capacity(capacity),
            heap: Vec::with_capacity(capacity),
            places: HashMap::with_capacity_and_hasher(2 * capacity, FixedState::default()),
            total: 0,
            floor: 0,
            halvings: 0,
        }
    }

    /// Adds `weight` to the key, in logarithmic time. `payload` is kept if the key has no counter yet. A stamp that steps
    /// back counts as the latest one.
    pub fn offer(&mut self, now: Timestamp, rule: u32, key: KeyHash, payload: T, weight: u32) {
        self.advance(now);
        let weight = u64::from(weight) * FRACTION;
        self.total = self.total.saturating_add(weight);
        if let Some(place) = self.places.get(&(rule, key)).copied() {
            if let Some(counter) = self.counters.get_mut(place) {
                counter.count = counter.count.saturating_add(weight);
                counter.last_seen = counter.last_seen.max(now);
                let rank = counter.rank;
                self.sink(rank);
            }
            return;
        }
        if self.counters.len() < self.capacity {
            let floor = self.floor;
            let counter = Counter {
                rule,
                key,
                payload,
                count: floor.saturating_add(weight),
                error: floor,
                last_seen: now,
                rank: 0,
            };
            self.append(counter);
            return;
        }
        let Some(place) = self.heap.first().copied() else { return };
        let Some(counter) = self.counters.get_mut(place) else { return };
        self.places.remove(&(counter.rule, counter.key));
        self.places.insert((rule, key), place);
        self.floor = self.floor.max(counter.count);
        let error = counter.count;
        *counter = Counter {
            rule,
            key,
            payload,
            count: error.saturating_add(weight),
            error,
            last_seen: now,
            rank: counter.rank,
        };
        self.sink(0);
    }

    /// Lets time pass: halves everything once for each full minute since the summary's last stamp.
    pub fn advance(&mut self, now: Timestamp) {
        let due = now.nanos() / (Self::HALVING.as_nanos() as u64);
        let halvings = due.saturating_sub(self.halvings);
        if halvings == 0 {
            return;
        }
        self.halvings = due;
        if halvings >= 64 {
            // nothing is left of any weight
            self.counters.clear();
            self.heap.clear();
            self.places.clear();
            (self.total, self.floor) = (0, 0);
        }
        for _ in 0..halvings.min(64) {
            // a count grows by rounding as half of a 2^-20, an error by a whole one; the total by as much for each counter
            let rounding = if self.total == 0 { 0 } else { 2 * self.capacity as u64 };
            self.total = self.total.saturating_add(rounding).div_ceil(2);
            self.floor = self.floor.div_ceil(2);
            for counter in &mut self.counters {
                // what is certain is rounded down; the order of the heap stays as it is
                let certain = (counter.count - counter.error) / 2;
                counter.count = counter.count.div_ceil(2);
                counter.error = counter.count - certain;
            }
        }
    }

    /// One summary of all the parts' streams as they weigh at `now`, with the capacity of the smallest. Allocates: not for
    /// the path of a request.
    pub fn merge(now: Timestamp, parts: &[&Heaviest<T>]) -> Heaviest<T> {
        let capacity = parts.iter().map(|part| part.capacity).min().unwrap_or(1);
        // as of the latest, if a worker's stamp is ahead of `now`
        let latest = parts.iter().map(|part| part.halvings).max().unwrap_or(0);
        let mut merged = Heaviest::with_capacity(capacity);
        merged.halvings = latest.max(now.nanos() / (Self::HALVING.as_nanos() as u64));
        let aged: Vec<Heaviest<T>> = parts.iter().map(|part| part.aged(merged.halvings)).collect();
        let floors: u64 = aged.iter().map(|part| part.floor).sum();
        merged.total = aged.iter().fold(0, |total, part| total.saturating_add(part.total));

        // a key that a part does not list weighs up to the part's floor there
        let mut sums: HashMap<(u32, KeyHash), Counter<T>, FixedState> = HashMap::default();
        for part in &aged {
            for counter in &part.counters {
                let sum = sums.entry((counter.rule, counter.key)).or_insert(Counter {
                    count: floors,
                    error: floors,
                    ..*counter
                });
                sum.count = sum.count.saturating_add(counter.count.saturating_sub(part.floor));
                sum.error = sum.error.saturating_add(counter.error).saturating_sub(part.floor);
                sum.last_seen = sum.last_seen.max(counter.last_seen);
            }
        }
        let mut sums: Vec<Counter<T>> = sums.into_values().collect();
        sums.sort_unstable_by_key(|sum| (std::cmp::Reverse(sum.count), sum.rule, sum.key));
        merged.floor = sums.get(capacity).map_or(floors, |first_left_out| first_left_out.count);
        sums.into_iter().take(capacity).for_each(|sum| merged.append(sum));
        merged
    }

    /// The listing, heaviest first, of the keys that weigh one or more. Allocates.
    pub fn entries(&self) -> Vec<Entry<T>> {
        let listed = self.counters.iter().filter(|counter| counter.count >= FRACTION);
        let mut entries: Vec<Entry<T>> = listed
            .map(|counter| Entry {
                rule: counter.rule,
                key: counter.key,
                payload: counter.payload,
                count: counter.count.div_ceil(FRACTION),
                error: counter.error.div_ceil(FRACTION),
                last_seen: counter.last_seen,
            })
            .collect();
        entries.sort_unstable_by_key(|entry| (std::cmp::Reverse(entry.count), entry.rule, entry.key));
        entries
    }

    /// The weight of all keys together, rounded up.
    pub fn total(&self) -> u64 {
        self.total.div_ceil(FRACTION)
    }

    /// The bound on the error of every entry, and on the weight of every key that is not listed, rounded up. At most
    /// [`Heaviest::total`] over [`Heaviest::capacity`].
    pub fn error_bound(&self) -> u64 {
        let smallest = self.heap.first().and_then(|place| self.counters.get(*place)).map_or(0, |counter| counter.count);
        let unlisted = if self.counters.len() < self.capacity { self.floor } else { self.floor.max(smallest) };
        unlisted.div_ceil(FRACTION)
    }

    /// How many keys are counted at a time.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The memory of the counters and of what finds them, as far as a hash map tells: 204 KiB at the default size with a
    /// payload of a word.
    pub fn memory(&self) -> Bytes {
        let counter = size_of::<Counter<T>>() + size_of::<usize>();
        // the standard map fills seven of eight of a power of two of slots, each with one byte beside it
        let slots = (2 * self.capacity * 8).div_ceil(7).next_power_of_two();
        let slot = size_of::<((u32, KeyHash), usize)>() + 1;
        Bytes((self.capacity * counter + slots * slot) as u64)
    }

    /// Writes the summary, each payload as words.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save<const WORDS: usize>(&self, to: &mut Writer<'_>, words: impl Fn(&T) -> [u64; WORDS]) -> io::Result<()> {
        for number in [self.total, self.floor, self.halvings, self.counters.len() as u64] {
            to.number(number)?;
        }
        self.counters.iter().try_for_each(|counter| {
            let [low, high] = counter.key.halves();
            let own = [u64::from(counter.rule), low, high, counter.count, counter.error, counter.last_seen.nanos()];
            own.iter().chain(&words(&counter.payload)).try_for_each(|word| to.number(*word))
        })
    }

    /// Reads what was [saved](Heaviest::save) of one with the same capacity, into an empty one.
    ///
    /// # Errors
    /// Damaged bytes, more counters than this one has, and a payload that is none.
    pub fn restore<const WORDS: usize>(
        &mut self,
        from: &mut Reader<'_>,
        payload: impl Fn([u64; WORDS]) -> Option<T>,
    ) -> Result<(), Fault> {
        const NONE: Fault = Fault::Unfit("a summary has what it cannot have");
        (self.total, self.floor, self.halvings) = (from.number()?, from.number()?, from.number()?);
        for _ in 0..from.number_up_to(self.capacity as u64)? {
            let rule = u32::try_from(from.number()?).map_err(|_| NONE)?;
            let key = KeyHash::from_halves([from.number()?, from.number()?]);
            let (count, error) = (from.number()?, from.number()?);
            let last_seen = Timestamp::from_nanos(from.number()?);
            let mut words = [0; WORDS];
            words.iter_mut().try_for_each(|word| from.number().map(|number| *word = number))?;
            let payload = payload(words).ok_or(NONE)?;
            if error > count || self.places.contains_key(&(rule, key)) {
                return Err(NONE);
            }
            self.append(Counter { rule, key, payload, count, error, last_seen, rank: 0 });
        }
        Ok(())
    }

    fn aged(&self, halvings: u64) -> Heaviest<T> {
        let mut aged = Heaviest {
            capacity: self.capacity,
            counters: self.counters.clone(),
            heap: Vec::new(),
            places: HashMap::default(),
            total: self.total,
            floor: self.floor,
            halvings: self.halvings,
        };
        let stamp = halvings.saturating_mul(Self::HALVING.as_nanos() as u64);
        aged.advance(Timestamp::from_nanos(stamp));
        aged
    }

    /// Puts a counter at the end and lets it rise.
    fn append(&mut self, counter: Counter<T>) {
        let place = self.counters.len();
        self.places.insert((counter.rule, counter.key), place);
        self.counters.push(Counter { rank: place, ..counter });
        self.heap.push(place);
        let mut rank = place;
        while rank > 0 && self.count_at(rank) < self.count_at((rank - 1) / 2) {
            self.exchange(rank, (rank - 1) / 2);
            rank = (rank - 1) / 2;
        }
    }

    /// Lets the counter at `rank`, which has grown, sink below the smaller ones.
    fn sink(&mut self, mut rank: usize) {
        loop {
            let left = 2 * rank + 1;
            let child = if self.count_at(left + 1) < self.count_at(left) { left + 1 } else { left };
            // a rank beyond the last counts as the largest, so that nothing sinks below it
            if self.count_at(child) >= self.count_at(rank) {
                return;
            }
            self.exchange(rank, child);
            rank = child;
        }
    }

    fn count_at(&self, rank: usize) -> u64 {
        self.heap.get(rank).and_then(|place| self.counters.get(*place)).map_or(u64::MAX, |counter| counter.count)
    }

    fn exchange(&mut self, a: usize, b: usize) {
        let (Some(at_a), Some(at_b)) = (self.heap.get(a).copied(), self.heap.get(b).copied()) else { return };
        for (rank, place) in [(a, at_b), (b, at_a)] {
            if let Some(slot) = self.heap.get_mut(rank) {
                *slot = place;
            }
            if let Some(counter) = self.counters.get_mut(place) {
                counter.rank = rank;
            }
        }
    }
}

/// Counts are kept in 2^-20 of a unit, so that halving them again and again is exact for twenty minutes; that leaves room
/// for a total of 1.7·10¹³ units, at which it saturates.
const FRACTION: u64 = 1 << 20;

#[cfg(test)]
mod tests;
