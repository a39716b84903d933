//! A request of a log, as a gate is asked about it: canonical texts, the client, the header fields that the policy reads.

use std::borrow::Cow;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tidegate_http::authority::canonical_host;
use tidegate_http::path::{EscapedSlash, path_of};

use super::line::FieldName;
use super::record::{LoggedClient, Record};
use crate::client::key::KeyPart;
use crate::client::{self, Client, ClientRules, Mark};
use crate::engine::Refusal;
use crate::gate::SEED;
use crate::policy::Policy;
use crate::request::{Peer, Request};
use crate::sketch::KeyHasher;

/// Why a request of a log is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unjudged {
    /// A live gate answers it with 400 before any limit is asked.
    Malformed,
    /// The gate that wrote the log refused it because its client could not be found.
    Unresolved,
}

/// A request, ready to be judged.
#[derive(Debug)]
pub struct Prepared<'r> {
    /// The line of the log.
    pub record: &'r Record<'r>,
    /// The client.
    pub client: Client,
    /// The method.
    pub method: Method,
    /// The path, in canonical form.
    pub path: Cow<'r, str>,
    host: Cow<'r, str>,
    peer: Peer,
    headers: &'r HeaderMap,
}

/// Prepares requests for one policy.
#[derive(Debug)]
pub struct Preparer {
    clients: ClientRules,
    escaped_slash: EscapedSlash,
    /// The host of requests whose log has none, in canonical form.
    host: String,
    /// The header fields that the policy reads.
    names: Vec<HeaderName>,
    headers: HeaderMap,
}

impl Prepared<'_> {
    /// The request.
    pub fn request(&self) -> Request<'_> {
        Request {
            peer: self.peer,
            method: &self.method,
            host: &self.host,
            path: &self.path,
            query: self.record.query.and_then(|query| std::str::from_utf8(query).ok()),
            headers: self.headers,
            tls_sni: None,
        }
    }
}

impl Preparer {
    /// For the policy of a [`Plan`](super::plan::Plan). `host`: that of requests whose log has none.
    pub fn new(policy: &Policy, escaped_slash: EscapedSlash, host: Option<&str>) -> Preparer {
        Preparer {
            clients: policy.clients.clone(),
            escaped_slash,
            host: canonical_host(host.unwrap_or_default()).into_owned(),
            names: names(policy),
            headers: HeaderMap::new(),
        }
    }

    /// Prepares a request.
    ///
    /// # Errors
    /// It is not for the limits to judge.
    #[inline]
    pub fn prepare<'r>(&'r mut self, record: &'r Record<'r>) -> Result<Prepared<'r>, Unjudged> {
        if record.told.is_some_and(|told| told.reason == Refusal::ClientUnresolved.word().as_bytes()) {
            return Err(Unjudged::Unresolved);
        }
        let path = path_of(record.path, self.escaped_slash).map_err(|_| Unjudged::Malformed)?;
        let method = Method::from_bytes(record.method).map_err(|_| Unjudged::Malformed)?;
        let host = match record.host {
            Some(host) => canonical_host(std::str::from_utf8(host).map_err(|_| Unjudged::Malformed)?),
            None => Cow::Borrowed(self.host.as_str()),
        };
        if !self.names.is_empty() {
            fill(&mut self.headers, &self.names, record);
        }
        let (peer, headers) = (peer(record), &self.headers);
        // trust is off, so the client is the peer and never refused
        let mut client = client::resolve(&self.clients, peer, headers).map_err(|_| Unjudged::Unresolved)?;
        client.mark = record.told.map_or(Mark::Verified, |told| mark(told.mark));
        Ok(Prepared { record, client, method, path, host, peer, headers })
    }
}

/// The header fields that the policy's keys, conditions and routes read. The log has already said who the client is.
fn names(policy: &Policy) -> Vec<HeaderName> {
    let keys = policy.rules.iter().flat_map(|rule| std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes));
    let of_keys = keys.flat_map(|key| key.parts()).filter_map(|part| match part {
        KeyPart::Header(name) => Some(name.clone()),
        KeyPart::Cookie(_) => Some(COOKIE),
        _ => None,
    });
    let conditions =
        policy.rules.iter().flat_map(|rule| rule.exempt.iter().chain(rule.tiers.iter().map(|tier| &tier.when)));
    let of_conditions = conditions.flat_map(|condition| &condition.headers).map(|(name, _)| name.clone());
    let matches = policy.routes.iter().flat_map(|route| &route.matches);
    let of_routes = matches.flat_map(|matched| &matched.headers).map(|(name, _)| name.clone());
    let mut names: Vec<HeaderName> = of_keys.chain(of_conditions).chain(of_routes).collect();
    names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    names
}

/// Replaces the header fields of another request by those of this one that are wanted.
fn fill(headers: &mut HeaderMap, wanted: &[HeaderName], record: &Record<'_>) {
    headers.clear();
    for (name, value) in record.fields() {
        let (name, value) = match &name {
            FieldName::Header(name) => (wanted.iter().find(|wanted| *wanted == &**name), Cow::Borrowed(value)),
            FieldName::Cookie(name) => {
                let line = [name.as_bytes(), b"=", value].concat();
                (wanted.iter().find(|wanted| **wanted == COOKIE), Cow::Owned(line))
            }
            FieldName::Query(_) => continue,
        };
        if let (Some(name), Ok(value)) = (name, HeaderValue::from_bytes(&value)) {
            headers.append(name, value);
        }
    }
}

/// The peer that a logged client is judged as. A name gets an address of its own out of a hash: in `fd00::/8`, which no public
/// client has, with the hash in the bits that clients are counted by.
fn peer(record: &Record<'_>) -> Peer {
    Peer::Ip(match record.client {
        LoggedClient::Address(address) => address,
        LoggedClient::Name(name) => {
            let mut hasher = KeyHasher::new(&SEED);
            hasher.part(0, name);
            let [low, _] = hasher.finish().halves();
            std::net::Ipv6Addr::from_bits(u128::from(0xfd << 56 | low >> 8) << 64).into()
        }
    })
}

fn mark(word: &[u8]) -> Mark {
    const MARKS: [Mark; 4] = [Mark::Verified, Mark::Degraded, Mark::Short, Mark::AllTrusted];
    MARKS.into_iter().find(|mark| mark.as_str().as_bytes() == word).unwrap_or(Mark::Verified)
}
