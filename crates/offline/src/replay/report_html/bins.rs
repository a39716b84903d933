//! Counts over a time of unknown length, in bins that become wider together.

/// What every series of a report shares: the first bin and the width of all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Calendar {
    width: usize,
    /// The first bin, counted in widths from the origin; none before the first request.
    first: Option<u64>,
}

/// Widths in seconds, each a multiple of the one before.
const WIDTHS: [u64; 12] = [1, 5, 15, 60, 300, 900, 3_600, 10_800, 43_200, 86_400, 604_800, 6_048_000];

const SECOND: u64 = 1_000_000_000;

impl Calendar {
    /// At most so many bins: more than a picture can show are of no use.
    pub const MOST: u64 = 240;

    /// The bin of an instant in nanoseconds, and by how many times bins have become wider because of it. The series then
    /// must be [widened](Series::widen) before anything is counted.
    pub fn bin(&mut self, at: u64) -> (u32, Option<Widening>) {
        let second = at / SECOND;
        let first = *self.first.get_or_insert(second / self.seconds());
        let bin = (second / self.seconds()).saturating_sub(first);
        if bin < Self::MOST || self.width + 1 >= WIDTHS.len() {
            return (bin.min(Self::MOST - 1) as u32, None);
        }
        let before = self.seconds();
        self.width += 1;
        let factor = self.seconds() / before;
        let widening = Widening { factor, first };
        self.first = Some(first / factor);
        // a longer step still may be needed
        let (bin, further) = self.bin(at);
        (bin, Some(further.map_or(widening, |further| Widening { factor: factor * further.factor, first })))
    }

    /// Seconds of a bin.
    pub fn seconds(&self) -> u64 {
        WIDTHS.get(self.width).copied().unwrap_or(1)
    }

    /// When the first bin begins, in seconds from the origin.
    pub fn start(&self) -> u64 {
        self.first.unwrap_or_default() * self.seconds()
    }

    /// The width in words: `second`, `15 seconds`, `hour`.
    pub fn told(&self) -> String {
        let seconds = self.seconds();
        let (count, unit) = match seconds {
            0..60 => (seconds, "second"),
            60..3_600 => (seconds / 60, "minute"),
            3_600..86_400 => (seconds / 3_600, "hour"),
            _ => (seconds / 86_400, "day"),
        };
        if count == 1 { unit.to_owned() } else { format!("{count} {unit}s") }
    }
}

/// How bins become wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widening {
    /// So many old bins are a new one.
    factor: u64,
    /// The first old bin, from the origin.
    first: u64,
}

/// Two counts per bin: all, and those of a kind; only the bins that have any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Series {
    cells: Vec<(u32, u64, u64)>,
}

impl Series {
    /// Counts one in a bin that is none of those before the last.
    pub fn count(&mut self, bin: u32, special: bool) {
        match self.cells.last_mut() {
            Some((last, all, of_kind)) if *last >= bin => {
                *all += 1;
                *of_kind += u64::from(special);
            }
            _ => self.cells.push((bin, 1, u64::from(special))),
        }
    }

    /// The same counts in wider bins.
    pub fn widen(&mut self, by: Widening) {
        let mut wider: Vec<(u32, u64, u64)> = Vec::with_capacity(self.cells.len());
        for (bin, all, of_kind) in self.cells.drain(..) {
            let bin = ((by.first + u64::from(bin)) / by.factor).saturating_sub(by.first / by.factor) as u32;
            match wider.last_mut() {
                Some((last, sum, sum_of_kind)) if *last == bin => {
                    *sum += all;
                    *sum_of_kind += of_kind;
                }
                _ => wider.push((bin, all, of_kind)),
            }
        }
        self.cells = wider;
    }

    /// (all, those of the kind) of so many bins, in the order of time.
    pub fn dense(&self, bins: usize) -> Vec<(u64, u64)> {
        let mut dense = vec![(0, 0); bins];
        for (bin, all, of_kind) in &self.cells {
            if let Some(cell) = dense.get_mut(*bin as usize) {
                *cell = (*all, *of_kind);
            }
        }
        dense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_bins_widen() {
        let (mut calendar, mut series) = (Calendar::default(), Series::default());
        let start = 1_000_003;
        for second in 0..10_000 {
            let (bin, widening) = calendar.bin((start + second) * SECOND);
            if let Some(widening) = widening {
                series.widen(widening);
            }
            series.count(bin, second % 10 == 0);
        }
        assert_eq!(calendar.seconds(), 60);
        assert_eq!(calendar.start() % 60, 0, "bins begin at whole minutes");
        assert!(calendar.start() <= start && start < calendar.start() + 60);
        let sums = series.cells.iter().fold((0, 0), |(all, of), cell| (all + cell.1, of + cell.2));
        assert_eq!(sums, (10_000, 1_000));
        assert!(series.cells.iter().skip(1).rev().skip(1).all(|cell| cell.1 == 60), "each in its own minute");
    }

    #[test]
    fn a_long_silence_widens_several_times_at_once() {
        let (mut calendar, mut series) = (Calendar::default(), Series::default());
        for at in [0, 1, 86_400 * 30 - 1] {
            let (bin, widening) = calendar.bin(at * SECOND);
            widening.into_iter().for_each(|widening| series.widen(widening));
            series.count(bin, false);
        }
        assert_eq!((calendar.told().as_str(), series.cells.clone()), ("3 hours", vec![(0, 2, 0), (239, 1, 0)]));
    }

    #[test]
    fn time_without_end_stays_in_the_last_bin() {
        let mut calendar = Calendar::default();
        calendar.bin(0);
        assert_eq!(calendar.bin(u64::MAX).0, 239);
    }
}
