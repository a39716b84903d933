//! What a limit counts by: a list of parts, and the hash of their values in one request.
//!
//! Bytes go to the keyed hash, of any length, each behind its kind and length, so that `("ab", "c")` and `("a", "bc")` are
//! different keys and nothing is ever cut, joined or allocated. Two requests have one key exactly when all parts are equal:
//!
//! * **`client_ip`**: the binary network of the [`Client`], in a namespace per [`Mark`].
//! * **`header:NAME`**: its line, by bytes. A list in one line is one value. A request with several lines of a field that a
//!   limit reads is refused before it is counted, or has one line left ([`crate::policy::RepeatedFields`]); where neither is
//!   so (in shadow), all lines in their order are the value.
//! * **`cookie:NAME`**, **`query:NAME`**: each different value of that name, decoded as [`values`] says. So a
//!   client cannot write one value in several ways, and a second value buys nothing: a request that has several is
//!   counted under each.
//! * **`tls_sni`**: the name in the TLS handshake, as it stands in the [`Request`]; missing on plain connections.
//! * **`path:segments=N`**: the path up to its N-th segment: `/a/b` of `/a/b/c` by 2. A shorter path is itself. On a route that
//!   ignores spellings, both are made of the path without them ([`crate::policy::Route::counted`]).
//! * **`host`**, **`path`**, **`method`**, **`route`**: as they stand in the [`Request`]; `method_class` is `read` for
//!   the safe methods of RFC 9110 §9.2.1 and `write` for all others; **`global`** is one key for all.
//!
//! A request has one key, or as many as there are combinations of its different values, up to [`MOST_KEYS`].
//!
//! A header, cookie, parameter or `tls_sni` is whatever a stranger wrote: only `client_ip` says something about who is asking.

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName, Method};

use super::identity::{Client, ClientNetwork, Mark};
use super::values::{self, MOST_VALUES, TooMany};
use crate::request::Request;
use crate::sketch::hash::{KeyHash, KeyHasher, KeyInput, Seed};

pub use super::key_part::{FORMS, KeyFault, KeyPart, MAX_PARTS, PartFault, is_hop_by_hop};

/// The most keys of one request under one limit.
pub const MOST_KEYS: usize = MOST_VALUES;

/// Something of each key of one request under one limit. Only a request with several values of one name has more than one.
pub type Keys<T> = ArrayVec<T, MOST_KEYS>;

/// What a limit does with a request that lacks a part of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The limit does not apply.
    Allow,
    /// The request is refused.
    Deny,
}

/// What a limit counts by: one to [`MAX_PARTS`] different parts, and an answer for when one is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    parts: ArrayVec<KeyPart, MAX_PARTS>,
    missing: Missing,
}

impl KeySpec {
    /// `missing` may be left out when no part can be missing.
    ///
    /// # Errors
    /// No parts, too many, one twice, or no `missing` where a part can be missing.
    pub fn new(parts: impl IntoIterator<Item = KeyPart>, missing: Option<Missing>) -> Result<KeySpec, KeyFault> {
        let mut kept: ArrayVec<KeyPart, MAX_PARTS> = ArrayVec::new();
        for part in parts {
            if kept.contains(&part) {
                return Err(KeyFault::Repeated(part));
            }
            kept.try_push(part).map_err(|_| KeyFault::TooMany)?;
        }
        if kept.is_empty() {
            return Err(KeyFault::Empty);
        }
        let missing = match (missing, kept.iter().find(|part| part.can_be_missing())) {
            (Some(missing), _) => missing,
            (None, None) => Missing::Deny,
            (None, Some(part)) => return Err(KeyFault::NoMissing(part.clone())),
        };
        Ok(KeySpec { parts: kept, missing })
    }

    /// The parts, in the order in which they are hashed.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// What to do when one is missing.
    pub fn missing(&self) -> Missing {
        self.missing
    }

    /// The first key of a request on the route of that name, under any seed. Allocates nothing; takes
    /// time for the header, cookies and query that it reads.
    ///
    /// # Errors
    /// The request lacks a part, or has too many values of one.
    pub fn hash(&self, request: &Request<'_>, client: &Client, route: &str, seed: &Seed) -> Result<KeyHash, NoKey<'_>> {
        let mut keys = Keys::from_iter([KeyHasher::new(seed)]);
        self.add_to(&mut keys, request, client, route)?;
        Ok(keys.into_iter().next().map(KeyHasher::finish).unwrap_or_default())
    }

    /// Adds the parts of a request's key to a hash in the making, or to a name in a store. `keys` holds one when it begins,
    /// and as many as the request has keys at the end. The request is read once, however many those are.
    ///
    /// # Errors
    /// As for [`KeySpec::hash`].
    pub fn add_to<I: KeyInput + Clone>(
        &self,
        keys: &mut Keys<I>,
        request: &Request<'_>,
        client: &Client,
        route: &str,
    ) -> Result<(), NoKey<'_>> {
        for part in &self.parts {
            let present = match part {
                KeyPart::ClientIp { ipv4_prefix, ipv6_prefix } => {
                    add_client(keys, client, client.network_for(*ipv4_prefix, *ipv6_prefix))
                }
                KeyPart::Header(name) => add_header(keys, request.headers, name),
                KeyPart::Cookie(_) | KeyPart::Query(_) => {
                    add_values(keys, part, request).map_err(|TooMany| NoKey::TooMany)?
                }
                part => add_part(keys, part, request, route),
            };
            present.ok_or(KeyMissing { part, then: self.missing })?;
        }
        Ok(())
    }
}

