//! Cost is linear in bytes: what eight times as many bytes of one shape cost is not much more than eight times as much.
//!
//! The shapes are pieces of a few bytes that are repeated, out of the bytes that mean something to each reader; those known to
//! have been dear come first. What is compared is CPU time of the thread, the least of several runs, and a ratio that is too
//! high is measured again: what grows with the square has 64, and no neighbour makes that of every run.

use std::net::IpAddr;
use std::path::Path;
use std::sync::OnceLock;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use tidegate::client::trust::parse_cidr;
use tidegate::client::values::MOST_PAIRS;
use tidegate::client::{ClientRules, ForwardHeader, Proto, ProxySet, Trust, onward, resolve};
use tidegate::config::load_text;
use tidegate::engine::{Arrival, DecisionId, Engine};
use tidegate::policy::LONGEST_VALUE;
use tidegate::request::{Peer, Request};
use tidegate::sketch::Seed;
use tidegate::units::Timestamp;
use tidegate_http::chunk::ChunkScanner;
use tidegate_http::h2::request;
use tidegate_http::head::{EndScan, HeadLimits, parse};
use tidegate_http::path::canonical_path;
use tidegate_http::proxy_protocol;
use tidegate_http::query::{LONGEST_TARGET, canonical_query};

use super::targets::cost::{Work, nanos};
use super::targets::limits::limits;

/// Bytes of the shorter input; the longer one has [`TIMES`] as many.
const SHORT: usize = 4 << 10;
const TIMES: usize = 8;
/// Three times what is proportional, where the square would be eight times.
const MOST_RATIO: u64 = 3 * TIMES as u64;
/// Less than this in all is dear for nobody, and mostly noise.
const NOISE_NANOS: u64 = 100_000;
/// How often a ratio is measured before it counts.
pub(super) const ATTEMPTS: usize = 6;
/// Shapes tried of each reader, beside those that are named.
const SHAPES: u32 = 48;

/// No bound that stops a long input early.
const WIDE: HeadLimits = limits(1 << 20, 1 << 20, 1 << 20);

/// Makes an input of so many bytes out of a piece that is repeated.
pub(super) fn repeated(piece: &str, bytes: usize) -> String {
    piece.repeat((bytes / piece.len()).max(1))
}

/// Holds a reader to it, over named pieces and over those made of `words`.
fn is_linear(named: &[&str], words: &'static [&'static str], short: usize, work: impl Fn(String) -> Work<'static>) {
    let holds = |piece: &str| {
        let cost = |bytes: usize| (0..3).map(|_| nanos(work(repeated(piece, bytes)))).min().unwrap_or(0);
        let mut measured = Vec::new();
        for _ in 0..ATTEMPTS {
            let (few, many) = (cost(short), cost(TIMES * short));
            if many <= MOST_RATIO * few + NOISE_NANOS {
                return Ok(());
            }
            measured.push((few, many));
        }
        Err(format!("{piece:?}: {short} bytes and {TIMES} times as many cost {measured:?} ns"))
    };
    for piece in named {
        holds(piece).unwrap();
    }
    // the same shapes in every run
    let mut runner = TestRunner::new_with_rng(
        Config { cases: SHAPES, failure_persistence: None, ..Config::default() },
        TestRunner::deterministic().new_rng(),
    );
    let pieces = vec(select(words), 1..6).prop_map(|words| words.concat());
    runner.run(&pieces, |piece| holds(&piece).map_err(TestCaseError::fail)).unwrap();
}

#[test]
fn a_path_costs_its_length() {
    let named = ["/.a%2Fa", "/.a/a", "/.", "/..a", "//.", ";;;", "%5C", "%3B", "/.a;", "/...", "%2F..a", "%61", "\"<>"];
    let words = &["/", ".", "..", "a", "%2F", "%2f", "%5C", "%3B", ";", "%2e", "%61", "%25", "~", "\"", "//"];
    is_linear(&named, words, SHORT, |text| {
        let path = format!("/{text}");
        Box::new(move || drop(canonical_path(path.as_bytes())))
    });
}

#[test]
fn a_query_costs_its_length() {
    let words = &["&", "=", "a", "%", "%0", "%41", "\"", "<", ">", "?", ";", "[]", "+"];
    is_linear(&["a=&", "%0", "\"", "<>", "?"], words, SHORT, |text| {
        let query = format!("?{text}");
        Box::new(move || drop(canonical_query(query.as_bytes(), LONGEST_TARGET)))
    });
}

/// As the connection reads it: once at its end, and as it comes in segments.
fn read_head(head: String) -> Work<'static> {
    read_head_within(head, &WIDE)
}

