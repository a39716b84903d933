//! What every meter owes the table that keeps its levels, whatever it measures.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use tidegate_limits::sketch::{Admission, Meter, MonotoneTable};

use crate::{at, cost, key};
use tidegate_limits::units::Dice;

/// A number from anywhere in `u64`, the ends and the neighbourhood of `scale` being as likely as all the rest.
pub fn anywhere(scale: u64) -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..scale * 8, any::<u64>(), u64::MAX - scale * 8..=u64::MAX, Just(0), Just(1), Just(u64::MAX)]
}

/// M1 to M3, for two levels.
pub fn keeps_order(meter: &impl Meter, levels: (u64, u64), now: u64, units: u32) -> Result<(), TestCaseError> {
    let (low, high) = (levels.0.min(levels.1), levels.0.max(levels.1));
    let charge = |level| meter.charge(level, at(now), cost(units));
    let admits = |level| meter.admit(level, at(now), cost(units)).is_some();
    prop_assert!(charge(low) <= charge(high), "M1: {} {}", charge(low), charge(high));
    prop_assert!(charge(low) >= low, "M2: never falls");
    prop_assert!(!admits(low) || charge(low) > low, "M2: an admitted request leaves a trace");
    prop_assert!(admits(low) || !admits(high), "M3");
    prop_assert!(!admits(low) || units <= meter.quota(), "more than the quota at once");
    let remaining = meter.outlook(low, at(now)).0;
    prop_assert!(remaining <= meter.quota());
    prop_assert_eq!(remaining > 0 && units <= remaining, admits(low), "what remains is what one request may cost");
    Ok(())
}

/// Whoever comes back when told is admitted, and not a nanosecond before; and so for the next unit. `at_the_end` tells
/// that time may end before the way back, where nothing can be told.
pub fn retry_is_exact(
    meter: &impl Meter,
    level: u64,
    now: u64,
    units: u32,
    at_the_end: bool,
) -> Result<(), TestCaseError> {
    let admits = |now| meter.admit(level, at(now), cost(units)).is_some();
    match meter.retry_nanos(level, at(now), cost(units)) {
        Some(0) => prop_assert!(admits(now)),
        Some(wait) => {
            prop_assert!(admits(now + wait), "told to come back too early, after {wait}");
            prop_assert!(!admits(now) && !admits(now + wait - 1), "told to wait too long: {wait}");
        }
        None => prop_assert!(!admits(now) && (units > meter.quota() || at_the_end)),
    }
    let remaining = meter.outlook(level, at(now)).0;
    match meter.outlook(level, at(now)).1.nanos() {
        Some(wait) => {
            prop_assert!(wait > 0);
            prop_assert!(meter.outlook(level, at(now + wait - 1)).0 == remaining, "told too late");
            prop_assert!(meter.outlook(level, at(now + wait)).0 > remaining, "told too early");
        }
        None => prop_assert!(remaining == meter.quota() || at_the_end),
    }
    Ok(())
}

/// A table of `columns`, so few that most requests meet a collision, beside an exact limiter for each of six keys. The
/// clock stands, creeps by `scale`, jumps, and steps back. Returns what was admitted: (stamp, cost) by key.
pub fn agrees_with_its_twin<const ROWS: usize>(
    meter: &impl Meter,
    columns: usize,
    start: u64,
    scale: u64,
    seed: u64,
) -> Result<Vec<Vec<(u64, u32)>>, TestCaseError> {
    let table = MonotoneTable::<AtomicU64, ROWS>::with_shape(columns).unwrap();
    let mut twin: HashMap<u64, u64> = HashMap::new();
    let mut admitted = vec![Vec::new(); 6];
    let (mut dice, mut now) = (Dice(seed), start);
    for _ in 0..150 {
        now = match dice.below(16) {
            0 => now.saturating_sub(dice.below(scale * 4)),
            1 => now.saturating_add(dice.below(scale * 16)),
            2..=7 => now,
            _ => now.saturating_add(dice.below(scale / 4)),
        };
        let (number, units) = (dice.below(6), 1 + dice.below(3) as u32);
        let truth = twin.get(&number).copied().unwrap_or(0);
        let exact = meter.charge(truth, at(now), cost(units));
        match table.admit(meter, key(number), at(now), cost(units)) {
            Admission::Admitted { level } => {
                prop_assert!(
                    meter.admit(truth, at(now), cost(units)).is_some(),
                    "the twin refuses what the table admits"
                );
                prop_assert!(level >= exact);
                twin.insert(number, exact);
                admitted[number as usize].push((now, units));
            }
            Admission::Refused { .. } => {}
            Admission::Contended { .. } => prop_assert!(false, "contended without a contender"),
        }
        for (number, truth) in &twin {
            prop_assert!(table.estimate(key(*number)) >= *truth, "key {number} is counted too low");
        }
    }
    Ok(admitted)
}
