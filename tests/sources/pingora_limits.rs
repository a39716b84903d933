//! What `pingora_limits` shows of itself, P1 to P6, asked of our own: its worked example, its odds, its memory, its rates and
//! its guards. How fast it is (P3) `benches/limiter` measures; here stands what the compared structures answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use dashmap::DashMap;
use pingora_limits::estimator::Estimator;
use tidegate::limiter::kinds::InflightByKey;
use tidegate::sketch::{KeyHash, KeyHasher, Seed, SummingTable};
use tidegate::units::Bytes;

use crate::gate::{Gate, passed};
use crate::shorthand::{broken_interval, bucket, cost, key_under};
use tidegate::units::Dice;

const SEED: Seed = Seed::from_bytes([4; 16]);

fn key(number: u64) -> KeyHash {
    key_under(&SEED, number)
}

/// P1: three rows of four, where red and blue meet in the second row. After red, blue and "blue red red red blue red" the
/// rows say 5 and 3, 8 and 8, 5 and 3; so the answer is 5 and 3.
pub fn p1_the_worked_example_counts_red_5_and_blue_3() {
    let table = || SummingTable::<AtomicU32, 3>::with_shape(4, &SEED).unwrap();
    let red = key(0);
    let meets_red_in_the_second_row = |other: &KeyHash| {
        let table = table();
        table.add(*other, 1).unwrap();
        table.counts(red) == [0, 1, 0]
    };
    let blue = (1..1_000).map(key).find(meets_red_in_the_second_row).unwrap();
    let (table, theirs) = (table(), Estimator::new(4, 1_024));
    let (mut last, mut their_last) = (HashMap::new(), HashMap::new());
    for name in "red blue blue red red red blue red".split(' ') {
        last.insert(name, table.add(if name == "red" { red } else { blue }, 1).unwrap());
        their_last.insert(name, theirs.incr(name, 1));
    }
    assert_eq!((table.counts(red), table.counts(blue)), ([5, 8, 5], [3, 8, 3]));
    assert_eq!((table.estimate(red), table.estimate(blue)), (5, 3));
    assert_eq!((last["red"], last["blue"]), (5, 3));
    assert_eq!((their_last["red"], their_last["blue"]), (5, 3));
    // and what theirs has no safe way for: all of it is given back
    (0..5).for_each(|_| table.release(red, 1));
    (0..3).for_each(|_| table.release(blue, 1));
    assert_eq!((table.total(), table.faults()), (0, 0));
}

/// P2, its own figure: two given keys meet in every row with 1/64 for 3 × 4, and 2⁻⁵² for 4 × 8,192.
pub fn p2_two_given_keys_share_all_cells_as_rarely_as_the_formula_says() {
    let small = SummingTable::<AtomicU32, 3>::with_shape(4, &SEED).unwrap();
    assert_eq!(small.pair_collision_probability(), 1.0 / 64.0);
    let theirs = SummingTable::<AtomicU32, 4>::with_shape(8_192, &SEED).unwrap();
    assert_eq!(theirs.pair_collision_probability(), 2.0_f64.powi(-52));
    let default = SummingTable::with_memory(SummingTable::DEFAULT_MEMORY, &SEED).unwrap();
    assert_eq!(default.pair_collision_probability(), 2.0_f64.powi(-128));

    // averaged over multipliers, as those of one table make its rows a little more or less alike
    let (mut met, tables, pairs) = (0, 64, 1_000);
    for number in 0..tables {
        let table = SummingTable::<AtomicU32, 3>::with_shape(4, &SEED.derive(&number.to_string())).unwrap();
        for pair in 0..pairs {
            let (a, b) = (key(2 * pair), key(2 * pair + 1));
            table.add(a, 1).unwrap();
            met += u32::from(table.estimate(b) > 0);
            table.release(a, 1);
        }
    }
    // 1,000 expected of 64,000
    println!("{met} of {} pairs share all three cells", tables * pairs);
    assert!((800..1_200).contains(&met), "{met}");
    beside_busy_keys_counts_are_too_high_as_often_as_the_formula_says();
}

