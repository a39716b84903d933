//! What a peer may not tell the origin decides nothing at the gate either, nor does another spelling, an odd byte or a line break
//! lead round what a policy says about a field.

use crate::h2::raw::{Outcome, Raw, head};
use crate::harness::client::request;
use crate::harness::{Gate, Origin, Reply};

/// The ways of a request to its verdict: with its head alone, with a body, and in HTTP/2.
#[derive(Debug, Clone, Copy)]
enum Way {
    Head,
    Body,
    H2,
}

const WAYS: [Way; 3] = [Way::Head, Way::Body, Way::H2];

/// The status of a request with one more field, by its bytes.
fn ask(gate: &Gate, way: Way, path: &str, name: &str, value: &[u8]) -> u16 {
    if let Way::H2 = way {
        let mut raw = Raw::open(gate.address("main"), &[]);
        let name = name.to_ascii_lowercase();
        let mut fields: Vec<(&[u8], &[u8])> =
            vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", path.as_bytes())];
        if !name.is_empty() {
            fields.push((name.as_bytes(), value));
        }
        raw.send(&head(1, &fields, true)).unwrap();
        return match raw.outcome(1).unwrap() {
            Outcome::Status(status) => status,
            other => panic!("{other:?}"),
        };
    }
    let (method, body) = if let Way::Body = way { ("POST", &b"hello"[..]) } else { ("GET", &b""[..]) };
    let plain = request(method, path, "X-Here: 1\r\n", body);
    let mut line = format!("{name}: ").into_bytes();
    line.extend_from_slice(value);
    let line = if name.is_empty() { b"X-Here: 1".to_vec() } else { line };
    let at = plain.windows(9).position(|bytes| bytes == b"X-Here: 1").unwrap();
    let bytes = [&plain[..at], line.as_slice(), &plain[at + 9..]].concat();
    let mut connection = gate.connect();
    connection.send(&bytes).unwrap();
    connection.answer_to(method).unwrap().status
}

fn gate_before(origin: &Origin, trust: &str) -> Gate {
    let to = format!("origin: \"{}\"", origin.address());
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
{trust}
limits:
  by_address: {{ key: header:x-real-ip, missing: deny, rate: 3/h, burst: 3 }}
  by_cdn: {{ key: [client_ip, header:cf-connecting-ip], missing: deny, rate: 3/h, burst: 3 }}
  tiered: {{ key: global, rate: 3/h, burst: 3, tiers: [{{ when: {{ header: {{ x-remote-user: alice }} }}, rate: 1000/s, burst: 1000 }}] }}
  exempt: {{ key: global, rate: 3/h, burst: 3, exempt: [{{ header: {{ remote-user: staff }} }}] }}
routes:
  - {{ name: by_address, match: {{ path: /by_address }}, limits: [by_address], {to} }}
  - {{ name: by_cdn, match: {{ path: /by_cdn }}, limits: [by_cdn], {to} }}
  - {{ name: tiered, match: {{ path: /tiered }}, limits: [tiered], {to} }}
  - {{ name: exempt, match: {{ path: /exempt }}, limits: [exempt], {to} }}
  - {{ name: staff, match: {{ path: /staff, headers: {{ remote-user: staff }} }}, {to} }}
  - {{ name: no_staff, match: {{ path: /staff }}, respond: {{ status: 403 }} }}
  - {{ name: hop, match: {{ path: /hop, headers: {{ x-forwarded-for: 192.0.2.1 }} }}, {to} }}
  - {{ name: pairs, match: {{ path: /hop, headers: {{ forwarded: for=192.0.2.1 }} }}, {to} }}
  - {{ name: no_hop, match: {{ path: /hop }}, respond: {{ status: 403 }} }}
"
    ))
}

/// How many of five pass.
fn passed(gate: &Gate, way: Way, path: &str, name: &str, value: impl Fn(usize) -> String) -> usize {
    (0..5).filter(|nth| ask(gate, way, path, name, value(*nth).as_bytes()) == 200).count()
}

#[test]
fn what_a_stranger_may_not_tell_decides_nothing() {
    let origin = Origin::that(Reply::Ok);
    // that somebody else is believed is no word for a stranger
    for trust in
        ["", "trusted_proxies: [10.0.0.0/8]", "trusted_proxies: { from: [10.0.0.0/8], header: cf-connecting-ip }"]
    {
        for way in WAYS {
            let gate = gate_before(&origin, trust);
            let invented = |nth: usize| format!("192.0.2.{nth}");
            assert_eq!(passed(&gate, way, "/by_address", "X-Real-IP", invented), 0, "{way:?} {trust}");
            assert_eq!(passed(&gate, way, "/by_cdn", "CF-Connecting-IP", invented), 0, "{way:?} {trust}");
            assert_eq!(passed(&gate, way, "/tiered", "X-Remote-User", |_| "alice".into()), 3, "{way:?} {trust}");
            assert_eq!(passed(&gate, way, "/exempt", "Remote-User", |_| "staff".into()), 3, "{way:?} {trust}");
            for (path, name, value) in [
                ("/staff", "Remote-User", "staff"),
                ("/hop", "X-Forwarded-For", "192.0.2.1"),
                ("/hop", "Forwarded", "for=192.0.2.1"),
            ] {
                assert_eq!(ask(&gate, way, path, name, value.as_bytes()), 403, "{way:?} {trust} {name}");
            }
        }
    }
}

