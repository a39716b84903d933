//! What a limited client is told, and that it is true.

use std::time::Duration;

use crate::harness::{Answer, Gate, Origin, Reply};

/// A gate whose route answers by itself, under this limit.
fn limited(limit: &str) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
routes:
  - name: page
    limit: {limit}
    respond: {{ status: 200, body: ok }}
"
    ))
}

fn retry_after(answer: &Answer) -> u64 {
    answer.field("retry-after").expect("a time to come back").parse().expect("in whole seconds")
}

/// The value of a parameter in a field such as `"name";r=0;t=12`.
fn parameter(field: &str, name: &str) -> Option<u64> {
    let mut parameters = field.split(';').map(str::trim);
    parameters.find_map(|one| one.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

#[test]
fn the_first_429_says_who_when_and_why() {
    let gate = limited("6/m burst 2");
    let mut connection = gate.connect();
    for left in [1, 0] {
        let answer = connection.ask("GET", "/", "", b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
        let field = answer.field("ratelimit").expect("an admitted client learns its budget");
        assert_eq!(parameter(&field, "r"), Some(left), "{field}");
    }
    let answer = connection.ask("GET", "/", "Accept: application/json\r\n", b"");
    assert_eq!(answer.status, 429, "{answer:?}");
    let wait = retry_after(&answer);
    // one comes back every ten seconds; the jitter adds up to a tenth
    assert!((9..=12).contains(&wait), "{answer:?}");
    let field = answer.field("ratelimit").expect("RateLimit");
    assert_eq!(parameter(&field, "r"), Some(0), "{field}");
    assert!(parameter(&field, "t").is_some_and(|reset| reset <= wait), "not before the reset: {field}, {wait}");
    let policy = answer.field("ratelimit-policy").expect("RateLimit-Policy");
    assert_eq!((parameter(&policy, "q"), parameter(&policy, "w")), (Some(2), Some(20)), "{policy}");
    assert_eq!(field.split(';').next(), policy.split(';').next(), "both name the same limit");
    assert_eq!(answer.field("cache-control").as_deref(), Some("no-store"));
    assert_eq!(answer.field("content-type").as_deref(), Some("application/problem+json"));
    assert!(answer.field("x-tidegate-decision").is_some_and(|id| id.len() == 13), "{answer:?}");
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect("the body is JSON");
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert!(problem["title"].is_string() && problem["violated-policies"].is_array(), "{problem}");
    assert!(answer.keeps_connection(), "{answer:?}");
    // on the same connection
    assert_eq!(connection.ask("GET", "/", "", b"").status, 429);
}

#[test]
fn browsers_get_a_page_and_programs_a_problem() {
    let gate = limited("1/h burst 1");
    let mut connection = gate.connect();
    assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
    let mut kind = |accept: &str| {
        let lines = if accept.is_empty() { String::new() } else { format!("Accept: {accept}\r\n") };
        let answer = connection.ask("GET", "/", &lines, b"");
        assert_eq!(answer.status, 429);
        assert!(!answer.body.is_empty() && answer.keeps_connection());
        answer.field("content-type").expect("a type").split(';').next().unwrap_or_default().trim().to_owned()
    };
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
    assert_eq!(kind(browser), "text/html");
    assert_eq!(kind("application/json"), "application/problem+json");
    assert_eq!(kind("application/problem+json, text/html;q=0.1"), "application/problem+json");
    assert_eq!(kind("text/html;q=0.1, application/json"), "application/problem+json");
}

#[test]
fn a_refused_head_request_has_no_body() {
    let gate = limited("1/h burst 1");
    let mut connection = gate.connect();
    assert_eq!(connection.ask("HEAD", "/", "", b"").status, 200);
    let answer = connection.ask("HEAD", "/", "", b"");
    assert_eq!(answer.status, 429);
    assert!(retry_after(&answer) >= 1);
    // a body would be read as the start of the next answer
    assert_eq!(connection.ask("GET", "/", "", b"").status, 429);
}

#[test]
fn a_refused_upload_is_answered_and_the_connection_stays_usable() {
    let gate = limited("1/h burst 1");
    let mut connection = gate.connect();
    assert_eq!(connection.ask("POST", "/", "", b"hello").status, 200);
    let answer = connection.ask("POST", "/", "", &[b'x'; 2000]);
    assert_eq!(answer.status, 429, "{answer:?}");
    if answer.keeps_connection() {
        assert_eq!(connection.ask("GET", "/", "", b"").status, 429);
    }
}

#[test]
fn who_waits_as_long_as_told_is_let_in() {
    let gate = limited("60/m burst 1");
    let mut connection = gate.connect();
    assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
    let refused = connection.ask("GET", "/", "", b"");
    assert_eq!(refused.status, 429);
    // waiting longer does no harm, so a slow machine cannot fail this
    std::thread::sleep(Duration::from_secs(retry_after(&refused)));
    assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
}

#[test]
fn a_shadow_limit_counts_and_never_refuses() {
    let gate = Gate::start(
        "limits:
  probe: { key: client_ip, rate: 1/h, burst: 1, mode: shadow }
routes:
  - name: page
    limits: [probe]
    respond: { status: 200, body: ok }
",
    );
    let mut connection = gate.connect();
    for _ in 0..10 {
        let answer = connection.ask("GET", "/", "", b"");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("ratelimit"), None, "a shadow limit is not reported to clients");
    }
    let metrics = gate.metrics();
    let decided = |verdict| {
        metrics.sum("tidegate_limit_decisions_total", &[("limit", "probe"), ("mode", "shadow"), ("verdict", verdict)])
    };
    assert_eq!((decided("allowed"), decided("limited")), (1.0, 9.0));
    let log = gate.log_of(10);
    let limited = log
        .iter()
        .filter(|entry| entry.limits.iter().any(|(_, mode, outcome)| mode == "shadow" && outcome == "limited"));
    assert_eq!(limited.count(), 9);
    assert!(log.iter().all(|entry| entry.verdict == "admitted"));
}

#[test]
fn a_request_that_one_limit_refuses_is_not_charged_to_the_others() {
    let gate = Gate::start(
        "limits:
  narrow: { key: \"header:x-key\", missing: allow, rate: 1/h, burst: 1 }
  wide: { key: client_ip, rate: 1/h, burst: 3 }
routes:
  - name: page
    limits: [wide, narrow]
    respond: { status: 200, body: ok }
",
    );
    let mut connection = gate.connect();
    let mut ask = |lines: &str| connection.ask("GET", "/", lines, b"").status;
    assert_eq!(ask("X-Key: a\r\n"), 200);
    for _ in 0..20 {
        assert_eq!(ask("X-Key: a\r\n"), 429);
    }
    // the wide one has been charged once: two are left
    assert_eq!([ask(""), ask(""), ask("")], [200, 200, 429]);
}

#[test]
fn an_origins_own_429_is_passed_on_as_it_is() {
    let origin = Origin::that(Reply::Bytes(
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 77\r\nContent-Length: 4\r\n\r\nmine",
    ));
    let gate = Gate::start(&format!("routes:\n  - origin: \"{}\"\n    limit: 100/s\n", origin.address()));
    let answer = gate.fetch("/", "");
    assert_eq!((answer.status, answer.text().as_str()), (429, "mine"));
    assert_eq!(answer.field("retry-after").as_deref(), Some("77"));
    assert!(answer.field("ratelimit").is_some(), "our advice stands beside it: {answer:?}");
}

#[test]
fn interim_answers_carry_no_limits_and_final_ones_do() {
    let origin = Origin::that(Reply::Bytes(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal",
    ));
    let gate = Gate::start(&format!("routes:\n  - origin: \"{}\"\n    limit: 100/s\n", origin.address()));
    let mut connection = gate.connect();
    connection.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut head = String::from_utf8(connection.head().expect("a head comes")).unwrap().to_ascii_lowercase();
    while head.starts_with("http/1.1 1") {
        assert!(!head.contains("ratelimit"), "{head}");
        head = String::from_utf8(connection.head().expect("a final head comes")).unwrap().to_ascii_lowercase();
    }
    assert!(head.starts_with("http/1.1 200") && head.contains("\r\nratelimit:"), "{head}");
}

#[test]
fn the_fields_are_spelt_as_the_operator_wants() {
    let told = |style: &str| {
        let gate = Gate::start(&format!(
            "responses: {{ ratelimit_headers: {style}, decision_id: false, limited: {{ status: 420, format: html }} }}
routes:
  - {{ name: page, limit: 1/h burst 1, respond: {{ status: 200, body: ok }} }}
"
        ));
        let mut connection = gate.connect();
        assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
        let answer = connection.ask("GET", "/", "Accept: application/json\r\n", b"");
        assert_eq!(answer.status, 420);
        assert_eq!(answer.field("x-tidegate-decision"), None);
        assert!(answer.field("content-type").is_some_and(|kind| kind.starts_with("text/html")), "{answer:?}");
        assert!(retry_after(&answer) > 3000);
        answer
    };
    let number = |answer: &Answer, name: &str| answer.field(name).and_then(|value| value.parse::<u64>().ok());
    let triple = told("triple");
    assert_eq!((number(&triple, "ratelimit-limit"), number(&triple, "ratelimit-remaining")), (Some(1), Some(0)));
    assert!(number(&triple, "ratelimit-reset").is_some_and(|seconds| (3000..=3600).contains(&seconds)), "{triple:?}");
    let legacy = told("legacy");
    assert_eq!((number(&legacy, "x-ratelimit-limit"), number(&legacy, "x-ratelimit-remaining")), (Some(1), Some(0)));
    assert!(number(&legacy, "x-ratelimit-reset").is_some_and(|instant| instant > 1_700_000_000), "{legacy:?}");
    let off = told("off");
    assert!(off.fields.iter().all(|(name, _)| !name.to_lowercase().contains("ratelimit")), "{off:?}");
}

#[test]
fn a_limited_grpc_call_is_told_in_its_own_words() {
    let gate = limited("1/h burst 1");
    let mut connection = gate.connect();
    assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
    let answer = connection.ask("POST", "/", "Content-Type: application/grpc\r\n", b"");
    assert_eq!((answer.status, answer.field("grpc-status").as_deref()), (200, Some("8")), "{answer:?}");
    assert!(answer.body.is_empty());
    assert!(retry_after(&answer) >= 1);
}

#[test]
fn an_admitted_request_is_told_of_the_limit_that_is_nearest_to_its_end() {
    let gate = Gate::start(
        "limits:
  wide: { key: client_ip, rate: 100/h, burst: 100 }
  narrow: { key: client_ip, rate: 3/h, burst: 3 }
routes:
  - name: page
    limits: [wide, narrow]
    respond: { status: 200, body: ok }
",
    );
    let answer = gate.fetch("/", "");
    let field = answer.field("ratelimit").expect("RateLimit");
    assert!(field.starts_with("\"narrow\"") && parameter(&field, "r") == Some(2), "{field}");
    let policy = answer.field("ratelimit-policy").expect("RateLimit-Policy");
    assert!(policy.contains("\"wide\";q=100") && policy.contains("\"narrow\";q=3"), "{policy}");
}
