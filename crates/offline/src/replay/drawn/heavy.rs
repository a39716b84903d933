//! Who sent most and when: the rows of the heat map, in fixed memory.

use std::collections::HashMap;

use super::bins::{Series, Widening};
use crate::sketch::KeyHash;

/// The heaviest clients with their counts over time.
#[derive(Debug, Default)]
pub struct Heavy {
    clients: HashMap<KeyHash, Client>,
    lost: u64,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its name, as the caller wants it shown.
    pub name: String,
    /// Requests, as far as they are known.
    pub requests: u64,
    /// Those that a limit would refuse.
    pub limited: u64,
    /// Over time.
    pub series: Series,
}

/// So many are followed at once; the lighter half goes when there are more.
const MOST: usize = 10_000;

impl Heavy {
    /// Counts a request.
    pub fn count(&mut self, client: KeyHash, bin: u32, limited: bool, name: impl FnOnce() -> String) {
        if self.clients.len() >= MOST && !self.clients.contains_key(&client) {
            self.drop_half();
        }
        let row = self.clients.entry(client).or_insert_with(|| Client {
            name: name(),
            requests: 0,
            limited: 0,
            series: Series::default(),
        });
        row.requests += 1;
        row.limited += u64::from(limited);
        row.series.count(bin, limited);
    }

    /// Widens all bins.
    pub fn widen(&mut self, by: Widening) {
        self.clients.values_mut().for_each(|client| client.series.widen(by));
    }

    /// The heaviest so many, the heaviest first.
    pub fn most(&self, count: usize) -> Vec<&Client> {
        let mut all: Vec<_> = self.clients.iter().collect();
        all.sort_by_key(|(client, row)| (std::cmp::Reverse(row.requests), **client));
        all.into_iter().take(count).map(|(_, row)| row).collect()
    }

    /// By so many requests a client's count may be too low, because it was light before.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn drop_half(&mut self) {
        let mut counts: Vec<(u64, KeyHash)> = self.clients.iter().map(|(key, row)| (row.requests, *key)).collect();
        counts.sort_unstable();
        for (requests, client) in counts.into_iter().take(MOST / 2) {
            self.lost = self.lost.max(requests);
            self.clients.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::{KeyHasher, Seed};

    fn key(name: u32) -> KeyHash {
        let mut hasher = KeyHasher::new(&Seed::from_bytes([7; 16]));
        hasher.part(1, &name.to_le_bytes());
        hasher.finish()
    }

    #[test]
    fn the_heavy_stay_while_a_crowd_passes() {
        let mut heavy = Heavy::default();
        for round in 0..30_000_u32 {
            heavy.count(key(round + 100), 0, false, || "passer-by".into());
            if round % 10 == 0 {
                heavy.count(key(1), 0, round % 100 == 0, || "heavy".into());
            }
        }
        let most = heavy.most(2);
        assert_eq!((most[0].name.as_str(), most[0].requests, most[0].limited), ("heavy", 3_000, 300));
        assert_eq!((most[1].requests, heavy.lost()), (1, 1));
        assert!(heavy.clients.len() <= MOST);
    }
}
