//! Which of an origin's addresses takes the next request.
//!
//! Each way of choosing asks for the part of its weight that an address gets now: nothing for one that is out, less than the
//! whole while it starts slowly. What one that is out would have had is spread over the others by their weights, and does not fall
//! to its neighbour in the order.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::endpoint::Endpoint;
use crate::sketch::{KeyHash, KeyHasher, Seed};

/// An address list with the order in which round robin visits it.
#[derive(Debug, Default)]
pub struct Ring {
    /// The addresses, in the policy's order.
    pub endpoints: Vec<Arc<Endpoint>>,
    schedule: Vec<u16>,
}

/// How often another place of the schedule is drawn before all are gone through: with half of the weights out, one request in
/// 256 needs more.
const DRAWS: u64 = 8;

impl Ring {
    /// Longer schedules are cut short: their weights then hold to one part in ten thousand.
    const LONGEST: u64 = 10_000;

    /// The addresses with their order.
    pub fn new(endpoints: Vec<Arc<Endpoint>>) -> Ring {
        let schedule = schedule(&endpoints.iter().map(|endpoint| u64::from(endpoint.weight)).collect::<Vec<_>>());
        Ring { endpoints, schedule }
    }

    /// The one whose turn it is. `None` when all parts are zero.
    pub fn in_turn(
        &self,
        turn: usize,
        tried: &[SocketAddr],
        part: impl Fn(&Endpoint) -> f64,
    ) -> Option<&Arc<Endpoint>> {
        let length = self.schedule.len();
        let at = |turn: usize| {
            let position = turn.checked_rem(length)?;
            self.endpoints.get(usize::from(*self.schedule.get(position)?))
        };
        let fits =
            |endpoint: &Endpoint, dice: u64| !tried.contains(&endpoint.address) && is_drawn(part(endpoint), dice);
        let first = at(turn)?;
        if fits(first, mixed(turn as u64)) {
            return Some(first);
        }
        let mut drawn = (1..=DRAWS).filter_map(|draw| {
            let dice = mixed((turn as u64).wrapping_mul(DRAWS + 1).wrapping_add(draw) ^ ELSEWHERE);
            at(dice as usize).filter(|endpoint| fits(endpoint, mixed(dice)))
        });
        drawn.next().or_else(|| {
            let all = || (1..=length).filter_map(|step| at(turn.wrapping_add(step))).filter(|other| part(other) > 0.0);
            // one that has just failed is better than none
            all().find(|other| !tried.contains(&other.address)).or_else(|| all().next())
        })
    }

    /// The one with the fewest requests per weight. `None` when all parts are zero.
    pub fn least_loaded(
        &self,
        turn: usize,
        tried: &[SocketAddr],
        part: impl Fn(&Endpoint) -> f64,
    ) -> Option<&Arc<Endpoint>> {
        let count = self.endpoints.len();
        (0..count)
            .filter_map(|step| self.endpoints.get(turn.wrapping_add(step).checked_rem(count)?))
            .enumerate()
            .filter_map(|(step, endpoint)| {
                let part = part(endpoint);
                let load = u64::from(endpoint.inflight.held()) * 1_000_000 / u64::from(endpoint.weight.max(1));
                let waits = !is_drawn(part, mixed((turn as u64).wrapping_mul(31).wrapping_add(step as u64)));
                // an address that has just failed comes last, then one that starts slowly and was not drawn; of equals the
                // one whose turn it is comes first
                (part > 0.0).then_some(((tried.contains(&endpoint.address), waits, load), endpoint))
            })
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, endpoint)| endpoint)
    }

    /// Weighted rendezvous hashing (Thaler and Ravishankar 1996; Schindelhauer and Schomaker 2005 for weights): when an
    /// address goes, only its keys move. `None` when all parts are zero.
    pub fn by_hash(
        &self,
        key: KeyHash,
        tried: &[SocketAddr],
        part: impl Fn(&Endpoint) -> f64,
    ) -> Option<&Arc<Endpoint>> {
        self.endpoints
            .iter()
            .filter_map(|endpoint| {
                let weight = f64::from(endpoint.weight) * part(endpoint);
                (weight > 0.0)
                    .then(|| ((!tried.contains(&endpoint.address), -weight / draw(key, endpoint.address)), endpoint))
            })
            .max_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
            .map(|(_, endpoint)| endpoint)
    }
}

/// The seed for `balance: hash`: fixed, so that every gate and every start sends a key to the same address.
pub fn affinity_seed() -> Seed {
    Seed::from_bytes(*b"tidegate-balance")
}

/// The logarithm of a number between 0 and 1 that is the same for this key and address everywhere.
fn draw(key: KeyHash, address: SocketAddr) -> f64 {
    let mut hasher = KeyHasher::new(&affinity_seed());
    for row in 0..4 {
        hasher.part(0, &key.slice(row).to_le_bytes());
    }
    match address.ip() {
        IpAddr::V4(v4) => hasher.part(4, &v4.octets()),
        IpAddr::V6(v6) => hasher.part(6, &v6.octets()),
    }
    hasher.part(1, &address.port().to_le_bytes());
    let hash = hasher.finish();
    let bits = (u64::from(hash.slice(0)) << 24) | u64::from(hash.slice(1));
    ((bits as f64 + 0.5) / (1_u64 << 48) as f64).ln()
}

/// Whether an address that gets this part takes the request with these dice.
fn is_drawn(part: f64, dice: u64) -> bool {
    part >= 1.0 || ((dice >> 11) as f64 / (1_u64 << 53) as f64) < part
}

