//! What follows when a request does not fit: refused, delayed, marked, cut off; and costs that are not one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::harness::{Gate, Origin, Reply};

#[test]
fn a_delayed_request_waits_instead_of_being_refused() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "limits:
  smooth: {{ rate: 30/m, burst: 1, action: {{ delay: {{ max: 8s }} }} }}
routes:
  - {{ origin: \"{}\", limits: [smooth] }}
",
        origin.address()
    ));
    let start = Instant::now();
    let mut connection = gate.connect();
    for n in 0..6 {
        assert_eq!(connection.ask("GET", "/", "", b"").status, 200, "request {n}");
    }
    // five intervals of two seconds: a lower bound, which load can only lengthen
    assert!(start.elapsed() >= Duration::from_secs(10), "{:?}", start.elapsed());
    // each came less than an interval after the answer to the one before
    gate.counts("tidegate_limit_decisions_total", &[("limit", "smooth"), ("verdict", "delayed")], 5.0);
}

#[test]
fn a_wait_that_would_be_too_long_is_a_refusal() {
    let gate = Gate::start(
        "limits:
  smooth: { rate: 1/m, burst: 1, action: { delay: { max: 1s } } }
routes:
  - { respond: { status: 200, body: ok }, limits: [smooth] }
",
    );
    assert_eq!(gate.fetch("/", "").status, 200);
    let refused = gate.fetch("/", "");
    assert_eq!(refused.status, 429);
    assert!(refused.field("retry-after").unwrap().parse::<u64>().unwrap() >= 55);
}

#[test]
fn a_request_that_waits_for_the_next_window_leaves_this_one_open() {
    let gate = Gate::start(
        "limits:
  plan: { type: quota, key: header:x-key, missing: deny, max: 10, window: 8s, cost: { PUT: 8, other: 1 }, action: { delay: { max: 30s } } }
routes:
  - { respond: { status: 200, body: ok }, limits: [plan] }
",
    );
    let window = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 8;
    // once more with another key where a window ended in between
    let in_one_window = (0..10).find(|key| {
        let begun = window();
        let field = format!("X-Key: {key}\r\n");
        assert_eq!(gate.connect().ask("PUT", "/", &field, b"").status, 200);
        let mut heavy = gate.connect();
        let waiting = std::thread::spawn(move || (heavy.ask("PUT", "/", &field, b"").status, Instant::now()));
        // time for it to be judged; if that is too short, what follows says less
        std::thread::sleep(Duration::from_millis(300));
        let field = format!("X-Key: {key}\r\n");
        for _ in 0..2 {
            assert_eq!(gate.fetch("/", &field).status, 200);
        }
        let (passed, same_window) = (Instant::now(), window() == begun);
        let (status, went) = waiting.join().unwrap();
        assert_eq!(status, 200);
        assert!(went > passed || !same_window, "two of ten were left, and nobody had to wait for them");
        same_window
    });
    assert!(in_one_window.is_some(), "no window lasted");
}

#[test]
fn one_client_that_waits_keeps_nobody_from_a_limit_that_all_share() {
    let own = "own: { key: client_ip, rate: 3/m, burst: 1, action: { delay: { max: 30s } } }";
    let all = "all: { key: global, rate: 100/s, burst: 100, action: { delay: { max: 10s } } }";
    for order in ["own, all", "all, own"] {
        let gate = Gate::start(&format!(
            "trusted_proxies: [127.0.0.0/8]
limits:
  {own}
  {all}
routes:
  - {{ respond: {{ status: 200, body: ok }}, limits: [{order}] }}
"
        ));
        let from = |client: u8| format!("X-Forwarded-For: 203.0.113.{client}\r\n");
        assert_eq!(gate.fetch("/", &from(1)).status, 200);
        let mut waiting = gate.connect();
        waiting.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", from(1)).as_bytes()).unwrap();
        // time for it to be judged; if that is too short, what follows says less
        std::thread::sleep(Duration::from_millis(300));
        for other in 2..30 {
            assert_eq!(gate.fetch("/", &from(other)).status, 200, "{order}: client {other}");
        }
    }
}

#[test]
fn a_quota_per_month_ends_with_the_month() {
    let start = || {
        Gate::start(
            "limits:
  plan: { type: quota, max: 1, per: month, time_zone: Pacific/Apia }
routes:
  - { respond: { status: 200, body: ok }, limits: [plan] }
",
        )
    };
    let zone = jiff::tz::TimeZoneDatabase::bundled().get("Pacific/Apia").unwrap();
    let seconds = || i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let date = |second: i64| zone.to_datetime(jiff::Timestamp::from_second(second).unwrap()).date();
    // once more where a month ended in between
    let in_one_month = (0..2).find(|_| {
        let gate = start();
        let before = seconds();
        let answer = gate.fetch("/", "");
        assert_eq!(answer.field("ratelimit-policy").unwrap(), "\"plan\";q=1;w=2678400");
        let refused = gate.fetch("/", "");
        let after = seconds();
        if date(before).month() != date(after).month() {
            return false;
        }
        assert_eq!(refused.status, 429);
        // told at some moment between the two
        let left = refused.field("ratelimit").unwrap().split_once("t=").unwrap().1.parse::<i64>().unwrap();
        assert_eq!(date(after + left + 1).day(), 1, "{left} s");
        assert_eq!(date(before + left - 3).month(), date(before).month(), "{left} s");
        true
    });
    assert!(in_one_month.is_some(), "no month lasted");
}

