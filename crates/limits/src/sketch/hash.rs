//! Keyed hashing of client keys.
//!
//! Whoever knows the hash of a table finds, in milliseconds, keys of his own that share every cell of a victim's key,
//! fills them and gets the victim refused. So the hash is keyed with a secret that never leaves the process. It is not
//! for identifiers that others see (logs, stores): those take an HMAC, because a 128-bit SipHash is no promise there.
//!
//! Source: Aumasson and Bernstein, *SipHash: a fast short-input PRF* (2012), in its 1-3 form with the authors' 128-bit
//! output; written out here, as the crate's hasher spends more on its buffer than on its rounds. Columns are disjoint slices of that output, never `h1 + i·h2`: double hashing fixes all columns of a key by
//! two of them, so that depth stops helping (width 272, depth 7, 40 saturated keys: a fresh key is refused with
//! probability 5.2·10⁻⁴ instead of 9·10⁻⁷).

use std::fmt;
use std::hash::Hasher;

use arrayvec::ArrayVec;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::saved;
use crate::units::dice::mixed;

/// How many disjoint slices of [`KeyHash::SLICE_BITS`] bits a [`KeyHash`] holds.
pub const SLICES: usize = 4;

/// The secret under which keys are hashed: random when serving, given in tests and replay.
///
/// Its `Debug` shows nothing of it, so that no log line can give the columns of a key away.
#[derive(Clone)]
pub struct Seed([u8; 16]);

impl Seed {
    /// Any 16 bytes; drawn at random by the face that serves.
    pub const fn from_bytes(bytes: [u8; 16]) -> Seed {
        Seed(bytes)
    }

    /// The seed of the table named `label`: the same for the same label, unrelated for any other. So two tables that
    /// see the same clients never share a collision.
    pub fn derive(&self, label: &str) -> Seed {
        // 2-4 rounds, so that no key hashed under this seed can reproduce a derived seed
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(label.as_bytes());
        Seed(u128::from(hasher.finish128()).to_le_bytes())
    }

    /// The key of saved state that only a process with this seed understands.
    pub fn saved_key(&self) -> saved::Key {
        // no label of a limit has spaces
        saved::Key::from_bytes(self.derive("saved state").0)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// Whatever takes the parts of a key in: the hash of a table, or the name in a store.
pub trait KeyInput {
    /// Adds one part. `kind` says what the bytes are; the caller numbers its kinds.
    fn part(&mut self, kind: u8, bytes: &[u8]);

    /// Adds one part of this length that does not lie in one piece; the same as [`KeyInput::part`] of these bytes.
    fn part_of(&mut self, kind: u8, length: usize, bytes: impl Iterator<Item = u8> + Clone);
}

/// Several in the making at once, each of which takes in every part.
impl<I: KeyInput, const MOST: usize> KeyInput for ArrayVec<I, MOST> {
    #[inline]
    fn part(&mut self, kind: u8, bytes: &[u8]) {
        self.iter_mut().for_each(|one| one.part(kind, bytes));
    }

    fn part_of(&mut self, kind: u8, length: usize, bytes: impl Iterator<Item = u8> + Clone) {
        self.iter_mut().for_each(|one| one.part_of(kind, length, bytes.clone()));
    }
}

impl KeyInput for KeyHasher {
    #[inline]
    fn part(&mut self, kind: u8, bytes: &[u8]) {
        KeyHasher::part(self, kind, bytes);
    }

    fn part_of(&mut self, kind: u8, length: usize, bytes: impl Iterator<Item = u8> + Clone) {
        self.word((length as u64) << 8 | u64::from(kind));
        // the eight bytes seen last, the latest on top
        let (mut last, mut seen) = (0_u64, 0_usize);
        for byte in bytes {
            last = last >> 8 | u64::from(byte) << 56;
            seen += 1;
            if seen.is_multiple_of(8) {
                self.word(last);
            }
        }
        match seen {
            _ if seen.is_multiple_of(8) => {}
            0..8 => self.word(last >> (8 * (8 - seen))),
            _ => self.word(last),
        }
    }
}

/// Turns the parts of one key into its [`KeyHash`]; allocates nothing.
///
/// Each part goes in behind its kind and its length, so different lists of parts are different inputs:
/// `("ab", "c")`, `("a", "bc")` and the single `"abc"` have unrelated hashes, and so have equal bytes of another kind.
#[derive(Clone)]
pub struct KeyHasher {
    /// v0 to v3 of the paper.
    state: [u64; 4],
    words: u64,
}

impl KeyHasher {
    /// A hasher that has seen no part yet.
    #[inline]
    pub fn new(seed: &Seed) -> KeyHasher {
        let key = u128::from_le_bytes(seed.0);
        let (k0, k1) = (key as u64, (key >> 64) as u64);
        // "somepseudorandomlygeneratedbytes", and 0xee for the form with 128 bits of output
        let v1 = k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee;
        let state = [k0 ^ 0x736f_6d65_7073_6575, v1, k0 ^ 0x6c79_6765_6e65_7261, k1 ^ 0x7465_6462_7974_6573];
        KeyHasher { state, words: 0 }
    }

    /// Adds one part. `kind` says what the bytes are (an address, a header's value); the caller numbers its kinds.
    ///
    /// Only whole words go in, so that there is nothing to buffer between parts: the kind with the length, the bytes in words
    /// of eight, and what is left of them in one word more, told apart by the length.
    #[inline]
    pub fn part(&mut self, kind: u8, bytes: &[u8]) {
        // no slice is longer than 2^56 bytes
        self.word((bytes.len() as u64) << 8 | u64::from(kind));
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            self.word(last_word(bytes));
        }
    }

    /// The hash of all parts in their order. No parts at all are a key too: the one that all requests share.
    #[inline]
    pub fn finish(self) -> KeyHash {
        // the paper's last block: what is left of the bytes, which is nothing here, and how many there were, modulo 256
        let last = self.words << 59;
        let [v0, v1, v2, v3] = self.state;
        let [v0, v1, v2, v3] = round([v0, v1, v2, v3 ^ last]);
        let state = round(round(round([v0 ^ last, v1, v2 ^ 0xee, v3])));
        let low = state.into_iter().fold(0, std::ops::BitXor::bitxor);
        let [v0, v1, v2, v3] = state;
        let state = round(round(round([v0, v1 ^ 0xdd, v2, v3])));
        let high = state.into_iter().fold(0, std::ops::BitXor::bitxor);
        KeyHash::from_halves([low, high])
    }

    /// Adds eight bytes.
    #[inline]
    fn word(&mut self, word: u64) {
        let [v0, v1, v2, v3] = self.state;
        let [v0, v1, v2, v3] = round([v0, v1, v2, v3 ^ word]);
        self.state = [v0 ^ word, v1, v2, v3];
        self.words = self.words.wrapping_add(1);
    }
}

/// One round of SipHash.
#[inline]
fn round([mut v0, mut v1, mut v2, mut v3]: [u64; 4]) -> [u64; 4] {
    v0 = v0.wrapping_add(v1);
    v2 = v2.wrapping_add(v3);
    v1 = v1.rotate_left(13) ^ v0;
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.rotate_left(32).wrapping_add(v3);
    v2 = v2.wrapping_add(v1);
    v3 = v3.rotate_left(21) ^ v0;
    v1 = v1.rotate_left(17) ^ v2;
    v2 = v2.rotate_left(32);
    [v0, v1, v2, v3]
}

/// The last eight bytes, or all of fewer: some of them go in twice, which does no harm, as the length is known.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    if let Some(last) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let [first, last] = [*first, *last].map(|four| u64::from(u32::from_le_bytes(four)));
        // where both have a byte it is the same one
        return first | last << (8 * (bytes.len() - 4));
    }
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(secret)")
    }
}

