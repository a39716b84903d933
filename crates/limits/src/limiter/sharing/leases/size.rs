//! How much to ask for, and how long not to: the demand of a key, counted in one word, and what follows from it.
//!
//! The counts are hints. They may be lost in races and wrap after 17 minutes; no promise rests on them.

use super::super::Promise;
use super::words::{LEAD_NANOS, LIFE, LONG_LIFE, MOST_TOKENS};
use crate::units::Timestamp;

const SECOND: u64 = 1_000_000_000;

/// Questions about a spent key come at most so often, where its tokens come back faster: 20 per second and gate.
const PAUSE: u64 = 50_000_000;

/// The most tokens in stock.
const MOST_STOCK: u64 = 4;

/// A count: 20 bits.
const MOST: u32 = (1 << 20) - 1;

/// The number of a second: 10 bits.
const SECONDS: u16 = (1 << 10) - 1;

/// What was asked of a key, in this second and the one before; and what the store had left of it when it last granted some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    second: u16,
    before: u32,
    current: u32,
    /// See [`Few`].
    left: Few,
}

/// A number in 14 bits, rounded down to nine of its own: at most a 256th too low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Few(u16);

impl Few {
    fn new(number: u32) -> Few {
        let beyond = (32 - number.leading_zeros()).saturating_sub(9);
        Few((beyond << 9 | number >> beyond) as u16)
    }

    fn number(self) -> u32 {
        u32::from(self.0 & 511) << (self.0 >> 9)
    }
}

impl Demand {
    pub fn of(word: u64) -> Demand {
        let count = |shift: u32| (word >> shift) as u32 & MOST;
        let (second, left) = ((word >> 54) as u16, Few((word & 0x3fff) as u16));
        Demand { second, before: count(34), current: count(14), left }
    }

    pub fn word(self) -> u64 {
        let count = |count: u32, shift: u32| u64::from(count.min(MOST)) << shift;
        u64::from(self.second & SECONDS) << 54
            | count(self.before, 34)
            | count(self.current, 14)
            | u64::from(self.left.0)
    }

    /// What the store had left, about.
    pub fn left(self) -> u32 {
        self.left.number()
    }

    /// With so much left in the store.
    pub fn with_left(self, left: u32) -> Demand {
        Demand { left: Few::new(left), ..self }
    }

    /// Only this cost, now.
    pub fn first(cost: u32, now: Timestamp) -> Demand {
        Demand { second: second(now), before: 0, current: cost, left: Few::default() }
    }

    /// With one request more.
    pub fn plus(self, cost: u32, now: Timestamp) -> Demand {
        let moved = self.moved(now);
        Demand { current: moved.current.saturating_add(cost).min(MOST), ..moved }
    }

    /// The cost that was asked for in about the last second: all of this one's, and as much of the one before as the last
    /// second overlaps with it.
    pub fn per_second(self, now: Timestamp) -> u32 {
        let moved = self.moved(now);
        let rest = SECOND - now.nanos() % SECOND;
        // below 2²⁰ times 2³⁰
        moved.current + (u64::from(moved.before) * rest / SECOND) as u32
    }

    /// Whether nobody has asked for the key during this second and the one before.
    pub fn is_over(self, now: Timestamp) -> bool {
        let moved = self.moved(now);
        moved.before == 0 && moved.current == 0
    }

    fn moved(self, now: Timestamp) -> Demand {
        let second = second(now);
        match second.wrapping_sub(self.second) & SECONDS {
            // a stamp from before the change of the second counts for the new one
            0 | SECONDS => self,
            1 => Demand { second, before: self.current, current: 0, ..self },
            _ => Demand { second, before: 0, current: 0, ..self },
        }
    }
}

fn second(now: Timestamp) -> u16 {
    (now.nanos() / SECOND) as u16 & SECONDS
}

/// What a gate may hold of any key of a limit, whatever is asked for: it follows from the promise and the number of gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// A quarter of the gate's part of what can be had at once: the most that it holds, unless one request costs more.
    pub part: u32,
    /// How long a lease lives at most, in nanoseconds: [`LIFE`] or [`LONG_LIFE`].
    pub life: u64,
    /// So many tokens are held of a key that is asked for seldom. If all of them die with each lease, at every gate, that is at most
    /// a twentieth of what comes back meanwhile.
    pub stock: u32,
}

