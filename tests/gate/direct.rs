//! By which way a request goes, nobody can tell: each of many requests is sent through a gate with `server.direct: on` and through one
//! with `off`, in front of one origin that answers both with the same bytes. What the origin got, what the client got, the access log's
//! line and the metrics are the same; only the order of fields with different names is left out, as it means nothing (RFC 9110 section 5.3).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

/// How many requests go both ways.
const CASES: usize = 1200;

/// Numbers from a seed (SplitMix64).
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[(self.next() % choices.len() as u64) as usize]
    }

    /// Each with this chance, in percent, in this order.
    pub fn some(&mut self, percent: u64, choices: &[&str]) -> String {
        choices.iter().filter(|_| self.next() % 100 < percent).copied().collect()
    }
}

pub const METHODS: [&str; 9] = ["GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE", "POST", "POST", "PUT"];
/// The last two can only be said in HTTP/1.
pub const PATHS: [&str; 14] = [
    "/",
    "/costly/a",
    "/costly/b",
    "/edited/a?b=c",
    "/limited/x",
    "/limited/y?z",
    "/fixed",
    "/empty",
    "/tagged",
    "/cors",
    "/a/./b/../c",
    "/a%41b?x=%7e",
    "http://gate.example/absolute?q",
    "/unknown%zz",
];
const FIELDS: [&str; 26] = [
    "X-Forwarded-For: 203.0.113.7\r\n",
    "x-forwarded-for: 203.0.113.8, 198.51.100.2\r\n",
    "Forwarded: for=192.0.2.60;proto=http\r\n",
    "X-Forwarded-Proto: https\r\n",
    "X-Forwarded-Host: elsewhere.example\r\n",
    "X-Real-IP: 192.0.2.1\r\n",
    "Connection: keep-alive\r\n",
    "Connection: x-mine, keep-alive\r\n",
    "Connection: close\r\n",
    "X-Mine: one\r\n",
    "Keep-Alive: timeout=5\r\n",
    "Proxy-Connection: keep-alive\r\n",
    "TE: trailers\r\n",
    "Accept: text/html\r\n",
    "Accept: application/json;q=0.5, */*\r\n",
    "Accept-Encoding: gzip\r\n",
    "Cookie: a=b; c=d\r\n",
    "cookie: e=f\r\n",
    "Origin: https://shop.example\r\n",
    "Access-Control-Request-Method: PUT\r\n",
    "X-Empty:\r\n",
    "X-Blanks: \t a  b \t\r\n",
    "X-Latin: caf\u{e9}\r\n",
    "X-Same: 1\r\nx-other: 2\r\nX-SAME: 3\r\n",
    "X-Tier: gold\r\n",
    "X-Over: forged\r\n",
];
const STATUSES: [&str; 14] = [
    "200 OK",
    "200 OK",
    "200",
    "200 Fine by me",
    "201 Created",
    "204 No Content",
    "301 Moved",
    "304 Not Modified",
    "404 Not Found",
    "418 \u{e9}",
    "429 Too Many Requests",
    "500 Oh",
    "503 Service Unavailable",
    "599 Odd",
];
const ANSWER_FIELDS: [&str; 17] = [
    "Content-Type: text/plain\r\n",
    "Date: Mon, 01 Jan 2001 00:00:00 GMT\r\n",
    "Server: scripted\r\n",
    "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n",
    "Connection: keep-alive\r\n",
    "Connection: x-hop\r\nX-Hop: secret\r\n",
    "Connection: close\r\n",
    "Keep-Alive: timeout=9\r\n",
    "Proxy-Authenticate: Basic\r\n",
    "ratelimit: \"theirs\";r=5;t=9\r\n",
    "RateLimit-Policy: \"theirs\";q=5;w=9\r\n",
    "Retry-After: 7\r\n",
    "X-Cost: 2\r\n",
    "Vary: Origin\r\n",
    "Access-Control-Allow-Origin: *\r\n",
    "X-Gone: yes\r\n",
    "ETag: \"caf\u{e9}\"\r\n",
];

/// One request, and the answer of its origin.
struct Case {
    method: &'static str,
    request: Vec<u8>,
    reply: Reply,
}

/// Latin-1, as a head may have it.
fn latin(text: &str) -> Vec<u8> {
    text.chars().map(|letter| letter as u8).collect()
}

