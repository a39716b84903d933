//! Whether a thread has its core to itself.
//!
//! On a machine that others share, a thread may keep its CPU and still have half of a core: the other half is a hyperthread of
//! somebody else's. No account of time tells that. But work of known size does, that takes longer exactly then: a chain of steps
//! of which each waits for the one before, and steps that wait for nothing and so need every unit of the core. Beside a busy
//! neighbour the second takes up to twice as long, and the first a little.

use std::hint::black_box;
use std::time::Instant;

/// Some microseconds, of which the wide part is a third.
const STEPS: u32 = 2_000;

/// How long the work takes now, in nanoseconds: some microseconds.
pub fn probe() -> f64 {
    let start = Instant::now();
    black_box(chained(black_box(3)));
    black_box(wide(black_box(5)));
    start.elapsed().as_nanos() as f64
}

/// The longest that it takes on a core of its own, from all that it took in a run. The shortest of them were on such a core, if
/// any were; clocks that go up and down make a twentieth, neighbours a tenth at the least.
pub fn longest_alone(probes: impl Iterator<Item = f64>) -> f64 {
    let mut probes: Vec<f64> = probes.collect();
    probes.sort_by(f64::total_cmp);
    probes.get(probes.len() / 200).copied().unwrap_or(f64::NAN) * 1.08
}

#[inline(never)]
fn chained(mut state: u64) -> u64 {
    for _ in 0..STEPS {
        state = black_box(state.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    state
}

#[inline(never)]
fn wide(seed: u64) -> u64 {
    let mut states: [u64; 6] = std::array::from_fn(|place| seed.wrapping_add(place as u64));
    for _ in 0..STEPS {
        for state in &mut states {
            *state = (*state ^ 0x9e37_79b9).rotate_left(7);
        }
    }
    states.iter().fold(0, |sum, state| sum ^ state)
}
