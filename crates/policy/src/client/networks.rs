//! Networks by address: sorted ranges under a tree of their first addresses.
//!
//! Networks lie inside each other or apart, never across, so they flatten into ranges that do not overlap: where several networks
//! cover an address, the greatest of their values counts. Neighbours with one value become one range.
//!
//! A range takes 8 bytes for IPv4 and 32 for IPv6, plus the value: a million IPv6 networks take 31.6 MiB. A node of the tree is
//! `BLOCK` addresses side by side, so a look reads one node of each of five levels, and the levels above the last two stay in the
//! processor's cache. Binary search reads twenty addresses, one after the other.
//! `cargo bench -p tidegate-policy --bench networks` prints memory and time.

use std::net::IpAddr;

use crate::units::prefix::fold;
use crate::units::{Bytes, Prefix};

/// Entries of a level for each entry of the level above.
const BLOCK: usize = 16;

/// Networks, each with a value. Made whole, never changed. A look allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkMap<V> {
    ipv4: Ranges<u32, V>,
    ipv6: Ranges<u128, V>,
}

/// Networks without values.
pub type NetworkSet = NetworkMap<()>;

impl<V: Copy + Ord> NetworkMap<V> {
    /// Networks in any order, inside of each other or not.
    pub fn new(networks: impl IntoIterator<Item = (Prefix, V)>) -> NetworkMap<V> {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for (network, value) in networks {
            let length = u32::from(network.length());
            match network.address() {
                IpAddr::V4(first) => {
                    let first = first.to_bits();
                    ipv4.push((first, first | u32::MAX.checked_shr(length).unwrap_or(0), value));
                }
                IpAddr::V6(first) => {
                    let first = first.to_bits();
                    ipv6.push((first, first | u128::MAX.checked_shr(length).unwrap_or(0), value));
                }
            }
        }
        NetworkMap { ipv4: Ranges::new(ipv4), ipv6: Ranges::new(ipv6) }
    }

    /// The greatest value of the networks around an address. IPv4-mapped IPv6 counts as IPv4.
    #[inline]
    pub fn get(&self, address: IpAddr) -> Option<V> {
        match fold(address) {
            IpAddr::V4(v4) => self.ipv4.get(v4.to_bits()),
            IpAddr::V6(v6) => self.ipv6.get(v6.to_bits()),
        }
    }

    /// Returns whether an address is in one of the networks. IPv4-mapped IPv6 counts as IPv4.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.get(address).is_some()
    }

    /// Returns whether any address of the network is in one of these networks.
    pub fn meets(&self, network: Prefix) -> bool {
        let length = u32::from(network.length());
        match network.address() {
            IpAddr::V4(first) => {
                let first = first.to_bits();
                self.ipv4.meets(first, first | u32::MAX.checked_shr(length).unwrap_or(0))
            }
            IpAddr::V6(first) => {
                let first = first.to_bits();
                self.ipv6.meets(first, first | u128::MAX.checked_shr(length).unwrap_or(0))
            }
        }
    }

    /// Returns whether there is no network.
    pub fn is_empty(&self) -> bool {
        self.ipv4.ranges.is_empty() && self.ipv6.ranges.is_empty()
    }

    /// The number of ranges that the networks became.
    pub fn ranges(&self) -> usize {
        self.ipv4.ranges.len() + self.ipv6.ranges.len()
    }

    /// The memory of all ranges.
    pub fn memory(&self) -> Bytes {
        Bytes(self.ipv4.memory() + self.ipv6.memory())
    }
}

impl<V> Default for NetworkMap<V> {
    fn default() -> NetworkMap<V> {
        NetworkMap { ipv4: Ranges::default(), ipv6: Ranges::default() }
    }
}

/// An address as a number.
trait Number: Copy + Ord {
    fn after(self) -> Option<Self>;
    fn before(self) -> Self;
}

impl Number for u32 {
    fn after(self) -> Option<u32> {
        self.checked_add(1)
    }
    fn before(self) -> u32 {
        self.saturating_sub(1)
    }
}

