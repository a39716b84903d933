//! Values of variables are never shown. What is shown of a configuration is the same whatever their values are.

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;
use tidegate::config::render::{Format, render};
use tidegate::config::{Loaded, Tree, load_text};
use tidegate::explain::Book;

/// Every kind of text that a value may be, with two values that both are good.
const KINDS: [(&str, [&str; 2]); 23] = [
    ("LISTEN", ["127.0.0.1:7391", "127.0.0.2:6284"]),
    ("HMAC", ["xq7ZkT2mVwXy8890aa", "yq7ZkT2mVwXy8890bb"]),
    ("NETWORK", ["10.71.0.0/16", "172.29.83.0/24"]),
    ("PREFIX", ["29", "27"]),
    ("ADDRESS", ["Fq7zkt2mvw.example:7392", "192.0.2.77:6283"]),
    ("WEIGHT", ["731", "628"]),
    ("CAP", ["7319", "6281"]),
    ("SPAN", ["7391s", "6284s"]),
    ("RATE", ["7391/m", "6284/m"]),
    ("BURST", ["7393", "6286"]),
    ("MEMORY", ["1MiB", "256KiB"]),
    ("HOST", ["Jq7zkt2mvw.example", "*.b4rn9lsjfq.example"]),
    ("PATH", ["/Lq7ZkT2mVw", "=/b4Rn9LsJfQ"]),
    ("METHOD", ["PROPFIND", "MKCOL"]),
    ("VALUE", ["Nq7ZkT2mVwXy", "c4Rn9LsJfQpd"]),
    ("BODY", ["Pq7ZkT2mVwXy\u{e9}", "d4Rn9LsJfQpd"]),
    ("STATUS", ["418", "451"]),
    ("SHARE", ["73.91%", "62.84%"]),
    ("STORE", ["rq7zkt2mvw.example:7394", "e4rn9lsjfq.example:6287"]),
    ("WORD", ["address", "pseudonym"]),
    ("KEY", ["header:tq7zkt2mvw", "cookie:g4Rn9LsJfQpd"]),
    ("REGEX", ["/Uq7ZkT2mVw/[0-9]+", "/h4Rn9LsJfQ.*"]),
    ("FORGED", ["sq7zkt2mvw.example:7395", "f4rn9lsjfq.example:6288"]),
];

/// Has a place for each of them.
const POLICY: &str = "listeners:
  main:
    address: @LISTEN@
secrets:
  client_hmac: @HMAC@
trusted_proxies:
  from:
    - @NETWORK@
client_ip:
  ipv4_prefix: @PREFIX@
stores:
  shared:
    url: redis://@STORE@
origins:
  app:
    addresses:
      - address: @ADDRESS@
        weight: @WEIGHT@
    inflight:
      max: @CAP@
    timeouts:
      read: @SPAN@
  plain: { addresses: [127.0.0.1:9] }
limits:
  login:
    key: client_ip
    rate: @RATE@
    burst: @BURST@
    memory: @MEMORY@
    exempt:
      - header:
          x-key: @VALUE@
  watched: { key: client_ip, rate: 5/s }
  keyed:
    key:
      - method
      - @KEY@
    missing: allow
    rate: 9/s
  several:
    type: distinct
    key: client_ip
    of: @KEY@
    missing: allow
    max: 9
    window: 1m
routes:
  - name: four
    match:
      - path:
          regex: @REGEX@
        method: POST
      - path: /four
    limits: [keyed, several]
    origin: plain
  - name: one
    match:
      host: @HOST@
      path: @PATH@
      method: @METHOD@
      headers:
        x-mode: @VALUE@
    limits: [login]
    origin: app
    request_headers:
      set:
        x-secret: Bearer @VALUE@
  - name: two
    match: { path: /two }
    limits: [watched]
    respond:
      status: @STATUS@
      body: before @BODY@ behind
  - name: three
    origin: @FORGED@
telemetry:
  access_log:
    client: @WORD@
    sample:
      other: @SHARE@
";

/// How a value stands in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Literal,
    Variable,
    WithDefault,
    Demanded,
}

fn policy(forms: &HashMap<&str, Form>) -> String {
    KINDS.iter().fold(POLICY.to_owned(), |text, (name, values)| {
        let written = match forms[name] {
            Form::Literal => values[0].to_owned(),
            Form::Variable => format!("${{{name}}}"),
            // a default is written in the file, and is no secret of the environment
            Form::WithDefault => format!("${{{name}:-none}}"),
            Form::Demanded => format!("${{{name}:?set it}}"),
        };
        text.replace(&format!("@{name}@"), &written)
    })
}

fn load(text: &str, which: usize) -> Loaded {
    let environment =
        |name: &str| KINDS.iter().find(|(known, _)| *known == name).map(|(_, values)| values[which].to_owned());
    load_text("test.yaml", text, &environment, Path::new("."))
}

fn shown(loaded: &Loaded) -> &Tree {
    &loaded.outcome.as_ref().unwrap_or_else(|_| panic!("{}", render(loaded, Format::Short, false))).shown
}

const FORMATS: [Format; 4] = [Format::Text, Format::Short, Format::Json, Format::Github];

fn told(loaded: &Loaded) -> String {
    FORMATS.map(|format| render(loaded, format, false)).concat()
}

