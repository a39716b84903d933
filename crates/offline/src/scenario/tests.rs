//! Cases against policies, as `tidegate test` runs them.

use std::path::Path;

use super::{Outcome, run};
use crate::config::load_text;
use crate::explain::Book;

/// The outcomes of all cases of a policy, whose routes and limits come first.
fn outcomes(policy: &str) -> Vec<Outcome> {
    let loaded = load_text("test.yaml", policy, &|_| None, Path::new("."));
    let told = crate::config::render::render(&loaded, crate::config::render::Format::Short, false);
    let config = loaded.outcome.unwrap_or_else(|_| panic!("{told}"));
    let book = Book::of(&config);
    config.cases.iter().map(|case| run(&config.policy, &book, case, config.escaped_slash()).unwrap()).collect()
}

fn one(limits: &str, route: &str, case: &str) -> Outcome {
    let policy = format!(
        "listen: \":8080\"\ntrusted_proxies: [10.0.0.0/8]\nlimits: {{ {limits} }}\n\
         origins: {{ app: {{ addresses: [\"127.0.0.1:1\"], inflight: {{ max: 2, queue: 1, queue_timeout: 1s }} }} }}\n\
         routes:\n  - {{ name: site, origin: app, {route} }}\n\
         tests:\n  - {{ name: a, {case} }}\n"
    );
    outcomes(&policy).remove(0)
}

#[track_caller]
fn holds(limits: &str, route: &str, case: &str) {
    let outcome = one(limits, route, case);
    assert!(outcome.holds(), "{outcome:#?}");
}

#[test]
fn a_rate_lets_its_burst_through_and_refills() {
    holds("", "limit: 10/s burst 20", "send: { n: 30, url: / }, expect: { allowed: 20, limited: 10, by: site_limit }");
    holds("", "limit: 10/s burst 20", "send: { every: 50ms, for: 10s, url: / }, expect: { allowed: 119..120 }");
}

#[test]
fn clients_are_found_as_the_policy_says() {
    let send = "url: /, from: 10.0.0.1, headers: { x-forwarded-for: '6.6.6.6, 203.0.113.7' }";
    holds("", "limit: 10/s", &format!("send: {{ {send} }}, expect: {{ client: 203.0.113.7 }}"));
    let stranger = "url: /, from: 198.51.100.1, headers: { x-forwarded-for: 203.0.113.7 }";
    holds("", "limit: 10/s", &format!("send: {{ {stranger} }}, expect: {{ client: 198.51.100.1 }}"));
    holds("", "limit: 1/s burst 1", "send: { n: 500, url: /, from: 2001:db8::/32 }, expect: { allowed: 500 }");
    holds("", "limit: 1/s burst 1", "send: { n: 500, url: /, from: 2001:db8::/64 }, expect: { allowed: 1 }");
}

#[test]
fn places_are_held_while_the_origin_takes_its_time() {
    let case = |every, allowed| {
        format!(
            "send: {{ n: 5, every: {every}, url: /, answer: {{ takes: 800ms }} }}, \
             expect: {{ allowed: {allowed}, by: 'origin:app', status: [200, 503] }}"
        )
    };
    // two at once, one waits for 800 ms, two find no room
    holds("", "timeouts: { read: 5s }", &case("0s", 3));
    holds("", "timeouts: { read: 5s }", &case("800ms", 5));
}

#[test]
fn who_waits_for_a_place_too_long_is_refused() {
    let case = "send: { n: 3, url: /, answer: { takes: 2s } }, expect: { allowed: 2, limited: 1, by: 'origin:app' }";
    holds("", "timeouts: { read: 5s }", case);
}

#[test]
fn attempts_are_held_back_until_their_answers() {
    let login = "login: { rate: 5/m, burst: 5, count: 'responses 401' }";
    let case = |answer: &str, allowed: u32| {
        format!("send: {{ n: 9, every: 1s, url: /, answer: {answer} }}, expect: {{ allowed: {allowed} }}")
    };
    holds(login, "limits: [login]", &case("401", 5));
    holds(login, "limits: [login]", &case("200", 9));
}

#[test]
fn a_limit_that_delays_holds_requests_back() {
    let slow = "slow: { rate: 1/s, burst: 1, action: { delay: { max: 3s } } }";
    let case = "send: { n: 6, url: / }, expect: { allowed: 4, delayed: 3, limited: 2, delay: 1s..3s }";
    holds(slow, "limits: [slow]", case);
}

#[test]
fn shadow_limits_and_tags_are_counted() {
    let limits = "soft: { rate: 1/s, burst: 2, mode: shadow }, mark: { rate: 1/s, burst: 3, action: { tag: { header: x-over } } }";
    let case = "send: { n: 10, url: / }, expect: { allowed: 10, shadowed: 8, shadowed_by: soft, tagged: 7 }";
    holds(limits, "limits: [soft, mark]", case);
}

