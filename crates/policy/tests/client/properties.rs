//! Laws that hold for any header, among them the one that matters: a client cannot write its own address.

use std::net::IpAddr;

use http::HeaderMap;
use proptest::prelude::*;
use tidegate_limits::units::prefix::fold;
use tidegate_policy::client::address::{parse_element, parse_node};
use tidegate_policy::client::{Client, ClientAddress, ClientRules, ForwardHeader, Mark, Source, resolve};
use tidegate_policy::request::Peer;

use crate::support::{headers, rules};

/// Any byte that a header value may have, with those that have a meaning in lists more often.
fn text(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => prop::sample::select(&b"\",;=\\ \tfor[]:._1%"[..]),
        1 => any::<u8>().prop_filter("no header value", |byte| *byte == b'\t' || (*byte >= 32 && *byte != 127)),
    ];
    prop::collection::vec(byte, 0..longest)
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        3 => any::<[u8; 4]>().prop_map(IpAddr::from),
        3 => any::<[u8; 3]>().prop_map(|[b, c, d]| IpAddr::from([10, b, c, d])),
        2 => any::<[u16; 8]>().prop_map(IpAddr::from),
        1 => any::<[u8; 4]>().prop_map(|v4| IpAddr::V6(std::net::Ipv4Addr::from(v4).to_ipv6_mapped())),
    ]
}

/// An element of `X-Forwarded-For`: mostly an address in one of its texts, sometimes none.
fn element() -> impl Strategy<Value = String> {
    let spelled = (address(), any::<u16>(), 0..3).prop_map(|(address, port, spelling)| match (address, spelling) {
        (IpAddr::V4(v4), 1) => format!("{v4}:{port}"),
        (IpAddr::V6(v6), 1) => format!("[{v6}]:{port}"),
        (IpAddr::V6(v6), 2) => format!("[{v6}]"),
        (address, _) => address.to_string(),
    });
    let junk =
        prop::sample::select(&["unknown", "01.2.3.4", "1.2.3", "::", "a b", "\"1.2.3.4\"", "_x", "1.2.3.4:"][..]);
    prop_oneof![6 => spelled, 1 => junk.prop_map(str::to_owned)]
}

/// The same as an element of `Forwarded`, always well-formed, sometimes with a host that a client made up to be read as
/// list structure once an open quote before it turns quoting inside out.
fn pairs() -> impl Strategy<Value = String> {
    (element(), 0..4).prop_map(|(element, spelling)| {
        let bare_v6 = element.parse::<std::net::Ipv6Addr>().is_ok();
        let node = if bare_v6 { format!("[{element}]") } else { element };
        let node = node.replace('\\', "\\\\").replace('"', "\\\"");
        match spelling {
            0 => format!("for=\"{node}\""),
            1 => format!("host=\",for=6.6.6.6;x=\"; For=\"{node}\""),
            2 => format!("for=\"{node}\";by=_me;host=\",for=6.6.6.6,\\\"\""),
            _ => format!("for=\"{node}\";host=\"\";proto=https"),
        }
    })
}

fn trust() -> impl Strategy<Value = ClientRules> {
    prop_oneof![
        Just(rules("proxies 10.0.0.0/8")),
        Just(rules("proxies 10.0.0.0/8 2000::/3 1.0.0.0/8")),
        (1u8..6).prop_map(|hops| rules(&format!("hops {hops} from 10.0.0.0/8"))),
    ]
}

const PEER: Peer = Peer::Ip(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));

fn resolved(rules: &ClientRules, header: &ForwardHeader, lines: &[impl AsRef<[u8]>]) -> Client {
    let rules = ClientRules { header: header.clone(), ..rules.clone() };
    resolve(&rules, PEER, &headers(header.name(), lines)).unwrap()
}

/// Joins a list over lines: after each element, `true` begins a new line.
fn over_lines(elements: &[String], breaks: &[bool]) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (at, element) in elements.iter().enumerate() {
        let line = lines.last_mut().unwrap();
        line.push_str(element);
        if at + 1 < elements.len() {
            if breaks[at % breaks.len()] { lines.push(String::new()) } else { line.push_str(" ,") }
        }
    }
    lines
}

