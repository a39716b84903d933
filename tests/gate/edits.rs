//! Routes, fixed answers and header edits, as client and origin see them.

use crate::harness::client::is_cut;
use crate::harness::{Gate, Origin, Reply};

#[test]
fn the_most_specific_route_takes_the_request() {
    let gate = Gate::start(
        "routes:
  - { name: any, match: { path: / }, respond: { status: 200, body: any } }
  - { name: below, match: { path: /a }, respond: { status: 200, body: below } }
  - { name: exact, match: { path: =/a/b }, respond: { status: 200, body: exact } }
  - { name: posted, match: { path: /a, method: POST }, respond: { status: 200, body: posted } }
  - { name: asked, match: { path: /a, query: { x: y } }, respond: { status: 200, body: asked } }
  - { name: marked, match: { path: /a, headers: { x-mark: yes } }, respond: { status: 200, body: marked } }
  - { name: shop, match: { host: shop.example.com }, respond: { status: 200, body: shop } }
  - { name: shops, match: { host: \"*.example.com\" }, respond: { status: 200, body: shops } }
",
    );
    let mut connection = gate.connect();
    let mut took = |method: &str, path: &str, lines: &str| connection.ask(method, path, lines, b"").text();
    assert_eq!(took("GET", "/", ""), "any");
    assert_eq!(took("GET", "/ab", ""), "any", "a prefix takes whole segments");
    assert_eq!(took("GET", "/a", ""), "below");
    assert_eq!(took("GET", "/a/", ""), "below");
    assert_eq!(took("GET", "/a/b", ""), "exact");
    assert_eq!(took("GET", "/a/b/c", ""), "below");
    assert_eq!(took("POST", "/a/c", ""), "posted");
    assert_eq!(took("GET", "/a?x=y", ""), "asked");
    assert_eq!(took("GET", "/a", "X-Mark: yes\r\n"), "marked");
    assert_eq!(took("GET", "/a", "Host: shop.example.com\r\n"), "shop");
    assert_eq!(took("GET", "/a", "Host: SHOP.example.com:8080\r\n"), "shop", "case and port do not matter");
    assert_eq!(took("GET", "/a", "Host: x.y.example.com\r\n"), "shops");
}

#[test]
fn a_host_that_no_route_knows_is_404_and_reaches_no_origin() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "routes:\n  - name: site\n    match: {{ host: known.example }}\n    origin: \"{}\"\n",
        origin.address()
    ));
    let mut connection = gate.connect();
    assert_eq!(connection.ask("GET", "/", "Host: unknown.example\r\n", b"").status, 404);
    assert_eq!(connection.ask("GET", "/", "Host: known.example\r\n", b"").status, 200);
    assert_eq!(origin.count(), 1);
    gate.counts("tidegate_requests_total", &[("route", "_none"), ("code", "4xx")], 1.0);
}

#[test]
fn a_fixed_answer_can_refuse_a_path() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "routes:
  - {{ name: closed, match: {{ path: /internal }}, respond: {{ status: 403, body: nothing here }} }}
  - {{ name: site, origin: \"{}\" }}
",
        origin.address()
    ));
    let answer = gate.fetch("/internal/x", "");
    assert_eq!((answer.status, answer.text().as_str()), (403, "nothing here"));
    assert!(answer.keeps_connection(), "{answer:?}");
    assert_eq!(gate.fetch("/", "").status, 200);
    assert_eq!(origin.count(), 1);
}

