//! The scenarios and tables of rakelimit's paper and code, R1 to R9, in its own configuration: one limit at every node,
//! no total. λ is the paper's 1/s or the code's 7.45/s (2²⁷ ns). Where a scenario is adapted, the test says how.
//!
//! Its 4-tuple becomes `address {/32, /24, *} × source port {exact, *}` below one destination port: six nodes in four
//! levels. A scenario's own destination is one port, everything else goes to another, as to another service.

#[path = "../../crates/limits/tests/fair_share/reference.rs"]
pub mod reference;

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate::limiter::kinds::fair_share::share::FairShare;
use tidegate::limiter::kinds::fair_share::share::FairShareSpec;
use tidegate::sketch::offered::OfferedRates;
use tidegate::sketch::{KeyHash, Seed};
use tidegate::units::{Bytes, Prefix, Timestamp};

use crate::ground::{CODE, Family, START, client, compatible, key, limiter, passes};
use reference::Rakelimit;
use tidegate::units::Dice;

/// Levels of the six nodes: how many generalisations they are away from the tuple.
const LEVELS: [u8; 6] = [0, 1, 1, 2, 2, 3];

/// The keys of one packet, in the order of [`LEVELS`].
fn packet(address: IpAddr, source_port: u16, destination_port: u16) -> Vec<Option<KeyHash>> {
    let part = |v4, v6, port: Option<u16>| {
        let (bytes, length) = Prefix::around(address, v4, v6).key_bytes();
        let port = port.map_or([0, 0, 0], |port| [1, (port >> 8) as u8, port as u8]);
        Some(key(&[&bytes[..length], &port, &destination_port.to_le_bytes()]))
    };
    let exact = Some(source_port);
    vec![
        part(32, 128, exact),
        part(32, 128, None),
        part(24, 48, exact),
        part(24, 48, None),
        part(0, 0, exact),
        part(0, 0, None),
    ]
}

/// What a stream's packets have in common; the rest is drawn anew for each.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    address: bool,
    net: bool,
    port: bool,
}

const TUPLE: Shape = Shape { address: true, net: true, port: true };
const ADDRESS: Shape = Shape { address: true, net: true, port: false };
const NET_AND_PORT: Shape = Shape { address: false, net: true, port: true };
const NET: Shape = Shape { address: false, net: true, port: false };
const PORT: Shape = Shape { address: false, net: false, port: true };
const ANYTHING: Shape = Shape { address: false, net: false, port: false };

/// A stream of packets.
#[derive(Clone, Copy)]
struct Stream {
    per_second: f64,
    shape: Shape,
    /// Which host of the /24, where the address is fixed.
    host: u16,
    /// Which source port, where it is fixed.
    port: u16,
    destination: u16,
}

fn stream(per_second: f64, shape: Shape) -> Stream {
    Stream { per_second, shape, host: 1, port: 80, destination: 53 }
}

impl Stream {
    fn draw(&self, family: Family, dice: &mut Dice) -> Vec<Option<KeyHash>> {
        let roll = dice.roll();
        let (wide, net) = if self.shape.net { (1, 1) } else { (roll as u16 % 50_000, (roll >> 16) as u16) };
        let host = if self.shape.address { self.host } else { (roll >> 32) as u16 };
        let port = if self.shape.port { self.port } else { (roll >> 48) as u16 };
        packet(client(family, wide, net, host), port, self.destination)
    }
}

/// What a decision sees: the stream's number, its packet, when, and the dice.
type Decide<'a> = dyn FnMut(usize, &[Option<KeyHash>], Timestamp, u64) -> bool + 'a;

/// Runs the streams side by side; returns what each had passed per second.
fn play(family: Family, streams: &[Stream], seconds: u64, decide: &mut Decide) -> Vec<f64> {
    let mut dice = Dice(11);
    // random phases, so that no stream is locked to another's beat
    let mut due: Vec<f64> = streams.iter().map(|stream| dice.unit() / stream.per_second).collect();
    let mut passed = vec![0_u64; streams.len()];
    loop {
        let (number, at) = due.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        if at >= seconds as f64 {
            return passed.into_iter().map(|passed| passed as f64 / seconds as f64).collect();
        }
        let keys = streams[number].draw(family, &mut dice);
        let now = Timestamp::from_nanos(START + (at * 1e9) as u64);
        passed[number] += u64::from(decide(number, &keys, now, dice.roll()));
        due[number] += 1.0 / streams[number].per_second;
    }
}

