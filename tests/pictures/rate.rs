//! `rate: 10/s, burst: 20` by client.

use crate::crowd::{Crowd, run};
use crate::draw::{bystanders, expect, panel, seconds, with_line};
use crate::world::World;

const LIMIT: &str = "type: rate, rate: 10/s, burst: 20";

#[test]
fn of_a_burst_exactly_the_burst_passes_and_then_the_rate() {
    let crowd = Crowd::one().bursting(2.0, 60).sending(2.5, 10.0, 20.0).bursting(16.0, 60);
    let tally = run(&mut World::new(LIMIT), &[crowd], 20.0, 0.5).remove(0);
    assert_eq!(tally.admitted_in(2.0, 2.5), 20);
    assert_eq!(tally.refused_in(2.0, 2.5), 40);
    assert_eq!(tally.admitted_in(2.0, 10.0), 99, "of burst + rate·τ = 100 the last comes at the very end");
    assert_eq!(tally.admitted_in(16.0, 20.0), 20, "six seconds of silence fill the budget to the brim, and no further");
    let panel = with_line(panel("requests per half second", &tally, 0.5), "burst + rate × ½ s", 25.0);
    let panel = with_line(panel, "rate × ½ s", 5.0);
    let story = "A client sends 60 requests at once: 20 pass. It goes on at 20 per second: 10 per second pass. After a \
                 pause of six seconds it sends 60 at once again: 20 pass.";
    expect("rate-burst", &seconds("rate: 10/s, burst: 20 – a burst", story, 20.0, vec![panel]));
}

#[test]
fn a_steady_abuser_gets_the_rate_and_not_less() {
    let crowd = Crowd::one().sending(2.0, 12.0, 40.0).sending(12.0, 20.0, 8.0);
    let tally = run(&mut World::new(LIMIT), &[crowd], 20.0, 0.5).remove(0);
    let (from, until) = (4.0, 12.0);
    assert_eq!(tally.admitted_in(from, until), 80);
    assert_eq!(tally.admitted_in(2.0, 12.0), 119, "of burst + rate·τ = 120 the last comes at the very end");
    assert_eq!(tally.refused_in(12.0, 20.0), 0, "below the rate nothing is refused, whatever was before");
    let panel = with_line(panel("requests per second", &tally, 1.0), "rate", 10.0);
    let story = "A client sends 40 per second for ten seconds: its burst of 20 and then 10 per second pass. It slows \
                 down to 8 per second: all pass at once.";
    expect("rate-abuser", &seconds("rate: 10/s, burst: 20 – a steady abuser", story, 20.0, vec![panel]));
}

#[test]
fn a_flood_is_held_host_by_host_and_touches_nobody_else() {
    let flood = Crowd::scattered(50).sending(5.0, 15.0, 40.0);
    let honest = Crowd::network(20).sending(0.0, 20.0, 5.0);
    let tallies = run(&mut World::new(LIMIT), &[flood, honest], 20.0, 0.5);
    assert_eq!(tallies[1].all_refused(), 0);
    let steady = tallies[0].admitted_in(8.0, 15.0);
    assert!((3_450..=3_550).contains(&steady), "50 hosts at 10/s for 7 s: {steady}");
    assert!(tallies[0].all_admitted() <= 50 * 120);
    let panels = vec![
        with_line(
            panel("requests per second: the flood, 50 hosts with 40 each", &tallies[0], 1.0),
            "50 hosts × rate",
            500.0,
        ),
        bystanders("requests per second: 20 others of one network with 5 each", &tallies[1], 1.0),
    ];
    let story = "Fifty hosts send 40 per second each for ten seconds: each gets its burst and then 10 per second. \
                 Twenty other clients with 5 per second each lose nothing.";
    expect("rate-flood", &seconds("rate: 10/s, burst: 20 – a flood", story, 20.0, panels));
}
