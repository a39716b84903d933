use serde_json::{Value, json};

use super::*;

fn steady(value: f64) -> Value {
    json!(vec![value; SECONDS])
}

/// Three answers as a process of four hours gives them.
pub fn model() -> Model {
    let status = json!({
        "schema": "tidegate.status/1", "version": "0.1.0", "instance": "edge-1", "process": 4711, "state": "ready",
        "condition": { "kind": "flood", "head": "A flood is being held off", "since": 1,
            "text": "One network causes 86 % of the refusals; 14 % hit other clients. 0.6 % of all requests are refused." },
        "overload": { "pressure": 0.34, "resource": "delay", "refusing": false },
        "uptime_seconds": 273_600, "config": { "fingerprint": "9f31c2e0aa4b", "age_seconds": 7_200, "loaded_at": 1 },
        "requests": { "ended": 1_000_000, "refused": 8_000, "malformed": 3 }, "listeners": [], "pardons": 0,
        "limits": [
            { "name": "per_client", "kind": "rate", "mode": "enforce", "memory_bytes": 1, "fill": 0.31, "keys": 48_100,
              "error": 0.001, "decisions": { "allowed": 990_000, "limited": 8_000 } },
            { "name": "login", "kind": "quota", "mode": "shadow", "memory_bytes": 1, "fill": 0.02, "keys": 912,
              "error": 0.0, "decisions": { "allowed": 30_000, "limited": 40 } },
            { "name": "crowd", "kind": "fair_share", "mode": "enforce", "memory_bytes": 1, "decisions": {} },
        ],
        "routes": [
            { "name": "shop", "recent": { "seconds": 10, "p50_seconds": 0.048, "p99_seconds": 0.6,
              "answers": { "2xx": 900, "4xx": 30, "5xx": 60, "cut": 10 } } },
            { "name": "site" },
        ],
        "origins": [
            { "name": "shop", "inflight": 301, "limit": 400, "queued": 4, "shed": 7, "errors": 9, "retries": 1,
              "recent": { "seconds": 10, "p50_seconds": 0.048, "p99_seconds": 0.6,
                "answers": { "2xx": 900, "4xx": 30, "5xx": 60, "cut": 10 } },
              "healthy": 1, "endpoints": [{ "address": "10.0.0.1:80" }, { "address": "10.0.0.2:80" }] },
            { "name": "static", "inflight": 2, "queued": 0, "shed": 0, "errors": 0, "retries": 0, "healthy": 1,
              "endpoints": [{ "address": "10.0.0.3:80" }] },
        ],
        "waiting_for_upgrade": ["listeners.main.address changed"],
        "notices": [{ "kind": "clients_collapsed",
            "text": "93 % of `shop` comes from one address: is a proxy missing from trusted_proxies?" }],
    });
    let mut refused = vec![0.0; SECONDS];
    for (second, point) in refused.iter_mut().enumerate().skip(300) {
        *point = (second - 299) as f64 / 10.0;
    }
    refused[SECONDS - 10..].fill(24.0);
    let history = json!({
        "schema": "tidegate.history/1", "second": 1,
        "routes": {
            "shop": { "allowed": steady(3_893.0), "delayed": steady(0.0), "limited": refused, "shed": steady(0.5),
              "failed": steady(7.0) },
            "site": { "allowed": steady(150.0), "delayed": steady(1.0), "limited": steady(0.0), "shed": steady(0.0) },
        },
        "limits": {
            "per_client": { "allowed": steady(3_900.0), "limited": refused, "shadow": steady(0.0), "elsewhere": steady(0.5) },
            "login": { "allowed": steady(11.0), "limited": steady(0.0), "shadow": steady(3.1) },
        },
        "origins": {
            "shop": { "inflight": [], "cap": [], "queue": [], "errors": steady(0.1), "shed": steady(0.5), "p50": [],
              "p95": steady(0.212), "p99": [] },
        },
    });
    let offenders = json!({
        "schema": "tidegate.offenders/1", "total": 350, "error_bound": 2,
        "offenders": [
            { "client": "c7f1Kc1mZt0wJ2T9uXvHq3", "network": "Q2abWc1mZt0wJ2T9uXvHq3", "limit": "per_client", "count": 212, "error": 3, "share": 0.61, "passed_share": 0.004,
              "last_seen_seconds_ago": 0 },
            { "client": "09abWc1mZt0wJ2T9uXvHq3", "limit": "login", "count": 88, "error": 0, "share": 0.25,
              "last_seen_seconds_ago": 75 },
        ],
        "networks": [{ "network": "Q2abWc1mZt0wJ2T9uXvHq3", "clients": 2, "count": 300, "error": 3, "share": 0.857,
            "passed_share": 0.004 }],
    });
    let read = "the answers are understood";
    Model::of(
        serde_json::from_value(status).expect(read),
        &serde_json::from_value(history).expect(read),
        serde_json::from_value(offenders).expect(read),
    )
}

#[test]
fn rates_are_means_of_the_last_ten_seconds() {
    let model = model();
    assert_eq!(model.requests_per_second, 3_900.0 + 151.0 + 24.0 + 0.5);
    assert_eq!(model.limited_share, 24.0 / model.requests_per_second);
    let limit = &model.limits[0];
    assert_eq!((limit.allowed_per_second, limit.admitted_per_second), (3_900.5, 3_900.0));
    assert_eq!((limit.refused_elsewhere_per_second, limit.limited_per_second), (0.5, 24.0));
    assert_eq!((model.origins[0].failed_share, model.origins[1].failed_share), (Some(0.07), None));
    let route = &model.routes[0];
    assert_eq!((route.requests_per_second, route.refused_per_second, route.failed_per_second), (3_924.5, 24.5, 7.0));
    assert_eq!(model.origins[0].p95_seconds, Some(0.212));
    assert_eq!(model.origins[1].p95_seconds, None, "an origin without a past");
    assert_eq!(mean(&[1.0, 2.0, 4.0], 2), 3.0);
    assert_eq!((mean(&[5.0], 10), mean(&[], 10)), (5.0, 0.0));
}

#[test]
fn ten_minutes_are_twenty_points() {
    let limit = &model().limits[0];
    assert_eq!(limit.ten_minutes.len(), POINTS);
    assert_eq!((limit.ten_minutes[9], limit.ten_minutes[10]), (0.0, 1.55));
    assert_eq!(points(&vec![1.0; 900]), vec![1.0; POINTS], "more than was asked for");
    assert_eq!(points(&[]), Vec::<f64>::new());
}

#[test]
fn as_json_it_has_a_schema_and_what_the_process_told() {
    let told = serde_json::to_value(model()).expect("numbers and texts");
    assert_eq!(told["schema"], SCHEMA);
    assert_eq!(told["offenders"]["clients"][0]["count"], 212);
    assert_eq!(told["limits"][0]["decisions"]["limited"], 8_000);
    assert_eq!(told["notices"][0]["kind"], "waiting_for_upgrade");
    assert_eq!(told["condition"]["kind"], "flood");
}

#[test]
fn an_answer_of_another_kind_is_not_understood() {
    assert!(serde_json::from_value::<State>(json!({ "schema": "tidegate.status/2" })).is_err());
}