fn play_ours(spec: &FairShareSpec, streams: &[Stream], seconds: u64) -> Vec<f64> {
    let limit = limiter(spec);
    play(Family::V4, streams, seconds, &mut |_, keys, now, dice| passes(&limit, keys, now, dice))
}

pub fn r1_a_flood_from_one_source_is_held_to_the_limit_and_its_neighbour_is_untouched() {
    for lambda in [1.0, CODE] {
        let neighbour = Stream { host: 2, ..stream(5.0, TUPLE) };
        let passed = play_ours(&compatible(25.0, lambda, &LEVELS), &[stream(100.0, TUPLE), neighbour], 60);
        assert!((22.5..=27.5).contains(&passed[0]), "λ={lambda}: {passed:?}");
        assert!(passed[1] >= 4.95, "λ={lambda}: {passed:?}");
    }
}

pub fn r2_a_reflection_attack_from_random_sources_and_one_port_is_held_and_others_are_untouched() {
    for lambda in [1.0, CODE] {
        // the others come with any port; at the service they stay below its limit, as the attack is not counted there
        let passed = play_ours(&compatible(25.0, lambda, &LEVELS), &[stream(100.0, PORT), stream(5.0, ANYTHING)], 60);
        assert!((22.0..=27.5).contains(&passed[0]), "λ={lambda}: {passed:?}");
        assert!(passed[1] >= 4.5, "λ={lambda}: {passed:?}");
    }
}

/// One key at `per_second` for these many packets a second, as fast as it goes.
fn hammer(limit: &FairShare, per_second: f64, packets: &[u64], seed: u64) -> Vec<u64> {
    let keys = [Some(key(&[b"the flood"]))];
    let mut dice = Dice(seed);
    let mut number = 0_u64;
    let mut row = Vec::new();
    for packets in packets {
        let mut passed = 0;
        for _ in 0..*packets {
            let now = Timestamp::from_nanos(START + (number as f64 * 1e9 / per_second) as u64);
            passed += u64::from(passes(limit, &keys, now, dice.roll()));
            number += 1;
        }
        row.push(passed);
    }
    row
}

pub fn r3_a_million_a_second_converges_to_250_000_after_the_first() {
    let row = hammer(&limiter(&compatible(250_000.0, 1.0, &[0])), 1e6, &[1_000_000; 5], 3);
    // 590,761 in the design's simulation: the rate is being learned, but the cap holds
    assert!((500_000..=650_000).contains(&row[0]), "{row:?}");
    assert!(row[1..].iter().all(|passed| (242_500..=257_500).contains(passed)), "{row:?}");
}

/// The received row of Figure 8, in full: fifty million decisions.
const RECEIVED: [u64; 6] = [5_425_698, 10_050_250, 10_050_182, 10_050_446, 10_050_261, 4_724_513];

/// What was forwarded of it.
const FORWARDED: [u64; 6] = [361, 41, 34, 39, 23, 13];

/// The limit of the scenario; its window is one second.
const LIMIT: f64 = 25.0;

/// Each packet above the limit passes with the probability limit/rate, whatever became of the others, and the rate hangs on
/// the packets offered alone. So the count of a cell is a sum of independent draws of known odds, and how often a seed leaves a
/// bound can be computed.
pub fn r4_figure_8_is_reproduced_by_its_own_rule() {
    let own_rule = || limiter(&FairShareSpec { caps: false, ..compatible(LIMIT, 1.0, &[0]) });
    let row = hammer(&own_rule(), 1.005e7, &RECEIVED, 4);
    let model = means(1.005e7, &RECEIVED);
    assert_eq!(model.map(|mean| (10.0 * mean).round() / 10.0), [339.2, 40.8, 29.0, 26.3, 25.5, 11.9]);
    for (cell, mean) in model.into_iter().enumerate() {
        let bound = all_but_one_seed_in_a_billion(mean);
        assert!(bound.contains(&row[cell]), "{row:?} against {model:?}: cell {cell} is not in {bound:?}");
        assert!(bound.contains(&FORWARDED[cell]), "published: cell {cell} is not in {bound:?}");
    }
    seeds_leave_narrow_bounds_as_often_as_computed(own_rule);
    with_the_cap_the_spike_is_a_fifth_of_it();
}

