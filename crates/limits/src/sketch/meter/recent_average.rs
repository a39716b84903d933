//! The recent average: a sum of past requests that halves every half-life, kept as one instant.
//!
//! Source: the "continuously exponentially weighted moving average" limiter of the post *A rate limiter from recent
//! averages* (state: a sum and its time), here as the one instant at which that sum is one. An exponentially weighted
//! average λ·N over a limit L is a sum N over L/λ, so nothing is lost, and instants have an order, which pairs have not.

use std::time::Duration;

use super::decay::{Decay, FAR, NextDecayed};
use super::powers::{ahead, logarithm, power_of_two};
use super::{Charged, Meter, NextUnit, Ratio};
use crate::units::{Cost, OutOfRange, Rate, Timestamp};

/// At most `rate` on average, older requests weighing half as much with every half-life that passed since:
/// `B + rate·τ` in **every** interval of length τ, with B = rate·half-life/ln 2.
///
/// The level is the instant, in nanoseconds, at which the decayed sum N is one request: N = 2^((level − now)/half-life).
/// Zero is "never": a sum of nothing, whatever the time. A request is admitted if the sum *with* it is at most B, so
/// exactly ⌊B⌋ pass at once. An even train of requests swings half a request around its mean: it is never refused below
/// rate·(1 − 1/(2B)).
///
/// The order of stamps does not matter: a request adds cost·2^(stamp/half-life) to a sum that is compared with
/// B·2^(stamp/half-life), so whatever was admitted would have been admitted in the order of its stamps too.
///
/// **Rounding** is against the client, by one or two nanoseconds of level a request; the sum is over by less than B²
/// ns/half-life at most, a thousandth of a request at B = 1,000 and a half-life of 1 s. **Refused requests** may be
/// counted as well, by raising the level to the charge or [`RecentAverage::ceiling`], whichever is less: a client that
/// keeps asking faster than the rate then stays out until it slows down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecentAverage {
    half_life: u64,
    /// The same.
    half_life_number: f64,
    budget: f64,
    /// The greatest sum that is admitted: the greatest number whose instant, as rounded here, is at most `depth` ahead.
    most: f64,
    depth: u64,
    penalty: u64,
    /// What is added to every instant to be sure that it is not too early.
    margin: u64,
    quantum: u64,
    /// By how much less, in units of cost, a sum may be than the one that its level stands for after a charge.
    slack: f64,
}

/// Numbers from zero to here are the same with a sign, and leave room for a margin; the margin of the longest half-life on the
/// fastest axis is 2¹³.
const WITHIN_SIGNED: f64 = (1_u64 << 62) as f64;

/// 2⁻¹⁰ of a request is left of a sum of one after so many half-lives.
const FADED: u64 = 10;

impl RecentAverage {
    const MIN_HALF_LIFE: Duration = Duration::from_secs(1);
    const MAX_HALF_LIFE: Duration = Duration::from_secs(31 * 86_400);
    const MAX_PENALTY: Duration = Duration::from_secs(3_650 * 86_400);

    /// `max_penalty` is how much longer than after a full budget a client can be locked out if refused requests count.
    ///
    /// # Errors
    /// A half-life outside 1 s to 31 d; a penalty over 3,650 d; a budget B below one, with which not even a first
    /// request would pass, or above 4,294,967,295.
    pub fn new(rate: Rate, half_life: Duration, max_penalty: Duration) -> Result<RecentAverage, OutOfRange> {
        RecentAverage::paced(rate, half_life, max_penalty, Ratio::EVEN)
    }

    /// The pace at which this half-life stays the same span, so that a sum of this meter's stays the same sum under the new
    /// half-life.
    pub fn pace_for(&self, half_life: Duration) -> Ratio {
        Ratio::new(half_life.as_nanos(), u128::from(self.half_life))
    }

