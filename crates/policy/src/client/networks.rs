//! Networks by address: those of the commonest lengths by a hash, the others sorted, under a tree of their first addresses.
//!
//! Networks lie inside each other or apart, never across. Where several cover an address, the greatest of their values counts: so a network
//! inside of another is kept only if its value is greater, and knows the one around it. Two halves with one value become one network.
//!
//! **Memory.** A network takes 7 bytes for IPv4, 12 for IPv6 networks up to /64 and 20 for longer ones, plus the value; 4 more where some
//! lie inside of others. A million IPv6 addresses take 20.2 MiB, a million /64s 10.7 MiB, a million IPv4 addresses or /24s 6 MiB.

use std::net::IpAddr;

use singles::{Hashed, Singles};
use tree::{Networks, Number, needed};

use crate::units::prefix::fold;
use crate::units::{Bytes, Prefix};

mod singles;
mod tree;

/// Bits of an address of IPv6 that nearly all networks are within.
const UPPER: u32 = 64;

/// The length of the networks of IPv4 that are listed most, after addresses.
const COMMON: u8 = 24;

/// Networks, each with a value. Made whole, never changed. A look allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkMap<V> {
    /// Those of no other length, and those without a place below.
    ipv4: Networks<u32, V>,
    ipv4_common: Singles<u32, V>,
    ipv4_addresses: Singles<u32, V>,
    /// By the upper half of the address: networks up to /63, and /64s without a place below.
    ipv6: Networks<u64, V>,
    halves: Singles<u64, V>,
    /// Longer ones, and addresses without a place below.
    ipv6_long: Networks<u128, V>,
    ipv6_addresses: Singles<u128, V>,
}

/// Networks without values.
pub type NetworkSet = NetworkMap<()>;

/// The first address of a network, as a number.
enum First {
    Ipv4(u32),
    Ipv6(u64),
    Ipv6Long(u128),
}

impl First {
    fn of(network: Prefix) -> First {
        match network.address() {
            IpAddr::V4(first) => First::Ipv4(first.to_bits()),
            IpAddr::V6(first) if u32::from(network.length()) <= UPPER => First::Ipv6(upper(first.to_bits())),
            IpAddr::V6(first) => First::Ipv6Long(first.to_bits()),
        }
    }
}

/// The first address of the network of [`COMMON`] length around an address.
#[inline]
fn common(address: u32) -> u32 {
    address & !(u32::MAX >> COMMON)
}

/// The upper half of an address.
#[inline]
fn upper(address: u128) -> u64 {
    // what is left after the shift fits
    (address >> UPPER) as u64
}

impl<V: Copy + Ord> NetworkMap<V> {
    /// Networks in any order, inside of each other or not.
    pub fn new(networks: impl IntoIterator<Item = (Prefix, V)>) -> NetworkMap<V> {
        let (mut ipv4, mut ipv6, mut ipv6_long) = (Vec::new(), Vec::new(), Vec::new());
        for (network, value) in networks {
            match First::of(network) {
                First::Ipv4(first) => ipv4.push((first, network.length(), value)),
                First::Ipv6(first) => ipv6.push((first, network.length(), value)),
                First::Ipv6Long(first) => ipv6_long.push((first, network.length(), value)),
            }
        }
        let (ipv4, ipv4_addresses) = apart(needed(ipv4), u32::BITS as u8);
        let (ipv4, ipv4_common) = apart(ipv4, COMMON);
        let (ipv6, halves) = apart(needed(ipv6), UPPER as u8);
        let (ipv6_long, ipv6_addresses) = apart(needed(ipv6_long), u128::BITS as u8);
        NetworkMap {
            ipv4: Networks::new(ipv4),
            ipv4_common,
            ipv4_addresses,
            ipv6: Networks::new(ipv6),
            halves,
            ipv6_long: Networks::new(ipv6_long),
            ipv6_addresses,
        }
    }

    /// The greatest value of the networks around an address. IPv4-mapped IPv6 counts as IPv4.
    #[inline]
    pub fn get(&self, address: IpAddr) -> Option<V> {
        match fold(address) {
            IpAddr::V4(v4) => {
                let address = v4.to_bits();
                let single = self.ipv4_addresses.get(address).max(self.ipv4_common.get(common(address)));
                single.max(self.ipv4.get(address))
            }
            IpAddr::V6(v6) => {
                let (address, half) = (v6.to_bits(), upper(v6.to_bits()));
                let single = self.ipv6_addresses.get(address).max(self.halves.get(half));
                single.max(self.ipv6.get(half)).max(self.ipv6_long.get(address))
            }
        }
    }

