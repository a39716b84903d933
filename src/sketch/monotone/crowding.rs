//! How crowded a table is: told from a sample of its cells, so that it costs microseconds whatever the table's size.

use super::{Cell, MonotoneTable};
use crate::sketch::Meter;
use crate::units::{Cost, Timestamp};

/// So many runs of [`RUN`] neighbours are looked at in every row: a run is a line of the cache. The share of a sample of 256 is
/// off by 3 percent points at most, mostly.
const RUNS: usize = 32;
const RUN: usize = 8;

/// What it means to a key that was never seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crowding {
    /// The share of cells in which a level has not faded, 0 to 1.
    pub fill: f64,
    /// The probability that a key that was never seen is refused its first unit, 0 to 1: that in every row its cell is at the
    /// limit of others.
    pub error: f64,
}

impl<C: Cell, const ROWS: usize> MonotoneTable<C, ROWS> {
    /// How crowded it is at `now`.
    pub fn crowding<M: Meter>(&self, meter: &M, now: Timestamp) -> Crowding {
        let quota = meter.quota();
        let (mut seen, mut occupied, mut error) = (0_u32, 0_u32, 1.0);
        for row in &self.rows {
            let (mut sampled, mut full) = (0_u32, 0_u32);
            let apart = (row.len() / RUNS).max(RUN);
            for cell in row.chunks(apart).take(RUNS).flat_map(|part| part.iter().take(RUN)) {
                let level = cell.load();
                sampled += 1;
                occupied += u32::from(meter.remaining(level, now) < quota);
                full += u32::from(!meter.fits(level, now, Cost::ONE));
            }
            seen += sampled;
            error *= f64::from(full) / f64::from(sampled.max(1));
        }
        Crowding { fill: f64::from(occupied) / f64::from(seen.max(1)), error }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sketch::{Bucket, KeyHasher, Seed};
    use crate::units::Rate;

    #[test]
    fn is_what_counting_all_cells_would_say_and_fades_with_time() {
        let table: MonotoneTable = MonotoneTable::with_shape(4_096).unwrap();
        let bucket = Bucket::new(Rate::new(1, Duration::from_secs(1)).unwrap(), 1).unwrap();
        let now = Timestamp::from_nanos(1 << 40);
        assert_eq!(table.crowding(&bucket, now), Crowding { fill: 0.0, error: 0.0 });
        for number in 0..4_096_u64 {
            let mut hasher = KeyHasher::new(&Seed::from_bytes([1; 16]));
            hasher.part(0, &number.to_le_bytes());
            let _ = table.admit(&bucket, hasher.finish(), now, Cost::ONE);
        }
        let crowding = table.crowding(&bucket, now);
        // as many keys as columns, less those that were refused for others: about 1 − 1/e of the cells, and that to the fourth
        assert!((0.5..0.7).contains(&crowding.fill), "{crowding:?}");
        assert!((crowding.error - crowding.fill.powi(4)).abs() < 0.02, "a burst of one is spent at once: {crowding:?}");
        let later = Timestamp::from_nanos(now.nanos() + 2_000_000_000);
        assert_eq!(table.crowding(&bucket, later), Crowding { fill: 0.0, error: 0.0 });
    }

    #[test]
    fn the_smallest_table_has_an_answer_too() {
        let table: MonotoneTable = MonotoneTable::with_shape(1).unwrap();
        let bucket = Bucket::new(Rate::new(1, Duration::from_secs(1)).unwrap(), 1).unwrap();
        assert_eq!(table.crowding(&bucket, Timestamp::ZERO), Crowding { fill: 0.0, error: 0.0 });
    }
}
