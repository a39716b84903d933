//! The client of a request. Begin with [`resolve`].
//!
//! [`resolve`] turns the peer of the connection and one forwarding header into the [`Client`] that a request counts for. It
//! trusts no peer by default, reads the header of trusted peers only, and walks it from the right. An element that cannot be read
//! **stops** the walk: dropping it, or taking the leftmost element of too short a list, would let a client write its own address.
//! Results that a client can provoke (degraded, short, all trusted) have buckets of their own, so that no client can drain the
//! bucket of the hop.
//!
//! * [`trust`]: the trusted networks and the number of hops, valid by construction.
//! * [`address`]: text to address, and address to the network that is counted.
//! * [`networks`]: networks by address, up to millions. [`identity`]: the result. [`trace()`]: the way to it, hop by hop.
//! * [`mod@onward`]: the forwarding fields that the origin gets.
//! * [`label`]: a client as words that a door keeps for people. [`key`]: the key of a limit and its hash. [`values`]: the cookies and parameters of one name.
//! * [`subkey`]: one secret key for each purpose. [`store_names`]: the names of keys in a store.
//! * [`proxy_protocol`](tidegate_http::proxy_protocol): the client named by a proxy below HTTP.
//!
//! This is not authentication: an address says where a request came from, not who sent it.
//!
//! Sources: RFC 7239, RFC 9110 §5.6.1; the walk is the one that nginx, Envoy and Go's `realclientip` share where they agree.

pub mod address;
pub mod ban_terms;
mod cidr;
mod forwarded;
pub mod identity;
pub mod key;
mod key_part;
pub mod label;
pub mod networks;
pub mod onward;
pub mod store_names;
pub mod subkey;
pub mod trace;
pub mod trust;
pub mod values;
pub mod words;
mod x_forwarded_for;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, header};

pub use identity::{Client, ClientAddress, ClientNetwork, Mark, Source, Unresolved};
pub use key::{KeyMissing, KeyPart, KeySpec, Missing, NoKey};
pub use onward::{Field, Onward, Proto, onward};
pub use trace::{Hop, Standing, Trace, trace};
pub use trust::{ClientRules, CriticalityField, ForwardHeader, OnDegraded, OnShort, ProxySet, Trust};

use crate::request::Peer;
use crate::units::prefix::fold;
use trust::X_FORWARDED_FOR;

/// The client of a request that came from `peer` with these header fields. Allocates nothing; takes time for the 32
/// rightmost elements of the one header that the rules name, and for scanning it when that is `Forwarded`.
///
/// # Errors
/// Only with `short: reject` or `degraded: reject`, when the result has that mark.
pub fn resolve(rules: &ClientRules, peer: Peer, headers: &HeaderMap) -> Result<Client, Unresolved> {
    resolve_telling(rules, peer, headers, |_| {})
}

/// The same, telling every element as it is read, from the right; `None` is an unreadable one.
#[inline]
fn resolve_telling(
    rules: &ClientRules,
    peer: Peer,
    headers: &HeaderMap,
    tell: impl FnMut(&Option<IpAddr>),
) -> Result<Client, Unresolved> {
    let peer = match peer {
        Peer::Ip(address) => Peer::Ip(fold(address)),
        Peer::Unix => Peer::Unix,
    };
    if !rules.trust.believes(peer) {
        return Ok(Client::itself(rules, peer, claims_an_address(rules, headers)));
    }
    let (at, hops, mark) = match &rules.header {
        ForwardHeader::XForwardedFor => {
            walk(&rules.trust, peer, x_forwarded_for::rightmost_addresses(headers).inspect(tell))
        }
        ForwardHeader::Forwarded => match forwarded::Elements::scan(headers) {
            Ok(elements) => walk(&rules.trust, peer, elements.rightmost().map(forwarded::address_of).inspect(tell)),
            // the rightmost element counts as unreadable, and with it everything it could have led to
            Err(forwarded::Malformed) => (peer, 0, Mark::Degraded),
        },
        ForwardHeader::Single(name) => walk(&rules.trust, peer, single(headers, name).inspect(tell)),
    };
    let client = Client::found(rules, at, hops, mark);
    let refused = match mark {
        Mark::Short => rules.short == OnShort::Reject,
        Mark::Degraded => rules.degraded == OnDegraded::Reject,
        Mark::Verified | Mark::AllTrusted => false,
    };
    if refused { Err(Unresolved { client }) } else { Ok(client) }
}

/// Where the walk ended: who that is, how many elements from the right, and what to think of it.
type End = (Peer, u8, Mark);

/// Walks a trusted peer's elements, of which there are at most 32, from the right; `None` is an unreadable one.
fn walk(trust: &Trust, peer: Peer, elements: impl Iterator<Item = Option<IpAddr>>) -> End {
    match trust {
        Trust::Off => (peer, 0, Mark::Verified),
        Trust::Hops { hops, .. } => walk_hops(*hops, peer, elements),
        Trust::Proxies(proxies) => walk_proxies(proxies, peer, elements),
    }
}

/// Leftwards while the last address read is a trusted proxy.
fn walk_proxies(proxies: &ProxySet, peer: Peer, elements: impl Iterator<Item = Option<IpAddr>>) -> End {
    let (mut at, mut hops) = (peer, 0);
    for element in elements {
        let Some(address) = element else { return (at, hops, Mark::Degraded) };
        (at, hops) = (Peer::Ip(address), hops + 1);
        if !proxies.contains(at) {
            return (at, hops, Mark::Verified);
        }
    }
    // without a single element the trusted peer itself is asking, as proxies do for their health checks
    (at, hops, if hops == 0 { Mark::Verified } else { Mark::AllTrusted })
}

/// Exactly `promised` elements leftwards; every element counts, readable or not.
fn walk_hops(promised: u8, peer: Peer, elements: impl Iterator<Item = Option<IpAddr>>) -> End {
    let (mut nearest, mut nearest_hops) = (peer, 0);
    let mut hops = 0;
    for element in elements {
        hops += 1;
        if let Some(address) = element {
            (nearest, nearest_hops) = (Peer::Ip(address), hops);
        }
        if hops == promised {
            let mark = if element.is_some() { Mark::Verified } else { Mark::Degraded };
            return (nearest, nearest_hops, mark);
        }
    }
    (peer, 0, Mark::Short)
}

/// A header that holds one address as a list of at most one element: none when it is absent, an unreadable one when it
/// comes in several lines.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = Option<IpAddr>> + use<'a> {
    let mut lines = headers.get_all(name).into_iter();
    let element = lines.next().map(|line| match lines.next() {
        None => address::parse_element(x_forwarded_for::trimmed(line.as_bytes())),
        Some(_) => None,
    });
    element.into_iter()
}

/// Whether the request carries a header that a careless server would take the client's address from.
fn claims_an_address(rules: &ClientRules, headers: &HeaderMap) -> bool {
    !headers.is_empty()
        && (headers.contains_key(&X_FORWARDED_FOR)
            || headers.contains_key(header::FORWARDED)
            || matches!(&rules.header, ForwardHeader::Single(name) if headers.contains_key(name)))
}
