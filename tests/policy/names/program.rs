//! The names that the program has, from where it has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use regex::Regex;
use serde_json::Value;
use tidegate::config::codes::Code;
use tidegate::config::schema::json_schema;
use tidegate::observe::metrics::catalogue::{ALL, Kind};

use super::defaults::Defaults;
use crate::path;

/// All of them.
pub struct Program {
    /// The labels of each metric.
    pub metrics: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// Values of labels that are fixed: what the list of metrics has in backticks, which a test of the metrics holds.
    pub values: BTreeSet<String>,
    /// The options of each verb; of the program itself under no name.
    pub verbs: BTreeMap<String, BTreeSet<String>>,
    /// The JSON Schema of policy files.
    schema: Value,
    /// The words of all sections.
    pub words: BTreeSet<String>,
    pub codes: BTreeSet<&'static str>,
    pub defaults: Defaults,
    /// The files that the package installs.
    pub installed: Vec<String>,
}

impl Program {
    pub fn read() -> Program {
        let schema = json_schema().to_value();
        let sections = schema["$defs"].as_object().unwrap().values();
        let words = sections.flat_map(|section| section["properties"].as_object().unwrap().keys().cloned()).collect();
        let document = fs::read_to_string(path("docs/metrics.md")).unwrap();
        Program {
            metrics: metrics(),
            values: document.split('`').map(str::to_owned).collect(),
            verbs: verbs(),
            words,
            schema,
            codes: Code::ALL.iter().map(|(code, _)| code.text()).collect(),
            defaults: Defaults::read(),
            installed: installed(),
        }
    }

    /// Whether steps from word to word lead through the policy file, from its top or from any section that has the first.
    pub fn has_path(&self, steps: &[&str]) -> bool {
        let sections = self.schema["$defs"].as_object().unwrap();
        let root = self.schema["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
        let from: Vec<&Value> = match sections[root]["properties"].get(steps[0]) {
            Some(_) => vec![&sections[root]],
            None => sections.values().collect(),
        };
        from.iter().any(|section| self.leads(section, steps))
    }

    fn leads(&self, place: &Value, steps: &[&str]) -> bool {
        let Some((first, rest)) = steps.split_first() else { return true };
        let inside: Vec<&Value> = match place {
            Value::Object(map) => {
                if let Some(found) = map.get("properties").and_then(|words| words.get(*first))
                    && self.leads(found, rest)
                {
                    return true;
                }
                // a name that the operator gives
                if let Some(any) = map.get("additionalProperties").filter(|any| any.is_object())
                    && self.leads(any, rest)
                {
                    return true;
                }
                let section = map.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next());
                let alternatives = map.get("anyOf").and_then(Value::as_array).into_iter().flatten();
                section
                    .map(|name| &self.schema["$defs"][name])
                    .into_iter()
                    .chain(alternatives)
                    .chain(map.get("items"))
                    .collect()
            }
            _ => return false,
        };
        inside.into_iter().any(|inner| self.leads(inner, steps))
    }
}

fn metrics() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut metrics = BTreeMap::new();
    for family in ALL {
        let labels: BTreeSet<&str> = family.labels.iter().copied().chain(["instance", "job"]).collect();
        if family.kind == Kind::Histogram {
            let with_bound = labels.iter().copied().chain(["le"]).collect();
            for (end, labels) in [("_bucket", with_bound), ("_sum", labels.clone()), ("_count", labels.clone())] {
                metrics.insert(&*format!("{}{end}", family.name).leak(), labels);
            }
        }
        metrics.insert(family.name, labels);
    }
    metrics
}

fn verbs() -> BTreeMap<String, BTreeSet<String>> {
    let help = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).arg("--help").env_clear().output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let option = Regex::new(r"--[a-z][a-z-]*").unwrap();
    let options = |text: &str| {
        let mut options: BTreeSet<String> = option.find_iter(text).map(|found| found.as_str().to_owned()).collect();
        // the line of global options has the short names
        let globals = text.lines().find(|line| line.starts_with("Global options: ")).unwrap_or_default();
        for (short, long) in [("-c FILE", "--config"), ("-q", "--quiet"), ("-v", "--verbose")] {
            options.extend(globals.contains(short).then(|| long.to_owned()));
        }
        options
    };
    let own = help(&[]);
    let verb = Regex::new(r"(?m)^  ([a-z]+)  ").unwrap();
    let listed = own.split("Start:").nth(1).expect("a list of verbs").split("Options:").next().unwrap();
    let listed = verb.captures_iter(listed).map(|found| found.get(1).unwrap().as_str());
    let listed: Vec<&str> = listed.chain(["help"]).collect();
    assert!(listed.len() > 10 && listed.contains(&"reload"), "{own}");
    let mut verbs: BTreeMap<_, _> = listed.iter().map(|verb| ((*verb).to_owned(), options(&help(&[verb])))).collect();
    verbs.insert(String::new(), options(&own));
    verbs
}

/// The places of the package's files, and their folders.
fn installed() -> Vec<String> {
    let manifest = fs::read_to_string(path("Cargo.toml")).unwrap();
    let (_, list) = manifest.split_once("\nassets = [\n").unwrap();
    let mut places = Vec::new();
    for line in list.split("\n]").next().unwrap().lines() {
        let [from, to, _]: [String; 3] = serde_json::from_str(line.trim().trim_end_matches(',')).unwrap();
        let name = |from: &str| from.rsplit('/').next().unwrap().to_owned();
        let names = match from.strip_suffix("/*") {
            Some(folder) => {
                fs::read_dir(path(folder)).unwrap().map(|entry| name(entry.unwrap().path().to_str().unwrap())).collect()
            }
            None => vec![name(&from)],
        };
        places
            .extend(names.iter().map(|name| if to.ends_with('/') { format!("/{to}{name}") } else { format!("/{to}") }));
    }
    // made by the package's scripts
    places.push("/etc/tidegate/secrets/client_hmac.key".to_owned());
    places
}
