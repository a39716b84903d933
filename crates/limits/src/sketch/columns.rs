//! A key's column in every row of a table, drawn by secret multipliers from its 128-bit hash.
//!
//! For tables that need more rows than a [`KeyHash`] has slices, or other columns for the same hash: another number gives
//! other multipliers, so that a table can be replaced by one with unrelated collisions without hashing any key anew.
//!
//! Row r of a table with 2^l columns takes the top l bits of `a·low + b·high`, in arithmetic modulo 2^64, a odd. Source:
//! the multiply-shift hash of Dietzfelbinger, Hagerup, Katajainen and Penttonen (*A reliable randomized algorithm for the
//! closest-pair problem*, 1997), in the form for vectors of Thorup, *High speed hashing for integers and strings* (2015).
//! Alone it is no secret hash: whoever chooses its input and sees collisions can solve for the multipliers. Here its input
//! is a keyed hash already, whose value nobody outside sees.
//!
//! Not double hashing: two rows of a pair of keys do not fix the others, as each has multipliers of its own.

use super::hash::{KeyHash, KeyHasher, Seed};
use crate::units::OutOfRange;

/// The columns of `ROWS` rows, each a power of two wide.
///
/// The hash being uniform, so is the column of a key in each row. Two given keys share a column with probability
/// 1/columns in each row, and all of them with about columns^(−ROWS); `tests/sketch` measures both.
#[derive(Clone)]
pub struct Columns<const ROWS: usize> {
    multipliers: [[u64; 2]; ROWS],
    /// 63 less the binary logarithm of the number of columns; one more shift is made apart, so that 64 is never shifted.
    shift: u32,
}

impl<const ROWS: usize> Columns<ROWS> {
    /// The columns of table `number` under `seed`, in rows of `columns`. Different numbers are unrelated.
    ///
    /// # Errors
    /// `columns` is not a power of two from 1 to 2²⁴, the most that a table may have.
    pub fn new(seed: &Seed, number: u64, columns: usize) -> Result<Columns<ROWS>, OutOfRange> {
        if !columns.is_power_of_two() || columns > 1 << KeyHash::SLICE_BITS {
            return Err(OutOfRange { allowed: "a power of two from 1 to 16777216" });
        }
        // derived, so that no key hashed under the seed itself can have the multipliers for its hash
        let secret = seed.derive("columns");
        let mut row = 0_u64;
        let multipliers = [(); ROWS].map(|()| {
            let mut hasher = KeyHasher::new(&secret);
            hasher.part(0, &number.to_le_bytes());
            hasher.part(1, &row.to_le_bytes());
            row += 1;
            let [low, high] = hasher.finish().halves();
            [low | 1, high]
        });
        Ok(Columns { multipliers, shift: 63 - columns.trailing_zeros() })
    }

    /// The key's column in every row, each below the number of columns.
    #[inline]
    pub fn of(&self, key: KeyHash) -> [usize; ROWS] {
        let [low, high] = key.halves();
        self.multipliers.map(|[a, b]| {
            let mixed = a.wrapping_mul(low).wrapping_add(b.wrapping_mul(high));
            (mixed >> 1 >> self.shift) as usize
        })
    }
}

impl<const ROWS: usize> std::fmt::Debug for Columns<ROWS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Columns(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed::from_bytes([3; 16]);

    fn key(number: u64) -> KeyHash {
        let mut hasher = KeyHasher::new(&SEED);
        hasher.part(0, &number.to_le_bytes());
        hasher.finish()
    }

    #[test]
    fn every_column_of_every_row_is_used_and_none_beyond() {
        for columns in [1, 2, 16] {
            let drawn = Columns::<8>::new(&SEED, 0, columns).unwrap();
            let mut hits = vec![[0; 8]; columns];
            for number in 0..1_600 {
                for (row, column) in drawn.of(key(number)).into_iter().enumerate() {
                    hits[column][row] += 1;
                }
            }
            let fair = 1_600 / columns as u32;
            assert!(hits.iter().flatten().all(|hits| (fair / 2..=fair * 3 / 2).contains(hits)), "{columns}: {hits:?}");
        }
        let widest = Columns::<4>::new(&SEED, 0, 1 << 24).unwrap();
        assert!((0..1_000).flat_map(|number| widest.of(key(number))).all(|column| column < 1 << 24));
    }

    #[test]
    fn rows_collide_as_rarely_together_as_independent_ones() {
        // any two rows of 16 columns: 1 pair of keys in 256 shares both
        let drawn = Columns::<8>::new(&SEED, 0, 16).unwrap();
        let pairs = 40_000;
        let mut both = [[0_u32; 8]; 8];
        for number in 0..pairs {
            let (a, b) = (drawn.of(key(2 * number)), drawn.of(key(2 * number + 1)));
            for (first, counts) in both.iter_mut().enumerate() {
                for (second, count) in counts.iter_mut().enumerate().skip(first + 1) {
                    *count += u32::from(a[first] == b[first] && a[second] == b[second]);
                }
            }
        }
        for (first, counts) in both.iter().enumerate() {
            // 156 expected, and five standard deviations are 62
            assert!(counts[first + 1..].iter().all(|count| count.abs_diff(156) < 62), "row {first}: {counts:?}");
        }
    }

    #[test]
    fn keys_that_have_a_half_in_common_are_as_far_apart_as_others() {
        let halves = |low, high| KeyHash::from_halves([low, high]);
        let mut shared = [0; 2];
        for number in 0..100 {
            let drawn = Columns::<8>::new(&SEED, number, 16).unwrap();
            let first = drawn.of(halves(5, 9));
            for (shared, other) in shared.iter_mut().zip([halves(6, 9), halves(5, 10)]) {
                *shared += first.iter().zip(drawn.of(other)).filter(|(a, b)| **a == *b).count();
            }
        }
        // one in 16 of 800
        assert!(shared.iter().all(|shared| (20..=100).contains(shared)), "{shared:?}");
    }

    #[test]
    fn another_number_or_seed_gives_other_columns() {
        let columns = |seed: &Seed, number| Columns::<4>::new(seed, number, 1 << 20).unwrap().of(key(7));
        let first = columns(&SEED, 0);
        assert_eq!(first, columns(&SEED, 0));
        for other in [columns(&SEED, 1), columns(&Seed::from_bytes([4; 16]), 0)] {
            assert!(first.iter().zip(other).all(|(a, b)| *a != b));
        }
        assert!(first.iter().skip(1).all(|column| *column != first[0]));
    }

    #[test]
    fn a_row_is_a_power_of_two_wide() {
        for columns in [0, 3, 1 << 25] {
            assert!(Columns::<2>::new(&SEED, 0, columns).is_err(), "{columns}");
        }
        assert_eq!(format!("{:?}", Columns::<2>::new(&SEED, 0, 4).unwrap()), "Columns(secret)");
    }
}