    /// The same promise on an axis that runs at this [`Ratio`].
    ///
    /// # Errors
    /// As [`RecentAverage::new`].
    pub fn paced(
        rate: Rate,
        half_life: Duration,
        max_penalty: Duration,
        ratio: Ratio,
    ) -> Result<RecentAverage, OutOfRange> {
        const BUDGET: OutOfRange =
            OutOfRange { allowed: "a rate and half-life with 1 to 4294967295 for rate * half-life / 0.693" };
        if !(Self::MIN_HALF_LIFE..=Self::MAX_HALF_LIFE).contains(&half_life) {
            return Err(OutOfRange { allowed: "a half-life of 1s to 31d" });
        }
        if max_penalty > Self::MAX_PENALTY {
            return Err(OutOfRange { allowed: "a penalty of 0s to 3650d" });
        }
        let half_life = u64::try_from(half_life.as_nanos()).map_err(|_| BUDGET)?;
        let penalty = u64::try_from(max_penalty.as_nanos()).map_err(|_| BUDGET)?;
        let nanos = half_life as f64;
        let budget = f64::from(rate.events()) * nanos / (rate.period().as_nanos() as f64 * std::f64::consts::LN_2);
        if !(1.0..=f64::from(u32::MAX)).contains(&budget) {
            return Err(BUDGET);
        }
        // the budget is what it is; all spans are those of the axis
        let (half_life, penalty) = (ratio.places_in(half_life), ratio.places_in(penalty).min(u64::MAX / 4));
        let nanos = half_life as f64;
        // the argument of a logarithm is off by 2⁻⁴⁸ of itself or less, the logarithm by 2⁻⁴⁶·half-life with its scale
        let margin = (nanos * 2.0_f64.powi(-46)).ceil() as u64 + 1;
        let at_ceiling = budget * power_of_two(penalty as f64 / nanos);
        let mut meter = RecentAverage {
            half_life,
            half_life_number: nanos,
            budget,
            most: 0.0,
            depth: (nanos * logarithm(budget)).floor() as u64,
            penalty,
            margin,
            // ln(1 + 1/n) ≥ 1/(n + 1): no more than what one request adds to the level at the ceiling
            quantum: ((nanos / ((at_ceiling + 1.0) * std::f64::consts::LN_2)) as u64).clamp(1, half_life >> 10),
            slack: 0.0,
        };
        meter.most = meter.greatest_sum().ok_or(BUDGET)?;
        // a charge rounds the instant up by a nanosecond, the margin and the errors that this is for, of twice its size at
        // most; to one more than before it if that is later, which is within the same
        let rounded = (4 * margin + 8) as f64 / nanos;
        meter.slack = meter.most * (rounded + 2.0_f64.powi(-44));
        Ok(meter)
    }

    /// The greatest sum from 1 on that is admitted, found by halving the numbers between: order is the same in bits.
    fn greatest_sum(&self) -> Option<f64> {
        let fits = |bits| self.instant(f64::from_bits(bits)) <= self.depth;
        let (mut low, mut high) = (1.0_f64.to_bits(), (self.budget * 2.0).to_bits());
        if !fits(low) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        Some(f64::from_bits(low))
    }

    /// B = rate·half-life/ln 2, in units of cost.
    pub fn budget(&self) -> f64 {
        self.budget
    }

    /// The greatest sum that is admitted, in units of cost: the budget, but for rounding.
    pub fn most(&self) -> f64 {
        self.most
    }

    /// Nanoseconds in which the sum halves.
    pub fn half_life_nanos(&self) -> u64 {
        self.half_life
    }

    /// The decayed sum at `now`, in units of cost; at most 2⁶⁴.
    #[inline]
    pub fn sum(&self, level: u64, now: Timestamp) -> f64 {
        if level == 0 {
            return 0.0;
        }
        power_of_two(ahead(level, now.nanos()) / self.half_life_number)
    }

    /// The level above which counting a refused request writes nothing: `max_penalty` beyond a full budget.
    ///
    /// A client at the ceiling that falls silent has a full budget's sum after `max_penalty`, and is admitted a little
    /// later: what [`Meter::retry_nanos`] says.
    pub fn ceiling(&self, now: Timestamp) -> u64 {
        now.nanos().saturating_add(self.depth).saturating_add(self.penalty)
    }

    /// Whether raising a level to `raised`, to count a refused request, is worth four writes.
    ///
    /// Not, if it is less than one request adds at the ceiling, or less than 1/1,024 of a half-life if that is smaller
    /// still. So every refused request below the ceiling counts, and a flood at the ceiling writes, however fast it is,
    /// `rate·2^p` times a second at most, p being the penalty in half-lives. (1/1,024 of a half-life alone is more than a
    /// request adds to any sum over 1,477: from that budget on no refused request would count.)
    pub fn worth_raising(&self, level: u64, raised: u64) -> bool {
        raised.saturating_sub(level) >= self.quantum
    }

    /// Nanoseconds from a stamp to the instant at which `sum` of that stamp has decayed to one: never too few.
    #[inline]
    fn instant(&self, sum: f64) -> u64 {
        let nanos = self.half_life_number * logarithm(sum);
        if nanos < WITHIN_SIGNED {
            // the same numbers by the conversions that processors have
            let whole = nanos as i64;
            return (whole + i64::from((whole as f64) < nanos)) as u64 + self.margin;
        }
        let whole = nanos as u64;
        whole.saturating_add(u64::from((whole as f64) < nanos)).saturating_add(self.margin)
    }

