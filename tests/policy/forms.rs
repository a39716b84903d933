//! Every short form has exactly one long form: both give the same policy.

use tidegate::client::key::Missing;
use tidegate::policy::{CostRule, Kind, Mode, Scope, kinds};
use tidegate::units::Bytes;

use crate::{codes, good};

const ROUTES: &str = "routes:\n  - origin: 127.0.0.1:3000\n";

/// The parts of a file that a case does not speak of.
fn whole(part: &str) -> String {
    let listen = if part.contains("listen") { "" } else { "listen: \":8080\"\n" };
    let routes = if part.contains("routes:") { "" } else { ROUTES };
    format!("{listen}{part}{routes}")
}

#[track_caller]
fn same(short: &str, long: &str) {
    let (short, long) = (good(&whole(short)), good(&whole(long)));
    assert_eq!(short.effective.to_yaml(), long.effective.to_yaml());
    assert_eq!(short.fingerprint, long.fingerprint);
    assert_eq!(short.policy.rules, long.policy.rules);
    assert_eq!(short.policy.origins, long.policy.origins);
    assert_eq!(short.settings, long.settings);
}

#[test]
fn listen_is_a_listener_called_main() {
    same("listen: \":8080\"\n", "listeners: { main: { address: \"[::]:8080\" } }\n");
}

#[test]
fn an_address_in_a_route_is_an_origin_of_that_name() {
    same(
        "routes:\n  - { name: a, match: { path: /a }, origin: \"Localhost:3000\" }\n  - { name: b, origin: \"localhost:3000\" }\n",
        "origins: { \"localhost:3000\": { addresses: [{ address: \"localhost:3000\", weight: 1, resolve: 30s }] } }\n\
         routes:\n  - { name: a, match: { path: /a }, origin: \"localhost:3000\" }\n  - { name: b, origin: \"localhost:3000\" }\n",
    );
}

#[test]
fn an_inline_limit_is_an_unnamed_limit() {
    same(
        "routes:\n  - { origin: \"127.0.0.1:3000\", limit: 50/s burst 100 by header:x-api-key missing allow shadow }\n",
        "limits:\n  all_limit: { type: rate, key: [header:x-api-key], missing: allow, rate: 50/s, burst: 100, memory: 4MiB, \
         cost: 1, mode: shadow, action: reject }\nroutes:\n  - { origin: \"127.0.0.1:3000\", limits: [all_limit] }\n",
    );
    same(
        "routes:\n  - { origin: \"127.0.0.1:3000\", limit: 5/m }\n",
        "routes:\n  - { origin: \"127.0.0.1:3000\", limits: [5/m burst 1 by client_ip] }\n",
    );
}

#[test]
fn a_routes_inflight_is_a_limit_per_route() {
    let long = "limits:\n  all_inflight: { type: inflight, key: route, max: 200 }\n\
                routes:\n  - { origin: \"127.0.0.1:3000\", limits: [all_inflight] }\n";
    same("routes:\n  - { origin: \"127.0.0.1:3000\", inflight: 200 }\n", long);
    same("routes:\n  - { origin: \"127.0.0.1:3000\", inflight: { max: 200 } }\n", long);
}

#[test]
fn an_origins_numbers_have_long_forms() {
    same(
        "origins: { a: { addresses: \"127.0.0.1:3000\", inflight: 200, balance: \"hash: client_ip\" } }\nroutes: [{ origin: a }]\n",
        "origins: { a: { addresses: [{ address: \"127.0.0.1:3000\" }], balance: { hash: [client_ip] }, \
         inflight: { max: 200, queue: 400, queue_timeout: 1s, order: fair, key: [client_ip], networks: { 24: 16, 16: 64 }, \
         reserve: learned, upgraded: 200 } } }\nroutes: [{ origin: a }]\n",
    );
    same(
        "origins: { a: { addresses: \"127.0.0.1:3000\", tls: {} } }\nroutes: [{ origin: a }]\n",
        "origins: { a: { addresses: \"127.0.0.1:3000\", protocol: http/1.1, tls: { verify: true } } }\n\
         routes: [{ origin: a }]\n",
    );
}

