//! How large a sketch must be for an error, and how large the error of a sketch is.
//!
//! Count-min (Cormode and Muthukrishnan 2005): with ⌈e/ε⌉ columns and ⌈ln 1/δ⌉ rows an estimate is too high by more than ε·N
//! with probability δ at most, N being the sum of all counts. That is Markov's inequality in each row: w columns are off by
//! more than ε·N with probability 1/(w·ε) at most, and d independent rows all at once with (1/(w·ε))^d.
//!
//! The tables here have a fixed number of rows. So they reach a δ by their width: `w = ⌈δ^(−1/d)/ε⌉`, which is the paper's
//! ⌈e/ε⌉ where d = ln 1/δ. Conservative update only lowers estimates, so the bound holds for it too.
//!
//! **What N is**, where counts fade:
//!
//! | counts | N |
//! |---|---|
//! | windows | the units that all keys were charged in the present window; of a sliding one also those of the window before |
//! | buckets | the units that all keys were charged in the last burst/rate; the estimate is held against what the key was charged in that time |
//! | decayed sums and rates | the sum of all of them, decayed to now; of [`OfferedRates`](super::OfferedRates) over all nodes |
//! | places | all that are held now |
//!
//! *Why, for a bucket.* A cell's level is at most that of one bucket that all of its keys share. That one is `burst` ahead at most
//! a time burst/rate ago, has given all of that back since, and so holds no more than was added since.

use crate::units::Share;

/// How exact a sketch is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// ε: by how much of N an estimate may be too high. More than nothing.
    pub error: Share,
    /// 1 − δ: how surely it is not higher. Less than all.
    pub confidence: Share,
}

impl Accuracy {
    /// The columns that it takes in a table of so many rows, a power of two. `None` if there are no such numbers.
    pub fn columns(self, rows: u32) -> Option<u64> {
        let wanted = reach(rows, self.confidence) / self.error.get();
        // far more than any table has, and a whole number up to there loses nothing by the conversion
        (wanted <= (1_u64 << 53) as f64).then(|| (wanted.ceil() as u64).max(1).next_power_of_two())
    }
}

/// The rows and columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// d.
    pub rows: u32,
    /// w.
    pub columns: u64,
}

impl Shape {
    /// The paper's confidence for this number of rows: 1 − e^(−d).
    pub fn confidence(self) -> Share {
        Share::new(1.0 - (-f64::from(self.rows)).exp()).unwrap_or(Share::ALL)
    }

    /// ε: an estimate is too high by more than this part of N with no more than the probability that `confidence` leaves.
    pub fn error(self, confidence: Share) -> f64 {
        reach(self.rows, confidence) / self.columns.max(1) as f64
    }

    /// The probability that a key shares its cell in every row with one of so many busy ones: (1 − e^(−s/w))^d.
    pub fn covered(self, busy: u64) -> f64 {
        let one = -(-(busy as f64) / self.columns.max(1) as f64).exp_m1();
        one.powf(f64::from(self.rows))
    }
}

/// δ^(−1/d): by how much more than N/w a row must be allowed to be off.
fn reach(rows: u32, confidence: Share) -> f64 {
    (1.0 - confidence.get()).powf(-1.0 / f64::from(rows.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accuracy(error: f64, confidence: f64) -> Accuracy {
        Accuracy { error: Share::new(error).unwrap(), confidence: Share::new(confidence).unwrap() }
    }

    #[test]
    fn with_the_papers_number_of_rows_it_is_the_papers_width() {
        for rows in 1..=8 {
            let delta = (-f64::from(rows)).exp();
            for error in [0.5, 0.011, 0.01, 0.001, 0.000_37] {
                let paper = ((std::f64::consts::E / error).ceil() as u64).next_power_of_two();
                assert_eq!(accuracy(error, 1.0 - delta).columns(rows), Some(paper), "{rows} rows, {error}");
            }
            let shape = Shape { rows, columns: 1 << 17 };
            let stated = shape.error(shape.confidence());
            assert!((stated - std::f64::consts::E / f64::from(1 << 17)).abs() < 1e-12, "{rows} rows: {stated}");
        }
    }

    #[test]
    fn what_is_sized_for_an_error_has_that_error_or_less_and_half_of_it_has_more() {
        for rows in [1, 4, 8] {
            for error in [0.3, 0.01, 0.000_1] {
                for confidence in [0.5, 0.99, 0.999_999] {
                    let wanted = accuracy(error, confidence);
                    let columns = wanted.columns(rows).unwrap();
                    let of = |columns| Shape { rows, columns }.error(wanted.confidence);
                    assert!(of(columns) <= error && (columns == 1 || of(columns / 2) > error), "{rows} {wanted:?}");
                }
            }
        }
    }

    #[test]
    fn there_is_no_table_without_error_or_doubt() {
        assert_eq!(accuracy(0.0, 0.99).columns(4), None);
        assert_eq!(accuracy(0.01, 1.0).columns(4), None);
    }
}
