//! No answer leaves the gate that is not in the access log and in the metrics: what a client reads off the wire is counted, by
//! protocol, status and bytes of body, and held against both.

use std::collections::BTreeMap;

use crate::h2::raw::{self, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, RESET, Raw};
use crate::harness::client::request;
use crate::harness::origin::refusing;
use crate::harness::{Connection, Gate, Origin, Reply, wait_for};
use crate::malformed::{self, Then, source_of};

/// Protocol, status and bytes of body.
type Answer = (String, u64, u64);
/// How many of each there were.
type Tally = BTreeMap<Answer, usize>;

/// A gate with every kind of answer: fixed, forwarded, refused by a limit, by an origin that is not there, by a length.
fn gate_before(origin: &Origin, switching: &Origin, deaf: &str) -> Gate {
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1], connections: {{ linger: 1s }}, request_head: {{ timeout: 1s }} }}
  door: {{ address: \"127.0.0.1:0\", redirect: https }}
  modern: {{ address: \"127.0.0.1:0\", protocols: [h2] }}
limits:
  once: {{ key: client_ip, rate: 1/h, burst: 1 }}
origins:
  app: {{ addresses: [\"{}\"], timeouts: {{ connect: 2s, read: 5s, write: 5s, request: 5s }} }}
  chat: {{ addresses: [\"{}\"], inflight: {{ max: 10 }} }}
  gone: {{ addresses: [\"{deaf}\"], timeouts: {{ connect: 1s, request: 2s }} }}
routes:
  - {{ name: admin, match: {{ path: /admin }}, respond: {{ status: 403, body: no }} }}
  - {{ name: gone, match: {{ path: /gone }}, origin: gone }}
  - {{ name: chat, match: {{ path: /chat }}, origin: chat }}
  - {{ name: once, match: {{ path: /once }}, limits: [once], respond: {{ status: 200, body: yes }} }}
  - {{ name: small, match: {{ path: /small }}, origin: app, body_limit: 10B }}
  - {{ name: bots, match: {{ path: /bots, headers: {{ x-bot: {{ regex: \".*bot.*\" }} }} }}, respond: {{ status: 403, body: no }} }}
  - {{ name: nothing, match: {{ path: /empty }}, respond: {{ status: 204 }} }}
  - {{ name: rest, match: {{ path: / }}, origin: app }}
",
        origin.address(),
        switching.address()
    ))
}

/// All answers that come to these bytes, to the end of the connection.
fn answers(mut connection: Connection, bytes: &[u8], then: Then) -> Vec<Answer> {
    let _ = connection.send(bytes);
    if then == Then::Ends {
        connection.finish_sending();
    }
    let method = if bytes.starts_with(b"HEAD ") { "HEAD" } else { "GET" };
    let mut answers = Vec::new();
    while let Ok(answer) = connection.answer_to(method) {
        connection.finish_sending();
        answers.push(("h1".to_owned(), u64::from(answer.status), answer.body.len() as u64));
    }
    answers
}

/// What comes on the first stream of a connection; nothing when the connection ended without an answer. That a malformed head is
/// answered by a reset alone is what HTTP/2 has for 400 (RFC 9113 section 8.1.1).
fn answer_of_stream(gate: &Gate, number: usize, frames: &[u8]) -> Option<Answer> {
    let mut raw = Raw::open_from(source_of(number), gate.address("main"));
    let _ = raw.send(frames);
    let (mut status, mut bytes) = (None, 0);
    while let Ok(Some(frame)) = raw.next() {
        if frame.stream != 1 {
            continue;
        }
        match frame.kind {
            HEADERS if status.is_none_or(|status| status < 200) => status = raw::status_of(&frame.payload),
            DATA => bytes += frame.payload.len() as u64,
            _ => {}
        }
        if frame.kind == RESET && frame.payload == PROTOCOL_ERROR {
            status = status.or(Some(400));
        }
        if frame.kind == RESET || frame.flags & END_STREAM != 0 {
            break;
        }
    }
    Some(("h2".to_owned(), u64::from(status?), bytes))
}

/// The code of a reset for a malformed message (RFC 9113 section 7).
const PROTOCOL_ERROR: [u8; 4] = [0, 0, 0, 1];

/// Requests of HTTP/1 beside those that are malformed.
fn requests() -> Vec<Vec<u8>> {
    let close = "Connection: close\r\n";
    let get = |path: &str, lines: &str| request("GET", path, &format!("{lines}{close}"), b"");
    vec![
        get("/", ""),
        get("/admin", ""),
        get("/empty", ""),
        get("/gone", ""),
        get("/?q=\"a\"<b>", ""),
        get("/?a={x|y}^`[]\\", ""),
        get("/bots", &format!("X-Bot: {}\r\n", "x".repeat(5_000))),
        get("/bots", "X-Bot: a bot\r\n"),
        get("/a//b/%61", ""),
        get("/a/../b", ""),
        get("/%", ""),
        get("/", "X_Forwarded_For: 1.2.3.4\r\n"),
        get("/", "Content_Length: 1\r\n"),
        get("/", "Expect: nothing\r\n"),
        get(&format!("/{}", "a".repeat(9_000)), ""),
        get("/", &format!("X: {}\r\n", "a".repeat(40_000))),
        get("/", &"X: a\r\n".repeat(150)),
        get("/", "Upgrade: websocket\r\nConnection: upgrade\r\n"),
        request("GET", "/chat", UPGRADE, b""),
        get("/", &format!("Connection: {}\r\n", ["a"; 12].join(","))),
        request("HEAD", "/admin", close, b""),
        request("HEAD", "/", close, b""),
        request("TRACE", "/", close, b""),
        request("POST", "/small", close, b"more than ten bytes"),
        request("POST", "/", close, b"a body"),
        b"POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n20\r\nmore than ten bytes, in chunks..\r\n0\r\n\r\n"
            .to_vec(),
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\ncut".to_vec(),
        b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec(),
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_vec(),
        b"GET / HTTP/1.0\r\nHost: a\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00".to_vec(),
        // three on one connection, the last of them faulty
        [request("GET", "/", "", b""), request("GET", "/admin", "", b""), request("GET", "/\\", "", b"")].concat(),
        [request("GET", "/once", "", b""), request("GET", "/once", "", b""), get("/once", "")].concat(),
    ]
}

/// Requests of HTTP/2, each the first of its connection.
fn streams() -> Vec<Vec<u8>> {
    let head = |method: &str, path: &str, more: &[(&[u8], &[u8])], end: bool| {
        let mut fields: Vec<(&[u8], &[u8])> = vec![
            (b":method", method.as_bytes()),
            (b":scheme", b"http"),
            (b":authority", b"gate.example"),
            (b":path", path.as_bytes()),
        ];
        fields.extend(more);
        raw::head(1, &fields, end)
    };
    let long = "a".repeat(9_000);
    // one field is put into the table of the compression and taken from it thirty times: 100 kB for 4
    let mut bomb = raw::block(&[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")]);
    let mut large = raw::block(&[(b"x", "a".repeat(3_500).as_bytes())]);
    large[0] = 0x40;
    bomb.extend(large);
    bomb.extend([0xbe; 30]);
    let (first, last) = bomb.split_at(2_000);
    vec![
        head("GET", "/", &[], true),
        head("GET", "/admin", &[], true),
        head("HEAD", "/admin", &[], true),
        head("GET", "/empty", &[], true),
        head("GET", "/gone", &[], true),
        head("GET", "/once", &[], true),
        head("GET", "/a/../b", &[], true),
        head("GET", "/?q={x|y}", &[], true),
        head("GET", "/?q=\"", &[], true),
        head("GET", &format!("/{long}"), &[], true),
        head("GET", "/", &[(b"x_forwarded_for", b"1.2.3.4")], true),
        head("GET", "/", &[(b"host", b"other")], true),
        head("GET", "/", &[(b"connection", b"close")], true),
        head("GET", "/", &[(b"cookie", b"a=b"), (b"cookie", b" c")], true),
        head("GET", "/bots", &[(b"x-bot", &long.as_bytes()[..5_000])], true),
        head("GET", "/", &[(&b"x"[..], &b"a"[..]); 150], true),
        head("TRACE", "/", &[], true),
        [head("POST", "/small", &[], false), raw::frame(DATA, END_STREAM, 1, b"more than ten bytes")].concat(),
        [head("POST", "/", &[], false), raw::frame(DATA, END_STREAM, 1, b"a body")].concat(),
        [raw::frame(HEADERS, END_STREAM, 1, first), raw::frame(CONTINUATION, END_HEADERS, 1, last)].concat(),
    ]
}

/// Heads of HTTP/2 that the library refuses before anybody else sees them, each the first of its connection.
fn unread_streams() -> Vec<Vec<u8>> {
    type Fields<'a> = Vec<(&'a [u8], &'a [u8])>;
    let ordinary: Fields<'_> =
        vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"gate.example"), (b":path", b"/")];
    let with = |name: &'static [u8], value: &'static [u8]| {
        let mut fields: Fields<'_> = ordinary.iter().copied().filter(|(known, _)| *known != name).collect();
        fields.push((name, value));
        fields
    };
    let without = |name: &[u8]| ordinary.iter().copied().filter(|(known, _)| *known != name).collect();
    let heads: Vec<Fields<'_>> = vec![
        with(b":path", b"/?a=\"b"),
        with(b":path", b"/<a>"),
        with(b":path", b"/?a=<b"),
        with(b":path", b"/?a=>b"),
        with(b":path", b"/a b"),
        with(b":path", b""),
        with(b":authority", b""),
        with(b":authority", b"a b"),
        with(b":scheme", b"1:"),
        with(b":protocol", b"websocket"),
        with(b":method", b"CONNECT"),
        with(b":status", b"200"),
        without(b":method"),
        without(b":scheme"),
        without(b":path"),
        with(b"connection", b"close"),
        with(b"te", b"gzip"),
        with(b"content-length", b"1, 1"),
        with(b"content-length", b"+1"),
    ];
    heads.iter().map(|fields| raw::head(1, fields, true)).collect()
}

#[test]
fn a_head_that_the_library_refuses_is_counted_and_has_a_line() {
    let origin = Origin::that(Reply::Ok);
    let (deaf, _held) = refusing();
    let gate = gate_before(&origin, &origin, &deaf.to_string());
    let heads = unread_streams();
    for (number, frames) in heads.iter().enumerate() {
        let answer = answer_of_stream(&gate, number + 1, frames);
        assert_eq!(answer, Some(("h2".to_owned(), 400, 0)), "{}", frames.escape_ascii());
    }
    gate.counts("tidegate_malformed_requests_total", &[("reason", "h2_stream")], heads.len() as f64);
    gate.counts("tidegate_requests_total", &[("route", "_none"), ("code", "4xx")], heads.len() as f64);
    gate.counts("tidegate_h2_abuse_total", &[], 0.0);
    let log = wait_for("a line for each", || {
        let log = gate.log_text();
        (log.lines().count() >= heads.len()).then_some(log)
    });
    for line in log.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let told = (value["protocol"].as_str(), value["status"].as_u64(), value["error"].as_str());
        assert_eq!(told, (Some("h2"), Some(400), Some("h2_stream")), "{line}");
    }
    assert_eq!((log.lines().count(), origin.count()), (heads.len(), 0));
    wait_for("the line about misbehaviour", || gate.talk().contains("h2_stream").then_some(()));
}

#[test]
fn streams_of_one_connection_are_told_apart() {
    let origin = Origin::that(Reply::Ok);
    let (deaf, _held) = refusing();
    let gate = gate_before(&origin, &origin, &deaf.to_string());
    let mut raw = Raw::open_from(source_of(1), gate.address("main"));
    let unread = |stream| {
        let path: (&[u8], &[u8]) = (b":path", b"/?\"");
        raw::head(stream, &[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), path], true)
    };
    // all in one packet
    let frames =
        [raw::get(1, "/admin"), unread(3), raw::get(5, "/admin"), unread(7), unread(9), raw::get(11, "/admin")];
    raw.send(&frames.concat()).unwrap();
    let mut ended = 0;
    while ended < frames.len() {
        let frame = raw.next().unwrap().expect("the connection goes on");
        ended += usize::from(frame.stream > 0 && (frame.kind == RESET || frame.flags & END_STREAM != 0));
    }
    gate.counts("tidegate_requests_total", &[("route", "admin"), ("code", "4xx")], 3.0);
    gate.counts("tidegate_malformed_requests_total", &[], 3.0);
    gate.counts("tidegate_malformed_requests_total", &[("reason", "h2_stream")], 3.0);
}

#[test]
fn a_value_that_is_too_long_for_an_expression_is_refused_and_not_passed_by() {
    let origin = Origin::that(Reply::Ok);
    let (deaf, _held) = refusing();
    let gate = gate_before(&origin, &origin, &deaf.to_string());
    let ask = |length: usize| {
        let bot = format!("X-Bot: {}bot\r\n", "x".repeat(length - 3));
        (gate.fetch("/bots", &bot).status, gate.fetch("/other", &bot).status)
    };
    assert_eq!(ask(4_096), (403, 200));
    // one byte more would have reached the origin; where no expression reads the field, it may be as long as a head
    assert_eq!(ask(4_097), (400, 200));
    gate.counts("tidegate_refused_requests_total", &[("reason", "value_too_long")], 1.0);
}

#[test]
fn what_costs_more_than_its_bytes_is_refused() {
    let origin = Origin::that(Reply::Ok);
    let (deaf, _held) = refusing();
    let gate = gate_before(&origin, &origin, &deaf.to_string());
    let options = |elements: usize| gate.fetch("/", &format!("Connection: x{}\r\n", ",".repeat(elements - 1))).status;
    assert_eq!((options(64), options(65)), (200, 400));
    let lines = format!("Connection: x{}\r\nConnection: {}\r\n", ",".repeat(40), ",".repeat(40));
    assert_eq!(gate.fetch("/", &lines).status, 400);
    gate.counts("tidegate_malformed_requests_total", &[("reason", "connection")], 2.0);
    // a request line of 8 KiB with the escapes that a query goes on with
    let escaped = |quotes: usize| gate.fetch(&format!("/?{}", "\"".repeat(quotes)), "").status;
    assert_eq!((escaped(2_728), escaped(2_729)), (200, 414));
}

#[test]
fn what_no_query_may_hold_reaches_the_origin_escaped() {
    let origin = Origin::that(Reply::Ok);
    let (deaf, _held) = refusing();
    let gate = gate_before(&origin, &origin, &deaf.to_string());
    assert_eq!(gate.fetch("/x?q=\"a\"<b>&c={d|e}^`[]\\", "").status, 200);
    assert_eq!(origin.only_arrival().target, "/x?q=%22a%22%3Cb%3E&c={d|e}^`[]\\");
}

/// What asks for a WebSocket.
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[test]
fn a_websocket_that_ends_is_nobodys_fault() {
    let origin = Origin::that(Reply::Switch);
    let (deaf, _held) = refusing();
    let mut gate = gate_before(&origin, &origin, &deaf.to_string());
    let ends = ["client", "crash", "half", "origin"];
    for end in ends {
        let mut connection = gate.connect();
        connection.send(&request("GET", "/chat", UPGRADE, b"")).unwrap();
        assert_eq!(connection.answer_to("GET").expect("it switches").status, 101);
        let _ = connection.send(b"hello").and_then(|()| connection.skip(5));
        match end {
            "client" => drop(connection),
            "crash" => connection.reset(),
            "half" => {
                connection.finish_sending();
                let _ = connection.rest();
            }
            _ => {
                let _ = connection.send(b"bye").and_then(|()| connection.rest());
            }
        }
        gate.comes_to_rest();
    }
    let log = wait_for("the log to have them all", || {
        let log = gate.log_text();
        (log.lines().count() >= ends.len()).then_some(log)
    });
    for line in log.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        assert_eq!((value["status"].as_u64(), value["error"].as_str()), (Some(101), None), "{line}");
    }
    gate.counts("tidegate_requests_total", &[("code", "1xx")], ends.len() as f64);
    gate.counts("tidegate_requests_total", &[("code", "aborted")], 0.0);
    // the line of the minute comes for a fault, and tells of nothing else
    assert_eq!(gate.fetch("/\\", "").status, 400);
    let said = wait_for("the line about misbehaviour", || {
        gate.talk().lines().find(|line| line.contains("clients misbehaved")).map(str::to_owned)
    });
    assert!(!said.contains("aborted"), "{said}");
}

#[test]
fn nothing_is_written_behind_a_change_of_protocol_that_the_origin_breaks_off() {
    const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello";
    let origin = Origin::that(Reply::ThenReset(SWITCH));
    let (deaf, _held) = refusing();
    let gate = gate_before(&origin, &origin, &deaf.to_string());
    for _ in 0..5 {
        // the reset may overtake the 101, and then it is a 502
        let rest = wait_for("a change of protocol", || {
            let mut connection = gate.connect();
            connection.send(&request("GET", "/chat", UPGRADE, b"")).unwrap();
            let switched = connection.answer_to("GET").is_ok_and(|answer| answer.status == 101);
            switched.then(|| connection.rest().expect("the connection ends"))
        });
        assert!(b"hello".starts_with(&rest), "{}", rest.escape_ascii());
    }
}

/// What the log says was answered.
fn logged(gate: &Gate) -> Tally {
    let mut tally = Tally::new();
    for line in gate.log_text().lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let number = |name: &str| value[name].as_u64().expect("a number");
        // 499 is what the log says of a client that left before its answer
        if number("status") != 499 {
            let protocol = value["protocol"].as_str().expect("a text").to_owned();
            *tally.entry((protocol, number("status"), number("bytes_out"))).or_default() += 1;
        }
    }
    tally
}

#[test]
fn every_answer_on_the_wire_is_in_the_log_and_the_metrics() {
    let origin = Origin::that(Reply::Ok);
    let (deaf, _held) = refusing();
    let switching = Origin::that(Reply::Switch);
    let mut gate = gate_before(&origin, &switching, &deaf.to_string());
    let mut seen = Vec::new();
    let mut number = 0;
    let mut from = |listener: &str| {
        number += 1;
        Connection::open_from(source_of(number), gate.address(listener))
    };
    for case in malformed::all() {
        seen.extend(answers(from("main"), &case.bytes, case.then));
    }
    for bytes in requests() {
        seen.extend(answers(from("main"), &bytes, Then::Waits));
    }
    for listener in ["door", "modern"] {
        for method in ["GET", "POST", "A B"] {
            let bytes = request(method, "/a?b", "Connection: close\r\n", b"");
            seen.extend(answers(from(listener), &bytes, Then::Waits));
        }
    }
    for frames in streams().into_iter().chain(unread_streams()) {
        number += 1;
        seen.extend(answer_of_stream(&gate, number, &frames));
    }
    gate.comes_to_rest();
    let wire = seen.iter().fold(Tally::new(), |mut tally, answer| {
        *tally.entry(answer.clone()).or_default() += 1;
        tally
    });
    for status in [101, 200, 204, 301, 308, 400, 403, 405, 408, 413, 414, 417, 429, 431, 502, 505] {
        assert!(wire.keys().any(|(_, found, _)| *found == status), "nothing was answered {status}: {wire:?}");
    }
    assert!(wire.contains_key(&("h2".to_owned(), 431, 0)), "the library's own answer: {wire:?}");
    let lines = |tally: &Tally| tally.values().sum::<usize>();
    let log = wait_for("the log to have as many answers", || {
        let log = logged(&gate);
        (lines(&log) >= seen.len()).then_some(log)
    });
    let only = |here: &Tally, there: &Tally| {
        let count = |(answer, count): (&Answer, &usize)| {
            (answer.clone(), *count as i64 - there.get(answer).map_or(0, |it| *it as i64))
        };
        here.iter().map(count).filter(|(_, more)| *more > 0).collect::<Vec<_>>()
    };
    assert_eq!((only(&wire, &log), only(&log, &wire)), (vec![], vec![]), "more on the wire, and more in the log");
    for class in 1..=5 {
        let answered = seen.iter().filter(|(_, status, _)| status / 100 == class).count();
        gate.counts("tidegate_requests_total", &[("code", &format!("{class}xx"))], answered as f64);
    }
}