/// P2, the figure that matters: beside n busy keys a count is too high with probability (1 − e^(−n/w))^d.
fn beside_busy_keys_counts_are_too_high_as_often_as_the_formula_says() {
    fn measure<const ROWS: usize>(columns: usize, busy: u64, probes: u64) {
        let (mut high, tables, mut stated) = (0, 10, 0.0);
        for number in 0..tables {
            let seed = SEED.derive(&format!("{columns}/{busy}/{number}"));
            let table = SummingTable::<AtomicU32, ROWS>::with_shape(columns, &seed).unwrap();
            (0..busy).for_each(|number| _ = table.add(key_under(&seed, number), 1).unwrap());
            high += (busy..busy + probes).filter(|fresh| table.estimate(key_under(&seed, *fresh)) > 0).count();
            stated = table.over_count_probability(busy);
        }
        let measured = high as f64 / (tables * probes) as f64;
        println!("{ROWS} rows of {columns} beside {busy}: {measured:.2e}, stated {stated:.2e}");
        assert!(measured < 1.5 * stated && measured > stated / 1.5, "measured {measured:e}, stated {stated:e}");
    }
    measure::<4>(8_192, 8_192, 2_000); // the 16 % of theirs when full
    measure::<4>(1_024, 300, 20_000);
    measure::<8>(1_024, 1_024, 4_000);
    measure::<8>(256, 128, 40_000);
    measure::<8>(4_096, 4_096, 4_000);
    let theirs = SummingTable::<AtomicU32, 4>::with_shape(8_192, &SEED).unwrap();
    let stated = [100, 1_000, 8_192].map(|busy| format!("{:.1e}", theirs.over_count_probability(busy)));
    assert_eq!(stated, ["2.2e-8", "1.7e-4", "1.6e-1"]);
}

/// P3, what no clock is needed for: the maps count exactly, and the 3 × 1,024 sketch of the same table answers what all keys of
/// a cell have together, fifty times too much here (977 times there). The speeds are a benchmark's.
pub fn p3_the_compared_structures_count_what_they_should() {
    const KEYS: u64 = 50_000;
    const EVENTS: u64 = 500_000;
    let mut truth = vec![0_u32; KEYS as usize];
    let naive = Mutex::new(HashMap::new());
    let optimized = DashMap::new();
    let theirs = Estimator::new(3, 1_024);
    let ours = SummingTable::with_memory(Bytes(16 << 20), &SEED).unwrap();
    let mut dice = Dice(11);
    for _ in 0..EVENTS {
        let number = dice.below(KEYS);
        truth[number as usize] += 1;
        *naive.lock().unwrap().entry(number).or_insert(0_u32) += 1;
        *optimized.entry(number).or_insert(0_u32) += 1;
        theirs.incr(number, 1);
        ours.add(key(number), 1).unwrap();
    }
    let naive = naive.into_inner().unwrap();
    let (mut their_sum, mut our_sum) = (0_u64, 0_u64);
    for (number, truth) in (0..).zip(truth) {
        assert_eq!(naive.get(&number).copied().unwrap_or(0), truth);
        assert_eq!(optimized.get(&number).map_or(0, |count| *count), truth);
        let (their, our) = (theirs.get(number) as u64, u64::from(ours.estimate(key(number))));
        assert!(their >= u64::from(truth) && our >= u64::from(truth), "key {number} is counted too low");
        (their_sum, our_sum) = (their_sum + their, our_sum + our);
    }
    let (their_excess, our_excess) = (their_sum as f64 / EVENTS as f64, our_sum as f64 / EVENTS as f64);
    println!("of a count: 3x1024 answers {their_excess:.1} times it, 8 rows of half a million {our_excess:.4} times");
    assert!((40.0..50.0).contains(&their_excess), "{their_excess}");
    assert!(our_excess < 1.001, "{our_excess}");
}

