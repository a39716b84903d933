use std::collections::HashMap;

use proptest::prelude::*;

use super::super::{KeyHasher, Seed};
use super::*;

const MINUTE: u64 = 60_000_000_000;

fn key(number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([9; 16]));
    hasher.part(0, &number.to_le_bytes());
    hasher.finish()
}

fn offer(summary: &mut Heaviest<u64>, minute: u64, number: u64, weight: u32) {
    summary.offer(Timestamp::from_nanos(minute * MINUTE), 1, key(number), number, weight);
}

fn listing(summary: &Heaviest<u64>) -> Vec<(u64, u64, u64)> {
    summary.entries().iter().map(|entry| (entry.payload, entry.count, entry.error)).collect()
}

#[test]
fn few_keys_are_counted_exactly_and_listed_heaviest_first() {
    let mut summary = Heaviest::with_capacity(4);
    for (number, weight) in [(1, 5), (2, 9), (3, 1), (2, 1), (1, 1)] {
        offer(&mut summary, 0, number, weight);
    }
    assert_eq!(listing(&summary), [(2, 10, 0), (1, 6, 0), (3, 1, 0)]);
    assert_eq!((summary.total(), summary.error_bound()), (17, 0));
}

#[test]
fn the_paper_s_replacement_takes_over_the_smallest_count_as_error() {
    let mut summary = Heaviest::with_capacity(2);
    for number in [1, 1, 2, 3] {
        offer(&mut summary, 0, number, 1);
    }
    assert_eq!(listing(&summary).len(), 2);
    assert!(listing(&summary).contains(&(3, 2, 1)), "{:?}", listing(&summary));
    assert_eq!((summary.total(), summary.error_bound()), (4, 2));
}

#[test]
fn the_same_key_under_two_rules_is_two() {
    let mut summary = Heaviest::with_capacity(4);
    summary.offer(Timestamp::ZERO, 1, key(1), 1, 3);
    summary.offer(Timestamp::ZERO, 2, key(1), 1, 4);
    let listed: Vec<_> = summary.entries().iter().map(|entry| (entry.rule, entry.count)).collect();
    assert_eq!(listed, [(2, 4), (1, 3)]);
}

#[test]
fn what_was_refused_long_ago_fades_and_makes_way() {
    let mut summary = Heaviest::with_capacity(8);
    offer(&mut summary, 0, 1, 1_000);
    offer(&mut summary, 3, 2, 200);
    assert_eq!(listing(&summary), [(2, 200, 0), (1, 125, 0)]);
    assert_eq!(summary.entries()[1].last_seen, Timestamp::ZERO);
    offer(&mut summary, 1, 3, 10); // a stamp that steps back halves nothing and doubles nothing
    assert_eq!(listing(&summary), [(2, 200, 0), (1, 125, 0), (3, 10, 0)]);
    summary.advance(Timestamp::from_nanos(11 * MINUTE));
    assert_eq!(listing(&summary), [], "below one each: 200, 125 and 10 halved eight times");
    assert_eq!(summary.total(), 2);
    summary.advance(Timestamp::from_nanos(100 * MINUTE));
    assert_eq!((summary.total(), summary.error_bound()), (0, 0));
    offer(&mut summary, 100, 4, 1);
    assert_eq!(listing(&summary), [(4, 1, 0)]);
}

#[test]
fn merging_adds_counts_and_bounds_what_a_part_did_not_list() {
    let [mut a, mut b] = [Heaviest::with_capacity(2), Heaviest::with_capacity(2)];
    for (number, weight) in [(1, 10), (2, 4), (3, 1)] {
        offer(&mut a, 0, number, weight); // lists 1: 10 and 3: 5 with error 4
    }
    for (number, weight) in [(1, 7), (4, 2)] {
        offer(&mut b, 0, number, weight); // exact
    }
    let merged = Heaviest::merge(Timestamp::ZERO, &[&a, &b]);
    assert_eq!(listing(&merged), [(1, 17, 0), (4, 6, 4)]);
    assert_eq!(merged.total(), 24);
    assert!(Heaviest::<u64>::merge(Timestamp::ZERO, &[]).entries().is_empty());
}

#[test]
fn parts_whose_last_word_was_at_different_times_are_merged_as_of_now() {
    let [mut a, mut b] = [Heaviest::with_capacity(4), Heaviest::with_capacity(4)];
    offer(&mut a, 0, 1, 800);
    offer(&mut b, 2, 1, 80);
    let merged = Heaviest::merge(Timestamp::from_nanos(3 * MINUTE), &[&a, &b]);
    assert_eq!(listing(&merged), [(1, 140, 0)]);
    assert_eq!(listing(&a), [(1, 800, 0)]);
}

#[test]
fn offers_allocate_nothing() {
    let mut summary = Heaviest::with_capacity(Heaviest::<u64>::DEFAULT_CAPACITY);
    let keys: Vec<KeyHash> = (0..50_000).map(key).collect();
    let memory = summary.memory();
    let measured = allocation_counter::measure(|| {
        for (number, key) in keys.iter().enumerate() {
            let number = number as u64;
            summary.offer(Timestamp::from_nanos(number * 10_000_000), 1, *key, number, 1);
        }
    });
    assert_eq!((measured.count_total, summary.memory()), (0, memory));
    assert_eq!(memory.0 >> 10, 204);
}

