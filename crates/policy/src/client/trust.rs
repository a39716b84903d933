//! Whom to believe about a client's address, and what to do when the word given cannot be used.
//!
//! Nothing is believed by default. A trust entry is either valid or a fault at load ([`parse_cidr`]): an entry that is
//! silently skipped would leave a hole or lock everybody into one bucket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::header::{self, HeaderName, InvalidHeaderName};

use super::address::Translation;
use super::networks::NetworkSet;
use tidegate_http::hearsay::{self, Standing, is_twin_of, standing};

use crate::request::Peer;
use crate::units::{Bytes, Criticality, Prefix};

pub use super::cidr::{CidrFault, CidrFaultKind, HostBits, parse_cidr, parse_cidr_or_everyone};

/// `X-Forwarded-For`, by custom (no standard defines it).
pub static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// How a client reached the gate: said by it to origins, for clients whose peer may not say so.
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// How many elements from the right are looked at. More hops than this cannot be trusted: such a chain is always short.
pub const MAX_ELEMENTS: usize = 32;

/// Everything an operator says about client addresses, already valid.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRules {
    /// Who may speak for a client.
    pub trust: Trust,
    /// Where he says it; no other header is ever read.
    pub header: ForwardHeader,
    /// `hops` only: what becomes of a request whose chain is shorter than promised.
    pub short: OnShort,
    /// What becomes of a request with an unreadable element where it counts.
    pub degraded: OnDegraded,
    /// How many bits of an IPv4 address make a client: 32 unless the operator says otherwise; more mean 32.
    pub ipv4_prefix: u8,
    /// How many bits of an IPv6 address make a client: 64, because a home or a host gets a /64; more than 128 mean 128.
    pub ipv6_prefix: u8,
    /// NAT64 prefixes beside the well-known one, under which an IPv4 address is keyed as itself.
    pub translation: Vec<Translation>,
    /// Fields of trusted peers that reach the origin although nobody here reads them; see [`hearsay`].
    pub keep_headers: Vec<HeaderName>,
    /// The field in which trusted peers say how much a request matters; `None`: nobody is believed about that.
    pub criticality: Option<CriticalityField>,
}

/// Where trusted peers say how much a request matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriticalityField {
    /// The field. It goes no further: the gate says the result in a field of its own.
    pub name: HeaderName,
    /// The most that it can make of a request.
    pub ceiling: Criticality,
}

impl ClientRules {
    /// Whether a peer that is trusted or not can be one that [may not tell](ClientRules::may_not_tell) the field of this name, in any
    /// spelling. Nearly all fields are told by whoever sends them, and this says so at once.
    pub fn may_be_untold(&self, peer_trusted: bool, name: &[u8]) -> bool {
        if peer_trusted
            && self.header == ForwardHeader::XForwardedFor
            && name.eq_ignore_ascii_case(X_FORWARDED_FOR.as_str().as_bytes())
        {
            return false;
        }
        let is_as_long = |known: &HeaderName| known.as_str().len() == name.len();
        hearsay::may_stand(name)
            || is_as_long(self.header.name())
            || self.criticality.as_ref().is_some_and(|field| is_as_long(&field.name))
    }

    /// Whether a peer may not tell this field: it is taken out before the request is judged, so that no decision rests on it and no
    /// origin gets it. The client is found before that, as only [`resolve`](super::resolve) reads what a stranger claims to forward.
    /// Its name in lower case.
    pub fn may_not_tell(&self, peer_trusted: bool, name: &str) -> bool {
        if self.criticality.as_ref().is_some_and(|field| field.name == name) {
            return !peer_trusted;
        }
        let read = self.header.name();
        if matches!(&self.header, ForwardHeader::Single(single) if is_twin_of(name, single.as_str())) {
            return true;
        }
        match standing(name) {
            Some(Standing::Trusted) => !peer_trusted,
            Some(Standing::Named) => {
                !(peer_trusted && (read == name || self.keep_headers.iter().any(|kept| kept == name)))
            }
            Some(Standing::Nobody) => true,
            // a trusted peer writes the one that is read, and passes the other on as a stranger wrote it
            None if read == name => !peer_trusted,
            None => X_FORWARDED_FOR == name || header::FORWARDED == name,
        }
    }
}