/// The means of the cells: L·W·[ln(e^(t/W) − 1)] from t₁ to t₂, after the first L·W packets, which all pass.
fn means(per_second: f64, packets: &[u64; 6]) -> [f64; 6] {
    let mut sent = 0;
    // the instant at which the rate reaches the limit
    let mut before = (LIMIT / (per_second - LIMIT)).ln();
    let mut learned = LIMIT;
    packets.map(|packets| {
        sent += packets;
        let now = (sent as f64 / per_second).exp_m1().ln();
        let mean = learned + LIMIT * (now - before);
        (before, learned) = (now, 0.0);
        mean
    })
}

/// What a sum of independent draws with this mean leaves with a probability below 10⁻⁹, by Chernoff's bound for each side.
fn all_but_one_seed_in_a_billion(mean: f64) -> RangeInclusive<u64> {
    let chance = |count: u64| {
        let count = count as f64;
        let part = if count == 0.0 { 0.0 } else { count * (count / mean).ln() };
        (count - mean - part).exp()
    };
    let rare = |count: &u64| chance(*count) < 5e-10;
    let middle = mean as u64;
    let least = (0..=middle).rev().find(rare).map_or(0, |count| count + 1);
    least..=(middle + 1..).find(rare).unwrap() - 1
}

/// Of many seeds of a smaller flood, as many leave bounds that one in five leaves as the exact distribution says.
fn seeds_leave_narrow_bounds_as_often_as_computed(limit: impl Fn() -> FairShare) {
    const PER_SECOND: f64 = 2_000.0;
    const SEEDS: u64 = 150;
    let packets = [1_000, 2_000, 2_000, 2_000, 2_000, 1_000];
    let bounds = narrow_bounds(PER_SECOND, &packets);
    let (mut dice, mut left) = (Dice(8), [0_u64; 6]);
    for _ in 0..SEEDS {
        let row = hammer(&limit(), PER_SECOND, &packets, dice.roll());
        left.iter_mut().zip(row).zip(&bounds).for_each(|((left, passed), (bound, _))| {
            *left += u64::from(!bound.contains(&passed));
        });
    }
    let expected: f64 = bounds.iter().map(|(_, outside)| outside * SEEDS as f64).sum();
    let found = left.iter().sum::<u64>() as f64;
    println!("{found} of {} cells leave a bound, {expected:.0} expected: {left:?}", 6 * SEEDS);
    assert!((20.0..200.0).contains(&expected), "{expected}: bounds that mean something");
    // six standard deviations
    assert!((found - expected).abs() < 6.0 * expected.sqrt(), "{found} cells leave {bounds:?}, {expected} expected");
}

/// For each cell a bound that at most a tenth of all seeds leave on either side, and how many that is exactly.
fn narrow_bounds(per_second: f64, packets: &[u64; 6]) -> [(RangeInclusive<u64>, f64); 6] {
    let mut rate = 0.0;
    packets.map(|packets| {
        // the odds of every count so far
        let mut odds = vec![1.0];
        for _ in 0..packets {
            rate = rate * f64::exp(-1.0 / per_second) + 1.0;
            let passes = f64::min(1.0, LIMIT / rate);
            odds.push(0.0);
            for count in (1..odds.len()).rev() {
                odds[count] = odds[count] * (1.0 - passes) + odds[count - 1] * passes;
            }
            odds[0] *= 1.0 - passes;
            // what no seed reaches is not carried on
            odds.truncate(400);
        }
        let below = |count: u64| odds[..count as usize].iter().sum::<f64>();
        let least = (0..400).take_while(|count| below(*count) <= 0.1).last().unwrap();
        let most = (least..400).find(|count| 1.0 - below(count + 1) <= 0.1).unwrap();
        (least..=most, below(least) + 1.0 - below(most + 1))
    })
}