/// P4: the memory of the three structures of the post as printed there, and of every kind of limit as it says of itself, which
/// no number of keys changes.
pub fn p4_memory_is_fixed_whatever_the_number_of_keys() {
    the_sketch_and_the_maps_take_what_the_post_says();
    for limit in [
        "rate: 5/s, burst: 5",
        "type: quota, max: 5, window: 1h",
        "type: quota, max: 5, window: 1h, sliding: true",
        "type: recent_average, rate: 1/s, half_life: 10s",
        "type: distinct, of: path, max: 5, window: 1h",
        "type: fair_share, capacity: 1000/s",
        "type: inflight, key: client_ip, max: 5",
    ] {
        let mut gate = None;
        let built = allocation_counter::measure(|| gate = Some(Gate::new(limit)));
        let gate = gate.unwrap();
        // beside the limit a policy of a few lines
        let rest = (built.bytes_current as u64).checked_sub(gate.memory());
        assert!(rest.is_some_and(|rest| rest < 64 << 10), "{limit}: {built:?} for {} bytes", gate.memory());
        let used = allocation_counter::measure(|| (0..20_000).for_each(|client| _ = gate.ask(client, 1 << 50)));
        assert_eq!(used.bytes_current, 0, "{limit}");
        // a request that waits has a cell of its own until it is answered
        assert!(used.count_total == 0 || limit.contains("fair_share"), "{limit}: {used:?}");
    }
}

/// The post's million keys. Its numbers are those of `dhat` on a machine of eight cores, for which the sharded map takes 32 shards.
fn the_sketch_and_the_maps_take_what_the_post_says() {
    const KEYS: u32 = 1_000_000;
    let sketch = allocation_counter::measure(|| {
        let sketch = Estimator::new(3, 1_024);
        (0..100_000).for_each(|number: u32| _ = sketch.incr(number, 1));
    });
    // 24 KiB of counters in a few blocks, and there a few statics of the hasher
    assert!((24_576..=26_184).contains(&sketch.bytes_max) && sketch.count_total <= 9, "{sketch:?}");
    let naive = allocation_counter::measure(|| {
        let naive = Mutex::new(HashMap::<u32, usize>::new());
        (0..KEYS).for_each(|number| *naive.lock().unwrap().entry(number).or_default() += 1);
    });
    // 2²¹ buckets of 16 bytes and a byte of control each, and while they are filled the 2²⁰ before
    assert!(naive.bytes_max.abs_diff(53_477_392) < 1_000, "{naive:?}");
    assert!(naive.bytes_total.abs_diff(71_303_260) < 1_000 && naive.count_total.abs_diff(20) <= 2, "{naive:?}");
    let optimized = allocation_counter::measure(|| {
        let optimized = DashMap::<u32, AtomicUsize>::with_shard_amount(32);
        let count = |number| optimized.entry(number).or_default().fetch_add(1, Relaxed);
        (0..KEYS).for_each(|number| _ = count(number));
    });
    // of the 32 shards one grows at a time
    assert!(optimized.bytes_max.abs_diff(36_211_208) < 10_000, "{optimized:?}");
    assert!(
        optimized.bytes_total.abs_diff(71_307_722) < 10_000 && optimized.count_total.abs_diff(491) < 50,
        "{optimized:?}"
    );
    let ratios = [naive.bytes_max / sketch.bytes_max, optimized.bytes_max / sketch.bytes_max];
    assert!((2_000..2_200).contains(&ratios[0]) && (1_300..1_500).contains(&ratios[1]), "{ratios:?}");
}

