//! Networks of the commonest lengths, found by a hash: whole addresses, /24s of IPv4 and /64s of IPv6.
//!
//! **Time.** A number has a bucket of `WIDTH` slots, and a byte of its hash in the slot that it is in. A look reads the bytes of one
//! bucket, which of a million numbers are 1.2 MiB and stay in the processor's caches, and the number itself where a byte is the same: of one
//! that is not in the list that happens to 1 in 25.
//!
//! **The worst.** A bucket that is full goes on in the next one, `FARTHEST` times at most. A number without a place even there is handed
//! back, so a list that was made to collide is slow for nobody: it goes into the tree.

use crate::sketch::bring_near;

/// Slots of a bucket.
const WIDTH: usize = 8;

/// How many buckets a number is away from its own at most.
const FARTHEST: usize = 24;

/// How many numbers there are to 256 slots: fewer waste memory, and of more too many are away from their own bucket.
const LOAD: usize = 205;

/// A number that can be hashed.
pub(super) trait Hashed: Copy + Ord + Default {
    /// A hash, all of whose bits depend on all of the number.
    fn hash(self) -> u64;
}

impl Hashed for u32 {
    #[inline]
    fn hash(self) -> u64 {
        u64::from(self).hash()
    }
}

impl Hashed for u64 {
    #[inline]
    fn hash(self) -> u64 {
        mixed(self ^ SALTS[0], SALTS[1])
    }
}

impl Hashed for u128 {
    #[inline]
    fn hash(self) -> u64 {
        // each half fits
        mixed(mixed((self >> 64) as u64 ^ SALTS[0], SALTS[1]) ^ self as u64, SALTS[2])
    }
}

/// Digits of π.
const SALTS: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];

/// Both halves of a product, as one.
#[inline]
fn mixed(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    // each half fits
    (product >> 64) as u64 ^ product as u64
}

/// The numbers of a bucket: half a line of the processor's cache, one line, or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
struct Bucket<N>([N; WIDTH]);

/// Numbers, each with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Singles<N, V> {
    /// A byte of the hash of what is in each slot, from the first on; 0: nothing.
    marks: Box<[[u8; WIDTH]]>,
    numbers: Box<[Bucket<N>]>,
    values: Box<[[V; WIDTH]]>,
    count: usize,
}

impl<N, V> Default for Singles<N, V> {
    fn default() -> Singles<N, V> {
        Singles { marks: Box::default(), numbers: Box::default(), values: Box::default(), count: 0 }
    }
}

impl<N: Hashed, V: Copy> Singles<N, V> {
    /// Different numbers with their values. Returns those that have no place, too.
    pub fn new(numbers: &[(N, V)]) -> (Singles<N, V>, Vec<(N, V)>) {
        let Some((_, some)) = numbers.first() else { return (Singles::default(), Vec::new()) };
        let buckets = (numbers.len() * 256).div_ceil(LOAD * WIDTH) + FARTHEST;
        let mut made = Singles {
            marks: vec![[0; WIDTH]; buckets].into(),
            numbers: vec![Bucket([N::default(); WIDTH]); buckets].into(),
            values: vec![[*some; WIDTH]; buckets].into(),
            count: 0,
        };
        let without = numbers.iter().copied().filter(|(number, value)| made.put(*number, *value).is_none()).collect();
        (made, without)
    }

    /// Gives a number the first place that is free; `None` if there is none.
    fn put(&mut self, number: N, value: V) -> Option<()> {
        let (home, mark) = self.home(number)?;
        let mut near = self.marks.iter_mut().enumerate().skip(home).take(FARTHEST + 1);
        let (at, place, slot) = near.find_map(|(at, marks)| {
            let place = marks.iter().position(|mark| *mark == 0)?;
            Some((at, place, marks.get_mut(place)?))
        })?;
        *slot = mark;
        *self.numbers.get_mut(at)?.0.get_mut(place)? = number;
        *self.values.get_mut(at)?.get_mut(place)? = value;
        self.count += 1;
        Some(())
    }

    /// The bucket of a number, and its mark.
    #[inline]
    fn home(&self, number: N) -> Option<(usize, u8)> {
        let (homes, hash) = (self.marks.len().checked_sub(FARTHEST)?, number.hash());
        let home = (u128::from(hash) * homes as u128) >> 64;
        // below the number of buckets; a byte
        Some((home as usize, (hash as u8).max(1)))
    }