impl Default for ClientRules {
    /// Trusts nobody: every client is the socket's other end, IPv4 by /32 and IPv6 by /64.
    fn default() -> ClientRules {
        ClientRules {
            trust: Trust::Off,
            header: ForwardHeader::XForwardedFor,
            short: OnShort::Peer,
            degraded: OnDegraded::Hop,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            translation: Vec::new(),
            keep_headers: Vec::new(),
            criticality: None,
        }
    }
}

/// How far back a forwarding header is believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Not at all.
    #[default]
    Off,
    /// The N-th element from the right is the client, when the peer is in `from`.
    Hops {
        /// N. Zero is [`Trust::Off`]; more than [`MAX_ELEMENTS`] is a chain that is always short, so refuse it at load.
        hops: u8,
        /// The peers that may be believed at all.
        from: ProxySet,
    },
    /// From the peer leftwards through listed proxies; the first address that is not listed is the client.
    Proxies(ProxySet),
}

impl Trust {
    /// Returns whether a proxy that may be in the network is believed, and not because every peer is.
    pub fn names(&self, network: Prefix) -> bool {
        match self {
            Trust::Off => false,
            Trust::Hops { from: proxies, .. } | Trust::Proxies(proxies) => {
                proxies.meets(network) && !proxies.is_everyone(network)
            }
        }
    }

    /// Whether the forwarding header of a request from `peer` may be read.
    pub fn believes(&self, peer: Peer) -> bool {
        match self {
            Trust::Off | Trust::Hops { hops: 0, .. } => false,
            Trust::Hops { from, .. } => from.contains(peer),
            Trust::Proxies(proxies) => proxies.contains(peer),
        }
    }
}

/// The one header that tells the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardHeader {
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// A header with one address and no list, such as `cf-connecting-ip`: read as a list of one element, so with `hops`
    /// only N = 1 ever finds it. Several lines are one unreadable element.
    Single(HeaderName),
}

impl ForwardHeader {
    /// The name of the header.
    pub fn name(&self) -> &HeaderName {
        match self {
            ForwardHeader::XForwardedFor => &X_FORWARDED_FOR,
            ForwardHeader::Forwarded => &header::FORWARDED,
            ForwardHeader::Single(name) => name,
        }
    }
}

impl From<HeaderName> for ForwardHeader {
    fn from(name: HeaderName) -> ForwardHeader {
        if name == X_FORWARDED_FOR {
            ForwardHeader::XForwardedFor
        } else if name == header::FORWARDED {
            ForwardHeader::Forwarded
        } else {
            ForwardHeader::Single(name)
        }
    }
}

impl FromStr for ForwardHeader {
    type Err = InvalidHeaderName;

    /// Any header name, in any case.
    fn from_str(text: &str) -> Result<ForwardHeader, InvalidHeaderName> {
        HeaderName::from_str(text).map(ForwardHeader::from)
    }
}

/// What becomes of a request whose chain is shorter than promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnShort {
    /// It counts for the peer, in buckets of its own.
    #[default]
    Peer,
    /// It is refused.
    Reject,
}

/// What becomes of a request with an unreadable element where it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDegraded {
    /// It counts for the last hop that could be verified, in buckets of its own.
    #[default]
    Hop,
    /// It is refused with 400.
    Reject,
}

/// A set of peers: address ranges, and whether UNIX-socket peers are in it. Asking takes a binary search and allocates
/// nothing, so lists of thousands (CDNs) cost little more than short ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxySet {
    networks: NetworkSet,
    unix: bool,
}

