//! Windows end with those of the wall clock, whenever the process was started: at whole multiples of their length since 1970.

use proptest::prelude::*;
use tidegate_limits::sketch::Seed;
use tidegate_policy::engine::Engine;
use tidegate_policy::engine::Verdict;
use tidegate_policy::policy::Policy;

use crate::book::{ask, head};
use crate::reload::of;

const SECOND: u64 = 1_000_000_000;

fn admits(gate: &Engine, n: usize, now: u64) -> Result<(), Option<u64>> {
    let mut headers = head("203.0.113.9");
    headers.insert("x-name", n.into());
    let (decision, _) = ask(gate, &headers, now);
    if decision.verdict == Verdict::Admitted { Ok(()) } else { Err(decision.readings[0].retry_nanos) }
}

fn limits(seconds: u64) -> [(&'static str, Policy); 3] {
    let distinct = "type: distinct, of: header:x-name, missing: deny";
    [
        ("quota", of(&format!("type: quota, max: 4, window: {seconds}s"))),
        ("sliding quota", of(&format!("type: quota, max: 4, window: {seconds}s, sliding: true"))),
        ("distinct", of(&format!("{distinct}, max: 4, window: {seconds}s, sliding: false"))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn windows_end_with_those_of_the_wall_clock(
        seconds in prop::sample::select(vec![2_u64, 60, 3_600, 86_400]),
        origin in 1_600_000_000 * SECOND..2_000_000_000 * SECOND,
        since in 0..400_000 * SECOND,
    ) {
        let window = seconds * SECOND;
        let until_next = |now: u64| window - (origin + now) % window;
        for (name, policy) in limits(seconds) {
            let gate = Engine::new(policy, &Seed::from_bytes([5; 16]), origin).unwrap();
            // a whole window from its beginning on, so that nothing of the one before counts
            let now = since + 2 * window + until_next(since);
            let last = now + window - 1;
            for n in 0..4 {
                prop_assert_eq!(admits(&gate, n, now), Ok(()), "{} {}", name, n);
            }
            let told = admits(&gate, 9, now).unwrap_err();
            prop_assert!(admits(&gate, 9, last).is_err(), "{}: before the wall clock's window ends", name);
            if name != "sliding quota" {
                prop_assert_eq!(told, Some(window), "{}", name);
                prop_assert_eq!(admits(&gate, 9, last + 1), Ok(()), "{}: when it ends", name);
            }
        }
    }
}