/// 128 bits that stand for a key. Two keys share one with probability 2⁻¹²⁸, and nobody without the seed can find such
/// a pair. The lowest 96 bits are the four slices; the upper 32 belong to no column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyHash {
    // two words, as a single one of 128 bits would have all that holds a key lie at multiples of sixteen bytes
    high: u64,
    low: u64,
}

impl KeyHash {
    /// The width of a slice, and so the binary logarithm of the most columns that a row may have.
    pub const SLICE_BITS: u32 = 24;

    /// All 128 bits in two words, the low one first: what a table multiplies for its columns.
    #[inline]
    pub const fn halves(self) -> [u64; 2] {
        [self.low, self.high]
    }

    /// Slice `row`, below 2²⁴. Slices 0 to 3 are independent of each other; there is no fifth (zero).
    #[inline]
    pub fn slice(self, row: usize) -> u32 {
        if row >= SLICES {
            return 0;
        }
        let all = u128::from(self.high) << 64 | u128::from(self.low);
        let shifted = all >> (Self::SLICE_BITS * row as u32);
        shifted as u32 & ((1 << Self::SLICE_BITS) - 1)
    }

    /// The upper 32 bits, which belong to no slice: independent of every column, so fit for a fingerprint.
    #[inline]
    pub fn upper(self) -> u32 {
        (self.high >> 32) as u32
    }

    /// The hash of the same key under other numbers, which counts apart; that of tier 0 is the key's own.
    pub fn of_tier(self, tier: u8) -> KeyHash {
        let [low, high] = self.halves();
        // odd, so that tiers differ in every bit that a table looks at first
        KeyHash::from_halves([low ^ u64::from(tier).wrapping_mul(0x9e37_79b9_7f4a_7c15), high])
    }

    /// The hash of the same key in one window alone.
    pub fn of_window(self, epoch: u32) -> KeyHash {
        let [low, high] = self.halves();
        let apart = mixed(u64::from(epoch) + 1);
        KeyHash::from_halves([low ^ apart, high ^ mixed(apart)])
    }

