//! Sliding windows through a change of columns: nobody gains, and the wait that was told stays true.

use proptest::prelude::*;
use tidegate_limits::sketch::rekeyed::PERIOD_NANOS;
use tidegate_limits::sketch::{Seed, SlidingWindows};

use crate::shorthand::{LENGTH, breaks_the_promise, window};
use crate::{at, cost, key};

const SEED: Seed = Seed::from_bytes([6; 16]);
const SECOND: u64 = 1_000_000_000;

fn windows(limit: u32, columns: usize) -> SlidingWindows {
    SlidingWindows::with_shape(window(limit, 0), columns, &SEED).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_gains_a_fresh_budget_through_a_rekeying(
        limit in 1_u32..6,
        size in 0..6,
        events in prop::collection::vec(
            (prop_oneof![4 => Just(0), 8 => 0..LENGTH / 2, 1 => Just(PERIOD_NANOS)], 0..SECOND, 0_u64..3, any::<bool>()),
            1..200,
        ),
    ) {
        let windows = windows(limit, 1_usize << size);
        let mut now = 2 * SECOND;
        let mut admitted = [(); 3].map(|()| Vec::new());
        for (wait, lag, number, maintains) in events {
            now += wait;
            if maintains {
                windows.maintain(at(now));
            }
            let stamp = now - lag;
            if windows.admit(key(number), at(stamp), cost(1)).admitted {
                admitted[number as usize].push((stamp, 1));
            }
        }
        for admitted in &admitted {
            prop_assert!(!breaks_the_promise(limit, 0, admitted), "{admitted:?}");
        }
    }
}

#[test]
fn a_spent_key_comes_back_exactly_when_it_was_told_through_the_change() {
    let opens = PERIOD_NANOS + SECOND;
    let closes = opens + 2 * LENGTH + 2 * SECOND;
    for around in [opens, closes] {
        for before in [2 * LENGTH, LENGTH + 1, LENGTH, LENGTH / 2, 1, 0] {
            let windows = windows(3, 1 << 10);
            let (mut now, spent_at) = (0, around - before);
            let mut maintain_until = |until: u64| {
                while now + SECOND <= until {
                    now += SECOND;
                    windows.maintain(at(now));
                }
            };
            maintain_until(spent_at);
            assert!(windows.admit(key(0), at(spent_at), cost(3)).admitted);
            let back = spent_at + windows.probe(key(0), at(spent_at), cost(1)).retry_nanos.unwrap();
            maintain_until(back - 1);
            assert!(!windows.admit(key(0), at(back - 1), cost(1)).admitted, "too early, spent at {spent_at}");
            maintain_until(back);
            assert!(windows.admit(key(0), at(back), cost(1)).admitted, "too late, spent at {spent_at}");
            maintain_until(closes + LENGTH);
            assert_eq!(windows.rekeyings(), 1);
        }
    }
}
