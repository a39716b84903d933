//! What the origin is told about the client, so that it cannot be fooled by what was ignored here.
//!
//! | peer | believed header | `X-Forwarded-For` | `Forwarded` | that single header |
//! |---|---|---|---|---|
//! | not trusted | `x-forwarded-for` | the peer | removed | |
//! | not trusted | `forwarded` | the peer | the peer | |
//! | not trusted | a single one | the peer | removed | removed |
//! | trusted | `x-forwarded-for` | as received, and the peer | removed | |
//! | trusted | `forwarded` | the chain believed | as received, and the peer | |
//! | trusted | a single one | the chain believed | removed | kept unless unreadable |
//!
//! *As received* is the rightmost elements in one line, at most 32 and at most 4 KiB: more than that nobody here has
//! read either, and positions counted from the right do not move. A malformed `Forwarded` is not appended to but
//! replaced, since an open quote would swallow our element. *The chain believed* is the client, the hops between, and
//! the peer, written anew. Either way an origin that believes one hop finds the peer, and one that trusts the same
//! proxies as we do finds the client. A peer without an address (UNIX socket) is `unknown`.
//!
//! Other headers that some servers take an address from (`X-Real-IP`, `X-Forwarded-Host` and the like) are not told
//! about here: [`hearsay`](tidegate_http::hearsay) lists them, and the face removes them.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};

use arrayvec::ArrayVec;
use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::forwarded::{self, Elements};
use super::identity::{Client, Mark};
use super::trust::{ClientRules, ForwardHeader, MAX_ELEMENTS};
use super::{single, x_forwarded_for};
use crate::request::Peer;
use crate::units::prefix::fold;

/// Upper bound of either header's value, our own element included. 32 elements with host and protocol fit.
pub const MAX_ONWARD_BYTES: usize = 4096;

/// The edits to a request's header fields before it goes to the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Onward<'a> {
    /// For `X-Forwarded-For`; always set.
    pub x_forwarded_for: Field,
    /// For `Forwarded`.
    pub forwarded: Field,
    /// A single header that was not believed, to be removed.
    pub remove: Option<&'a HeaderName>,
}

/// What becomes of all lines of a header field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// They are replaced by this one.
    Set(HeaderValue),
    /// They are removed.
    Remove,
}

/// The protocol that the peer used towards us, for `proto=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proto {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

/// The edits for a request from `peer` with these fields, which [`resolve`](super::resolve) made `client` of by the
/// same `rules`. Values lie in `memory`: where those of the request before are gone, this costs no allocation.
pub fn onward<'a>(
    rules: &'a ClientRules,
    peer: Peer,
    client: &Client,
    headers: &HeaderMap,
    proto: Proto,
    memory: &mut BytesMut,
) -> Onward<'a> {
    let peer = Hop::of(peer);
    if !client.peer_trusted {
        let believes_forwarded = rules.header == ForwardHeader::Forwarded;
        return Onward {
            x_forwarded_for: peer.as_list(memory),
            forwarded: if believes_forwarded {
                joined([].into_iter(), &peer.pairs(proto), memory)
            } else {
                Field::Remove
            },
            remove: match &rules.header {
                ForwardHeader::Single(name) => Some(name),
                _ => None,
            },
        };
    }
    match &rules.header {
        ForwardHeader::XForwardedFor => Onward {
            x_forwarded_for: joined(x_forwarded_for::rightmost(headers), &peer.to_text(), memory),
            forwarded: Field::Remove,
            remove: None,
        },
        ForwardHeader::Forwarded => match Elements::scan(headers) {
            Ok(elements) => Onward {
                x_forwarded_for: believed(client, elements.rightmost().map(forwarded::address_of), &peer, memory),
                forwarded: joined(elements.rightmost(), &peer.pairs(proto), memory),
                remove: None,
            },
            Err(forwarded::Malformed) => Onward {
                x_forwarded_for: peer.as_list(memory),
                forwarded: joined([].into_iter(), &peer.pairs(proto), memory),
                remove: None,
            },
        },
        ForwardHeader::Single(name) => Onward {
            x_forwarded_for: believed(client, single(headers, name), &peer, memory),
            forwarded: Field::Remove,
            remove: (client.mark == Mark::Degraded).then_some(name),
        },
    }
}

