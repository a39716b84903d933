//! How long answers took, over ten minutes: a column for every ten seconds, a row for every range of times.

/// A column has so many seconds.
pub const COLUMN: u64 = 10;

/// So many columns are kept: ten minutes.
pub const COLUMNS: usize = 60;

/// Upper ends of the rows but the last, in seconds. Each is a bound of the histogram of durations.
pub const ROWS: [f64; 5] = [0.005, 0.025, 0.1, 0.5, 2.5];

/// The requests of ten seconds, by row.
pub type Column = [u32; ROWS.len() + 1];

/// The columns of the last ten minutes.
#[derive(Debug)]
pub struct Heat {
    columns: Box<[Column]>,
    /// The number of the newest column.
    newest: u64,
}

impl Heat {
    /// Of an origin that answered nothing yet.
    pub fn new() -> Heat {
        Heat { columns: vec![Column::default(); COLUMNS].into_boxed_slice(), newest: 0 }
    }

    /// With these columns, the oldest first; the newest is that of `second`.
    pub fn of(second: u64, columns: &[Column; COLUMNS]) -> Heat {
        let mut heat = Heat { newest: second / COLUMN, ..Heat::new() };
        for (back, column) in columns.iter().rev().enumerate() {
            let place = heat.newest.checked_sub(back as u64).map(place);
            if let Some(own) = place.and_then(|place| heat.columns.get_mut(place)) {
                *own = *column;
            }
        }
        heat
    }

    /// Adds requests that ended in a second, by buckets of a histogram with these upper bounds.
    pub fn add(&mut self, second: u64, bounds: &[f64], counts: &[u64]) {
        let number = second / COLUMN;
        self.advance(number);
        let Some(column) = self.columns.get_mut(place(number)) else { return };
        for (index, count) in counts.iter().enumerate() {
            let bound = bounds.get(index).copied().unwrap_or(f64::INFINITY);
            let row = ROWS.iter().position(|end| bound <= *end).unwrap_or(ROWS.len());
            if let Some(cell) = column.get_mut(row) {
                *cell = cell.saturating_add(u32::try_from(*count).unwrap_or(u32::MAX));
            }
        }
    }

    fn advance(&mut self, number: u64) {
        let first = (self.newest + 1).max((number + 1).saturating_sub(COLUMNS as u64));
        for column in first..=number {
            if let Some(column) = self.columns.get_mut(place(column)) {
                *column = Column::default();
            }
        }
        self.newest = self.newest.max(number);
    }

    /// Returns the columns up to that of `second`, the oldest first.
    pub fn until(&self, second: u64) -> Vec<Column> {
        let number = second / COLUMN;
        let first = (number + 1).saturating_sub(COLUMNS as u64);
        let column = |at: u64| {
            let known = at <= self.newest && at + COLUMNS as u64 > self.newest;
            self.columns.get(place(at)).filter(|_| known).copied().unwrap_or_default()
        };
        (first..=number).map(column).collect()
    }
}

fn place(number: u64) -> usize {
    // the remainder is below 60
    (number % COLUMNS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 4] = [0.005, 0.01, 0.1, 5.0];

    #[test]
    fn each_request_is_in_one_row_of_its_ten_seconds() {
        let mut heat = Heat::new();
        heat.add(1_000, &BOUNDS, &[3, 2, 1, 0, 4]);
        heat.add(1_009, &BOUNDS, &[1, 0, 0, 2, 0]);
        heat.add(1_010, &BOUNDS, &[7, 0, 0, 0, 0]);
        let columns = heat.until(1_010);
        assert_eq!(columns.len(), COLUMNS);
        assert_eq!(columns[58], [4, 2, 1, 0, 0, 6]);
        assert_eq!(columns[59], [7, 0, 0, 0, 0, 0]);
        assert_eq!(columns[..58].iter().flatten().sum::<u32>(), 0);
    }

    #[test]
    fn what_is_older_than_ten_minutes_is_forgotten_also_after_a_pause() {
        let mut heat = Heat::new();
        for second in 0..2_000 {
            heat.add(second, &BOUNDS, &[1]);
        }
        assert!(heat.until(1_999).iter().all(|column| column[0] == 10));
        assert_eq!(heat.until(2_299).iter().map(|column| column[0]).sum::<u32>(), 300);
        heat.add(9_000, &BOUNDS, &[1]);
        assert_eq!(heat.until(9_000).iter().flatten().sum::<u32>(), 1);
    }
}