fn forms() -> impl Strategy<Value = HashMap<&'static str, Form>> {
    let form = prop_oneof![Just(Form::Literal), Just(Form::Variable), Just(Form::WithDefault), Just(Form::Demanded)];
    proptest::collection::vec(form, KINDS.len())
        .prop_map(|forms| KINDS.iter().map(|(name, _)| *name).zip(forms).collect())
}

/// What explanations are put together from, beside numbers.
fn explained(loaded: &Loaded) -> String {
    let Book { keys, routes, places, .. } = Book::of(loaded.outcome.as_ref().unwrap());
    let routes: Vec<_> = routes.into_iter().map(|route| route.asks).collect();
    let trusted: Vec<_> = places.trusted.into_iter().map(|trusted| trusted.written).collect();
    format!("{keys:?} {routes:?} {trusted:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Nobody learns anything of a value from what is shown: it would be the same with another.
    #[test]
    fn what_is_shown_does_not_depend_on_the_values_of_variables(forms in forms()) {
        let text = policy(&forms);
        let [one, other] = [load(&text, 0), load(&text, 1)];
        prop_assert_eq!(shown(&one).to_yaml(), shown(&other).to_yaml());
        prop_assert_eq!(shown(&one).to_json(), shown(&other).to_json());
        prop_assert_eq!(told(&one).replace(config_hash(&one), ""), told(&other).replace(config_hash(&other), ""));
        prop_assert_eq!(explained(&one), explained(&other));
        let (yaml, json) = (shown(&one).to_yaml(), shown(&one).to_json().to_string());
        for (name, values) in KINDS.iter().filter(|(name, _)| forms[name] != Form::Literal) {
            // short ones, and words of policy files, may stand there for something else
            for value in values.iter().filter(|value| value.len() > 4 && *name != "WORD") {
                for text in [&yaml, &json, &told(&one), &explained(&one)] {
                    prop_assert!(!text.to_lowercase().contains(&value.to_lowercase()), "{}: {}", name, text);
                }
            }
        }
    }

    /// Nor from what is said of a file with mistakes, some of which are the values.
    #[test]
    fn no_message_shows_a_value(forms in forms(), wrong in proptest::collection::vec(any::<bool>(), KINDS.len())) {
        let secret = |at: usize| format!("tZ9{at}kQxW7vB");
        let environment = |name: &str| {
            let at = KINDS.iter().position(|(known, _)| *known == name)?;
            Some(if wrong[at] { secret(at) } else { KINDS[at].1[0].to_owned() })
        };
        let loaded = load_text("test.yaml", &policy(&forms), &environment, Path::new("."));
        let text = told(&loaded);
        for (at, (name, _)) in KINDS.iter().enumerate() {
            prop_assert!(!text.to_lowercase().contains(&secret(at).to_lowercase()), "{}: {}", name, text);
        }
    }
}

fn config_hash(loaded: &Loaded) -> &str {
    loaded.outcome.as_ref().map_or("", |config| config.fingerprint.as_str())
}

#[test]
fn without_variables_everything_is_shown() {
    let forms = KINDS.iter().map(|(name, _)| (*name, Form::Literal)).collect();
    let loaded = load(&policy(&forms), 0);
    let config = loaded.outcome.as_ref().unwrap();
    assert_eq!(config.shown, config.effective);
    let said = explained(&loaded);
    for plain in ["path ~ /Uq7ZkT2mVw/[0-9]+, method POST", "method, header:tq7zkt2mvw", "10.71.0.0/16"] {
        assert!(said.contains(plain), "{plain}: {said}");
    }
}

#[test]
fn a_variable_is_shown_as_it_was_written_and_the_rest_as_it_is() {
    let forms = KINDS.iter().map(|(name, _)| (*name, Form::Variable)).collect();
    let loaded = load(&policy(&forms), 0);
    let yaml = shown(&loaded).to_yaml();
    for line in [
        "    address: ${LISTEN}\n",
        "  ipv4_prefix: ${PREFIX}\n",
        "        weight: ${WEIGHT}\n",
        "      read: ${SPAN}\n",
        "    rate: ${RATE}\n",
        "    memory: ${MEMORY}\n",
        "          x-key: ${VALUE}\n",
        "      body: before ${BODY} behind\n",
        "  - name: three\n",
        "    rate: 5/s\n",
        "    balance: round_robin\n",
        "      - address: 127.0.0.1:9\n",
    ] {
        assert!(yaml.contains(line), "{line:?} is missing in\n{yaml}");
    }
    // an address that a route names is the name of an origin, too
    assert!(!yaml.contains("sq7zkt2mvw") && yaml.contains("‹variable›"), "{yaml}");
}

#[test]
fn what_is_shown_loads_again_where_variables_stand_at_their_own_places() {
    let text = "listen: \":8080\"\nlimits:\n  a:\n    key: client_ip\n    rate: ${RATE}\n    burst: 5\nroutes:\n  - limits: [a]\n    respond:\n      body: ${BODY}\n";
    let first = load(text, 0);
    let yaml = shown(&first).to_yaml();
    let again = load(&yaml, 0);
    assert_eq!(shown(&again).to_yaml(), yaml);
    assert_eq!(config_hash(&again), config_hash(&first));
}
