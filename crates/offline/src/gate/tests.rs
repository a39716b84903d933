//! The path of a request through the gate, in the order of time.

use std::path::Path;

use http::Method;

use super::*;
use crate::config::load_text;
use crate::engine::DecisionId;
use crate::request::Peer;

const SECOND: u64 = 1_000_000_000;

/// An origin with two places and one in the queue, for a second at most.
fn policy(limits: &str, names: &str) -> Policy {
    let text = format!(
        "listen: \":8080\"\nlimits: {{ {limits} }}\n\
         origins: {{ app: {{ addresses: [\"127.0.0.1:1\"], inflight: {{ max: 2, queue: 1, queue_timeout: 1s }} }} }}\n\
         routes:\n  - {{ name: site, origin: app, limits: [{names}] }}\n"
    );
    load_text("test.yaml", &text, &|_| None, Path::new(".")).outcome.unwrap_or_else(|_| panic!("{text}")).policy
}

/// Submits requests, each at its moment and with its course, and returns all steps: the second, the request, the step.
fn played(policy: Policy, requests: &[(u64, Course<'static>)]) -> Vec<String> {
    let mut gate = OfflineGate::new(policy, 0, Duration::from_secs(1)).unwrap();
    let mut steps = Vec::new();
    let begins = HEAD_START.as_nanos() as u64;
    let mut report = |step: Step<'_, usize>| {
        let at = (step.at.nanos() - begins) as f64 / SECOND as f64;
        let what = match step.what {
            What::Preflight => "preflight".to_owned(),
            What::Refused => format!("{:?}", step.evaluation.decision.verdict),
            what => format!("{what:?}"),
        };
        steps.push(format!("{at}s {} {what}", step.of));
    };
    let headers = HeaderMap::new();
    for (of, (at, course)) in requests.iter().enumerate() {
        let peer = Peer::Ip([192, 0, 2, 1].into());
        let (method, path) = (&Method::GET, "/");
        let request = Request { peer, method, host: "a", path, query: None, headers: &headers, tls_sni: None };
        let at = Timestamp::from_nanos(begins + at);
        let arrival = Arrival { id: DecisionId(of as u64), at, dice: 0 };
        gate.submit(Submission { request: &request, client: None, arrival, course: *course, of }, &mut report);
    }
    gate.advance(Timestamp::from_nanos(u64::MAX - 1), &mut report);
    steps
}

fn takes(seconds: u64, place: PlaceAt) -> Course<'static> {
    Course::Known { takes: Duration::from_secs(seconds), status: None, bytes: 0, place }
}

#[test]
fn a_place_that_comes_back_goes_to_the_first_in_the_queue_before_a_new_arrival() {
    let course = takes(2, PlaceAt::Counted);
    let steps =
        played(policy("", ""), &[(0, course), (SECOND, course), (3 * SECOND / 2, course), (2 * SECOND, course)]);
    assert_eq!(
        steps,
        ["0s 0 Admitted", "1s 1 Admitted", "2s 2 Admitted", "3s 3 Admitted"],
        "the fourth waits in its turn"
    );
}

#[test]
fn a_full_origin_refuses_at_once_or_after_the_wait_and_charges_no_limit() {
    let course = takes(9, PlaceAt::Counted);
    let limit = "four: { rate: 4/h, burst: 4 }";
    let steps =
        played(policy(limit, "four"), &[(0, course), (0, course), (0, course), (0, course), (9 * SECOND, course)]);
    assert_eq!(
        steps,
        ["0s 0 Admitted", "0s 1 Admitted", "0s 3 Refused(OriginFull)", "1s 2 Refused(OriginFull)", "9s 4 Admitted"]
    );
    let known = |place| [(0, takes(9, place)); 6];
    let steps = played(policy(limit, "four"), &known(PlaceAt::Found));
    assert_eq!(
        steps.iter().filter(|step| step.ends_with("Admitted")).count(),
        4,
        "a place that was found is not counted"
    );
    let steps = played(policy(limit, "four"), &known(PlaceAt::NotFound));
    assert!(steps.iter().all(|step| step.ends_with("Refused(OriginFull)")), "{steps:?}");
}

#[test]
fn a_request_that_is_delayed_asks_for_its_place_after_the_wait() {
    let slow = "slow: { rate: 1/s, burst: 1, action: { delay: { max: 5s } } }";
    let course = takes(9, PlaceAt::Counted);
    let steps = played(policy(slow, "slow"), &[(0, course); 5]);
    let wanted = [
        "0s 0 Admitted",
        "0s 1 Waits",
        "0s 2 Waits",
        "0s 3 Waits",
        "0s 4 Waits",
        "1s 1 Admitted",
        "3s 3 Refused(OriginFull)",
        "3s 2 Refused(OriginFull)",
        "5s 4 Refused(OriginFull)",
    ];
    assert_eq!(steps, wanted);
}

#[test]
fn who_waits_for_a_unit_goes_on_when_one_comes_or_is_refused_after_its_time() {
    let course = takes(0, PlaceAt::Found);
    let fair = "fair: { type: fair_share, capacity: 2/s, burst: 1, reserve: 0%, wait: 600ms }";
    let steps = played(policy(fair, "fair"), &[(0, course), (0, course), (0, course), (2 * SECOND, course)]);
    assert_eq!(steps, ["0s 0 Admitted", "0.5s 1 Admitted", "0.6s 2 Refused(FairShare)", "2s 3 Admitted"]);
}

#[test]
fn a_unit_whose_request_finds_no_place_goes_to_the_next() {
    let fair = "fair: { type: fair_share, capacity: 1/s, burst: 1, reserve: 0%, wait: 10s }";
    let full = takes(0, PlaceAt::NotFound);
    let course = takes(0, PlaceAt::Found);
    let steps = played(policy(fair, "fair"), &[(0, full), (0, course), (0, full), (0, course)]);
    let expected = ["0s 0 Refused(OriginFull)", "0s 1 Admitted", "1s 2 Refused(OriginFull)", "1s 3 Admitted"];
    assert_eq!(steps, expected);
}
