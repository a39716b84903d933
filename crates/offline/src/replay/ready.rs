//! What can be made of a request before its limits are asked, on another thread than theirs: the canonical texts, who the client
//! is and by which number it is counted, the route, and the hashes of the keys.
//!
//! It hangs on the log and the policy alone, and on no limit's state, so nothing is otherwise than if it were made in the moment of
//! the judgement. Requests come in the same order.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tidegate_http::authority::canonical_host;
use tidegate_http::path::{EscapedSlash, path_of};

use super::clients::Clients;
use super::folded::hash_of;
use super::line::FieldName;
use super::record::{LoggedClient, Record};
use crate::client::key::KeyPart;
use crate::client::{self, Client, Mark};
use crate::engine::Refusal;
use crate::policy::Policy;
use crate::request::{Peer, Request};
use crate::sketch::{KeyHasher, Seed, bring_near};

/// Tables are hashed under a known seed, so that a replay says the same each time.
pub(super) const SEED: Seed = Seed::from_bytes(*b"tidegate replays");

/// Why a request of a log is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unjudged {
    /// A live gate answers it with 400 before any limit is asked.
    Malformed,
    /// The gate that wrote the log refused it because its client could not be told.
    Unresolved,
}

/// What was made of one request: all that most judgements need, so that another thread need not look into the line.
#[derive(Debug)]
pub struct Ready {
    start: u64,
    /// Who asked.
    pub client: Client,
    /// What the log says of its end.
    pub after: After,
    /// Its number, once [`Readying::number`] has given it one: if the request is counted and its client told apart.
    pub number: Option<u32>,
    /// So many bytes of the path and of the host, from the beginning of what the log has, are the canonical text.
    path: u32,
    host: u32,
    /// A hash of the canonical path, so that whoever only compares need not touch the text.
    pub path_hash: u64,
    /// The position of the method in [`METHODS`].
    method: u8,
    counted: bool,
    /// The line is one of our own log and says more than others.
    pub is_told: bool,
    /// The client is a name or a pseudonym in the log.
    pub is_named: bool,
    /// Texts that stand otherwise in the log, and seldom methods.
    rare: Option<Box<Rare>>,
}

/// What few requests have.
#[derive(Debug, Default)]
struct Rare {
    path: Option<Box<str>>,
    host: Option<Arc<str>>,
    method: Option<Method>,
}

/// What the log says of a request's end.
#[derive(Debug, Clone, Copy)]
pub struct After {
    /// Nanoseconds from its beginning; 0 when the log does not say it.
    pub duration: u64,
    /// The status of the answer; 0 when the log does not say it.
    pub status: u16,
    /// The answer's bytes.
    pub bytes: u64,
}

/// Those that nearly all requests have.
static METHODS: [Method; 9] = [
    Method::GET,
    Method::POST,
    Method::HEAD,
    Method::OPTIONS,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::CONNECT,
    Method::TRACE,
];

/// Makes requests ready for one policy.
#[derive(Debug)]
pub struct Readying {
    policy: Policy,
    escaped_slash: EscapedSlash,
    /// The host of requests whose log has none, in canonical form.
    host: Option<Arc<str>>,
    /// Only requests that this route takes are counted.
    route: Option<usize>,
    fields: Fields,
    headers: HeaderMap,
    clients: Clients,
}

impl Ready {
    /// Has what is read last of it brought near.
    #[inline]
    pub fn approach(&self) {
        bring_near(&self.client);
        bring_near(&self.after);
    }

    /// The path, in canonical form.
    #[inline]
    pub fn path<'a>(&'a self, record: &Record<'a>) -> &'a str {
        match self.rare.as_ref().and_then(|rare| rare.path.as_ref()) {
            Some(path) => path,
            None => beginning(record.path, self.path),
        }
    }

