//! Pages of other sites: what they may read of answers and refusals, and what a preflight costs.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::ports::own_port;
use crate::harness::talker::{Answered, Talker, request, talk};
use crate::harness::{Answer, Gate, Latch, Origin, Reply};
use crate::skips::skip;

const PAGE: &str = "https://app.example.com";
const FROM_PAGE: &str = "Origin: https://app.example.com\r\n";
const PREFLIGHT: &str = "Origin: https://app.example.com\r\nAccess-Control-Request-Method: PUT\r\n\
                         Access-Control-Request-Headers: content-type\r\n";

/// A gate with a route `/open` that allows the page, a route `/shut` that says nothing about pages, and one that answers by itself,
/// each under a limit of one request. `more` stands under `listeners`.
fn gate(origin: &Origin, limits: &str) -> Gate {
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
trusted_proxies: [127.0.0.0/8]
origins:
  app: {{ addresses: [\"{}\"], inflight: 1 }}
limits:
{limits}
routes:
  - name: open
    match: {{ path: /open }}
    limits: [own]
    origin: app
    cors: {{ allow_origins: [\"{PAGE}\", \"https://*.example.org\"], allow_methods: PUT, allow_headers: content-type, max_age: 10m }}
  - name: full
    match: {{ path: /full }}
    origin: app
    cors: {{ allow_origins: \"{PAGE}\" }}
  - name: shut
    match: {{ path: /shut }}
    limits: [own]
    origin: app
  - name: keyed
    match: {{ path: /keyed }}
    limits: [keyed]
    origin: app
  - name: all
    match: {{ path: /all }}
    limits: [all]
    origin: app
  - name: counted
    match: {{ path: /counted }}
    limits: [counted]
    respond: {{ status: 200, body: ok }}
    cors: {{ allow_origins: \"*\" }}
",
        origin.address()
    ))
}

const LIMITS: &str = "  own: { key: client_ip, rate: 1/h, burst: 1 }
  keyed: { key: [\"header:x-api-key\"], missing: deny, rate: 1/h, burst: 1 }
  all: { key: global, rate: 1/h, burst: 3 }
  counted: { key: client_ip, rate: 1/h, burst: 1, preflights: count }";

fn client(number: u8, more: &str) -> String {
    format!("X-Forwarded-For: 198.51.100.{number}\r\n{more}")
}

/// The fields of an answer that are told to browsers about pages.
fn cors(answer: &Answer) -> Vec<(String, String)> {
    let of_pages = |name: &str| name.starts_with("access-control-");
    let lower = answer.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    lower.filter(|(name, _)| of_pages(name)).collect()
}

fn exposed(answer: &Answer) -> String {
    answer.field("access-control-expose-headers").unwrap_or_default()
}

#[test]
fn a_refusal_can_be_read_by_the_pages_that_the_route_allows_and_by_no_other() {
    let origin = Origin::that(Reply::Bytes(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\n\r\nok",
    ));
    let gate = gate(&origin, LIMITS);
    let mut connection = gate.connect();
    let mut ask = |path: &str, lines: &str| connection.ask("GET", path, lines, b"");
    let first = ask("/open", &client(1, FROM_PAGE));
    assert_eq!((first.status, first.field("access-control-allow-origin").as_deref()), (200, Some(PAGE)));
    assert_eq!(
        first.field("access-control-allow-credentials"),
        None,
        "the route's word goes before the origin's: {first:?}"
    );
    let refused = ask("/open", &client(1, FROM_PAGE));
    assert_eq!((refused.status, refused.field("access-control-allow-origin").as_deref()), (429, Some(PAGE)));
    assert!(refused.field("vary").is_some_and(|vary| vary.contains("Origin")), "{refused:?}");
    for name in ["RateLimit", "RateLimit-Policy", "Retry-After", "X-Tidegate-Decision"] {
        assert!(refused.field(name).is_some(), "{name} is not sent: {refused:?}");
        assert!(exposed(&refused).split(", ").any(|one| one == name), "{name} cannot be read: {refused:?}");
    }
    let below = ask("/open", &client(1, "Origin: https://a.example.org\r\n"));
    assert_eq!(below.field("access-control-allow-origin").as_deref(), Some("https://a.example.org"));
    let long = format!("Origin: https://{}.example.org\r\n", "a".repeat(8 << 10));
    for hostile in [
        "Origin: null\r\n",
        "Origin: http://app.example.com\r\n",
        "Origin: https://app.example.com:8443\r\n",
        "Origin: https://app.example.com.evil.test\r\n",
        "Origin: https://evilapp.example.com\r\n",
        "Origin: https://evil.test#.example.org\r\n",
        "Origin: https://\u{430}pp.example.com\r\n",
        "Origin: https://xn--pp-8ka.example.com\r\n",
        "Origin: https://app.example.com\r\nOrigin: https://evil.test\r\n",
        "Origin: https://app.example.com, https://evil.test\r\n",
        long.as_str(),
        "",
    ] {
        let refused = ask("/open", &client(1, hostile));
        assert_eq!(refused.status, 429, "{hostile}");
        assert_eq!(cors(&refused), [], "{hostile}");
        assert!(refused.field("vary").is_some_and(|vary| vary.contains("Origin")), "{refused:?}");
    }
    // where the route is not known, or says nothing, nothing is said
    let nowhere = ask("/nowhere", &client(1, FROM_PAGE));
    assert_eq!((nowhere.status, cors(&nowhere)), (404, vec![]));
    let faulty = connection.ask("TRACE", "/open", &client(1, FROM_PAGE), b"");
    assert_eq!((faulty.status, cors(&faulty)), (405, vec![]));
    let mut connection = gate.connect();
    assert_eq!(
        connection.ask("GET", "/shut", &client(2, FROM_PAGE), b"").field("access-control-allow-origin").as_deref(),
        Some("*")
    );
    let refused = connection.ask("GET", "/shut", &client(2, FROM_PAGE), b"");
    assert_eq!((refused.status, cors(&refused)), (429, vec![]));
}

#[test]
fn a_full_origin_and_a_dead_one_can_be_read_too() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin =
        Origin::start(
            move |arrival| {
                if arrival.target == "/full" { Reply::Held(held.clone()) } else { Reply::ThenClose(b"") }
            },
        );
    let gate = gate(&origin, LIMITS);
    let mut slow = gate.connect();
    slow.send(b"GET /full HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    origin.wait_for(1);
    let mut connection = gate.connect();
    let full = connection.ask("GET", "/full", &client(1, FROM_PAGE), b"");
    assert_eq!((full.status, full.field("access-control-allow-origin").as_deref()), (503, Some(PAGE)), "{full:?}");
    assert!(full.field("retry-after").is_some() && exposed(&full).contains("Retry-After"), "{full:?}");
    // the place is free for a preflight, as it needs none
    assert_eq!(connection.ask("OPTIONS", "/full", &client(1, PREFLIGHT), b"").status, 204);
    latch.open();
    assert_eq!(slow.answer_to("GET").unwrap().status, 200);
    let dead = gate.connect().ask("GET", "/full/dead", &client(1, FROM_PAGE), b"");
    assert_eq!((dead.status, dead.field("access-control-allow-origin").as_deref()), (502, Some(PAGE)), "{dead:?}");
}

#[test]
fn a_preflight_is_answered_and_leaves_the_limit_to_the_request() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, LIMITS);
    let mut connection = gate.connect();
    for _ in 0..50 {
        let answer = connection.ask("OPTIONS", "/open", &client(1, PREFLIGHT), b"");
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{answer:?}");
        let told = |name: &str| answer.field(name).unwrap_or_default();
        assert_eq!(told("access-control-allow-origin"), PAGE);
        assert_eq!(told("access-control-allow-methods"), "PUT");
        assert_eq!(told("access-control-allow-headers"), "content-type");
        assert_eq!(told("access-control-max-age"), "600");
        assert!(answer.keeps_connection(), "{answer:?}");
    }
    assert_eq!(origin.count(), 0, "the origin is not asked");
    assert_eq!(connection.ask("PUT", "/open", &client(1, FROM_PAGE), b"x").status, 200, "a fresh client with burst 1");
    assert_eq!(connection.ask("PUT", "/open", &client(1, FROM_PAGE), b"x").status, 429);
    // over its limit, it still learns that it may ask, and so can read why it is refused
    assert_eq!(connection.ask("OPTIONS", "/open", &client(1, PREFLIGHT), b"").status, 204);
    let stranger = PREFLIGHT.replace("app.example.com", "evil.test");
    let answer = connection.ask("OPTIONS", "/open", &client(1, &stranger), b"");
    assert_eq!((answer.status, cors(&answer)), (204, vec![]));
    gate.counts("tidegate_requests_total", &[("route", "open"), ("code", "2xx")], 53.0);
}

#[test]
fn a_preflight_that_goes_to_the_origin_is_counted_apart() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, LIMITS);
    let mut connection = gate.connect();
    let mut ask = |method: &str, path: &str, lines: &str| connection.ask(method, path, lines, b"").status;
    assert_eq!(ask("OPTIONS", "/shut", &client(1, PREFLIGHT)), 200, "a fresh client with burst 1");
    assert_eq!(ask("GET", "/shut", &client(1, FROM_PAGE)), 200, "its preflight took nothing");
    assert_eq!(ask("GET", "/shut", &client(1, FROM_PAGE)), 429);
    assert_eq!(ask("OPTIONS", "/shut", &client(1, PREFLIGHT)), 429, "a flood of preflights is no way round");
    assert_eq!(ask("OPTIONS", "/shut", &client(2, PREFLIGHT)), 200, "another client has its own");
    // browsers send no key with a preflight; it is counted by client then
    assert_eq!(ask("OPTIONS", "/keyed", &client(3, PREFLIGHT)), 200);
    assert_eq!(ask("OPTIONS", "/keyed", &client(3, PREFLIGHT)), 429);
    assert_eq!(ask("OPTIONS", "/keyed", &client(4, PREFLIGHT)), 200);
    assert_eq!(ask("GET", "/keyed", &client(3, "")), 400, "a request must have it");
    // what all clients have in common is used up by a preflight as by any request
    assert_eq!(ask("OPTIONS", "/all", &client(5, PREFLIGHT)), 200);
    assert_eq!(ask("OPTIONS", "/all", &client(6, PREFLIGHT)), 200);
    assert_eq!(ask("GET", "/all", &client(7, "")), 200);
    assert_eq!(ask("OPTIONS", "/all", &client(8, PREFLIGHT)), 429);
}

#[test]
fn whatever_is_not_quite_a_preflight_is_a_request() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, LIMITS);
    for (number, more) in (10..).zip([
        "Cookie: a=b\r\n",
        "Authorization: Basic YTpi\r\n",
        "Content-Type: text/plain\r\n",
        "Access-Control-Request-Method: GET\r\n",
        "Origin: https://app.example.com\r\n",
        "Content-Length: 1\r\n",
        "Transfer-Encoding: chunked\r\n",
    ]) {
        let ask = || {
            let mut connection = gate.connect();
            let body: &[u8] = if more.starts_with("Transfer") {
                b"0\r\n\r\n"
            } else if more.contains("Length") {
                b"x"
            } else {
                b""
            };
            let head = format!("OPTIONS /open HTTP/1.1\r\nHost: a\r\n{}{PREFLIGHT}{more}\r\n", client(number, ""));
            connection.send(&[head.as_bytes(), body].concat()).unwrap();
            connection.answer_to("OPTIONS").unwrap().status
        };
        assert_eq!((ask(), ask()), (200, 429), "{more}");
    }
    assert_eq!(origin.count(), 7);
}

#[test]
fn a_limit_may_count_preflights_as_requests() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, LIMITS);
    let mut connection = gate.connect();
    let answer = connection.ask("OPTIONS", "/counted", &client(1, PREFLIGHT), b"");
    assert_eq!((answer.status, answer.field("access-control-allow-origin").as_deref()), (204, Some("*")));
    let refused = connection.ask("GET", "/counted", &client(1, FROM_PAGE), b"");
    assert_eq!((refused.status, refused.field("access-control-allow-origin").as_deref()), (429, Some("*")));
    assert_eq!(connection.ask("OPTIONS", "/counted", &client(1, PREFLIGHT), b"").status, 429);
}

#[test]
fn http2_is_no_different() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, LIMITS);
    let own = ("x-forwarded-for", "198.51.100.1");
    let page = ("origin", PAGE);
    let field = |answer: &Answered, name: &str| answer.fields.get(name).map(|value| value.to_str().unwrap().to_owned());
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let asks = [own, page, ("access-control-request-method", "PUT")];
        for _ in 0..3 {
            let answer = talker.ask(request("OPTIONS", "/open", &asks), b"").await.unwrap();
            assert_eq!((answer.status, answer.body.len()), (204, 0));
            assert_eq!(field(&answer, "access-control-allow-origin").as_deref(), Some(PAGE));
        }
        assert_eq!(talker.ask(request("PUT", "/open", &[own, page]), b"x").await.unwrap().status, 200);
        let refused = talker.ask(request("PUT", "/open", &[own, page]), b"x").await.unwrap();
        assert_eq!((refused.status, field(&refused, "access-control-allow-origin").as_deref()), (429, Some(PAGE)));
        assert!(field(&refused, "access-control-expose-headers").is_some_and(|names| names.contains("Retry-After")));
        let refused = talker.ask(request("GET", "/open", &[own, ("origin", "null")]), b"").await.unwrap();
        assert_eq!((refused.status, field(&refused, "access-control-allow-origin")), (429, None));
        let nowhere = talker.ask(request("GET", "/nowhere", &[own, page]), b"").await.unwrap();
        assert_eq!((nowhere.status, field(&nowhere, "access-control-allow-origin")), (404, None));
    });
}