impl Terms {
    pub fn new(promise: &Promise, nodes: u32) -> Terms {
        let nodes = nodes.max(1);
        let part = promise.most() / nodes.saturating_mul(4);
        let life = match promise {
            // all that gates can hold comes back in half a LIFE: so the promise is no greater for tokens that live longer
            Promise::Rate { rate, .. } => {
                let most = u64::from(nodes).saturating_mul(u64::from(part.max(1)));
                if rate.interval_nanos().saturating_mul(most) <= LIFE / 2 { LONG_LIFE } else { LIFE }
            }
            Promise::Quota { .. }
            | Promise::Sliding { .. }
            | Promise::Calendar { .. }
            | Promise::Places { .. }
            | Promise::Values { .. } => LONG_LIFE,
        };
        let back = match promise {
            Promise::Rate { rate, .. } => life / rate.interval_nanos().max(1),
            Promise::Quota { max, window }
            | Promise::Sliding { max, window }
            | Promise::Calendar { max, nominal: window, .. } => {
                let back = u128::from(*max) * u128::from(life) / window.as_nanos().max(1);
                u64::try_from(back).unwrap_or(u64::MAX)
            }
            // none is taken in advance
            Promise::Places { .. } => 0,
            // a value that counts passes as often as it comes
            Promise::Values { .. } => return Terms { part: MOST_TOKENS, life, stock: MOST_TOKENS },
        };
        let stock = (back / u64::from(nodes) / 20).min(MOST_STOCK) as u32;
        Terms { part, life, stock: stock.min(part) }
    }

    /// How much a gate wants to hold of a key: what it needs in 0.2 s, or the stock if that is more, at most its part, and at least
    /// `cost`.
    pub fn lease(&self, demand: u32, cost: u32) -> u32 {
        (demand / 5).max(self.stock).min(self.part).min(MOST_TOKENS).max(cost)
    }

    /// From how few tokens on somebody asks in the background: a quarter of the lease; of a small one the last two, so that one is
    /// left while a question is on its way. Without a stock it is the last, and none of a key that is asked for less than five times in
    /// a life, or twice in a second of a long one: tokens would die too often.
    pub fn mark(&self, size: u32, demand: u32) -> u32 {
        match self.stock {
            // nobody asks in the background about a value: what is asked about counts
            MOST_TOKENS => 0,
            0 if demand < if self.life > LIFE { 2 } else { 5 } => 0,
            0 | 1 => (size / 4).max(1),
            _ => (size / 4).max(2),
        }
    }
}

/// How long a spent key is left alone at least: the time in which a lease of this size comes back, at most [`PAUSE`]. So a
/// question finds several tokens where they come back fast.
pub(super) fn pause(size: u32, promise: &Promise) -> u64 {
    match promise {
        Promise::Rate { rate, .. } => rate.interval_nanos().saturating_mul(u64::from(size)).min(PAUSE),
        _ => 0,
    }
}

/// For how many nanoseconds a key that has just been emptied is known to be spent, if that is not too long to be said of a
/// client that keeps to its rate; `ends` is the rest of the window, and `took` what the answer took. There will be something
/// [`LEAD_NANOS`] before that.
pub(super) fn spent_for(size: u32, promise: &Promise, (ends, took): (u64, u64)) -> Option<u64> {
    match promise {
        // part of a token may be there already: where one is long in coming, that part is too much to be kept waiting for,
        // but asking again would take as long
        Promise::Rate { rate, .. } => {
            let interval = rate.interval_nanos();
            (interval <= PAUSE.max(took)).then(|| pause(size, promise).max(interval + LEAD_NANOS))
        }
        Promise::Quota { .. } | Promise::Calendar { .. } => Some(ends.saturating_add(LEAD_NANOS)),
        // only the store knows how much of the window before still counts
        Promise::Sliding { .. } | Promise::Places { .. } | Promise::Values { .. } => None,
    }
}

