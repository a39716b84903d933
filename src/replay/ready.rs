//! What can be made of a request before its limits are asked, on another thread than theirs: the canonical texts, who the client
//! is and by which number it is counted, the route, and the hashes of the keys.
//!
//! It hangs on the log and the policy alone, and on no limit's state, so nothing is otherwise than if it were made in the moment of
//! the judgement. Requests come in the same order.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::clients::Clients;
use super::formats::FieldName;
use super::gate::{Canonical, Gate, SEED, Unjudged};
use super::record::{LoggedClient, Record};
use crate::client::key::KeyPart;
use crate::client::{self, Client, Mark};
use crate::engine::{Foreseen, Foresight, Refusal};
use crate::policy::Policy;
use crate::request::{Peer, Request};
use crate::sketch::KeyHasher;

/// What was made of one request.
#[derive(Debug)]
pub struct Ready {
    path: Text,
    host: Text,
    /// The method.
    pub method: Method,
    start: u64,
    counted: bool,
    /// Who asked.
    pub client: Client,
    /// Its number, once [`Readying::number`] has given it one: if the request is counted and its client told apart.
    pub number: Option<u32>,
    /// What the engine found ahead.
    pub foreseen: Foreseen,
}

/// A canonical text.
#[derive(Debug)]
enum Text {
    /// So many bytes from the beginning of what the log has, which are text.
    Logged(usize),
    /// What the caller says in its place.
    Given(Arc<str>),
    Other(Box<str>),
}

/// Makes requests ready for one policy.
#[derive(Debug)]
pub struct Readying {
    foresight: Foresight,
    canonical: Canonical,
    /// The host of requests whose log has none, in canonical form.
    host: Option<Arc<str>>,
    /// Only requests that this route takes are counted.
    route: Option<usize>,
    fields: Fields,
    headers: HeaderMap,
    clients: Clients,
}

impl Ready {
    /// The path, in canonical form.
    #[inline]
    pub fn path<'a>(&'a self, record: &Record<'a>) -> &'a str {
        self.path.of(record.path)
    }

    /// The host, in canonical form.
    #[inline]
    pub fn host<'a>(&'a self, record: &Record<'a>) -> &'a str {
        self.host.of(record.host.unwrap_or_default())
    }
}

impl Text {
    fn new(logged: &[u8], canonical: Cow<'_, str>) -> Text {
        match canonical {
            Cow::Borrowed(text) if text.as_ptr() == logged.as_ptr() && text.len() <= logged.len() => {
                Text::Logged(text.len())
            }
            other => Text::Other(other.into()),
        }
    }

    #[inline]
    fn of<'a>(&'a self, logged: &'a [u8]) -> &'a str {
        match self {
            // it was text when it was made
            Text::Logged(length) => std::str::from_utf8(logged.get(..*length).unwrap_or_default()).unwrap_or_default(),
            Text::Given(text) => text,
            Text::Other(text) => text,
        }
    }
}

impl Readying {
    /// For the policy of a [`Plan`](super::plan::Plan). Clients of requests that `route` does not take are not counted, if one is
    /// given.
    pub fn new(policy: Policy, canonical: Canonical, host: Option<&str>, route: Option<&str>) -> Readying {
        let route = route.map(|name| policy.routes.iter().position(|route| route.name == *name).unwrap_or(usize::MAX));
        Readying {
            fields: Fields::of(&policy),
            foresight: Gate::foresight(policy),
            canonical,
            host: host.map(|host| (canonical.host)(host).into()),
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
        let path = (self.canonical.path)(record.path).ok_or(Unjudged::Malformed)?;
        let method = Method::from_bytes(record.method).map_err(|_| Unjudged::Malformed)?;
        let host = match record.host {
            Some(host) => (self.canonical.host)(std::str::from_utf8(host).map_err(|_| Unjudged::Malformed)?),
            None => Cow::Borrowed(self.host.as_deref().unwrap_or_default()),
        };
        let host_text = |host| match (record.host, &self.host) {
            (Some(logged), _) => Text::new(logged, host),
            (None, Some(given)) => Text::Given(Arc::clone(given)),
            (None, None) => Text::Logged(0),
        };
        let peer = peer(record);
        let query = record.query.and_then(|query| std::str::from_utf8(query).ok());
        self.headers.clear();
        self.fields.fill(&mut self.headers, record);
        let headers = &self.headers;
        let request = Request { peer, method: &method, host: &host, path: &path, query, headers, tls_sni: None };
        // trust is off, so it is the peer and never refused
        let client = client::resolve(&self.foresight.policy().clients, peer, headers);
        let mut client = client.map_err(|_| Unjudged::Unresolved)?;
        client.mark = record.told.map_or(Mark::Verified, |told| mark(told.mark));
        let foreseen = self.foresight.foresee(&request, &client);
        let counted = self.route.is_none() || foreseen.route() == self.route;
        Ok(Ready {
            path: Text::new(record.path, path),
            host: host_text(host),
            method,
            start: record.start,
            counted,
            client,
            number: None,
            foreseen,
        })
    }

    /// Counts the request for its client, and says by which number. To be called for all in their order; for many at once rather
    /// than for one after each [`Readying::ready`], as the misses of a short loop overlap.
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
}

impl Fields {
    /// Of a policy.
    pub fn of(policy: &Policy) -> Fields {
        let (mut names, mut texts) = (Vec::new(), false);
        let keys = policy.rules.iter().flat_map(|rule| std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes));
        for part in keys.flat_map(|key| key.parts()) {
            match part {
                KeyPart::Header(name) => names.push(name.clone()),
                KeyPart::Cookie(_) => names.push(COOKIE),
                KeyPart::Host | KeyPart::Path => texts = true,
                KeyPart::ClientIp { .. }
                | KeyPart::Query(_)
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
        Fields { names, texts }
    }

    /// Whether a limit's key is made of the host or the path.
    pub fn holds_texts(&self) -> bool {
        self.texts
    }

    /// Adds the header fields that the log has.
    #[inline]
    pub fn fill(&self, headers: &mut HeaderMap, record: &Record<'_>) {
        if !self.names.is_empty() {
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
