//! Stores and the limits that gates share through them: what is written is what is meant, shown again, and kept secret.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tidegate::config::render::{Format, render};
use tidegate::config::{Config, load_text};
use tidegate::limiter::sharing::{OnStoreError, Sharing};
use tidegate::policy::{Breaker, StoreId, StoreMode};

use crate::{codes, environment, good, path, text};

/// A policy with these stores and limits, all of which its route asks.
fn policy(stores: &str, limits: &[(&str, &str)]) -> String {
    let names: Vec<&str> = limits.iter().map(|(name, _)| *name).collect();
    let limits: String = limits.iter().map(|(name, limit)| format!("  {name}: {limit}\n")).collect();
    format!(
        "listen: \":8080\"\nsecrets: {{ client_hmac: {{ env: KEY }} }}\nstores:\n{stores}limits:\n{limits}routes:\n  \
         - origin: 127.0.0.1:3000\n    limits: [{}]\n",
        names.join(", ")
    )
}

fn again(config: &Config) -> Config {
    good(&config.effective.to_yaml())
}

#[test]
fn the_shortest_store_has_every_default() {
    let config = good(&policy("  s: { url: \"redis://127.0.0.1:6379\" }\n", &[("a", "{ rate: 5/s, store: s }")]));
    let store = &config.policy.stores[0];
    assert_eq!((store.name.as_str(), &store.mode, store.tls, store.database), ("s", &StoreMode::Single, false, 0));
    assert_eq!(store.servers, [("127.0.0.1".to_owned(), 6379)]);
    assert_eq!((store.timeout, store.prefix.as_str()), (Duration::from_millis(5), "tidegate:"));
    assert_eq!(store.breaker, Breaker::default());
    assert_eq!(store.ready_within, Duration::from_secs(2));
    assert_eq!((&store.username, &store.ca), (&None, &None));
    assert_eq!(config.settings.store_passwords, [None]);
    let shared = config.policy.rules[0].shared.unwrap();
    assert_eq!(
        (shared.store, shared.sharing, shared.on_store_error),
        (StoreId(0), Sharing::Lease, OnStoreError::Local)
    );
}

#[test]
fn bans_are_shared_unless_a_store_says_no_and_a_store_that_says_yes_needs_a_key() {
    let shares = |words: &str| {
        let stores = format!("  s: {{ url: \"redis://127.0.0.1:6379\"{words} }}\n");
        let config = good(&policy(&stores, &[("a", "{ rate: 5/s, store: s }")]));
        assert_eq!(again(&config).policy.stores, config.policy.stores);
        config.policy.stores[0].share_bans
    };
    assert_eq!([shares(""), shares(", share_bans: true"), shares(", share_bans: false")], [true, true, false]);
    let alone = |words: &str| {
        let store = format!("stores: {{ s: {{ url: \"redis://127.0.0.1:6379\"{words} }} }}");
        let routes = "routes: [{ respond: { status: 204 } }]";
        codes(&format!("listen: \":8080\"\n{store}\n{routes}\n"))
    };
    assert_eq!(alone(", share_bans: true"), ["E0324"]);
    assert_eq!(alone(""), ["W0431"]);
}

