//! Rates of everything, estimated: how often every value of every node was asked for lately, in fixed memory.
//!
//! A count-min table (Cormode and Muthukrishnan 2005) with conservative update (Estan and Varghese 2002) of
//! exponentially weighted moving averages. A cell is one instant: **when the decayed count will have fallen to one**, θ
//! = T + h·log₂N for a count of N at the time T and a half-life h. Such instants are ordered and only grow, so that
//! raising a cell is a maximum and time alone makes it harmless. The rate is λ·N with λ = ln 2 / h.
//!
//! rakelimit (Otten 2020, §2.1.1) keeps the same average linearised, as a value and a time stamp that are not changed
//! together: each event adds 1/window and the past shrinks by 1 − Δ/window. With λ = 1/window the two agree, without
//! its special cases for the first sample, for equal stamps and for gaps longer than the window.
//!
//! **Not for promises.** An estimate is never below the true rate on one thread; of two threads that raise one key in
//! the same instant one event may be lost, and nothing that is promised may hang on it. **Re-keying** ([`rekeyed`]) forgets
//! less than one event of any key: both tables are raised for 31 half-lives, after which the highest count there is has
//! decayed to less than that. **Error**, one-sided: decay is
//! linear, so the bound of count-min holds with the sum of all decayed rates in the place of the count. With w columns
//! and four rows a plain sum would be above the truth by (e/w)·ΣN in less than 2 % of the reads; conservative update is
//! never worse. Each event counts for up to 2⁻²⁸ of itself and a nanosecond of level too much, never for less than one.
//!
//! [`rekeyed`]: super::rekeyed

use std::time::Duration;

use super::hash::{KeyHash, Seed};
use super::lattice::NodeLevels;
use super::meter::powers::{ahead, lesser, power_of_two};
use super::rekeyed::Spot;
use crate::units::time::saturating_nanos;
use crate::units::{Bytes, OutOfRange, Timestamp};

/// The offered rate of every key of every node.
#[derive(Debug)]
pub struct OfferedRates {
    levels: NodeLevels,
    half_life_nanos: f64,
    /// Half-lives per nanosecond.
    per_nano: f64,
    per_second: f64,
}

impl OfferedRates {
    /// Nothing offered yet, in two tables of at most `memory` each.
    ///
    /// # Errors
    /// A half-life outside 1 ms to 1 h, or what [`NodeLevels::new`] refuses.
    pub fn new(memory: Bytes, half_life: Duration, seed: &Seed) -> Result<OfferedRates, OutOfRange> {
        if !(Duration::from_millis(1)..=Duration::from_secs(3_600)).contains(&half_life) {
            return Err(OutOfRange { allowed: "1ms to 1h" });
        }
        let half_life_nanos = saturating_nanos(half_life) as f64;
        Ok(OfferedRates {
            levels: NodeLevels::new(memory, seed)?,
            half_life_nanos,
            per_nano: half_life_nanos.recip(),
            per_second: std::f64::consts::LN_2 / half_life.as_secs_f64(),
        })
    }

    /// Reads what is known of `key` under node number `node`: the first half of [`OfferedRates::add`]. Whoever looks at
    /// several keys reads them all before he adds to the first, so that their cache misses overlap.
    #[inline]
    pub fn read(&self, key: KeyHash, node: usize) -> KeyRate {
        let mut seen = KeyRate::of(key, node);
        self.look(&mut seen);
        seen
    }

    /// The same where it stays, as it is more than a line of memory.
    #[inline]
    pub fn look(&self, seen: &mut KeyRate) {
        seen.level = self.levels.look(seen.key, seen.node, &mut seen.spot);
    }

    /// Has what is known of `key` under node number `node` brought near, for who will read it.
    #[inline]
    pub fn prefetch(&self, key: KeyHash, node: usize) {
        self.levels.prefetch(key, node);
    }

    /// Counts one event, and returns the key's rate per second right after it: λ for a key never seen, and R + λ/2 on
    /// average for a steady train of R per second.
    ///
    /// A stamp older than the key's last event counts as if no time had passed since: the estimate may be too high.
    #[inline]
    pub fn add(&self, seen: &KeyRate, now: Timestamp) -> f64 {
        let more = self.one_more(seen, now);
        self.raise(seen, &more);
        more.rate
    }

