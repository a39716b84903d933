//! Rows of vectors, and rules written as text.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_policy::client::address::parse_element;
use tidegate_policy::client::trust::parse_cidr;
use tidegate_policy::client::{Client, ClientRules, ForwardHeader, Mark, ProxySet, Trust, resolve};
use tidegate_policy::request::Peer;

/// One vector: from these rules, this peer and these field lines comes this key.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub number: &'a str,
    trust: &'a str,
    peer: &'a str,
    lines: &'a [&'a str],
    key: &'a str,
    why: &'a str,
}

pub const fn row<'a>(
    number: &'a str,
    trust: &'a str,
    peer: &'a str,
    lines: &'a [&'a str],
    key: &'a str,
    why: &'a str,
) -> Row<'a> {
    Row { number, trust, peer, lines, key, why }
}

/// Resolves every row and reports all that differ.
pub fn check(rows: &[Row<'_>], header: ForwardHeader) {
    let differ: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let found = shown(&client(row.trust, row.peer, row.lines, header.clone()));
            let Row { number, trust, peer, lines, key, why } = row;
            (found != *key).then(|| format!("{number}: {trust}, {peer}, {lines:?}: {found}, not {key} ({why})"))
        })
        .collect();
    assert!(differ.is_empty(), "{} of {} rows:\n{}", differ.len(), rows.len(), differ.join("\n"));
}

/// The key and mark of a request with these `X-Forwarded-For` lines.
pub fn client_of(trust: &str, peer: &str, lines: &[&str]) -> String {
    shown(&client(trust, peer, lines, ForwardHeader::XForwardedFor))
}

/// The client of a request whose forwarding header has these lines.
pub fn client(trust: &str, peer: &str, lines: &[&str], header: ForwardHeader) -> Client {
    let peer_named = if trust.starts_with("hops") && !trust.contains("from") {
        rules(&format!("{trust} from {peer}"))
    } else {
        rules(trust)
    };
    let headers = headers(header.name(), lines);
    resolve(&ClientRules { header, ..peer_named }, self::peer(peer), &headers).expect("nothing is rejected by default")
}

/// `203.0.113.9 (short)`, as the vectors are written.
pub fn shown(client: &Client) -> String {
    let mark = match client.mark {
        Mark::Verified => "",
        Mark::Degraded => " (degraded)",
        Mark::Short => " (short)",
        Mark::AllTrusted => " (all-trusted)",
    };
    format!("{}{mark}", client.network)
}

/// Rules from `off`, `hops N from ENTRY…` or `proxies ENTRY…`.
pub fn rules(trust: &str) -> ClientRules {
    let mut words = trust.split(' ');
    let kind = words.next();
    let trust = match kind {
        Some("off") => Trust::Off,
        Some("hops") => {
            let hops = words.next().unwrap().parse().unwrap();
            assert_eq!(words.next(), Some("from"));
            Trust::Hops { hops, from: proxies(words) }
        }
        Some("proxies") => Trust::Proxies(proxies(words)),
        _ => panic!("{trust}"),
    };
    ClientRules { trust, ..ClientRules::default() }
}

fn proxies<'a>(entries: impl Iterator<Item = &'a str>) -> ProxySet {
    let (unix, networks): (Vec<&str>, Vec<&str>) = entries.partition(|entry| *entry == "unix");
    ProxySet::new(networks.into_iter().map(|entry| parse_cidr(entry).unwrap().0), !unix.is_empty())
}

/// A socket's other end as the kernel gives it: mapped addresses stay mapped, zones are not part of an address.
pub fn peer(text: &str) -> Peer {
    if text == "unix" {
        return Peer::Unix;
    }
    Peer::Ip(text.parse::<IpAddr>().ok().or_else(|| parse_element(text.as_bytes())).unwrap())
}

/// A header map with these lines under one name.
pub fn headers(name: &HeaderName, lines: &[impl AsRef<[u8]>]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name.clone(), HeaderValue::from_bytes(line.as_ref()).unwrap());
    }
    headers
}
