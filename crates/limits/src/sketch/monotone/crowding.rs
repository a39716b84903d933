//! How crowded a table is: told from one pass over a row and a sample of its cells, so that a scrape can ask for it.

use super::{Cell, MonotoneTable};
use crate::sketch::Meter;
use crate::units::{Cost, Timestamp};

/// So many runs of [`RUN`] neighbours are looked at in every row: a run is a line of the cache. The share of a sample of 256 is
/// off by 3 percent points at most, mostly.
const RUNS: usize = 32;
const RUN: usize = 8;

/// So many cells that hold something are judged by the meter; beyond that, cells evenly taken from them.
const JUDGED: usize = 4_096;

/// What it means to a key that was never seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crowding {
    /// The share of cells in which a level has not faded, 0 to 1.
    pub fill: f64,
    /// How many keys have such a level, as so many cells are hit by chance (Whang, Vander-Zanden and Taylor 1990: linear
    /// counting). Of a full table the least that is likely.
    pub keys: u64,
    /// The probability that a key that was never seen is refused its first unit, 0 to 1: that in every row its cell is at the
    /// limit of others.
    pub error: f64,
}

impl<C: Cell, const ROWS: usize> MonotoneTable<C, ROWS> {
    /// How crowded it is at `now`.
    pub fn crowding<M: Meter>(&self, meter: &M, now: Timestamp) -> Crowding {
        let columns = self.columns() as f64;
        let fill = self.fill(|level| meter.outlook(level, now).0 < meter.quota());
        let empty = (1.0 - fill).max(1.0 / columns);
        let full = |level| meter.admit(level, now, Cost::ONE).is_none();
        let error = self.rows.iter().map(|row| share_in_sample(row, full)).product();
        Crowding { fill, keys: (-empty.ln() * columns).round().max(0.0) as u64, error }
    }

    /// The share of the first row's cells whose level is `live`: whether it holds anything is asked of each cell, the rest of up
    /// to [`JUDGED`].
    fn fill(&self, live: impl Fn(u64) -> bool) -> f64 {
        let Some(row) = self.rows.first() else { return 0.0 };
        let used = row.iter().filter(|cell| cell.load() > 0).count();
        let step = used.div_ceil(JUDGED).max(1);
        let sample = row.iter().map(C::load).filter(|level| *level > 0).step_by(step);
        let (mut judged, mut found) = (0_u32, 0_u32);
        for level in sample {
            judged += 1;
            found += u32::from(live(level));
        }
        used as f64 / row.len() as f64 * f64::from(found) / f64::from(judged.max(1))
    }
}

/// The share of cells whose level is so, of a sample of the row.
fn share_in_sample<C: Cell>(row: &[C], is_so: impl Fn(u64) -> bool) -> f64 {
    let apart = (row.len() / RUNS).max(RUN);
    let (mut sampled, mut found) = (0_u32, 0_u32);
    for cell in row.chunks(apart).take(RUNS).flat_map(|part| part.iter().take(RUN)) {
        sampled += 1;
        found += u32::from(is_so(cell.load()));
    }
    f64::from(found) / f64::from(sampled.max(1))
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
        assert_eq!(table.crowding(&bucket, now), Crowding { fill: 0.0, keys: 0, error: 0.0 });
        for number in 0..4_096_u64 {
            let mut hasher = KeyHasher::new(&Seed::from_bytes([1; 16]));
            hasher.part(0, &number.to_le_bytes());
            let _ = table.admit(&bucket, hasher.finish(), now, Cost::ONE);
        }
        let crowding = table.crowding(&bucket, now);
        // as many keys as columns, less those that were refused for others: about 1 − 1/e of the cells, and that to the fourth
        assert!((0.5..0.7).contains(&crowding.fill), "{crowding:?}");
        assert!((2_000..4_300).contains(&crowding.keys), "{crowding:?}");
        assert!((crowding.error - crowding.fill.powi(4)).abs() < 0.02, "a burst of one is spent at once: {crowding:?}");
        let later = Timestamp::from_nanos(now.nanos() + 2_000_000_000);
        assert_eq!(table.crowding(&bucket, later), Crowding { fill: 0.0, keys: 0, error: 0.0 });
    }

    #[test]
    fn the_smallest_table_has_an_answer_too() {
        let table: MonotoneTable = MonotoneTable::with_shape(1).unwrap();
        let bucket = Bucket::new(Rate::new(1, Duration::from_secs(1)).unwrap(), 1).unwrap();
        assert_eq!(table.crowding(&bucket, Timestamp::ZERO), Crowding { fill: 0.0, keys: 0, error: 0.0 });
    }
}
