//! `type: rate`: at most `burst + rate·τ` per key in **every** interval of length τ.
//!
//! A token bucket per key in a monotone sketch of fixed size, with an exact table for keys that have spent half their
//! burst. A refused request costs a few loads and writes nothing. The error is one-sided: colliding keys can only make a
//! key refused early, with the probability that `tidegate check -v` prints. A changed rate or burst keeps the state and
//! re-rates it: what was spent stays spent, to the unit, and comes back at the new rate ([`crate::sketch::Axis`]).

use super::Kind;
use super::leveled::Leveled;
use super::tiered::Tiered;
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

/// The same levels under other numbers, from `now` on; `None` when they cannot be carried over. `was` says for each of `kinds` which
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
) -> Result<Option<RateLimiter>, OutOfRange> {
    let follow = |before: &Leveled<Bucket>, kind: &Kind| {
        let pace = before.meter().pace_for(&bucket(kind, Pace::EVEN)?, units);
        let course = before.course().followed_by(now, pace);
        course.map(|course| Ok(before.followed_by(bucket(kind, pace)?, course, indebts))).transpose()
    };
    let apart = |before: &Leveled<Bucket>, kind: &Kind| {
        let new = bucket(kind, Pace::EVEN)?;
        let spans = [(new.interval_nanos(), units.0), (before.meter().interval_nanos(), units.1)];
        let [there, here] = spans.map(|(interval, unit)| interval.saturating_mul(u64::from(unit.max(1))));
        Ok(before.apart(new, now, (there, here)))
    };
    before.follow((kinds, was), Bucket::eq, follow, apart)
}

/// The bucket of these numbers on an axis of this pace.
fn bucket(kind: &Kind, pace: Pace) -> Result<Bucket, OutOfRange> {
    match kind {
        Kind::Rate { rate, burst, .. } => Bucket::paced(*rate, *burst, pace),
        _ => Err(super::MIXED),
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
        let kind =
            |burst| Kind::Rate { rate: Rate::new(10, Duration::from_secs(1)).unwrap(), burst, memory: Bytes(1 << 16) };
        rate(&[kind(5), kind(50)], Bytes(1 << 16), &Seed::from_bytes([1; 16]), false).unwrap()
    }

    fn place(limiter: &RateLimiter, name: &str) -> Place {
        let mut hasher = KeyHasher::new(limiter.seed());
        hasher.part(1, name.as_bytes());
        Place { key: hasher.finish(), ..Place::default() }
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