pub(super) fn read_head_within(head: String, limits: &'static HeadLimits) -> Work<'static> {
    Box::new(move || {
        let bytes = head.as_bytes();
        drop(parse(bytes, limits));
        let mut scan = EndScan::default();
        for end in (0..bytes.len()).step_by(256).chain([bytes.len()]) {
            if scan.is_worth_parsing(&bytes[..end], limits) && parse(&bytes[..end], limits) != Ok(None) {
                break;
            }
        }
    })
}

#[test]
fn a_request_line_costs_its_length() {
    let named = ["/.a%2Fa", "//.", "/..a", "?", "?a=&", "%", ":", "@"];
    let words = &["/", ".", "a", "%2F", "?", "&", "=", ":", "@", ";", "A", "%", "[", "\""];
    is_linear(&named, words, SHORT, |text| read_head(format!("GET /{text} HTTP/1.1\r\nHost: a\r\n\r\n")));
    is_linear(&named, words, SHORT, |text| read_head(format!("GET http://a/{text} HTTP/1.1\r\nHost: a\r\n\r\n")));
    is_linear(&named, words, SHORT, |text| read_head(format!("{text} / HTTP/1.1\r\nHost: a\r\n\r\n")));
}

#[test]
fn fields_cost_their_length() {
    let named = [
        "a:\r\n",
        "x: y\r\n",
        "x_y: z\r\n",
        "x-forwarded_for: a\r\n",
        "Cookie: a=b\r\n",
        "Connection: x\r\n",
        "Connection: a,b,c,d,e\r\n",
        "Expect: 100-continue\r\n",
        "Upgrade: x\r\n",
        "TE: a\r\n",
        "a: \t \t\r\n",
        "Content-Length: 1\r\n",
        "Host: a\r\n",
    ];
    let words =
        &["a", "-", "_", "x-real_ip", "connection", "cookie", ":", " ", "\t", ",", "\r\n", ": ", "\u{e9}", "host"];
    is_linear(&named, words, SHORT, |text| read_head(format!("GET / HTTP/1.1\r\nHost: a\r\n{text}\r\n\r\n")));
    // one field
    let named = [",", "a,", " ", "close,", "host ", ";", "=", "_"];
    let words = &["a", ",", " ", "\t", "close", "keep-alive", "host", ";", "\"", "=", "_", "x-forwarded-for"];
    for field in ["Connection", "X-Forwarded-For", "Cookie", "Host", "Content-Length", "Transfer-Encoding", "X"] {
        is_linear(&named, words, SHORT, |text| {
            read_head(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}: {text}\r\n\r\n"))
        });
    }
    is_linear(&named, words, SHORT, |text| read_head(format!("GET / HTTP/1.1\r\nHost: a\r\n{text}: a\r\n\r\n")));
}

pub(super) fn headers(name: &'static str, lines: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.split('\n') {
        headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    headers
}

#[test]
fn forwarding_headers_cost_their_length() {
    let header = |header| ClientRules {
        trust: Trust::Proxies(ProxySet::new([parse_cidr("10.0.0.0/8").unwrap().0], false)),
        header,
        ..ClientRules::default()
    };
    let peer = Peer::Ip(IpAddr::from([10, 0, 0, 1]));
    let read = |rules: ClientRules, name: &'static str| {
        move |text: String| -> Work<'static> {
            let (rules, headers) = (rules.clone(), headers(name, &text));
            Box::new(move || {
                let found = resolve(&rules, peer, &headers);
                let client = found.unwrap_or_else(|refused| refused.client);
                drop(onward(&rules, peer, &client, &headers, Proto::Http, &mut BytesMut::new()));
            })
        }
    };
    let named =
        [",", ", ", "10.0.0.1,", "10.0.0.1, ", "\n", "10.0.0.1\n", "a", ":", "[", "10.0.0.1:80,", "::1,", "1.", " "];
    let words = &["10.0.0.1", ",", " ", "\t", "\n", ":", "[", "]", "::1", "unknown", "1", ".", "%", "a"];
    is_linear(&named, words, SHORT, read(header(ForwardHeader::XForwardedFor), "x-forwarded-for"));
    let single = ForwardHeader::Single(HeaderName::from_static("cf-connecting-ip"));
    is_linear(&named, words, SHORT, read(header(single), "cf-connecting-ip"));
    let named =
        ["for=10.0.0.1,", "for=\"10.0.0.1\",", ";", ",", "a=b;", "for=\"\\\"", "\"", "for=10.0.0.1;by=a,", "\n", " "];
    let words = &[
        "for=",
        "10.0.0.1",
        "\"",
        "\\",
        "\\\"",
        ",",
        ";",
        "=",
        " ",
        "by=",
        "a",
        "[::1]",
        "_x",
        "\n",
        "proto=http",
        "for",
    ];
    is_linear(&named, words, SHORT, read(header(ForwardHeader::Forwarded), "forwarded"));
}