fn case(draw: &mut Draw, number: usize) -> Case {
    let method = draw.of(&METHODS);
    let path = draw.of(&PATHS);
    let host = draw.of(&["gate.example", "gate.example", "GATE.example", "gate.example:80", "gate.example:"]);
    let version = draw.of(&["1.1", "1.1", "1.1", "1.1", "1.1", "1.0"]);
    let fields = draw.some(12, &FIELDS);
    // in HTTP/1.0 Pingora knows the option only where it stands alone
    let fields = if *version == "1.0" { fields.replace("x-mine, keep-alive", "keep-alive") } else { fields };
    let (framing, body) = if draw.next() % 100 < 35 { body(draw, version) } else { (String::new(), Vec::new()) };
    let head = format!("{method} {path} HTTP/{version}\r\nHost: {host}\r\nX-Case: {number}\r\n{fields}{framing}\r\n");
    let reply = reply(draw, method);
    // an origin that closes without reading the body may reset before its answer is read
    let reply = if body.is_empty() || matches!(reply, Reply::Bytes(_)) { reply } else { Reply::Echo };
    Case { method, request: [latin(&head), body].concat(), reply }
}

/// The fields of a body and its bytes.
fn body(draw: &mut Draw, version: &str) -> (String, Vec<u8>) {
    let size = *draw.of(&[0_usize, 1, 5, 300, 3_000, 20_000, 64 * 1024, 64 * 1024 + 1, 200_000]);
    let expect = draw.of(&["", "", "", "", "Expect: 100-continue\r\n"]);
    let whole: Vec<u8> = b"fedcba9876543210".iter().copied().cycle().take(size).collect();
    if version == "1.0" || draw.next().is_multiple_of(2) {
        return (format!("{expect}Content-Length: {size}\r\n"), whole);
    }
    // of an empty one Pingora forgets at a second attempt that it was in chunks
    let whole = if whole.is_empty() { b"f".to_vec() } else { whole };
    let mut coded = Vec::new();
    for part in whole.chunks(*draw.of(&[1, 700, 30_000]).max(&(size / 100))) {
        coded.extend_from_slice(format!("{:X}\r\n", part.len()).as_bytes());
        coded.extend_from_slice(part);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(draw.of(&["0\r\n\r\n", "0;last\r\nX-Trailer: t\r\n\r\n"]).as_bytes());
    (format!("{expect}Transfer-Encoding: chunked\r\n"), coded)
}

/// What the origin answers to a request with this method.
pub fn reply(draw: &mut Draw, method: &str) -> Reply {
    let (version, status) = (draw.of(&["1.1", "1.1", "1.1", "1.0"]), draw.of(&STATUSES));
    let none = method == "HEAD" || status.starts_with("204") || status.starts_with("304");
    let interim = if *version == "1.1" {
        draw.of(&[
            "",
            "",
            "",
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
            "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early\r\n\r\n",
        ])
    } else {
        &""
    };
    let fields = draw.some(10, &ANSWER_FIELDS);
    let size = *draw.of(&[0, 1, 5, 300, 3_000, 70_000, 200_000]);
    let body: String = "0123456789abcdef".chars().cycle().take(size).collect();
    let head = format!("{interim}HTTP/{version} {status}\r\n{fields}");
    let with_length = |length: usize| format!("{head}Content-Length: {length}\r\n\r\n");
    let bytes = |text: String| -> &'static [u8] { Vec::leak(latin(&text)) };
    match draw.next() % 12 {
        _ if none => Reply::Bytes(bytes(with_length(size))),
        0 | 1 => Reply::ThenClose(bytes(format!("{head}\r\n{body}"))),
        2..=4 if *version == "1.1" => {
            let mut coded = String::new();
            let piece = *draw.of(&[1_usize, 7, 1_000, 40_000]);
            for part in body.as_bytes().chunks(piece.max(size / 50)) {
                coded.push_str(&format!("{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part)));
            }
            let trailer = draw.of(&["", "", "X-Trailer: t\r\n"]);
            Reply::Bytes(bytes(format!("{head}Transfer-Encoding: chunked\r\n\r\n{coded}0\r\n{trailer}\r\n")))
        }
        // cut off, spoilt, or none at all
        5 => Reply::ThenClose(bytes(with_length(size + 10) + &body)),
        6 if draw.next().is_multiple_of(3) => Reply::ThenClose(b""),
        6 if draw.next().is_multiple_of(3) => {
            Reply::ThenClose(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok")
        }
        6 if draw.next().is_multiple_of(3) => {
            Reply::ThenClose(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        }
        6 => Reply::ThenClose(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
        7 if *version == "1.1" => {
            Reply::ThenClose(bytes(format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")))
        }
        _ => Reply::Bytes(bytes(with_length(size) + &body)),
    }
}

/// A policy with something of everything that can be done to a request.
pub fn policy(origin: &Origin, direct: &str) -> String {
    format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
trusted_proxies: [127.0.0.0/8]
limits:
  many: {{ key: client_ip, rate: 1/h, burst: 10000 }}
  few: {{ key: client_ip, rate: 1/h, burst: 3 }}
  over: {{ key: header:X-Tier, missing: allow, rate: 1/h, burst: 1, action: {{ tag: {{ header: X-Over }} }} }}
  costly: {{ key: client_ip, rate: 1/h, burst: 60, cost: 'response:x-cost', cost_estimate: 1 }}
  failed: {{ key: client_ip, rate: 1/h, burst: 5, count: 'responses 404' }}
  busy: {{ type: inflight, key: client_ip, max: 50 }}
origins:
  site: {{ addresses: [\"{origin}\"], retries: {{ max: 1, on: [connect_error, reset_before_answer] }}, inflight: {{ max: 100 }} }}
routes:
  - {{ name: fixed, match: {{ path: /fixed }}, respond: {{ status: 200, body: ok }} }}
  - {{ name: empty, match: {{ path: /empty }}, limits: [many], respond: {{ status: 204 }} }}
  - {{ name: limited, match: {{ path: /limited ignore none }}, origin: site, limits: [few, busy] }}
  - {{ name: costly, match: {{ path: /costly ignore none }}, origin: site, limits: [costly, failed] }}
  - {{ name: tagged, match: {{ path: /tagged ignore none }}, origin: site, limits: [over] }}
  - {{ name: cors, match: {{ path: /cors }}, origin: site, limits: [many], cors: {{ allow_origins: [\"https://shop.example\"], allow_methods: PUT }} }}
  - name: edited
    match: {{ path: /edited }}
    origin: site
    limits: [many]
    request_headers: {{ set: {{ x-client: \"{{client.ip}}\", host: inner.example }}, add: {{ x-route: \"{{route}}\" }}, remove: [cookie] }}
    response_headers: {{ set: {{ x-route: \"{{route}}\" }}, remove: [x-gone, server] }}
  - {{ name: rest, origin: site, limits: [many, busy] }}
responses: {{ retry_after: {{ jitter: 0% }} }}
server:
  threads: 2
  drain: {{ delay: 0s, timeout: 5s }}
  overload: off
  direct: {direct}
",
        origin = origin.address()
    )
}

/// What was seen of one request on one way.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// The heads that the origin got, one for each attempt.
    origin: Vec<String>,
    /// The bodies behind them.
    bodies: Vec<Vec<u8>>,
    /// The heads of the answer, interim ones too.
    heads: Vec<String>,
    body: Vec<u8>,
    complete: bool,
    /// Whether the connection goes on.
    stays: bool,
}

/// A gate, and a client that keeps its connection as long as it may.
struct Way {
    gate: Gate,
    connection: Connection,
}

impl Way {
    fn new(origin: &Origin, direct: &str) -> Way {
        let gate = Gate::start(&policy(origin, direct));
        let connection = gate.connect();
        Way { gate, connection }
    }

    fn ask(&mut self, case: &Case, origin: &Origin) -> Seen {
        let before = origin.count();
        // it may be answered, and the connection closed, before all was sent
        let _ = self.connection.send(&case.request);
        let (heads, body, complete) = match self.connection.raw_answer_to(case.method) {
            Ok(answer) => answer,
            Err(fault) => (vec![format!("{:?}", fault.kind()).into_bytes()], Vec::new(), false),
        };
        let id = heads.last().and_then(|head| decision(head));
        let body = id.map_or_else(|| body.clone(), |id| undecided(&body, &id));
        let heads: Vec<String> = heads.iter().map(|head| timeless(head)).collect();
        let closes = heads.last().is_none_or(|head| head.to_ascii_lowercase().contains("connection: close"));
        // a connection that is said to stay must serve the next request
        let stays = complete && !closes;
        if !stays {
            self.connection = self.gate.connect();
        }
        let arrivals = origin.arrivals().split_off(before);
        let bodies = arrivals.iter().map(|arrival| arrival.body.clone()).collect();
        let origin = arrivals.iter().map(|arrival| in_order(&arrival.head, str::to_owned)).collect();
        Seen { origin, bodies, heads, body, complete, stays }
    }
}

/// The lines of the log, without what differs by time and chance.
pub fn lines_of(gate: &Gate) -> Vec<BTreeMap<String, Value>> {
    assert_eq!(gate.fetch("/last", "X-Case: 0\r\n").status, 200);
    let text = wait_for("the last line of the access log", || {
        let text = gate.log_text();
        text.lines().last().is_some_and(|line| line.contains("\"/last\"")).then_some(text)
    });
    // a line is written when its request has ended, perhaps after the next one has begun on another connection
    let mut lines: Vec<BTreeMap<String, Value>> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect();
    lines.sort_by_key(|line| line.get("at").and_then(Value::as_u64));
    for line in &mut lines {
        for field in ["time", "at", "at_zero", "id", "client", "duration_ns", "origin_ns"] {
            line.remove(field);
        }
        for limit in line.get_mut("limits").and_then(Value::as_array_mut).into_iter().flatten() {
            limit.as_object_mut().expect("a limit is an object").remove("retry_ns");
        }
    }
    lines
}

/// All counters but those of times and of the process.
pub fn counters_of(gate: &Gate) -> BTreeMap<String, f64> {
    let metrics = gate.metrics();
    let names: Vec<String> = metrics.names().iter().map(|name| (*name).to_owned()).collect();
    let of_requests = |name: &&String| {
        name.contains("_total")
            && !["process", "seconds", "scrape", "origin_connections"].iter().any(|not| name.contains(not))
    };
    names
        .iter()
        .filter(of_requests)
        .map(|name| (name.clone(), metrics.every(name).iter().map(|(_, value)| value).sum()))
        .collect()
}

/// The number of the gate's own decision that an answer tells.
fn decision(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    text.split("\r\n").find_map(|line| line.strip_prefix("x-tidegate-decision: ").map(str::to_owned))
}

/// A body of the gate's own without its number and the seconds that are left.
pub fn undecided(body: &[u8], id: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(body).replace(id, "ID");
    text.bytes().filter(|byte| !byte.is_ascii_digit()).collect()
}

/// A head of an answer as text, without the time of day, the decision's number and the seconds that are left.
fn timeless(head: &[u8]) -> String {
    in_order(head, |line| {
        let lower = line.to_ascii_lowercase();
        match ["date:", "x-tidegate-decision:", "retry-after:"].iter().find(|name| lower.starts_with(**name)) {
            Some(name) => (*name).to_owned(),
            None => without_rest(line),
        }
    })
}

/// A head as text, its lines sorted by the names of their fields. Lines of one name stay in their order.
pub fn in_order(head: &[u8], shown: impl Fn(&str) -> String) -> String {
    let text: String = head.iter().map(|byte| *byte as char).collect();
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).map(shown).collect();
    lines.sort_by_key(|line| line.split(':').next().unwrap_or_default().to_ascii_lowercase());
    first + "\n" + &lines.join("\n")
}

/// A line of `RateLimit` without the seconds that are left.
pub fn without_rest(line: &str) -> String {
    let mut parts = line.split(";t=");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + ";t=" + part.trim_start_matches(|letter: char| letter.is_ascii_digit()))
}

#[test]
fn both_ways_are_the_same_for_origin_client_log_and_metrics() {
    let replies: Arc<Mutex<Vec<Reply>>> = Arc::default();
    let script = Arc::clone(&replies);
    let origin = Origin::start(move |arrival| {
        let number: usize = arrival.lines("x-case")[0].parse().expect("each request has a number");
        script.lock().unwrap()[number].clone()
    });
    let (mut direct, mut framework) = (Way::new(&origin, "on"), Way::new(&origin, "off"));
    let mut draw = Draw(18);
    let mut by_status: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..CASES {
        let case = case(&mut draw, number);
        replies.lock().unwrap().push(case.reply.clone());
        let (one, other) = (direct.ask(&case, &origin), framework.ask(&case, &origin));
        let request = String::from_utf8_lossy(&case.request[..case.request.len().min(2_000)]).into_owned();
        assert!(alike(&one, &other), "case {number}\n{request}\ndirect: {}\nframework: {}", told(&one), told(&other));
        *by_status
            .entry(one.heads.last().map_or_else(String::new, |head| head.chars().take(12).collect()))
            .or_default() += 1;
    }
    // the cases are worth something only if they differ
    assert!(by_status.len() >= 10 && by_status.values().sum::<usize>() == CASES, "{by_status:?}");
    replies.lock().unwrap()[0] = Reply::Ok;
    let (one, other) = (lines_of(&direct.gate), lines_of(&framework.gate));
    for (number, (one, other)) in one.iter().zip(&other).enumerate() {
        assert_eq!(one, other, "line {number}");
    }
    assert_eq!(one.len(), other.len());
    assert_eq!(counters_of(&direct.gate), counters_of(&framework.gate));
    direct.gate.comes_to_rest();
    framework.gate.comes_to_rest();
}

fn alike(one: &Seen, other: &Seen) -> bool {
    one == other
}

/// Short enough to be read.
fn told(seen: &Seen) -> String {
    let Seen { origin, bodies, heads, body, complete, stays } = seen;
    let bodies: Vec<usize> = bodies.iter().map(Vec::len).collect();
    format!("origin {origin:#?} {bodies:?}\nheads {heads:#?}\n{} bytes, complete {complete}, stays {stays}", body.len())
}
