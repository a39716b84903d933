//! Who is asking: which address is counted, and what the origin is told about it.

use crate::harness::{Arrival, Gate, Origin, Reply};

/// A gate that lets each client in once an hour.
fn once_an_hour(trust: &str) -> Gate {
    Gate::start(&format!(
        "{trust}
routes:
  - name: page
    limit: 1/h burst 1
    respond: {{ status: 200, body: ok }}
"
    ))
}

const TRUST: &str = "trusted_proxies: [127.0.0.0/8]";

fn statuses(gate: &Gate, forwarded: &[&str]) -> Vec<u16> {
    let mut connection = gate.connect();
    let mut ask = |address: &&str| connection.ask("GET", "/", &format!("X-Forwarded-For: {address}\r\n"), b"").status;
    forwarded.iter().map(&mut ask).collect()
}

#[test]
fn one_ipv6_network_of_64_bits_is_one_client() {
    let gate = once_an_hour(TRUST);
    let asked = ["2001:db8:1:1::dead", "2001:db8:1:1::beef", "2001:db8:1:1:ffff:ffff:ffff:ffff", "2001:db8:1:2::dead"];
    assert_eq!(statuses(&gate, &asked), [200, 429, 429, 200]);
}

#[test]
fn an_ipv4_address_inside_ipv6_is_the_ipv4_address() {
    let gate = once_an_hour(TRUST);
    assert_eq!(
        statuses(&gate, &["192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201", "::ffff:192.0.2.2"]),
        [200, 429, 429, 200]
    );
}

#[test]
fn a_port_does_not_make_another_client() {
    let gate = once_an_hour(TRUST);
    assert_eq!(
        statuses(&gate, &["192.0.2.1:1000", "192.0.2.1:2000", "[2001:db8::1]:1", "[2001:db8::1]:2"]),
        [200, 429, 200, 429]
    );
}

#[test]
fn forged_elements_left_of_the_client_change_nothing() {
    let gate = once_an_hour(TRUST);
    assert_eq!(
        statuses(&gate, &["6.6.6.6, 192.0.2.1", "7.7.7.7, 192.0.2.1", "nonsense, 192.0.2.1, 127.0.0.9"]),
        [200, 429, 429]
    );
}

#[test]
fn a_header_from_a_stranger_is_not_read() {
    for trust in ["", "trusted_proxies: [10.0.0.0/8]"] {
        let gate = once_an_hour(trust);
        assert_eq!(statuses(&gate, &["192.0.2.1", "192.0.2.2", "192.0.2.3"]), [200, 429, 429], "{trust:?}");
    }
}

#[test]
fn only_the_chosen_header_is_read() {
    let gate = once_an_hour("trusted_proxies: { header: forwarded, from: [127.0.0.0/8] }");
    let mut connection = gate.connect();
    let mut ask = |lines: &str| connection.ask("GET", "/", lines, b"").status;
    assert_eq!(ask("Forwarded: for=192.0.2.1\r\nX-Forwarded-For: 192.0.2.7\r\n"), 200);
    assert_eq!(ask("Forwarded: for=192.0.2.1\r\nX-Forwarded-For: 192.0.2.8\r\n"), 429);
    assert_eq!(ask("Forwarded: for=\"[2001:db8::1]:99\";proto=https\r\n"), 200);
    assert_eq!(ask("Forwarded: for=6.6.6.6, for=\"[2001:db8::2]\"\r\n"), 429);
}

/// What the origin receives when a client sends these lines.
fn at_the_origin(policy: &str, lines: &str) -> Arrival {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!("{policy}\nroutes:\n  - name: site\n    origin: \"{}\"\n", origin.address()));
    assert_eq!(gate.fetch("/", lines).status, 200);
    origin.only_arrival()
}

#[test]
fn a_trusted_proxys_list_is_continued() {
    let arrival = at_the_origin(TRUST, "X-Forwarded-For: 203.0.113.9, 192.0.2.1\r\nX-Forwarded-For: 127.0.0.9\r\n");
    let list = arrival.lines("x-forwarded-for").join(", ");
    assert_eq!(list, "203.0.113.9, 192.0.2.1, 127.0.0.9, 127.0.0.1");
}

#[test]
fn a_strangers_list_is_replaced() {
    let arrival =
        at_the_origin("", "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7\r\nForwarded: for=6.6.6.6\r\n");
    assert_eq!(arrival.lines("x-forwarded-for"), ["127.0.0.1"]);
    assert!(!arrival.lines("forwarded").join(",").contains("6.6.6.6"));
}

#[test]
fn the_header_that_was_not_read_does_not_reach_the_origin_as_it_came() {
    let arrival = at_the_origin(TRUST, "X-Forwarded-For: 192.0.2.1\r\nForwarded: for=6.6.6.6\r\n");
    assert!(!arrival.lines("forwarded").join(",").contains("6.6.6.6"), "{arrival:?}");
    let policy = "trusted_proxies: { header: forwarded, from: [127.0.0.0/8] }";
    let arrival = at_the_origin(policy, "Forwarded: for=192.0.2.1\r\nX-Forwarded-For: 6.6.6.6\r\n");
    assert!(!arrival.lines("x-forwarded-for").join(",").contains("6.6.6.6"), "{arrival:?}");
    let list = arrival.lines("forwarded").join(", ");
    assert!(list.starts_with("for=192.0.2.1") && list.contains("for=127.0.0.1"), "{list}");
}

#[test]
fn a_connection_header_cannot_take_the_clients_address_away() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!("{TRUST}\nroutes:\n  - name: site\n    origin: \"{}\"\n", origin.address()));
    let answer = gate.fetch("/", "X-Forwarded-For: 192.0.2.1\r\nConnection: keep-alive, x-forwarded-for\r\n");
    for arrival in origin.arrivals() {
        let list = arrival.lines("x-forwarded-for").join(", ");
        assert_eq!(list, "192.0.2.1, 127.0.0.1", "passed on, or not at all");
    }
    assert!(answer.status == 200 && origin.count() == 1 || answer.status >= 400 && origin.count() == 0, "{answer:?}");
}

#[test]
fn unreadable_elements_share_a_budget_of_their_own() {
    let gate = once_an_hour(TRUST);
    // the proxy itself, then whoever hides behind garbage: neither drains the other
    let mut connection = gate.connect();
    assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
    assert_eq!(statuses(&gate, &["garbage", "999.1.1.1"]), [200, 429]);
    assert_eq!(connection.ask("GET", "/", "", b"").status, 429);
}

#[test]
fn unreadable_headers_are_refused_where_the_policy_says_so() {
    let gate = once_an_hour("trusted_proxies: { header: x-forwarded-for, from: [127.0.0.0/8], degraded: reject }");
    assert_eq!(statuses(&gate, &["garbage", "192.0.2.1", "1.2.3.4, garbage"]), [400, 200, 400]);
}
