//! Levels for the nodes of a lattice: one re-keyed pair of tables in which several kinds of key live side by side.
//!
//! A limit that looks at the client, its /24 and its /16 at once keeps a level for every value of every node. One pair
//! serves them all: the number of the node turns the hash before the secret multipliers of the columns come to it, so that
//! equal hashes under different nodes have nothing in common. What the levels mean is up to the user.
//!
//! Not a limiter, and without any promise beyond that of [`rekeyed`](super::rekeyed): see
//! [`OfferedRates`](super::OfferedRates) for rates.

use super::hash::{KeyHash, Seed};
use super::meter::Meter;
use super::monotone::Admission;
use super::rekeyed::{Reading, Rekeyed, Spot};
use crate::sync::AtomicU64;
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The levels of every key of every node, all zero at first. Fixed memory, whatever the number of keys and nodes.
#[derive(Debug)]
pub struct NodeLevels {
    levels: Rekeyed,
}

impl NodeLevels {
    /// Two tables of at most `memory` each, and more than half of it: rows are a power of two wide. `seed` draws the
    /// columns.
    ///
    /// # Errors
    /// Less than 1 KiB (32 columns) or more than 512 MiB (2²⁴ columns, which is what a table can have).
    pub fn new(memory: Bytes, seed: &Seed) -> Result<NodeLevels, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "1KiB to 512MiB" };
        if !(1 << 10..=512 << 20).contains(&memory.0) {
            return Err(ALLOWED);
        }
        // four rows of eight bytes
        let columns = usize::try_from(1_u64 << (memory.0 / 32).ilog2()).map_err(|_| ALLOWED)?;
        Ok(NodeLevels { levels: Rekeyed::with_shape(columns, seed)? })
    }

    /// Reads the cells of `key` under node number `node`; see [`Rekeyed::read`].
    #[inline]
    pub fn read(&self, key: KeyHash, node: usize) -> Reading<'_, AtomicU64, 4> {
        self.levels.read(turned(key, node))
    }

    /// The level of `key` under node number `node`. Puts where its cells are and what they hold into `spot`.
    #[inline]
    pub fn look(&self, key: KeyHash, node: usize, spot: &mut Spot) -> u64 {
        self.levels.look(turned(key, node), spot)
    }

    /// Raises what was [looked at](NodeLevels::look) to `level`; false if anything has moved since.
    #[inline]
    pub fn raise_seen(&self, spot: &Spot, level: u64) -> bool {
        self.levels.raise_seen(spot, level)
    }

    /// Has the cells of `key` under node number `node` brought near; see [`Rekeyed::prefetch`].
    #[inline]
    pub fn prefetch(&self, key: KeyHash, node: usize) {
        self.levels.prefetch(turned(key, node));
    }

    /// Asks to admit one request; see [`Rekeyed::admit`].
    #[inline]
    pub fn admit<M: Meter>(&self, meter: &M, key: KeyHash, node: usize, now: Timestamp) -> Admission {
        self.levels.admit(meter, turned(key, node), now, Cost::ONE)
    }

    /// Raises every cell to `level` at least; see [`Rekeyed::lift`].
    #[cold]
    pub fn lift(&self, key: KeyHash, node: usize, level: u64) {
        self.levels.lift(turned(key, node), level);
    }

    /// Re-keys when that is due; see [`Rekeyed::maintain`].
    pub fn maintain(&self, now: Timestamp, fade: u64) {
        self.levels.maintain(now, fade);
    }

    /// How often the columns were changed so far.
    pub fn rekeyings(&self) -> u64 {
        self.levels.generation()
    }

    /// The memory of both tables.
    pub fn memory(&self) -> Bytes {
        self.levels.memory()
    }

    /// Cells per row of a table.
    pub fn columns(&self) -> usize {
        self.levels.table().columns()
    }
}

/// The key's hash under this node. The numbers that turn it need not be secret: what multiplies the result is.
#[inline]
fn turned(key: KeyHash, node: usize) -> KeyHash {
    let [low, high] = key.halves();
    // the odd multiplier is 2^64 over the golden ratio, so that no two nodes have one number
    KeyHash::from_halves([low ^ (node as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), high])
}

#[cfg(test)]
mod tests {
    use super::super::KeyHasher;
    use super::*;

    const SEED: Seed = Seed::from_bytes([1; 16]);

    fn key(number: u64) -> KeyHash {
        let mut hasher = KeyHasher::new(&SEED);
        hasher.part(0, &number.to_le_bytes());
        hasher.finish()
    }

    #[test]
    fn the_same_hash_under_another_node_has_other_cells_in_every_row() {
        let levels = NodeLevels::new(Bytes(1 << 20), &SEED).unwrap();
        let columns = |node| levels.levels.table().columns_of(turned(key(7), node));
        for node in 1..32 {
            assert!(columns(0).iter().zip(columns(node)).all(|(here, there)| *here != there), "node {node}");
        }
    }

    #[test]
    fn keys_of_different_nodes_collide_as_rarely_as_any_two_keys() {
        let levels = NodeLevels::new(Bytes(1 << 10), &SEED).unwrap();
        let columns = |number, node| levels.levels.table().columns_of(turned(key(number), node));
        let shared = |number| columns(number, 0).iter().zip(columns(number, 1)).filter(|(a, b)| **a == *b).count();
        // four rows of 32 columns: one key in eight shares one
        let shared: usize = (0..32_000).map(shared).sum();
        assert!((3_700..4_300).contains(&shared), "{shared} instead of 4,000");
    }

    #[test]
    fn what_was_looked_at_is_raised_in_one_phase_only() {
        const SECOND: u64 = 1_000_000_000;
        let levels = NodeLevels::new(Bytes(1 << 20), &SEED).unwrap();
        let mut now = 0;
        let mut step = |nanos| {
            now += nanos;
            levels.maintain(Timestamp::from_nanos(now), SECOND);
        };
        step(SECOND);
        // one serves, two serve, the other one serves
        for (level, next) in [(10, 601), (20, 3), (30, 601), (40, 3)] {
            let (mut before, mut after) = (Spot::default(), Spot::default());
            let seen = levels.look(key(1), 3, &mut before);
            assert!(levels.raise_seen(&before, level));
            assert!(!levels.raise_seen(&before, level + 1), "the cells have moved");
            assert_eq!(levels.look(key(1), 3, &mut after), level, "{seen}");
            step(next * SECOND);
            step(SECOND / 2);
            assert!(!levels.raise_seen(&after, level + 2), "the phase has");
            levels.lift(key(1), 3, level + 2);
            assert_eq!(levels.look(key(1), 3, &mut after), level + 2);
        }
        assert_eq!(levels.rekeyings(), 2);
    }

    #[test]
    fn tables_fill_a_power_of_two_and_other_sizes_by_more_than_half() {
        for (asked, each) in [(1 << 10, 1 << 10), ((2 << 20) - 1, 1 << 20), (3 << 20, 2 << 20)] {
            assert_eq!(NodeLevels::new(Bytes(asked), &SEED).unwrap().memory(), Bytes(2 * each), "{asked}");
        }
        for bytes in [0, 1023, (512 << 20) + 1, u64::MAX] {
            assert!(NodeLevels::new(Bytes(bytes), &SEED).is_err(), "{bytes}");
        }
    }
}
