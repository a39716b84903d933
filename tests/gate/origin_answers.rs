//! What an origin answers is seen wherever an operator looks: one that answers 500 to everything is well nowhere.

use std::os::unix::net::UnixStream;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::gate::{Folder, binary, end};
use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

const ERROR: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno";
const CUT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
const MISSING: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";

/// Two origins: `sick` answers 500 to everything, `shop` by path. Running, and hears verbs.
fn start(sick: &Origin, shop: &Origin) -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let policy = format!(
        "admin: {{ address: \"127.0.0.1:0\", open: true }}
origins:
  sick: {{ addresses: [\"{}\"] }}
  shop: {{ addresses: [\"{}\"], retries: {{ max: 0 }} }}
routes:
  - {{ name: old, match: {{ path: /old }}, origin: sick }}
  - {{ name: site, origin: shop }}
",
        sick.address(),
        shop.address()
    );
    let gate = Gate::start_in(folder, Stdio::null(), command, &policy);
    wait_for("the admin socket", || UnixStream::connect(gate.admin_socket()).ok());
    gate
}

fn verb(gate: &Gate, arguments: &[&str]) -> String {
    let ended = end(binary().args(arguments).arg("--admin").arg(gate.admin_socket()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

fn json(gate: &Gate, arguments: &[&str]) -> Value {
    serde_json::from_str(&verb(gate, arguments)).expect("it is JSON")
}

/// The member of a list with this name.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}: {list}"))
}

fn page(gate: &Gate) -> String {
    let admin: std::net::SocketAddr =
        gate.announced("admin page", |line| line.split_once("admin on http://")?.1.trim_end_matches('/').parse().ok());
    let mut connection = Connection::open(admin);
    connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    connection.answer_to("GET").expect("an answer comes").text()
}

#[test]
fn an_origin_that_answers_500_to_everything_is_told_everywhere() {
    let (sick, shop) = (Origin::that(Reply::Bytes(ERROR)), Origin::that(Reply::Ok));
    let gate = start(&sick, &shop);
    let ask = |count: usize| {
        let mut client = gate.connect();
        for _ in 0..count {
            assert_eq!(client.ask("GET", "/old", "", b"").status, 500);
            assert_eq!(client.ask("GET", "/", "", b"").status, 200);
        }
    };
    let notice = wait_for("the notice", || {
        ask(15);
        let status = json(&gate, &["status", "--format", "json"]);
        let notices = status["notices"].as_array().expect("a list").clone();
        notices.into_iter().find(|notice| notice["kind"] == "origin_fails")
    });
    assert_eq!((&notice["subject"], &notice["urgent"]), (&"sick".into(), &true.into()));
    let text = notice["text"].as_str().unwrap();
    assert!(text.starts_with("the origin `sick` answers 5xx to 100 % of its requests (last "), "{text}");
    ask(15);
    let told = wait_for("the answers of the last seconds", || {
        let status = json(&gate, &["status", "--format", "json"]);
        (named(&status["origins"], "sick")["recent"]["answers"]["5xx"].as_u64() > Some(10)).then_some(status)
    });
    for (list, name) in [("origins", "sick"), ("routes", "old")] {
        let one = named(&told[list], name);
        assert_eq!((&one["answers"]["2xx"], &one["recent"]["answers"]["2xx"]), (&0.into(), &0.into()), "{one}");
        assert!(one["recent"]["p50_seconds"].is_f64() && one["recent"]["p99_seconds"].is_f64(), "{one}");
        assert!((1..=10).contains(&one["recent"]["seconds"].as_u64().unwrap()), "{one}");
    }
    assert_eq!(named(&told["origins"], "shop")["recent"]["answers"]["5xx"], 0);
    // the same in words, on the terminal and on the page
    let status = verb(&gate, &["status"]);
    let row = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{status}"));
    assert!(row("origin sick").ends_with("FAILS 100 %") && row("route old").ends_with("FAILS 100 %"), "{status}");
    assert!(!row("origin shop").contains("FAILS") && status.contains(&format!("! {text}")[..40]), "{status}");
    let top = verb(&gate, &["top", "--once", "--width", "90"]);
    let row = |name: &str| top.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{top}"));
    assert!(row("sick").contains("✕ 100 %") && row("old").contains("✕ 100 %") && !row("shop").contains('✕'), "{top}");
    let page = page(&gate);
    assert!(page.contains("✕ fails 100 %") && page.contains("in use; its origin fails"), "{page}");
    assert!(page.contains("5xx 100 %") && page.contains("answers 5xx to 100 %"), "{page}");
    // and counted, with the log line that the notice has
    let metrics = gate.metrics();
    let answers =
        |code| metrics.sum("tidegate_origin_answers_total", &[("origin", "sick"), ("route", "old"), ("code", code)]);
    assert_eq!((answers("5xx"), answers("2xx"), answers("failed")), (sick.count() as f64, 0.0, 0.0));
    assert_eq!(metrics.sum("tidegate_notice", &[("notice", "origin_fails")]), 1.0);
    assert!(gate.talk().contains("notice: the origin `sick` answers 5xx to"), "{}", gate.talk());
}

#[test]
fn each_request_that_is_forwarded_counts_once_by_what_came_of_it() {
    let sick = Origin::that(Reply::ThenClose(b""));
    let shop = Origin::start(|arrival| match arrival.target.as_str() {
        "/cut" => Reply::ThenClose(CUT),
        "/missing" => Reply::Bytes(MISSING),
        "/socket" => Reply::Switch,
        _ => Reply::Ok,
    });
    let gate = start(&sick, &shop);
    for _ in 0..3 {
        assert_eq!(gate.fetch("/old", "").status, 502);
    }
    for path in ["/", "/missing", "/missing", "/cut"] {
        let _ = gate.fetch(path, "");
    }
    // refused by the gate itself: no answer of the origin
    let _ = gate.connect().ask("TRACE", "/", "", b"");
    gate.counts("tidegate_requests_total", &[("route", "old")], 3.0);
    gate.counts("tidegate_origin_answers_total", &[("route", "site")], 4.0);
    let metrics = gate.metrics();
    let answers = |route, code| metrics.sum("tidegate_origin_answers_total", &[("route", route), ("code", code)]);
    assert_eq!((answers("old", "failed"), answers("old", "5xx")), (3.0, 0.0), "a 502 of the gate is no answer");
    let site = ["1xx", "2xx", "3xx", "4xx", "5xx", "failed", "cut"].map(|code| answers("site", code));
    assert_eq!(site, [0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 1.0]);
    let timed = metrics.sum("tidegate_origin_request_duration_seconds_count", &[("origin", "shop"), ("route", "site")]);
    assert_eq!(timed, 4.0);
}