#[test]
fn paths_and_methods_have_long_forms() {
    same(
        "routes:\n  - { match: { path: /x/, method: GET }, origin: \"127.0.0.1:3000\" }\n\
         \x20 - { match: { path: =/x, headers: { X-A: b }, query: { q: c } }, origin: \"127.0.0.1:3000\" }\n",
        "routes:\n  - { match: [{ path: { prefix: /x }, method: [GET] }], origin: \"127.0.0.1:3000\" }\n\
         \x20 - { match: [{ path: { exact: /x }, headers: { x-a: { exact: b } }, query: { q: { exact: c } } }], \
         origin: \"127.0.0.1:3000\" }\n",
    );
}

#[test]
fn trusted_proxies_have_a_long_form() {
    same(
        "trusted_proxies: [private, 192.0.2.0/24]\n",
        "trusted_proxies: { header: X-Forwarded-For, from: [{ preset: private }, 192.0.2.0/24], degraded: hop }\n",
    );
    // the same peers, said in another order and more often
    same("trusted_proxies: [10.0.0.0/8, 192.0.2.1]\n", "trusted_proxies: [192.0.2.1/32, 10.1.0.0/16, 10.0.0.0/8]\n");
}

#[test]
fn one_key_is_a_list_of_one() {
    same(
        "limits: { a: { key: client_ip, rate: 1/s } }\nroutes: [{ origin: \"127.0.0.1:3000\", limits: [a] }]\n",
        "limits: { a: { key: [client_ip], rate: 1/s } }\nroutes: [{ origin: \"127.0.0.1:3000\", limits: [a] }]\n",
    );
}

#[test]
fn aliases_and_merges_are_what_they_stand_for() {
    same(
        "x-t: &t { connect: 1s, read: 5s }\nroutes:\n  - { origin: \"127.0.0.1:3000\", timeouts: { <<: *t, read: 7s } }\n",
        "routes:\n  - { origin: \"127.0.0.1:3000\", timeouts: { connect: 1s, read: 7s } }\n",
    );
}

#[test]
fn yaml_words_are_texts_where_texts_are_meant() {
    let config = good(
        "listen: \":8080\"\nroutes:\n  - { match: { host: no, query: { a: 010, b: yes } }, origin: \"127.0.0.1:3000\" }\n",
    );
    let found = config.effective.at("routes.0.match.0").unwrap().to_yaml();
    assert_eq!(found, "host: \"no\"\nquery:\n  a:\n    exact: 010\n  b:\n    exact: \"yes\"\n");
}

#[test]
fn the_burst_is_one_seconds_worth_and_never_less_than_a_request() {
    for (limit, burst) in [
        ("{ rate: 10/s }", "10"),
        ("{ rate: 5/m }", "1"),
        ("{ rate: 90/m }", "2"),
        ("{ rate: 10/s, cost: 25 }", "25"),
        ("{ rate: 10/s, burst: 20 }", "20"),
    ] {
        let config = good(&whole(&format!(
            "limits: {{ a: {limit} }}\nroutes: [{{ origin: \"127.0.0.1:3000\", limits: [a] }}]\n"
        )));
        assert_eq!(config.effective.at("limits.a.burst").unwrap().to_yaml().trim(), burst, "{limit}");
    }
}

#[test]
fn an_inline_limit_by_a_header_refuses_what_lacks_it_and_says_so() {
    let route = |limit: &str| whole(&format!("routes:\n  - {{ origin: \"127.0.0.1:3000\", limit: {limit} }}\n"));
    assert_eq!(codes(&route("10/s by header:x-api-key")), ["W0411"]);
    assert_eq!(codes(&route("10/s by header:x-api-key missing deny")), [""; 0]);
    let config = good(&route("10/s by header:x-api-key"));
    assert_eq!(config.effective.at("limits.all_limit.missing").unwrap().to_yaml(), "deny\n");
}

#[test]
fn made_up_names_keep_clear_of_written_ones() {
    let config = good(&whole(
        "limits: { shop_limit: { rate: 1/s } }\nroutes:\n  - name: shop\n    origin: 127.0.0.1:3000\n    limits: [shop_limit, 2/s, 3/s]\n\
         \x20 - name: a_route_with_a_name_of_forty_characters_\n    match: { path: /a }\n    origin: 127.0.0.1:3000\n    limit: 4/s\n",
    ));
    let names: Vec<&str> = config.policy.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["shop_limit", "shop_limit_2", "shop_limit_3", "a_route_with_a_name_of_forty_chara_limit"]);
    assert!(names.iter().all(|name| name.len() <= 40));
}

