//! What the gate judges is what the origin gets: clients that have a field taken out on the way, write a key twice, or spell it in
//! another way, get no fresh budget and walk round no route.

use crate::harness::{Arrival, Gate, Origin, Reply, wait_for};

/// A limit of five requests a minute by this key.
fn gate_by(origin: &Origin, key: &str, more: &str) -> Gate {
    Gate::start(&format!(
        "limits:
  by_key: {{ key: \"{key}\", missing: allow, rate: 5/m, burst: 5 }}
{more}
routes:
  - match: {{ headers: {{ x-plan: free }} }}
    respond: {{ status: 403 }}
  - {{ origin: \"{}\", limits: [by_key] }}
",
        origin.address()
    ))
}

/// Sends so many requests with these lines and counts the answers with this status; every second one has a body, so that it goes the
/// way without an early look.
fn statuses(gate: &Gate, target: &str, count: usize, mut lines: impl FnMut(usize) -> String) -> Vec<u16> {
    let ask = |nth: usize| {
        let (method, body): (_, &[u8]) = if nth.is_multiple_of(2) { ("GET", b"") } else { ("POST", b"a body") };
        gate.connect().ask(method, target, &lines(nth), body).status
    };
    (0..count).map(ask).collect()
}

fn refused_for(gate: &Gate, reason: &str, count: usize) {
    gate.counts("tidegate_refused_requests_total", &[("reason", reason)], count as f64);
    let said = format!("\"reason\":\"{reason}\"");
    wait_for("the lines of the log", || {
        let text = gate.log_text();
        (text.lines().filter(|line| line.contains(&said)).count() == count).then_some(())
    });
}

#[test]
fn no_request_nominates_a_field_that_the_policy_reads() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_by(&origin, "header:x-api-key", "");
    let nominations = [
        "Connection: x-api-key",
        "connection: X-API-Key",
        "Connection: close, x-api-key",
        "Connection: keep-alive,\tX-Api-Key ,",
        "Connection: keep-alive\r\nConnection: x-api-key",
        "Connection: ,,x-api-key",
        "Connection: x-plan",
    ];
    for (number, nomination) in nominations.iter().enumerate() {
        let found = statuses(&gate, "/", 6, |_| format!("{nomination}\r\nX-Api-Key: k{number}\r\n"));
        assert_eq!(found, [400; 6], "{nomination}");
        let without = statuses(&gate, "/", 2, |_| format!("{nomination}\r\nX-Plan: free\r\n"));
        assert_eq!(without, [400; 2], "{nomination}: no match by a field that goes");
    }
    refused_for(&gate, "nominated_field", nominations.len() * 8);
    // those are no options at all
    for malformed in ["Connection: \"x-api-key\"", "Connection: x-api-key;q=1", "Connection: a x-api-key"] {
        assert_eq!(statuses(&gate, "/", 6, |_| format!("{malformed}\r\nX-Api-Key: k\r\n")), [400; 6], "{malformed}");
    }
    gate.counts("tidegate_malformed_requests_total", &[("reason", "connection")], 18.0);
    assert_eq!(origin.count(), 0);
    // what is read by nobody may go
    assert_eq!(statuses(&gate, "/", 2, |_| "Connection: x-other\r\nX-Other: 1\r\nX-Api-Key: k\r\n".into()), [200; 2]);
    assert!(origin.arrivals().iter().all(|arrival| arrival.lines("x-other").is_empty()));
    assert_eq!(statuses(&gate, "/", 5, |_| "X-Api-Key: k\r\n".into()), [200, 200, 200, 429, 429]);
}

#[test]
fn what_a_reload_reads_cannot_be_nominated_from_then_on() {
    let origin = Origin::that(Reply::Ok);
    let policy = |key: &str| {
        format!(
            "limits:\n  by_key: {{ key: \"{key}\", missing: allow, rate: 5/m }}\nroutes:\n  - {{ origin: \"{}\", limits: [by_key] }}\n",
            origin.address()
        )
    };
    let gate = Gate::start(&policy("header:x-one"));
    let ask = |name: &str| gate.fetch("/", &format!("Connection: {name}\r\n")).status;
    assert_eq!((ask("x-one"), ask("x-two")), (400, 200));
    let file = gate.folder().join("tidegate.yaml");
    let served = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, served.replace("x-one", "x-two")).unwrap();
    gate.signal("HUP");
    wait_for("the other policy", || (ask("x-two") == 400).then_some(()));
    assert_eq!(ask("x-one"), 200);
}

#[test]
fn a_repeated_field_is_refused_or_one_line_of_it_counts_and_goes_on() {
    let twice = |first: &str, second: &str| format!("X-Api-Key: {first}\r\nX-Other: 1\r\nx-api-key: {second}\r\n");
    let origin = Origin::that(Reply::Ok);
    let gate = gate_by(&origin, "header:x-api-key", "");
    assert_eq!(statuses(&gate, "/", 6, |nth| twice("k1", &format!("r{nth}"))), [400; 6]);
    assert_eq!(statuses(&gate, "/", 6, |_| "X-Plan: gold\r\nX-Plan: free\r\n".into()), [400; 6]);
    refused_for(&gate, "repeated_field", 12);
    assert_eq!(origin.count(), 0);
    assert_eq!(statuses(&gate, "/", 2, |_| "X-Other: 1\r\nX-Other: 2\r\nX-Api-Key: a, b\r\n".into()), [200; 2]);
    for (word, kept, plan) in [("first", 0, [403, 200]), ("last", 1, [200, 403])] {
        let origin = Origin::that(Reply::Ok);
        let gate = gate_by(&origin, "header:x-api-key", &format!("repeated_fields: {word}"));
        let lines = |nth: usize| {
            let other = format!("r{nth}");
            if kept == 0 { twice("k1", &other) } else { twice(&other, "k1") }
        };
        let found = statuses(&gate, "/", 30, lines);
        assert_eq!(found.iter().filter(|status| **status == 200).count(), 5, "{word}: {found:?}");
        assert_eq!(origin.count(), 5);
        for arrival in origin.arrivals() {
            assert_eq!(arrival.lines("x-api-key"), ["k1"], "{word}");
        }
        let plans = ["X-Plan: free\r\nX-Plan: gold\r\n", "X-Plan: gold\r\nX-Plan: free\r\n"];
        assert_eq!(plans.map(|lines| gate.fetch("/", lines).status), plan, "{word}");
    }
}

#[test]
fn a_field_that_reads_as_a_key_in_cgi_does_not_reach_the_origin() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_by(&origin, "header:x-api-key", "");
    assert_eq!(
        statuses(&gate, "/", 8, |nth| format!("X_Api_Key: k1\r\nX-Api_Key: k1\r\nX_Other: {nth}\r\n")),
        [200; 8]
    );
    for arrival in origin.arrivals() {
        assert!(arrival.lines("x_api_key").is_empty() && arrival.lines("x-api_key").is_empty(), "{arrival:?}");
        assert_eq!(arrival.lines("x_other").len(), 1);
    }
}

/// Requests in which some application finds the value `k1`; `r` is another value each time.
fn spellings_of_a_parameter(r: usize) -> Vec<String> {
    [
        "token=k1",
        "token=k1&token=R",
        "token=R&token=k1",
        "t%6fken=k1",
        "token=%6b1&token=R",
        "token=R&token=%6B%31",
        "token=k1;x=R",
        "x=R;token=k1",
        "token=R;token=k1",
        "token=R&x=1;token=k1",
        "token=R&+token=k1",
        "%20token=k1&token=R",
        "token=R&token=S&token=T&token=k1",
    ]
    .map(|query| query.replace('R', &format!("r{r}")).replace('S', &format!("s{r}")).replace('T', &format!("t{r}")))
    .to_vec()
}

fn spellings_of_a_cookie(r: usize) -> Vec<String> {
    [
        "Cookie: token=k1",
        "Cookie: token=k1; token=R",
        "Cookie: token=R; token=k1",
        "Cookie: token=R\r\nCookie: token=k1",
        "Cookie: token=\"k1\"; token=R",
        "Cookie: token=R; token=%6b1",
        "Cookie: t%6fken=k1; token=R",
        "Cookie: token=R; token=\"\\1531\"",
        "Cookie: a=b;token=k1;c=d",
        "Cookie: token=\"k1\"; token=k1; token=R",
    ]
    .map(|line| line.replace('R', &format!("r{r}")))
    .to_vec()
}

#[test]
fn no_spelling_of_a_parameter_has_a_budget_of_its_own() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_by(&origin, "query:token", "");
    let mut connection = gate.connect();
    let mut passed = 0;
    for round in 0..3 {
        for query in spellings_of_a_parameter(round) {
            let status = connection.ask("GET", &format!("/?{query}"), "", b"").status;
            assert!(matches!(status, 200 | 429), "{query}: {status}");
            passed += usize::from(status == 200);
        }
    }
    assert_eq!((passed, origin.count()), (5, 5));
    // whoever shared a request with the spent key has paid for nothing
    let other: Vec<u16> = (0..6).map(|_| connection.ask("GET", "/?token=r2", "", b"").status).collect();
    assert_eq!(other, [200, 200, 200, 200, 200, 429]);
    let many = connection.ask("GET", "/?token=1&token=2&token=3&token=4&token=5", "", b"");
    assert_eq!(many.status, 400);
    refused_for(&gate, "ambiguous_value", 1);
    // so many that they cost more to tell apart than anything else does
    let status = |parameters: usize| {
        connection.ask("GET", &format!("/?{}token=r9", "a&".repeat(parameters - 1)), "", b"").status
    };
    assert_eq!([256, 257].map(status), [200, 400]);
    refused_for(&gate, "ambiguous_value", 2);
}