impl ProxySet {
    /// The union of `prefixes`, in any order, overlapping or not, and of all UNIX-socket peers if `unix`.
    pub fn new(prefixes: impl IntoIterator<Item = Prefix>, unix: bool) -> ProxySet {
        ProxySet { networks: NetworkSet::new(prefixes.into_iter().map(|prefix| (prefix, ()))), unix }
    }

    /// Whether `peer`, with IPv4-mapped IPv6 taken as IPv4, is in the set.
    pub fn contains(&self, peer: Peer) -> bool {
        match peer {
            Peer::Unix => self.unix,
            Peer::Ip(address) => self.networks.contains(address),
        }
    }

    /// Whether nobody is in the set.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.unix
    }

    /// Returns whether a peer in the network may be in the set.
    pub fn meets(&self, network: Prefix) -> bool {
        self.networks.meets(network)
    }

    /// The number of networks that its networks became.
    pub fn count(&self) -> usize {
        self.networks.count()
    }

    /// The memory of these.
    pub fn memory(&self) -> Bytes {
        self.networks.memory()
    }

    /// Returns whether every address of the network's family is in the set.
    fn is_everyone(&self, network: Prefix) -> bool {
        let ends: [IpAddr; 2] = match network.address() {
            IpAddr::V4(_) => [Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into()],
            IpAddr::V6(_) => [Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::from_bits(u128::MAX).into()],
        };
        // two trusted networks at both ends of all numbers are no network that anybody has
        ends.iter().all(|end| self.networks.contains(*end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(prefixes: &[&str]) -> ProxySet {
        ProxySet::new(prefixes.iter().map(|text| parse_cidr_or_everyone(text).unwrap().0), false)
    }

    fn ip(text: &str) -> Peer {
        Peer::Ip(text.parse().unwrap())
    }

    #[test]
    fn overlapping_and_touching_networks_become_one_range() {
        let proxies = set(&["10.0.1.0/24", "10.0.0.0/24", "10.0.0.128/25", "10.9.0.0/16", "fd00::/9", "fd80::/9"]);
        assert_eq!(proxies.networks.count(), 3);
        assert_eq!(proxies, set(&["fd00::/8", "10.9.0.0/16", "10.0.0.0/23"]));
    }

    #[test]
    fn contains_both_ends_of_a_network_and_nothing_beside_it() {
        let proxies = set(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);
        for inside in
            ["10.0.0.0", "10.255.255.255", "192.0.2.7", "2001:db8::", "2001:db8:ffff::ffff", "::ffff:10.1.1.1"]
        {
            assert!(proxies.contains(ip(inside)), "{inside}");
        }
        for outside in ["9.255.255.255", "11.0.0.0", "192.0.2.6", "192.0.2.8", "2001:db7:ffff::", "2001:db9::", "::"] {
            assert!(!proxies.contains(ip(outside)), "{outside}");
        }
        assert!(!proxies.contains(Peer::Unix));
        assert!(ProxySet::new([], true).contains(Peer::Unix));
    }

    #[test]
    fn the_whole_internet_is_one_family_and_both_ends_of_numbers_work() {
        let everyone = set(&["0.0.0.0/0", "255.255.255.255/32"]);
        assert!(everyone.contains(ip("0.0.0.0")) && everyone.contains(ip("255.255.255.255")));
        assert!(!everyone.contains(ip("2001:db8::1")));
        let last = set(&["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "ffff::/16"]);
        assert!(last.contains(ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")));
        assert!(set(&[]).is_empty() && !set(&[]).contains(ip("10.0.0.1")));
    }

    #[test]
    fn header_names_choose_their_reader_in_any_case() {
        assert_eq!("X-Forwarded-For".parse::<ForwardHeader>().unwrap(), ForwardHeader::XForwardedFor);
        assert_eq!("FORWARDED".parse::<ForwardHeader>().unwrap(), ForwardHeader::Forwarded);
        assert_eq!("CF-Connecting-IP".parse::<ForwardHeader>().unwrap().name(), "cf-connecting-ip");
        assert!("x forwarded".parse::<ForwardHeader>().is_err());
    }
}