#[test]
fn timeouts_go_from_the_general_to_the_particular() {
    let config = good(&whole(
        "defaults: { timeouts: { connect: 1s, read: 10s } }\n\
         origins: { a: { addresses: \"127.0.0.1:3000\", timeouts: { read: 20s, write: 20s } } }\n\
         routes:\n  - { match: { path: /a }, origin: a, timeouts: { write: 40s } }\n  - { origin: \"127.0.0.1:3001\" }\n",
    ));
    let at = |path: &str| config.effective.at(path).unwrap().to_yaml();
    let expected = "connect: 1s\nread: 20s\nwrite: 40s\nidle: 1m\nrequest: 1m\n";
    assert_eq!(at("routes.0.timeouts"), expected);
    assert_eq!(at("routes.1.timeouts.read"), "10s\n");
    assert_eq!(at("origins.a.timeouts.write"), "20s\n");
}

/// The effective long form of one limit of type and words, beside an origin with a cap and a limit to hand on to.
fn with_limit(limit: &str) -> String {
    format!(
        "listen: \":8080\"\norigins: {{ shop: {{ addresses: \"127.0.0.1:3000\", inflight: 10 }} }}\n\
         limits:\n  other: {{ rate: 1/s }}\n  a: {limit}\nroutes: [{{ origin: shop, limits: [a, other] }}]\n"
    )
}

#[test]
fn every_type_of_limit_has_a_long_form() {
    for (short, long) in [
        (
            "{ type: quota, rate: 5_000/h }",
            "{ type: quota, key: [client_ip], max: 5000, window: 1h, sliding: false, memory: 4MiB, cost: 1 }",
        ),
        ("{ type: quota, rate: 100000/31d }", "{ type: quota, max: 100000, window: 744h, enforce: 100% }"),
        (
            "{ type: quota, max: 7, per: day }",
            "{ type: quota, max: 7, per: day, time_zone: UTC, memory: 4MiB, cost: 1, enforce: 100% }",
        ),
        (
            "{ type: quota, max: 7, per: week }",
            "{ type: quota, max: 7, per: week, week_starts: monday, time_zone: UTC }",
        ),
        ("{ type: quota, max: 7, window: 90s, sliding: true }", "{ type: quota, rate: 7/1m30s, sliding: true }"),
        (
            "{ type: recent_average, rate: 10/s, half_life: 30s }",
            "{ type: recent_average, rate: 10/s, half_life: 30s, count: all, max_penalty: 3m, memory: 4MiB, cost: 1 }",
        ),
        (
            "{ type: distinct, of: path, max: 20, window: 10m }",
            "{ type: distinct, key: client_ip, of: [path], max: 20, window: 10m, sliding: false, memory: 4MiB }",
        ),
        (
            "{ type: fair_share, capacity: 2000/s }",
            "{ type: fair_share, key: client_ip, capacity: 2000/s, burst: 500, queue: 2000, wait: 500ms, reserve: 50%, \
             networks: { 24: 16, 16: 64 } }",
        ),
        (
            "{ type: inflight, key: [origin, client_ip], max: 5 }",
            "{ type: inflight, key: [client_ip, origin], max: 5, upgraded: 5, memory: 2MiB, mode: enforce }",
        ),
        ("{ rate: 20MiB/s }", "{ type: rate, rate: 20480KiB/s, burst: 20MiB }"),
        ("{ rate: 512KiB/m, burst: 1GiB }", "{ rate: 524288B/m, burst: 1024MiB }"),
        ("{ rate: 5/s, cost: { other: 2 } }", "{ rate: 5/s, burst: 5, cost: 2 }"),
        ("{ rate: 5/s, cost: { POST: 2 } }", "{ rate: 5/s, cost: { POST: 2, other: 1 } }"),
        ("{ rate: 5/s, cost: response:X-Cost }", "{ rate: 5/s, cost: response:x-cost, cost_estimate: 1 }"),
        ("{ rate: 5/s, count: not 2xx }", "{ rate: 5/s, count: \"responses 3xx,4xx,5xx\" }"),
        ("{ rate: 5/s, action: delay }", "{ rate: 5/s, action: { delay: { max: 1s } } }"),
        ("{ rate: 5/s, action: tag }", "{ rate: 5/s, action: { tag: { header: X-Tidegate-Limited } } }"),
        ("{ rate: 5/s, exempt: [10.0.0.0/8] }", "{ rate: 5/s, exempt: [{ cidr: [10.0.0.0/8] }] }"),
        ("{ rate: 5/s, key: origin }", "{ rate: 5/s, key: [global, origin] }"),
        (
            "{ rate: 5/s, tiers: [{ when: { cidr: 10.0.0.0/8 }, rate: 20/s }] }",
            "{ rate: 5/s, tiers: [{ when: { cidr: [10.0.0.0/8] }, rate: 20/s, burst: 20 }] }",
        ),
    ] {
        same(&with_limit(short), &with_limit(long));
    }
}