#[test]
fn heads_of_http_2_cost_what_they_unpack_to() {
    // one short name and value out of the table of the compression, again and again
    let named =
        ["a: b\n", "cookie: a=b\n", "cookie: \n", "host: a\n", "te: trailers\n", "x_y: a\n", "content-length: 1\n"];
    let words =
        &["cookie", "host", "a", "x_y", "expect", ": ", "\n", "a=b", "b", "c: d\n", "cookie: x\n", "100-continue"];
    // few, as the map looks through all its values at each that it removes, in builds that check themselves
    is_linear(&named, words, SHORT / 8, |text| {
        let request = http::Request::builder().uri("https://a/").body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        for line in text.lines() {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                // the map has room for so many, and the connection for much less
                let _ = parts.headers.try_append(name, value);
            }
        }
        Box::new(move || {
            let _ = (request::bytes(&parts), request::read(&mut parts, &WIDE));
        })
    });
    is_linear(&["/.a%2Fa", "//.", "/..a", "%61"], &["/", ".", "a", "%2F", ";", "~"], SHORT, |text| {
        let request = http::Request::builder().uri(format!("/{text}")).header("host", "a").body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        Box::new(move || {
            let _ = request::read(&mut parts, &WIDE);
        })
    });
}

#[test]
fn a_proxy_header_costs_its_length() {
    let signature = "\r\n\r\n\0\r\nQUIT\n";
    let named = ["PROXY ", "TCP4 ", "1.2.3.4 ", " ", "\r", "a", "\0", "\u{4}\0\0"];
    let words = &["PROXY ", "TCP6 ", "::1 ", "80", "\r\n", "\0", "!", "\u{11}", "\u{3}\0\u{4}", "UNKNOWN ", " "];
    for start in ["PROXY ", signature, "\r\n\r\n\0\r\nQUIT\n\u{21}\u{11}\u{7}\u{7f}"] {
        is_linear(&named, words, SHORT, |text| {
            let bytes = format!("{start}{text}").into_bytes();
            Box::new(move || {
                let _ = proxy_protocol::parse(&bytes);
            })
        });
    }
}

#[test]
fn chunks_cost_their_length() {
    let named = ["1\r\na\r\n", "1;a=b\r\na\r\n", "0", "1;", "\r\n", "0\r\na: b\r\n", "a", "1;\"\\\"\r\n"];
    let words = &["1", "0", "a", ";", "=", "\"", "\r\n", "1\r\na\r\n", "00", ": ", "f", "0\r\n"];
    is_linear(&named, words, SHORT, |text| {
        Box::new(move || {
            for step in [usize::MAX, 100, 1] {
                let mut scanner = ChunkScanner::new();
                for piece in text.as_bytes().chunks(step.min(text.len())) {
                    if scanner.scan(piece).is_err() || scanner.is_done() {
                        break;
                    }
                }
            }
        })
    });
}

/// A policy that reads what a client sends in every way there is.
const POLICY: &str = r#"
listen: "127.0.0.1:0"
trusted_proxies: [10.0.0.0/8]
origins: { shop: { addresses: ["127.0.0.1:3000"] } }
limits:
  by_cookie: { rate: 1000000/s, key: [cookie:k, cookie:l], missing: allow }
  by_both: { rate: 1000000/s, key: [cookie:m, query:m], missing: allow }
  by_query: { rate: 1000000/s, key: [query:k, query:l], missing: allow }
  by_field: { rate: 1000000/s, key: [header:x-api-key], missing: allow }
  by_path: { rate: 1000000/s, key: [path, host, client_ip] }
routes:
  - { match: { headers: { user-agent: { regex: ".*(bot|crawl|spider)[0-9]*.*" } } }, origin: shop }
  - { match: { query: { q: { regex: ".*(union|select).*x.*" } } }, origin: shop }
  - { match: { path: { regex: "/(a|b|.a)*/end" } }, origin: shop }
  - { match: { path: =/login ignore all }, origin: shop }
  - { match: { path: /, query: { mode: x } }, origin: shop }
  - { match: { path: / }, origin: shop, limits: [by_cookie, by_both, by_query, by_field, by_path] }
"#;

fn gate() -> &'static Engine {
    static GATE: OnceLock<Engine> = OnceLock::new();
    GATE.get_or_init(|| {
        let loaded = load_text("linear.yaml", POLICY, &|_: &str| None, Path::new("/no/such/directory"));
        let config = loaded.outcome.unwrap_or_else(|_| panic!("{:#?}", loaded.diagnostics));
        Engine::new(config.policy, &Seed::from_bytes([7; 16]), 0).unwrap()
    })
}

