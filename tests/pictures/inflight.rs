//! At most 10 requests of a client at once.

use tidegate::engine::Holds;
use tidegate::picture::{Panel, Role, Series, Shape};

use crate::crowd::{Crowd, Tally, requests};
use crate::draw::{expect, seconds, with_line};
use crate::world::World;

const LIMIT: &str = "type: inflight, key: client_ip, max: 10";

/// What was under way of one crowd, at its highest in each bin, and what would have been without a limit.
struct Held {
    bin: f64,
    most: Vec<u32>,
    wanted: Vec<u32>,
    tally: Tally,
}

/// Every request of a crowd takes as long as `takes` says.
fn run(crowds: &[Crowd], takes: &[f64], length: f64, bin: f64) -> Vec<Held> {
    let mut world = World::new(LIMIT);
    let bins = (length / bin).round() as usize;
    let empty = || Held { bin, most: vec![0; bins], wanted: vec![0; bins], tally: Tally::new(length, bin) };
    let mut held: Vec<Held> = crowds.iter().map(|_| empty()).collect();
    let mut under_way: Vec<(f64, usize, Holds)> = Vec::new();
    let mut wanted: Vec<(f64, usize)> = Vec::new();
    let mut coming = requests(crowds).into_iter().peekable();
    for index in 0..bins {
        // what is under way when a bin begins counts in it
        let begin = index as f64 * bin;
        let mut look = |under_way: &[(f64, usize, Holds)], wanted: &[(f64, usize)]| {
            for (crowd, held) in held.iter_mut().enumerate() {
                let now = under_way.iter().filter(|(_, of, _)| *of == crowd).count() as u32;
                let asked = wanted.iter().filter(|(_, of)| *of == crowd).count() as u32;
                held.most[index] = held.most[index].max(now);
                held.wanted[index] = held.wanted[index].max(asked);
            }
        };
        under_way.retain(|(end, ..)| *end > begin);
        wanted.retain(|(end, _)| *end > begin);
        look(&under_way, &wanted);
        let mut told = Vec::new();
        while let Some(next) = coming.next_if(|next| next.at < begin + bin - 1e-9) {
            under_way.retain(|(end, ..)| *end > next.at);
            wanted.retain(|(end, _)| *end > next.at);
            let answer = world.ask(next.at, next.client, None);
            told.push((next.crowd, next.at, answer.admitted));
            let end = next.at + takes[next.crowd];
            wanted.push((end, next.crowd));
            if answer.admitted {
                under_way.push((end, next.crowd, answer.holds));
            }
            look(&under_way, &wanted);
        }
        told.into_iter().for_each(|(crowd, at, admitted)| held[crowd].tally.count(at, admitted));
    }
    held
}

fn panel(heading: &str, held: &Held, role: Role) -> Panel {
    let points = |counts: &[u32]| {
        counts.iter().enumerate().map(|(index, count)| (index as f64 * held.bin, f64::from(*count))).collect()
    };
    let series = vec![
        Series { label: "under way".into(), role, shape: Shape::Stacked, points: points(&held.most) },
        Series {
            label: "without the limit".into(),
            role: Role::Offered,
            shape: Shape::Step,
            points: points(&held.wanted),
        },
    ];
    Panel { heading: heading.into(), top: None, series, lines: Vec::new() }
}

#[test]
fn of_a_burst_exactly_max_are_under_way_and_places_come_back() {
    let crowd = Crowd::one().bursting(2.0, 30).bursting(5.0, 8).bursting(10.0, 30);
    let held = run(&[crowd], &[4.0], 16.0, 0.25).remove(0);
    assert_eq!(held.tally.admitted_in(2.0, 2.25), 10);
    assert_eq!(held.tally.admitted_in(5.0, 5.25), 0, "no place has come back yet");
    assert_eq!(held.tally.admitted_in(10.0, 10.25), 10);
    assert_eq!(*held.most.iter().max().unwrap(), 10);
    let panel =
        with_line(panel("requests under way, each of which takes four seconds", &held, Role::Admitted), "max", 10.0);
    let story = "A client sends 30 at once, each of which takes four seconds: 10 pass. One second before they are \
                 done, 8 more are refused. Four seconds after they are done, 30 at once: 10 pass.";
    expect("inflight-burst", &seconds("inflight, 10 per client – bursts", story, 16.0, vec![panel]));
}

#[test]
fn who_holds_requests_open_holds_no_more_than_max() {
    let slow = Crowd::one().sending(2.0, 30.0, 4.0);
    let quick = Crowd::network(1).sending(0.0, 40.0, 4.0);
    let held = run(&[slow, quick], &[15.0, 0.2], 40.0, 0.5);
    assert_eq!(*held[0].most.iter().max().unwrap(), 10);
    assert_eq!(*held[0].wanted.iter().max().unwrap(), 60);
    assert_eq!(held[0].tally.all_admitted(), 20, "ten, and when those were done fifteen seconds later, ten more");
    assert_eq!(held[1].tally.all_refused(), 0);
    let panels = vec![
        with_line(
            panel("under way, of a client that takes fifteen seconds for each", &held[0], Role::Admitted),
            "max",
            10.0,
        ),
        with_line(
            panel("under way, of one that asks as often and takes 0.2 seconds", &held[1], Role::Bystander),
            "max",
            10.0,
        ),
    ];
    let story = "A client sends four requests per second and holds each open for fifteen seconds: never more than 10 \
                 are under way, instead of 60. Another asks as often and is done quickly: it loses nothing.";
    expect("inflight-abuser", &seconds("inflight, 10 per client – one that holds requests open", story, 40.0, panels));
}

#[test]
fn a_flood_is_held_host_by_host_and_touches_nobody_else() {
    let flood = Crowd::scattered(50).sending(5.0, 15.0, 8.0);
    let honest = Crowd::network(20).sending(0.0, 25.0, 4.0);
    let held = run(&[flood, honest], &[5.0, 0.5], 25.0, 0.25);
    assert_eq!(*held[0].most.iter().max().unwrap(), 500);
    assert_eq!(held[1].tally.all_refused(), 0);
    let panels = vec![
        with_line(
            panel("under way, of 50 hosts with 8 requests of five seconds per second each", &held[0], Role::Admitted),
            "50 × max",
            500.0,
        ),
        panel("under way, of 20 others with 4 requests of half a second per second each", &held[1], Role::Bystander),
    ];
    let story = "Fifty hosts send 8 requests per second each, which take five seconds: 10 of each are under way. \
                 Twenty other clients lose nothing.";
    expect("inflight-flood", &seconds("inflight, 10 per client – a flood", story, 25.0, panels));
}