#[test]
fn a_rate_of_bytes_is_kept_in_units_and_shown_in_bytes() {
    let config =
        good(&with_limit("{ rate: 20MiB/s, burst: 64MiB, tiers: [{ when: { cidr: 10.0.0.0/8 }, rate: 1MiB/s }] }"));
    let rule = &config.policy.rules[1];
    assert_eq!(rule.cost, CostRule::Bytes { unit: 32 });
    let Kind::Rate(kinds::Rate { rate, burst, .. }) = &rule.kind else { panic!("{rule:?}") };
    assert_eq!((rate.events(), *burst), (655_360, 2 << 20));
    let Some(Kind::Rate(kinds::Rate { rate, burst, .. })) = &rule.tiers[0].kind else { panic!("{rule:?}") };
    assert_eq!((rate.events(), *burst), (32_768, 32_768));
    let shown = config.effective.at("limits.a").unwrap().to_yaml();
    assert!(shown.contains("rate: 20MiB/s\nburst: 64MiB\n") && shown.contains("rate: 1MiB/s\n"), "{shown}");
}

#[test]
fn a_request_without_the_key_is_handed_to_another_limit() {
    let config = good(&with_limit("{ key: header:x-api-key, missing: { use: other }, rate: 5/s }"));
    let rule = &config.policy.rules[1];
    assert_eq!((rule.instead, rule.key.missing()), (Some(0), Missing::Allow));
    // handed on to is used
    assert_eq!(
        codes(&with_limit("{ key: header:x-api-key, missing: { use: other }, rate: 5/s }").replace(", other]", "]")),
        [""; 0]
    );
}

#[test]
fn places_are_counted_exactly_or_by_key() {
    let scope = |key: &str| {
        let config = good(&with_limit(&format!("{{ type: inflight, key: {key}, max: 5 }}")));
        let Kind::Inflight(kinds::Inflight { scope, .. }) = config.policy.rules[1].kind else { panic!() };
        (scope, config.policy.rules[1].by_origin)
    };
    let by_key = Scope::Key { memory: Bytes(2 << 20) };
    assert_eq!(scope("global"), (Scope::Global, false));
    assert_eq!(scope("[route]"), (Scope::Route, false));
    assert_eq!(scope("origin"), (Scope::Origin, false));
    assert_eq!(scope("client_ip"), (by_key, false));
    assert_eq!(scope("[client_ip, route]"), (by_key, false));
    assert_eq!(scope("[origin, global]"), (by_key, true));
}

#[test]
fn a_share_of_the_keys_is_enforced_whatever_the_default() {
    let config = good(&format!("defaults: {{ mode: shadow }}\n{}", with_limit("{ rate: 5/s, enforce: 0% }")));
    let rule = &config.policy.rules[1];
    assert_eq!((rule.mode, rule.enforced.get()), (Mode::Enforce, 0.0));
    assert_eq!(config.policy.rules[0].mode, Mode::Shadow);
}

#[test]
fn a_share_of_what_an_origin_can_take_is_read_and_does_nothing() {
    let text = with_limit("{ type: fair_share, capacity: origin:shop }");
    assert_eq!(codes(&text), ["W0446"]);
    let config = good(&text);
    let names: Vec<&str> = config.policy.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["other"]);
    // nor can it be asked instead of another
    let handed_on = text.replace("other: { rate: 1/s }", "other: { rate: 1/s, key: header:x-a, missing: { use: a } }");
    assert!(codes(&handed_on).contains(&"E0106"));
}