    /// What one event more makes of it: the second half of [`OfferedRates::add`] but for the raise. Whoever adds to several keys
    /// asks this of all of them first, so that their logarithms overlap: none begins before an atomic exchange ahead of it is over.
    #[inline(always)]
    pub fn one_more(&self, seen: &KeyRate, now: Timestamp) -> OneMore {
        let half_lives = ahead(seen.level, now.nanos()) * self.per_nano;
        if seen.level == 0 || half_lives < FADED {
            return OneMore { level: now.nanos(), rate: self.per_second };
        }
        if half_lives > MOST_HALF_LIVES {
            let ahead = (MOST_HALF_LIVES * self.half_life_nanos) as u64;
            return OneMore {
                level: now.nanos().saturating_add(ahead),
                rate: power_of_two(MOST_HALF_LIVES) * self.per_second,
            };
        }
        // log(2^a + 2^b) = max(a, b) + log(1 + 2^−|a − b|), here of the count and of one
        let less = power_of_less(half_lives.abs());
        let count = if half_lives < 0.0 { less } else { less.recip() };
        // Hardly more than an hour, which is the same with a sign, as processors convert it. Rounded up, so that no event is too small to
        // leave a trace, and by more than the series may be too low.
        let nanos = self.half_life_nanos * logarithm_of_one_and(less) * ROUNDED_UP;
        let whole = nanos as i64;
        let more = (whole + i64::from((whole as f64) < nanos)) as u64;
        OneMore {
            level: seen.level.max(now.nanos()).saturating_add(more),
            rate: (count * ROUNDED_UP + 1.0) * self.per_second,
        }
    }

    /// The last third.
    #[inline(always)]
    pub fn raise(&self, seen: &KeyRate, more: &OneMore) {
        // A cell above it belongs to a busier key, and stays. If another raised one meanwhile, or the tables changed, this
        // level is still one that the key has reached.
        if !self.levels.raise_seen(&seen.spot, more.level) {
            self.levels.lift(seen.key, seen.node, more.level);
        }
    }

    /// The rate per second at `now`, without counting anything.
    pub fn rate(&self, key: KeyHash, node: usize, now: Timestamp) -> f64 {
        self.count(self.levels.read(key, node).level(), now) * self.per_second
    }

    /// Re-keys the tables when that is due. To be called about once a second, never on the path of a request.
    pub fn maintain(&self, now: Timestamp) {
        self.levels.maintain(now, (self.half_life_nanos * FADING_HALF_LIVES) as u64);
    }

    /// How often the tables were re-keyed so far.
    pub fn rekeyings(&self) -> u64 {
        self.levels.rekeyings()
    }

    /// λ, the rate that a single event amounts to at its instant.
    pub fn per_event(&self) -> f64 {
        self.per_second
    }

    /// The memory of both tables.
    pub fn memory(&self) -> Bytes {
        self.levels.memory()
    }

    /// The decayed count of a cell; zero is the cell that was never raised, whenever time began.
    #[inline]
    fn count(&self, level: u64, now: Timestamp) -> f64 {
        if level == 0 {
            return 0.0;
        }
        let half_lives = ahead(level, now.nanos()) * self.per_nano;
        if half_lives < FADED { 0.0 } else { power_of_two(lesser(half_lives, MOST_HALF_LIVES)) }
    }
}

/// Below a trillionth of an event it is as good as none.
const FADED: f64 = -40.0;

/// The highest count that is told apart is 2 to the power of this. Above it the stamp has stepped back by far: the estimate stays
/// finite, and the raise made of it stays below the cell.
const MOST_HALF_LIVES: f64 = 30.0;

/// What an estimate is multiplied by that a series, or two, may have made too low by less than 2⁻³⁰ of itself.
const ROUNDED_UP: f64 = 1.0 + 1.0 / (1_u64 << 29) as f64;

