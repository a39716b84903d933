//! A quota whose windows slide, shared by gates: the promise of one gate, and that of many without their store.

use super::*;
use tidegate_limits::limiter::{Kind, kinds};
use tidegate_limits::units::Bytes;

const WINDOW: u64 = 10 * SECOND;

fn sliding(max: u32, sharing: Sharing) -> Rule {
    let window = Duration::from_nanos(WINDOW).into();
    let kind = Kind::Quota(kinds::Quota { max, window, sliding: true, memory: Bytes(1 << 20) });
    shared(crate::book::by_client("per_client", kind), sharing, OnStoreError::Local)
}

/// Holds what was admitted to the promise, in each window and across each boundary; returns how much it was.
fn held_to(max: u32, times: &[u64], windows: u64) -> usize {
    let within = |from: u64, to: u64| times.iter().filter(|time| (from..to).contains(*time)).count() as f64;
    for index in 0..windows {
        let (begins, ends) = (index * WINDOW, (index + 1) * WINDOW);
        assert!(within(begins, ends) <= f64::from(max), "window {index}: {}", within(begins, ends));
        for tenth in 1..=10 {
            let part = f64::from(tenth) / 10.0;
            let across = within(begins, ends + (part * WINDOW as f64) as u64);
            assert!(across <= f64::from(max) * (1.0 + part), "window {index} and {part} of the next: {across}");
        }
    }
    times.len()
}

#[test]
fn three_gates_keep_a_sliding_quota_together_and_spend_nearly_all_of_it() {
    for sharing in [Sharing::Lease, Sharing::Exact] {
        for (max, every) in [(60, 10), (600, 2), (5, 100)] {
            // the store's windows begin when these do
            assert_eq!(STORE_AT_ZERO * 1_000 % WINDOW, 0);
            let mut world = World::new(3, &sliding(max, sharing), MILLISECOND);
            for nth in 0..20 * WINDOW / (every * MILLISECOND) {
                let now = nth * every * MILLISECOND;
                world.run_to(now);
                world.arrive(nth as usize % 3, "203.0.113.7", now);
            }
            let admitted = held_to(max, &world.admitted, 20);
            // one is never spent, as the last unit of a window comes free at its end
            let share = admitted as f64 / (20.0 * f64::from(max - 1));
            println!("{sharing:?} {max}: {share:.3}, {} questions of {} requests", world.store.questions, world.asked);
            assert!(share >= 0.9, "{sharing:?}, {max} per window: {share}");
        }
    }
}

#[test]
fn gates_without_their_store_share_a_sliding_quota_out_and_their_refusals_end() {
    for (max, nodes) in [(60, 3), (5, 6)] {
        let gates: Vec<Engine> = (0..nodes).map(|_| gate(vec![sliding(max, Sharing::Exact)])).collect();
        let headers = head("203.0.113.7");
        let ask = |gate: &Engine, now: u64| {
            let mut evaluation = gate.judge(&request(&headers), arrival(now));
            for slot in gate.to_settle(&evaluation) {
                gate.settle(&mut evaluation, slot, unanswered(StoreError::Unreachable, nodes));
            }
            let _ = gate.admit(&mut evaluation, Timestamp::from_nanos(now));
            (evaluation.decision.verdict == Verdict::Admitted, evaluation.decision.readings[0].retry_nanos)
        };
        let mut admitted = Vec::new();
        for now in (0..20 * WINDOW).step_by(50 * MILLISECOND as usize) {
            for (number, gate) in gates.iter().enumerate() {
                let (passes, _) = ask(gate, now);
                assert!(now > 0 || passes, "gate {number} refuses its first request");
                if passes {
                    admitted.push(now);
                }
            }
        }
        held_to(max.max(nodes), &admitted, 20);
        assert!(admitted.len() as f64 >= 0.4 * 20.0 * f64::from(max), "{}", admitted.len());
        let now = 20 * WINDOW;
        for gate in &gates {
            let mut at = now;
            while let (false, wait) = ask(gate, at) {
                at += wait.expect("a wait helps").max(1);
                assert!(at <= now + 2 * WINDOW, "it ends");
            }
        }
    }
}
