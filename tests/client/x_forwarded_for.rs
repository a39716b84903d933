//! The numbered vectors for `X-Forwarded-For`, one row each.
//!
//! 10.0.0.0/8 stands for the proxies, 6.6.6.6 for forged text. Rows 79 to 88 need more than a table and are below it.

use crate::support::{Row, check, client_of, row, rules};
use http::{HeaderMap, HeaderValue};
use tidegate::client::{ForwardHeader, Mark, Source, resolve};
use tidegate::request::Peer;

const ROWS: &[Row] = &[
    row("1", "off", "203.0.113.9", &["1.2.3.4, 9.9.9.9"], "203.0.113.9", "trust off: header ignored"),
    row("2", "off", "203.0.113.9", &["1.2.3.4", "9.9.9.9"], "203.0.113.9", "trust off, two field lines"),
    row("3", "off", "::ffff:203.0.113.9", &[], "203.0.113.9", "mapped socket peer is IPv4"),
    row("4", "off", "2001:db8:abcd:1234::1", &[], "2001:db8:abcd:1234::/64", "v6 peer aggregated"),
    row("5", "off", "2001:db8:abcd:1234:ffff:ffff:ffff:ffff", &[], "2001:db8:abcd:1234::/64", "same /64, same key"),
    row("6", "off", "2001:db8:abcd:1235::1", &[], "2001:db8:abcd:1235::/64", "next /64, other key"),
    row("7", "off", "fe80::1%eth0", &[], "fe80::/64", "zone stripped on link-local peer"),
    row("8", "off", "::1", &[], "::/64", "loopback"),
    row("9", "hops 0", "10.0.0.1", &["1.1.1.1, 2.2.2.2"], "10.0.0.1", "zero hops = peer"),
    row("10", "hops 1", "10.0.0.1", &["1.1.1.1, 2.2.2.2"], "2.2.2.2", "one hop"),
    row("11", "hops 2", "10.0.0.1", &["1.1.1.1, 2.2.2.2"], "1.1.1.1", "two hops"),
    row("12", "hops 1", "10.0.0.1", &["1.1.1.1", "2.2.2.2"], "2.2.2.2", "two lines are one list"),
    row("13", "hops 2", "10.0.0.1", &["1.1.1.1", "2.2.2.2, 3.3.3.3"], "2.2.2.2", "mixed lines"),
    row("14", "hops 99", "10.0.0.1", &["1.1.1.1, 2.2.2.2"], "10.0.0.1 (short)", "chain shorter than promised"),
    row(
        "15",
        "hops 2",
        "203.0.113.9",
        &["6.6.6.6"],
        "203.0.113.9 (short)",
        "attacker reaches inner proxy directly, forges one entry",
    ),
    row("16", "hops 1", "10.0.0.1", &[], "10.0.0.1 (short)", "no header at all"),
    row("17", "hops 1", "10.0.0.1", &[""], "10.0.0.1 (short)", "empty header"),
    row("18", "hops 1", "10.0.0.1", &[" , ,, "], "10.0.0.1 (short)", "only empty elements"),
    row("19", "hops 1", "10.0.0.1", &["1.2.3.4,,"], "1.2.3.4", "trailing empties skipped"),
    row("20", "hops 1", "10.0.0.1", &[",,1.2.3.4"], "1.2.3.4", "leading empties skipped"),
    row("21", "hops 1", "10.0.0.1", &["6.6.6.6, 203.0.113.9:51234"], "203.0.113.9", "appending proxy writes ip:port"),
    row("22", "hops 1", "10.0.0.1", &["6.6.6.6, [2001:db8::7]:443"], "2001:db8::/64", "bracketed v6 with port"),
    row("23", "hops 1", "10.0.0.1", &["6.6.6.6, [2001:db8::7]"], "2001:db8::/64", "bracketed v6"),
    row("24", "hops 1", "10.0.0.1", &["6.6.6.6, 2001:db8::7"], "2001:db8::/64", "bare v6"),
    row(
        "25",
        "hops 1",
        "10.0.0.1",
        &["6.6.6.6, 2001:db8::7:443"],
        "2001:db8::/64",
        "bare v6 \"with port\" is just an address",
    ),
    row(
        "26",
        "hops 1",
        "10.0.0.1",
        &["6.6.6.6, unknown"],
        "10.0.0.1 (degraded)",
        "literal unknown at the trusted position",
    ),
    row("27", "hops 1", "10.0.0.1", &["6.6.6.6, unix:"], "10.0.0.1 (degraded)", "unix peer written by inner proxy"),
    row(
        "28",
        "hops 1",
        "10.0.0.1",
        &[" , not-an-ip, , 1.2.3.4 ,999.999.1.1"],
        "10.0.0.1 (degraded)",
        "garbage at the trusted position",
    ),
    row(
        "29",
        "hops 2",
        "10.0.0.1",
        &["6.6.6.6, garbage, 10.0.0.9"],
        "10.0.0.9 (degraded)",
        "garbage at target, valid hop to its right",
    ),
    row("30", "hops 5", "10.0.0.1", &["garbage, 999.1.1.1"], "10.0.0.1 (short)", "all garbage"),
    row("31", "hops 1", "8.8.8.8", &["01.02.03.04"], "8.8.8.8 (degraded)", "leading zeros"),
    row("32", "hops 1", "10.0.0.1", &["0x7f.0.0.1"], "10.0.0.1 (degraded)", "hex octet"),
    row("33", "hops 1", "10.0.0.1", &["2130706433"], "10.0.0.1 (degraded)", "decimal form"),
    row("34", "hops 1", "10.0.0.1", &["1.2.3"], "10.0.0.1 (degraded)", "short form"),
    row("35", "hops 1", "10.0.0.1", &["1.2.3.4.5"], "10.0.0.1 (degraded)", "five octets"),
    row("36", "hops 1", "10.0.0.1", &["1.2.3.256"], "10.0.0.1 (degraded)", "octet overflow"),
    row("37", "hops 1", "10.0.0.1", &["1.2.3.4:99999"], "10.0.0.1 (degraded)", "port out of range"),
    row("38", "hops 1", "10.0.0.1", &["1.2.3.4:"], "10.0.0.1 (degraded)", "empty port"),
    row("39", "hops 1", "10.0.0.1", &["[1.2.3.4]"], "10.0.0.1 (degraded)", "bracketed v4"),
    row("40", "hops 1", "10.0.0.1", &["[2001:db8::7"], "10.0.0.1 (degraded)", "unclosed bracket"),
    row("41", "hops 1", "10.0.0.1", &["2001:db8::7::1"], "10.0.0.1 (degraded)", "two double-colons"),
    row("42", "hops 1", "10.0.0.1", &["2001:db8:0:0:0:0:0:0:7"], "10.0.0.1 (degraded)", "nine groups"),
    row("43", "hops 1", "10.0.0.1", &["::ffff:1.2.3.4"], "1.2.3.4", "mapped in header"),
    row("44", "hops 1", "10.0.0.1", &["::ffff:102:304"], "1.2.3.4", "mapped, hex tail"),
    row("45", "hops 1", "10.0.0.1", &["0:0:0:0:0:FFFF:0102:0304"], "1.2.3.4", "mapped, long form"),
    row("46", "hops 1", "10.0.0.1", &["::ffff:01.2.3.4"], "10.0.0.1 (degraded)", "mapped with leading-zero octet"),
    row("47", "hops 1", "10.0.0.1", &["64:ff9b::8.8.8.8"], "8.8.8.8", "NAT64 well-known, global inside"),
    row("48", "hops 1", "10.0.0.1", &["64:ff9b::10.1.2.3"], "64:ff9b::/64", "NAT64 carrying private v4"),
    row("49", "hops 1", "10.0.0.1", &["2002:c000:204:1::5"], "2002:c000:204::/48", "6to4"),
    row(
        "50",
        "hops 1",
        "10.0.0.1",
        &["2002:c000:204:ffff::5"],
        "2002:c000:204::/48",
        "6to4, other subnet of same site",
    ),
    row("51", "hops 1", "10.0.0.1", &["fe80::1%eth0"], "fe80::/64", "zone on link-local"),
    row("52", "hops 1", "10.0.0.1", &["2001:db8::1%x"], "10.0.0.1 (degraded)", "zone on a global address"),
    row("53", "hops 1", "10.0.0.1", &["0.0.0.0"], "10.0.0.1 (degraded)", "unspecified"),
    row("54", "hops 1", "10.0.0.1", &["::"], "10.0.0.1 (degraded)", "unspecified v6"),
    row("55", "hops 1", "10.0.0.1", &["1.2.3.4 5.6.7.8"], "10.0.0.1 (degraded)", "space inside element"),
    row("56", "hops 1", "10.0.0.1", &["9.9.9.9,\t1.2.3.4\t"], "1.2.3.4", "tabs as OWS"),
    row("57", "hops 1", "10.0.0.1", &["\"1.2.3.4\""], "10.0.0.1 (degraded)", "quotes are not XFF syntax"),
    row("58", "hops 1", "10.0.0.1", &["1.2.3.4\u{a0}"], "10.0.0.1 (degraded)", "no-break space"),
    row("59", "hops 1", "10.0.0.1", &["１.2.3.4"], "10.0.0.1 (degraded)", "full-width digit"),
    row("60", "proxies 10.0.0.0/8", "10.0.0.1", &["1.2.3.4, 10.0.0.9"], "1.2.3.4", "first untrusted from the right"),
    row(
        "61",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["6.6.6.6, 8.8.8.8, 10.0.0.5"],
        "8.8.8.8",
        "forged prefix never reached",
    ),
    row(
        "62",
        "proxies 10.0.0.0/8",
        "203.0.113.9",
        &["1.2.3.4, 10.0.0.1"],
        "203.0.113.9",
        "untrusted peer: header ignored",
    ),
    row("63", "proxies 10.0.0.0/8", "10.0.0.1", &["10.0.0.7, 10.0.0.8"], "10.0.0.7 (all-trusted)", "every hop trusted"),
    row("64", "proxies 10.0.0.0/8", "10.0.0.1", &[], "10.0.0.1", "trusted peer, no header"),
    row(
        "65",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["1.2.3.4, 10.0.0.9, garbage"],
        "10.0.0.1 (degraded)",
        "garbage next to the peer",
    ),
    row(
        "66",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["1.2.3.4, garbage, 10.0.0.9"],
        "10.0.0.9 (degraded)",
        "garbage left of one trusted hop",
    ),
    row(
        "67",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["garbage, 8.8.8.8, 10.0.0.9"],
        "8.8.8.8",
        "garbage beyond the client: never reached",
    ),
    row(
        "68",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["6.6.6.6, 203.0.113.9:51234, 10.0.0.9"],
        "203.0.113.9",
        "client written with port",
    ),
    row("69", "proxies 10.0.0.0/8", "::ffff:10.0.0.1", &["1.2.3.4"], "1.2.3.4", "mapped peer matches v4 CIDR"),
    row("70", "proxies 10.0.0.0/8", "10.0.0.1", &["1.2.3.4, ::ffff:10.0.0.9"], "1.2.3.4", "mapped hop matches v4 CIDR"),
    row(
        "71",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["1.2.3.4, 64:ff9b::10.0.0.9"],
        "64:ff9b::/64",
        "NAT64 must not inherit v4 trust",
    ),
    row(
        "72",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["1.2.3.4, 2002:a00:9::1"],
        "2002:a00:9::/48",
        "6to4 must not inherit v4 trust",
    ),
    row(
        "73",
        "proxies ::ffff:10.0.0.0/104",
        "10.0.0.1",
        &["1.2.3.4, 10.9.9.9"],
        "1.2.3.4",
        "mapped CIDR entry = 10.0.0.0/8",
    ),
    row("74", "proxies fd00::/8", "fd00::1", &["2001:db8::1234, fd00::2"], "2001:db8::/64", "v6 proxies"),
    row("75", "proxies 192.168.1.1", "192.168.1.1", &["77.0.0.1, 192.168.1.1"], "77.0.0.1", "bare IP entry"),
    row("76", "proxies 10.0.0.0/8", "10.0.0.1", &["1.2.3.4", "10.0.0.9"], "1.2.3.4", "line order matters"),
    row(
        "77",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["10.0.0.9", "1.2.3.4"],
        "1.2.3.4",
        "reverse line order: client is the last line",
    ),
    row(
        "78",
        "proxies 10.0.0.0/8",
        "10.0.0.1",
        &["1.2.3.4, 2001:db8::1%x, 10.0.0.9"],
        "10.0.0.9 (degraded)",
        "zone on global address",
    ),
    // beyond the numbered ones: nginx's own realip test, what the same address looks like in other texts, and edges
    row(
        "nginx",
        "proxies 127.0.0.1 10.0.1.0/24",
        "127.0.0.1",
        &["10.0.1.1", "192.0.2.1", "127.0.0.1"],
        "192.0.2.1",
        "recursive over lines",
    ),
    row("58b", "hops 1", "10.0.0.1", &["1.2.3.4\u{3000}"], "10.0.0.1 (degraded)", "ideographic space"),
    row("31b", "hops 1", "10.0.0.1", &["1.2.3.004"], "10.0.0.1 (degraded)", "leading zeros to three digits"),
    row("31c", "hops 1", "10.0.0.1", &["1.2.034.5:80"], "10.0.0.1 (degraded)", "leading zero, with a port"),
    row("31d", "hops 1", "10.0.0.1", &["00.2.3.4"], "10.0.0.1 (degraded)", "two zeros"),
    row("35b", "hops 1", "10.0.0.1", &["1.2.3.4."], "10.0.0.1 (degraded)", "a dot at the end"),
    row(
        "35c",
        "hops 1",
        "10.0.0.1",
        &["5.1.2.3.4"],
        "10.0.0.1 (degraded)",
        "five octets of which the last four are good",
    ),
    row("35d", "hops 1", "10.0.0.1", &["x1.2.3.4"], "10.0.0.1 (degraded)", "an address behind a letter"),
    row("36b", "hops 1", "10.0.0.1", &["1.2.3.1000"], "10.0.0.1 (degraded)", "four digits"),
    row("36c", "hops 1", "10.0.0.1", &["1.2.3.999"], "10.0.0.1 (degraded)", "far above 255"),
    row("port 0", "hops 1", "10.0.0.1", &["1.2.3.4:0"], "1.2.3.4", "port 0 is in range"),
    row("port +", "hops 1", "10.0.0.1", &["1.2.3.4:+80"], "10.0.0.1 (degraded)", "a port is digits"),
    row("port 6", "hops 1", "10.0.0.1", &["1.2.3.4:000080"], "10.0.0.1 (degraded)", "a port has at most five digits"),
    row("v6 port", "hops 1", "10.0.0.1", &["[2001:db8::7]:65536"], "10.0.0.1 (degraded)", "port out of range"),
    row("v6 tail", "hops 1", "10.0.0.1", &["[2001:db8::7]x"], "10.0.0.1 (degraded)", "text behind the bracket"),
    row("v6 empty", "hops 1", "10.0.0.1", &["[]"], "10.0.0.1 (degraded)", "nothing in brackets"),
    row("v6 eight", "hops 1", "10.0.0.1", &["1:2:3:4::5:6:7:8"], "10.0.0.1 (degraded)", "`::` for no group"),
    row("v6 five", "hops 1", "10.0.0.1", &["2001:db8::00007"], "10.0.0.1 (degraded)", "five digits in a group"),
    row("mapped 0", "hops 1", "10.0.0.1", &["::ffff:0.0.0.0"], "10.0.0.1 (degraded)", "unspecified, mapped"),
    row("mapped []", "hops 1", "10.0.0.1", &["[::ffff:1.2.3.4]:80"], "1.2.3.4", "mapped in brackets"),
    row("zone []", "hops 1", "10.0.0.1", &["[fe80::1%eth0]:80"], "fe80::/64", "zone in brackets"),
    row("zone", "hops 1", "10.0.0.1", &["fe80::1%"], "10.0.0.1 (degraded)", "empty zone"),
    row("zone v4", "hops 1", "10.0.0.1", &["169.254.0.1%eth0"], "10.0.0.1 (degraded)", "zone on IPv4"),
    row("compatible", "hops 1", "10.0.0.1", &["::1.2.3.4"], "::/64", "IPv4-compatible stays IPv6"),
    row("teredo", "hops 1", "10.0.0.1", &["2001:0:4136:e378:8000:63bf:3fff:fdd2"], "2001:0:4136:e378::/64", "as IPv6"),
    row("trusted", "hops 1", "10.0.0.1", &["10.9.9.9"], "10.9.9.9", "hops do not ask who the client is"),
    row("all", "proxies 10.0.0.0/8", "10.0.0.1", &["10.0.0.9,"], "10.0.0.9 (all-trusted)", "empties do not count"),
    row("empty", "proxies 10.0.0.0/8", "10.0.0.1", &[" , "], "10.0.0.1", "no element is no header"),
    row("unix", "proxies unix", "unix", &["1.2.3.4"], "1.2.3.4", "a listed UNIX-socket peer is believed"),
    row("unix all", "proxies unix 10.0.0.0/8", "unix", &["10.0.0.9"], "10.0.0.9 (all-trusted)", "and so are its hops"),
    row("unix bad", "proxies unix", "unix", &["unix"], "unix (degraded)", "no element is the word unix"),
    row("unix hops", "hops 1 from unix", "unix", &[], "unix (short)", "a short chain counts for the socket"),
    row("84", "proxies 10.0.0.0/8", "unix", &["1.2.3.4"], "unix", "UNIX peer, list without `unix`: header ignored"),
    row("85", "hops 1 from 10.0.0.0/8", "203.0.113.9", &["6.6.6.6"], "203.0.113.9", "peer outside `from`"),
];

#[test]
fn every_row_resolves_to_its_key_and_mark() {
    check(ROWS, ForwardHeader::XForwardedFor);
}

#[test]
fn rows_1_to_78_are_all_there() {
    let numbers: Vec<&str> = ROWS.iter().map(|row| row.number).take(78).collect();
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