    /// The host, in canonical form.
    #[inline]
    pub fn host<'a>(&'a self, record: &Record<'a>) -> &'a str {
        match self.rare.as_ref().and_then(|rare| rare.host.as_ref()) {
            Some(host) => host,
            None => beginning(record.host.unwrap_or_default(), self.host),
        }
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> &Method {
        let rare = self.rare.as_ref().and_then(|rare| rare.method.as_ref());
        rare.or_else(|| METHODS.get(usize::from(self.method))).unwrap_or(&Method::GET)
    }
}

/// So many bytes of a text; it was one when they were counted.
#[inline]
fn beginning(logged: &[u8], length: u32) -> &str {
    std::str::from_utf8(logged.get(..length as usize).unwrap_or_default()).unwrap_or_default()
}

/// The length of a canonical text that the logged one begins with; `None` when it stands there otherwise.
#[inline]
fn length_in(logged: &[u8], canonical: &str) -> Option<u32> {
    let stands = canonical.as_ptr() == logged.as_ptr() && canonical.len() <= logged.len();
    if stands { u32::try_from(canonical.len()).ok() } else { None }
}

impl Readying {
    /// For the policy of a [`Plan`](super::plan::Plan). Clients of requests that `route` does not take are not counted, if one is
    /// given.
    pub fn new(policy: Policy, escaped_slash: EscapedSlash, host: Option<&str>, route: Option<&str>) -> Readying {
        let route = route.map(|name| policy.routes.iter().position(|route| route.name == *name).unwrap_or(usize::MAX));
        Readying {
            fields: Fields::of(&policy),
            policy,
            escaped_slash,
            host: host.map(|host| canonical_host(host).into()),
            route,
            headers: HeaderMap::new(),
            clients: Clients::default(),
        }
    }

    /// Makes the next request ready.
    ///
    /// # Errors
    /// It is not for the limits to judge.
    pub fn ready(&mut self, record: &Record<'_>) -> Result<Ready, Unjudged> {
        if record.told.is_some_and(|told| told.reason == Refusal::ClientUnresolved.word().as_bytes()) {
            return Err(Unjudged::Unresolved);
        }
        let path = path_of(record.path, self.escaped_slash).map_err(|_| Unjudged::Malformed)?;
        let (method, rare_method) = method(record.method)?;
        let host = match record.host {
            Some(host) => canonical_host(std::str::from_utf8(host).map_err(|_| Unjudged::Malformed)?),
            None => Cow::Borrowed(self.host.as_deref().unwrap_or_default()),
        };
        let peer = peer(record);
        let query = record.query.and_then(|query| std::str::from_utf8(query).ok());
        self.fields.fill(&mut self.headers, record);
        let headers = &self.headers;
        let known = rare_method.as_ref().or_else(|| METHODS.get(usize::from(method))).unwrap_or(&Method::GET);
        let request = Request { peer, method: known, host: &host, path: &path, query, headers, tls_sni: None };
        // trust is off, so it is the peer and never refused
        let client = client::resolve(&self.policy.clients, peer, headers);
        let mut client = client.map_err(|_| Unjudged::Unresolved)?;
        client.mark = record.told.map_or(Mark::Verified, |told| mark(told.mark));
        let counted = self.route.is_none_or(|route| {
            self.policy.routes.find(&request).is_ok_and(|found| found.is_some_and(|(index, _)| index == route))
        });
        let path_length = length_in(record.path, &path);
        // nobody asks for the host but keys
        let host_length = match record.host {
            Some(logged) => length_in(logged, &host),
            None => (host.is_empty() || !self.fields.texts).then_some(0),
        };
        let rare = (path_length.is_none() || host_length.is_none() || rare_method.is_some()).then(|| {
            let path = path_length.is_none().then(|| Box::from(&*path));
            let host = host_length.is_none().then(|| match (record.host, &self.host) {
                (None, Some(given)) => Arc::clone(given),
                _ => Arc::from(&*host),
            });
            Box::new(Rare { path, host, method: rare_method })
        });
        Ok(Ready {
            start: record.start,
            client,
            after: After { duration: record.duration.unwrap_or(0), status: record.status, bytes: record.bytes },
            number: None,
            path_hash: hash_of(path.as_bytes()),
            path: path_length.unwrap_or(0),
            host: host_length.unwrap_or(0),
            method,
            counted,
            is_told: record.told.is_some(),
            is_named: matches!(record.client, LoggedClient::Name(_)),
            rare,
        })
    }