#[test]
fn a_tagged_request_passes_with_the_limits_name_and_no_client_can_write_it() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "limits:
  suspicious: {{ rate: 1/h, burst: 1, action: {{ tag: {{ header: x-over-limit }} }} }}
routes:
  - {{ match: {{ path: /open }}, origin: \"{}\" }}
  - {{ origin: \"{}\", limits: [suspicious] }}
",
        origin.address(),
        origin.address()
    ));
    let mut connection = gate.connect();
    // a route without the limit is no way past it
    assert_eq!(connection.ask("GET", "/open", "X-Over-Limit: forged\r\n", b"").status, 200);
    for _ in 0..3 {
        assert_eq!(connection.ask("GET", "/", "X-Over-Limit: forged\r\n", b"").status, 200);
    }
    let tags: Vec<Vec<String>> = origin
        .arrivals()
        .iter()
        .map(|arrival| arrival.lines("x-over-limit").iter().map(ToString::to_string).collect())
        .collect();
    assert_eq!(tags, [vec![], vec![], vec!["suspicious".to_owned()], vec!["suspicious".to_owned()]]);
}

#[test]
fn a_limit_that_closes_ends_the_connection_with_its_refusal() {
    let gate = Gate::start(
        "limits:
  strict: { rate: 1/h, burst: 1, action: close }
routes:
  - { respond: { status: 200, body: ok }, limits: [strict] }
",
    );
    let mut connection = gate.connect();
    assert!(connection.ask("GET", "/", "", b"").keeps_connection());
    let refused = connection.ask("GET", "/", "", b"");
    assert_eq!(refused.status, 429);
    assert!(!refused.keeps_connection());
    assert_eq!(connection.rest().unwrap(), b"", "nothing follows");
}

#[test]
fn the_origin_tells_what_a_request_has_cost() {
    let origin = Origin::start(|arrival| match arrival.target.as_str() {
        "/dear" => Reply::Bytes(b"HTTP/1.1 200 OK\r\nX-Query-Cost: 70\r\nContent-Length: 2\r\n\r\nok"),
        "/free" => Reply::Bytes(b"HTTP/1.1 200 OK\r\nX-Query-Cost: 0\r\nContent-Length: 2\r\n\r\nok"),
        _ => Reply::Ok,
    });
    let gate = Gate::start(&format!(
        "limits:
  graphql: {{ rate: 100/h, burst: 100, cost: 'response:x-query-cost', cost_estimate: 10 }}
routes:
  - {{ origin: \"{}\", limits: [graphql] }}
",
        origin.address()
    ));
    let mut connection = gate.connect();
    let mut ask = |path: &str| connection.ask("GET", path, "", b"").status;
    for _ in 0..20 {
        assert_eq!(ask("/free"), 200, "what the origin calls free costs nothing");
    }
    assert_eq!(ask("/dear"), 200); // 70 of 100
    assert_eq!(ask("/silent"), 200); // the estimate: 80
    assert_eq!(ask("/silent"), 200); // 90
    assert_eq!(ask("/silent"), 200); // 100
    assert_eq!(ask("/free"), 429, "the estimate must fit beforehand");
}

#[test]
fn methods_may_cost_differently() {
    let gate = Gate::start(
        "limits:
  writes: { rate: 10/h, burst: 10, cost: { GET: 1, POST: 4, other: 2 } }
routes:
  - { respond: { status: 200, body: ok }, limits: [writes] }
",
    );
    let mut connection = gate.connect();
    let mut ask = |method: &str| connection.ask(method, "/", "", b"").status;
    assert_eq!([ask("POST"), ask("POST"), ask("GET"), ask("GET"), ask("GET")], [200, 200, 200, 200, 429]);
}

#[test]
fn bytes_are_charged_in_both_directions() {
    let origin = Origin::that(Reply::Echo);
    let gate = Gate::start(&format!(
        "limits:
  egress: {{ rate: 1KiB/m, burst: 60KiB }}
routes:
  - {{ origin: \"{}\", limits: [egress] }}
",
        origin.address()
    ));
    let body = vec![b'x'; 16 << 10];
    let mut connection = gate.connect();
    // 16 KiB up and 16 KiB down: two of them are 4 KiB too much, for which the third would have to wait four minutes
    let statuses: Vec<u16> = (0..3).map(|_| connection.ask("POST", "/", "", &body).status).collect();
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_delayed_byte_rate_paces_the_answer() {
    const BODY: &[u8] = &[b'x'; 96 << 10];
    let answer = [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY.len()).as_bytes(), BODY].concat();
    let origin = Origin::that(Reply::Bytes(Box::leak(answer.into_boxed_slice())));
    let gate = Gate::start(&format!(
        "limits:
  egress: {{ rate: 64KiB/s, burst: 32KiB, action: {{ delay: {{ max: 5s }} }} }}
routes:
  - {{ origin: \"{}\", limits: [egress] }}
",
        origin.address()
    ));
    let start = Instant::now();
    let answer = gate.fetch("/", "");
    assert_eq!((answer.status, answer.body.len()), (200, BODY.len()));
    // 96 KiB, 32 at once, and the last piece of at most 64 KiB need not be waited for
    let second = gate.fetch("/", "");
    assert_eq!(second.status, 200);
    assert!(start.elapsed() >= Duration::from_secs(2), "192 KiB at 64 KiB/s with 32 at once: {:?}", start.elapsed());
}

#[test]
fn keys_without_their_header_go_to_another_limit() {
    let gate = Gate::start(
        "limits:
  anonymous: { rate: 1/h, burst: 1 }
  by_key: { key: header:x-api-key, missing: { use: anonymous }, rate: 3/h, burst: 3 }
routes:
  - { respond: { status: 200, body: ok }, limits: [by_key] }
",
    );
    let statuses = |lines: &str| -> Vec<u16> { (0..4).map(|_| gate.fetch("/", lines).status).collect() };
    assert_eq!(statuses("X-Api-Key: a\r\n"), [200, 200, 200, 429]);
    assert_eq!(statuses(""), [200, 429, 429, 429]);
}

#[test]
fn some_are_exempt_and_some_have_more() {
    let gate = Gate::start(
        "trusted_proxies: [127.0.0.0/8]
limits:
  api:
    rate: 2/h
    burst: 2
    exempt: [192.0.2.0/24]
    tiers:
      - { when: { header: { x-plan: gold } }, rate: 4/h, burst: 4 }
      - { when: { cidr: [198.51.100.0/24] }, exempt: true }
routes:
  - { respond: { status: 200, body: ok }, limits: [api] }
",
    );
    let passed = |lines: &str| (0..6).filter(|_| gate.fetch("/", lines).status == 200).count();
    assert_eq!(passed("X-Forwarded-For: 203.0.113.1\r\n"), 2);
    assert_eq!(passed("X-Forwarded-For: 203.0.113.2\r\nX-Plan: gold\r\n"), 4);
    assert_eq!(passed("X-Forwarded-For: 192.0.2.9\r\n"), 6);
    assert_eq!(passed("X-Forwarded-For: 198.51.100.9\r\n"), 6);
    let gold = gate.fetch("/", "X-Forwarded-For: 203.0.113.3\r\nX-Plan: gold\r\n");
    assert!(gold.field("ratelimit-policy").unwrap().contains("q=4"), "{gold:?}");
}

#[test]
fn a_quarter_of_all_clients_is_the_same_quarter_every_time() {
    let policy = "trusted_proxies: [127.0.0.0/8]
limits:
  trial: { rate: 1/h, burst: 1, enforce: 25% }
routes:
  - { respond: { status: 200, body: ok }, limits: [trial] }
";
    let limited = |gate: &Gate| -> Vec<usize> {
        let mut connection = gate.connect();
        let mut ask =
            |n: usize| connection.ask("GET", "/", &format!("X-Forwarded-For: 10.1.{}.{}\r\n", n / 250, n % 250), b"");
        (0..400).filter(|n| (0..2).any(|_| ask(*n).status == 429)).collect()
    };
    let (first, second) = (limited(&Gate::start(policy)), limited(&Gate::start(policy)));
    assert!((70..=130).contains(&first.len()), "{} of 400 is a quarter", first.len());
    assert_eq!(first, second, "the same clients in another process");
}

#[test]
fn one_client_has_only_so_much_under_way() {
    let latch = crate::harness::Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |_| Reply::Held(held.clone()));
    let mut gate = Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  concurrency: {{ type: inflight, key: client_ip, max: 3 }}
routes:
  - {{ origin: \"{}\", limits: [concurrency] }}
",
        origin.address()
    ));
    let ask = |address: &str| {
        let mut connection = gate.connect();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n\r\n");
        connection.send(request.as_bytes()).unwrap();
        connection
    };
    let mut under_way: Vec<_> = (0..3).map(|_| ask("203.0.113.1")).collect();
    origin.wait_for(3);
    let refused = ask("203.0.113.1").answer_to("GET").unwrap();
    assert_eq!(refused.status, 429);
    assert!(refused.field("ratelimit-policy").unwrap().contains("concurrent-requests"), "{refused:?}");
    under_way.push(ask("203.0.113.2"));
    origin.wait_for(4);
    latch.open();
    for connection in &mut under_way {
        assert_eq!(connection.answer_to("GET").unwrap().status, 200);
    }
    gate.comes_to_rest();
    gate.counts("tidegate_limit_inflight_requests", &[("limit", "concurrency")], 0.0);
    assert_eq!(gate.fetch("/", "X-Forwarded-For: 203.0.113.1\r\n").status, 200);
}
