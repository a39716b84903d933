//! A balancer below HTTP names its clients: PROXY protocol, versions 1 and 2, from whom it may come and from whom not.

use std::net::{IpAddr, Ipv4Addr};

use crate::harness::client::request;
use crate::harness::{Connection, Gate, Origin, wait_for};

/// An address of this machine that is no trusted proxy.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

fn gate(origin: &Origin) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.1, 10.0.0.0/8]
listeners:
  main: {{ address: \"127.0.0.1:0\", proxy_protocol: required, request_head: {{ timeout: 500ms }} }}
  either: {{ address: \"127.0.0.1:0\", proxy_protocol: optional, request_head: {{ timeout: 500ms }} }}
  plain: {{ address: \"127.0.0.1:0\" }}
origins:
  app: {{ addresses: [\"{}\"] }}
routes:
  - {{ name: site, origin: app, limit: 1/h burst 2 }}
",
        origin.address()
    ))
}

/// A line of version 1.
fn line(client: &str) -> Vec<u8> {
    let (family, to) = if client.contains(':') { ("TCP6", "2001:db8::1") } else { ("TCP4", "192.0.2.1") };
    format!("PROXY {family} {client} {to} 40000 443\r\n").into_bytes()
}

/// A header of version 2 with this command, and an entry that no receiver knows.
fn binary(command: u8, client: &str) -> Vec<u8> {
    let (family, mut block) = match client.parse().unwrap() {
        IpAddr::V4(v4) => (0x11, [v4.octets(), [192, 0, 2, 1]].concat()),
        IpAddr::V6(v6) => (0x21, [v6.octets(), [0; 16]].concat()),
    };
    block.extend_from_slice(&[0x9c, 0x40, 1, 0xbb, 0xee, 0, 2, 1, 2]);
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n".as_slice(), &[command, family], &length, &block].concat()
}

fn refused(gate: &Gate, reason: &str) -> f64 {
    gate.metrics().sum("tidegate_connections_refused_total", &[("reason", reason)])
}

/// The status after these first bytes; `None` when the connection is closed without a word.
fn status(gate: &Gate, listener: &str, first: &[u8], lines: &str) -> Option<u16> {
    let mut connection = Connection::open(gate.address(listener));
    connection.send(&[first, &request("GET", "/", lines, b"")].concat()).unwrap();
    connection.answer_to("GET").ok().map(|answer| answer.status)
}

#[test]
fn each_named_client_has_its_own_budget_and_the_origin_is_told() {
    let origin = Origin::start(|_| crate::harness::Reply::Ok);
    let gate = gate(&origin);
    for (listener, clients) in
        [("main", ["203.0.113.1", "2001:db8:1::1"]), ("either", ["203.0.113.2", "2001:db8:2::1"])]
    {
        for client in clients {
            assert_eq!(status(&gate, listener, &line(client), ""), Some(200), "{client}");
            assert_eq!(status(&gate, listener, &binary(0x21, client), ""), Some(200), "{client}");
            assert_eq!(status(&gate, listener, &line(client), ""), Some(429), "{client} spent it in both versions");
            let told = origin.arrivals().last().map(|arrival| arrival.lines("x-forwarded-for").join(", ")).unwrap();
            assert_eq!(told, client);
        }
    }
    let named = gate.metrics().sum("tidegate_client_address_total", &[("source", "proxy_protocol")]);
    assert_eq!(named, 12.0);
    assert!(gate.log_of(12).iter().all(|entry| entry.client.len() == 22), "pseudonyms, as ever");
    assert!(gate.log_text().contains(r#""client_source":"proxy_protocol""#));
}

#[test]
fn a_header_may_come_in_pieces_and_takes_nothing_of_what_follows() {
    let origin = Origin::start(|_| crate::harness::Reply::Ok);
    let gate = gate(&origin);
    for (at, header) in [line("203.0.113.1"), binary(0x21, "203.0.113.2")].into_iter().enumerate() {
        let mut connection = Connection::open(gate.address("main"));
        for byte in &header {
            connection.send(&[*byte]).unwrap();
        }
        for number in 0..2 {
            let answer = connection.ask("GET", &format!("/{at}/{number}"), "", b"");
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    let targets: Vec<String> = origin.arrivals().into_iter().map(|arrival| arrival.target).collect();
    assert_eq!(targets, ["/0/0", "/0/1", "/1/0", "/1/1"]);
}

#[test]
fn whoever_may_not_send_a_header_gets_nowhere_with_one() {
    let origin = Origin::start(|_| crate::harness::Reply::Ok);
    let gate = gate(&origin);
    let from = |listener: &str, first: &[u8]| {
        let mut connection = Connection::open_from(STRANGER, gate.address(listener));
        let _ = connection.send(&[first, &request("GET", "/", "", b"")].concat());
        connection.answer_to("GET").ok().map(|answer| answer.status)
    };
    assert_eq!(from("main", &line("203.0.113.1")), None, "all connections are from proxies there");
    assert_eq!(from("main", b""), None);
    assert_eq!(refused(&gate, "proxy_untrusted"), 2.0);
    assert_eq!(from("either", &line("203.0.113.1")), Some(400), "what a stranger sends is a request");
    assert_eq!(from("either", &binary(0x21, "203.0.113.1")), Some(400));
    assert_eq!(from("either", b""), Some(200));
    assert_eq!(from("plain", b""), Some(200));
    assert_eq!(status(&gate, "plain", &line("203.0.113.1"), ""), Some(400), "and where it is off, a proxy's too");
    assert_eq!(origin.count(), 2);
}

#[test]
fn what_is_no_header_closes_the_connection_and_is_counted() {
    let origin = Origin::start(|_| crate::harness::Reply::Ok);
    let gate = gate(&origin);
    assert_eq!(status(&gate, "main", b"", ""), None, "a request comes first");
    assert_eq!(refused(&gate, "proxy_missing"), 1.0);
    assert_eq!(status(&gate, "either", b"", ""), Some(200), "which may be");
    for listener in ["main", "either"] {
        assert_eq!(status(&gate, listener, b"PROXY TCP4 203.0.113.01 192.0.2.1 1 2\r\n", ""), None);
        assert_eq!(status(&gate, listener, &binary(0x23, "203.0.113.1"), ""), None);
    }
    assert_eq!(refused(&gate, "proxy_invalid"), 4.0);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_part_of_a_header_ends_with_its_time() {
    let origin = Origin::start(|_| crate::harness::Reply::Ok);
    let gate = gate(&origin);
    for listener in ["main", "either"] {
        for header in [line("203.0.113.1"), binary(0x21, "203.0.113.1")] {
            let mut connection = Connection::open(gate.address(listener));
            connection.send(&header[..header.len() - 1]).unwrap();
            assert!(connection.rest().unwrap().is_empty(), "closed without a word");
        }
        let mut silent = Connection::open(gate.address(listener));
        assert!(silent.rest().unwrap().is_empty(), "and so does silence");
    }
    assert_eq!(refused(&gate, "proxy_late"), 6.0);
    gate.counts("tidegate_connections", &[], 0.0);
}

#[test]
fn a_balancers_own_connections_stay_its_own_and_a_look_is_no_fault() {
    let origin = Origin::start(|_| crate::harness::Reply::Ok);
    let gate = gate(&origin);
    for header in [b"PROXY UNKNOWN\r\n".to_vec(), binary(0x20, "203.0.113.1")] {
        assert_eq!(status(&gate, "main", &header, ""), Some(200));
        assert!(origin.arrivals().last().is_some_and(|arrival| !format!("{arrival:?}").contains("203.0.113.1")));
    }
    // what balancers do to see whether somebody listens
    drop(Connection::open(gate.address("main")));
    gate.counts("tidegate_connections", &[], 0.0);
    wait_for("nothing to be counted for it", || {
        (gate.metrics().sum("tidegate_connections_refused_total", &[]) == 0.0).then_some(())
    });
}

#[test]
fn the_chain_goes_on_from_a_named_proxy_and_ends_at_a_named_stranger() {
    let origin = Origin::start(|_| crate::harness::Reply::Ok);
    let gate = gate(&origin);
    let forwarded = "X-Forwarded-For: 198.51.100.7\r\n";
    for _ in 0..2 {
        assert_eq!(status(&gate, "main", &line("10.0.0.1"), forwarded), Some(200));
    }
    assert_eq!(status(&gate, "main", &line("10.0.0.2"), forwarded), Some(429), "the client behind both");
    assert_eq!(status(&gate, "main", &line("203.0.113.1"), forwarded), Some(200), "a stranger's word counts nothing");
    assert_eq!(status(&gate, "main", &line("198.51.100.7"), ""), Some(429), "the same client without the second proxy");
}
