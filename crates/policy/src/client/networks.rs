//! Networks by address: sorted ranges under a tree of their first addresses.
//!
//! Networks lie inside each other or apart, never across, so they flatten into ranges that do not overlap: where several networks
//! cover an address, the greatest of their values counts. Neighbours with one value become one range.
//!
//! **Memory.** A range takes 8 bytes for IPv4, 16 for IPv6 networks up to /64 and 32 for longer ones, plus the value; the tree takes a fifteenth
//! of half of that. A million IPv6 addresses take 31.6 MiB.
//!
//! **Time.** A node of the tree is `BLOCK` addresses side by side, so a look reads one node of each of five levels. The levels above the
//! last stay in the processor's caches. Of the last it reads one block: the first and the last addresses of `BLOCK` ranges. How many ranges
//! begin before an address, and how many end before it, is counted apart, so no load from main memory waits for another one.
//! `cargo bench -p tidegate-policy --bench networks` prints memory and time.

use std::net::IpAddr;

use crate::units::prefix::fold;
use crate::units::{Bytes, Prefix};

/// Entries of a node, and ranges of a block.
const BLOCK: usize = 16;

/// Bits of an address of IPv6 that nearly all networks are within.
const UPPER: u32 = 64;

/// Networks, each with a value. Made whole, never changed. A look allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkMap<V> {
    ipv4: Ranges<u32, V>,
    /// By the upper half of the address: networks up to /64.
    ipv6: Ranges<u64, V>,
    /// Longer ones.
    ipv6_long: Ranges<u128, V>,
}

/// Networks without values.
pub type NetworkSet = NetworkMap<()>;

/// The first and the last address of a network, as numbers.
enum Span {
    Ipv4(u32, u32),
    Ipv6(u64, u64),
    Ipv6Long(u128, u128),
}

impl Span {
    fn of(network: Prefix) -> Span {
        let length = u32::from(network.length());
        match network.address() {
            IpAddr::V4(first) => {
                let first = first.to_bits();
                Span::Ipv4(first, first | u32::MAX.checked_shr(length).unwrap_or(0))
            }
            IpAddr::V6(first) if length <= UPPER => {
                let first = upper(first.to_bits());
                Span::Ipv6(first, first | u64::MAX.checked_shr(length).unwrap_or(0))
            }
            IpAddr::V6(first) => {
                let first = first.to_bits();
                Span::Ipv6Long(first, first | u128::MAX.checked_shr(length).unwrap_or(0))
            }
        }
    }
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
            match Span::of(network) {
                Span::Ipv4(first, last) => ipv4.push((first, last, value)),
                Span::Ipv6(first, last) => ipv6.push((first, last, value)),
                Span::Ipv6Long(first, last) => ipv6_long.push((first, last, value)),
            }
        }
        NetworkMap { ipv4: Ranges::new(ipv4), ipv6: Ranges::new(ipv6), ipv6_long: Ranges::new(ipv6_long) }
    }

    /// The greatest value of the networks around an address. IPv4-mapped IPv6 counts as IPv4.
    #[inline]
    pub fn get(&self, address: IpAddr) -> Option<V> {
        match fold(address) {
            IpAddr::V4(v4) => self.ipv4.get(v4.to_bits()),
            IpAddr::V6(v6) => self.ipv6.get(upper(v6.to_bits())).max(self.ipv6_long.get(v6.to_bits())),
        }
    }

    /// Returns whether an address is in one of the networks. IPv4-mapped IPv6 counts as IPv4.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.get(address).is_some()
    }

    /// Returns whether any address of the network is in one of these networks.
    pub fn meets(&self, network: Prefix) -> bool {
        match Span::of(network) {
            Span::Ipv4(first, last) => self.ipv4.meets(first, last),
            Span::Ipv6(first, last) => {
                let (begin, end) = (u128::from(first) << UPPER, u128::from(last) << UPPER | u128::from(u64::MAX));
                self.ipv6.meets(first, last) || self.ipv6_long.meets(begin, end)
            }
            Span::Ipv6Long(first, last) => {
                self.ipv6.meets(upper(first), upper(last)) || self.ipv6_long.meets(first, last)
            }
        }
    }

    /// Returns whether there is no network.
    pub fn is_empty(&self) -> bool {
        self.ranges() == 0
    }

    /// The number of ranges that the networks became.
    pub fn ranges(&self) -> usize {
        self.ipv4.count + self.ipv6.count + self.ipv6_long.count
    }

    /// The memory of all ranges.
    pub fn memory(&self) -> Bytes {
        Bytes(self.ipv4.memory() + self.ipv6.memory() + self.ipv6_long.memory())
    }
}