impl Number for u128 {
    fn after(self) -> Option<u128> {
        self.checked_add(1)
    }
    fn before(self) -> u128 {
        self.saturating_sub(1)
    }
}

/// Ranges from the first to the last number, in ascending order, that do not overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ranges<N, V> {
    ranges: Box<[(N, N, V)]>,
    /// The first number of every [`BLOCK`]th range, of every [`BLOCK`]th of those, and so on to one block.
    levels: Vec<Box<[N]>>,
}

impl<N, V> Default for Ranges<N, V> {
    fn default() -> Ranges<N, V> {
        Ranges { ranges: Box::default(), levels: Vec::new() }
    }
}

impl<N: Number, V: Copy + Ord> Ranges<N, V> {
    fn new(networks: Vec<(N, N, V)>) -> Ranges<N, V> {
        let ranges = flat(networks).into_boxed_slice();
        let mut levels: Vec<Box<[N]>> = Vec::new();
        let mut last: Box<[N]> = ranges.iter().step_by(BLOCK).map(|(first, ..)| *first).collect();
        while last.len() > 1 {
            let next = last.iter().step_by(BLOCK).copied().collect();
            levels.push(std::mem::replace(&mut last, next));
        }
        Ranges { ranges, levels }
    }

    #[inline]
    fn get(&self, number: N) -> Option<V> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            // counted rather than searched: no load waits for the one before it
            let before = block_of(level, at).iter().filter(|first| **first <= number).count();
            at = at * BLOCK + before.checked_sub(1)?;
        }
        let block = block_of(&self.ranges, at);
        let before = block.iter().filter(|(first, ..)| *first <= number).count();
        let (_, last, value) = block.get(before.checked_sub(1)?)?;
        (number <= *last).then_some(*value)
    }

    fn meets(&self, first: N, last: N) -> bool {
        let behind = self.ranges.partition_point(|(_, end, _)| *end < first);
        self.ranges.get(behind).is_some_and(|(begin, ..)| *begin <= last)
    }

    fn memory(&self) -> u64 {
        let levels: usize = self.levels.iter().map(|level| size_of_val(&**level)).sum();
        (size_of_val(&*self.ranges) + levels) as u64
    }
}

/// The entries of a level under the entry at this position of the level above.
#[inline]
fn block_of<T>(level: &[T], at: usize) -> &[T] {
    let begin = at * BLOCK;
    level.get(begin..level.len().min(begin + BLOCK)).unwrap_or_default()
}

/// The ranges that do not overlap, of networks that lie inside each other or apart.
fn flat<N: Number, V: Copy + Ord>(mut networks: Vec<(N, N, V)>) -> Vec<(N, N, V)> {
    // the wider of two that begin alike comes first
    networks.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    let mut flat: Flat<N, V> = Flat { ranges: Vec::with_capacity(networks.len()), open: Vec::new(), next: None };
    for (first, last, value) in networks {
        flat.close_before(Some(first));
        let around = flat.open.last().map(|(_, value)| *value);
        if let (Some(around), Some(next)) = (around, flat.next)
            && next < first
        {
            flat.write(next, first.before(), around);
        }
        flat.next = Some(first);
        flat.open.push((last, around.map_or(value, |around: V| around.max(value))));
    }
    flat.close_before(None);
    flat.ranges
}

/// Ranges in the making.
struct Flat<N, V> {
    ranges: Vec<(N, N, V)>,
    /// The networks that have begun and not ended, the widest first: the last number and the value.
    open: Vec<(N, V)>,
    /// The first number of the open networks that is not written; `None` behind the last number of all.
    next: Option<N>,
}

impl<N: Number, V: Copy + Ord> Flat<N, V> {
    /// Ends the open networks that end before a number, or all of them.
    fn close_before(&mut self, first: Option<N>) {
        while let Some((last, value)) = self.open.pop_if(|(last, _)| first.is_none_or(|first| *last < first)) {
            if let Some(next) = self.next.filter(|next| *next <= last) {
                self.write(next, last, value);
                self.next = last.after();
            }
        }
    }