/// A cap is half a second deep, twelve requests: in a second no more than 12 + 25, whatever the seed. In the first one a
/// request more than the limit passes before the rate is above it.
fn with_the_cap_the_spike_is_a_fifth_of_it() {
    const FIRST: u64 = 26 + 37;
    let capped = || limiter(&compatible(LIMIT, 1.0, &[0]));
    let bounded = |row: &[u64]| assert!(row[0] <= FIRST && row[1..].iter().all(|passed| *passed <= 37), "{row:?}");
    // a tenth of the rate for five seconds, as the text has it: 282 by the model, without the cap
    bounded(&hammer(&capped(), 1e6, &[1_000_000; 5], 3));
    // A second in which fewer than five pass has fewer than five drawn in its last 0.76 s: before the last one that the cap
    // refused, at s, no fewer than 25·s have passed or twelve. That is one second in 20,000.
    let fewer_than_five: f64 = (0..5)
        .scan((-19.0_f64).exp(), |term, n| {
            let now = *term;
            *term *= 19.0 / f64::from(n + 1);
            Some(now)
        })
        .sum();
    assert!((3e-5..5e-5).contains(&fewer_than_five), "{fewer_than_five}");
    let (mut dice, mut starved) = (Dice(9), 0);
    for _ in 0..60 {
        let row = hammer(&capped(), 2_000.0, &[2_000; 5], dice.roll());
        bounded(&row);
        starved += row[1..].iter().filter(|passed| **passed < 5).count();
    }
    assert!(starved <= 2, "{starved} of 240 seconds: more than two come about once in a million runs");
}

pub fn r5_twice_the_limit_for_ten_seconds_is_halved() {
    let limit = limiter(&compatible(100.0, CODE, &LEVELS));
    let mut flags = Vec::new();
    let passed = play(Family::V4, &[stream(200.0, TUPLE)], 10, &mut |_, keys, now, dice| {
        let offered = limit.offer(keys, now, dice);
        flags.push(offered.level);
        offered.admitted() && limit.admit(keys, &offered, now).is_ok()
    });
    assert!((95.0..=105.0).contains(&passed[0]), "{passed:?}");
    // adapted: an honest mean takes a window to rise, where 1/Δ is there with the second packet
    let risen = flags.iter().position(Option::is_some).unwrap();
    assert!(risen < 2 * 27, "first flagged was packet {risen}");
    assert!(flags[risen..].iter().all(|level| *level == Some(0)), "{flags:?}");
}

pub fn r6_every_flagged_packet_is_flagged_at_the_level_of_its_shape() {
    // The twelve shapes are these six times a destination port that is part of the nodes or is not: two lattices of six.
    // 101/s for a second at limit 100, every flagged packet dropped.
    let shapes = [(TUPLE, 0), (ADDRESS, 1), (NET_AND_PORT, 1), (NET, 2), (PORT, 2), (ANYTHING, 3)];
    for family in [Family::V4, Family::V6] {
        for (generalised, (shape, level)) in [0_u8, 1].into_iter().flat_map(|first| shapes.map(|shape| (first, shape)))
        {
            let limit = limiter(&compatible(100.0, CODE, &LEVELS.map(|level| level + generalised)));
            let mut flags = Vec::new();
            // 0 stands for a destination port that the nodes do not look at
            let stream = Stream { destination: if generalised == 1 { 0 } else { 53 }, ..stream(101.0, shape) };
            play(family, &[stream], 1, &mut |_, keys, now, dice| {
                let offered = limit.offer(keys, now, dice);
                flags.push(offered.level);
                offered.node.is_none()
            });
            let flagged = flags.iter().filter(|flag| flag.is_some()).count();
            assert!(flags[0].is_none() && flagged >= 20, "{family:?} {shape:?}: {flagged} flagged");
            let expected = |flag: &Option<u8>| flag.is_none() || *flag == Some(level + generalised);
            assert!(flags.iter().all(expected), "{family:?} {shape:?}: {flags:?}");
        }
    }
}

pub fn r7_an_attack_on_one_tuple_does_not_propagate_to_its_address() {
    // attack three times the limit, legitimate traffic of the same address half of it with random ports; flagged is
    // dropped
    let limit = limiter(&compatible(2_645.0, CODE, &LEVELS));
    let streams = [stream(3.0 * 2_645.0, TUPLE), stream(0.5 * 2_645.0, ADDRESS)];
    let mut last_legitimate_drop = 0;
    let passed = play(Family::V4, &streams, 10, &mut |number, keys, now, dice| {
        let flagged = limit.offer(keys, now, dice).node.is_some();
        if flagged && number == 1 {
            last_legitimate_drop = now.nanos() - START;
        }
        !flagged
    });
    // adapted: two windows for the mean to tell the one from the other
    assert!(last_legitimate_drop <= 2 * reference::WINDOW, "dropped at {last_legitimate_drop} ns");
    assert!(passed[1] >= 0.97 * 0.5 * 2_645.0, "{passed:?}");
}

