//! What `show` prints loads again and says the same: nothing is lost, nothing is added.

use std::fs;

use tidegate::config::{Config, load, load_text};

use crate::{environment, good, path};

/// Loads what is shown, without any directory to read from.
#[track_caller]
fn again(config: &Config) -> Config {
    let shown = config.effective.to_yaml();
    let loaded = load_text("shown.yaml", &shown, &environment, &path("no-such-directory"));
    let diagnostics = loaded.diagnostics;
    loaded.outcome.unwrap_or_else(|_| panic!("{shown}\n{diagnostics:#?}"))
}

#[track_caller]
fn is_fixed_point(config: &Config) {
    let second = again(config);
    assert_eq!(second.effective.to_yaml(), config.effective.to_yaml());
    assert_eq!(second.fingerprint, config.fingerprint);
    assert_eq!(second.policy.rules, config.policy.rules);
    assert_eq!(second.policy.origins, config.policy.origins);
    assert_eq!(second.policy.responses, config.policy.responses);
    let routes = |config: &Config| format!("{:?}", config.policy.routes.iter().collect::<Vec<_>>());
    assert_eq!(routes(&second), routes(config));
    assert_eq!(format!("{:?}", second.policy.clients), format!("{:?}", config.policy.clients));
}

#[test]
fn every_example_is_shown_as_it_is() {
    for name in ["minimal", "production", "complete"] {
        let config = load(&path(&format!("conf/{name}.yaml")), &environment).outcome.unwrap();
        is_fixed_point(&config);
        assert_eq!(again(&config).settings, config.settings);
    }
}

#[test]
fn texts_that_look_like_yaml_survive() {
    let awkward = [
        "a: b",
        "# c",
        "- d",
        "",
        " e ",
        "null",
        "~",
        "*f",
        "&g",
        "{h}",
        "[i]",
        "j\\nk",
        "\\tl",
        "é\\u2028m",
        "'n'",
        "\\\"o\\\"",
        "%p",
        "@q",
        "!r",
        "0x10",
        "${S}",
        "yes",
        "1:2:",
        "?",
    ];
    let routes: String = awkward
        .iter()
        .enumerate()
        .map(|(nth, text)| format!("  - match: {{ path: =/{nth} }}\n    respond: {{ body: \"{text}\" }}\n"))
        .collect();
    is_fixed_point(&good(&format!("listen: \":8080\"\nroutes:\n{routes}")));
}

#[test]
fn every_way_to_say_a_thing_survives() {
    is_fixed_point(&good(
        r#"
listeners: { a: { address: "127.0.0.1:0" }, b: { address: "[::1]:0" } }
secrets: { client_hmac: { env: KEY } }
trusted_proxies: { header: forwarded, from: [unix, 0.0.0.0/0, "::/0"], hops: 3, short: reject }
client_ip: { ipv4_prefix: 24, ipv6_prefix: 56, translation: ["2001:db8::/32"] }
origins:
  a: { addresses: ["[::1]:80", "A.example.:80"], balance: { hash: [header:x-a, client_ip] }, retries: { max: 0 },
       protocol: h2, tls: { sni: A.example., ca: [a b.pem, /c.pem], client_certificate: { cert: "1", key: "true" } } }
  b: { addresses: unix:/run/A.sock, tls: { sni: "::1" } }
limits:
  a: { key: ["client_ip:ipv4_prefix=24,ipv6_prefix=48", query:q], missing: allow, rate: 5/250ms, memory: 4KiB, mode: shadow }
  b: { type: inflight, max: 4294967295 }
  c: { type: inflight, key: origin, max: 1 }
  d: { key: [tls_sni, origin], missing: deny, rate: 1000001B/s, exempt: [10.0.0.0/8, { header: { X-A: "{b}" } }] }
  e: { type: quota, key: cookie:c, missing: { use: a }, rate: 5/2d, cost: { GET: 2, PROPFIND: 5 }, action: close,
       tiers: [{ when: { cidr: ["2001:db8::/32"], header: { x-b: "yes" } }, exempt: true }, { when: { cidr: 10.1.2.3 }, max: 9 }] }
  f: { type: recent_average, rate: 5/250ms, half_life: 1s, count: admitted, cost: response:x-c, cost_estimate: 3, enforce: 0.5% }
  g: { type: distinct, key: [origin], of: ["query:q", path], missing: allow, max: 4294967294, window: 744h, action: tag }
  h: { type: fair_share, capacity: 9/m, key: ["header:x-a", client_ip], networks: { 9: 1_000_000 }, burst: 3, reserve: 1%, queue: 7, wait: 2s }
  i: { type: inflight, key: [origin, global], max: 3, upgraded: 0, tiers: [{ when: { cidr: 10.0.0.0/8 }, max: 7 }] }
  j: { rate: 5/s, count: "responses 401,5xx", action: reject, enforce: 0% }
routes:
  - match: [{ host: "*.Example.com.", path: { regex: "(?x) /a # b" } }, { method: [GET, PROPFIND] }]
    limits: [a, b, c, d, e, f, g]
    origin: a
    body_limit: none
  - { match: { path: /h }, limits: [h, i, j], origin: b }
  - match: { path: / , headers: { x-a: { exact: "" } } }
    respond: { status: 503, headers: { a-b: e, x-b: [c, d] } }
responses: { ratelimit_headers: off, report: all, expose: true, retry_after: { jitter: 0.07% }, proxy_name: edge }
telemetry: { metrics: {}, access_log: { to: stderr, client: address, sample: { limited: 12.3456%, other: 0% } } }
server: { threads: 4 }
"#,
    ));
}

/// A file with a secret in it loads with one warning, and the secret is nowhere in what is shown.
#[test]
fn secrets_are_masked() {
    let config = good(
        "listen: \":8080\"\nsecrets: { client_hmac: correct-horse-battery }\nroutes: [{ origin: \"127.0.0.1:3000\" }]\n",
    );
    let shown = config.effective.to_yaml();
    assert!(shown.contains("client_hmac: \"‹secret›\""), "{shown}");
    assert!(!shown.contains("correct") && !format!("{:?}", config.settings).contains("correct"));
    is_fixed_point(&config);
}

#[test]
fn the_fingerprint_covers_the_whole_file() {
    let policy = fs::read_to_string(path("conf/minimal.yaml")).unwrap();
    let fingerprint = |text: &str| good(text).fingerprint;
    let first = fingerprint(&policy);
    assert_eq!(first.len(), 12);
    assert_eq!(fingerprint(&format!("# the same in other words\n{policy}")), first);
    assert_ne!(fingerprint(&policy.replace(":8080", ":8081")), first);
    assert_ne!(fingerprint(&format!("{policy}telemetry: {{ metrics: {{}} }}\n")), first);
    assert_ne!(fingerprint(&policy.replace("10/s", "11/s")), first);
    assert_ne!(fingerprint(&policy.replace("3000", "3001")), first);
}

#[test]
fn a_key_and_the_one_before_it_are_shown_as_the_places_that_they_come_from() {
    let config = good(
        "listen: \":8080\"\nsecrets: { client_hmac: { env: KEY, previous_env: OLD_KEY } }\nroutes: [{ origin: \"127.0.0.1:3000\" }]\n",
    );
    let [key, previous] = [&config.settings.client_hmac, &config.settings.previous_client_hmac];
    assert!(key.is_some() && previous.is_some() && key != previous);
    let shown = config.effective.to_yaml();
    assert!(shown.contains("env: KEY") && shown.contains("previous_env: OLD_KEY"), "{shown}");
    assert!(!shown.contains("0123456789"), "{shown}");
    is_fixed_point(&config);
}
