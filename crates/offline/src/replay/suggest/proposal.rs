//! From a frontier to a proposal for each share, each with the promise that it makes; equal ones stand once.

use super::frontier::{Column, Frontier};
use crate::policy::Route;
use crate::sketch::Bucket;
use crate::units::{Rate, Share};

/// How strict a proposal is, in a word and as the share of clients that it may touch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// `strict`, `balanced`, `loose`, or `touch_1`, `touch_2` … by its place when the operator gave more or fewer than three.
    pub name: &'static str,
    /// Of all clients.
    pub share: Share,
}

impl Level {
    /// As many clients as the share of so many is, rounded down: a share below one client touches none.
    pub fn of(&self, clients: usize) -> usize {
        // 1 % of 500 must be 5 though 0.01 is no binary number: what lies a billionth below a whole number is one
        (self.share.get() * clients as f64 + 1e-9) as usize
    }

    /// Levels of these shares, strict first. Three have names of their own.
    pub fn all(shares: &[Share]) -> Vec<Level> {
        const THREE: [&str; 3] = ["strict", "balanced", "loose"];
        const NAMES: [&str; Level::MOST] = ["touch_1", "touch_2", "touch_3", "touch_4"];
        let mut shares = shares.to_vec();
        shares.sort_by(|a, b| b.get().total_cmp(&a.get()));
        shares.dedup();
        let names: &[&str] = if shares.len() == THREE.len() { &THREE } else { &NAMES };
        names.iter().zip(shares).map(|(name, share)| Level { name, share }).collect()
    }

    /// So many are told apart: a limit for each must fit on a route, and again one for each of the route's own class.
    pub const MOST: usize = Route::MAX_RULES / 2;
}

/// A limit that is proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// What was asked for.
    pub level: Level,
    /// So many clients were allowed to be touched: the share of all, rounded down.
    pub allowed: usize,
    /// The rate, and its place in the frontier's grid.
    pub rate: Rate,
    /// The place of the rate in the grid.
    pub column: usize,
    /// The smallest burst that touches no more than [`Proposal::allowed`] at this rate.
    pub exact_burst: u32,
    /// How many clients that one touches, exactly.
    pub exact_touched: usize,
    /// The burst that is proposed: one and a half times the exact one, and never less than a second's worth of the rate.
    pub burst: u32,
    /// How many clients this one touches, exactly.
    pub touched: usize,
}

/// What one rate would need.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The rate.
    pub rate: Rate,
    /// For each level: the smallest burst, and the clients that it touches.
    pub bursts: Vec<(u32, usize)>,
    /// The burst that half of all clients never exceed.
    pub median: u32,
    /// The burst that touches nobody.
    pub nobody: u32,
}

/// A burst is proposed so many halves larger than the log needed: tomorrow is not yesterday.
const SAFETY_HALVES: u64 = 3;

/// A client that used up its whole burst has it back within this, at the rates that are proposed.
const LONGEST_REFILL_SECONDS: f64 = 300.0;

/// The measure of a limit: what a client can get through in a minute. Of all limits that touch equally many clients the
/// one that lets the least through is proposed.
const MEASURED_SECONDS: f64 = 60.0;

/// What every rate of the frontier would need, the slowest first.
pub fn rows(frontier: &Frontier, levels: &[Level]) -> Vec<Row> {
    let columns = (0..frontier.rates().len()).filter_map(|rate| frontier.column(rate));
    columns.map(|column| row(&column, levels, least(frontier))).collect()
}

fn row(column: &Column, levels: &[Level], least: u32) -> Row {
    let clients = column.clients();
    let burst = |touched: usize| {
        let burst = column.burst(touched).max(least);
        (burst, column.touched(burst))
    };
    let median = clients / 2;
    Row {
        rate: column.rate,
        bursts: levels.iter().map(|level| burst(level.of(clients))).collect(),
        median: burst(median).0,
        nobody: burst(0).0,
    }
}

/// The smallest burst about which the frontier says something exact.
fn least(frontier: &Frontier) -> u32 {
    if frontier.has_floor() { Frontier::FLOOR } else { 1 }
}

/// The slowest rate that is proposed for requests that people make one after the other: a client over it waits a second, not
/// twelve. Logins, and what the operator singles out, may be slower.
pub const SLOWEST_PER_SECOND: f64 = 1.0;

