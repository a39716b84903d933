//! The walk of [`resolve`](super::resolve), with each step kept: shows why a request counted for a client.
//!
//! Nothing is decided by it, and the elements are those that the walk itself
//! read, so the two cannot disagree.

use http::HeaderMap;

use super::trust::{ClientRules, MAX_ELEMENTS, Trust};
use super::{Client, ClientAddress, Mark, Unresolved, resolve_telling};
use crate::request::Peer;

/// Who asked, and how that came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What [`resolve`](super::resolve) says.
    pub client: Result<Client, Unresolved>,
    /// The peer, then every element that was read, from the right: 1 to 33.
    pub hops: Vec<Hop>,
}

/// One step of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Where it is; `None` for an element that could not be read.
    pub address: Option<ClientAddress>,
    /// What was thought of it.
    pub standing: Standing,
}

/// What a step of the walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A proxy that is believed, so that the walk went on to what it says.
    Trusted,
    /// One of the hops that `hops` promises; nobody looked at its address.
    Counted,
    /// Not to be read, which ended the walk, or counted as a hop where hops are counted.
    Unreadable,
    /// Where the walk ended.
    End,
}

impl Standing {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Trusted => "trusted",
            Standing::Counted => "counted",
            Standing::Unreadable => "unreadable",
            Standing::End => "end",
        }
    }
}

/// The client of a request, and the way to it. Allocates, unlike the walk itself.
pub fn trace(rules: &ClientRules, peer: Peer, headers: &HeaderMap) -> Trace {
    let mut read = Vec::with_capacity(MAX_ELEMENTS);
    let client = resolve_telling(rules, peer, headers, |element| read.push(*element));
    let (Ok(found) | Err(Unresolved { client: found })) = &client;
    let peer = match peer {
        Peer::Ip(address) => ClientAddress::Ip(crate::units::prefix::fold(address)),
        Peer::Unix => ClientAddress::Unix,
    };
    let believed = if found.peer_trusted { Standing::Trusted } else { Standing::End };
    let mut hops = vec![Hop { address: Some(peer), standing: believed }];
    let between = if matches!(rules.trust, Trust::Hops { .. }) { Standing::Counted } else { Standing::Trusted };
    hops.extend(read.iter().map(|element| match element {
        Some(address) => Hop { address: Some(ClientAddress::Ip(*address)), standing: between },
        None => Hop { address: None, standing: Standing::Unreadable },
    }));
    // a chain of proxies alone has an end, but nobody who is not one
    if found.mark != Mark::AllTrusted
        && let Some(end) = hops.get_mut(usize::from(found.hops)).filter(|end| end.standing != Standing::Unreadable)
        && (found.hops > 0 || !found.peer_trusted)
    {
        end.standing = Standing::End;
    }
    Trace { client, hops }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::client::trust::{ForwardHeader, OnDegraded, OnShort, ProxySet, parse_cidr};
    use crate::client::{resolve, trust};

    fn rules(hops: Option<u8>, header: &str) -> ClientRules {
        let proxies = ProxySet::new(["10.0.0.0/8", "198.51.100.0/24"].map(|text| parse_cidr(text).unwrap().0), true);
        let trust = match hops {
            Some(hops) => Trust::Hops { hops, from: proxies },
            None => Trust::Proxies(proxies),
        };
        ClientRules { trust, header: header.parse().unwrap(), ..ClientRules::default() }
    }

    fn headers(name: &str, value: &str) -> HeaderMap {
        let name = match name.parse::<ForwardHeader>().unwrap() {
            ForwardHeader::Single(name) => name,
            other => other.name().clone(),
        };
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    fn told(rules: &ClientRules, peer: &str, value: &str) -> Vec<String> {
        let headers = headers("x-forwarded-for", value);
        let trace = trace(rules, Peer::Ip(peer.parse().unwrap()), &headers);
        let shown = |hop: &Hop| {
            let address = hop.address.map_or("?".to_owned(), |address| address.to_string());
            format!("{address} {}", hop.standing.as_str())
        };
        trace.hops.iter().map(shown).collect()
    }

    #[test]
    fn every_step_of_the_walk_is_told() {
        let proxies = rules(None, "x-forwarded-for");
        assert_eq!(
            told(&proxies, "10.0.0.4", "192.0.2.1, 203.0.113.7, 198.51.100.20"),
            ["10.0.0.4 trusted", "198.51.100.20 trusted", "203.0.113.7 end"]
        );
        assert_eq!(told(&proxies, "203.0.113.9", "192.0.2.1"), ["203.0.113.9 end"]);
        assert_eq!(told(&proxies, "10.0.0.4", "garbage"), ["10.0.0.4 trusted", "? unreadable"]);
        assert_eq!(told(&proxies, "10.0.0.4", "10.0.0.5"), ["10.0.0.4 trusted", "10.0.0.5 trusted"]);
        let hops = rules(Some(2), "x-forwarded-for");
        assert_eq!(
            told(&hops, "10.0.0.4", "192.0.2.1, 203.0.113.7, 198.51.100.20"),
            ["10.0.0.4 trusted", "198.51.100.20 counted", "203.0.113.7 end"]
        );
        assert_eq!(told(&hops, "10.0.0.4", "203.0.113.7"), ["10.0.0.4 trusted", "203.0.113.7 counted"]);
    }

    proptest! {
        #[test]
        fn the_way_leads_to_whom_the_request_counts_for(
            hops in prop::option::of(0..4_u8),
            header in prop::sample::select(vec!["x-forwarded-for", "forwarded", "x-real-ip"]),
            reject: bool,
            peer in prop::sample::select(vec!["10.0.0.4", "198.51.100.1", "203.0.113.9", "::ffff:10.0.0.1"]),
            elements in prop::collection::vec(
                prop::sample::select(vec!["10.0.0.5", "198.51.100.2", "192.0.2.1", "garbage", "", "2001:db8::1"]), 0..40,
            ),
        ) {
            let mut rules = rules(hops, header);
            if reject {
                (rules.short, rules.degraded) = (OnShort::Reject, OnDegraded::Reject);
            }
            let value = match header {
                "forwarded" => elements.iter().map(|element| format!("for=\"{element}\"")).collect::<Vec<_>>().join(", "),
                _ => elements.join(", "),
            };
            let (headers, peer) = (headers(header, &value), Peer::Ip(peer.parse().unwrap()));
            let trace = trace(&rules, peer, &headers);
            prop_assert_eq!(&trace.client, &resolve(&rules, peer, &headers));
            let (Ok(client) | Err(Unresolved { client })) = trace.client;
            prop_assert!(trace.hops.len() <= trust::MAX_ELEMENTS + 1);
            let end = trace.hops.get(usize::from(client.hops)).copied();
            prop_assert_eq!(end.and_then(|hop| hop.address), Some(client.address));
            prop_assert_eq!(trace.hops.len() > 1, client.peer_trusted && trace.hops.len() > 1);
        }
    }
}
