//! What clients feel: how many well-behaved ones a structure of given size refuses while others misbehave.

use std::time::Duration;

use pingora_limits::estimator::Estimator;
use tidegate::sketch::{Admission, Meter, Seed};
use tidegate::units::{Cost, Timestamp};

use super::allocations::{Usage, Used};
use super::layout::Layout;
use super::subjects::{address_key, bucket};

/// A thousand innocents with fifty requests each, in a period in which a hundred are allowed.
const INNOCENTS: u32 = 1_000;
const REQUESTS: u32 = 50 * INNOCENTS;

/// Whether the flood takes a whole period, as it says, or comes at one instant, when nothing fades.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    OverThePeriod,
    AtOnce,
}

/// Calls `ask` with a key and the share of the period gone by: `flood` keys once each, the innocents in between; the
/// share of the innocents' requests that it refused.
fn refused_share(flood: u32, mut ask: impl FnMut(u32, f64) -> bool) -> f64 {
    let (every, mut refused, mut asked) = (flood.div_ceil(REQUESTS), 0, 0);
    for n in 0..flood {
        let gone = f64::from(n) / f64::from(flood);
        ask(INNOCENTS + n, gone);
        if n % every == 0 {
            refused += u32::from(!ask(asked % INNOCENTS, gone));
            asked += 1;
        }
    }
    f64::from(refused) / f64::from(asked)
}

/// One table of `bytes` under a flood of one-shot keys; also what the flood allocated.
pub fn flooded<L: Layout>(bytes: u64, flood: u32, pace: Pace) -> (f64, Used) {
    let (table, seed) = (L::with_bytes(bytes), Seed::from_bytes([3; 16]));
    let bucket = bucket(Duration::from_millis(10), 100);
    let usage = Usage::start();
    let share = refused_share(flood, |number, gone| {
        let gone = if pace == Pace::AtOnce { 0.0 } else { gone };
        let now = Timestamp::from_nanos((gone * bucket.refill_nanos() as f64) as u64);
        let admission = table.admit(&bucket, address_key(&seed, number), now, Cost::ONE);
        matches!(admission, Admission::Admitted { .. })
    });
    (share, usage.end())
}

/// The share refused by the pattern of `pingora_limits`, in as much memory.
pub fn flooded_estimator(bytes: u64, flood: u32) -> f64 {
    let estimator = Estimator::new(4, bytes as usize / 32);
    refused_share(flood, |number, _| {
        let admitted = estimator.incr(number, 1) <= 100;
        if !admitted {
            estimator.decr(number, 1);
        }
        admitted
    })
}

/// How many of `probes` fresh keys are refused beside `abusers` keys held at their limit.
pub fn beside_abusers<L: Layout>(bytes: u64, abusers: u32, probes: u32) -> u32 {
    let (table, seed) = (L::with_bytes(bytes), Seed::from_bytes([4; 16]));
    let (bucket, now) = (bucket(Duration::from_millis(100), 10), Timestamp::ZERO);
    for abuser in 0..abusers {
        while let Admission::Admitted { .. } = table.admit(&bucket, address_key(&seed, abuser), now, Cost::ONE) {}
    }
    let refused = |innocent: &u32| {
        let level = table.estimate(address_key(&seed, *innocent));
        bucket.admit(level, now, Cost::ONE).is_none()
    };
    (abusers..abusers + probes).filter(refused).count() as u32
}
