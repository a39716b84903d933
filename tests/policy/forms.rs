//! Every short form has exactly one long form: both give the same policy.

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
    assert_eq!(short.policy.fingerprint, long.policy.fingerprint);
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
        "limits:\n  route_0_limit: { type: rate, key: [header:x-api-key], missing: allow, rate: 50/s, burst: 100, memory: 4MiB, \
         cost: 1, mode: shadow }\nroutes:\n  - { origin: \"127.0.0.1:3000\", limits: [route_0_limit] }\n",
    );
    same(
        "routes:\n  - { origin: \"127.0.0.1:3000\", limit: 5/m }\n",
        "routes:\n  - { origin: \"127.0.0.1:3000\", limits: [5/m burst 1 by client_ip] }\n",
    );
}

#[test]
fn a_routes_inflight_is_a_limit_per_route() {
    let long = "limits:\n  route_0_inflight: { type: inflight, key: route, max: 200 }\n\
                routes:\n  - { origin: \"127.0.0.1:3000\", limits: [route_0_inflight] }\n";
    same("routes:\n  - { origin: \"127.0.0.1:3000\", inflight: 200 }\n", long);
    same("routes:\n  - { origin: \"127.0.0.1:3000\", inflight: { max: 200, queue: 0, on_full: shed } }\n", long);
}

#[test]
fn an_origins_numbers_have_long_forms() {
    same(
        "origins: { a: { addresses: \"127.0.0.1:3000\", inflight: 200, balance: \"hash: client_ip\" } }\nroutes: [{ origin: a }]\n",
        "origins: { a: { addresses: [{ address: \"127.0.0.1:3000\" }], balance: { hash: [client_ip] }, \
         inflight: { max: 200, queue: 0, queue_timeout: 250ms, on_full: shed } } }\nroutes: [{ origin: a }]\n",
    );
}

#[test]
fn paths_and_methods_have_long_forms() {
    same(
        "routes:\n  - { match: { path: /x/, method: GET }, origin: \"127.0.0.1:3000\" }\n\
         \x20 - { match: { path: =/x, headers: { X-A: b }, query: { q: c } }, origin: \"127.0.0.1:3000\" }\n",
        "routes:\n  - { match: [{ path: { prefix: /x }, methods: [GET] }], origin: \"127.0.0.1:3000\" }\n\
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
    same(
        "trusted_proxies: { from: [10.0.0.0/8], hops: 2, on_invalid: reject }\n",
        "trusted_proxies: { from: [10.0.0.0/8], hops: 2, short: reject, degraded: reject }\n",
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
    assert_eq!(config.effective.at("limits.route_0_limit.missing").unwrap().to_yaml(), "deny\n");
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