/// Separates the draws of another place from those of the first.
const ELSEWHERE: u64 = 0x6a09_e667_f3bc_c909;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): evenly spread numbers out of a counter.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Smooth weighted round robin (as nginx does it), worked out once: every stretch of it is as even as whole numbers allow.
fn schedule(weights: &[u64]) -> Vec<u16> {
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    let mut weights: Vec<u64> = weights.iter().map(|weight| weight / divisor).collect();
    let sum: u64 = weights.iter().sum();
    if sum > Ring::LONGEST {
        weights = weights.iter().map(|weight| (weight * Ring::LONGEST / sum).max(1)).collect();
    }
    let sum: u64 = weights.iter().sum();
    let mut credit = vec![0_i64; weights.len()];
    let mut order = Vec::new();
    for _ in 0..sum {
        for (credit, weight) in credit.iter_mut().zip(&weights) {
            *credit += *weight as i64;
        }
        // the first of equals, so that the order does not depend on how ties are broken elsewhere
        let best = credit.iter().enumerate().rev().max_by_key(|(_, credit)| **credit).map_or(0, |(index, _)| index);
        if let Some(credit) = credit.get_mut(best) {
            *credit -= sum as i64;
        }
        order.push(u16::try_from(best).unwrap_or(0));
    }
    order
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(weights: &[u32]) -> Ring {
        let endpoint = |(n, weight): (usize, &u32)| Endpoint::new(address(n), "", *weight, n);
        Ring::new(weights.iter().enumerate().map(endpoint).collect())
    }

    fn address(n: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 9000 + n as u16))
    }

    fn key(n: usize) -> KeyHash {
        let mut hasher = KeyHasher::new(&affinity_seed());
        hasher.part(9, &n.to_le_bytes());
        hasher.finish()
    }

    /// How many of so many requests each address gets, by each way of choosing in which nothing stays under way.
    fn shares(ring: &Ring, parts: &[f64], requests: usize) -> [Vec<usize>; 3] {
        let part = |endpoint: &Endpoint| parts[endpoint.entry];
        let mut got = [(); 3].map(|()| vec![0; parts.len()]);
        for n in 0..requests {
            got[0][ring.in_turn(n, &[], part).unwrap().entry] += 1;
            got[1][ring.least_loaded(n, &[], part).unwrap().entry] += 1;
            got[2][ring.by_hash(key(n), &[], part).unwrap().entry] += 1;
        }
        got
    }

    #[test]
    fn round_robin_follows_the_weights_evenly() {
        assert_eq!(schedule(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(schedule(&[2, 2]), [0, 1]);
        assert_eq!(schedule(&[]), [0_u16; 0]);
        assert!(schedule(&[999, 1000, 997, 991, 983, 1000, 997, 991, 983, 977, 971, 967]).len() <= 10_012);
    }

    #[test]
    fn what_is_out_gets_nothing_and_its_share_goes_to_all_others() {
        let ring = ring(&[1, 1, 1, 1]);
        for (way, got) in shares(&ring, &[1.0, 0.0, 1.0, 1.0], 3_000).iter().enumerate() {
            assert_eq!(got[1], 0);
            // least_inflight with nothing under way goes by turns alone, in which the neighbour takes the place
            let fair = if way == 1 { 600..=1_600 } else { 850..=1_150 };
            assert!([0, 2, 3].iter().all(|n| fair.contains(&got[*n])), "way {way}: {got:?}");
        }
    }

    #[test]
    fn a_slow_start_gets_its_part() {
        let ring = ring(&[1, 1]);
        for (way, got) in shares(&ring, &[1.0, 0.1], 4_000).iter().enumerate() {
            assert!((100..=500).contains(&got[1]), "way {way}: {got:?}");
        }
        let all_slow = shares(&ring, &[0.1, 0.1], 1_000);
        assert!(all_slow.iter().all(|got| got.iter().all(|count| *count > 250)), "{all_slow:?}");
    }

    #[test]
    fn keys_come_back_to_a_returning_address_and_no_other_key_moves() {
        let ring = ring(&[1, 1, 1]);
        let at = |n: usize, parts: [f64; 3]| ring.by_hash(key(n), &[], |endpoint| parts[endpoint.entry]).unwrap().entry;
        for n in 0..500 {
            let mut last = at(n, [1.0, 0.0, 1.0]);
            for part in [0.1, 0.3, 0.6, 1.0] {
                let now = at(n, [1.0, part, 1.0]);
                assert!(now == last || now == 1, "a key moves to the one that returns, and nowhere else");
                last = now;
            }
        }
    }

    #[test]
    fn none_where_all_are_out_and_the_tried_one_where_it_is_all_there_is() {
        let ring = ring(&[1, 1]);
        assert!(ring.in_turn(0, &[], |_| 0.0).is_none());
        assert!(ring.least_loaded(0, &[], |_| 0.0).is_none());
        assert!(ring.by_hash(key(0), &[], |_| 0.0).is_none());
        let only = |endpoint: &Endpoint| if endpoint.entry == 0 { 1.0 } else { 0.0 };
        let tried = &[address(0)];
        for n in 0..50 {
            assert_eq!(ring.in_turn(n, tried, only).unwrap().entry, 0);
            assert_eq!(ring.least_loaded(n, tried, only).unwrap().entry, 0);
            assert_eq!(ring.by_hash(key(n), tried, only).unwrap().entry, 0);
        }
    }
}