    /// What remains beside a sum, charges included, once it has become a level; `None` unless it fits, and where rounding could
    /// tell the two apart.
    #[inline]
    fn left(&self, sum: f64) -> Option<u32> {
        let left = self.most - sum;
        let units = left as u32;
        let beyond = left - f64::from(units);
        (left >= 0.0 && beyond > self.slack && beyond < 1.0 - self.slack).then_some(units)
    }

    /// ⌊B − N⌋. Rounding can take the last one when they come one by one, see the type; it never adds one.
    #[inline]
    fn remaining(&self, level: u64, now: Timestamp) -> u32 {
        if now.nanos() > self.last() {
            return 0;
        }
        let sum = self.sum(level, now);
        let fits = |units: u32| sum + f64::from(units) <= self.most;
        // to the nearest: one more or one less than what the comparison of sums says
        let units = (self.most - sum).max(0.0) as u32;
        match units.checked_add(1) {
            Some(more) if fits(more) => more,
            _ if fits(units) => units,
            _ => units.saturating_sub(1),
        }
    }

    #[inline]
    fn next_unit(&self, level: u64, now: Timestamp, remaining: u32) -> NextUnit {
        NextUnit::Decayed(NextDecayed::new(self.decay(), level, now, remaining))
    }

    /// The last stamp that is admitted: levels at the end of time can no longer be told apart.
    #[inline]
    fn last(&self) -> u64 {
        self.decay().last()
    }

    /// What is needed to tell a wait.
    #[inline]
    fn decay(&self) -> Decay {
        Decay { half_life: self.half_life, most: self.most, depth: self.depth }
    }
}

impl Meter for RecentAverage {
    #[inline]
    fn charge(&self, level: u64, now: Timestamp, cost: Cost) -> u64 {
        if level.saturating_sub(now.nanos()) >= FAR * self.half_life {
            // 2³² requests add h·log2(1 + 2⁻³²) to a sum of 2⁶⁴; doubled, so that the order is kept where both ways meet
            return level.saturating_add((self.half_life >> 31) + 4 * self.margin);
        }
        let sum = self.sum(level, now) + f64::from(cost.get());
        now.nanos().saturating_add(self.instant(sum)).max(level.saturating_add(1))
    }

    /// Sums are compared as [`Meter::retry_nanos`] compares them. What remains follows from the sum before it becomes a level again,
    /// unless rounding could tell the two apart.
    #[inline]
    fn admit(&self, level: u64, now: Timestamp, cost: Cost) -> Option<Charged> {
        let sum = self.sum(level, now) + f64::from(cost.get());
        if now.nanos() > self.last() || sum > self.most {
            return None;
        }
        let to = now.nanos().saturating_add(self.instant(sum)).max(level.saturating_add(1));
        let remaining = self.left(sum).unwrap_or_else(|| self.remaining(to, now));
        Some(Charged { to, remaining, next_unit: self.next_unit(to, now, remaining) })
    }

    #[inline]
    fn quota(&self) -> u32 {
        self.most as u32
    }

    #[inline]
    fn outlook(&self, level: u64, now: Timestamp) -> (u32, NextUnit) {
        let remaining = self.remaining(level, now);
        (remaining, self.next_unit(level, now, remaining))
    }