#[test]
fn every_word_of_a_store_and_of_sharing_survives_being_shown() {
    let stores = "  a: { url: \"redis://valkey:6379/3\", timeout: 20ms, prefix: \"x:{y}:\", password: { env: KEY } }
  b: { url: \"rediss://[2001:db8::1]:7000,h:7001\", mode: cluster, username: gate, password: { env: KEY }, ca: ca.pem }
  c: { url: \"redis://10.0.0.1:26379,10.0.0.2:26379\", mode: sentinel, primary: main, breaker: { open_after: 9 } }
  d: { url: \"redis://10.0.0.1:26379\", mode: sentinel, ready_within: 0s, breaker: { half_open_every: 2s } }
";
    let config = good(&policy(
        stores,
        &[
            ("one", "{ rate: 5/s, cost: { GET: 2 }, store: a, sharing: exact, on_store_error: closed }"),
            ("two", "{ type: quota, rate: 5000/h, store: b, sharing: lease, on_store_error: open, action: tag }"),
            ("three", "{ rate: 5/s, key: [header:x-a, origin], missing: deny, store: c, enforce: 5% }"),
            ("four", "{ rate: 5/s, store: d, tiers: [{ when: { cidr: 10.0.0.0/8 }, rate: 50/s }] }"),
            ("five", "{ rate: 5/s, store: a, sharing: estimate }"),
            ("six", "{ type: recent_average, rate: 5/s, half_life: 9s, store: b, sharing: estimate }"),
        ],
    ));
    let second = again(&config);
    assert_eq!(second.policy.stores, config.policy.stores);
    assert_eq!(second.policy.rules, config.policy.rules);
    assert_eq!(second.fingerprint, config.fingerprint);
    assert_eq!(second.settings, config.settings);
    assert_eq!(second.effective.to_yaml(), config.effective.to_yaml());
    let modes: Vec<&StoreMode> = config.policy.stores.iter().map(|store| &store.mode).collect();
    let sentinel = |primary: &str| StoreMode::Sentinel { primary: primary.to_owned() };
    assert_eq!(modes, [&StoreMode::Single, &StoreMode::Cluster, &sentinel("main"), &sentinel("mymaster")]);
    assert_eq!(config.policy.stores[0].database, 3);
    assert_eq!(config.policy.stores[3].ready_within, Duration::ZERO);
    assert_eq!(config.policy.stores[1].servers, [("2001:db8::1".to_owned(), 7000), ("h".to_owned(), 7001)]);
    let key = config.settings.client_hmac.clone();
    assert_eq!(config.settings.store_passwords, [key.clone(), key, None, None]);
}

#[test]
fn what_is_charged_after_the_answer_is_shared_as_an_estimate_and_survives_being_shown() {
    let config = good(&policy(
        "  s: { url: \"redis://127.0.0.1:6379\" }\n",
        &[
            ("failures", "{ rate: 5/m, count: responses 401, store: s, sharing: estimate }"),
            ("priced", "{ rate: 5/m, burst: 50, cost: \"response:x-cost\", cost_max: 9, store: s, sharing: estimate }"),
            ("bytes", "{ rate: 5MiB/s, store: s, sharing: estimate }"),
            ("sliding", "{ type: quota, rate: 5/m, sliding: true, store: s, sharing: estimate }"),
            ("wrong", "{ type: quota, rate: 5/m, count: responses 4xx, store: s, sharing: estimate }"),
        ],
    ));
    assert_eq!(again(&config).policy.rules, config.policy.rules);
    let estimated = |sharing: Option<Sharing>| sharing == Some(Sharing::Estimate);
    assert!(config.policy.rules.iter().all(|rule| estimated(rule.shared.map(|shared| shared.sharing))));
}

#[test]
fn what_a_limit_says_goes_before_the_default_of_all() {
    let local = "{ rate: 5/s, store: s, on_store_error: local }";
    let limits = [("a", "{ rate: 5/s, store: s }"), ("b", local), ("c", "{ rate: 5/s }")];
    let text = policy("  s: { url: \"redis://127.0.0.1:6379\" }\n", &limits) + "defaults: { on_store_error: open }\n";
    let rules = good(&text).policy.rules;
    let said: Vec<_> = rules.iter().map(|rule| rule.shared.map(|shared| shared.on_store_error)).collect();
    assert_eq!(said, [Some(OnStoreError::Open), Some(OnStoreError::Local), None]);
}

#[test]
fn a_password_is_nowhere_in_what_is_shown_or_told() {
    let config = text(&policy(
        "  s: { url: \"redis://127.0.0.1:6379\", password: correct-horse-battery }\n",
        &[("a", "{ rate: 5/s, store: s }")],
    ));
    assert_eq!(config.diagnostics.iter().map(|fault| fault.code.text()).collect::<Vec<_>>(), ["W0404"]);
    let config = config.outcome.unwrap();
    let shown = config.effective.to_yaml();
    assert!(shown.contains("password: \"‹secret›\"") && !shown.contains("correct"), "{shown}");
    assert!(!format!("{:?}{:?}", config.settings, config.policy).contains("correct"));
}

/// Whatever is wrong with them, and whatever is wrong beside them.
#[test]
fn no_format_shows_a_secret_that_stands_in_the_file() {
    let limits = [("a", "{ rate: 5/s, store: s }")];
    let files = [
        policy("  s: { url: \"redis://gate:correct@valkey:6379\" }\n", &limits),
        policy("  s: { url: \"redis://gate:cor/rect@valkey\" }\n", &limits),
        policy("  s: { url: \"http://:correct@valkey:6379\" }\n", &limits),
        policy("  s: { url: \"gate:correct@valkey:6379\" }\n", &limits),
        policy(&format!("  s: {{ url: \"redis://gate:correct{}@valkey:x\" }}\n", "x".repeat(80)), &limits),
        policy("  s: redis://gate:correct@valkey:6379\n", &limits),
        policy("  s: { url: \"redis://valkey:6379\", password: correct-horse, timeout: never }\n", &limits),
        policy("  s: { url: \"redis://valkey:6379\", pasword: \"correct horse\" }\n", &limits),
        policy("  s: { url: \"redis://valkey:6379\", password: [correct] }\n", &limits),
        policy(
            "  s:\n    url: redis://valkey:6379\n    password: |\n      correct\n    x: 1\n    password: \"correct",
            &limits,
        ),
        policy("  s:\n    url: redis://valkey:6379\n    password:\n      text: correct\n", &limits),
        policy("  s: { url: \"redis://valkey:6379\" }\n", &limits).replace("{ env: KEY }", "correct, client: x"),
        "admin: { address: \"127.0.0.1:9901\", token: correct, x: 1 }\n".to_owned(),
    ];
    for file in files {
        let loaded = text(&file);
        assert!(loaded.outcome.is_err(), "{file}");
        for format in [Format::Text, Format::Short, Format::Json, Format::Github] {
            let told = render(&loaded, format, false);
            assert!(!told.contains("cor"), "{format:?} of {file}: {told}");
        }
    }
    let told =
        render(&text(&policy("  s: { url: \"redis://gate:correct@valkey:6379\" }\n", &limits)), Format::Text, false);
    assert!(told.contains("url: \"redis://gate:*******@valkey:6379\" }"), "{told}");
    // under the whole of it, to the last quotation mark
    assert!(told.contains(&format!("  |             {} URLs are shown", "^".repeat(34))), "{told}");
}

#[test]
fn another_password_is_another_configuration_for_whoever_watches_the_files() {
    let text = policy(
        "  s: { url: \"redis://127.0.0.1:6379\", password: { env: PASS } }\n",
        &[("a", "{ rate: 5/s, store: s }")],
    );
    let digest = |password: &str| {
        let environment = |name: &str| match name {
            "PASS" => Some(password.to_owned()),
            other => environment(other),
        };
        load_text("t.yaml", &text, &environment, &path("conf")).digest()
    };
    assert_eq!(digest("one-long-password"), digest("one-long-password"));
    assert_ne!(digest("one-long-password"), digest("two-long-password"));
}

#[test]
fn closed_is_warned_of_only_where_all_requests_depend_on_it() {
    let store = "  s: { url: \"redis://127.0.0.1:6379\" }\n";
    let closed = "{ rate: 5/s, store: s, on_store_error: closed }";
    assert_eq!(codes(&policy(store, &[("a", closed)])), ["W0433"]);
    assert_eq!(
        codes(&policy(store, &[("a", "{ rate: 5/s, store: s, on_store_error: closed, mode: shadow }")])),
        [""; 0]
    );
    let beside = policy(store, &[("a", closed)]) + "  - { match: { path: /x }, origin: 127.0.0.1:3000 }\n";
    assert_eq!(codes(&beside), [""; 0]);
    let health = policy(store, &[("a", closed)]) + "  - { match: { path: /x }, respond: { status: 200 } }\n";
    assert_eq!(codes(&health), ["W0433"]);
}

/// The words of the complete example that need files stand in comments there; they load as they are.
#[test]
fn the_stores_of_the_complete_example_load() {
    let file = fs::read_to_string(path("conf/complete.yaml")).unwrap();
    let part = file.split_once("# stores:\n").unwrap().1;
    let part: String =
        part.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{}\n", &line[2..])).collect();
    let directory = secrets();
    let part = part.replace("/etc/tidegate/secrets/", &format!("{}/", directory.display()));
    let whole = format!(
        "listen: \":8080\"\nsecrets: {{ client_hmac: {{ env: KEY }} }}\nstores:\n{part}routes:\n  - {{ origin: \
         \"127.0.0.1:3000\", limits: [api_tier, flood] }}\n  - {{ match: {{ path: /pay ignore all }}, origin: \"127.0.0.1:3000\", limits: \
         [payment] }}\n"
    );
    let config = good(&whole);
    let told = text(&whole).diagnostics;
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(told, []);
    assert_eq!(config.policy.stores.len(), 1);
    assert!(config.policy.rules.iter().all(|rule| rule.shared.is_some()));
}

/// As the description of the format has them.
#[test]
fn the_described_example_loads() {
    let text = r#"
listen: ":8080"
secrets: { client_hmac: { env: KEY } }
stores:
  cluster:
    url: rediss://valkey-1:6379,valkey-2:6379,valkey-3:6379
    mode: cluster                   # single | sentinel | cluster
    username: tidegate
    password:                       # block style: ${...} is expanded in plain scalars only
      file: ${CREDENTIALS_DIRECTORY:-/etc/tidegate/secrets}/valkey.pass
    timeout: 5ms                    # a slow store never makes a request slower than this
    prefix: "tg:{prod}:"
    breaker: { open_after: 20, half_open_every: 1s }
limits:
  per_client: { key: client_ip, rate: 50/s, burst: 100 }
  api_tier:
    key: [header:x-api-key, method_class]     # composite; method_class = read|write
    missing: { use: per_client }    # no key sent → other limit; or allow | deny
    rate: 10/s
    burst: 20
    tiers:                          # first match wins
      - when: { header: { x-plan: gold } }
        rate: 200/s
        burst: 400
      - when: { cidr: [192.0.2.0/24] }
        exempt: true
    store: cluster
    on_store_error: local           # open | closed | local (local = rate divided by the nodes last seen)
    enforce: 25%                    # of keys, picked by hash: a slow roll-out
routes:
  - { origin: "127.0.0.1:3000", limits: [api_tier] }
"#;
    let directory = secrets();
    let credentials = directory.display().to_string();
    let environment = |name: &str| match name {
        "CREDENTIALS_DIRECTORY" => Some(credentials.clone()),
        other => environment(other),
    };
    let loaded = load_text("t.yaml", text, &environment, &path("conf"));
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(loaded.diagnostics, []);
    let config = loaded.outcome.unwrap();
    let store = &config.policy.stores[0];
    assert_eq!((store.servers.len(), store.tls, store.prefix.as_str()), (3, true, "tg:{prod}:"));
    assert_eq!(store.breaker, Breaker { open_after: 20, half_open_every: Duration::from_secs(1) });
    assert_eq!(config.settings.store_passwords[0].as_ref().unwrap().0, b"a password of the store");
    let rule = config.policy.rules.iter().find(|rule| rule.name == "api_tier").unwrap();
    assert_eq!((rule.shared.unwrap().sharing, rule.tiers.len()), (Sharing::Lease, 2));
}

/// A directory of secrets that others cannot read.
fn secrets() -> std::path::PathBuf {
    let name = std::thread::current().name().unwrap().replace("::", "-");
    let directory = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("valkey.pass");
    fs::write(&file, "a password of the store\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    directory
}