/// How much longer a cost has to wait than one that is `less`.
pub(super) fn longer(less: u32, cost: u32, promise: &Promise) -> u64 {
    match promise {
        Promise::Rate { rate, .. } => rate.interval_nanos().saturating_mul(u64::from(cost.saturating_sub(less))),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::units::Rate;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn rate(events: u32, burst: u32) -> Promise {
        Promise::Rate { rate: Rate::new(events, Duration::from_secs(1)).unwrap(), burst }
    }

    #[test]
    fn demand_is_that_of_the_last_second() {
        let demand = (0..100).fold(Demand::first(0, at(5000)), |demand, n| demand.plus(2, at(5000 + n)));
        assert_eq!(Demand::of(demand.word()), demand);
        assert_eq!(demand.per_second(at(5999)), 200);
        assert_eq!(demand.per_second(at(6250)), 150);
        assert_eq!(demand.per_second(at(7000)), 0);
        assert!(!demand.is_over(at(6999)) && demand.is_over(at(7000)));
    }

    #[test]
    fn what_is_left_in_the_store_is_kept_to_nine_bits() {
        let numbers = (0..2_000).chain((0..32).map(|bits| u32::MAX >> bits)).chain([95, 1_000_000]);
        for number in numbers {
            let said = Demand::of(Demand::first(3, at(1000)).with_left(number).plus(4, at(2000)).word()).left();
            assert!(said <= number && number - said <= number / 256, "{number}: {said}");
        }
    }

    #[test]
    fn a_stamp_from_the_second_before_forgets_nothing() {
        let demand = Demand::first(7, at(5000));
        assert_eq!(demand.plus(1, at(4999)).per_second(at(5500)), 8);
    }

    fn lease(demand: u32, cost: u32, promise: &Promise, nodes: u32) -> u32 {
        Terms::new(promise, nodes).lease(demand, cost)
    }

    #[test]
    fn a_lease_is_a_fifth_of_a_second_within_a_quarter_of_the_part() {
        assert_eq!(lease(500, 1, &rate(1000, 1000), 1), 100);
        assert_eq!(lease(5000, 1, &rate(1000, 1000), 4), 62);
        assert_eq!(lease(0, 30, &rate(1000, 1000), 4), 30);
        assert_eq!(lease(u32::MAX, 1, &rate(1000, u32::MAX), 0), MOST_TOKENS);
    }

    #[test]
    fn the_stock_of_all_gates_is_a_twentieth_of_what_comes_back_while_it_lives() {
        // at 4 s each
        let stock = |events, nodes| Terms::new(&rate(events, events), nodes).stock;
        assert_eq!([9, 10, 14, 15, 20, 1_000_000].map(|events| stock(events, 2)), [0, 1, 1, 1, 2, 4]);
        assert_eq!([4, 5, 10].map(|events| stock(events, 1)), [0, 1, 2]);
        let quota = |max, nodes| Terms::new(&Promise::Quota { max, window: Duration::from_secs(60) }, nodes).stock;
        assert_eq!([599, 600, 1_200, 9_999].map(|max| quota(max, 2)), [0, 1, 2, 4].map(|stock| stock.min(75)));
        // and never more than the part
        assert_eq!(Terms::new(&rate(1_000, 7), 1).stock, 1);
        assert_eq!(Terms::new(&rate(1_000, 3), 1).stock, 0);
    }

    #[test]
    fn a_lease_lives_longer_only_where_all_that_gates_hold_comes_back_within_half_a_second() {
        let life = |events, burst, nodes| Terms::new(&rate(events, burst), nodes).life / SECOND;
        assert_eq!([200, 203, 204].map(|burst| life(100, burst, 1)), [4, 4, 1]);
        assert_eq!([life(10, 10, 5), life(10, 10, 6)], [4, 1]);
    }

    #[test]
    fn the_next_lease_is_fetched_ahead_where_one_that_dies_is_little() {
        let mark = |size, demand, promise: &Promise| Terms::new(promise, 5).mark(size, demand);
        assert_eq!([0, 1, 3, 5].map(|demand| mark(1, demand, &rate(24, 100))), [0, 0, 0, 1]);
        assert_eq!([0, 1, 3, 5].map(|demand| mark(1, demand, &rate(25, 25))), [1; 4]);
        assert_eq!([4, 7, 12, 40].map(|size| mark(size, 1, &rate(1_000, 1_000))), [2, 2, 3, 10]);
    }

    #[test]
    fn a_pause_is_long_enough_for_what_it_waits_for() {
        assert_eq!(pause(100, &rate(1000, 1000)), PAUSE);
        assert_eq!(pause(3, &rate(1000, 1000)), 3_000_000);
        assert_eq!(spent_for(1, &rate(1000, 10), (u64::MAX, 0)), Some(1_000_000 + LEAD_NANOS));
        assert_eq!(spent_for(100, &rate(1000, 1000), (u64::MAX, 0)), Some(PAUSE));
        assert_eq!(spent_for(9, &rate(10, 10), (u64::MAX, 99_999_999)), None);
        assert_eq!(spent_for(9, &rate(10, 10), (u64::MAX, 100_000_000)), Some(100_000_000 + LEAD_NANOS));
    }
}
