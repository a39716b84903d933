//! The layout that was not chosen: two cache lines of two cells each, under the very protocol of the table that was.
//!
//! It misses the cache half as often. But two keys that meet in a line share one of only 28 pairs of cells, so an
//! innocent beside 1,000 saturated keys at 4 MiB is refused with probability 1·10⁻⁶ instead of 3·10⁻⁹.

use std::sync::atomic::AtomicU64;

use tidegate::sketch::monotone::admit;
use tidegate::sketch::{Admission, Cell, KeyHash, Levels, Meter, MonotoneTable, Seed};
use tidegate::units::{Bytes, Cost, Timestamp};

/// What the measurements need of a table.
pub trait Layout: Send + Sync {
    fn with_bytes(bytes: u64) -> Self;
    fn estimate(&self, key: KeyHash) -> u64;
    fn admit<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost) -> Admission;
}

impl Layout for MonotoneTable {
    fn with_bytes(bytes: u64) -> Self {
        MonotoneTable::with_memory(Bytes(bytes)).unwrap()
    }

    fn estimate(&self, key: KeyHash) -> u64 {
        MonotoneTable::estimate(self, key)
    }

    fn admit<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost) -> Admission {
        MonotoneTable::admit(self, meter, key, now, cost)
    }
}

/// What limits have: two such tables that take turns, and exact entries for heavy keys.
impl Layout for Levels {
    fn with_bytes(bytes: u64) -> Self {
        Levels::new(Bytes(bytes), &Seed::from_bytes([8; 16])).unwrap()
    }

    fn estimate(&self, key: KeyHash) -> u64 {
        Levels::estimate(self, key)
    }

    fn admit<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost) -> Admission {
        Levels::admit(self, meter, key, now, cost)
    }
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// A key has two cells in a line of the first half and two in a line of the second.
pub struct TwoLines {
    halves: [Box<[Line]>; 2],
}

impl TwoLines {
    fn cells(&self, key: KeyHash) -> [&AtomicU64; 4] {
        let cell = |half: usize, second: bool| {
            let lines = &self.halves[half];
            let line = key.slice(half) as usize & (lines.len() - 1);
            let choice = key.slice(2 + half) as usize;
            let first = choice & 7;
            // the second is any of the seven others
            let lane = if second { (first + 1 + (choice >> 3) % 7) & 7 } else { first };
            &lines[line].0[lane]
        };
        [cell(0, false), cell(0, true), cell(1, false), cell(1, true)]
    }
}

impl Layout for TwoLines {
    fn with_bytes(bytes: u64) -> Self {
        let lines = bytes / 128;
        assert!(lines.is_power_of_two());
        TwoLines { halves: [(); 2].map(|()| (0..lines).map(|_| std::hint::black_box(Line::default())).collect()) }
    }

    fn estimate(&self, key: KeyHash) -> u64 {
        self.cells(key).map(Cell::load).into_iter().fold(u64::MAX, u64::min)
    }

    fn admit<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost) -> Admission {
        admit(self.cells(key), meter, now, cost)
    }
}
