//! CPU time of the measuring threads alone, in interleaved rounds, from the moments in which they ran undisturbed: other
//! load on the machine then touches all rows alike, and little.

use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use tidegate::units::Timestamp;

use super::neighbours;
use super::subjects::{KEYS, Subject};

/// Nanoseconds this thread has spent on a CPU.
///
/// From the scheduler's own account, which is brought up to date when the thread enters the scheduler: hence the yield.
pub fn cpu_nanos() -> u64 {
    std::thread::yield_now();
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    account.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("Linux with scheduler statistics")
}

/// Steele, Lea and Flood's SplitMix64: about a nanosecond, the same in every row.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.roll() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// Which keys are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traffic {
    /// Every client alike.
    Uniform,
    /// One client only.
    Hot,
}

const BATCH: usize = 256;

/// A round is cut into slices of this length by the clock; those count in which every thread kept its CPU. So short, because a busy machine hands a CPU on every few milliseconds.
const SLICE: Duration = Duration::from_millis(2);

/// What one thread did in one slice.
#[derive(Clone, Copy, Default)]
struct Slice {
    spent: u64,
    decisions: u64,
}

/// The time since this was first called: one origin for all rounds, as levels outlive them.
pub fn now() -> Timestamp {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    Timestamp::from_nanos(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

/// CPU nanoseconds per decision of `threads` threads that run for `slices` slices at the same time, one sample for each
/// slice after the `warm_up`. `admits` is what every decision must come to; a row that measures something else than
/// it says is an error.
pub fn nanos_per_decision(
    subject: &dyn Subject,
    traffic: Traffic,
    admits: bool,
    threads: usize,
    slices: u32,
    warm_up: u32,
    round: u64,
) -> Vec<Sample> {
    let (start, origin) = (Barrier::new(threads), OnceLock::new());
    let run = |thread: u64| {
        let mut dice = Dice(round << 8 | thread);
        let mut keys = [7; BATCH];
        let (mut decisions, mut admitted) = (0, 0);
        start.wait();
        let origin = *origin.get_or_init(Instant::now);
        let slice = |number: u32| {
            let end = origin + SLICE * (number + 1);
            let (began, before) = (cpu_nanos(), decisions);
            while Instant::now() < end {
                if traffic == Traffic::Uniform {
                    keys.fill_with(|| dice.below(KEYS));
                }
                admitted += subject.ask(&keys, now()) as u64;
                decisions += BATCH as u64;
            }
            Slice { spent: cpu_nanos() - began, decisions: decisions - before }
        };
        let slices: Vec<Slice> = (0..slices).map(slice).collect();
        let share = admitted as f64 / decisions.max(1) as f64;
        let wanted = f64::from(u8::from(admits && decisions > 0));
        assert!((share - wanted).abs() < 0.001, "not what the row says: {share} admitted");
        slices
    };
    let run = &run;
    let by_thread: Vec<Vec<Slice>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads as u64).map(|thread| scope.spawn(move || run(thread))).collect();
        let own = run(0);
        others.into_iter().map(|other| other.join().unwrap()).chain([own]).collect()
    });
    let undisturbed = |slice: &Slice| slice.spent as f64 > 0.9 * SLICE.as_nanos() as f64;
    let together = (warm_up as usize..slices as usize).map(|number| by_thread.iter().map(move |slices| slices[number]));
    let sum = |sum: Slice, one: Slice| Slice { spent: sum.spent + one.spent, decisions: sum.decisions + one.decisions };
    together
        .map(|threads| (threads.clone().all(|slice| undisturbed(&slice)), threads.fold(Slice::default(), sum)))
        .filter(|(_, slice)| slice.decisions > 0)
        .map(|(together, slice)| Sample { nanos: slice.spent as f64 / slice.decisions as f64, together, probe: 0.0 })
        .collect()
}

/// Decisions whose requests take longer to make than to decide on.
pub trait Batches {
    /// Makes the next batch; not measured.
    fn prepare(&mut self, dice: &mut Dice);

