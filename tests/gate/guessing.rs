//! Wrong passwords and stolen lists of names, through real sockets.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Gate, Origin, Reply};

const WRONG: Reply = Reply::Bytes(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 5\r\n\r\nwrong");

/// Sends this many requests at once, each on a connection of its own, and counts the answers with this status.
fn at_once(gate: &Gate, count: usize, lines: &str, status: u16) -> usize {
    let (ready, matching) = (Barrier::new(count), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let mut connection = gate.connect();
                ready.wait();
                let answer = connection.ask("POST", "/login", lines, b"password=guess");
                assert!(matches!(answer.status, 200 | 401 | 429), "{answer:?}");
                matching.fetch_add(usize::from(answer.status == status), Ordering::Relaxed);
            });
        }
    });
    matching.into_inner()
}

fn from(address: &str) -> String {
    format!("X-Forwarded-For: {address}\r\n")
}

#[test]
fn of_two_hundred_wrong_passwords_at_once_exactly_five_reach_the_origin() {
    let origin = Origin::that(WRONG);
    let mut gate = Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  login: {{ key: client_ip, rate: 5/m, burst: 5, count: 'responses 401,403' }}
routes:
  - match: {{ path: =/login, method: POST }}
    origin: {}
    limits: [login]
",
        origin.address()
    ));
    // ten guessers one after the other, so that each of the ten repetitions has a budget of its own
    for round in 1..=10 {
        let wrong = at_once(&gate, 200, &from(&format!("203.0.113.{round}")), 401);
        assert_eq!((wrong, origin.count()), (5, 5 * round), "repetition {round}");
    }
    gate.comes_to_rest();
    assert_eq!(
        gate.metrics().sum("tidegate_limit_pending_units", &[("limit", "login")]),
        0.0,
        "every attempt was settled"
    );
}

#[test]
fn right_passwords_cost_nothing() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  login: {{ rate: 5/m, burst: 5, count: not 2xx }}
routes:
  - {{ origin: \"{}\", limits: [login] }}
",
        origin.address()
    ));
    let mut connection = gate.connect();
    for _ in 0..50 {
        assert_eq!(connection.ask("POST", "/login", &from("203.0.113.7"), b"").status, 200);
    }
}

#[test]
fn who_hangs_up_before_the_answer_has_made_his_attempt() {
    // the origin never answers: what was sent stays pending until its client goes, and counts from then on
    let origin = Origin::that(Reply::ThenStall(b""));
    let gate = Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  login: {{ rate: 3/m, burst: 3, count: 'responses 401' }}
routes:
  - {{ origin: \"{}\", limits: [login] }}
",
        origin.address()
    ));
    for sent in 1..=3 {
        let mut connection = gate.connect();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", from("203.0.113.8"));
        connection.send(request.as_bytes()).unwrap();
        origin.wait_for(sent);
        connection.reset();
    }
    gate.counts("tidegate_limit_pending_units", &[("limit", "login")], 0.0);
    assert_eq!(gate.fetch("/", &from("203.0.113.8")).status, 429);
    assert_eq!(origin.count(), 3);
}

