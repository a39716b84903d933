use serde_json::{Value, json};

use super::*;

fn steady(value: f64) -> Value {
    json!(vec![value; SECONDS])
}

/// Three answers as a process of four hours gives them.
pub fn model() -> Model {
    let status = json!({
        "schema": "tidegate.status/1", "version": "0.1.0", "instance": "edge-1", "process": 4711, "state": "ready",
        "uptime_seconds": 273_600, "config": { "fingerprint": "9f31c2e0aa4b", "age_seconds": 7_200, "loaded_at": 1 },
        "requests": { "ended": 1_000_000, "refused": 8_000, "malformed": 3 }, "listeners": [], "pardons": 0,
        "limits": [
            { "name": "per_client", "kind": "rate", "mode": "enforce", "memory_bytes": 1, "fill": 0.31, "keys": 48_100,
              "error": 0.001, "decisions": { "allowed": 990_000, "limited": 8_000 } },
            { "name": "login", "kind": "quota", "mode": "shadow", "memory_bytes": 1, "fill": 0.02, "keys": 912,
              "error": 0.0, "decisions": { "allowed": 30_000, "limited": 40 } },
            { "name": "crowd", "kind": "fair_share", "mode": "enforce", "memory_bytes": 1, "decisions": {} },
        ],
        "origins": [
            { "name": "shop", "inflight": 301, "limit": 400, "queued": 4, "shed": 7, "errors": 9, "retries": 1,
              "healthy": 1, "endpoints": [{ "address": "10.0.0.1:80" }, { "address": "10.0.0.2:80" }] },
            { "name": "static", "inflight": 2, "queued": 0, "shed": 0, "errors": 0, "retries": 0, "healthy": 1,
              "endpoints": [{ "address": "10.0.0.3:80" }] },
        ],
        "waiting_for_upgrade": ["listeners.main.address changed"],
        "notices": [{ "kind": "clients_collapsed",
            "text": "93 % of `shop` comes from one address: is a proxy missing from trusted_proxies?" }],
    });
    let mut refused = vec![0.0; SECONDS];
    for (second, point) in refused.iter_mut().enumerate().skip(150) {
        *point = (second - 149) as f64 / 5.0;
    }
    refused[SECONDS - 10..].fill(24.0);
    let history = json!({
        "schema": "tidegate.history/1", "second": 1,
        "routes": {
            "shop": { "allowed": steady(3_900.0), "delayed": steady(0.0), "limited": refused, "shed": steady(0.5) },
            "site": { "allowed": steady(150.0), "delayed": steady(1.0), "limited": steady(0.0), "shed": steady(0.0) },
        },
        "limits": {
            "per_client": { "allowed": steady(3_900.0), "limited": refused, "shadow": steady(0.0) },
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
            { "client": "c7f1Kc1mZt0wJ2T9uXvHq3", "limit": "per_client", "count": 212, "error": 3, "share": 0.61,
              "last_seen_seconds_ago": 0 },
            { "client": "09abWc1mZt0wJ2T9uXvHq3", "limit": "login", "count": 88, "error": 0, "share": 0.25,
              "last_seen_seconds_ago": 75 },
        ],
        "networks": [{ "network": "Q2abWc1mZt0wJ2T9uXvHq3", "clients": 2, "count": 300, "error": 3, "share": 0.857 }],
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
    assert_eq!((limit.allowed_per_second, limit.limited_per_second), (3_900.0, 24.0));
    assert_eq!(model.origins[0].p95_seconds, Some(0.212));
    assert_eq!(model.origins[1].p95_seconds, None, "an origin without a past");
    assert_eq!(mean(&[1.0, 2.0, 4.0], 2), 3.0);
    assert_eq!((mean(&[5.0], 10), mean(&[], 10)), (5.0, 0.0));
}

#[test]
fn five_minutes_are_twenty_points() {
    let limit = &model().limits[0];
    assert_eq!(limit.five_minutes.len(), POINTS);
    assert_eq!((limit.five_minutes[9], limit.five_minutes[10]), (0.0, 1.6));
    assert_eq!(points(&vec![1.0; 600]), vec![1.0; POINTS], "more than was asked for");
    assert_eq!(points(&[]), Vec::<f64>::new());
}

#[test]
fn as_json_it_has_a_schema_and_what_the_process_told() {
    let told = serde_json::to_value(model()).expect("numbers and texts");
    assert_eq!(told["schema"], SCHEMA);
    assert_eq!(told["offenders"]["clients"][0]["count"], 212);
    assert_eq!(told["limits"][0]["decisions"]["limited"], 8_000);
    assert_eq!(told["notices"][0]["kind"], "waiting_for_upgrade");
}

#[test]
fn an_answer_of_another_kind_is_not_understood() {
    assert!(serde_json::from_value::<State>(json!({ "schema": "tidegate.status/2" })).is_err());
}
