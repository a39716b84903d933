//! `X-Forwarded-For`: the numbered vectors, and rows 79 to 88, which need more than a table.

use crate::support::{check, client_of, rules};
use crate::vectors::X_FORWARDED_FOR;
use http::{HeaderMap, HeaderValue};
use tidegate_policy::client::{ForwardHeader, Mark, Source, resolve};
use tidegate_policy::request::Peer;

#[test]
fn every_row_resolves_to_its_key_and_mark() {
    check(X_FORWARDED_FOR, ForwardHeader::XForwardedFor);
}

#[test]
fn rows_1_to_78_are_all_there() {
    let numbers: Vec<&str> = X_FORWARDED_FOR.iter().map(|row| row.number).take(78).collect();
    let expected: Vec<String> = (1..=78).map(|number: u32| number.to_string()).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn row_79_five_thousand_forged_elements_are_passed_by() {
    let line = "6.6.6.6,".repeat(5_000) + "1.2.3.4";
    assert_eq!(client_of("hops 1", "10.0.0.1", &[&line]), "1.2.3.4");
    assert_eq!(client_of("proxies 10.0.0.0/8", "10.0.0.1", &[&line]), "1.2.3.4");
}

#[test]
fn the_thirty_third_element_from_the_right_is_never_read() {
    let thirty_two = ["10.0.0.9"; 32].join(", ");
    let thirty_three = format!("1.2.3.4, {thirty_two}");
    assert_eq!(client_of("hops 32", "10.0.0.1", &[&thirty_two]), "10.0.0.9");
    assert_eq!(client_of("hops 33", "10.0.0.1", &[&thirty_three]), "10.0.0.1 (short)");
    assert_eq!(client_of("hops 255", "10.0.0.1", &[&thirty_three.repeat(20)]), "10.0.0.1 (short)");
    assert_eq!(client_of("proxies 10.0.0.0/8", "10.0.0.1", &[&thirty_three]), "10.0.0.9 (all-trusted)");
    let thirty_one = ["10.0.0.9"; 31].join(", ");
    assert_eq!(client_of("proxies 10.0.0.0/8", "10.0.0.1", &[&format!("1.2.3.4, {thirty_one}")]), "1.2.3.4");
}

#[test]
fn row_80_an_element_of_200_bytes_is_unreadable() {
    let long = "1".repeat(200);
    assert_eq!(client_of("hops 1", "10.0.0.1", &[&format!("6.6.6.6, {long}")]), "10.0.0.1 (degraded)");
    // the limit is 64 bytes, blanks around not counted
    let zone = |length: usize| format!("fe80::1%{}", "z".repeat(length - "fe80::1%".len()));
    assert_eq!(client_of("hops 1", "10.0.0.1", &[&format!("  {}  ", zone(64))]), "fe80::/64");
    assert_eq!(client_of("hops 1", "10.0.0.1", &[&zone(65)]), "10.0.0.1 (degraded)");
}

#[test]
fn row_81_bytes_outside_ascii_are_unreadable_and_never_fatal() {
    for bytes in [&b"\xff\xfe"[..], b"1.2.3.4\xa0", b"1.2.3.4, \xff"] {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", HeaderValue::from_bytes(bytes).unwrap());
        let client = resolve(&rules("hops 1 from 10.0.0.0/8"), Peer::Ip([10, 0, 0, 1].into()), &headers).unwrap();
        assert_eq!((client.network.to_string().as_str(), client.mark), ("10.0.0.1", Mark::Degraded), "{bytes:?}");
    }
}

#[test]
fn row_86_only_the_configured_header_decides() {
    let mut headers = HeaderMap::new();
    headers.append("x-forwarded-for", HeaderValue::from_static("6.6.6.6"));
    headers.append("forwarded", HeaderValue::from_static("for=1.2.3.4"));
    let peer = Peer::Ip([10, 0, 0, 1].into());
    for trust in ["hops 1 from 10.0.0.0/8", "proxies 10.0.0.0/8"] {
        let mut rules = rules(trust);
        assert_eq!(resolve(&rules, peer, &headers).unwrap().address.to_string(), "6.6.6.6");
        rules.header = ForwardHeader::Forwarded;
        assert_eq!(resolve(&rules, peer, &headers).unwrap().address.to_string(), "1.2.3.4");
    }
    headers.remove("forwarded");
    let mut rules = rules("proxies 10.0.0.0/8");
    rules.header = ForwardHeader::Forwarded;
    let client = resolve(&rules, peer, &headers).unwrap();
    assert_eq!((client.address.to_string().as_str(), client.source), ("10.0.0.1", Source::Peer), "never a fallback");
}

#[test]
fn row_87_two_addresses_of_one_home_are_one_client() {
    for line in ["2001:db8:1:1::dead", "2001:db8:1:1::beef"] {
        assert_eq!(client_of("hops 1", "10.0.0.1", &[line]), "2001:db8:1:1::/64");
    }
}

#[test]
fn row_88_folded_lines_and_nul_are_no_header_values() {
    // what the parser in front of us refuses with the same rules cannot be written into a header map either
    for bytes in [&b"1.2.3.4,\r\n 6.6.6.6"[..], b"1.2.3.4\0", b"1.2.3.4\n"] {
        assert!(HeaderValue::from_bytes(bytes).is_err(), "{bytes:?}");
    }
}