#[test]
fn an_origin_that_fails_is_not_the_clients_fault() {
    let (dead, _held) = crate::harness::origin::refusing();
    let gate = Gate::start(&format!(
        "limits:
  login: {{ rate: 2/m, burst: 2, count: not 2xx }}
routes:
  - {{ origin: \"{dead}\", limits: [login] }}
"
    ));
    for _ in 0..6 {
        assert_eq!(gate.fetch("/", "").status, 502);
    }
}

/// The windows are of the clock on the wall: one that ends in the middle would let more pass, so they are long.
#[test]
fn a_thousand_names_end_at_twenty_and_one_name_never_does() {
    let origin = Origin::that(WRONG);
    let gate = Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  stuffing: {{ type: distinct, key: client_ip, of: header:x-login-name, missing: allow, max: 20, window: 480h }}
routes:
  - {{ origin: \"{}\", limits: [stuffing] }}
",
        origin.address()
    ));
    let mut connection = gate.connect();
    let mut ask = |address: &str, name: &str| {
        connection.ask("POST", "/login", &format!("X-Forwarded-For: {address}\r\nX-Login-Name: {name}\r\n"), b"").status
    };
    let statuses: Vec<u16> = (0..1_000).map(|n| ask("203.0.113.1", &format!("user{n}"))).collect();
    assert_eq!(statuses[..20], [401; 20]);
    assert!(statuses[20..].iter().all(|status| *status == 429), "stopped at twenty different names");
    for _ in 0..1_000 {
        assert_eq!(ask("203.0.113.2", "carol"), 401, "one name is one name, however often");
    }
    // even the stuffer may go on with the names it had
    assert_eq!((ask("203.0.113.1", "user3"), ask("203.0.113.1", "user999")), (401, 429));
}

#[test]
fn distinct_names_can_be_counted_by_failure() {
    let origin = Origin::start(|arrival| match arrival.lines("x-login-name").first() {
        Some(name) if name.starts_with("right") => Reply::Ok,
        _ => WRONG,
    });
    let gate = Gate::start(&format!(
        "limits:
  stuffing:
    type: distinct
    of: header:x-login-name
    missing: allow
    max: 5
    window: 480h
    count: responses 401
routes:
  - {{ origin: \"{}\", limits: [stuffing] }}
",
        origin.address()
    ));
    let mut connection = gate.connect();
    let mut ask = |name: String| connection.ask("POST", "/login", &format!("X-Login-Name: {name}\r\n"), b"").status;
    for n in 0..100 {
        assert_eq!(ask(format!("right{n}")), 200);
    }
    let wrong: Vec<u16> = (0..20).map(|n| ask(format!("wrong{n}"))).collect();
    assert_eq!(wrong[..5], [401; 5]);
    assert_eq!(wrong[5..], [429; 15]);
}

#[test]
fn where_refused_names_count_a_stuffer_that_goes_on_is_told_to_wait_longer_and_known_names_pass() {
    let origin = Origin::that(WRONG);
    let words = "type: distinct, of: header:x-login-name, missing: allow, max: 3, window: 1h, sliding: true";
    let gate = Gate::start(&format!(
        "responses: {{ retry_after: {{ jitter: 0% }} }}
limits:
  strict: {{ {words}, count: all, max_penalty: 2h }}
  lax: {{ {words} }}
routes:
  - {{ match: {{ path: =/strict }}, origin: \"{0}\", limits: [strict] }}
  - {{ origin: \"{0}\", limits: [lax] }}
",
        origin.address()
    ));
    let mut connection = gate.connect();
    let mut ask = |path: &str, name: &str| {
        let answer = connection.ask("POST", path, &format!("X-Login-Name: {name}\r\n"), b"");
        (answer.status, answer.field("retry-after").map(|wait| wait.parse::<u64>().unwrap()))
    };
    for path in ["/strict", "/lax"] {
        let admitted = (0..3).filter(|n| ask(path, &format!("user{n}")).0 == 401).count();
        assert_eq!(admitted, 3, "{path}");
    }
    // one of three per hour comes back in twenty minutes, less what this test takes
    let minutes = |(status, wait): (u16, Option<u64>)| {
        assert_eq!(status, 429);
        wait.unwrap().div_ceil(60)
    };
    let lax: Vec<u64> = (10..20).map(|n| minutes(ask("/lax", &format!("user{n}")))).collect();
    assert!(lax.iter().all(|wait| (15..=20).contains(wait)), "{lax:?}");
    let strict: Vec<u64> = (10..20).map(|n| minutes(ask("/strict", &format!("user{n}")))).collect();
    assert!(strict[0] > 35 && strict[1] > 55 && strict[9] > 115 && strict[9] <= 120, "{strict:?}");
    // who is kept out of new names is not kept out of those that it had
    assert_eq!((ask("/strict", "user1").0, ask("/strict", "user11").0), (401, 429));
}