/// 2^−`half_lives` for up to 40 of them, off by less than 2⁻³¹ of itself; the same number on every machine. An estimate needs no
/// more, and this is over in half the time of [`power_of_two`].
#[inline]
fn power_of_less(half_lives: f64) -> f64 {
    // a number to whose last bit a whole one adds: what is added to it is rounded to the nearest, and the last bits are that
    const WHOLE: f64 = 1.5 * (1_u64 << 52) as f64;
    let shifted = half_lives + WHOLE;
    let rest = (shifted - WHOLE) - half_lives; // −½ to ½, exactly
    let scale = f64::from_bits((1_023_u64 << 52).wrapping_sub(shifted.to_bits() << 52));
    // (ln 2·x)ⁿ/n! from n = 0 to 8; the first that is left out is below 2⁻³²
    let (x, x2) = (rest, rest * rest);
    let low = (1.0 + std::f64::consts::LN_2 * x) + (0.24022650695910072 + 0.05550410866482158 * x) * x2;
    let high = (0.009618129107628477 + 0.0013333558146428443 * x)
        + (0.0001540353039338161 + 1.5252733804059841e-05 * x + 1.321548679014431e-06 * x2) * x2;
    (low + high * (x2 * x2)) * scale
}

/// The logarithm to base 2 of 1 + `less`, for 0 to 1, off by less than 2⁻³¹ of itself.
#[inline]
fn logarithm_of_one_and(less: f64) -> f64 {
    // ln((1 + s)/(1 − s)) = 2·(s + s³/3 + s⁵/5 + …), here to s¹⁷; s² is at most 1/9, and so the first that is left out below
    // 2⁻³² of the first
    let s = less / (2.0 + less);
    let (z, z2) = (s * s, (s * s) * (s * s));
    let low = (1.0 + z * (1.0 / 3.0)) + (1.0 / 5.0 + z * (1.0 / 7.0)) * z2;
    let high = (1.0 / 9.0 + z * (1.0 / 11.0)) + (1.0 / 13.0 + z * (1.0 / 15.0) + z2 * (1.0 / 17.0)) * z2;
    (2.0 * std::f64::consts::LOG2_E) * s * (low + high * (z2 * z2))
}

/// So that one more than the highest count has decayed to less than one.
const FADING_HALF_LIVES: f64 = MOST_HALF_LIVES + 1.0;

/// A key's rate after one event more.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneMore {
    level: u64,
    /// Per second.
    pub rate: f64,
}

/// One key under one node, as its cells were read.
#[derive(Debug, Clone, Copy)]
pub struct KeyRate {
    key: KeyHash,
    node: usize,
    spot: Spot,
    level: u64,
}

impl KeyRate {
    /// Of a key under a node that was not read yet.
    #[inline]
    pub fn of(key: KeyHash, node: usize) -> KeyRate {
        KeyRate { key, node, spot: Spot::default(), level: 0 }
    }

