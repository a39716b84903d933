//! `rate: 60/m` as a quota, aligned and sliding.

use crate::crowd::{Crowd, Tally, run};
use crate::draw::{bystanders, expect, panel, seconds, with_line};
use crate::world::World;

const ALIGNED: &str = "type: quota, rate: 60/m";
const SLIDING: &str = "type: quota, rate: 60/m, sliding: true";

/// What one client gets under both forms.
fn both(crowd: impl Fn() -> Crowd, length: f64, bin: f64) -> [Tally; 2] {
    [ALIGNED, SLIDING].map(|limit| run(&mut World::new(limit), &[crowd()], length, bin).remove(0))
}

#[test]
fn twice_the_quota_passes_at_a_boundary_unless_it_slides() {
    let crowd = || Crowd::one().bursting(58.0, 100).bursting(61.0, 100).bursting(90.0, 100).bursting(150.0, 100);
    let [aligned, sliding] = both(crowd, 180.0, 2.0);
    let got = |tally: &Tally| [58.0, 60.0, 90.0, 150.0].map(|at| tally.admitted_in(at, at + 2.0));
    assert_eq!(got(&aligned), [60, 60, 0, 60]);
    // 1 s after the boundary 59 of the last window's 60 still count; half a window after it, 30 do, and 1 has been had
    assert_eq!(got(&sliding), [60, 1, 29, 45]);
    let panels = vec![
        with_line(panel("requests per two seconds, aligned", &aligned, 2.0), "quota", 60.0),
        with_line(panel("requests per two seconds, sliding: true", &sliding, 2.0), "quota", 60.0),
    ];
    let story = "Four bursts of 100 at once, at 58, 61, 90 and 150 seconds, with windows of a minute. Aligned: 60, 60, \
                 0 and 60 pass, 120 of them within three seconds across the boundary. Sliding: 60, 1, 29 and 45 pass.";
    expect("quota-burst", &seconds("quota 60/m – bursts around a boundary", story, 180.0, panels));
}

#[test]
fn a_steady_abuser_spends_its_window_at_once_and_then_waits() {
    let [aligned, sliding] = both(|| Crowd::one().sending(0.0, 240.0, 3.0), 240.0, 2.0);
    for window in [0.0, 60.0, 120.0, 180.0] {
        assert_eq!(aligned.admitted_in(window, window + 60.0), 60);
        assert_eq!(aligned.admitted_in(window + 20.0, window + 60.0), 0, "all of it went in the first twenty seconds");
        assert!(sliding.admitted_in(window, window + 60.0) <= 60);
    }
    let later: Vec<u32> =
        (2..8).map(|half| sliding.admitted_in(f64::from(half) * 30.0, f64::from(half) * 30.0 + 30.0)).collect();
    assert!(later.iter().all(|half| (25..=34).contains(half)), "spread over the windows: {later:?}");
    let panels = vec![
        with_line(panel("requests per second, aligned", &aligned, 1.0), "quota ÷ window", 1.0),
        with_line(panel("requests per second, sliding: true", &sliding, 1.0), "quota ÷ window", 1.0),
    ];
    let story = "A client sends 3 per second for four minutes. Aligned: all pass in the first 20 seconds of every \
                 minute, none in the other 40. Sliding: the same in the first minute, then about one per second.";
    expect("quota-abuser", &seconds("quota 60/m – a steady abuser", story, 240.0, panels));
}

#[test]
fn a_flood_is_held_host_by_host_and_touches_nobody_else() {
    let flood = Crowd::scattered(50).sending(30.0, 180.0, 3.0);
    let honest = Crowd::network(20).sending(0.0, 180.0, 0.5);
    let tallies = run(&mut World::new(ALIGNED), &[flood, honest], 180.0, 2.0);
    assert_eq!(tallies[1].all_refused(), 0);
    assert_eq!(tallies[0].admitted_in(60.0, 120.0), 50 * 60);
    let panels = vec![
        with_line(
            panel("requests per second: the flood, 50 hosts with 3 each", &tallies[0], 1.0),
            "50 × quota ÷ window",
            50.0,
        ),
        bystanders("requests per second: 20 others with one every two seconds each", &tallies[1], 1.0),
    ];
    let story = "Fifty hosts send 3 per second each. Each gets its 60 in every minute, all hosts at the same time, \
                 because windows are aligned. Twenty other clients lose nothing.";
    expect("quota-flood", &seconds("quota 60/m – a flood", story, 180.0, panels));
}