/// The specification, restated as slowly and plainly as possible: who the client is, and the mark.
fn model(rules: &ClientRules, lines: &[String]) -> (Peer, Mark) {
    let list = lines.join(",");
    let elements: Vec<&str> = list.split(',').map(|text| text.trim_matches([' ', '\t'])).collect();
    let elements: Vec<&str> = elements.into_iter().filter(|text| !text.is_empty()).collect();
    let rightmost: Vec<Option<Peer>> =
        elements.iter().rev().take(32).map(|text| parse_element(text.as_bytes()).map(Peer::Ip)).collect();
    match &rules.trust {
        tidegate_policy::client::Trust::Off => (PEER, Mark::Verified),
        tidegate_policy::client::Trust::Hops { hops, .. } => {
            let hops = usize::from(*hops);
            match rightmost.get(hops - 1) {
                None => (PEER, Mark::Short),
                Some(Some(client)) => (*client, Mark::Verified),
                Some(None) => {
                    let nearest = rightmost[..hops - 1].iter().rev().find_map(|element| *element);
                    (nearest.unwrap_or(PEER), Mark::Degraded)
                }
            }
        }
        tidegate_policy::client::Trust::Proxies(proxies) => {
            let walked: Vec<Option<Peer>> = std::iter::once(Some(PEER)).chain(rightmost).collect();
            let trusted = walked.iter().take_while(|hop| hop.is_some_and(|hop| proxies.contains(hop))).count();
            match walked.get(trusted) {
                Some(Some(client)) => (*client, Mark::Verified),
                Some(None) => (walked[trusted - 1].unwrap(), Mark::Degraded),
                None if walked.len() == 1 => (PEER, Mark::Verified),
                None => (walked[trusted - 1].unwrap(), Mark::AllTrusted),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_global_rejects: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_plain_model(
        rules in trust(),
        elements in prop::collection::vec(prop_oneof![8 => element(), 1 => Just(String::new())], 0..8),
        breaks in prop::collection::vec(any::<bool>(), 1..4),
    ) {
        let lines = over_lines(&elements, &breaks);
        let client = resolved(&rules, &ForwardHeader::XForwardedFor, &lines);
        let (expected, mark) = model(&rules, &lines);
        let address = match client.address {
            ClientAddress::Ip(address) => Peer::Ip(address),
            ClientAddress::Unix => Peer::Unix,
        };
        prop_assert_eq!((address, client.mark), (expected, mark), "{:?}", lines);
    }

    #[test]
    fn text_left_of_a_verified_client_never_changes_the_key(
        rules in trust(),
        elements in prop::collection::vec(element(), 1..6),
        forged in text(100),
        own_line: bool,
    ) {
        let header = ForwardHeader::XForwardedFor;
        let list = elements.join(",").into_bytes();
        let honest = resolved(&rules, &header, &[&list]);
        prop_assume!(honest.mark == Mark::Verified && honest.source == Source::Forwarded);
        let lines = if own_line { vec![forged, list] } else { vec![[forged, b", ".to_vec(), list].concat()] };
        prop_assert_eq!(resolved(&rules, &header, &lines), honest);
    }

    #[test]
    fn text_left_of_a_verified_client_degrades_forwarded_or_changes_nothing(
        rules in trust(),
        elements in prop::collection::vec(pairs(), 1..6),
        forged in text(100),
        own_line: bool,
    ) {
        let header = ForwardHeader::Forwarded;
        let list = elements.join(",").into_bytes();
        let honest = resolved(&rules, &header, &[&list]);
        prop_assume!(honest.mark == Mark::Verified && honest.source == Source::Forwarded);
        let lines = if own_line { vec![forged, list] } else { vec![[forged, b", ".to_vec(), list].concat()] };
        let client = resolved(&rules, &header, &lines);
        prop_assert!(client == honest || client.mark == Mark::Degraded, "{:?}", client);
        if client.mark == Mark::Degraded {
            prop_assert_eq!(client.source, Source::Peer, "nothing of a malformed header is believed");
        }
    }

    #[test]
    fn splitting_a_list_over_lines_never_changes_the_client(
        rules in trust(),
        plain in prop::collection::vec(element(), 0..8),
        paired in prop::collection::vec(pairs(), 0..8),
        breaks in prop::collection::vec(any::<bool>(), 1..8),
    ) {
        for (header, elements) in [(ForwardHeader::XForwardedFor, plain), (ForwardHeader::Forwarded, paired)] {
            let one = resolved(&rules, &header, &[elements.join(",")]);
            prop_assert_eq!(resolved(&rules, &header, &over_lines(&elements, &breaks)), one);
        }
    }

    #[test]
    fn mapping_ipv4_into_ipv6_never_changes_the_client(
        rules in trust(),
        addresses in prop::collection::vec(any::<[u8; 4]>().prop_map(std::net::Ipv4Addr::from), 0..5),
    ) {
        let join = |write: fn(&std::net::Ipv4Addr) -> String| addresses.iter().map(write).collect::<Vec<_>>().join(",");
        let plain = join(|v4| v4.to_string());
        let mapped = join(|v4| v4.to_ipv6_mapped().to_string());
        let hexadecimal = join(|v4| format!("[::FFFF:{:x}:{:x}]:80", v4.to_bits() >> 16, v4.to_bits() & 0xffff));
        let header = ForwardHeader::XForwardedFor;
        let client = resolved(&rules, &header, &[plain]);
        prop_assert_eq!(resolved(&rules, &header, std::slice::from_ref(&mapped)), client);
        prop_assert_eq!(resolved(&rules, &header, &[hexadecimal]), client);
        let mapped_peer = Peer::Ip("::ffff:10.0.0.1".parse().unwrap());
        prop_assert_eq!(resolve(&rules, mapped_peer, &headers(header.name(), &[mapped])).unwrap(), client);
    }

    #[test]
    fn reading_what_was_printed_is_the_identity(address in address()) {
        let folded = fold(address);
        prop_assume!(!folded.is_unspecified());
        prop_assert_eq!(parse_element(address.to_string().as_bytes()), Some(folded));
        let node = if address.is_ipv4() { address.to_string() } else { format!("[{address}]") };
        prop_assert_eq!(parse_element(node.as_bytes()), Some(folded));
        prop_assert_eq!(parse_node(node.as_bytes()), Some(folded));
    }

    /// The standard library's reader is an independent judge of plain IPv4 and IPv6 text.
    #[test]
    fn plain_addresses_are_those_of_the_standard_library(text in "([0-9a-fA-F]{0,5}|[0-9]{1,3}\\.[0-9.]{1,11}|:){1,18}") {
        let expected = text.parse().ok().map(fold).filter(|address| !address.is_unspecified());
        let port = text.parse::<std::net::SocketAddrV4>().is_ok();
        if !port {
            prop_assert_eq!(parse_element(text.as_bytes()), expected, "{}", text);
        }
    }

    #[test]
    fn ipv6_with_groups_cut_out_is_that_of_the_standard_library(
        groups in prop::collection::vec(0u16..=0xffff, 0..9),
        gap in prop::option::of(0usize..9),
        tail in prop::option::of(any::<[u8; 4]>()),
    ) {
        let mut words: Vec<String> = groups.iter().map(|group| format!("{group:x}")).collect();
        words.extend(tail.map(|v4| std::net::Ipv4Addr::from(v4).to_string()));
        if let Some(at) = gap {
            let ends = at == 0 || at >= words.len();
            words.insert(at.min(words.len()), if ends { ":".into() } else { String::new() });
        }
        let text = words.join(":").replace(":::", "::");
        let expected = text.parse().ok().map(fold).filter(|address: &IpAddr| !address.is_unspecified());
        prop_assert_eq!(parse_element(text.as_bytes()), expected, "{}", text);
    }

    #[test]
    fn what_is_read_prints_and_reads_back(text in text(40)) {
        for address in [parse_element(&text), parse_node(&text)].into_iter().flatten() {
            prop_assert!(!address.is_unspecified() && fold(address) == address);
            prop_assert_eq!(parse_element(address.to_string().as_bytes()), Some(address));
        }
    }

    #[test]
    fn any_bytes_give_a_client_within_bounds(
        rules in trust(),
        lines in prop::collection::vec(text(300), 0..5),
        single in "[a-z]{1,5}",
    ) {
        let single = single.parse::<ForwardHeader>().unwrap();
        for header in [ForwardHeader::XForwardedFor, ForwardHeader::Forwarded, single] {
            let client = resolved(&rules, &header, &lines);
            prop_assert!(client.hops <= 32);
            prop_assert_eq!(client.hops == 0, client.source == Source::Peer);
            if client.hops == 0 {
                prop_assert_eq!(client.address, ClientAddress::Ip([10, 0, 0, 1].into()));
            }
        }
    }

    #[test]
    fn an_untrusted_peer_is_itself_whatever_it_sends(rules in trust(), lines in prop::collection::vec(text(100), 0..3)) {
        let stranger = Peer::Ip([203, 0, 113, 9].into());
        for header in [ForwardHeader::XForwardedFor, ForwardHeader::Forwarded] {
            let rules = ClientRules { header: header.clone(), ..rules.clone() };
            let client = resolve(&rules, stranger, &headers(header.name(), &lines)).unwrap();
            let mut silent = resolve(&rules, stranger, &HeaderMap::new()).unwrap();
            silent.ignored_header = !lines.is_empty();
            prop_assert_eq!(client, silent);
        }
    }
}
