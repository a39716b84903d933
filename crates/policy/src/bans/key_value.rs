//! One key of a limit, written down by an operator: a request that has exactly that key.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Method, header};

use crate::client::key::{KeyPart, KeySpec};
use crate::client::{Client, ClientRules, Trust, resolve};
use crate::request::{Peer, Request};

/// A request that nobody sends, for its key.
#[derive(Debug)]
pub struct KeyRequest {
    method: Method,
    host: String,
    path: String,
    query: Option<String>,
    headers: HeaderMap,
    tls_sni: Option<String>,
    /// Its client.
    pub client: Client,
    /// The name of its route.
    pub route: String,
}

impl KeyRequest {
    /// The request itself.
    pub fn request(&self) -> Request<'_> {
        Request {
            peer: Peer::Unix,
            method: &self.method,
            host: &self.host,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &self.headers,
            tls_sni: self.tls_sni.as_deref(),
        }
    }
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyValueFault {
    /// The limit has one key for all requests.
    #[error("this limit has one key for all requests: there is no client in it to ban")]
    ForAll,
    /// The text has another number of values than the key has parts.
    #[error("found {found} values; this limit counts by {parts}: write {wanted}, with a comma between")]
    Count {
        /// Values in the text.
        found: usize,
        /// Parts of the key with a value.
        wanted: usize,
        /// The parts.
        parts: String,
    },
    /// A value cannot stand in a request.
    #[error("found {found:?}, which is no {part}")]
    Value {
        /// As written.
        found: String,
        /// The part.
        part: String,
    },
}

/// Makes a request that has the key of these values: one for each part of the key, in the key's order, with commas between. A key of
/// one part takes the whole text.
///
/// # Errors
/// There is no such request.
pub fn key_request(key: &KeySpec, rules: &ClientRules, text: &str) -> Result<KeyRequest, KeyValueFault> {
    let parts: Vec<&KeyPart> = key.parts().iter().filter(|part| **part != KeyPart::Global).collect();
    let values: Vec<&str> = if parts.len() == 1 { vec![text] } else { text.split(',').map(str::trim).collect() };
    if parts.is_empty() {
        return Err(KeyValueFault::ForAll);
    }
    if parts.len() != values.len() {
        let names: Vec<String> = parts.iter().map(ToString::to_string).collect();
        return Err(KeyValueFault::Count { found: values.len(), wanted: parts.len(), parts: names.join(", ") });
    }
    let rules = ClientRules { trust: Trust::Off, ..rules.clone() };
    let client = |peer| resolve(&rules, peer, &HeaderMap::new()).unwrap_or_else(|unresolved| unresolved.client);
    let mut made = KeyRequest {
        method: Method::GET,
        host: String::new(),
        path: "/".to_owned(),
        query: None,
        headers: HeaderMap::new(),
        tls_sni: None,
        client: client(Peer::Unix),
        route: String::new(),
    };
    for (part, value) in parts.into_iter().zip(values) {
        let fault = || KeyValueFault::Value { found: value.to_owned(), part: part.to_string() };
        match part {
            KeyPart::ClientIp { .. } if value == "unix" => made.client = client(Peer::Unix),
            KeyPart::ClientIp { .. } => {
                let address: IpAddr = value.parse().map_err(|_| fault())?;
                made.client = client(Peer::Ip(address));
            }
            KeyPart::Header(name) => {
                drop(made.headers.insert(name, HeaderValue::from_str(value).map_err(|_| fault())?));
            }
            KeyPart::Cookie(name) => {
                // several cookies of a key stand in one line
                let before = made.headers.get(header::COOKIE).and_then(|line| line.to_str().ok()).unwrap_or_default();
                let line = format!("{before}{}{name}={}", if before.is_empty() { "" } else { "; " }, escaped(value));
                made.headers.insert(header::COOKIE, HeaderValue::from_str(&line).map_err(|_| fault())?);
            }
            KeyPart::Query(name) => {
                let query = made.query.get_or_insert_default();
                query.push_str(&format!("{}{name}={}", if query.is_empty() { "" } else { "&" }, escaped(value)));
            }
            KeyPart::Host => made.host = value.to_ascii_lowercase(),
            KeyPart::Path | KeyPart::PathSegments(_) if !value.starts_with('/') => return Err(fault()),
            KeyPart::Path | KeyPart::PathSegments(_) => made.path = value.to_owned(),
            KeyPart::Method => made.method = value.parse().map_err(|_| fault())?,
            KeyPart::MethodClass => {
                made.method = match value {
                    "read" => Method::GET,
                    "write" => Method::POST,
                    _ => return Err(fault()),
                }
            }
            KeyPart::Route => made.route = value.to_owned(),
            KeyPart::TlsSni => made.tls_sni = Some(value.to_ascii_lowercase()),
            KeyPart::Global => {}
        }
    }
    Ok(made)
}

/// Every byte escaped, so that no reader takes one for a separator.
fn escaped(value: &str) -> String {
    value.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