    /// Returns whether an address is in one of the networks. IPv4-mapped IPv6 counts as IPv4.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.get(address).is_some()
    }

    /// Returns whether any address of the network is in one of these networks.
    pub fn meets(&self, network: Prefix) -> bool {
        let length = network.length();
        match First::of(network) {
            First::Ipv4(first) => {
                let last = first.end(length);
                self.ipv4.meets(first, last)
                    || self.ipv4_common.meets(common(first), common(last))
                    || self.ipv4_addresses.meets(first, last)
            }
            First::Ipv6(first) => {
                let begin = u128::from(first) << UPPER;
                self.meets_between((first, first.end(length)), (begin, begin.end(length)))
            }
            First::Ipv6Long(first) => self.meets_between((upper(first), upper(first)), (first, first.end(length))),
        }
    }

    /// Of upper halves, and of addresses, from the first to the last.
    fn meets_between(&self, halves: (u64, u64), addresses: (u128, u128)) -> bool {
        self.ipv6.meets(halves.0, halves.1)
            || self.halves.meets(halves.0, halves.1)
            || self.ipv6_long.meets(addresses.0, addresses.1)
            || self.ipv6_addresses.meets(addresses.0, addresses.1)
    }

    /// Returns whether there is no network.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The number of networks that these became: without those inside of others, and two halves as one.
    pub fn count(&self) -> usize {
        let ipv4 = self.ipv4.count() + self.ipv4_common.count() + self.ipv4_addresses.count();
        ipv4 + self.ipv6.count() + self.halves.count() + self.ipv6_long.count() + self.ipv6_addresses.count()
    }

    /// The memory of all networks.
    pub fn memory(&self) -> Bytes {
        let ipv4 = self.ipv4.memory() + self.ipv4_common.memory() + self.ipv4_addresses.memory();
        let ipv6 = self.ipv6.memory() + self.halves.memory();
        Bytes(ipv4 + ipv6 + self.ipv6_long.memory() + self.ipv6_addresses.memory())
    }
}

impl<V> Default for NetworkMap<V> {
    fn default() -> NetworkMap<V> {
        NetworkMap {
            ipv4: Networks::default(),
            ipv4_common: Singles::default(),
            ipv4_addresses: Singles::default(),
            ipv6: Networks::default(),
            halves: Singles::default(),
            ipv6_long: Networks::default(),
            ipv6_addresses: Singles::default(),
        }
    }
}

/// Needed networks by number, length and value.
type Needed<N, V> = Vec<(N, u8, V)>;