#[test]
fn header_edits_reach_the_other_side_and_placeholders_cannot_be_forged() {
    let origin = Origin::that(Reply::Bytes(
        b"HTTP/1.1 200 OK\r\nServer: secret/1.0\r\nX-Multi: a\r\nX-Multi: b\r\nContent-Length: 2\r\n\r\nok",
    ));
    let gate = Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
routes:
  - name: site
    origin: \"{}\"
    request_headers:
      remove: [x-plan]
      set: {{ x-client: \"{{client.ip}}\", x-network: \"{{client.prefix}}\", x-request-id: \"{{request.id}}\", x-route: \"at {{route}}\" }}
      add: {{ x-more: ours }}
    response_headers:
      remove: [server]
      set: {{ x-multi: one, x-id: \"{{request.id}}\", strict-transport-security: max-age=63072000 }}
",
        origin.address()
    ));
    let forged = "X-Forwarded-For: 2001:db8:7:7::9\r\nX-Client: 6.6.6.6\r\nx-client: 7.7.7.7\r\nX-Request-Id: forged\r\n\
                  X-Route: admin\r\nX-Network: {route}\r\nX-Plan: gold\r\nX-More: theirs\r\nX-Other: {client.ip}\r\n";
    let answer = gate.fetch("/", forged);
    assert_eq!(answer.status, 200);
    let arrival = origin.only_arrival();
    assert_eq!(arrival.lines("x-client"), ["2001:db8:7:7::9"]);
    assert!(matches!(arrival.lines("x-network")[..], ["2001:db8:7:7::/64"]), "{arrival:?}");
    assert_eq!(arrival.lines("x-route"), ["at site"]);
    assert_eq!(arrival.lines("x-plan"), [""; 0]);
    assert_eq!(arrival.lines("x-more"), ["theirs", "ours"]);
    assert_eq!(arrival.lines("x-other"), ["{client.ip}"], "a client's braces are text");
    let [id] = arrival.lines("x-request-id")[..] else { panic!("one identifier: {arrival:?}") };
    assert!(id.len() == 13 && id != "forged", "{id}");
    assert_eq!(answer.field("x-id").as_deref(), Some(id), "client and origin see the same identifier");
    assert_eq!(answer.field("x-multi").as_deref(), Some("one"));
    assert_eq!(answer.field("server"), None);
    assert_eq!(answer.field("strict-transport-security").as_deref(), Some("max-age=63072000"));
    assert_eq!(gate.log_of(1)[0].id, id, "and the log");
}

#[test]
fn the_request_reaches_the_origin_as_it_was() {
    let origin = Origin::that(Reply::Echo);
    let gate = Gate::start(&format!("routes:\n  - {{ name: site, origin: \"{}\" }}\n", origin.address()));
    let mut connection = gate.connect();
    let body: Vec<u8> = (0..300_000).map(|number: u32| (number % 251) as u8).collect();
    let lines = "Host: Shop.Example:8080\r\nX-Mixed-Case: Kept  As is\r\nCookie: a=b; c=d\r\n";
    let answer = connection.ask("PUT", "/p/a%20th?q=1&q=2&r=%2F", lines, &body);
    assert_eq!(answer.status, 200);
    assert!(answer.body == body, "the body comes back as it was sent");
    let arrival = origin.only_arrival();
    assert_eq!((arrival.method.as_str(), arrival.target.as_str()), ("PUT", "/p/a%20th?q=1&q=2&r=%2F"));
    assert_eq!(arrival.lines("host"), ["Shop.Example:8080"]);
    assert_eq!(arrival.lines("x-mixed-case"), ["Kept  As is"]);
    assert_eq!(arrival.lines("cookie"), ["a=b; c=d"]);
    assert_eq!(arrival.lines("content-length"), ["300000"]);
}

#[test]
fn several_addresses_share_the_requests_by_weight() {
    let (first, second) = (Origin::that(Reply::Ok), Origin::that(Reply::Ok));
    let gate = Gate::start(&format!(
        "origins:
  app: {{ addresses: [\"{}\", {{ address: \"{}\", weight: 3 }}], balance: round_robin }}
routes:
  - {{ name: site, origin: app }}
",
        first.address(),
        second.address()
    ));
    let mut connection = gate.connect();
    for _ in 0..40 {
        assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
    }
    assert_eq!((first.count(), second.count()), (10, 30));
}

#[test]
fn equal_keys_go_to_equal_addresses() {
    let origins = [Origin::that(Reply::Ok), Origin::that(Reply::Ok), Origin::that(Reply::Ok)];
    let addresses: Vec<String> = origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect();
    let gate = Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
origins:
  app: {{ addresses: [{}], balance: {{ hash: client_ip }} }}
routes:
  - {{ name: site, origin: app }}
",
        addresses.join(", ")
    ));
    let mut connection = gate.connect();
    for client in 0..30 {
        let before: Vec<usize> = origins.iter().map(Origin::count).collect();
        for _ in 0..3 {
            let lines = format!("X-Forwarded-For: 198.51.100.{client}\r\n");
            assert_eq!(connection.ask("GET", "/", &lines, b"").status, 200);
        }
        let after = origins.iter().map(Origin::count).zip(before).map(|(after, before)| after - before);
        assert_eq!(after.max(), Some(3), "client {client} went to several addresses");
    }
    assert!(origins.iter().all(|origin| origin.count() > 0), "the clients are spread");
}

#[test]
fn two_requests_in_one_packet_are_each_answered_or_the_connection_ends() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = Gate::start(&format!("routes:\n  - {{ name: site, origin: \"{}\" }}\n", origin.address()));
    let mut connection = gate.connect();
    let one = b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n";
    let two = b"GET /two HTTP/1.1\r\nHost: a\r\n\r\n";
    connection.send(&[&one[..], two].concat()).unwrap();
    assert_eq!(connection.answer_to("GET").expect("the first is answered").status, 200);
    let second = connection.answer_to("GET");
    let targets: Vec<String> = origin.arrivals().into_iter().map(|arrival| arrival.target).collect();
    match second {
        Ok(answer) => {
            assert_eq!(answer.status, 200);
            assert_eq!(targets, ["/one", "/two"]);
        }
        Err(fault) => {
            assert!(is_cut(&fault), "{fault}");
            assert_eq!(targets, ["/one"], "what is not answered is not executed");
        }
    }
    gate.comes_to_rest();
}