    /// Whose rate it is.
    #[inline]
    pub fn key(&self) -> KeyHash {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::KeyHasher;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    const SEED: Seed = Seed::from_bytes([1; 16]);

    fn key(number: u64) -> KeyHash {
        let mut hasher = KeyHasher::new(&SEED);
        hasher.part(0, &number.to_le_bytes());
        hasher.finish()
    }

    fn per_second() -> OfferedRates {
        OfferedRates::new(Bytes(64 << 10), Duration::from_secs_f64(std::f64::consts::LN_2), &SEED).unwrap()
    }

    fn add(rates: &OfferedRates, now: Timestamp) -> f64 {
        rates.add(&rates.read(key(1), 0), now)
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn a_steady_train_is_read_just_after_and_just_before_an_event_as_the_series_says() {
        let rates = per_second();
        for n in 0..2_000 {
            let _ = add(&rates, at(n * SECOND / 100));
        }
        let after = rates.rate(key(1), 0, at(1_999 * SECOND / 100));
        let before = rates.rate(key(1), 0, at(2_000 * SECOND / 100));
        // λ/(1 − e^(−λΔ)) and λe^(−λΔ)/(1 − e^(−λΔ)) for λ = 1, Δ = 10 ms
        assert!((after - 100.5008).abs() < 0.001 && (before - 99.5008).abs() < 0.001, "{after} {before}");
    }

    #[test]
    fn a_key_never_seen_counts_as_one_event_even_at_the_origin_of_time() {
        let rates = per_second();
        assert!((add(&rates, Timestamp::ZERO) - 1.0).abs() < 1e-8);
        assert_eq!(rates.rate(key(2), 0, Timestamp::ZERO), 0.0);
        assert_eq!(rates.rate(key(1), 1, Timestamp::ZERO), 0.0, "another node of the same key");
    }

    #[test]
    fn silence_halves_the_rate_every_half_life_until_nothing_is_left() {
        let rates = OfferedRates::new(Bytes(64 << 10), Duration::from_secs(2), &SEED).unwrap();
        let first = (0..16).fold(0.0, |_, _| add(&rates, at(SECOND)));
        for halvings in 1..10 {
            let rate = rates.rate(key(1), 0, at((1 + 2 * halvings) * SECOND));
            assert!((rate * (1 << halvings) as f64 / first - 1.0).abs() < 1e-6, "{halvings}: {rate}");
        }
        assert_eq!(rates.rate(key(1), 0, at(1_000 * SECOND)), 0.0);
    }

    #[test]
    fn a_stamp_that_steps_back_counts_and_does_no_harm() {
        let rates = per_second();
        let late = add(&rates, at(10 * SECOND));
        let early = add(&rates, at(9 * SECOND));
        assert!(early > late && early < 4.0, "{late} {early}");
        let _ = add(&rates, at(100_000 * SECOND));
        assert!(add(&rates, at(0)).is_finite());
        let back = add(&rates, at(100_001 * SECOND));
        assert!(back < 2.0, "the stale stamp left a trace: {back}");
        assert!(add(&rates, at(u64::MAX)).is_finite());
    }

    #[test]
    fn a_cell_far_ahead_of_its_stamp_stays_where_it_is() {
        // λ is about 1 for the first, and 693 for the shortest half-life
        let shortest = OfferedRates::new(Bytes(64 << 10), Duration::from_millis(1), &SEED).unwrap();
        for (rates, half_life) in [(per_second(), SECOND), (shortest, SECOND / 1_000)] {
            let _ = add(&rates, at(100 * half_life));
            let seen = rates.read(key(1), 0);
            for behind in [31, 60, 99] {
                let more = rates.one_more(&seen, at((100 - behind) * half_life));
                let count = more.rate / rates.per_event();
                assert!((1e9..2e9).contains(&count), "{behind} of {half_life}: {count}");
                rates.raise(&seen, &more);
                assert_eq!(rates.read(key(1), 0).level, seen.level, "{behind} of {half_life}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn one_event_more_is_never_too_little_and_hardly_too_much(
            half_life in 1_000_000..3_600 * SECOND, half_lives in -45.0..29.99_f64, halves in -90..60_i32, is_half: bool,
        ) {
            // where what is left of a whole number is greatest, and where nothing is
            let half_lives = if is_half { f64::from(halves) / 2.0 } else { half_lives };
            let rates = OfferedRates::new(Bytes(1 << 10), Duration::from_nanos(half_life), &SEED).unwrap();
            let now = 1_u64 << 60;
            let mut seen = KeyRate::of(key(1), 0);
            seen.level = now.saturating_add_signed((half_lives * half_life as f64) as i64);
            let half_lives = (seen.level as i64 - now as i64) as f64 / half_life as f64;
            let more = rates.one_more(&seen, at(now));
            // what the system's own functions say, which are off by 2⁻⁵⁰ or so
            let added = (-half_lives.abs()).exp2().ln_1p() * std::f64::consts::LOG2_E * half_life as f64;
            let count = half_lives.exp2() + 1.0;
            let moved = (more.level - seen.level.max(now)) as f64;
            // a past of less than a trillionth of an event is none
            let nothing = if half_lives < -39.0 { added } else { 0.0 };
            prop_assert!(moved >= (added - nothing) * (1.0 - 1e-13), "{moved} {added}");
            prop_assert!(moved <= added * (1.0 + 4e-9) + 1.0, "{moved} {added}");
            let counted = more.rate / rates.per_event();
            prop_assert!(counted >= count * (1.0 - 2e-12) && counted <= count * (1.0 + 4e-9), "{counted} {count}");
        }
    }

    #[test]
    fn half_lives_outside_the_range_are_refused() {
        for half_life in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(3_601), Duration::MAX] {
            assert!(OfferedRates::new(Bytes(64 << 10), half_life, &SEED).is_err(), "{half_life:?}");
        }
    }
}
