//! The exact frontier of (rate, burst) pairs, in one pass over the requests.
//!
//! For a rate r, the smallest burst with which a client is **never** limited is the peak of its backlog
//! W ← max(0, W − r·Δt) + cost (Lindley's recursion). So the backlog and its peak per client, for every rate of a grid,
//! are all that has to be kept: no candidate is simulated, and every burst has its answer at the end.
//!
//! **Exact**, because the backlog is kept as the limiter keeps it: a [`Bucket`]'s level in nanoseconds, charged by the
//! bucket itself. As long as a limiter refuses nothing its level is this one, so it first refuses at the first request
//! whose charged level lies more than burst · interval ahead; and that there is one is what the peak says. Stamps that
//! step back, equal stamps and intervals rounded to nanoseconds come out as they do when serving.
//!
//! It counts who would be limited *at all*. How many requests a limited client would lose depends on what it was
//! refused before, and takes a second pass ([`Trial`](super::trial::Trial)).
//!
//! Source: D. V. Lindley, *The theory of queues with a single server* (1952); EXPERIENCE 6.3.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::sketch::{Bucket, KeyHash, Meter};
use crate::units::{Cost, OutOfRange, Rate, Timestamp};

/// Backlogs of all clients at a grid of rates.
#[derive(Debug)]
pub struct Frontier {
    rates: Vec<Rate>,
    buckets: Vec<Bucket>,
    clients: Clients,
    ways: Vec<Way>,
    /// `rates` of them for each client that has any.
    cells: Vec<Cell>,
    free: Vec<u32>,
    most: usize,
    requests: u64,
    beyond: u64,
    folded: bool,
}

type Clients = HashMap<KeyHash, u32, FixedState>;

/// What is known of one client.
#[derive(Debug, Clone, Copy)]
struct Way {
    requests: u64,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// One request so far, which says it all: most clients of many logs never send another.
    Once { cost: Cost, at: Timestamp },
    /// Followed at every rate, in the cells of this position.
    Followed(u32),
    /// At rest, after never having needed more than [`Frontier::FLOOR`] at any rate.
    Quiet,
    /// There was no room to follow it.
    Beyond,
}

/// A backlog at one rate.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    /// The bucket's level.
    level: u64,
    /// The furthest that a charged level ever lay ahead of its request, in nanoseconds.
    peak: u64,
}

impl Frontier {
    /// So many clients are followed at once unless the caller says otherwise.
    pub const MOST_CLIENTS: usize = 5_000_000;

    /// The floor: when there is no more room, clients that are at rest and never needed a larger burst than this are
    /// followed no more, and taken for ones that needed just this. What is said of larger bursts stays exact, if stamps
    /// come in their order as those of a replay do.
    pub const FLOOR: u32 = 3;

    /// No client yet. Of the memory, 16 bytes per rate and client is the greatest part; a client with a single request
    /// takes none of it.
    ///
    /// # Errors
    /// A rate that a limit cannot have with [`Frontier::FLOOR`] as its burst.
    pub fn new(rates: Vec<Rate>, most: usize) -> Result<Frontier, OutOfRange> {
        let buckets = rates.iter().map(|rate| Bucket::new(*rate, Self::FLOOR)).collect::<Result<_, _>>()?;
        Ok(Frontier {
            rates,
            buckets,
            clients: Clients::default(),
            ways: Vec::new(),
            cells: Vec::new(),
            free: Vec::new(),
            most,
            requests: 0,
            beyond: 0,
            folded: false,
        })
    }

    /// Counts one request of a client.
    pub fn observe(&mut self, client: KeyHash, now: Timestamp, cost: Cost) {
        self.requests += 1;
        // positions are 32 bits wide; whoever has more clients than that has no room for them
        let next = u32::try_from(self.ways.len()).unwrap_or(u32::MAX);
        let index = *self.clients.entry(client).or_insert(next) as usize;
        let Some(way) = self.ways.get_mut(index) else {
            self.ways.push(Way { requests: 1, state: State::Once { cost, at: now } });
            return;
        };
        way.requests += 1;
        match way.state {
            State::Followed(cells) => charge(&self.buckets, &mut self.cells, cells, now, cost),
            State::Beyond => self.beyond += 1,
            State::Once { cost: first, at } => self.follow(index, &[(at, first), (now, cost)], 0),
            State::Quiet => self.follow(index, &[(now, cost)], u64::from(Self::FLOOR)),
        }
    }

    /// Requests counted.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Clients seen.
    pub fn clients(&self) -> usize {
        self.ways.len()
    }

    /// The grid.
    pub fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// Whether bursts below [`Frontier::FLOOR`] are told too high, because room was needed.
    pub fn has_floor(&self) -> bool {
        self.folded
    }

    /// Requests of clients that could not be followed for want of room; of these clients nothing is known.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// The most requests of one client, and whose; none when there were none.
    pub fn busiest(&self) -> Option<(KeyHash, u64)> {
        let of = |(client, index): (&KeyHash, &u32)| Some((*client, self.ways.get(*index as usize)?.requests));
        self.clients.iter().filter_map(of).max_by_key(|(client, requests)| (*requests, client.halves()))
    }

