//! Who a request counts for, and how sure that is.

use std::fmt;
use std::net::IpAddr;

use super::address::{key_network, keyed_as};
use super::trust::ClientRules;
use crate::request::Peer;
use crate::units::Prefix;

/// The client of one request. Small, copied freely, owns nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The client's address as read, IPv4-mapped IPv6 folded; not an identity, see [`Client::network`].
    pub address: ClientAddress,
    /// What the client is counted by, at the prefix lengths of the [`ClientRules`].
    pub network: ClientNetwork,
    /// How the address came about. All but [`Mark::Verified`] are counted in buckets of their own.
    pub mark: Mark,
    /// Whose word the address is.
    pub source: Source,
    /// Whether the peer may speak for others, and so whether its forwarding header is kept towards the origin.
    pub peer_trusted: bool,
    /// Whether a peer that may not speak for others sent a forwarding header all the same.
    pub ignored_header: bool,
    /// Which element from the right the address is, 1 to 32; 0 is the peer.
    pub hops: u8,
    /// The address that stands for this one in keys; `None` for a UNIX-socket peer.
    keyed: Option<IpAddr>,
}

impl Client {
    /// A peer whose word about others is not taken, folded already.
    #[inline]
    pub(super) fn itself(rules: &ClientRules, peer: Peer, ignored_header: bool) -> Client {
        Client { peer_trusted: false, ignored_header, ..Client::found(rules, peer, 0, Mark::Verified) }
    }

    /// Who a trusted peer's chain led to, folded already.
    #[inline]
    pub(super) fn found(rules: &ClientRules, at: Peer, hops: u8, mark: Mark) -> Client {
        let (address, keyed) = match at {
            // said apart because it is the common case, and because copying a whole `IpAddr` through both arms costs 20
            // ns
            Peer::Ip(IpAddr::V4(v4)) => (ClientAddress::Ip(IpAddr::V4(v4)), Some(IpAddr::V4(v4))),
            Peer::Ip(v6) => (ClientAddress::Ip(v6), Some(keyed_as(v6, &rules.translation))),
            Peer::Unix => (ClientAddress::Unix, None),
        };
        Client {
            address,
            network: network(keyed, rules.ipv4_prefix, rules.ipv6_prefix),
            mark,
            source: if hops == 0 { Source::Peer } else { Source::Forwarded },
            peer_trusted: true,
            ignored_header: false,
            hops,
            keyed,
        }
    }

    /// The same, of a peer that may speak for others or not, and that sent a forwarding header for nothing or not.
    pub(super) fn told(self, peer_trusted: bool, ignored_header: bool) -> Client {
        Client { peer_trusted, ignored_header, ..self }
    }

    /// Its address, and the one that stands for it in keys where that is another: the IPv4 address that a translator wrote into an
    /// IPv6 one. Neither for UNIX-socket peers.
    #[inline]
    pub fn addresses(&self) -> [Option<IpAddr>; 2] {
        let ClientAddress::Ip(address) = self.address else { return [None, None] };
        [Some(address), self.keyed.filter(|keyed| *keyed != address)]
    }

    /// What the client is counted by at other prefix lengths; `None` keeps the length of the [`ClientRules`]. Lengths
    /// beyond the family mean the whole address, and a 6to4 site is never split.
    pub fn network_for(&self, ipv4_prefix: Option<u8>, ipv6_prefix: Option<u8>) -> ClientNetwork {
        let length = if self.keyed.is_some_and(|address| address.is_ipv4()) { ipv4_prefix } else { ipv6_prefix };
        length.map_or(self.network, |length| network(self.keyed, length, length))
    }
}

#[inline]
fn network(keyed: Option<IpAddr>, ipv4_prefix: u8, ipv6_prefix: u8) -> ClientNetwork {
    keyed.map_or(ClientNetwork::Unix, |keyed| ClientNetwork::Prefix(key_network(keyed, ipv4_prefix, ipv6_prefix)))
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientAddress {
    /// An IP address, never IPv4-mapped.
    Ip(IpAddr),
    /// Behind a UNIX socket, and so without an address.
    Unix,
}

impl fmt::Display for ClientAddress {
    /// `203.0.113.9`, `2001:db8::7`, `unix`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientAddress::Ip(address) => address.fmt(f),
            ClientAddress::Unix => f.write_str("unix"),
        }
    }
}

/// What a client is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientNetwork {
    /// All addresses of a network are one client.
    Prefix(Prefix),
    /// All UNIX-socket peers are one client.
    Unix,
}

impl fmt::Display for ClientNetwork {
    /// `203.0.113.9`, `2001:db8::/64`, `unix`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientNetwork::Prefix(prefix) => prefix.fmt(f),
            ClientNetwork::Unix => f.write_str("unix"),
        }
    }
}

/// How a client's address came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// By the rules: the peer itself, or what trusted hops said.
    Verified,
    /// An unreadable element stopped the walk; the address is that of the last readable hop.
    Degraded,
    /// The chain has fewer elements than promised; the address is the peer's.
    Short,
    /// Every element read is a trusted proxy; the address is the leftmost.
    AllTrusted,
}

impl Mark {
    /// The word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Mark::Verified => "verified",
            Mark::Degraded => "degraded",
            Mark::Short => "short",
            Mark::AllTrusted => "all_trusted",
        }
    }
}

/// Whose word a client's address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The kernel's (or the PROXY protocol's, which replaces the peer before anything here): the socket's other end.
    Peer,
    /// A trusted peer's, in its forwarding header.
    Forwarded,
}

impl Source {
    /// The word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Peer => "peer",
            Source::Forwarded => "forwarded",
        }
    }
}

/// The policy refuses to serve a client whose address cannot be told: `short: reject` or `degraded: reject`. To be
/// answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unresolved {
    /// The client as far as it is known, for the log; its mark is the cause.
    pub client: Client,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.client.mark {
            Mark::Short => "the forwarding header has fewer addresses than promised",
            _ => "the forwarding header cannot be read",
        })
    }
}

impl std::error::Error for Unresolved {}
