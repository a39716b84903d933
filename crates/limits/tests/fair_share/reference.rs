//! rakelimit as it stands (`cloudflare/rakelimit`, head `d78c15e`, `src/rakelimit.c` and `src/ewma.h`), on exact
//! tables: what is held against it must be its algorithm's doing and not its sketch's.

use std::collections::HashMap;

use tidegate_limits::sketch::KeyHash;
use tidegate_limits::units::Timestamp;

use tidegate_limits::units::Dice;

/// Its window: 2²⁷ ns. It was 100 ms before, and 1 s in the paper.
pub const WINDOW: u64 = 1 << 27;

pub struct Rakelimit {
    limit: f64,
    /// The level of each node, ascending.
    levels: Vec<u8>,
    seen: HashMap<(usize, KeyHash), (f64, u64)>,
    dice: Dice,
}

impl Rakelimit {
    pub fn new(limit: f64, levels: &[u8]) -> Rakelimit {
        Rakelimit { limit, levels: levels.to_vec(), seen: HashMap::new(), dice: Dice(7) }
    }

    /// Whether the packet passes: level by level, all nodes of a level first, their maximum held against the limit. On
    /// excess it passes with probability limit/rate, and is counted no higher.
    pub fn passes(&mut self, keys: &[Option<KeyHash>], now: Timestamp) -> bool {
        let mut most = 0.0_f64;
        for (node, key) in keys.iter().enumerate() {
            if node > 0 && self.levels[node] != self.levels[node - 1] {
                most = 0.0;
            }
            let (rate, at) = self.seen.entry((node, key.expect("every node applies"))).or_insert((0.0, 0));
            *rate = estimate(*rate, now.nanos().saturating_sub(*at), WINDOW);
            *at = now.nanos();
            most = most.max(*rate);
            let closes = self.levels.get(node + 1) != Some(&self.levels[node]);
            if closes && most > self.limit {
                return self.dice.unit() * most < self.limit;
            }
        }
        true
    }
}

/// The estimate after one more packet, `gap` nanoseconds after the last one.
pub fn estimate(old: f64, gap: u64, window: u64) -> f64 {
    if gap == 0 {
        return old; // packets of one instant are not counted at all
    }
    if gap >= window {
        return 0.0; // "need another sample"
    }
    let current = (1_000_000_000 / gap) as f64;
    if old == 0.0 {
        return current; // two packets a microsecond apart read as a million per second
    }
    old + gap as f64 / window as f64 * (current - old)
}