/// Zipf's law with exponent 1 over 1,000 keys, from numbers that the property test draws.
fn zipf(uniform: u64) -> u64 {
    let harmonic: f64 = (1..=1_000).map(|rank| 1.0 / f64::from(rank)).sum();
    let mut left = uniform as f64 / u64::MAX as f64 * harmonic;
    (1..1_000)
        .find(|rank| {
            left -= 1.0 / *rank as f64;
            left <= 0.0
        })
        .unwrap_or(1_000)
}

/// What is promised, against weights kept exactly (in fractions, halved without rounding).
fn keeps_its_promise(summary: &Heaviest<u64>, exact: &HashMap<u64, f64>) {
    let capacity = summary.capacity() as f64;
    let total: f64 = exact.values().sum();
    assert!((summary.total() as f64 - total).abs() < 2.0, "{} for {total}", summary.total());
    let listed: HashMap<u64, Entry<u64>> = summary.entries().into_iter().map(|entry| (entry.payload, entry)).collect();
    assert!(listed.len() <= summary.capacity());
    for entry in listed.values() {
        let weight = exact.get(&entry.payload).copied().unwrap_or(0.0);
        assert!(entry.count as f64 >= weight, "{entry:?} counts too low: {weight}");
        assert!((entry.count - entry.error) as f64 <= weight + 1.0, "{entry:?} is surer than it can be: {weight}");
        assert!(entry.error as f64 <= total / capacity + 1.0, "{entry:?} errs by more than {total}/{capacity}");
    }
    for (number, weight) in exact {
        let is_heavy = *weight > total / capacity + 0.01 && *weight >= 1.0;
        assert!(!is_heavy || listed.contains_key(number), "{number} with {weight} of {total} is not listed");
        assert!(listed.contains_key(number) || *weight <= summary.error_bound() as f64 || *weight < 1.0);
    }
    assert!(summary.error_bound() as f64 <= total / capacity + 1.01);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_heavy_key_is_listed_and_no_error_exceeds_the_bound(
        stream in prop::collection::vec((any::<u64>(), 1..20_u32, 0..3_u8), 1..3_000),
        capacity in 1..100_usize,
        halving in any::<bool>(),
    ) {
        let mut parts = [(); 3].map(|()| Heaviest::with_capacity(capacity));
        let mut exact = [(); 3].map(|()| HashMap::<u64, f64>::new());
        for (step, (uniform, weight, part)) in stream.iter().enumerate() {
            let minute = if halving { step as u64 / 400 } else { 0 };
            if halving && step > 0 && step % 400 == 0 {
                exact.iter_mut().flat_map(|exact| exact.values_mut()).for_each(|weight| *weight /= 2.0);
            }
            let part = usize::from(*part);
            offer(&mut parts[part], minute, zipf(*uniform), *weight);
            *exact[part].entry(zipf(*uniform)).or_default() += f64::from(*weight);
        }
        let now = Timestamp::from_nanos(if halving { (stream.len() as u64 - 1) / 400 * MINUTE } else { 0 });
        let mut all = HashMap::new();
        for (part, exact) in parts.iter_mut().zip(&exact) {
            part.advance(now);
            keeps_its_promise(part, exact);
            exact.iter().for_each(|(number, weight)| *all.entry(*number).or_default() += *weight);
        }
        let mut merged = Heaviest::merge(now, &parts.each_ref());
        keeps_its_promise(&merged, &all);
        // a merged summary is a summary: it may be merged, and offered to, again
        let again = Heaviest::merge(now, &[&merged, &parts[0]]);
        let mut twice = all.clone();
        exact[0].iter().for_each(|(number, weight)| *twice.entry(*number).or_default() += *weight);
        keeps_its_promise(&again, &twice);
        for (uniform, weight, _) in stream.iter().take(200) {
            merged.offer(now, 1, key(zipf(*uniform)), zipf(*uniform), *weight);
            *all.entry(zipf(*uniform)).or_default() += f64::from(*weight);
        }
        keeps_its_promise(&merged, &all);
    }
}

#[test]
fn a_summary_goes_on_in_another_process_as_it_was() {
    let mut summary = Heaviest::with_capacity(8);
    for number in 0..30 {
        offer(&mut summary, number / 10, number % 13, number as u32 + 1);
    }
    let key = crate::saved::Key::from_bytes([3; 16]);
    let mut stream = Vec::new();
    let mut writer = Writer::new(&mut stream, &key).unwrap();
    writer.begin("summary").unwrap();
    summary.save(&mut writer, |payload| [*payload]).unwrap();
    writer.end().unwrap();
    writer.finish().unwrap();
    let read = |into: &mut Heaviest<u64>, most: u64| {
        let mut bytes = stream.as_slice();
        let mut reader = Reader::new(&mut bytes, &key).unwrap();
        reader.begin().unwrap();
        into.restore(&mut reader, |[payload]| Some(payload).filter(|payload| *payload < most))
    };
    let mut again = Heaviest::with_capacity(8);
    read(&mut again, 13).unwrap();
    assert_eq!((again.total(), again.error_bound()), (summary.total(), summary.error_bound()));
    assert_eq!(again.entries(), summary.entries());
    // and counts on as the first one does
    for number in 0..40 {
        offer(&mut summary, 4, number % 11, 3);
        offer(&mut again, 4, number % 11, 3);
    }
    assert_eq!(listing(&again), listing(&summary));
    assert!(read(&mut Heaviest::with_capacity(4), 13).is_err(), "more than it has room for");
    assert!(read(&mut Heaviest::with_capacity(8), 2).is_err(), "a payload that is none");
}
