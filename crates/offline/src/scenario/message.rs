//! The requests of a step, as the gate's own reader of heads would hand them on.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use http::{HeaderMap, HeaderValue, header};

use crate::config::case::{From, Step};
use crate::request::{Peer, Request};
use crate::units::Prefix;
use tidegate_http::path::{EscapedSlash, path_of};

/// What stands for the request's number.
pub const NUMBER: &str = "{n}";

/// Where the host does not matter there is one all the same, as every request has to name one.
const ANY_HOST: &str = "localhost";

/// The requests of one step: what is the same for all is made once.
#[derive(Debug)]
pub struct Messages<'a> {
    step: &'a Step,
    escaped_slash: EscapedSlash,
    host: &'a str,
    same: Option<Head>,
}

/// What of a request depends on its number.
#[derive(Debug, Clone)]
pub struct Head {
    /// `None`: no request with such a path comes as far as a decision.
    path: Option<String>,
    query: Option<String>,
    headers: HeaderMap,
}

impl<'a> Messages<'a> {
    /// Those of this step.
    pub fn new(step: &'a Step, escaped_slash: EscapedSlash) -> Messages<'a> {
        let host = step.url.host.as_deref().unwrap_or(ANY_HOST);
        let differ = step.url.target.contains(NUMBER) || step.headers.iter().any(|(_, value)| value.contains(NUMBER));
        let mut messages = Messages { step, escaped_slash, host, same: None };
        messages.same = (!differ).then(|| messages.make(0));
        messages
    }

    /// The head of the request at this position, from 0.
    pub fn head(&self, nth: u32) -> Cow<'_, Head> {
        match &self.same {
            Some(same) => Cow::Borrowed(same),
            None => Cow::Owned(self.make(nth)),
        }
    }

    /// What decisions are made about; `None` when the path is refused before.
    pub fn request<'h>(&'h self, nth: u32, head: &'h Head) -> Option<Request<'h>> {
        let named = self.step.url.secure && self.host.parse::<IpAddr>().is_err() && !self.host.starts_with('[');
        Some(Request {
            peer: peer(&self.step.from, nth),
            method: &self.step.method,
            host: self.host,
            path: head.path.as_deref()?,
            query: head.query.as_deref(),
            headers: &head.headers,
            tls_sni: named.then_some(self.host),
        })
    }

    /// The fields of the origin's answer.
    pub fn reply(&self) -> &HeaderMap {
        &self.step.reply.headers
    }

    /// Its first line for people: `GET https://shop.example.com/ from 192.0.2.1`.
    pub fn line(&self, nth: u32) -> String {
        let url = self.step.url.to_string().replace(NUMBER, &(u64::from(nth) + 1).to_string());
        let from = match peer(&self.step.from, nth) {
            Peer::Ip(address) => address.to_string(),
            Peer::Unix => "unix".to_owned(),
        };
        format!("{} {url} from {from}", self.step.method)
    }

    fn make(&self, nth: u32) -> Head {
        let number = (u64::from(nth) + 1).to_string();
        let filled = |text: &str| text.replace(NUMBER, &number);
        let target = filled(&self.step.url.target);
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target.as_str(), None),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &self.step.headers {
            // what could be none has been refused with the policy
            if let Ok(value) = HeaderValue::from_str(&filled(value)) {
                headers.append(name.clone(), value);
            }
        }
        if let (false, Ok(host)) = (headers.contains_key(header::HOST), HeaderValue::from_str(self.host)) {
            headers.insert(header::HOST, host);
        }
        if self.step.body > 0 {
            headers.entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(self.step.body));
        }
        Head { path: path_of(path.as_bytes(), self.escaped_slash).ok().map(Cow::into_owned), query, headers }
    }
}

impl Head {
    /// All fields.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// Whose connection the request at this position comes on.
pub fn peer(from: &[From], nth: u32) -> Peer {
    let length = u32::try_from(from.len()).unwrap_or(u32::MAX).max(1);
    match from.get((nth % length) as usize) {
        None | Some(From::Unix) => Peer::Unix,
        Some(From::Address(address)) => Peer::Ip(*address),
        Some(From::Network(network)) => Peer::Ip(address(network, nth / length)),
    }
}

/// The address of a network at this position, from its first on and round. In IPv6 wider than /64, the first of the next /64,
/// as one /64 is one home.
fn address(network: &Prefix, nth: u32) -> IpAddr {
    match network.address() {
        IpAddr::V4(first) => {
            let hosts = u64::from(u32::MAX) >> network.length().min(32);
            IpAddr::V4((first.to_bits() | (u64::from(nth) & hosts) as u32).into())
        }
        IpAddr::V6(first) => {
            let length = u32::from(network.length());
            let nth = u128::from(nth);
            let bits = match length {
                128 => 0,
                64.. => nth & (u128::MAX >> length),
                _ => (nth << 64) & (u128::MAX >> length),
            };
            IpAddr::V6(Ipv6Addr::from_bits(first.to_bits() | bits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_gone_through_and_round() {
        let at = |network: &str, length, nth| {
            address(&Prefix::new(network.parse().unwrap(), length).unwrap(), nth).to_string()
        };
        assert_eq!(at("198.51.100.0", 24, 7), "198.51.100.7");
        assert_eq!(at("198.51.100.0", 24, 256 + 7), "198.51.100.7");
        assert_eq!(at("0.0.0.0", 0, 7), "0.0.0.7");
        assert_eq!(at("2001:db8::", 32, 1), "2001:db8:0:1::");
        assert_eq!(at("2001:db8::", 32, 0x1_0002), "2001:db8:1:2::");
        assert_eq!(at("2001:db8::", 64, 7), "2001:db8::7");
        assert_eq!(at("::", 0, 7), "0:0:0:7::");
    }

    #[test]
    fn a_list_of_senders_takes_turns() {
        let from = [From::Unix, From::Network(Prefix::new("198.51.100.0".parse().unwrap(), 24).unwrap())];
        let seen: Vec<String> = (0..4).map(|nth| format!("{:?}", peer(&from, nth))).collect();
        assert_eq!(seen, ["Unix", "Ip(198.51.100.0)", "Unix", "Ip(198.51.100.1)"]);
    }
}