/// P5: its rate tests, 5 events in second 0 and 4 in second 1, read from our limits. An aligned `quota` holds the two counts that
/// its three formulas are made of, a sliding one is its proportional formula, rounded up. Its 90/10 blend is computed from the
/// counts: no limit of ours is one.
pub fn p5_the_rate_trace_reads_as_theirs_from_our_windows() {
    // (millisecond, events) and what their three formulas then say: last interval, proportional, 90/10
    let trace = [
        (0, 5, 0.0, 5.0, 4.5),
        (500, 0, 0.0, 5.0, 4.5),
        (1_000, 4, 5.0, 9.0, 4.1),
        (1_750, 0, 5.0, 5.0 * 0.25 + 4.0, 4.1),
        (2_000, 0, 4.0, 4.0, 0.4),
        (2_500, 0, 4.0, 2.0, 0.4),
        (3_500, 0, 0.0, 0.0, 0.0),
    ];
    let aligned = Gate::new("type: quota, max: 1000, window: 1s");
    let sliding = Gate::new("type: quota, max: 1000, window: 1s, sliding: true");
    let bucket = Gate::new("rate: 5/s, burst: 5");
    let (mut by_second, mut spent) = ([0; 4], Vec::new());
    for (milliseconds, events, last, proportional, blend) in trace {
        let (now, second) = (START + milliseconds * 1_000_000, milliseconds as usize / 1_000);
        for _ in 0..events {
            assert!(passed(&aligned.ask(1, now)) && passed(&sliding.ask(1, now)));
            assert!(passed(&bucket.ask(1, now)), "the trace is within 5/s");
        }
        by_second[second] = used(&aligned, 1_000, now);
        let (previous, current) = (second.checked_sub(1).map_or(0, |before| by_second[before]), by_second[second]);
        assert_eq!(f64::from(previous), last, "at {milliseconds} ms");
        assert_eq!(f64::from(used(&sliding, 1_000, now)), f64::ceil(proportional), "at {milliseconds} ms");
        let blended = 0.1 * f64::from(previous) + 0.9 * f64::from(current);
        assert!((blended - blend).abs() < 1e-9, "{blended} at {milliseconds} ms, not {blend}");
        spent.push(used(&bucket, 5, now));
    }
    // full after five, half of them back after half a second (rounded against the client), four after another four, …
    assert_eq!(spent, [5, 3, 4, 1, 0, 0, 0]);
    around_the_turn_of_a_second_a_limit_on_its_counts_passes_double();
}

/// A whole number of seconds.
const START: u64 = 10_000_000 * 1_000_000_000;

/// How much of its whole a limit has spent on the client.
fn used(gate: &Gate, whole: u32, now: u64) -> u32 {
    let reading = gate.probe(1, now);
    // what remains is said for after the request that asks
    if passed(&reading) { whole - 1 - reading.remaining } else { whole }
}

/// P5, what is wrong with it: a limit on what counters by the second say, as an aligned `quota` is, lets twice as much through
/// around their turn.
fn around_the_turn_of_a_second_a_limit_on_its_counts_passes_double() {
    let arrivals = [999, 1_000].into_iter().flat_map(|millisecond| [START + millisecond * 1_000_000; 10]);
    let admitted = |words: &str| {
        let gate = Gate::new(words);
        arrivals.clone().filter(|now| passed(&gate.ask(1, *now))).map(|now| (now, 1)).collect::<Vec<_>>()
    };
    let promise = bucket(200_000_000, 5);
    let aligned = admitted("type: quota, max: 5, window: 1s");
    assert!(aligned.len() == 10 && broken_interval(&promise, &aligned).is_some());
    assert_eq!(admitted("type: quota, max: 5, window: 1s, sliding: true").len(), 5);
    let ours = admitted("rate: 5/s, burst: 5");
    assert_eq!((ours.len(), broken_interval(&promise, &ours)), (5, None));
}

/// P6: guards. Add 1: 1. Add 2: 3. Drop the first: 2. Drop both, add 1: 1.
pub fn p6_guards_give_back_what_they_took() {
    let limiter = Arc::new(InflightByKey::new(10, InflightByKey::DEFAULT_MEMORY, SEED).unwrap());
    let mut hasher = KeyHasher::new(limiter.seed());
    hasher.part(0, b"a client");
    let client = hasher.finish();
    let take = |units| limiter.admit(client, cost(units), limiter.max()).unwrap().1;
    let first = take(1);
    assert_eq!(limiter.held(client), 1);
    let second = take(2);
    assert_eq!(limiter.held(client), 3);
    drop(first);
    assert_eq!(limiter.held(client), 2);
    drop(second);
    let third = take(1);
    assert_eq!((limiter.held(client), limiter.held_total()), (1, 1));
    drop(third);
    assert_eq!((limiter.held_total(), limiter.faults()), (0, 0));
}
