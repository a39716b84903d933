//! The secret that names keys in the store, replaced on one gate after the other under load.

use super::*;
use crate::book::by_client;
use tidegate_limits::limiter::{Kind, kinds};
use tidegate_limits::units::Bytes;

const OLD: Secrets<'static> = SECRETS;
const NEW: Secrets<'static> = (b"another for all gates", None);
const BOTH: Secrets<'static> = (NEW.0, Some(OLD.0));

/// Changes of the secret: when, on which gate, to what.
fn changes(to: Secrets<'static>, from: u64, apart: u64) -> impl Iterator<Item = (u64, usize, Secrets<'static>)> {
    (0..3).map(move |gate| (from + gate as u64 * apart, gate, to))
}

impl World {
    fn change(&mut self, gate: usize, rule: &Rule, secrets: Secrets<'_>, now: u64) {
        self.gates[gate] = reloaded(&self.gates[gate], vec![rule.clone()], secrets, now);
    }

    /// Requests at these times, one gate after the other, and these changes in their order.
    fn changed(
        rule: &Rule,
        delay: u64,
        times: impl Iterator<Item = u64>,
        changes: &[(u64, usize, Secrets<'static>)],
    ) -> World {
        let (mut world, mut changes, mut end) = (World::new(3, rule, delay), changes.iter().peekable(), 0);
        for (nth, now) in times.enumerate() {
            while let Some((at, gate, to)) = changes.next_if(|(at, ..)| *at <= now) {
                world.run_to(*at);
                world.change(*gate, rule, *to, *at);
            }
            world.run_to(now);
            world.arrive(nth % 3, "203.0.113.7", now);
            end = now;
        }
        assert!(changes.peek().is_none(), "all changes were made");
        world.run_to(end + SECOND);
        world
    }
}

#[test]
fn a_secret_that_is_replaced_with_the_previous_one_at_hand_gives_nobody_more() {
    for sharing in [Sharing::Lease, Sharing::Exact] {
        for ((events, burst), times) in [((100, 100), 3), ((100, 200), 10), ((20, 20), 10), ((50, 500), 4), ((5, 5), 7)]
        {
            let rule = shared(rate("per_client", events, burst, Mode::Enforce), sharing, OnStoreError::Closed);
            let full = SECOND * u64::from(burst) / u64::from(events);
            let (began, apart) = (full + 3 * SECOND, SECOND);
            // all have both, and what was spent by then has come back
            let ends = began + 2 * apart + full + SECOND;
            let gently: Vec<_> = changes(BOTH, began, apart).chain(changes(NEW, ends, apart)).collect();
            let at_once: Vec<_> = changes(NEW, began, apart).collect();
            let seconds = (ends + 2 * apart + full) / SECOND + 3;
            let every = SECOND / u64::from(events * times);
            let run = |changes: &[_]| {
                let times = (0..seconds * SECOND / every).map(|nth| nth * every);
                World::changed(&rule, MILLISECOND, times, changes)
            };
            let (per_second, most) = (f64::from(events), f64::from(burst));
            let lease = (3.0 * (most / 12.0).max(1.0)).min(per_second).max(3.0);
            // of one that asks every time: half a round trip, as ever
            let extra = if sharing == Sharing::Lease { lease } else { 1.0 };
            let (gently, at_once, never) = (run(&gently), run(&at_once), run(&[]));
            let beyond = |world: &World| worst_excess(&world.admitted, per_second) - most;
            let usable = gently.admitted.len() as f64 / never.admitted.len() as f64;
            println!(
                "{sharing:?}, {events}/s burst {burst}, {times} times: worst interval burst + rate·τ {:+.1} of {extra:.1}, \
                 {:+.1} without the previous secret; {:.1} % of what is admitted otherwise; {} questions, otherwise {}",
                beyond(&gently),
                beyond(&at_once),
                usable * 100.0,
                gently.store.questions,
                never.store.questions
            );
            assert!(beyond(&gently) <= extra, "{sharing:?} {events}/s: {}", beyond(&gently));
            assert!(beyond(&at_once) > extra, "{sharing:?} {events}/s: not even without it");
            assert!(usable >= 0.9, "{sharing:?} {events}/s: {usable}");
        }
    }
}

#[test]
fn a_quota_has_its_budget_once_per_window_while_its_secret_is_replaced() {
    const MAX: u32 = 100;
    const WINDOW: u64 = 2 * SECOND;
    let kind = Kind::Quota(kinds::Quota {
        max: MAX,
        window: Duration::from_secs(2).into(),
        sliding: false,
        memory: Bytes(1 << 20),
    });
    let rule = shared(by_client("per_client", kind), Sharing::Lease, OnStoreError::Closed);
    let run = |changes: &[_]| {
        let world = World::changed(&rule, MILLISECOND, (0..3_000).map(|nth| nth * 6 * MILLISECOND), changes);
        // the store's windows begin with the gates' even seconds
        let window = |nth: u64| world.admitted.iter().filter(|at| **at / WINDOW == nth).count();
        (0..9).map(window).collect::<Vec<_>>()
    };
    // the last in the middle of a window; the first to drop it in the middle of the one after the next
    let both = changes(BOTH, 5 * SECOND, SECOND);
    let gently = run(&both.chain(changes(NEW, 10 * SECOND + SECOND / 3, SECOND)).collect::<Vec<_>>());
    let at_once = run(&changes(NEW, 5 * SECOND, SECOND).collect::<Vec<_>>());
    println!("{gently:?} per window of {MAX}, {at_once:?} without the previous secret");
    assert!(gently.iter().all(|admitted| *admitted <= MAX as usize), "{gently:?}");
    assert!(gently.iter().all(|admitted| *admitted >= 90), "{gently:?}");
    assert!(at_once.iter().any(|admitted| *admitted > MAX as usize), "{at_once:?}: not even without it");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn no_schedule_of_arrivals_brings_more_while_a_secret_is_replaced(
        pauses in proptest::collection::vec(0_u64..40, 600..2_000),
        delay in 1_u64..20_000,
        (events, burst) in (20_u32..400, 1_u32..200),
        apart in 1_u64..1_000,
        began in 0_u64..2_000,
    ) {
        let rule = shared(rate("per_client", events, burst, Mode::Enforce), Sharing::Lease, OnStoreError::Closed);
        let mut times: Vec<u64> = pauses.iter().scan(0, |now, pause| {
            *now += pause * MILLISECOND / 4;
            Some(*now)
        }).collect();
        let (began, apart) = (began * MILLISECOND, apart * MILLISECOND);
        let ends = began + 2 * apart + SECOND * u64::from(burst) / u64::from(events) + SECOND;
        // and when all is over, as much at once as there is
        let last = ends + 2 * apart;
        times.retain(|time| *time < last);
        times.extend((0..2 * u64::from(burst)).map(|nth| last + nth * MILLISECOND / 10));
        let all: Vec<_> = changes(BOTH, began, apart).chain(changes(NEW, ends, apart)).collect();
        let world = World::changed(&rule, delay * 1_000, times.into_iter(), &all);
        let (rate, burst) = (f64::from(events), f64::from(burst));
        let extra = (3.0 * (burst / 12.0).max(1.0)).min(rate).max(3.0);
        let worst = worst_excess(&world.admitted, rate);
        prop_assert!(worst <= burst + extra + 1e-6, "{} over {} + {}", worst, burst, extra);
    }
}
