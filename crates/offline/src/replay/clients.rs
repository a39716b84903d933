//! Tells the clients of a log apart, each by a number in the order of first requests, and counts what each sends.
//!
//! Exact, in memory that grows with them: some sixty bytes each, up to [`MOST_CLIENTS`].

use super::folded::{fold, secret};
use crate::client::ClientNetwork;
use crate::sketch::bring_near;

/// So many clients are told apart.
pub const MOST_CLIENTS: usize = 5_000_000;

const SECOND: u64 = 1_000_000_000;

/// All clients so far.
#[derive(Debug)]
pub struct Clients {
    /// Where each is: [`FREE`], or its number and half of its hash. As many as a power of two has, at most three in four taken.
    slots: Vec<Slot>,
    /// By number, so that those who send most, who come early, stand close together.
    known: Vec<Known>,
    most: usize,
    capped: bool,
    /// Drawn anew each time, so that no log can be made whose clients all want one slot.
    secret: [u64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    number: u32,
    tag: u32,
}

/// What is kept of a client.
#[derive(Debug, Clone, Copy)]
struct Known {
    key: [u64; 2],
    requests: u32,
    second: u32,
    in_second: u32,
    peak: u32,
}

/// No client has this number, as there are fewer.
const FREE: Slot = Slot { number: u32::MAX, tag: 0 };

const FEWEST_SLOTS: usize = 1 << 10;

impl Default for Clients {
    fn default() -> Clients {
        Clients::with_most(MOST_CLIENTS)
    }
}

impl Clients {
    fn with_most(most: usize) -> Clients {
        Clients { slots: vec![FREE; FEWEST_SLOTS], known: Vec::new(), most, capped: false, secret: secret() }
    }

    /// Counts a request that began at `start`, in nanoseconds since 1970, and says its client's number: from 0, in the order
    /// of first requests; none for those beyond the most that are told apart.
    #[inline]
    pub fn count(&mut self, client: &ClientNetwork, start: u64) -> Option<u32> {
        let key = key_of(client);
        let (at, found) = self.find(key);
        let number = match found {
            Some(number) => number,
            None => self.add(key, at)?,
        };
        let known = self.known.get_mut(number as usize)?;
        let second = (start / SECOND) as u32;
        known.requests = known.requests.saturating_add(1);
        known.in_second = if known.second == second { known.in_second.saturating_add(1) } else { 1 };
        (known.second, known.peak) = (second, known.peak.max(known.in_second));
        Some(number)
    }

    /// Has the place brought near where [`Clients::count`] will look this client up; changes nothing.
    #[inline]
    pub fn approach(&self, client: &ClientNetwork) {
        if let Some(slot) = self.slots.get(self.hash(key_of(client)) as usize & (self.slots.len() - 1)) {
            bring_near(slot);
        }
    }

    /// The same for what is known of it, after the first.
    #[inline]
    pub fn approach_known(&self, client: &ClientNetwork) {
        let slot = self.slots.get(self.hash(key_of(client)) as usize & (self.slots.len() - 1));
        if let Some(known) = slot.and_then(|slot| self.known.get(slot.number as usize)) {
            bring_near(known);
        }
    }

    /// How many are told apart.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there were more than are told apart.
    pub fn is_capped(&self) -> bool {
        self.capped
    }

    /// How many requests the client of this number sent, and the most of them in one second.
    pub fn sent(&self, number: u32) -> Option<(u32, u32)> {
        self.known.get(number as usize).map(|known| (known.requests, known.peak))
    }

    /// Whom the log has not had so far, whose slot would be at `at`.
    #[cold]
    fn add(&mut self, key: [u64; 2], mut at: usize) -> Option<u32> {
        if self.known.len() >= self.most {
            self.capped = true;
            return None;
        }
        if (self.known.len() + 1) * 4 > self.slots.len() * 3 {
            self.grow();
            at = self.find(key).0;
        }
        let number = u32::try_from(self.known.len()).ok()?;
        *self.slots.get_mut(at)? = Slot { number, tag: tag(self.hash(key)) };
        self.known.push(Known { key, requests: 0, second: 0, in_second: 0, peak: 0 });
        Some(number)
    }

    /// The slot and the number of this client, or the slot that it would have: one is always free.
    #[inline]
    fn find(&self, [low, high]: [u64; 2]) -> (usize, Option<u32>) {
        let (hash, mask) = (self.hash([low, high]), self.slots.len() - 1);
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots.get(at).copied().unwrap_or(FREE);
            if slot == FREE {
                return (at, None);
            }
            if slot.tag == tag(hash)
                && let Some(Known { key: [known_low, known_high], .. }) = self.known.get(slot.number as usize)
                && *known_low == low
                && *known_high == high
            {
                return (at, Some(slot.number));
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn hash(&self, [low, high]: [u64; 2]) -> u64 {
        let [a, b] = self.secret;
        fold(fold(low ^ b, a) ^ high, b)
    }

    fn grow(&mut self) {
        let twice = self.slots.len() * 2;
        self.slots = vec![FREE; twice];
        for (known, number) in self.known.iter().zip(0_u32..) {
            let hash = self.hash(known.key);
            let mut at = hash as usize & (twice - 1);
            while self.slots.get(at).is_some_and(|slot| *slot != FREE) {
                at = (at + 1) & (twice - 1);
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = Slot { number, tag: tag(hash) };
            }
        }
    }
}

/// The half of a hash that a slot's place does not hang on.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A network's address, IPv4 in the place that IPv6 has for it.
fn key_of(client: &ClientNetwork) -> [u64; 2] {
    let bits = match client {
        ClientNetwork::Prefix(prefix) => match prefix.address() {
            std::net::IpAddr::V4(v4) => 0xffff_0000_0000 | u128::from(v4.to_bits()),
            std::net::IpAddr::V6(v6) => v6.to_bits(),
        },
        ClientNetwork::Unix => u128::MAX,
    };
    [bits as u64, (bits >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
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
