//! What passes through is what was sent, and what belongs to one connection stays on it.

use crate::harness::{Answer, Gate, Origin, Reply};

fn gate_before(origin: &Origin) -> Gate {
    Gate::start(&format!("routes:\n  - {{ name: site, origin: \"{}\", limit: 1000/s }}\n", origin.address()))
}

/// What a client gets for this request when the origin answers with these bytes and keeps its connection.
fn through(method: &str, bytes: &'static [u8]) -> Answer {
    let origin = Origin::that(Reply::Bytes(bytes));
    let mut gate = gate_before(&origin);
    let mut connection = gate.connect();
    let answer = connection.ask(method, "/", "", b"");
    assert!(answer.keeps_connection(), "{answer:?}");
    assert_eq!(connection.ask(method, "/", "", b"").status, answer.status, "a second time on the same connection");
    gate.comes_to_rest();
    answer
}

#[test]
fn answers_without_a_body_have_none() {
    let head = through("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\nETag: \"a\"\r\n\r\n");
    assert_eq!((head.status, head.field("content-length").as_deref()), (200, Some("12345")));
    let none = through("GET", b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n");
    assert_eq!((none.status, none.field("x").as_deref()), (204, Some("y")));
    let same = through("GET", b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 12345\r\n\r\n");
    assert_eq!((same.status, same.field("etag").as_deref()), (304, Some("\"a\"")));
}

#[test]
fn a_body_in_chunks_arrives_whole() {
    let piece: Vec<u8> = (0..50_000_u32).map(|number| (number % 253) as u8).collect();
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for size in [1, 10, 1_000, 16_384, 50_000, 7] {
        bytes.extend_from_slice(format!("{size:x};a=b\r\n").as_bytes());
        bytes.extend_from_slice(&piece[..size]);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nX-Trailer: y\r\n\r\n");
    let whole: Vec<u8> = [1, 10, 1_000, 16_384, 50_000, 7].iter().flat_map(|size| piece[..*size].to_vec()).collect();
    let answer = through("GET", Vec::leak(bytes));
    assert!(answer.complete && answer.body == whole);
}

#[test]
fn several_set_cookie_lines_stay_several() {
    let answer = through(
        "GET",
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Expires=Thu, 01 Jan 2032 00:00:00 GMT\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
    );
    let cookies: Vec<&str> = answer
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .map(|(_, value)| &**value)
        .collect();
    assert_eq!(cookies, ["a=1; Expires=Thu, 01 Jan 2032 00:00:00 GMT", "b=2"]);
}

#[test]
fn fields_of_one_connection_are_not_passed_on() {
    let origin = Origin::that(Reply::Bytes(
        b"HTTP/1.1 200 OK\r\nConnection: x-hop, keep-alive\r\nX-Hop: secret\r\nKeep-Alive: timeout=9\r\n\
          Proxy-Authenticate: Basic\r\nX-End: y\r\nContent-Length: 0\r\n\r\n",
    ));
    let gate = gate_before(&origin);
    let answer = gate.fetch(
        "/",
        "Connection: x-mine, keep-alive\r\nX-Mine: secret\r\nKeep-Alive: timeout=9\r\nTE: trailers\r\nX-End: y\r\n",
    );
    assert_eq!(answer.field("x-end").as_deref(), Some("y"));
    let arrival = origin.only_arrival();
    assert_eq!(arrival.lines("x-end"), ["y"]);
    for field in ["x-mine", "keep-alive", "te", "upgrade", "proxy-connection"] {
        assert_eq!(arrival.lines(field), [""; 0], "{field} was passed on to the origin");
    }
    for field in ["x-hop", "keep-alive"] {
        assert_eq!(answer.field(field), None, "{field} was passed on to the client");
    }
}

#[test]
fn a_client_of_http_1_0_gets_no_chunks() {
    let origin = Origin::that(Reply::Bytes(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    ));
    let mut gate = gate_before(&origin);
    let mut connection = gate.connect();
    connection.send(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let answer = connection.answer_to("GET").expect("an answer comes");
    assert_eq!(answer.field("transfer-encoding"), None, "{answer:?}");
    assert_eq!((answer.text().as_str(), answer.complete), ("hello world", true));
    gate.comes_to_rest();
}

#[test]
fn a_kept_connection_to_the_origin_serves_many_clients() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate_before(&origin);
    for _ in 0..50 {
        assert_eq!(gate.fetch("/", "").status, 200);
        gate.comes_to_rest();
    }
    let metrics = gate.metrics();
    let connections = |reused| metrics.sum("tidegate_origin_connections_total", &[("reused", reused)]);
    assert_eq!(connections("true") + connections("false"), 50.0);
    assert!(connections("true") >= 40.0, "{} of 50 used a kept connection", connections("true"));
}

#[test]
fn an_origin_is_found_by_name() {
    let origin = Origin::that(Reply::Ok);
    // on most machines the name has an IPv6 address too, where nobody listens: another try is made
    let gate =
        Gate::start(&format!("routes:\n  - {{ name: site, origin: \"localhost:{}\" }}\n", origin.address().port()));
    for _ in 0..10 {
        assert_eq!(gate.fetch("/", "").status, 200);
    }
    assert_eq!(origin.count(), 10);
}

#[test]
fn an_origin_whose_name_nobody_knows_is_an_error_of_its_own() {
    let mut gate = Gate::start("routes:\n  - { name: site, origin: \"nobody.invalid:80\" }\n");
    let answer = gate.fetch("/", "");
    assert!(matches!(answer.status, 502 | 503), "{answer:?}");
    gate.comes_to_rest();
}