    /// The value of a number.
    #[inline]
    pub fn get(&self, number: N) -> Option<V> {
        let (home, mark) = self.home(number)?;
        // where it most likely is, while its mark is read
        let Bucket(near) = self.numbers.get(home)?;
        bring_near(near.first()?);
        bring_near(near.get(WIDTH / 2)?);
        for at in home..=home + FARTHEST {
            let marks = u64::from_le_bytes(*self.marks.get(at)?);
            let mut alike = zeros(marks ^ (EACH * u64::from(mark)));
            while alike != 0 {
                // a slot above one that is alike may be none: the number says
                let place = alike.trailing_zeros() as usize / 8;
                if *self.numbers.get(at)?.0.get(place)? == number {
                    return self.values.get(at)?.get(place).copied();
                }
                alike &= alike - 1;
            }
            // slots are filled from the first on
            if marks >> (8 * (WIDTH - 1)) == 0 {
                return None;
            }
        }
        None
    }

    /// Returns whether any number from the first to the last is there. Reads all of them, unless it is one.
    pub fn meets(&self, first: N, last: N) -> bool {
        if first == last {
            return self.get(first).is_some();
        }
        let all = self.marks.iter().flatten().zip(self.numbers.iter().flat_map(|Bucket(numbers)| numbers));
        all.filter(|(mark, _)| **mark != 0).any(|(_, number)| (first..=last).contains(number))
    }

    /// The number of numbers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes of all of it.
    pub fn memory(&self) -> u64 {
        (size_of_val(&*self.marks) + size_of_val(&*self.numbers) + size_of_val(&*self.values)) as u64
    }
}

/// A one in each byte.
const EACH: u64 = u64::MAX / 255;

/// The highest bit of each byte that is 0, and perhaps of some above the first of them.
#[inline]
fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(EACH) & !bytes & (EACH << 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_found_with_its_value_and_no_other() {
        for count in (0..70).chain([1_000, 100_000]) {
            let numbers: Vec<(u128, u32)> = (0..count).map(|n| (u128::from(n) << (n % 90), n)).collect();
            let different: std::collections::BTreeMap<u128, u32> = numbers.iter().copied().collect();
            let numbers: Vec<_> = different.into_iter().collect();
            let (singles, without) = Singles::new(&numbers);
            assert!(without.len() <= numbers.len() / 1_000, "{} of {count}", without.len());
            assert_eq!(singles.count() + without.len(), numbers.len());
            for (number, value) in &numbers {
                let expected = if without.iter().any(|(known, _)| known == number) { None } else { Some(*value) };
                assert_eq!(singles.get(*number), expected, "{number} of {count}");
            }
            assert_eq!((singles.get(u128::MAX), singles.get(u128::MAX - 7)), (None, None));
        }
    }

    #[test]
    fn numbers_that_were_made_to_collide_are_handed_back() {
        // all of one bucket
        let homes = (36_000_u128 * 256).div_ceil((LOAD * WIDTH) as u128);
        let of_one = |n: &u64| (u128::from(n.hash()) * homes) >> 64 == 77;
        let colliding: Vec<(u64, ())> = (0_u64..).filter(of_one).take(2_000).map(|n| (n, ())).collect();
        let others = (1 << 60..(1_u64 << 60) + 34_000).map(|n| (n, ()));
        let numbers: Vec<(u64, ())> = colliding.iter().copied().chain(others).collect();
        let (singles, without) = Singles::new(&numbers);
        assert_eq!(singles.marks.len() as u128, homes + FARTHEST as u128);
        assert!((1_800..2_100).contains(&without.len()), "{}", without.len());
        let found = numbers.iter().filter(|(number, ())| singles.get(*number).is_some()).count();
        assert_eq!((found, singles.count()), (numbers.len() - without.len(), numbers.len() - without.len()));
    }

    #[test]
    fn a_range_meets_what_is_in_it() {
        let (singles, _) = Singles::new(&[(7_u64, ()), (1_000, ())]);
        for ((first, last), meets) in
            [((7, 7), true), ((8, 8), false), ((0, 6), false), ((0, 7), true), ((8, 999), false), ((8, u64::MAX), true)]
        {
            assert_eq!(singles.meets(first, last), meets, "{first} to {last}");
        }
        assert!(!Singles::<u64, ()>::default().meets(0, u64::MAX), "of nothing");
    }
}
