//! `rate: 10/s, half_life: 10s`: a burst of 10·10/ln 2 = 144.

use std::net::Ipv4Addr;

use tidegate::engine::Refusal;

use crate::crowd::{Crowd, Tally, run};
use crate::draw::{bystanders, expect, panel, seconds, with_line};
use crate::world::World;

const ALL: &str = "type: recent_average, rate: 10/s, half_life: 10s, count: all";
const ADMITTED: &str = "type: recent_average, rate: 10/s, half_life: 10s, count: admitted";

/// ⌊rate·half_life/ln 2⌋.
const BUDGET: u32 = 144;

const CLIENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

#[test]
fn a_burst_passes_up_to_the_budget_and_who_waits_as_told_is_admitted_then() {
    let play = |early: f64| {
        let mut world = World::new(ALL);
        let mut tally = Tally::new(40.0, 1.0);
        let mut wait = 0.0;
        for _ in 0..300 {
            let told = world.ask(2.0, CLIENT, None);
            tally.count(2.0, told.admitted);
            wait = told.retry.unwrap();
        }
        let back = 2.0 + wait - early;
        let told = world.ask(back, CLIENT, None);
        tally.count(back, told.admitted);
        for index in 1..=(7.0 * (39.9 - back)) as u32 {
            let at = back + f64::from(index) / 7.0;
            tally.count(at, world.ask(at, CLIENT, None).admitted);
        }
        (tally, wait, told.admitted)
    };
    let (tally, wait, admitted) = play(0.0);
    assert_eq!(tally.admitted_in(2.0, 3.0), BUDGET);
    // 300 were counted: log₂(300/143.27) half-lives
    assert!((10.66..10.67).contains(&wait), "{wait}");
    assert!(admitted, "at the very instant that it was told");
    assert!(!play(0.001).2, "and not a millisecond earlier");
    let panel = with_line(panel("requests per second", &tally, 1.0), "B + rate × 1 s", f64::from(BUDGET) + 10.0);
    let story = "A client sends 300 at once: 144 pass, and the refused ones count as well. It is told to wait 10.7 \
                 seconds, does, and is admitted at that instant. At 7 per second it is not refused again.";
    let chart = seconds(
        "recent_average 10/s, half-life 10 s – a burst, and a client that waits as told",
        story,
        40.0,
        vec![panel],
    );
    expect("recent_average-burst", &chart);
}

#[test]
fn an_abuser_stays_out_for_as_long_as_it_persists_and_returns_after() {
    let stubborn = || Crowd::one().sending(0.0, 60.0, 20.0).sending(60.0, 100.0, 5.0);
    let [all, leaky] = [ALL, ADMITTED].map(|limit| run(&mut World::new(limit), &[stubborn()], 100.0, 1.0).remove(0));
    // twice the rate has a grace of one half-life (C6)
    assert!((195..=210).contains(&all.admitted_in(0.0, 12.0)), "{}", all.admitted_in(0.0, 12.0));
    assert_eq!(all.admitted_in(12.0, 60.0), 0);
    // from twice the limit towards half of it: 10·log₂(3) s until the limit is reached
    assert_eq!(all.admitted_in(60.0, 75.0), 0);
    assert_eq!(all.refused_in(77.0, 100.0), 0);
    assert_eq!(leaky.refused_in(61.0, 100.0), 0);
    let through = leaky.admitted_in(20.0, 60.0);
    assert!((390..=410).contains(&through), "the rate passes: {through}");
    let polite = polite();
    let through = polite.admitted_in(20.0, 100.0);
    assert!((650..=800).contains(&through), "who waits as told gets near the rate: {through}");
    let panels = vec![
        with_line(
            panel("requests per second, count: all – goes on at 20/s until 60 s, then 5/s", &all, 1.0),
            "rate",
            10.0,
        ),
        with_line(panel("requests per second, count: all – waits as it is told", &polite, 1.0), "rate", 10.0),
        with_line(panel("requests per second, count: admitted – goes on like the first", &leaky, 1.0), "rate", 10.0),
    ];
    let story = "A client sends 20 per second. With count: all, ten seconds pass; then nothing, until it has slowed \
                 down for 16 seconds. A client that waits as it is told gets nearly the rate. With count: admitted the \
                 rate passes throughout.";
    expect(
        "recent_average-abuser",
        &seconds("recent_average 10/s, half-life 10 s – twice the rate", story, 100.0, panels),
    );
}

/// Sends 20 per second, and is silent for as long as it is told.
fn polite() -> Tally {
    let mut world = World::new(ALL);
    let mut tally = Tally::new(100.0, 1.0);
    let mut at = 0.0;
    while at < 100.0 {
        let told = world.ask(at, CLIENT, None);
        tally.count(at, told.admitted);
        at += if told.admitted { 0.05 } else { told.retry.unwrap().max(1.0).ceil() };
    }
    tally
}

#[test]
fn a_flood_is_locked_out_host_by_host_and_touches_nobody_else() {
    let flood = Crowd::scattered(50).sending(5.0, 25.0, 40.0);
    let honest = Crowd::network(20).sending(0.0, 40.0, 5.0);
    let tallies = run(&mut World::new(ALL), &[flood, honest], 40.0, 1.0);
    assert_eq!(tallies[1].all_refused(), 0);
    // four times the rate has a grace of 0.415 half-lives
    let grace = tallies[0].all_admitted();
    assert!((50 * 160..=50 * 172).contains(&grace), "{grace}");
    assert_eq!(tallies[0].admitted_in(10.0, 40.0), 0);
    let panels = vec![
        with_line(
            panel("requests per second: the flood, 50 hosts with 40 each", &tallies[0], 1.0),
            "50 hosts × rate",
            500.0,
        ),
        bystanders("requests per second: 20 others of one network with 5 each", &tallies[1], 1.0),
    ];
    let story = "Fifty hosts send 40 per second each for twenty seconds. For four seconds they pass, then nothing of \
                 them does. Twenty other clients lose nothing.";
    expect("recent_average-flood", &seconds("recent_average 10/s, half-life 10 s – a flood", story, 40.0, panels));
}

#[test]
fn whoever_is_at_the_cap_hears_of_a_penalty_and_is_back_after_it() {
    let mut world = World::new("type: recent_average, rate: 10/s, half_life: 10s, count: all, max_penalty: 30s");
    let mut last = None;
    for index in 0..200_000_u32 {
        last = Some(world.ask(f64::from(index) / 10_000.0, CLIENT, None));
    }
    let last = last.unwrap();
    assert_eq!(last.refusal, Some(Refusal::Penalty));
    let wait = last.retry.unwrap();
    assert!((30.0..30.2).contains(&wait), "{wait}");
    assert!(world.ask(20.0 + wait, CLIENT, None).admitted);
}