/// The verdict about a request of these parts.
pub(super) fn judge(path: String, query: Option<String>, headers: HeaderMap) -> Work<'static> {
    let gate = gate();
    Box::new(move || {
        let request = Request {
            peer: Peer::Ip(IpAddr::from([10, 0, 0, 1])),
            method: &Method::GET,
            host: "a.example",
            path: &path,
            query: query.as_deref(),
            headers: &headers,
            tls_sni: None,
        };
        drop(gate.judge(&request, Arrival { id: DecisionId(1), at: Timestamp::ZERO, dice: 1 }));
    })
}

#[test]
fn a_verdict_costs_the_length_of_the_path() {
    let words = &["/", "a", ".a", "/end", "b", "-", "%2F"];
    is_linear(&["/", "a", ".a", "/end", "/a"], words, SHORT, |text| judge(format!("/{text}"), None, HeaderMap::new()));
}

/// The same pieces with so long a value that as many as there are at most are few enough to be read.
fn few<const N: usize>(pieces: &[&str; N]) -> [String; N] {
    pieces.map(|piece| format!("{piece}k={}", "%61".repeat(TIMES * SHORT / MOST_PAIRS / 3)))
}

#[test]
fn a_verdict_costs_the_length_of_cookies() {
    let named = ["a=b; ", "k", "k=1; ", "; ", ";", "=", " ", "a=b\n", "k=\"1\";", "l;", "kk=1;", "m=1\n"];
    let words = &["k", "l", "m", "=", ";", "; ", " ", "\"", "\n", "a", "%6b", "\t", ","];
    let read = |text: String| judge("/".into(), None, headers("cookie", &text));
    is_linear(&named, words, SHORT, read);
    is_linear(&few(&named).each_ref().map(String::as_str), words, SHORT, read);
}

#[test]
fn a_verdict_costs_the_length_of_the_query() {
    let named = ["a=&", "k", "k=1&", "&", "=", "q=", "q=1&", "mode&", "%6b=1&", ";", "l=1;", "%", "+"];
    let words = &["k", "l", "m", "q", "mode", "=", "&", ";", "%6b", "%", "+", "a", "union"];
    let read = |text: String| judge("/".into(), Some(text), HeaderMap::new());
    is_linear(&named, words, SHORT, read);
    is_linear(&few(&named).each_ref().map(String::as_str), words, SHORT, read);
}

#[test]
fn a_verdict_costs_the_length_of_fields() {
    let words = &["a", "k", " ", ",", "\n", "\"", "bot", "crawl", "1", "x"];
    for field in ["x-api-key", "user-agent", "x-forwarded-for", "x-other"] {
        is_linear(&["a", "a\n", ",", "bo", "crawl"], words, SHORT, |text| {
            judge("/".into(), None, headers(field, &text))
        });
    }
    // expressions read no more than this of one line, so here both fit
    let short = LONGEST_VALUE / TIMES;
    is_linear(&["a", "bo", "bots", "9"], words, short, |text| {
        judge("/".into(), None, headers("user-agent", &text.replace('\n', " ")))
    });
    is_linear(&["a", "unio", "unionx", "select"], &["union", "x", "select", "a", "uni"], short, |text| {
        judge("/".into(), Some(format!("q={text}")), HeaderMap::new())
    });
}

#[test]
fn a_policy_file_costs_its_length() {
    let load = |text: String| -> Work<'static> {
        Box::new(move || drop(load_text("linear.yaml", &text, &|_: &str| None, Path::new("/no/such/directory"))))
    };
    let scalars =
        ["a", " ", "'", "\"", "\\\"", ": ", "- ", "#", "${A}", "&a ", "*a ", "{", "[", ",", "\n", "\n  ", "|", "é"];
    let words =
        &["a", "b: c", "\n", "  ", "- ", ": ", "#", "'", "\"", "${A}", "&a ", "*a", "{", "}", "[", "]", ",", "|\n"];
    // as a value, in both kinds of quotes, in a block and as text of its own
    for (before, after) in [("listen: ", ""), ("listen: \"", "\""), ("listen: '", "'"), ("listen: |\n  ", ""), ("", "")]
    {
        is_linear(&scalars, words, SHORT / 4, |text| load(format!("{before}{text}{after}\n")));
    }
    let named = ["  a: { rate: 1/s }\n", "  ? a\n", "  <<: *a\n", "  - &a [*a]\n"];
    is_linear(&named, words, SHORT / 4, |text| load(format!("listen: 127.0.0.1:1\nlimits:\n{text}")));
    is_linear(&["  - { origin: a }\n", "  - a\n"], words, SHORT / 4, |text| load(format!("routes:\n{text}")));
}