/// A proposal for each level, from the rows of the same levels; none when there was no client. `span_seconds`: from the
/// first request to the last. `slowest`: requests per second below which no rate is proposed. A rate is proposed only where the log
/// is long enough to have seen its burst refill twice, and where a refill takes no more than five minutes; if there is no such
/// rate, the one that refills soonest. Levels that come to the same numbers have one proposal, that of the smallest share which is at
/// least one client.
pub fn proposals(
    frontier: &Frontier,
    rows: &[Row],
    levels: &[Level],
    span_seconds: f64,
    slowest: f64,
) -> Vec<Proposal> {
    let longest = LONGEST_REFILL_SECONDS.min(span_seconds / 2.0);
    let one = |(place, level): (usize, &Level)| {
        let candidates = rows.iter().enumerate().filter_map(|(column, row)| {
            let (exact_burst, exact_touched) = *row.bursts.get(place)?;
            let burst = proposed(row.rate, exact_burst);
            Bucket::new(row.rate, burst).ok().filter(|_| row.rate.per_second() >= slowest)?;
            Some((column, row.rate, exact_burst, exact_touched, burst))
        });
        let refill = |burst: u32, rate: Rate| f64::from(burst) / rate.per_second();
        let through = |burst: u32, rate: Rate| f64::from(burst) + MEASURED_SECONDS * rate.per_second();
        let (column, rate, exact_burst, exact_touched, burst) = candidates.min_by(|a, b| {
            let rank = |(_, rate, exact, _, burst): &(usize, Rate, u32, usize, u32)| {
                let refill = refill(*burst, *rate);
                if refill <= longest { (0.0, through(*exact, *rate)) } else { (refill, 0.0) }
            };
            let (a, b) = (rank(a), rank(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })?;
        let allowed = level.of(frontier.clients());
        let touched = frontier.column(column)?.touched(burst);
        Some(Proposal { level: *level, allowed, rate, column, exact_burst, exact_touched, burst, touched })
    };
    let all = levels.iter().enumerate().filter(|_| frontier.clients() > 0).filter_map(one);
    let mut proposals: Vec<Proposal> = Vec::new();
    for proposal in all {
        match proposals.last_mut() {
            // a share below one client touches nobody, as any other such share
            Some(last) if proposal.allowed == 0 && last.touched == 0 => {}
            Some(last) if (last.rate, last.burst) == (proposal.rate, proposal.burst) => *last = proposal,
            _ => proposals.push(proposal),
        }
    }
    proposals
}

/// The burst with its safety, and never so small that requests of one second are refused below the rate.
fn proposed(rate: Rate, exact: u32) -> u32 {
    let safe = (u64::from(exact) * SAFETY_HALVES).div_ceil(2);
    let second = rate.per_second().ceil() as u64;
    u32::try_from(safe.max(second)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::suggest::grid;
    use crate::sketch::{KeyHash, KeyHasher, Seed};
    use crate::units::{Cost, Timestamp};

    fn level(percent: f64) -> Level {
        Level { name: "x", share: Share::new(percent / 100.0).unwrap() }
    }

    fn key(name: u32) -> KeyHash {
        let mut hasher = KeyHasher::new(&Seed::from_bytes([7; 16]));
        hasher.part(1, &name.to_le_bytes());
        hasher.finish()
    }

    #[test]
    fn a_share_below_one_client_is_none() {
        assert_eq!(level(0.1).of(853), 0);
        assert_eq!(level(0.1).of(1_000), 1);
        assert_eq!(level(1.0).of(500), 5);
        assert_eq!(level(100.0).of(7), 7);
    }

    #[test]
    fn three_shares_have_names_and_stand_strict_first() {
        let shares = [0.0001, 0.01, 0.001].map(|share| Share::new(share).unwrap());
        let names: Vec<&str> = Level::all(&shares).iter().map(|level| level.name).collect();
        assert_eq!(names, ["strict", "balanced", "loose"]);
        assert_eq!(Level::all(&shares[..1])[0].name, "touch_1");
    }

    #[test]
    fn the_proposed_burst_is_half_as_much_again_and_a_second_at_least() {
        let rate = |events| Rate::new(events, std::time::Duration::from_secs(1)).unwrap();
        assert_eq!(proposed(rate(1), 5), 8);
        assert_eq!(proposed(rate(10), 4), 10);
        assert_eq!(proposed(rate(1), u32::MAX), u32::MAX);
    }

    #[test]
    fn a_rate_slower_than_the_log_can_show_is_not_proposed() {
        let mut frontier = Frontier::new(grid::rates(), 1_000).unwrap();
        // a hundred clients that send 20 requests at once, and again a minute later
        for minute in [0, 1] {
            for request in 0..2_000 {
                frontier.observe(key(request % 100), Timestamp::from_nanos(minute * 60_000_000_000), Cost::ONE);
            }
        }
        let levels = [level(1.0)];
        let rows = rows(&frontier, &levels);
        let proposals = proposals(&frontier, &rows, &levels, 60.0, 0.0);
        assert_eq!((proposals[0].rate.to_string().as_str(), proposals[0].exact_burst), ("1/s", 20));
        assert_eq!((proposals[0].burst, proposals[0].exact_touched, proposals[0].touched), (30, 0, 0));
    }

    #[test]
    fn equal_numbers_are_proposed_once_and_pages_no_slower_than_one_a_second() {
        let mut frontier = Frontier::new(grid::rates(), 1_000).unwrap();
        // two hundred clients that come ten times, once a minute
        for minute in 0..10 {
            for client in 0..200 {
                frontier.observe(key(client), Timestamp::from_nanos(minute * 60_000_000_000), Cost::ONE);
            }
        }
        let levels = [level(5.0), level(1.0), level(0.1)];
        let rows = rows(&frontier, &levels);
        let any = proposals(&frontier, &rows, &levels, 540.0, 0.0);
        assert_eq!(any.len(), 1, "{any:?}");
        // 0.1 % of two hundred is no client
        assert_eq!((any[0].level, any[0].rate.to_string().as_str()), (level(1.0), "1/m"));
        let quick = proposals(&frontier, &rows, &levels, 540.0, SLOWEST_PER_SECOND);
        assert_eq!(quick.len(), 1, "{quick:?}");
        assert_eq!(quick[0].rate.to_string(), "1/s");
    }

    #[test]
    fn no_client_no_proposal() {
        let frontier = Frontier::new(grid::rates(), 10).unwrap();
        let levels = [level(1.0)];
        assert!(proposals(&frontier, &rows(&frontier, &levels), &levels, 60.0, 0.0).is_empty());
    }
}
