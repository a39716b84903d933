//! While collisions change, whoever is held down stays held down, and nobody else feels it.

use proptest::prelude::*;
use tidegate_limits::limiter::kinds::fair_share::caps::Caps;
use tidegate_limits::sketch::offered::OfferedRates;
use tidegate_limits::sketch::rekeyed::PERIOD_NANOS;
use tidegate_limits::sketch::{Admission, Seed};
use tidegate_limits::units::{Bytes, Timestamp};

use crate::simulation::*;

const SEED: Seed = Seed::from_bytes([9; 16]);
const CAPACITY: f64 = 1_000.0;
/// When the flood begins, when both tables begin to serve, when a flood is in full swing, and the end.
const FROM: usize = 2;
const OPENS: u64 = 8;
const SETTLED: usize = 6;
const END: usize = 45;

/// The world with a limit that is looked after once a second, and so re-keyed at [`OPENS`], or never.
fn through(rekeying: bool, sources: &[Source]) -> Outcome {
    let limit = limiter(&steered(CAPACITY as u32, &[1.0, 16.0, 64.0]));
    let maintain = |second: u64, before: u64| {
        if rekeying {
            limit.maintain(Timestamp::from_nanos(START + second * SECOND - before));
        }
    };
    maintain(OPENS, PERIOD_NANOS);
    let mut second = 0;
    let decide = |keys: &[_], now: Timestamp, dice| {
        while START + second * SECOND <= now.nanos() {
            maintain(second, 0);
            second += 1;
        }
        let offered = limit.offer(keys, now, dice);
        offered.admitted() && limit.admit(keys, &offered, now).is_ok()
    };
    let outcome = drive(sources, END, 1, decide, || limit.alpha());
    assert_eq!(limit.rekeyings(), u64::from(rekeying));
    outcome
}

/// Twenty honest clients, and a flood of 5,000 a second from so many hosts of one /24.
fn world(hosts: u16) -> Vec<Source> {
    let honest = |n: u16| Source {
        arrivals: Arrivals::Poisson,
        ..source("honest", 5.0, chain(client(Family::V4, 100 + n, 1, 7)))
    };
    let bot = |n| Source {
        from: FROM as f64,
        arrivals: Arrivals::Poisson,
        ..source("flood", 5_000.0 / f64::from(hosts), chain(client(Family::V4, 1, 1, n)))
    };
    (0..20).map(honest).chain((0..hosts).map(bot)).collect()
}

#[test]
fn a_flood_that_is_held_down_is_held_down_through_the_change_and_after_it() {
    for hosts in [1, 100] {
        let sources = world(hosts);
        let [without, with] = [false, true].map(|rekeying| through(rekeying, &sources));
        let table = || format!("{hosts} hosts: {}\nwithout: {}", with.table(), without.table());
        let steady = without.passed("flood", SETTLED, END);
        for second in SETTLED..END {
            let flood = with.passed("flood", second, second + 1);
            assert!(flood <= 1.1 * steady, "{flood}/s in second {second} instead of {steady}; {}", table());
            let total = with.total(second, second + 1);
            assert!(total <= 1.05 * CAPACITY, "{total}/s in second {second}; {}", table());
        }
        let all = with.passed("flood", SETTLED, END);
        assert!(all <= 1.01 * steady, "{all}/s in all instead of {steady}; {}", table());
        assert!(with.part("honest", SETTLED, END) >= 0.99, "{}", table());
    }
}

#[test]
fn rates_go_on_where_they_were_and_a_key_unseen_during_the_overlap_loses_less_than_one_event() {
    let half_life = std::time::Duration::from_secs(1);
    let [rekeyed, other] = [(); 2].map(|()| OfferedRates::new(Bytes(64 << 10), half_life, &SEED).unwrap());
    let (busy, gone) = (key(&[b"busy"]), key(&[b"gone"]));
    let at = |second: u64| Timestamp::from_nanos(START + second * SECOND);
    rekeyed.maintain(Timestamp::from_nanos(at(1).nanos() - PERIOD_NANOS));
    for second in 0..40 {
        for rates in [&rekeyed, &other] {
            (0..100).for_each(|_| _ = rates.add(&rates.read(busy, 0), at(second)));
            if second == 0 {
                (0..100_000).for_each(|_| _ = rates.add(&rates.read(gone, 0), at(second)));
            }
        }
        rekeyed.maintain(at(second));
        assert_eq!(rekeyed.rate(busy, 0, at(second)), other.rate(busy, 0, at(second)), "second {second}");
        let lost = other.rate(gone, 0, at(second)) - rekeyed.rate(gone, 0, at(second));
        assert!((0.0..other.per_event()).contains(&lost), "second {second}: {lost}");
    }
    assert_eq!(rekeyed.rekeyings(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_gains_a_fresh_cap_through_a_rekeying(
        // from parked as deep as a cap can be to one that is whole again in half a second
        per_second in prop_oneof![Just(0.125), Just(0.5), Just(20.0)],
        events in prop::collection::vec((0_u64..12, 1_u32..6), 1..60),
        jump in 0_usize..10,
    ) {
        let caps = Caps::new(Bytes(1 << 10), &SEED).unwrap();
        let (mut now, mut passed): (u64, Vec<u64>) = (START, Vec::new());
        caps.maintain(Timestamp::from_nanos(now));
        for (index, (wait, asked)) in events.into_iter().enumerate() {
            now += if index == jump { PERIOD_NANOS } else { 0 };
            for _ in 0..wait {
                now += SECOND;
                caps.maintain(Timestamp::from_nanos(now));
            }
            let stamp = Timestamp::from_nanos(now);
            let passes = |_: &u32| matches!(caps.admit(key(&[b"a"]), 2, per_second, stamp), Admission::Admitted { .. });
            passed.extend((0..asked).filter(passes).map(|_| now));
        }
        for (first, from) in passed.iter().enumerate() {
            for (count, until) in passed[first..].iter().enumerate() {
                let span = (until - from) as f64 / 1e9;
                let promised = (per_second * (span + 0.5)).max(per_second * span + 2.0);
                prop_assert!(count as f64 + 1.0 <= promised + 1e-6, "{} in {span} s", count + 1);
            }
        }
    }
}
