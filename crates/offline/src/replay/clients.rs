//! The clients of a log, numbered in the order of first requests, and how much each sends.
//!
//! Exact, in memory that grows with them: some sixty bytes each, up to [`MOST_CLIENTS`].

use std::collections::HashMap;

use crate::client::ClientNetwork;

/// The most clients that are told apart.
pub const MOST_CLIENTS: usize = 5_000_000;

const SECOND: u64 = 1_000_000_000;

/// All clients so far.
#[derive(Debug)]
pub struct Clients {
    numbers: HashMap<u128, u32>,
    /// By number, so that the heaviest, which come early, stand close together.
    known: Vec<Known>,
    most: usize,
    capped: bool,
}

/// The counts of one client.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    requests: u32,
    second: u32,
    in_second: u32,
    peak: u32,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients::with_most(MOST_CLIENTS)
    }
}

impl Clients {
    fn with_most(most: usize) -> Clients {
        Clients { numbers: HashMap::new(), known: Vec::new(), most, capped: false }
    }

    /// Counts a request that began at `start`, in nanoseconds since 1970. Returns its client's number, from 0 in the order of first
    /// requests; none for a client beyond the most that are told apart.
    #[inline]
    pub fn count(&mut self, client: &ClientNetwork, start: u64) -> Option<u32> {
        let key = key_of(client);
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => self.add(key)?,
        };
        let known = self.known.get_mut(number as usize)?;
        let second = (start / SECOND) as u32;
        known.requests = known.requests.saturating_add(1);
        known.in_second = if known.second == second { known.in_second.saturating_add(1) } else { 1 };
        (known.second, known.peak) = (second, known.peak.max(known.in_second));
        Some(number)
    }

    /// The number of clients that are told apart.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there were more than are told apart.
    pub fn is_capped(&self) -> bool {
        self.capped
    }

    /// The requests of the client of this number, and the most of them in one second.
    pub fn sent(&self, number: u32) -> Option<(u32, u32)> {
        self.known.get(number as usize).map(|known| (known.requests, known.peak))
    }

    #[cold]
    fn add(&mut self, key: u128) -> Option<u32> {
        if self.known.len() >= self.most {
            self.capped = true;
            return None;
        }
        let number = u32::try_from(self.known.len()).ok()?;
        self.numbers.insert(key, number);
        self.known.push(Known::default());
        Some(number)
    }
}

/// A network's address, IPv4 in the place that IPv6 has for it.
fn key_of(client: &ClientNetwork) -> u128 {
    match client {
        ClientNetwork::Prefix(prefix) => match prefix.address() {
            std::net::IpAddr::V4(v4) => 0xffff_0000_0000 | u128::from(v4.to_bits()),
            std::net::IpAddr::V6(v6) => v6.to_bits(),
        },
        ClientNetwork::Unix => u128::MAX,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::units::Prefix;

    fn network(address: u32) -> ClientNetwork {
        ClientNetwork::Prefix(Prefix::new(IpAddr::V4(address.into()), 32).unwrap())
    }

    #[test]
    fn clients_are_told_apart_and_counted_as_a_map_does() {
        let (mut clients, mut known) = (Clients::default(), HashMap::new());
        for round in 0..60_000_u32 {
            let address = (round % 7 * round / 11).wrapping_mul(0x9e37_79b1);
            let next = known.len() as u32;
            let (number, requests) = known.entry(address).or_insert((next, 0));
            *requests += 1;
            assert_eq!(clients.count(&network(address), u64::from(round) * SECOND), Some(*number));
        }
        assert_eq!(clients.len(), known.len());
        for (number, requests) in known.into_values() {
            assert_eq!(clients.sent(number), Some((requests, 1)));
        }
    }

    #[test]
    fn the_peak_is_that_of_one_second() {
        let mut clients = Clients::default();
        for (second, requests) in [(5, 2), (6, 4), (8, 3)] {
            for at in 0..requests {
                clients.count(&network(1), second * SECOND + at);
            }
        }
        assert_eq!((clients.sent(0), clients.sent(1)), (Some((9, 4)), None));
    }

    #[test]
    fn beyond_the_most_nobody_new_is_told_apart() {
        let mut clients = Clients::with_most(2);
        let numbers = [1, 2, 3, 1, 3].map(|address| clients.count(&network(address), 0));
        assert_eq!(numbers, [Some(0), Some(1), None, Some(0), None]);
        assert!(clients.is_capped() && clients.len() == 2);
    }
}