/// Takes those of one length apart from the others.
fn apart<N: Number + Hashed, V: Copy + Ord>(networks: Needed<N, V>, alike: u8) -> (Needed<N, V>, Singles<N, V>) {
    let (whole, mut others): (Vec<_>, Vec<_>) = networks.into_iter().partition(|(_, length, _)| *length == alike);
    let whole: Vec<(N, V)> = whole.into_iter().map(|(number, _, value)| (number, value)).collect();
    let (singles, without) = Singles::new(&whole);
    others.extend(without.into_iter().map(|(number, value)| (number, alike, value)));
    (others, singles)
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
        let map = map(&[
            ("10.0.0.0/8", 2),
            ("10.1.0.0/16", 1),
            ("10.2.0.0/16", 3),
            ("10.2.3.0/24", 2),
            ("10.3.4.0/24", 4),
            ("10.3.4.7/32", 5),
        ]);
        for (address, value) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(2)),
            ("10.1.2.3", Some(2)),
            ("10.2.0.0", Some(3)),
            ("10.2.3.4", Some(3)),
            ("10.2.255.255", Some(3)),
            ("10.3.0.0", Some(2)),
            ("10.3.3.255", Some(2)),
            ("10.3.4.0", Some(4)),
            ("10.3.4.7", Some(5)),
            ("10.3.4.8", Some(4)),
            ("10.3.4.255", Some(4)),
            ("10.3.5.0", Some(2)),
            ("10.255.255.255", Some(2)),
            ("11.0.0.0", None),
        ] {
            assert_eq!(at(&map, address), value, "{address}");
        }
        assert_eq!(map.count(), 4);
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
    fn two_halves_are_one_network() {
        let halves =
            NetworkSet::new(["10.0.0.0/9", "10.128.0.0/9", "fd00::/9", "fd80::/9"].map(|one| (network(one), ())));
        assert_eq!(halves, NetworkSet::new(["fd00::/8", "10.0.0.0/8"].map(|one| (network(one), ()))));
        assert_eq!(halves.count(), 2);
    }

    #[test]
    fn a_network_meets_what_it_contains_and_what_contains_it() {
        let listed = ["10.1.0.0/16", "10.4.5.0/24", "10.6.7.8/32", "2001:db8::/32"];
        let set = NetworkSet::new(listed.map(|one| (network(one), ())));
        for (text, meets) in [
            ("10.0.0.0/8", true),
            ("10.1.2.3/32", true),
            ("10.2.0.0/16", false),
            ("10.0.0.0/16", false),
            ("10.4.0.0/16", true),
            ("10.4.5.128/25", true),
            ("10.4.4.0/24", false),
            ("10.6.0.0/16", true),
            ("10.6.7.9/32", false),
            ("::/0", true),
            ("2001:db9::/32", false),
            ("0.0.0.0/0", true),
        ] {
            assert_eq!(set.meets(network(text)), meets, "{text}");
        }
    }

    #[test]
    fn the_greatest_value_counts_across_both_halves_of_an_address() {
        let map = map(&[("2001:db8::/32", 1), ("2001:db8::/64", 3), ("2001:db8::8/125", 2), ("2001:db8:1::1/128", 4)]);
        assert_eq!((at(&map, "2001:db8::9"), at(&map, "2001:db8:0:1::9")), (Some(3), Some(1)));
        assert_eq!((at(&map, "2001:db8:1::1"), at(&map, "2001:db8:1::2")), (Some(4), Some(1)));
        for (text, meets) in [("2001:db8:1::/127", true), ("2001:db9::/65", false), ("2001:db8::/126", true)] {
            assert_eq!(map.meets(network(text)), meets, "{text}");
        }
        let long = NetworkSet::new([(network("2001:db8::8/125"), ())]);
        for (text, meets) in [("2001:db8::/64", true), ("2001:db8::/125", false), ("2001:db8:0:1::/64", false)] {
            assert_eq!(long.meets(network(text)), meets, "{text}");
        }
    }

    #[test]
    fn a_tree_of_any_number_of_networks_finds_all_of_them() {
        for count in (0..40).chain([255, 256, 257, 272, 4_095, 4_096, 4_097, 5_000]) {
            let address = |n: u32| IpAddr::V4((n * 4 + 4).into());
            let map = NetworkMap::new((0..count).map(|n| (Prefix::around(address(n), 31, 0), n)));
            assert_eq!(map.count(), count as usize);
            for n in 0..count {
                let IpAddr::V4(first) = address(n) else { unreachable!() };
                let around =
                    [-1, 0, 1, 2].map(|step| map.get(IpAddr::V4(first.to_bits().wrapping_add_signed(step).into())));
                assert_eq!(around, [None, Some(n), Some(n), None], "{n} of {count}");
            }
            assert_eq!(
                (map.get("0.0.0.0".parse().unwrap()), map.get("255.255.255.255".parse().unwrap())),
                (None, None)
            );
        }
    }

    /// Addresses of both families and both halves of an address, close together and far apart.
    fn addresses() -> impl Strategy<Value = IpAddr> {
        let ipv4 = prop_oneof![0_u32..4_096, any::<u32>()].prop_map(|address| IpAddr::V4(address.into()));
        let lower = prop_oneof![0_u64..64, any::<u64>()];
        let upper = prop_oneof![0_u64..4, (0_u64..64).prop_map(|upper| 0x2001_0db8 << 32 | upper << 8), any::<u64>()];
        let ipv6 = (upper, lower).prop_map(|(upper, lower)| u128::from(upper) << UPPER | u128::from(lower));
        prop_oneof![ipv4, ipv6.prop_map(|address| fold(IpAddr::V6(address.into())))]
    }

    fn networks() -> impl Strategy<Value = Vec<(Prefix, u8)>> {
        let lengths = prop_oneof![0_u8..=128, 20_u8..=32, 60_u8..=68, Just(128)];
        let network =
            (addresses(), lengths).prop_map(|(address, length)| Prefix::around(address, length.min(32), length));
        prop::collection::vec((network, 0_u8..4), 0..400)
    }

    /// The addresses before a network, at both of its ends, and behind it.
    fn edges(network: Prefix) -> Vec<IpAddr> {
        let end =
            |first: u128, bits: u8| first | u128::MAX.checked_shr((128 - bits + network.length()).into()).unwrap_or(0);
        let four = |first: u128, last: u128| [first.wrapping_sub(1), first, last, last.wrapping_add(1)].into_iter();
        match network.address() {
            IpAddr::V4(first) => {
                let first = u128::from(first.to_bits());
                four(first, end(first, 32))
                    .filter_map(|at| u32::try_from(at).ok())
                    .map(|at| IpAddr::V4(at.into()))
                    .collect()
            }
            IpAddr::V6(first) => {
                four(first.to_bits(), end(first.to_bits(), 128)).map(|at| IpAddr::V6(at.into())).collect()
            }
        }
    }

    proptest! {
        /// Networks inside of each other, beside each other and apart, of several blocks.
        #[test]
        fn finds_what_a_walk_through_all_networks_finds(networks in networks(), others in prop::collection::vec(addresses(), 50)) {
            let map = NetworkMap::new(networks.iter().copied());
            prop_assert!(map.count() <= networks.len());
            let edges = networks.iter().step_by(8).flat_map(|(network, _)| edges(*network));
            for address in edges.chain(others) {
                let around = networks.iter().filter(|(network, _)| network.contains(address));
                prop_assert_eq!(map.get(address), around.map(|(_, value)| *value).max(), "{}", address);
            }
        }

        #[test]
        fn meets_what_a_walk_through_all_networks_meets(networks in networks(), others in networks()) {
            let map = NetworkMap::new(networks.iter().copied());
            for (other, _) in others.iter().take(50).chain(networks.iter().take(10)) {
                let meets = |(network, _): &(Prefix, u8)| network.contains(other.address()) || other.contains(network.address());
                prop_assert_eq!(map.meets(*other), networks.iter().any(meets), "{}", other);
            }
        }
    }
}