    /// Decides on all of it: how many there were, and how many were admitted.
    fn ask(&mut self, at: Timestamp) -> (u64, u64);
}

/// As [`nanos_per_decision`], on one thread, with the making of the requests left out: what the clock says of the batches in
/// a slice through which the thread kept its CPU.
pub fn nanos_in_batches(mut batches: impl Batches, admits: bool, slices: u32, warm_up: u32, round: u64) -> Vec<Sample> {
    let mut dice = Dice(round);
    let (mut asked_ever, mut admitted_ever) = (0, 0);
    let mut slice = |_| {
        let probe = neighbours::probe();
        let (began, cpu_before) = (Instant::now(), cpu_nanos());
        let (mut spent, mut asked) = (Duration::ZERO, 0);
        while began.elapsed() < SLICE {
            batches.prepare(&mut dice);
            let batch = Instant::now();
            let (decisions, admitted) = batches.ask(now());
            spent += batch.elapsed();
            asked += decisions;
            admitted_ever += admitted;
        }
        asked_ever += asked;
        let (cpu, wall) = (cpu_nanos() - cpu_before, began.elapsed().as_nanos() as u64);
        // the account reads a little less than the wall even when nothing else ran
        let together = cpu + 30_000 >= wall;
        let share = if together { 1.0 } else { cpu as f64 / wall as f64 };
        Sample {
            nanos: spent.as_nanos() as f64 * share / asked as f64,
            together,
            probe: probe.max(neighbours::probe()),
        }
    };
    let samples: Vec<Sample> = (0..slices).map(&mut slice).skip(warm_up as usize).collect();
    let share = admitted_ever as f64 / asked_ever as f64;
    let wanted = f64::from(u8::from(admits));
    assert!((share - wanted).abs() < 0.005, "not what the row says: {share} admitted");
    samples
}

/// Nanoseconds per decision in one slice, and whether all threads kept their CPUs through it.
#[derive(Clone, Copy)]
pub struct Sample {
    nanos: f64,
    together: bool,
    /// The higher of what the [probe](neighbours::probe) said before and after it; zero where it was not asked.
    pub probe: f64,
}

/// So many undisturbed samples make a figure: a neighbour may have come and gone within one that seemed so.
const FEWEST: usize = 8;

/// The figure of one row and column.
#[derive(Clone, Copy)]
pub struct Figure {
    pub nanos: f64,
    /// The median of all samples in which the threads kept their CPUs: what a neighbour's load makes of it.
    pub median: f64,
    /// Which part of those had its core to itself.
    pub alone: f64,
    /// Hardly a slice was undisturbed: the threads took turns, or shared their core. Printed with a tilde.
    pub rough: bool,
}

impl Figure {
    /// The lower quartile of the undisturbed samples, or of all if those are too few: what is left of other load's traces,
    /// such as caches it emptied, only ever makes a sample slower. `highest` is the highest probe of a core that was free.
    pub fn of(samples: &[Sample], highest: f64) -> Figure {
        let sorted = |kept: &dyn Fn(&Sample) -> bool| {
            let mut nanos: Vec<f64> = samples.iter().filter(|sample| kept(sample)).map(|sample| sample.nanos).collect();
            nanos.sort_by(f64::total_cmp);
            nanos
        };
        let alone = sorted(&|sample| sample.together && sample.probe <= highest);
        let together = sorted(&|sample| sample.together);
        let all = sorted(&|_| true);
        let rough = alone.len() < FEWEST;
        let part = |of: &[f64], part: usize| of.get(of.len() / part).copied().unwrap_or(f64::NAN);
        let enough = if rough { &together } else { &alone };
        let kept = if enough.is_empty() { &all } else { enough };
        Figure {
            nanos: part(kept, 4),
            median: part(if together.is_empty() { &all } else { &together }, 2),
            alone: alone.len() as f64 / together.len().max(1) as f64,
            rough,
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}{:.1}", if self.rough { "~" } else { "" }, self.nanos))
    }
}