    /// Has brought near what [`Readying::number`] will look at, in two steps: where the client is found, then what is found there.
    #[inline]
    pub fn approach(&self, ready: &Ready, is_found: bool) {
        match is_found {
            false => self.clients.approach(&ready.client.network),
            true => self.clients.approach_known(&ready.client.network),
        }
    }

    /// Counts the request for its client, and says by which number. To be called for all in their order.
    #[inline]
    pub fn number(&mut self, ready: &mut Ready) {
        if ready.counted {
            ready.number = self.clients.count(&ready.client.network, ready.start);
        }
    }

    /// The clients of all requests so far.
    pub fn into_clients(self) -> Clients {
        self.clients
    }
}

/// What of a request limits and routes read, beside what all have. What tells the client is not among it: the log has said who
/// it is.
#[derive(Debug)]
pub struct Fields {
    /// Header fields.
    names: Vec<HeaderName>,
    /// Whether a key is made of the host or the path. Conditions of limits ask for neither, and routes are found ahead.
    texts: bool,
    /// Whether one is made of the query.
    query: bool,
}

impl Fields {
    /// Of a policy.
    pub fn of(policy: &Policy) -> Fields {
        // routes are found by host and path
        let (mut names, texts, mut query) = (Vec::new(), true, false);
        let keys = policy.rules.iter().flat_map(|rule| std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes));
        for part in keys.flat_map(|key| key.parts()) {
            match part {
                KeyPart::Header(name) => names.push(name.clone()),
                KeyPart::Cookie(_) => names.push(COOKIE),
                KeyPart::Query(_) => query = true,
                KeyPart::Host
                | KeyPart::Path
                | KeyPart::PathSegments(_)
                | KeyPart::ClientIp { .. }
                | KeyPart::Method
                | KeyPart::MethodClass
                | KeyPart::Route
                | KeyPart::TlsSni
                | KeyPart::Global => {}
            }
        }
        for rule in &policy.rules {
            let conditions = rule.exempt.iter().chain(rule.tiers.iter().map(|tier| &tier.when));
            names.extend(conditions.flat_map(|condition| &condition.headers).map(|(name, _)| name.clone()));
        }
        let matches = policy.routes.iter().flat_map(|route| &route.matches);
        names.extend(matches.flat_map(|matched| &matched.headers).map(|(name, _)| name.clone()));
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Fields { names, texts, query }
    }

    /// Whether limits read nothing of it but the method and the client.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.names.is_empty() && !self.texts && !self.query
    }

    /// Whether a limit's key is made of the host or the path.
    pub fn holds_texts(&self) -> bool {
        self.texts
    }

    /// Puts the header fields that the log has in the place of those of another request.
    #[inline]
    pub fn fill(&self, headers: &mut HeaderMap, record: &Record<'_>) {
        if !self.names.is_empty() {
            headers.clear();
            self.fill_some(headers, record);
        }
    }

    fn fill_some(&self, headers: &mut HeaderMap, record: &Record<'_>) {
        for (name, value) in record.fields() {
            let (name, value) = match &name {
                FieldName::Header(name) => (self.names.iter().find(|wanted| *wanted == &**name), Cow::Borrowed(value)),
                FieldName::Cookie(name) => {
                    let line = [name.as_bytes(), b"=", value].concat();
                    (self.names.iter().find(|wanted| **wanted == COOKIE), Cow::Owned(line))
                }
                FieldName::Query(_) => continue,
            };
            if let (Some(name), Ok(value)) = (name, HeaderValue::from_bytes(&value)) {
                headers.append(name, value);
            }
        }
    }
}

/// The position of a method in [`METHODS`], or itself when it has none there.
#[inline]
fn method(logged: &[u8]) -> Result<(u8, Option<Method>), Unjudged> {
    if let Some(at) = (0_u8..).zip(&METHODS).find_map(|(at, known)| (known.as_str().as_bytes() == logged).then_some(at))
    {
        return Ok((at, None));
    }
    let method = Method::from_bytes(logged).map_err(|_| Unjudged::Malformed)?;
    Ok((0, Some(method)))
}

/// The peer that a logged client is judged as. A name gets an address of its own out of a hash: in `fd00::/8`, which no public
/// client has, with the hash in the bits that clients are counted by.
pub fn peer(record: &Record<'_>) -> Peer {
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