    /// The hash that was taken apart into these two words.
    pub const fn from_halves([low, high]: [u64; 2]) -> KeyHash {
        KeyHash { high, low }
    }
}

#[cfg(test)]
mod tests {
    use siphasher::sip128::SipHasher13;

    use super::*;

    const SEED: Seed = Seed::from_bytes(*b"0123456789abcdef");

    fn whole(bits: u128) -> KeyHash {
        KeyHash::from_halves([bits as u64, (bits >> 64) as u64])
    }

    fn hash(parts: &[(u8, &[u8])]) -> KeyHash {
        let mut hasher = KeyHasher::new(&SEED);
        for (kind, bytes) in parts {
            hasher.part(*kind, bytes);
        }
        hasher.finish()
    }

    #[test]
    fn the_hash_is_siphash_1_3_of_whole_words() {
        for parts in [vec![], vec![&b""[..]], vec![b"abc"], vec![b"abcdefgh", b"abcdefghi"], vec![&[7; 300]]] {
            let (mut ours, mut theirs) = (KeyHasher::new(&SEED), SipHasher13::new_with_key(&SEED.0));
            for part in parts {
                ours.part(9, part);
                theirs.write_u64((part.len() as u64) << 8 | 9);
                let (words, rest) = part.as_chunks::<8>();
                words.iter().for_each(|word| theirs.write(word));
                if !rest.is_empty() {
                    theirs.write_u64(last_word(part));
                }
            }
            assert_eq!(ours.finish(), whole(theirs.finish128().into()));
        }
    }

    #[test]
    fn a_part_in_pieces_hashes_as_in_one() {
        let bytes: [u8; 40] = std::array::from_fn(|place| 251 - 6 * place as u8);
        for length in 0..=bytes.len() {
            let (mut whole, mut pieces) = (KeyHasher::new(&SEED), KeyHasher::new(&SEED));
            whole.part(3, &bytes[..length]);
            pieces.part_of(3, length, bytes[..length].iter().copied());
            assert_eq!(whole.finish(), pieces.finish(), "{length}");
        }
    }

    #[test]
    fn the_last_word_is_the_last_bytes_or_all_of_fewer() {
        let bytes: [u8; 20] = std::array::from_fn(|place| 201 - 7 * place as u8);
        for length in 1..=bytes.len() {
            let last = &bytes[length.saturating_sub(8)..length];
            let word = last.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            assert_eq!(last_word(&bytes[..length]), word, "{length}");
        }
    }

    #[test]
    fn concatenations_of_parts_do_not_collide() {
        let keys = [
            hash(&[]),
            hash(&[(1, b"")]),
            hash(&[(1, b""), (1, b"")]),
            hash(&[(1, b"abc")]),
            hash(&[(2, b"abc")]),
            hash(&[(1, b"ab"), (1, b"c")]),
            hash(&[(1, b"a"), (1, b"bc")]),
            hash(&[(1, b"abc"), (1, b"")]),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|b| a != b), "key {i} collides");
        }
        assert_eq!(hash(&[(1, b"ab"), (1, b"c")]), hash(&[(1, b"ab"), (1, b"c")]));
    }

    #[test]
    fn every_byte_counts_at_every_length() {
        let mut seen = std::collections::HashSet::new();
        for length in 0..=40 {
            let mut bytes = vec![0; length];
            assert!(seen.insert(hash(&[(0, &bytes)])), "{length} zeros collide");
            for place in 0..length {
                bytes[place] = 1;
                assert!(seen.insert(hash(&[(0, &bytes)])), "byte {place} of {length} does not count");
                bytes[place] = 0;
            }
        }
    }

    #[test]
    fn derived_seeds_differ_by_label_and_by_parent() {
        let bytes = |seed: &Seed| seed.0;
        let other = Seed::from_bytes([7; 16]);
        assert_eq!(bytes(&SEED.derive("per_client")), bytes(&SEED.derive("per_client")));
        assert_ne!(bytes(&SEED.derive("per_client")), bytes(&SEED.derive("login")));
        assert_ne!(bytes(&SEED.derive("per_client")), bytes(&other.derive("per_client")));
        assert_ne!(bytes(&SEED.derive("")), bytes(&SEED));
    }

    #[test]
    fn debug_output_tells_nothing_of_the_seed() {
        assert_eq!(format!("{SEED:?} {:?}", KeyHasher::new(&SEED)), "Seed(secret) KeyHasher(secret)");
    }

    #[test]
    fn slices_are_disjoint_and_cover_the_low_bits() {
        let key = whole(0xffff_ffff << 96 | 0x44_4444 << 72 | 0x33_3333 << 48 | 0x22_2222 << 24 | 0x11_1111);
        assert_eq!([0, 1, 2, 3, 4].map(|row| key.slice(row)), [0x11_1111, 0x22_2222, 0x33_3333, 0x44_4444, 0]);
        assert_eq!((key.upper(), whole(u128::MAX >> 32).upper()), (0xffff_ffff, 0));
    }
}