impl<V> Default for NetworkMap<V> {
    fn default() -> NetworkMap<V> {
        NetworkMap { ipv4: Ranges::default(), ipv6: Ranges::default(), ipv6_long: Ranges::default() }
    }
}

/// An address as a number.
trait Number: Copy + Ord {
    fn after(self) -> Option<Self>;
    fn before(self) -> Self;

    /// How many of these ascending numbers are not greater than this one.
    #[inline]
    fn up_to(self, numbers: &[Self; BLOCK]) -> usize {
        // first which four of them, then which of the four: half of the comparisons
        let (fours, _) = numbers.as_chunks::<4>();
        let four: usize = fours.iter().skip(1).map(|[first, ..]| usize::from(*first <= self)).sum();
        let within = fours.get(four).map_or(0, |four| four.iter().map(|number| usize::from(*number <= self)).sum());
        4 * four + within
    }

    /// How many of these ascending numbers are less than this one.
    #[inline]
    fn below(self, numbers: &[Self; BLOCK]) -> usize {
        let (fours, _) = numbers.as_chunks::<4>();
        let four: usize = fours.iter().skip(1).map(|[first, ..]| usize::from(*first < self)).sum();
        let within = fours.get(four).map_or(0, |four| four.iter().map(|number| usize::from(*number < self)).sum());
        4 * four + within
    }
}

impl Number for u32 {
    fn after(self) -> Option<u32> {
        self.checked_add(1)
    }
    fn before(self) -> u32 {
        self.saturating_sub(1)
    }

    // the processor compares four at once
    #[inline]
    fn up_to(self, numbers: &[u32; BLOCK]) -> usize {
        numbers.iter().map(|number| u32::from(*number <= self)).sum::<u32>() as usize
    }
    #[inline]
    fn below(self, numbers: &[u32; BLOCK]) -> usize {
        numbers.iter().map(|number| u32::from(*number < self)).sum::<u32>() as usize
    }
}

impl Number for u64 {
    fn after(self) -> Option<u64> {
        self.checked_add(1)
    }
    fn before(self) -> u64 {
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
    blocks: Box<[Block<N>]>,
    /// Of each place of each block.
    values: Box<[V]>,
    /// The first number of every block, of every node of those, and so on to one node; the widest level first.
    levels: Vec<Box<[Node<N>]>>,
    /// The number of ranges. The places behind the last one repeat it.
    count: usize,
}

/// Ranges side by side. Begins with a line of the processor's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
struct Block<N> {
    firsts: [N; BLOCK],
    lasts: [N; BLOCK],
}

/// Numbers side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
struct Node<N>([N; BLOCK]);

impl<N, V> Default for Ranges<N, V> {
    fn default() -> Ranges<N, V> {
        Ranges { blocks: Box::default(), values: Box::default(), levels: Vec::new(), count: 0 }
    }
}

/// A block's worth of items, which repeat the last one where there are fewer.
fn filled<T: Copy, U>(items: &[T], of: impl Fn(T) -> U) -> Option<[U; BLOCK]> {
    let last = *items.last()?;
    Some(std::array::from_fn(|at| of(items.get(at).copied().unwrap_or(last))))
}

impl<N: Number, V: Copy + Ord> Ranges<N, V> {
    fn new(networks: Vec<(N, N, V)>) -> Ranges<N, V> {
        let ranges = flat(networks);
        let block = |ranges: &[(N, N, V)]| {
            let firsts = filled(ranges, |(first, ..)| first)?;
            Some(Block { firsts, lasts: filled(ranges, |(_, last, _)| last)? })
        };
        let blocks: Box<[Block<N>]> = ranges.chunks(BLOCK).filter_map(block).collect();
        let values = ranges.chunks(BLOCK).filter_map(|ranges| filled(ranges, |(.., value)| value)).flatten().collect();
        let mut firsts: Vec<N> = blocks.iter().map(|Block { firsts: [first, ..], .. }| *first).collect();
        let mut levels: Vec<Box<[Node<N>]>> = Vec::new();
        while firsts.len() > 1 {
            let level = firsts.chunks(BLOCK).filter_map(|firsts| filled(firsts, |first| first).map(Node)).collect();
            firsts = firsts.into_iter().step_by(BLOCK).collect();
            levels.push(level);
        }
        Ranges { blocks, values, levels, count: ranges.len() }
    }

