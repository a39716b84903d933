//! A request is judged alike whichever way it takes through the gate: with or without a body, alone or behind others on
//! its connection, in whatever spelling.

use crate::harness::client::request;
use crate::harness::{Gate, Origin, Reply};

/// Each key with two spellings of one value, and one of another value.
const KEYS: [(&str, [(&str, &str); 3]); 7] = [
    (
        "client_ip",
        [
            ("/", "X-Forwarded-For: 192.0.2.1\r\n"),
            ("/", "X-Forwarded-For: ::ffff:192.0.2.1\r\n"),
            ("/", "X-Forwarded-For: 192.0.2.2\r\n"),
        ],
    ),
    ("header:x-key", [("/", "X-Key: a\r\n"), ("/", "x-KEY:   a  \r\n"), ("/", "X-Key: b\r\n")]),
    ("cookie:id", [("/", "Cookie: id=a\r\n"), ("/", "Cookie: other=b; id=a\r\n"), ("/", "Cookie: id=b\r\n")]),
    ("query:id", [("/?id=a", ""), ("/?x=y&id=a", ""), ("/?id=b", "")]),
    (
        "host",
        [("/", "Host: shop.example\r\n"), ("/", "Host: SHOP.example.:8080\r\n"), ("/", "Host: other.example\r\n")],
    ),
    ("path", [("/a/b", ""), ("/%61//b?q", ""), ("/a/c", "")]),
    (
        "[host, path]",
        [
            ("/a", "Host: shop.example\r\n"),
            ("http://shop.example/a", "Host: shop.example\r\n"),
            ("/a", "Host: other.example\r\n"),
        ],
    ),
];

#[test]
fn a_body_makes_no_difference_to_what_is_counted() {
    let origin = Origin::that(Reply::Ok);
    for action in ["respond: { status: 200, body: ok }".to_owned(), format!("origin: \"{}\"", origin.address())] {
        for (key, [first, same, other]) in KEYS {
            let missing = if key.contains(':') { ", missing: deny" } else { "" };
            for bodies in [[false, true], [true, false], [false, false], [true, true]] {
                let gate = Gate::start(
                    &format!(
                        "trusted_proxies: [127.0.0.0/8]
limits:
  one: {{ key: \"{key}\"{missing}, rate: 1/h, burst: 1 }}
routes:
  - {{ name: page, limits: [one], {action} }}
"
                    )
                    .replace("\"[host, path]\"", "[host, path]"),
                );
                let ask = |(target, lines): (&str, &str), body: bool| {
                    let (method, body) = if body { ("POST", &b"hello"[..]) } else { ("GET", &b""[..]) };
                    gate.connect().ask(method, target, lines, body).status
                };
                let seen = [ask(first, bodies[0]), ask(same, bodies[1]), ask(other, bodies[0]), ask(first, bodies[1])];
                assert_eq!(seen, [200, 429, 200, 429], "{key}, bodies {bodies:?}, {action}");
            }
        }
    }
}

#[test]
fn answers_come_in_the_order_of_requests_however_they_were_judged() {
    let origin = Origin::that(Reply::Echo);
    let mut gate = Gate::start(&format!(
        "routes:
  - {{ name: fixed, match: {{ path: /fixed }}, respond: {{ status: 203, body: fixed }} }}
  - {{ name: closed, match: {{ path: /closed }}, limit: 1/h burst 1, respond: {{ status: 200, body: ok }} }}
  - {{ name: site, match: {{ path: /site }}, origin: \"{}\" }}
",
        origin.address()
    ));
    assert_eq!(gate.fetch("/closed", "").status, 200);
    let wave = [
        ("GET", "/closed", 429),
        ("GET", "/site", 200),
        ("HEAD", "/closed", 429),
        ("GET", "/nowhere", 404),
        ("POST", "/site", 200),
        ("POST", "/closed", 429),
        ("GET", "/fixed", 203),
        ("GET", "/closed", 429),
        ("HEAD", "/fixed", 203),
        ("POST", "/nowhere", 404),
        ("GET", "/site", 200),
    ];
    let body = |method: &str| if method == "POST" { &b"hello"[..] } else { b"" };
    let mut connection = gate.connect();
    for round in 0..3 {
        let bytes: Vec<u8> =
            wave.iter().flat_map(|(method, path, _)| request(method, path, "", body(method))).collect();
        connection.send(&bytes).unwrap();
        for (method, path, status) in wave {
            let answer =
                connection.answer_to(method).unwrap_or_else(|fault| panic!("{round} {method} {path}: {fault}"));
            assert_eq!(answer.status, status, "{round} {method} {path}");
            assert!(answer.keeps_connection(), "{round} {method} {path}: {answer:?}");
        }
    }
    assert_eq!(origin.count(), 9);
    gate.comes_to_rest();
    gate.log_of(1 + 3 * wave.len());
}

#[test]
fn a_refused_client_of_http_1_0_gets_its_answer_and_the_end() {
    let gate = Gate::start("routes:\n  - { name: page, limit: 1/h burst 1, respond: { status: 200, body: ok } }\n");
    for status in [200, 429] {
        let mut connection = gate.connect();
        connection.send(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
        let answer = connection.answer_to("GET").expect("an answer comes");
        assert_eq!((answer.status, answer.complete), (status, true));
        assert_eq!(connection.rest().expect("the connection ends"), b"");
    }
}