#[test]
fn what_a_trusted_proxy_tells_decides() {
    let origin = Origin::that(Reply::Ok);
    let trust = "trusted_proxies: { from: [127.0.0.0/8], keep_headers: [X-Real-IP] }";
    for way in WAYS {
        let gate = gate_before(&origin, trust);
        let told = |nth: usize| format!("192.0.2.{nth}");
        assert_eq!(passed(&gate, way, "/by_address", "X-Real-IP", told), 5, "{way:?}");
        assert_eq!(
            passed(&gate, way, "/by_cdn", "CF-Connecting-IP", told),
            0,
            "{way:?}: passed on as a stranger wrote it"
        );
        assert_eq!(passed(&gate, way, "/tiered", "X-Remote-User", |_| "alice".into()), 5, "{way:?}");
        assert_eq!(passed(&gate, way, "/exempt", "Remote-User", |_| "staff".into()), 5, "{way:?}");
        assert_eq!(ask(&gate, way, "/staff", "Remote-User", b"staff"), 200, "{way:?}");
        assert_eq!(ask(&gate, way, "/hop", "X-Forwarded-For", b"192.0.2.1"), 200, "{way:?}");
        assert_eq!(ask(&gate, way, "/hop", "Forwarded", b"for=192.0.2.1"), 403, "{way:?}: not the one that is read");
    }
}

#[test]
fn no_byte_and_no_line_break_leads_round_an_expression() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
routes:
  - {{ name: bot, match: {{ headers: {{ user-agent: {{ regex: \".*badbot.*\" }} }} }}, respond: {{ status: 403 }} }}
  - {{ name: cookie, match: {{ headers: {{ cookie: {{ regex: \".*evil=1.*\" }} }} }}, respond: {{ status: 403 }} }}
  - {{ name: query, match: {{ query: {{ q: {{ regex: \".*union.*\" }} }} }}, respond: {{ status: 403 }} }}
  - {{ name: site, origin: \"{}\" }}
",
        origin.address()
    ));
    for way in WAYS {
        for (name, value) in [
            ("User-Agent", &b"badbot"[..]),
            ("User-Agent", b"badbot\xff"),
            ("User-Agent", b"\xe2\x82badbot"),
            ("User-Agent", b"x \xc3\x28 badbot \x80"),
            ("Cookie", b"evil=1; \xff"),
        ] {
            assert_eq!(ask(&gate, way, "/", name, value), 403, "{way:?} {}", value.escape_ascii());
        }
        for query in
            ["union", "1+union+x", "1%0aunion", "%0Aunion%0d%0a", "union%ff", "%c3%28union%80", "1%E2%80%A8union"]
        {
            assert_eq!(ask(&gate, way, &format!("/?q={query}"), "", b""), 403, "{way:?} {query}");
        }
    }
    assert_eq!(origin.count(), 0);
    assert_eq!(ask(&gate, Way::Head, "/?q=onion", "User-Agent", b"goodbot\xff"), 200);
}

#[test]
fn no_other_spelling_of_a_field_that_is_read_reaches_an_origin() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
limits:
  dashed: {{ key: header:x-api-key, missing: allow, rate: 1000/s }}
  folded: {{ key: header:x_plan_id, missing: allow, rate: 1000/s }}
routes: [{{ name: site, limits: [dashed, folded], origin: \"{}\" }}]
",
        origin.address()
    ));
    let twins = ["X.Api.Key", "X!Api!Key", "X_Api_Key", "x-api.key", "X~Api-Key", "X-Plan-Id", "x.plan_id"];
    for way in WAYS {
        for name in twins {
            assert_eq!(ask(&gate, way, "/", name, b"smuggled"), 200, "{way:?} {name}");
        }
        for name in ["X-Api-Key", "x_plan_id", "X-Api-Keys", "X.Other"] {
            assert_eq!(ask(&gate, way, "/", name, b"honest"), 200, "{way:?} {name}");
        }
    }
    let (mut smuggled, mut honest) = (Vec::new(), 0);
    for arrival in origin.arrivals() {
        smuggled.extend(arrival.fields.iter().filter(|(_, value)| value == "smuggled").cloned());
        honest += arrival.fields.iter().filter(|(_, value)| value == "honest").count();
    }
    assert_eq!(smuggled, []);
    assert_eq!(honest, 4 * WAYS.len());
}
