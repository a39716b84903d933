//! `type: rate`: at most `burst + rate·τ` per key in **every** interval of length τ.
//!
//! A token bucket per key in a monotone sketch of fixed size, with an exact table for keys that have spent half their
//! burst. A refused request costs a few loads and writes nothing. The error is one-sided: colliding keys can only make a
//! key refused early, with the probability that `tidegate check -v` prints. A changed rate or burst keeps the state and
//! re-rates it: what was spent stays spent, to the unit, and comes back at the new rate ([`crate::sketch::Axis`]).

use super::kind::MIXED;
use super::leveled::Leveled;
use super::tiered::Tiered;
use super::{Kind, kinds};
use crate::sketch::{Bucket, Pace, Seed};
use crate::units::{Bytes, OutOfRange, Timestamp};

/// The state of one `rate` limit.
pub type RateLimiter = Tiered<Bucket>;

/// An empty limiter with the numbers of `kinds`: the limit's own, then those of its tiers.
///
/// # Errors
/// No kind, one that is not `rate`, or numbers that [`Bucket::new`] or the table refuse.
pub fn rate(kinds: &[Kind], memory: Bytes, seed: &Seed, indebts: bool) -> Result<RateLimiter, OutOfRange> {
    let meters = kinds.iter().map(|kind| bucket(kind, Pace::EVEN));
    Tiered::empty(meters, Bucket::eq, |bucket| Leveled::new(bucket, memory, seed.clone(), indebts))
}

/// The same levels under other numbers, from `now` on. `was` says for each of `kinds` which
/// tier it was before. `units` are the bytes per unit of the limiter before and of this one, 1 each where requests are counted.
///
/// What was spent stays spent, to the unit, for each tier by its own change of rate.
///
/// # Errors
/// As [`rate`].
pub fn followed_by(
    before: &RateLimiter,
    (kinds, was): (&[Kind], &[Option<u8>]),
    units: (u32, u32),
    indebts: bool,
    now: Timestamp,
) -> Result<RateLimiter, OutOfRange> {
    let follow = |before: &Leveled<Bucket>, kind: &Kind| {
        let new = bucket(kind, Pace::EVEN)?;
        let pace = before.meter().pace_for(&new, units);
        let course = before.course().followed_by(now, pace).filter(|_| new.fits(pace));
        course.map(|course| Ok(before.followed_by(bucket(kind, pace)?, course, indebts))).transpose()
    };
    let apart = |before: &Leveled<Bucket>, kind: &Kind| {
        let new = bucket(kind, Pace::EVEN)?;
        Ok(before.apart(new, now, before.meter().pace_for(&new, units), indebts))
    };
    before.follow((kinds, was), Bucket::eq, follow, apart)
}