    fn write(&mut self, first: N, last: N, value: V) {
        match self.ranges.last_mut() {
            Some((_, end, known)) if end.after() == Some(first) && *known == value => *end = last,
            _ => self.ranges.push((first, last, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn network(text: &str) -> Prefix {
        let (address, length) = text.split_once('/').unwrap();
        Prefix::new(address.parse().unwrap(), length.parse().unwrap()).unwrap()
    }

    fn map(networks: &[(&str, u8)]) -> NetworkMap<u8> {
        NetworkMap::new(networks.iter().map(|(text, value)| (network(text), *value)))
    }

    fn at(map: &NetworkMap<u8>, address: &str) -> Option<u8> {
        map.get(address.parse().unwrap())
    }

    #[test]
    fn the_greatest_value_around_an_address_counts() {
        let map = map(&[("10.0.0.0/8", 2), ("10.1.0.0/16", 1), ("10.2.0.0/16", 3), ("10.2.3.0/24", 2)]);
        for (address, value) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(2)),
            ("10.1.2.3", Some(2)),
            ("10.2.0.0", Some(3)),
            ("10.2.3.4", Some(3)),
            ("10.2.255.255", Some(3)),
            ("10.3.0.0", Some(2)),
            ("10.255.255.255", Some(2)),
            ("11.0.0.0", None),
        ] {
            assert_eq!(at(&map, address), value, "{address}");
        }
        assert_eq!(map.ranges(), 3);
    }

    #[test]
    fn both_ends_of_numbers_work_and_families_do_not_mix() {
        let map = map(&[("0.0.0.0/0", 1), ("255.255.255.255/32", 2), ("ffff::/16", 3), ("::/128", 4)]);
        assert_eq!((at(&map, "0.0.0.0"), at(&map, "255.255.255.254")), (Some(1), Some(1)));
        assert_eq!(at(&map, "255.255.255.255"), Some(2));
        assert_eq!(at(&map, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), Some(3));
        assert_eq!((at(&map, "::"), at(&map, "::1"), at(&map, "2001:db8::1")), (Some(4), None, None));
        assert_eq!(at(&map, "::ffff:1.2.3.4"), Some(1));
        assert_eq!(at(&NetworkMap::default(), "10.0.0.1"), None);
    }

    #[test]
    fn touching_networks_are_one_range() {
        let halves =
            NetworkSet::new(["10.0.0.0/9", "10.128.0.0/9", "fd00::/9", "fd80::/9"].map(|one| (network(one), ())));
        assert_eq!(halves, NetworkSet::new(["fd00::/8", "10.0.0.0/8"].map(|one| (network(one), ()))));
        assert_eq!(halves.ranges(), 2);
    }

    #[test]
    fn a_network_meets_what_it_contains_and_what_contains_it() {
        let set = NetworkSet::new(["10.1.0.0/16", "2001:db8::/32"].map(|one| (network(one), ())));
        for (text, meets) in [
            ("10.0.0.0/8", true),
            ("10.1.2.3/32", true),
            ("10.2.0.0/16", false),
            ("10.0.0.0/16", false),
            ("::/0", true),
            ("2001:db9::/32", false),
            ("0.0.0.0/0", true),
        ] {
            assert_eq!(set.meets(network(text)), meets, "{text}");
        }
    }

    proptest! {
        /// Few addresses and short distances, so that networks lie inside each other and touch; more than one block of them.
        #[test]
        fn finds_what_a_walk_through_all_networks_finds(
            networks in prop::collection::vec((0_u32..2_048, 20_u8..=32, 0_u8..4), 0..200),
            asked in prop::collection::vec(0_u32..2_100, 50),
        ) {
            let networks: Vec<(Prefix, u8)> = networks
                .into_iter()
                .map(|(address, length, value)| (Prefix::around(IpAddr::V4((address << 1).into()), length, 0), value))
                .collect();
            let map = NetworkMap::new(networks.iter().copied());
            for address in asked {
                let address = IpAddr::V4((address << 1 | address & 1).into());
                let walked = networks.iter().filter(|(network, _)| network.contains(address)).map(|(_, value)| *value).max();
                prop_assert_eq!(map.get(address), walked, "{}", address);
            }
        }
    }
}
