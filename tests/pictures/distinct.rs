//! At most 20 login names per client and ten minutes.

use crate::crowd::{Crowd, Tally, requests};
use crate::draw::{bystanders, expect, in_minutes, panel, seconds, with_line};
use crate::world::World;

const ALIGNED: &str = "type: distinct, of: header:x-login-name, missing: allow, max: 20, window: 10m";
const SLIDING: &str = "type: distinct, of: header:x-login-name, missing: allow, max: 20, window: 10m, sliding: true";

/// The first crowd tries a new name each time; every client of the others has one name of its own.
fn guessing(limit: &str, crowds: &[Crowd], length: f64, bin: f64) -> Vec<Tally> {
    let mut world = World::new(limit);
    let mut tallies = vec![Tally::new(length, bin); crowds.len()];
    for (index, coming) in requests(crowds).into_iter().enumerate() {
        let name = if coming.crowd == 0 { format!("guess-{index}") } else { format!("user-{}", coming.client) };
        let told = world.ask(coming.at, coming.client, Some(&name));
        tallies[coming.crowd].count(coming.at, told.admitted);
    }
    tallies
}

#[test]
fn of_a_hundred_names_at_once_twenty_pass_and_repeats_are_free_after_that() {
    let mut world = World::new(ALIGNED);
    let client = Crowd::one().clients[0];
    let (mut new, mut repeated) = (Tally::new(600.0, 10.0), Tally::new(600.0, 10.0));
    for index in 0..100 {
        new.count(60.0, world.ask(60.0, client, Some(&format!("name-{index}"))).admitted);
    }
    for index in 0..200_u32 {
        let at = 120.0 + 2.0 * f64::from(index);
        repeated.count(at, world.ask(at, client, Some(&format!("name-{}", index % 20))).admitted);
    }
    assert_eq!((new.all_admitted(), new.all_refused()), (20, 80));
    assert_eq!((repeated.all_admitted(), repeated.all_refused()), (200, 0));
    let panels = vec![
        with_line(panel("new names per ten seconds", &new, 10.0), "max", 20.0),
        bystanders("requests per ten seconds: the same client repeats the twenty that passed", &repeated, 10.0),
    ];
    let story = "A client tries 100 names at once: 20 pass. Then it repeats those twenty, 200 times in all: all pass, \
                 although its quota of new names is spent.";
    expect("distinct-burst", &in_minutes(seconds("distinct, 20 names in 10 min – a burst", story, 600.0, panels)));
}

#[test]
fn a_guesser_gets_twenty_names_a_period_and_who_repeats_one_is_not_touched() {
    let crowds = || [Crowd::one().sending(0.0, 1_800.0, 0.5), Crowd::network(1).sending(0.0, 1_800.0, 0.5)];
    let aligned = guessing(ALIGNED, &crowds(), 1_800.0, 30.0);
    let sliding = guessing(SLIDING, &crowds(), 1_800.0, 30.0);
    for period in [0.0, 600.0, 1_200.0] {
        assert_eq!(aligned[0].admitted_in(period, period + 600.0), 20);
    }
    // 20 at once and 20 per period after that
    assert!(sliding[0].all_admitted() <= 20 + 60, "{}", sliding[0].all_admitted());
    assert_eq!((aligned[1].all_refused(), sliding[1].all_refused()), (0, 0));
    let panels = vec![
        panel("requests per minute: a client with a new name every two seconds", &aligned[0], 60.0),
        panel("requests per minute: the same with sliding: true", &sliding[0], 60.0),
        bystanders("requests per minute: another client repeats one name every two seconds", &aligned[1], 60.0),
    ];
    let story = "A client tries a new name every two seconds for half an hour: 20 pass in each ten minutes, at the \
                 start of each period, or spread out if the limit slides. Another repeats one name as often: all pass.";
    expect("distinct-abuser", &in_minutes(seconds("distinct, 20 names in 10 min – a guesser", story, 1_800.0, panels)));
}

#[test]
fn a_flood_of_guessers_is_held_host_by_host_and_touches_nobody_else() {
    let crowds = [Crowd::scattered(100).sending(300.0, 1_500.0, 0.2), Crowd::network(100).sending(0.0, 1_800.0, 0.05)];
    let tallies = guessing(ALIGNED, &crowds, 1_800.0, 30.0);
    assert_eq!(tallies[1].all_refused(), 0);
    assert_eq!(tallies[0].all_admitted(), 100 * 20 * 3, "three periods were touched");
    let panels = vec![
        panel("requests per minute: the flood, 100 hosts with a new name every five seconds each", &tallies[0], 60.0),
        bystanders("requests per minute: 100 others, each with one name, three times a minute", &tallies[1], 60.0),
    ];
    let story = "A hundred hosts try a new name every five seconds each for twenty minutes: 20 per host and period \
                 pass. A hundred other clients, each with a name of its own, lose nothing.";
    expect("distinct-flood", &in_minutes(seconds("distinct, 20 names in 10 min – a flood", story, 1_800.0, panels)));
}
