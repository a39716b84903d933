//! Through a change of columns nobody gains a fresh budget, and a spent key stays spent exactly as long as it would have.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use tidegate_limits::sketch::rekeyed::PERIOD_NANOS;
use tidegate_limits::sketch::{Admission, Bucket, KeyHash, Levels, Meter, Rekeyed, Seed};

use crate::{at, broken_interval, bucket, cost, key};

const SEED: Seed = Seed::from_bytes([4; 16]);
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// What both a sketch alone and one with exact entries can do.
trait Gate {
    fn spends(&self, bucket: &Bucket, key: KeyHash, now: u64) -> bool;
    fn maintain(&self, now: u64, fade: u64);
    fn rekeyings(&self) -> u64;
}

impl Gate for Levels {
    fn spends(&self, bucket: &Bucket, key: KeyHash, now: u64) -> bool {
        matches!(self.admit(bucket, key, at(now), cost(1)), Admission::Admitted { .. })
    }

    fn maintain(&self, now: u64, fade: u64) {
        Levels::maintain(self, at(now), fade);
    }

    fn rekeyings(&self) -> u64 {
        Levels::rekeyings(self)
    }
}

/// By cells alone, so that no entry hides what the tables do.
impl Gate for Rekeyed<AtomicU64, 4> {
    fn spends(&self, bucket: &Bucket, key: KeyHash, now: u64) -> bool {
        let reading = self.read(key);
        let charged = bucket.charge(reading.level(), at(now), cost(1));
        bucket.admits(charged, at(now)) && reading.raise(charged)
    }

    fn maintain(&self, now: u64, fade: u64) {
        Rekeyed::maintain(self, at(now), fade);
    }

    fn rekeyings(&self) -> u64 {
        self.generation()
    }
}

#[derive(Debug, Clone)]
struct Event {
    wait: u64,
    /// How much older than the clock the stamp is.
    lag: u64,
    key: u64,
    maintains: bool,
}

fn an_event() -> impl Strategy<Value = Event> {
    let wait = prop_oneof![4 => Just(0), 6 => 0..2 * SECOND, 4 => 0..MINUTE, 1 => 0..20 * MINUTE];
    let lag = prop_oneof![4 => Just(0), 1 => 0..SECOND];
    (wait, lag, 0_u64..5, prop::bool::weighted(0.3)).prop_map(|(wait, lag, key, maintains)| Event {
        wait,
        lag,
        key,
        maintains,
    })
}

