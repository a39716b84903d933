//! Whether a thread has its core to itself.
//!
//! On a machine that others share, a thread may keep its CPU and still have half of a core: the other half is a hyperthread of
//! somebody else's. No account of time tells that. But work does that needs every unit of the core, as none of its steps waits for
//! another: beside a busy neighbour it takes up to twice as long, while a chain, of which each step waits for the one before,
//! takes as long as ever. The ratio of the two does not depend on the clock, which goes up and down.

use std::hint::black_box;
use std::time::Instant;

/// Four microseconds of both together.
const STEPS: u32 = 2_000;

/// How long steps that wait for nothing take now, in times of a chain of steps: lowest on a core of one's own.
pub fn probe() -> f64 {
    let start = Instant::now();
    black_box(chained(black_box(3)));
    let between = Instant::now();
    black_box(wide(black_box(5)));
    between.elapsed().as_nanos() as f64 / (between - start).as_nanos().max(1) as f64
}

/// The highest that is said of a core of one's own, from all that was said in a run: the lowest were, if any were. Alone it is the
/// same within a fiftieth, and beside somebody who does hardly anything a tenth more.
pub fn highest_alone(probes: impl Iterator<Item = f64>) -> f64 {
    let mut probes: Vec<f64> = probes.collect();
    probes.sort_by(f64::total_cmp);
    probes.get(probes.len() / 100).copied().unwrap_or(f64::NAN) * 1.04
}

#[inline(never)]
fn chained(mut state: u64) -> u64 {
    for _ in 0..STEPS {
        state = state.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