    fn retry_nanos(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64> {
        let fits = now.nanos() <= self.last() && self.sum(level, now) + f64::from(cost.get()) <= self.most;
        if fits { Some(0) } else { self.decay().opens(level, now, cost) }
    }

    /// The bits of the sum.
    fn standing(&self, level: u64, now: Timestamp) -> u64 {
        self.sum(level, now).to_bits()
    }

    /// When less than 1/1,024 of a request is left of the highest level that can be admitted or counted.
    fn fade_nanos(&self) -> u64 {
        self.depth + self.penalty + FADED * self.half_life + 1
    }

    fn measure_nanos(&self) -> u64 {
        self.half_life
    }

    /// When less than 1/1,024 of a request is left.
    fn is_over(&self, level: u64, now: Timestamp) -> bool {
        now.nanos().saturating_sub(level) > FADED * self.half_life
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// 10/s with a half-life of 10 s: a budget of 144.27.
    fn ten_per_second() -> RecentAverage {
        let rate = Rate::new(10, Duration::from_secs(1)).unwrap();
        RecentAverage::new(rate, Duration::from_secs(10), Duration::from_secs(60)).unwrap()
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn spend(meter: &RecentAverage, level: &mut u64, now: u64, cost: u32) -> bool {
        let charged = meter.admit(*level, at(now), Cost::new(cost).unwrap());
        *level = charged.map_or(*level, |charged| charged.to);
        charged.is_some()
    }

    #[test]
    fn the_whole_budget_passes_at_once_even_at_the_origin() {
        let meter = ten_per_second();
        assert_eq!((meter.quota(), meter.outlook(0, at(0)).0, meter.outlook(0, at(0)).1.nanos()), (144, 144, None));
        let mut level = 0;
        for left in (0..144).rev() {
            assert!(spend(&meter, &mut level, 0, 1));
            assert_eq!(meter.outlook(level, at(0)).0, left);
        }
        assert!(!spend(&meter, &mut level, 0, 1));
        assert!(spend(&meter, &mut 0, 0, 144) && !spend(&meter, &mut 0, 0, 145));
    }

    #[test]
    fn the_way_back_is_told_to_the_nanosecond() {
        let meter = ten_per_second();
        let mut level = 0;
        assert!(spend(&meter, &mut level, 7 * SECOND, 144));
        for cost in [1, 2, 72, 143] {
            let wait = meter.retry_nanos(level, at(7 * SECOND), Cost::new(cost).unwrap()).unwrap();
            let ideal = -10e9 * ((meter.budget() - f64::from(cost)) / 144.0).log2();
            // two nanoseconds of the level, which the few requests of room left at 143 magnify by 113
            assert!((wait as f64 - ideal).abs() < 400.0, "{wait} {ideal}");
            assert!(!spend(&meter, &mut level.clone(), 7 * SECOND + wait - 1, cost));
            assert!(spend(&meter, &mut level.clone(), 7 * SECOND + wait, cost));
        }
        assert_eq!(meter.retry_nanos(level, at(7 * SECOND), Cost::new(145).unwrap()), None);
    }

    #[test]
    fn every_refused_request_below_the_ceiling_is_worth_a_raise() {
        for (events, seconds) in [(10, 10), (1_000, 60), (100_000, 600)] {
            let half_life = Duration::from_secs(seconds);
            let rate = Rate::new(events, Duration::from_secs(1)).unwrap();
            let meter = RecentAverage::new(rate, half_life, 6 * half_life).unwrap();
            let now = at(SECOND);
            let ceiling = meter.ceiling(now);
            for level in [0, now.nanos() + meter.depth, ceiling - meter.half_life, ceiling - meter.quantum] {
                assert!(meter.worth_raising(level, meter.charge(level, now, Cost::ONE)));
            }
            assert!(!meter.worth_raising(ceiling, ceiling) && !meter.worth_raising(ceiling + 9, ceiling));
            assert!(!meter.worth_raising(ceiling - meter.quantum + 1, ceiling));
        }
    }

    #[test]
    fn at_the_end_of_time_it_refuses_instead_of_losing_count() {
        let meter = ten_per_second();
        let last = meter.last();
        assert!(spend(&meter, &mut 0, last, 144) && !spend(&meter, &mut 0, last + 1, 1));
        assert_eq!((meter.outlook(0, at(last)).0, meter.outlook(0, at(last + 1)).0), (144, 0));
        let mut level = 0;
        assert!(spend(&meter, &mut level, last, 144));
        assert_eq!(meter.retry_nanos(level, at(last), Cost::ONE), None);
        assert_eq!(meter.retry_nanos(0, at(u64::MAX), Cost::ONE), None);
    }

    #[test]
    fn what_could_admit_nothing_or_lose_count_is_refused() {
        let with = |events, period, half_life, penalty| {
            let rate = Rate::new(events, Duration::from_secs(period)).unwrap();
            RecentAverage::new(rate, Duration::from_secs(half_life), Duration::from_secs(penalty)).is_ok()
        };
        assert!(with(7, 10, 1, 0), "0.7/s with 1 s: a budget of 1.01");
        assert!(!with(69, 100, 1, 0), "0.69/s with 1 s: a budget of 0.995");
        assert!(!with(1, 1, 0, 0) && !with(1, 1, 31 * 86_400 + 1, 0) && with(1, 1, 31 * 86_400, 0));
        assert!(with(1, 1, 1, 3_650 * 86_400) && !with(1, 1, 1, 3_650 * 86_400 + 1));
        assert!(!with(10_000_000, 1, 400, 0) && with(10_000_000, 1, 200, 0));
    }
}