pub fn r8_every_shape_of_attack_is_held_to_the_limit_for_a_minute() {
    // (attack, who is inside its limited node or beside it, whether the two share that node)
    let neighbour = Stream { host: 2, ..stream(5.0, TUPLE) };
    let cases = [
        (stream(100.0, TUPLE), neighbour, false),
        (stream(100.0, ADDRESS), neighbour, false),
        (stream(100.0, NET), stream(5.0, NET), true),
        (stream(100.0, PORT), stream(5.0, PORT), true),
        (stream(100.0, ANYTHING), stream(5.0, ANYTHING), true),
    ];
    for (attack, inside, shared) in cases {
        let outside = Stream { host: 9, destination: 443, ..stream(5.0, TUPLE) };
        let noise = Stream { destination: 8_080, ..stream(100.0, ANYTHING) };
        let streams = [attack, inside, outside, noise];
        let shape = attack.shape;
        // the code as it stands: 24.3, 28.2 and 25.5 for the first, the third and the fourth, and 100, 30, 27 % of the inside
        let mut rakelimit = Rakelimit::new(25.0, &LEVELS);
        let theirs = play(Family::V4, &streams, 60, &mut |_, keys, now, _| rakelimit.passes(keys, now));
        println!("{shape:?}: the code passes {:.1}/s of the attack, {:.1}/s of the inside", theirs[0], theirs[1]);
        assert!((22.0..=31.0).contains(&theirs[0]), "the code, {shape:?}: {theirs:?}");
        let passed = play_ours(&compatible(25.0, 1.0, &LEVELS), &streams, 60);
        assert!((22.5..=27.5).contains(&passed[0]), "{shape:?}: {passed:?}");
        // a meek member of the attacked node gets at least half of its part in proportion; outside the node, everything
        let proportional = 5.0 * 25.0 / 105.0;
        let due = if shared { proportional / 2.0 } else { 4.95 };
        assert!(passed[1] >= due, "{shape:?}: {passed:?}");
        assert!(passed[2] >= 4.95, "{shape:?}: {passed:?}");
    }
}

/// Its average is linearised and in whole numbers; ours is exact, and the same where requests are frequent.
pub fn r9_the_offered_rate_is_the_average_that_the_vectors_linearise() {
    for (window, theirs, ours) in [(reference::WINDOW, 31, "37.3"), (100_000_000, 25, "35.0")] {
        assert_eq!(reference::estimate(50.0, 69_306_930, window) as u64, theirs);
        assert_eq!(format!("{:.1}", after(window, 69_306_930)), ours);
        let exact = 50.0 * f64::exp(-69_306_930.0 / window as f64) + 1e9 / window as f64;
        assert!((after(window, 69_306_930) / exact - 1.0).abs() < 1e-6, "{exact}");
        let frequent = window / 10_000;
        let ratio = after(window, frequent) / reference::estimate(50.0, frequent, window);
        assert!((ratio - 1.0).abs() < 1e-4, "{ratio}");
    }
}

/// The rate of a key after one request more, `gap` nanoseconds after it was 50 per second.
fn after(window: u64, gap: u64) -> f64 {
    let half_life = Duration::from_secs_f64(window as f64 / 1e9 * std::f64::consts::LN_2);
    let rates = OfferedRates::new(Bytes(64 << 10), half_life, &Seed::from_bytes([9; 16])).unwrap();
    let add = |now| rates.add(&rates.read(key(&[b"a"]), 0), Timestamp::from_nanos(now));
    let per_event = 1e9 / window as f64;
    let events = (50.0 / per_event).ceil();
    (0..events as u32).for_each(|_| _ = add(START));
    // so many at once are a little more: until they have faded to 50
    let then = START + (window as f64 * (events * per_event / 50.0).ln()) as u64;
    assert!((rates.rate(key(&[b"a"]), 0, Timestamp::from_nanos(then)) - 50.0).abs() < 1e-5);
    add(then + gap)
}