/// Why a request cannot be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKey<'a> {
    /// It lacks a part of the key.
    Missing(KeyMissing<'a>),
    /// It has more than [`MOST_KEYS`] keys.
    TooMany,
}

impl<'a> From<KeyMissing<'a>> for NoKey<'a> {
    fn from(missing: KeyMissing<'a>) -> NoKey<'a> {
        NoKey::Missing(missing)
    }
}

/// A request lacks a part of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyMissing<'a> {
    /// The part.
    pub part: &'a KeyPart,
    /// What the policy says to that.
    pub then: Missing,
}

/// Numbers of the parts as the hash sees them.
mod kind {
    pub const CLIENT_IP: u8 = 1;
    pub const HEADER_LINES: u8 = 2;
    pub const HEADER: u8 = 3;
    pub const COOKIE: u8 = 4;
    pub const QUERY: u8 = 5;
    pub const HOST: u8 = 6;
    pub const PATH: u8 = 7;
    pub const METHOD: u8 = 8;
    pub const METHOD_CLASS: u8 = 9;
    pub const ROUTE: u8 = 10;
    pub const GLOBAL: u8 = 11;
    pub const TLS_SNI: u8 = 12;
    pub const PATH_SEGMENTS: u8 = 13;
}

/// Adds the values of a cookie or parameter, each to all keys so far; `None` if there is none.
#[inline(never)]
fn add_values<I: KeyInput + Clone>(
    keys: &mut Keys<I>,
    part: &KeyPart,
    request: &Request<'_>,
) -> Result<Option<()>, TooMany> {
    let (kind, found) = match part {
        KeyPart::Cookie(name) => (kind::COOKIE, values::cookies(request.headers, name)?),
        KeyPart::Query(name) => (kind::QUERY, values::parameters(request.query.unwrap_or_default(), name)?),
        _ => return Ok(None),
    };
    let begun = std::mem::take(keys);
    for value in &found {
        let mut with = begun.clone();
        match value.as_sent() {
            Some(bytes) => with.part(kind, bytes),
            None => with.part_of(kind, value.bytes().count(), value.bytes()),
        }
        for key in with {
            keys.try_push(key).map_err(|_| TooMany)?;
        }
    }
    Ok((!found.is_empty()).then_some(()))
}

/// Adds any part but a client's address, of which most keys are made, or what a request may have several of.
#[inline(never)]
fn add_part(hasher: &mut impl KeyInput, part: &KeyPart, request: &Request<'_>, route: &str) -> Option<()> {
    match part {
        // those are not added here
        KeyPart::ClientIp { .. } | KeyPart::Header(_) | KeyPart::Cookie(_) | KeyPart::Query(_) => None,
        KeyPart::Host => add(hasher, kind::HOST, Some(request.host.as_bytes())),
        KeyPart::Path => add(hasher, kind::PATH, Some(request.path.as_bytes())),
        KeyPart::PathSegments(count) => {
            add(hasher, kind::PATH_SEGMENTS, Some(first_segments(request.path, *count).as_bytes()))
        }
        KeyPart::Method => add(hasher, kind::METHOD, Some(request.method.as_str().as_bytes())),
        KeyPart::MethodClass => add(hasher, kind::METHOD_CLASS, Some(method_class(request.method))),
        KeyPart::Route => add(hasher, kind::ROUTE, Some(route.as_bytes())),
        KeyPart::TlsSni => add(hasher, kind::TLS_SNI, request.tls_sni.map(str::as_bytes)),
        KeyPart::Global => add(hasher, kind::GLOBAL, Some(&[])),
    }
}

/// The path up to the slash that ends its first `count` segments.
fn first_segments(path: &str, count: u8) -> &str {
    let end = path.match_indices('/').nth(usize::from(count)).map(|(at, _)| at);
    end.and_then(|end| path.get(..end)).unwrap_or(path)
}

/// Adds a part that may be missing.
fn add(hasher: &mut impl KeyInput, kind: u8, bytes: Option<&[u8]>) -> Option<()> {
    hasher.part(kind, bytes?);
    Some(())
}

/// Namespace, family, length and address; of a UNIX-socket peer the namespace alone.
/// Adds the client, counted by this network.
pub fn add_client(hasher: &mut impl KeyInput, client: &Client, network: ClientNetwork) -> Option<()> {
    let namespace = match client.mark {
        Mark::Verified => 0,
        Mark::Degraded => 1,
        Mark::Short => 2,
        Mark::AllTrusted => 3,
    };
    let mut bytes = [0; 19];
    let [first, rest @ ..] = &mut bytes;
    let mut used = 1;
    *first = namespace;
    if let ClientNetwork::Prefix(prefix) = network {
        let length;
        (*rest, length) = prefix.key_bytes();
        used += length;
    }
    hasher.part(kind::CLIENT_IP, bytes.get(..used)?);
    Some(())
}

/// How many lines there are, then each.
fn add_header(hasher: &mut impl KeyInput, headers: &HeaderMap, name: &HeaderName) -> Option<()> {
    let lines = headers.get_all(name);
    let count = lines.iter().count() as u64;
    if count == 0 {
        return None;
    }
    hasher.part(kind::HEADER_LINES, &count.to_le_bytes());
    for line in lines {
        hasher.part(kind::HEADER, line.as_bytes());
    }
    Some(())
}

fn method_class(method: &Method) -> &'static [u8] {
    if method.is_safe() { b"read" } else { b"write" }
}
