//! Alert rules and dashboard, held against what the running program exports: an expression that names a metric, a label or a
//! value that is not there would be silent for ever.
//!
//! The rules' own tests run under promtool, if there is one: Debian's package `prometheus` has it, and `./dev setup` unpacks it
//! into `target/tools`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::tls::{Authority, Files};
use crate::harness::{Connection, Gate, Origin, Reply};
use crate::skips::skip;

/// What Prometheus or the dashboard add to every series.
const OUTSIDE: [&str; 2] = ["instance", "job"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conf").join(name)
}

/// Every label and its values, by metric.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// What a gate exports under a policy with one of everything that has metrics.
fn exported() -> Exported {
    let origin = Origin::that(Reply::Ok);
    let (files, authority) = (Files::new(), Authority::new("an authority"));
    let pair = files.put_pair("server", &authority.sign(&["shop.example.com"]));
    let gate = Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\" }}
  secure: {{ address: \"127.0.0.1:0\", tls: {{ certificates: [{pair}] }} }}
secrets: {{ client_hmac: \"a secret of all gates\" }}
server: {{ threads: 2, overload: {{ delay: 10s }} }}
stores:
  cluster: {{ url: \"redis://127.0.0.1:1\" }}
origins:
  shop: {{ addresses: [\"{}\"], inflight: 40, health: {{ path: / }} }}
limits:
  per_client: {{ key: client_ip, rate: 5/s, burst: 10 }}
  probe: {{ key: client_ip, rate: 5/s, burst: 10, mode: shadow }}
  names: {{ type: distinct, key: client_ip, of: \"header:x-name\", missing: allow, max: 20, window: 10m }}
  crowd: {{ type: fair_share, capacity: 1000/s }}
  at_once: {{ type: inflight, max: 50 }}
  of_all: {{ key: client_ip, rate: 50/s, burst: 100, store: cluster }}
routes:
  - {{ name: shop, limits: [per_client, probe, names, at_once, crowd, of_all], origin: shop }}
",
        origin.address()
    ));
    assert_eq!(gate.fetch("/", "").status, 200);
    gate.counts("tidegate_requests_total", &[("route", "shop")], 1.0);
    let text = Connection::open(gate.metrics_address()).ask("GET", "/metrics", "Host: localhost\r\n", b"").text();
    let mut exported = Exported::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').expect("a series has a value").0;
        let (name, mut labels) = series.split_once('{').unwrap_or((series, "}"));
        let metric = exported.entry(name.to_owned()).or_default();
        // no value of this policy holds a quotation mark
        while let Some((label, rest)) = labels.split_once("=\"") {
            let (value, rest) = rest.split_once('"').expect("a value ends");
            metric.entry(label.trim_start_matches(',').to_owned()).or_default().insert(value.to_owned());
            labels = rest;
        }
    }
    exported
}

/// The parts of an expression of PromQL that name something.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Mark(char),
}

fn tokens(expression: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let (text, after) = rest[1..].split_once('"').expect("a text ends");
            tokens.push(Token::Text(text.to_owned()));
            rest = after;
        } else if first.is_ascii_alphabetic() || first == '_' || first == '$' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            tokens.push(Token::Mark(first));
            rest = &rest[first.len_utf8()..];
        }
    }
    tokens.retain(|token| !matches!(token, Token::Mark(mark) if mark.is_whitespace()));
    tokens
}

/// What an expression names that is not exported.
fn faults(expression: &str, exported: &Exported) -> Vec<String> {
    let tokens = tokens(expression);
    let mut faults = Vec::new();
    let mut used: Vec<&BTreeMap<String, BTreeSet<String>>> = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        let Token::Word(name) = token else { continue };
        if !name.starts_with("tidegate_") && !name.starts_with("process_") {
            continue;
        }
        let Some(labels) = exported.get(name) else {
            faults.push(format!("no metric {name}"));
            continue;
        };
        used.push(labels);
        if tokens.get(place + 1) != Some(&Token::Mark('{')) {
            continue;
        }
        let inside = tokens[place + 2..].iter().take_while(|token| **token != Token::Mark('}'));
        let inside: Vec<&Token> = inside.filter(|token| !matches!(token, Token::Mark('=' | '!' | '~' | ','))).collect();
        for pair in inside.chunks(2) {
            let [Token::Word(label), Token::Text(value)] = pair else { panic!("{expression}: {pair:?}") };
            match labels.get(label) {
                None if OUTSIDE.contains(&label.as_str()) => {}
                None => faults.push(format!("{name} has no label {label}")),
                Some(values) if value.starts_with('$') || value.split('|').all(|value| values.contains(value)) => {}
                Some(values) => faults.push(format!("{name} has no {label}={value}, but {values:?}")),
            }
        }
    }
    assert!(!used.is_empty(), "an expression without a metric of ours: {expression}");
    for (place, token) in tokens.iter().enumerate() {
        if !matches!(token, Token::Word(word) if matches!(word.as_str(), "by" | "on" | "without" | "ignoring")) {
            continue;
        }
        let inside = tokens[place + 2..].iter().take_while(|token| **token != Token::Mark(')'));
        for label in inside.filter_map(|token| if let Token::Word(label) = token { Some(label) } else { None }) {
            if !OUTSIDE.contains(&label.as_str()) && !used.iter().all(|labels| labels.contains_key(label)) {
                faults.push(format!("not every metric has the label {label}: {expression}"));
            }
        }
    }
    faults
}

/// Every text under this key, wherever it is.
fn under<'v>(key: &str, value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                match inner {
                    Value::String(text) if name == key => found.push(text),
                    _ => under(key, inner, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| under(key, inner, found)),
        _ => {}
    }
}

fn rules() -> Value {
    let text = std::fs::read_to_string(file("prometheus/alerts.yml")).unwrap();
    serde_yaml::from_str(&text).expect("the rules are YAML")
}

#[test]
fn no_expression_names_what_is_not_exported() {
    let exported = exported();
    let dashboard = std::fs::read_to_string(file("grafana/tidegate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).expect("the dashboard is JSON");
    let rules = rules();
    let mut expressions = Vec::new();
    under("expr", &rules, &mut expressions);
    let in_rules = expressions.len();
    under("expr", &dashboard, &mut expressions);
    assert!(in_rules >= 6 && expressions.len() >= in_rules + 40, "{in_rules} of {}", expressions.len());
    let mut found: Vec<String> = expressions.into_iter().flat_map(|expression| faults(expression, &exported)).collect();
    // where a variable's choices come from: label_values(METRIC, LABEL)
    let mut queries = Vec::new();
    under("definition", &dashboard, &mut queries);
    assert_eq!(queries.len(), 3);
    for query in queries {
        let [Token::Word(function), _, Token::Word(metric), _, Token::Word(label), _] = &tokens(query)[..] else {
            panic!("{query}")
        };
        assert_eq!(function, "label_values");
        let known = exported.get(metric).is_some_and(|labels| labels.contains_key(label));
        if !known && !OUTSIDE.contains(&label.as_str()) {
            found.push(format!("no {query}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_comparison_finds_what_is_wrong() {
    let labels = BTreeMap::from([("verdict".to_owned(), BTreeSet::from(["limited".to_owned()]))]);
    let exported = Exported::from([("tidegate_a_total".to_owned(), labels)]);
    let of = |expression: &str| faults(expression, &exported).len();
    assert_eq!(of("sum by (instance, verdict) (rate(tidegate_a_total{verdict=\"limited\"}[5m])) > 0.5"), 0);
    assert_eq!(of("tidegate_a_total{verdict=~\"$verdict\", instance=\"edge\"}"), 0);
    assert_eq!(of("tidegate_a_total / tidegate_b_total"), 1);
    assert_eq!(of("tidegate_a_total{reason=\"x\"}"), 1);
    assert_eq!(of("tidegate_a_total{verdict=\"allowed\"}"), 1);
    assert_eq!(of("tidegate_a_total{verdict=~\"limited|allowed\"}"), 1);
    assert_eq!(of("sum by (route) (tidegate_a_total)"), 1);
}

#[test]
fn every_alert_is_tested_and_has_a_word_on_what_to_do() {
    let text = |name: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let (tests, document) = (text("conf/prometheus/alerts_test.yml"), text("docs/metrics.md"));
    let rules = rules();
    let mut alerts = Vec::new();
    under("alert", &rules, &mut alerts);
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} has no test");
        assert!(document.contains(&format!("### {alert}\n")), "{alert} has no entry in docs/metrics.md");
    }
}

#[test]
fn promtool_agrees_with_the_rules_and_their_tests() {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/usr/bin/promtool");
    let promtool = if unpacked.exists() { unpacked } else { PathBuf::from("promtool") };
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let output = match Command::new(&promtool).args(arguments).current_dir(file("prometheus")).output() {
            Ok(output) => output,
            Err(error) => return skip("alert rules", format!("no promtool ({error}); `./dev setup` unpacks it")),
        };
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "promtool {arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}