fn nobody_gains(gate: &impl Gate, bucket: &Bucket, events: &[Event]) -> Result<(), TestCaseError> {
    let mut now = 2 * SECOND;
    let mut twin: HashMap<u64, u64> = HashMap::new();
    let mut admitted: HashMap<u64, Vec<(u64, u32)>> = HashMap::new();
    for event in events {
        now += event.wait;
        if event.maintains {
            gate.maintain(now, bucket.fade_nanos());
        }
        let stamp = now - event.lag;
        if gate.spends(bucket, key(event.key), stamp) {
            let level = twin.entry(event.key).or_default();
            *level = bucket.charge(*level, at(stamp), cost(1));
            prop_assert!(bucket.admits(*level, at(stamp)), "the twin refuses {event:?} at {now}");
            admitted.entry(event.key).or_default().push((stamp, 1));
        }
    }
    for (number, spent) in &admitted {
        prop_assert_eq!(broken_interval(bucket, spent), None, "key {}", number);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_gains_a_fresh_budget_through_a_rekeying(
        // refilled within a second, within an overlap, and much later than the next change is due
        interval in prop_oneof![Just(SECOND / 10), Just(20 * SECOND), Just(30 * MINUTE)],
        burst in 1_u32..6,
        size in 0..8,
        events in prop::collection::vec(an_event(), 1..200),
    ) {
        let bucket = bucket(interval, burst);
        nobody_gains(&Rekeyed::<AtomicU64, 4>::with_shape(1_usize << size, &SEED).unwrap(), &bucket, &events)?;
        nobody_gains(&Levels::<AtomicU64, 4>::with_shape(1_usize << size, 1, &SEED).unwrap(), &bucket, &events)?;
    }
}

/// Spends the key's burst `before` the overlap opens or closes, and expects its retry time to come true all the same.
fn stays_spent(gate: &impl Gate, bucket: &Bucket, spent_at: u64) {
    let mut now = 0;
    let maintain_until = |until: u64, now: &mut u64| {
        while *now + SECOND <= until {
            *now += SECOND;
            gate.maintain(*now, bucket.fade_nanos());
        }
    };
    maintain_until(spent_at, &mut now);
    assert_eq!((0..10).filter(|_| gate.spends(bucket, key(0), spent_at)).count() as u32, bucket.burst());
    for n in 1..=u64::from(bucket.burst()) {
        let back = spent_at + n * bucket.interval_nanos();
        maintain_until(back - 1, &mut now);
        assert!(!gate.spends(bucket, key(0), back - 1), "unit {n} came back early, spent at {spent_at}");
        maintain_until(back, &mut now);
        assert!(gate.spends(bucket, key(0), back), "unit {n} came back late, spent at {spent_at}");
    }
}

#[test]
fn a_spent_key_stays_spent_exactly_until_its_retry_time_through_the_swap() {
    for interval in [3 * SECOND, 7 * SECOND + 1, 400 * SECOND] {
        let bucket = bucket(interval, 3);
        let opens = PERIOD_NANOS;
        let closes = opens + bucket.fade_nanos() + 3 * SECOND;
        for around in [opens, closes] {
            for before in [2 * bucket.fade_nanos(), bucket.fade_nanos(), interval, 2 * SECOND, 1, 0] {
                let spent_at = around.saturating_sub(before);
                let sketch = Rekeyed::<AtomicU64, 4>::with_shape(1 << 10, &SEED).unwrap();
                stays_spent(&sketch, &bucket, spent_at);
                stays_spent(&Levels::<AtomicU64, 4>::with_shape(1 << 10, 4, &SEED).unwrap(), &bucket, spent_at);
            }
        }
    }
}

#[test]
fn a_table_serves_ten_minutes_alone_and_then_beside_the_next_for_as_long_as_levels_fade() {
    let gate = Rekeyed::<AtomicU64, 4>::with_shape(16, &SEED).unwrap();
    let fade = 90 * SECOND;
    let mut changes = Vec::new();
    let mut last = (0, false);
    for second in 0..=1_500 {
        gate.maintain(at(second * SECOND), fade);
        let phase = (gate.generation(), gate.is_overlapping());
        if phase != last {
            changes.push((second, phase));
            last = phase;
        }
    }
    // each phase is timed from the maintenance after the one that began it: a second later
    assert_eq!(changes, [(600, (0, true)), (692, (1, false)), (1_293, (1, true)), (1_385, (2, false))]);
    assert_eq!(gate.rekeyings(), 2);
    let levels = Levels::<AtomicU64, 4>::with_shape(16, 4, &SEED).unwrap();
    (0..=1_500).for_each(|second| levels.maintain(at(second * SECOND), fade));
    assert_eq!(levels.rekeyings(), 2);
}

#[test]
fn two_keys_that_share_a_column_do_not_share_it_after_the_change() {
    let gate = Rekeyed::<AtomicU64, 1>::with_shape(1 << 10, &SEED).unwrap();
    let bucket = bucket(MINUTE, 1);
    let share = |number: u64| gate.table().columns_of(key(0)) == gate.table().columns_of(key(number));
    let colliding: Vec<u64> = (1..20_000).filter(|number| share(*number)).collect();
    assert!(colliding.len() > 5, "{}", colliding.len());
    let meets = |now: u64| {
        let reading = gate.read(key(0));
        assert!(reading.raise(bucket.charge(reading.level(), at(now), cost(1))));
        colliding.iter().filter(|number| gate.read(key(**number)).level() > now).count()
    };
    assert_eq!(meets(0), colliding.len());
    for now in [0, PERIOD_NANOS, PERIOD_NANOS, 2 * PERIOD_NANOS] {
        gate.maintain(at(now), bucket.fade_nanos());
    }
    assert_eq!(gate.generation(), 1);
    assert_eq!(meets(2 * PERIOD_NANOS), 0);
}