/// The bucket of these numbers on an axis of this pace.
fn bucket(kind: &Kind, pace: Pace) -> Result<Bucket, OutOfRange> {
    match kind {
        Kind::Rate(kinds::Rate { rate, burst, .. }) => Bucket::paced(*rate, *burst, pace),
        _ => Err(MIXED),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Place;
    use super::*;
    use crate::sketch::KeyHasher;
    use crate::units::{Cost, Rate, Timestamp};

    fn limiter() -> RateLimiter {
        let kind = |burst| {
            Kind::Rate(kinds::Rate {
                rate: Rate::new(10, Duration::from_secs(1)).unwrap(),
                burst,
                memory: Bytes(1 << 16),
            })
        };
        rate(&[kind(5), kind(50)], Bytes(1 << 16), &Seed::from_bytes([1; 16]), false).unwrap()
    }

    fn place(limiter: &RateLimiter, name: &str) -> Place {
        let mut hasher = KeyHasher::new(limiter.seed());
        hasher.part(1, name.as_bytes());
        Place { key: hasher.finish(), ..Place::default() }
    }

    /// After `from` of `before` was spent at once, what is left after each of the chain, and the limiter at its end.
    fn chained(before: &[Kind], spent: usize, chain: &[[Kind; 2]], now: Timestamp) -> (Vec<[u32; 2]>, RateLimiter) {
        let mut limiter = rate(before, Bytes(1 << 16), &Seed::from_bytes([1; 16]), false).unwrap();
        let own = place(&limiter, "alice");
        (0..spent).for_each(|_| assert!(limiter.admit(&own, now, Cost::ONE).is_ok()));
        let mut left = Vec::new();
        for kinds in chain {
            limiter = followed_by(&limiter, (kinds, &[Some(0), Some(1)]), (1, 1), false, now).unwrap();
            limiter.take_over();
            let gold = Place { tier: 1, ..own };
            left.push([own, gold].map(|place| 1 + limiter.probe(&place, now, Cost::ONE, 0).remaining));
        }
        (left, limiter)
    }

    fn kind(events: u32, seconds: u64, burst: u32) -> Kind {
        Kind::Rate(kinds::Rate {
            rate: Rate::new(events, Duration::from_secs(seconds)).unwrap(),
            burst,
            memory: Bytes(1 << 16),
        })
    }

    #[test]
    fn numbers_that_no_axis_can_follow_count_the_same_units_in_a_table_of_their_own() {
        let slow = kind(6, 3_600, 6);
        let now = Timestamp::from_nanos(1 << 50);
        let (fast, faster) = (kind(10, 1, 10), kind(1_000_000, 1, 30));
        let chain = [[fast.clone(), fast.clone()], [faster.clone(), slow.clone()], [slow.clone(), fast]];
        let (left, _) = chained(&[slow.clone(), slow.clone()], 3, &chain, now);
        assert_eq!(left, [[7, 7], [27, 3], [3, 7]]);
        // those who shared a table still do
        let (_, last) = chained(&[slow.clone(), slow.clone()], 3, &[[faster.clone(), faster]], now);
        assert!(last.at(0).shares_table_with(last.at(1)));
        assert!(last.at(0).course().axis().is_time());
        // an hour's levels fade in the time that the new numbers need for them
        assert!(last.fade_nanos() <= 30_000, "{}", last.fade_nanos());
        // it goes on where the axis can: no table is made
        let (_, last) = chained(&[kind(10, 1, 10), slow.clone()], 3, &[[slow, kind(5, 3_600, 6)]], now);
        assert!(!last.at(0).course().axis().is_time());
    }

    #[test]
    fn a_debt_that_no_life_would_pay_is_cut_to_ten_years_and_locks_nobody_out_for_ever() {
        const DAY: u64 = 86_400 * 1_000_000_000;
        let (now, was, mebibytes) = (Timestamp::from_nanos(1 << 50), [Some(0)], 1 << 20);
        let fast = [kind(1_000, 1, 100)];
        let before = rate(&fast, Bytes(1 << 16), &Seed::from_bytes([1; 16]), true).unwrap();
        let alice = place(&before, "alice");
        (0..100).for_each(|_| assert!(before.admit(&alice, now, Cost::ONE).is_ok()));
        // a byte a day instead of a thousand mebibytes a second
        let slow = followed_by(&before, (&[kind(1, 86_400, 1)], &was), (mebibytes, 1), true, now).unwrap();
        let wait = slow.probe(&alice, now, Cost::ONE, 0).retry_nanos.unwrap();
        assert_eq!(wait.div_ceil(DAY), 3_650, "beyond one that it may have");
        let back = followed_by(&slow, (&fast, &was), (1, mebibytes), true, now).unwrap();
        assert!(back.probe(&alice, now, Cost::ONE, 0).admitted);
    }

    #[test]
    fn a_probe_changes_nothing() {
        let limiter = limiter();
        let alice = place(&limiter, "alice");
        for _ in 0..100 {
            assert!(limiter.probe(&alice, Timestamp::ZERO, Cost::ONE, 0).admitted);
        }
        assert_eq!(limiter.probe(&alice, Timestamp::ZERO, Cost::ONE, 0).remaining, 4);
        assert_eq!(limiter.probe(&alice, Timestamp::ZERO, Cost::ONE, 4).remaining, 0);
        assert!(!limiter.probe(&alice, Timestamp::ZERO, Cost::ONE, 5).admitted, "what is held back for others counts");
    }

    #[test]
    fn the_retry_time_comes_true_for_a_silent_client() {
        let limiter = limiter();
        let alice = place(&limiter, "alice");
        let now = Timestamp::from_nanos(1 << 40);
        for left in (0..5).rev() {
            assert_eq!(limiter.admit(&alice, now, Cost::ONE).unwrap().remaining, left);
        }
        let refused = limiter.admit(&alice, now, Cost::ONE).unwrap_err();
        assert!(!refused.contended);
        let wait = refused.judgement.retry_nanos.unwrap();
        let almost = Timestamp::from_nanos(now.nanos() + wait - 1);
        assert!(!limiter.probe(&alice, almost, Cost::ONE, 0).admitted);
        assert!(limiter.admit(&alice, Timestamp::from_nanos(now.nanos() + wait), Cost::ONE).is_ok());
    }

    #[test]
    fn remaining_counts_requests_of_the_same_cost() {
        let limiter = limiter();
        let alice = place(&limiter, "alice");
        let two = Cost::new(2).unwrap();
        assert_eq!(limiter.admit(&alice, Timestamp::ZERO, two).unwrap().remaining, 1);
        assert_eq!(limiter.admit(&alice, Timestamp::ZERO, two).unwrap().remaining, 0);
        let refused = limiter.admit(&alice, Timestamp::ZERO, two).unwrap_err().judgement;
        assert_eq!((refused.admitted, refused.remaining), (false, 0));
        assert_eq!(limiter.probe(&alice, Timestamp::ZERO, Cost::new(6).unwrap(), 0).retry_nanos, None);
    }

    #[test]
    fn a_client_takes_along_what_it_spent_when_its_tier_changes() {
        let limiter = limiter();
        let alice = place(&limiter, "alice");
        let gold = Place { tier: 1, ..alice };
        for _ in 0..20 {
            limiter.admit(&gold, Timestamp::ZERO, Cost::ONE).unwrap();
        }
        assert_eq!(limiter.probe(&gold, Timestamp::ZERO, Cost::ONE, 0).remaining, 29);
        assert!(!limiter.probe(&alice, Timestamp::ZERO, Cost::ONE, 0).admitted);
    }
}