/// A browser does what the Fetch standard says, not what we believe it says.
#[test]
fn a_script_of_another_site_reads_why_it_is_refused() {
    const SCRIPT: &str = "(async () => {
        const told = [];
        for (let nth = 0; nth < 2; nth++) {
          try {
            const answer = await fetch('http://127.0.0.1:GATE/api', { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{}' });
            told.push([answer.status, answer.headers.get('retry-after') !== null, answer.headers.get('ratelimit') !== null,
              answer.headers.get('x-tidegate-decision') !== null, answer.headers.get('content-type')].join(' '));
          } catch (error) { told.push('unreadable'); }
        }
        document.title = told.join('; ');
      })()";
    let (pages, strangers, port) = (own_port(), own_port(), own_port());
    let page =
        format!("<!doctype html><title>loading</title><script>{}</script>", SCRIPT.replace("GATE", &port.to_string()));
    let page = page.replace('\'', "''").replace('\n', " ");
    let _gate = Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:{port}\" }}
  pages: {{ address: \"127.0.0.1:{pages}\" }}
  strangers: {{ address: \"127.0.0.1:{strangers}\" }}
limits:
  own: {{ key: client_ip, rate: 1/h, burst: 1 }}
routes:
  - name: api
    match: {{ path: /api }}
    limits: [own]
    respond: {{ status: 200, body: ok }}
    cors: {{ allow_origins: \"http://127.0.0.1:{pages}\", allow_methods: PUT, allow_headers: content-type }}
  - name: page
    respond: {{ status: 200, content_type: text/html, body: '{page}' }}
"
    ));
    let seen = |port: u16| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chromium-{port}"));
        let mut chromium = Command::new("chromium");
        chromium.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ]);
        chromium.arg(format!("--user-data-dir={}", folder.display())).arg("--virtual-time-budget=10000");
        chromium.arg("--dump-dom").arg(format!("http://127.0.0.1:{port}/")).stderr(Stdio::null());
        let output = chromium.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let _ = std::fs::remove_dir_all(folder);
        let dom = output.ok()?;
        Some(dom.split_once("<title>")?.1.split_once("</title>")?.0.to_owned())
    };
    let Some(own) = seen(pages) else { return skip("a script of another site", "no chromium; see `./dev setup`") };
    assert_eq!(
        own, "200 false true false text/plain; charset=utf-8; 429 true true true application/problem+json",
        "each with a preflight, and a limit of one request"
    );
    assert_eq!(seen(strangers).as_deref(), Some("unreadable; unreadable"));
}