    #[inline]
    fn get(&self, number: N) -> Option<V> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            // behind the end are repetitions of the last one
            let node = at.min(level.len().saturating_sub(1));
            let Node(firsts) = level.get(node)?;
            at = node * BLOCK + number.up_to(firsts).checked_sub(1)?;
        }
        let at = at.min(self.blocks.len().checked_sub(1)?);
        let Block { firsts, lasts } = self.blocks.get(at)?;
        // at most one range has begun and not ended
        let (begun, ended) = (number.up_to(firsts), number.below(lasts));
        (begun > ended).then(|| self.values.get(at * BLOCK + ended).copied())?
    }

    fn meets(&self, first: N, last: N) -> bool {
        let behind = self.blocks.partition_point(|Block { lasts: [.., end], .. }| *end < first);
        self.blocks.get(behind).is_some_and(|Block { firsts, lasts }| {
            let begin = firsts.get(first.below(lasts));
            begin.is_some_and(|begin| *begin <= last)
        })
    }

    fn memory(&self) -> u64 {
        let levels: usize = self.levels.iter().map(|level| size_of_val(&**level)).sum();
        (size_of_val(&*self.blocks) + size_of_val(&*self.values) + levels) as u64
    }
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
    fn a_tree_of_any_number_of_ranges_finds_all_of_them() {
        for count in (0..40).chain([255, 256, 257, 272, 4_095, 4_096, 4_097, 5_000]) {
            let address = |n: u32| IpAddr::V4((n * 4 + 4).into());
            let map = NetworkMap::new((0..count).map(|n| (Prefix::around(address(n), 31, 0), n)));
            assert_eq!(map.ranges(), count as usize);
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

    proptest! {
        /// As below, with networks of both halves of an address.
        #[test]
        fn finds_what_a_walk_finds_in_ipv6(
            networks in prop::collection::vec((0_u128..4, 0_u128..64, 60_u8..=128, 0_u8..4), 0..100),
            asked in prop::collection::vec((0_u128..5, 0_u128..70), 50),
        ) {
            let address = |(upper, lower): (u128, u128)| IpAddr::V6((upper << 64 | lower).into());
            let networks: Vec<(Prefix, u8)> = networks
                .into_iter()
                .map(|(upper, lower, length, value)| (Prefix::around(address((upper, lower)), 0, length), value))
                .collect();
            let map = NetworkMap::new(networks.iter().copied());
            for (network, _) in &networks {
                prop_assert!(map.meets(*network));
            }
            for asked in asked {
                let address = address(asked);
                let walked = networks.iter().filter(|(network, _)| network.contains(address)).map(|(_, value)| *value).max();
                prop_assert_eq!(map.get(address), walked, "{}", address);
            }
        }

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
