//! The heaviest client, in fixed memory.

use std::collections::HashMap;

use crate::sketch::KeyHash;

/// The heaviest clients, each with its name and its requests.
#[derive(Debug, Default)]
pub struct Heavy {
    clients: HashMap<KeyHash, (String, u64)>,
}

/// Clients that are counted at once; the lighter half goes when there are more.
const MOST: usize = 10_000;

impl Heavy {
    /// Counts a request.
    pub fn count(&mut self, client: KeyHash, name: &dyn Fn() -> String) {
        if self.clients.len() >= MOST && !self.clients.contains_key(&client) {
            self.drop_half();
        }
        self.clients.entry(client).or_insert_with(|| (name(), 0)).1 += 1;
    }

    /// The heaviest client: its name and its requests, too few by those that it sent while it was light.
    pub fn most(&self) -> Option<(&str, u64)> {
        let most = self.clients.iter().max_by_key(|(key, (_, requests))| (*requests, std::cmp::Reverse(**key)));
        most.map(|(_, (name, requests))| (name.as_str(), *requests))
    }

    fn drop_half(&mut self) {
        let mut counts: Vec<(u64, KeyHash)> =
            self.clients.iter().map(|(key, (_, requests))| (*requests, *key)).collect();
        counts.sort_unstable();
        for (_, client) in counts.into_iter().take(MOST / 2) {
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
    fn the_heaviest_stays_while_a_crowd_passes() {
        let mut heavy = Heavy::default();
        for round in 0..30_000_u32 {
            heavy.count(key(round + 100), &|| "passer-by".into());
            if round % 10 == 0 {
                heavy.count(key(1), &|| "heavy".into());
            }
        }
        assert_eq!(heavy.most(), Some(("heavy", 3_000)));
        assert!(heavy.clients.len() <= MOST);
    }
}