#[test]
fn a_month_of_a_quota_passes_at_once() {
    let monthly = "monthly: { type: quota, max: 100, window: 744h }";
    let case = "send: [{ n: 200, every: 1h, url: / }, { at: 744h, n: 101, url: /, expect: { allowed: 100 } }], \
                expect: { allowed: 200 }";
    holds(monthly, "limits: [monthly]", case);
}

#[test]
fn fields_are_those_that_the_client_gets() {
    let case = "send: { n: 3, url: /, answer: { headers: { x-a: b } } }, \
                expect: { headers: { ratelimit: { regex: '\"site_limit\";r=17.*' }, x-a: b, x-b: site } }";
    holds("", "limit: 10/s burst 20, response_headers: { set: { x-b: '{route}' } }", case);
    let refused =
        "send: { n: 3, url: / }, expect: { status: [200, 429], headers: { content-type: application/problem+json } }";
    holds("", "limit: 1/m burst 1", refused);
}

#[test]
fn what_cannot_be_served_is_answered_as_by_the_gate() {
    holds("", "match: { path: /a }", "send: { url: /b }, expect: { status: 404, allowed: 0, limited: 0 }");
    holds("", "limit: 1/s", "send: { url: /a/.. }, expect: { status: 400, allowed: 0, limited: 0 }");
    holds("", "body_limit: 1KiB", "send: { url: /, method: POST, body: 2KiB }, expect: { status: 413, allowed: 0 }");
}

#[test]
fn the_first_request_that_differs_is_told() {
    let outcome = one("", "limit: 5/m burst 5", "send: { n: 7, every: 1s, url: / }, expect: { limited: 0 }");
    let account = outcome.account.unwrap();
    assert!(
        account.starts_with("at 5s: GET / from 192.0.2.1 (6 of 7): answered 429\nGET localhost/  →  429 "),
        "{account}"
    );
    assert!(
        account.contains("site_limit  LIMITED  5 of 5 per minute used; the next one fits in 7 s; by client_ip"),
        "{account}"
    );
    assert!(account.contains("change    burst ≥ 6, or rate ≥ ") && account.contains("test.yaml, line "), "{account}");
    assert_eq!(outcome.differences.len(), 1);
    assert_eq!((outcome.differences[0].expected.as_str(), outcome.differences[0].found.as_str()), ("0", "2"));
}

#[test]
fn the_account_tells_the_way_to_the_client_and_who_waits_or_cannot_be_served() {
    let send = "url: /, from: 10.0.0.1, headers: { x-forwarded-for: '6.6.6.6, 203.0.113.7' }";
    let account = |limits: &str, route: &str, case: &str| one(limits, route, case).account.unwrap();
    let told = account("", "limit: 10/s", &format!("send: {{ {send} }}, expect: {{ allowed: 0 }}"));
    assert!(told.contains("peer 10.0.0.1 trusted (10.0.0.0/8) → 203.0.113.7"), "{told}");
    assert!(told.contains("): answered 200") || told.contains("10.0.0.1: answered 200"), "{told}");
    assert!(told.contains("sent      RateLimit-Policy: \"site_limit\"") && !told.contains("change"), "{told}");
    let slow = "slow: { rate: 1/s, burst: 1, action: { delay: { max: 3s } } }";
    let told = account(slow, "limits: [slow]", "send: { n: 2, url: / }, expect: { delayed: 0 }");
    assert!(told.contains("(2 of 2): after 1s, answered 200") && told.contains("slow  delayed"), "{told}");
    let told = account("", "body_limit: 1KiB", "send: { url: /, method: POST, body: 2KiB }, expect: { allowed: 1 }");
    assert!(told.contains(": answered 413 (") && told.contains("limits    none was asked"), "{told}");
    let told = account("", "limit: 1/s", "send: { url: /a/.. }, expect: { status: 200 }");
    assert_eq!(
        told,
        "at 0s: GET /a/.. from 192.0.2.1: answered 400 (bad_request)\nthe request could not be understood, and no limit was asked"
    );
}

#[test]
fn the_same_case_has_the_same_outcome() {
    let run = || {
        let fair = "fair: { type: fair_share, capacity: 20/s }";
        let case =
            "send: { every: 5ms, for: 20s, url: '/{n}', from: [198.51.100.7, 203.0.113.0/24] }, expect: { limited: 0 }";
        format!("{:?}", one(fair, "limits: [fair]", case))
    };
    assert_eq!(run(), run());
}