    /// The peaks of all clients at the rate of this position, the highest first.
    pub fn column(&self, rate: usize) -> Option<Column> {
        let bucket = self.buckets.get(rate)?;
        let mut peaks: Vec<u64> = self.ways.iter().map(|way| self.peak(way, rate, bucket)).collect();
        peaks.sort_unstable_by_key(|peak| std::cmp::Reverse(*peak));
        Some(Column { rate: *self.rates.get(rate)?, interval: bucket.interval_nanos(), peaks })
    }

    /// The clients that a limit with the rate of this position and this burst would touch; in no order.
    pub fn touched(&self, rate: usize, burst: u32) -> Vec<KeyHash> {
        let Some(bucket) = self.buckets.get(rate) else { return Vec::new() };
        let depth = bucket.interval_nanos().saturating_mul(u64::from(burst));
        let over = |index: u32| self.ways.get(index as usize).is_some_and(|way| self.peak(way, rate, bucket) > depth);
        self.clients.iter().filter(|(_, index)| over(**index)).map(|(client, _)| *client).collect()
    }

    fn peak(&self, way: &Way, rate: usize, bucket: &Bucket) -> u64 {
        match way.state {
            State::Once { cost, .. } => bucket.interval_nanos().saturating_mul(u64::from(cost.get())),
            State::Followed(cells) => self.cells.get(cells as usize + rate).map_or(0, |cell| cell.peak),
            State::Quiet => bucket.depth_nanos(),
            State::Beyond => 0,
        }
    }

    /// Finds room for a client, and charges what it asked for. `floor`: the burst that it is known to have needed.
    fn follow(&mut self, index: usize, requests: &[(Timestamp, Cost)], floor: u64) {
        let cells = self.room(requests.last().map_or(Timestamp::ZERO, |(now, _)| *now));
        let Some(way) = self.ways.get_mut(index) else { return };
        let Some(cells) = cells else {
            way.state = State::Beyond;
            self.beyond += requests.len() as u64;
            return;
        };
        way.state = State::Followed(cells);
        for (bucket, cell) in self.buckets.iter().zip(self.cells.iter_mut().skip(cells as usize)) {
            *cell = Cell { level: 0, peak: bucket.interval_nanos().saturating_mul(floor) };
        }
        for (now, cost) in requests {
            charge(&self.buckets, &mut self.cells, cells, *now, *cost);
        }
    }

    /// Cells for one client more: free ones, new ones, or those of clients that need none any more.
    fn room(&mut self, now: Timestamp) -> Option<u32> {
        if let Some(cells) = self.free.pop() {
            return Some(cells);
        }
        let used = self.cells.len();
        if used / self.buckets.len().max(1) < self.most {
            self.cells.resize(used + self.buckets.len(), Cell::default());
            return u32::try_from(used).ok();
        }
        self.fold(now);
        self.free.pop()
    }

    /// Gives the cells of clients below the floor free.
    fn fold(&mut self, now: Timestamp) {
        self.folded = true;
        for way in &mut self.ways {
            let State::Followed(cells) = way.state else { continue };
            let of_client = self.cells.iter().skip(cells as usize).zip(&self.buckets);
            // at rest: the level of a client never seen judges every later request alike
            if of_client
                .into_iter()
                .all(|(cell, bucket)| cell.level <= now.nanos() && cell.peak <= bucket.depth_nanos())
            {
                way.state = State::Quiet;
                self.free.push(cells);
            }
        }
    }
}

fn charge(buckets: &[Bucket], cells: &mut [Cell], at: u32, now: Timestamp, cost: Cost) {
    for (bucket, cell) in buckets.iter().zip(cells.iter_mut().skip(at as usize)) {
        cell.level = bucket.charge(cell.level, now, cost);
        // a level at the end of time is refused whatever the burst
        let ahead = if cell.level == u64::MAX { u64::MAX } else { cell.level.saturating_sub(now.nanos()) };
        cell.peak = cell.peak.max(ahead);
    }
}

/// What every client would have needed at one rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The rate.
    pub rate: Rate,
    interval: u64,
    /// In nanoseconds of backlog, the highest first.
    peaks: Vec<u64>,
}

impl Column {
    /// The smallest burst, at least 1, with which at most so many clients are ever limited.
    pub fn burst(&self, touched: usize) -> u32 {
        let peak = self.peaks.get(touched).copied().unwrap_or_default();
        u32::try_from(peak.div_ceil(self.interval)).unwrap_or(u32::MAX).max(1)
    }

    /// How many clients a burst touches.
    pub fn touched(&self, burst: u32) -> usize {
        let depth = self.interval.saturating_mul(u64::from(burst));
        self.peaks.partition_point(|peak| *peak > depth)
    }

    /// The peak of the client at this position from the highest, in requests; not rounded. 0 beyond the last.
    pub fn peak(&self, position: usize) -> f64 {
        self.peaks.get(position).map_or(0.0, |peak| *peak as f64 / self.interval as f64)
    }

    /// Clients.
    pub fn clients(&self) -> usize {
        self.peaks.len()
    }
}

#[cfg(test)]
mod tests;