/// One place on the way from the client to us.
enum Hop {
    At(IpAddr),
    Unknown,
}

impl Hop {
    fn of(peer: Peer) -> Hop {
        match peer {
            Peer::Ip(address) => Hop::At(fold(address)),
            Peer::Unix => Hop::Unknown,
        }
    }

    /// As an element of `X-Forwarded-For`.
    fn to_text(&self) -> Text {
        match self {
            Hop::At(IpAddr::V4(address)) => dotted(*address),
            Hop::At(IpAddr::V6(address)) => text_of(address),
            Hop::Unknown => text_of(&"unknown"),
        }
    }

    /// As an element of `Forwarded`; IPv6 needs brackets and quotes (RFC 7239 §6).
    fn pairs(&self, proto: Proto) -> Text {
        let proto = match proto {
            Proto::Http => "http",
            Proto::Https => "https",
        };
        match self {
            Hop::At(IpAddr::V4(address)) => text_of(&format_args!("for={address};proto={proto}")),
            Hop::At(IpAddr::V6(address)) => text_of(&format_args!("for=\"[{address}]\";proto={proto}")),
            Hop::Unknown => text_of(&format_args!("for=unknown;proto={proto}")),
        }
    }

    /// As the only element of `X-Forwarded-For`.
    fn as_list(&self, memory: &mut BytesMut) -> Field {
        joined([].into_iter(), &self.to_text(), memory)
    }
}

/// One element of ours. The longest, `for="[…]";proto=https` round 39 characters, has 59.
type Text = ArrayVec<u8, 64>;

/// `text_of` in a twentieth of the time, as this is the peer of nearly every request.
fn dotted(address: Ipv4Addr) -> Text {
    let mut text = Text::new();
    for (place, octet) in address.octets().into_iter().enumerate() {
        if place > 0 {
            text.push(b'.');
        }
        if octet >= 100 {
            text.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            text.push(b'0' + octet / 10 % 10);
        }
        text.push(b'0' + octet % 10);
    }
    text
}

fn text_of(value: &dyn Display) -> Text {
    use std::io::Write;
    let mut text = Text::new();
    // cannot fail: see the length above; an element cut short would still be no more than unreadable
    let _ = write!(text, "{value}");
    text
}

/// The client, the elements to the right of it, and the peer. An element that was passed by unread stays a hop.
fn believed(
    client: &Client,
    from_right: impl Iterator<Item = Option<IpAddr>>,
    peer: &Hop,
    memory: &mut BytesMut,
) -> Field {
    let hops: ArrayVec<Text, MAX_ELEMENTS> = from_right
        .take(usize::from(client.hops).min(MAX_ELEMENTS))
        .map(|element| element.map_or(Hop::Unknown, Hop::At).to_text())
        .collect();
    joined(hops.iter().map(|hop| hop.as_slice()), &peer.to_text(), memory)
}

/// A list in one line: as many of the elements, which come last first, as the bound leaves room for, and `ours` at the
/// end. The first that does not fit ends it, so that what remains is the unbroken right end.
fn joined<'e>(from_right: impl Iterator<Item = &'e [u8]>, ours: &[u8], memory: &mut BytesMut) -> Field {
    const SEPARATOR: &[u8] = b", ";
    let mut size = ours.len();
    let kept: ArrayVec<&[u8], MAX_ELEMENTS> = from_right
        .take(MAX_ELEMENTS)
        .take_while(|element| {
            size += element.len() + SEPARATOR.len();
            size <= MAX_ONWARD_BYTES
        })
        .collect();
    memory.reserve(size.min(MAX_ONWARD_BYTES));
    for element in kept.iter().rev() {
        memory.extend_from_slice(element);
        memory.extend_from_slice(SEPARATOR);
    }
    memory.extend_from_slice(ours);
    // cannot fail: all bytes come from header values or printed addresses
    HeaderValue::from_maybe_shared(memory.split().freeze()).map_or(Field::Remove, Field::Set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_everybody_writes_it() {
        for address in ["0.0.0.0", "1.20.255.9", "100.110.101.99", "255.255.255.255", "10.0.200.5"] {
            assert_eq!(dotted(address.parse().unwrap()).as_slice(), address.as_bytes());
        }
    }
}
