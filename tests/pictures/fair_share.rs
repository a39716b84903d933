//! A capacity shared by all, with the default networks, where nobody waits.

use std::collections::BTreeMap;

use crate::crowd::{Crowd, Tally, requests};
use crate::draw::{bystanders, expect, panel, seconds, with_line};
use crate::world::World;

/// Positions of the key and the /24.
const CLIENT: u8 = 0;
const NETWORK: u8 = 1;

/// One tally per crowd, and how often each node refused the first one.
fn run(capacity: u32, crowds: &[Crowd], length: f64, bin: f64) -> (Vec<Tally>, BTreeMap<u8, u32>) {
    let mut world = World::new(&format!("type: fair_share, capacity: {capacity}/s"));
    let mut tallies = vec![Tally::new(length, bin); crowds.len()];
    let mut nodes = BTreeMap::new();
    for coming in requests(crowds) {
        let told = world.ask(coming.at, coming.client, None);
        tallies[coming.crowd].count(coming.at, told.admitted);
        if let (0, false) = (coming.crowd, told.admitted) {
            *nodes.entry(told.node.unwrap()).or_default() += 1;
        }
    }
    (tallies, nodes)
}

/// What passed of what was asked.
fn part(tally: &Tally, from: f64, until: f64) -> f64 {
    let passed = f64::from(tally.admitted_in(from, until));
    passed / (passed + f64::from(tally.refused_in(from, until)))
}

/// What passed of all crowds together in every stretch of bins is within capacity·τ + burst, a quarter of a second's worth.
fn assert_promise(tallies: &[Tally], capacity: f64) {
    let bin = tallies[0].bin;
    let sums: Vec<f64> = (0..tallies[0].admitted.len())
        .map(|at| tallies.iter().map(|tally| f64::from(tally.admitted[at])).sum())
        .collect();
    for from in 0..sums.len() {
        let mut passed = 0.0;
        for (bins, sum) in (1..).zip(&sums[from..]) {
            passed += sum;
            let most = capacity * (f64::from(bins) * bin + 0.25);
            assert!(passed <= most, "{passed} in {bins} bins from {from}, and at most {most} were promised");
        }
    }
}

#[test]
fn a_burst_is_cut_by_the_whole_capacity_and_by_nothing_below_it() {
    let bursting = Crowd::one().bursting(3.0, 100).bursting(6.0, 1_000);
    let honest = Crowd::scattered(50).sending(0.0, 12.0, 8.0);
    let (tallies, _) = run(1_000, &[bursting, honest], 12.0, 0.25);
    assert_eq!(tallies[0].refused_in(3.0, 3.25), 0, "less than what is not kept: no pressure");
    let passed = tallies[0].admitted_in(6.0, 6.25);
    assert!(passed <= 250, "{passed}");
    assert!(part(&tallies[1], 0.0, 12.0) >= 0.95, "{}", part(&tallies[1], 0.0, 12.0));
    assert_promise(&tallies, 1_000.0);
    let panels = vec![
        with_line(panel("requests per quarter second: one client", &tallies[0], 0.25), "capacity × (¼ s + ¼ s)", 500.0),
        bystanders("requests per quarter second: 50 others with 8 per second each", &tallies[1], 0.25),
    ];
    let story = "With a capacity of 1,000 per second, 400 of which are in use, a client sends 100 at once, which pass; \
                 and then 1,000 at once, most of which are refused, while others lose next to nothing.";
    expect("fair_share-burst", &seconds("fair_share 1,000/s – bursts of one client", story, 12.0, panels));
}

#[test]
fn one_heavy_client_gets_what_the_others_leave() {
    let heavy = Crowd::one().sending(5.0, 20.0, 2_000.0);
    let honest = Crowd::scattered(50).sending(0.0, 30.0, 5.0);
    let (tallies, nodes) = run(1_000, &[heavy, honest], 30.0, 0.5);
    assert_eq!(tallies[0].admitted_in(0.0, 5.0) + tallies[1].refused_in(0.0, 5.0), 0, "nothing without pressure");
    assert!(part(&tallies[1], 5.0, 20.0) >= 0.95, "{}", part(&tallies[1], 5.0, 20.0));
    let left = tallies[0].admitted_in(10.0, 20.0);
    assert!((6_500..=8_000).contains(&left), "750 per second are left: {left}");
    assert_eq!(tallies[1].refused_in(21.0, 30.0), 0);
    assert!(f64::from(nodes[&CLIENT]) >= 0.95 * f64::from(nodes.values().sum::<u32>()), "{nodes:?}");
    assert_promise(&tallies, 1_000.0);
    let panels = vec![
        with_line(panel("requests per second: one client", &tallies[0], 1.0), "what the others leave", 750.0),
        bystanders("requests per second: 50 others with 5 each", &tallies[1], 1.0),
    ];
    let story = "With a capacity of 1,000 per second, one client sends 2,000 per second for fifteen seconds. It gets \
                 the 750 that fifty others with 5 per second each leave; at least 95 of 100 requests of theirs pass.";
    expect("fair_share-abuser", &seconds("fair_share 1,000/s – one heavy client", story, 30.0, panels));
}

#[test]
fn a_flood_from_one_network_is_cut_as_a_network_while_others_keep_theirs() {
    let flood = Crowd::network(200).sending(5.0, 20.0, 30.0);
    let honest = Crowd::scattered(50).sending(0.0, 30.0, 5.0);
    let (tallies, nodes) = run(2_000, &[flood, honest], 30.0, 0.5);
    assert!(part(&tallies[1], 5.0, 20.0) >= 0.95, "{}", part(&tallies[1], 5.0, 20.0));
    let whole: u32 = nodes.values().sum();
    assert!(f64::from(nodes[&NETWORK]) >= 0.9 * f64::from(whole), "the /24 explains it: {nodes:?}");
    let left = tallies[0].admitted_in(10.0, 20.0);
    assert!((15_500..=18_500).contains(&left), "1,750 per second are left: {left}");
    assert_promise(&tallies, 2_000.0);
    let panels = vec![
        with_line(
            panel("requests per second: the flood, 200 hosts of one /24 with 30 each", &tallies[0], 1.0),
            "what the others leave",
            1_750.0,
        ),
        bystanders("requests per second: 50 others with 5 each", &tallies[1], 1.0),
    ];
    let story = "With a capacity of 2,000 per second, 200 hosts of one /24 send 30 per second each, 6,000 in all. No \
                 host is heavy by itself, so their network is held as a whole to what the others leave; at least 95 \
                 of 100 requests of fifty others pass.";
    expect("fair_share-flood", &seconds("fair_share 2,000/s – a flood from one /24", story, 30.0, panels));
}