#[test]
fn no_spelling_of_a_cookie_has_a_budget_of_its_own() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_by(&origin, "cookie:token", "");
    let mut passed = 0;
    for round in 0..3 {
        for (nth, line) in spellings_of_a_cookie(round).iter().enumerate() {
            let (method, body): (_, &[u8]) = if nth % 2 == 0 { ("GET", b"") } else { ("POST", b"a body") };
            let status = gate.connect().ask(method, "/", &format!("{line}\r\n"), body).status;
            assert!(matches!(status, 200 | 429), "{line}: {status}");
            passed += usize::from(status == 200);
        }
    }
    assert_eq!((passed, origin.count()), (5, 5));
}

#[test]
fn no_spelling_of_a_parameter_walks_round_a_route() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "routes:
  - match: {{ path: /, query: {{ admin: \"1\" }} }}
    respond: {{ status: 403 }}
  - match: {{ path: /, query: {{ debug: {{ regex: \"on|yes\" }} }} }}
    respond: {{ status: 403 }}
  - {{ origin: \"{}\" }}
",
        origin.address()
    ));
    let ask = |query: &str| gate.fetch(&format!("/?{query}"), "").status;
    for query in ["admin=1", "adm%69n=%31", "admin=1&admin=%31", "debug=y%65s", "x=2&admin=1", "debug=on&debug=yes"] {
        assert_eq!(ask(query), 403, "{query}");
    }
    for query in
        ["admin=1&admin=0", "admin=0&admin=1", "x=1;admin=1", "admin=1;x=1", "debug=on&debug=off", "debug=;debug=on"]
    {
        assert_eq!(ask(query), 400, "{query}");
    }
    let many = format!("admin=1{}", "&".repeat(256));
    assert_eq!([&many[..many.len() - 1], &many].map(ask), [403, 400]);
    refused_for(&gate, "ambiguous_value", 7);
    assert_eq!(origin.count(), 0);
    assert_eq!(["admin=0", "admin=11", "q=1;2", ""].map(ask), [200; 4]);
}

/// The route that a request with these fields goes, as the policy of the next test has it.
fn expected_route(arrival: &Arrival) -> &'static str {
    let line = |name: &str| arrival.lines(name).first().copied().map(str::to_owned);
    match (line("x-plan").as_deref(), line("x-api-key").as_deref()) {
        (Some("gold"), Some("k1")) => "both",
        (Some("gold"), _) => "gold",
        (_, Some("k1")) => "key",
        _ => "rest",
    }
}

#[test]
fn the_fields_that_are_judged_are_those_that_the_origin_gets() {
    let origin = Origin::that(Reply::Ok);
    let gate = |word: &str| {
        let route = |name: &str, headers: &str| {
            format!(
                "  - {{ name: {name}, match: {{ headers: {{ {headers} }} }}, origin: \"{}\", request_headers: {{ set: {{ x-judged: \"{{route}}\" }} }} }}\n",
                origin.address()
            )
        };
        Gate::start(&format!(
            "repeated_fields: {word}\nroutes:\n{}{}{}  - {{ name: rest, origin: \"{}\", request_headers: {{ set: {{ x-judged: \"{{route}}\" }} }} }}\n",
            route("both", "x-plan: gold, x-api-key: k1"),
            route("gold", "x-plan: gold"),
            route("key", "x-api-key: k1"),
            origin.address()
        ))
    };
    let pieces = [
        "X-Plan: gold",
        "x-plan: free",
        "X-Api-Key: k1",
        "x-api-key: \tk1 ",
        "X-API-KEY: k2",
        "Connection: x-plan",
        "Connection: keep-alive, X-Api-Key",
        "Connection: close",
        "Connection: x-more",
        "Keep-Alive: x-plan",
        "Proxy-Connection: x-api-key",
        "TE: trailers, x-plan",
        "X-More: 1",
        "X_Plan: gold",
        "X-Api_Key: k1",
        "Trailer: x-plan",
        "Upgrade: websocket",
    ];
    // xorshift: any sequence will do, the same each time
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most as u64) as usize
    };
    let mut passed = 0;
    for word in ["refuse", "first", "last"] {
        let gate = gate(word);
        for _ in 0..150 {
            let lines: String = (0..1 + below(5)).map(|_| format!("{}\r\n", pieces[below(pieces.len())])).collect();
            let status = gate.fetch("/", &lines).status;
            assert!(matches!(status, 200 | 400), "{status} to {lines}");
            passed += usize::from(status == 200);
        }
    }
    let arrivals = origin.arrivals();
    assert_eq!(arrivals.len(), passed);
    assert!(passed > 150, "{passed} passed");
    for arrival in &arrivals {
        assert_eq!(arrival.lines("x-judged"), [expected_route(arrival)], "{}", String::from_utf8_lossy(&arrival.head));
        for name in ["x-plan", "x-api-key"] {
            assert!(arrival.lines(name).len() < 2, "{arrival:?}");
        }
        for name in ["x_plan", "x-api_key", "te", "keep-alive", "proxy-connection"] {
            assert!(arrival.lines(name).is_empty(), "{arrival:?}");
        }
    }
}

#[test]
fn each_spelling_that_a_route_ignores_is_one_key() {
    let origin = Origin::that(Reply::Ok);
    for key in ["[client_ip, path]", "path", "path:segments=2"] {
        let gate = Gate::start(&format!(
            "limits: {{ by_path: {{ key: {key}, rate: 5/h, burst: 5 }} }}
routes:
  - {{ name: accounts, match: {{ path: {{ prefix: /accounts, ignore: all }} }}, limits: [by_path], origin: \"{to}\" }}
  - {{ name: files, match: {{ path: {{ prefix: /files, ignore: none }} }}, limits: [by_path], origin: \"{to}\" }}
",
            to = origin.address()
        ));
        let long = format!("/accounts/bob;{}", "x".repeat(4_000));
        let spelt = [
            "/accounts/bob",
            "/Accounts/bob",
            "/accounts/Bob",
            "/accounts/bob/",
            "/accounts/bob;1",
            "/accounts/bob;2",
            "/accounts/bob.",
            "/accounts/bob%20",
            "/accounts%2fbob",
            "/accounts;/bob",
            "/accounts/bob;%2Fx1",
            "/accounts/bob;%2Fx2",
            long.as_str(),
        ];
        let passed = |paths: &[&str]| -> usize {
            let of_each = |path: &&str| {
                statuses(&gate, path, 2, |_| String::new()).into_iter().filter(|status| *status == 200).count()
            };
            paths.iter().map(of_each).sum()
        };
        assert_eq!(passed(&spelt), 5, "{key}");
        assert_eq!(passed(&["/accounts/alice", "/accounts/carol"]), 4, "{key}: other paths have counts of their own");
        let apart = ["/files/a", "/files/A", "/files/a;1", "/files/a."];
        assert_eq!(passed(&apart), 8, "{key}: where nothing is ignored, each spelling is a path of its own");
    }
}
