//! What a reload tells of a change, and what the change does: each word of the policy file is changed in a policy that has it.
//!
//! The table in `docs/operations.md` is written from the reports that these reloads give: `UPDATE_EXPECTED=1` rewrites it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde::Deserialize;
use serde_json::Value;
use tidegate::config::schema::json_schema;
use tidegate::config::{Config, Tree};
use tidegate::engine::{Base, Engine};
use tidegate::process::reload::Report;
use tidegate::running::generation::Source;
use tidegate::sketch::Seed;
use tidegate::units::Timestamp;

use crate::{good, path, text};

/// A change that is written by hand.
#[derive(Deserialize)]
struct ByHand {
    word: String,
    #[serde(default)]
    remark: String,
    before: String,
    after: String,
}

/// Words that can mean one thing only, so that nothing can be changed.
const ONE_VALUE: &[&str] = &["File.version"];

/// One of them as a whole policy; `folder` holds two secrets.
fn completed(policy: &str, folder: &str) -> String {
    let stores = |database: &str| {
        format!(
            "secrets: {{ client_hmac: {{ env: KEY }} }}\nstores: {{ one: {{ url: 'redis://127.0.0.1:1{database}' }}, two: {{ url: 'redis://127.0.0.1:2' }} }}"
        )
    };
    let mut whole = policy
        .replace("SHARED/1", &stores("/1"))
        .replace("SHARED", &stores(""))
        .replace("AVERAGES", "limits: { a: { type: recent_average, rate: 1/s, half_life: 1m }, b: { type: recent_average, rate: 1/s, half_life: 1m } }")
        .replace("PASSWORD", "stores: { one: { url: 'redis://127.0.0.1:1', password: ")
        .replace("TLS/", "../tests/policy/faults/tls/")
        .replace("DIR", folder);
    let has = |word: &str| whole.lines().any(|line| line.starts_with(word));
    let origin = if has("origins:") { "shop" } else { "'127.0.0.1:1'" };
    let is_limit =
        |name: &&str| ["rate", "type", "key"].iter().any(|word| whole.contains(&format!("{name}: {{ {word}")));
    let limits: Vec<&str> = ["a", "b", "c"].into_iter().filter(is_limit).collect();
    let route = format!("routes: [{{ name: page, origin: {origin}, limits: [{}] }}]\n", limits.join(", "));
    let (listen, routes) = (!has("listen"), !has("routes:"));
    whole.push('\n');
    whole.push_str(if listen { "listen: ':8080'\n" } else { "" });
    whole.push_str(if routes { &route } else { "" });
    whole
}

/// One step into a tree.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    At(usize),
}

/// A word of the schema where it stands in a policy.
#[derive(Debug, Clone)]
struct Occurrence {
    /// `Section.word`.
    word: String,
    steps: Vec<Step>,
    /// The values that the schema lists.
    values: Vec<String>,
    /// The type of the limit that it belongs to.
    of: Option<String>,
}

/// All sections that a schema may stand for, with their names where they have one.
fn resolved<'s>(
    root: &'s Value,
    schema: &'s Value,
    name: Option<&'s str>,
    found: &mut Vec<(Option<&'s str>, &'s Value)>,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return resolved(root, &root["$defs"][name], Some(name), found);
    }
    for way in ["anyOf", "oneOf", "allOf"] {
        schema[way].as_array().into_iter().flatten().for_each(|schema| resolved(root, schema, name, found));
    }
    found.push((name, schema));
}

fn values(ways: &[(Option<&str>, &Value)]) -> Vec<String> {
    let listed = ways.iter().flat_map(|(_, way)| way["enum"].as_array().into_iter().flatten().chain([&way["const"]]));
    listed.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Every word in a tree, with the way to it.
fn occurrences(
    tree: &Tree,
    schema: &Value,
    root: &Value,
    way: &mut Vec<Step>,
    of: Option<&str>,
    found: &mut Vec<Occurrence>,
) {
    let mut ways = Vec::new();
    resolved(root, schema, None, &mut ways);
    match tree {
        Tree::Map(fields) => {
            let of = match tree.field("type") {
                Some(Tree::Text(kind)) if way.first() == Some(&Step::Key("limits".into())) => Some(kind.as_str()),
                _ => of,
            };
            for (key, value) in fields {
                way.push(Step::Key(key.clone()));
                let section = ways.iter().find(|(name, way)| name.is_some() && !way["properties"][key].is_null());
                let next = match section {
                    Some((name, section)) => {
                        let property = &section["properties"][key];
                        let mut of_property = Vec::new();
                        resolved(root, property, None, &mut of_property);
                        found.push(Occurrence {
                            word: format!("{}.{key}", name.unwrap()),
                            steps: way.clone(),
                            values: values(&of_property),
                            of: of.map(str::to_owned),
                        });
                        property
                    }
                    None => ways
                        .iter()
                        .map(|(_, way)| &way["additionalProperties"])
                        .find(|way| way.is_object())
                        .unwrap_or(&Value::Null),
                };
                occurrences(value, next, root, way, of, found);
                way.pop();
            }
        }
        Tree::List(items) => {
            let schema =
                ways.iter().map(|(_, way)| &way["items"]).find(|items| items.is_object()).unwrap_or(&Value::Null);
            for (at, item) in items.iter().enumerate() {
                way.push(Step::At(at));
                occurrences(item, schema, root, way, of, found);
                way.pop();
            }
        }
        Tree::Text(_) | Tree::Written(_) => {}
    }
}

fn part<'t>(tree: &'t Tree, steps: &[Step]) -> Option<&'t Tree> {
    steps.iter().try_fold(tree, |tree, step| match (tree, step) {
        (Tree::List(items), Step::At(at)) => items.get(*at),
        (tree, Step::Key(key)) => tree.field(key),
        _ => None,
    })
}

/// The tree with something else in a place, or nothing.
fn with(tree: &Tree, steps: &[Step], new: Option<Tree>) -> Tree {
    let Some((step, rest)) = steps.split_first() else { return new.unwrap() };
    match (tree, step) {
        (Tree::Map(fields), Step::Key(key)) => {
            let field = |(name, tree): &(String, Tree)| match (name == key, rest.is_empty(), &new) {
                (true, true, None) => None,
                (true, ..) => Some((name.clone(), with(tree, rest, new.clone()))),
                _ => Some((name.clone(), tree.clone())),
            };
            Tree::Map(fields.iter().filter_map(field).collect())
        }
        (Tree::List(items), Step::At(at)) => {
            let item =
                |(index, item): (usize, &Tree)| if index == *at { with(item, rest, new.clone()) } else { item.clone() };
            Tree::List(items.iter().enumerate().map(item).collect())
        }
        _ => panic!("{steps:?} leads nowhere"),
    }
}

/// Other values for a word; `None`: without it.
fn others(tree: &Tree, listed: &[String]) -> Vec<Option<Tree>> {
    match tree {
        Tree::Text(text) | Tree::Written(text) => {
            let mut texts: Vec<String> = listed.iter().filter(|value| *value != text).cloned().collect();
            texts.extend(match text.as_str() {
                "true" => vec!["false".to_owned()],
                "false" => vec!["true".to_owned()],
                _ => Vec::new(),
            });
            for run in runs(text).into_iter().rev() {
                let number: u64 = text[run.clone()].parse().unwrap_or(0);
                for other in [number + 1, number.saturating_sub(1), number * 2, number / 2] {
                    texts.push(format!("{}{other}{}", &text[..run.start], &text[run.end..]));
                }
            }
            texts.push(format!("{text}x"));
            texts.into_iter().map(|text| Some(Tree::Text(text))).chain([None]).collect()
        }
        Tree::List(items) => {
            let mut lists = Vec::new();
            if items.len() > 1 {
                lists.push(Some(Tree::List(items[1..].to_vec())));
                lists.push(Some(Tree::List(items.iter().rev().cloned().collect())));
            }
            for (at, item) in items.iter().enumerate().filter(|(_, item)| matches!(item, Tree::Text(_))) {
                for other in others(item, listed).into_iter().flatten() {
                    let mut list = items.clone();
                    list[at] = other;
                    lists.push(Some(Tree::List(list)));
                }
            }
            lists.push(None);
            lists
        }
        Tree::Map(fields) => {
            let mut maps = vec![None];
            for (at, (name, value)) in
                fields.iter().enumerate().filter(|(_, (_, value))| matches!(value, Tree::Text(_)))
            {
                for other in others(value, &[]).into_iter().flatten() {
                    let mut fields = fields.clone();
                    fields[at] = (name.clone(), other);
                    maps.push(Some(Tree::Map(fields)));
                }
            }
            maps
        }
    }
}

/// Where digits stand.
fn runs(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in text.char_indices().filter(|(_, character)| character.is_ascii_digit()) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// A policy in force.
struct InForce {
    source: Source,
    engine: Engine,
}

fn source(config: Config) -> (Source, tidegate::policy::Policy) {
    let Config { policy, settings, fingerprint, effective, shown, .. } = config;
    (Source { settings, fingerprint, effective, shown, loaded: 0 }, policy)
}

impl InForce {
    fn new(config: Config) -> InForce {
        let (source, policy) = source(config);
        let base = Base::Nothing { seed: &Seed::from_bytes([7; 16]), unix_nanos_at_origin: 0 };
        let engine = Engine::next(policy, source.settings.naming(), base).unwrap().0;
        InForce { source, engine }
    }

    /// The report of a reload.
    fn reload(&self, config: Config) -> Report {
        let (next, policy) = source(config);
        let base = Base::Before { engine: &self.engine, now: Timestamp::from_nanos(1_000_000_000) };
        let (_, succession) = Engine::next(policy, next.settings.naming(), base).unwrap();
        Report::of(&self.source, &self.source, &next, succession)
    }
}

/// What a change does live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Kept,
    Rerated,
    Reset,
    Upgrade,
}

fn effect(report: &Report) -> Effect {
    match report {
        report if !report.waiting.is_empty() => Effect::Upgrade,
        report if !report.limits.reset.is_empty() => Effect::Reset,
        report if !report.limits.rerated.is_empty() => Effect::Rerated,
        _ => Effect::Kept,
    }
}

/// The paths that a report names.
fn named(report: &Report) -> Vec<String> {
    report.changed.iter().map(|change| change.path.clone()).chain(report.waiting.iter().cloned()).collect()
}

/// What a change of each word does, by what is special about the change: the type of the limit, or a remark.
#[derive(Default)]
struct Found {
    effects: BTreeMap<String, BTreeMap<Effect, BTreeSet<String>>>,
    /// Words that hold other words, by which they are changed.
    holders: BTreeSet<String>,
    faults: Vec<String>,
}

impl Found {
    fn add(&mut self, word: &str, remark: &str, report: &Report) {
        self.effects.entry(word.into()).or_default().entry(effect(report)).or_default().insert(remark.into());
    }

    /// Changes each word of a policy in every type of limit that has it.
    fn walk(&mut self, policy: &str, schema: &Value) {
        let before = InForce::new(good(policy));
        let tree = &before.source.effective;
        let mut found = Vec::new();
        occurrences(tree, schema, schema, &mut Vec::new(), None, &mut found);
        for Occurrence { word, steps, values, of } in &found {
            let of = of.clone().unwrap_or_default();
            let known = self.effects.get(word).is_some_and(|known| known.values().any(|remarks| remarks.contains(&of)));
            if found.iter().any(|other| other.steps.len() > steps.len() && other.steps.starts_with(steps)) {
                self.holders.insert(word.clone());
            }
            let now = part(tree, steps).unwrap();
            // the first other value that loads, and is another
            let change = others(now, values).into_iter().filter(|_| !known).find_map(|other| {
                let config = text(&with(tree, steps, other).to_yaml()).outcome.ok()?;
                (part(&config.effective, steps) != Some(now)).then_some(config)
            });
            let Some(config) = change else { continue };
            let (report, place) = (before.reload(config), place(tree, steps));
            let is_told = |path: &String| {
                let below = |one: &str, other: &str| {
                    one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                below(path, &place) || below(&place, path)
            };
            if !named(&report).iter().any(is_told) {
                self.faults.push(format!("{word} changes {place}, and the report names {:?}", named(&report)));
            }
            self.add(word, &of, &report);
        }
    }
}

/// The path of a word as a report has it.
fn place(tree: &Tree, steps: &[Step]) -> String {
    let step = |(at, step): (usize, &Step)| match step {
        Step::Key(key) => key.clone(),
        Step::At(index) => match part(tree, &steps[..=at]).and_then(|item| item.field("name")) {
            Some(Tree::Text(name)) => name.clone(),
            _ => index.to_string(),
        },
    };
    steps.iter().enumerate().map(step).collect::<Vec<_>>().join(".")
}

fn found() -> Found {
    let schema = json_schema().to_value();
    let mut found = Found::default();
    found.walk(&fs::read_to_string(path("conf/complete.yaml")).unwrap(), &schema);
    found.walk(&fs::read_to_string(path("tests/policy/changes/rest.yaml")).unwrap(), &schema);
    let folder = std::env::temp_dir().join(format!("tidegate-changes-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, secret) in [("one", "first-secret-of-many"), ("two", "second-secret-of-many")] {
        fs::write(folder.join(name), secret).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let by_hand = fs::read_to_string(path("tests/policy/changes/by_hand.yaml")).unwrap();
    let by_hand: Vec<ByHand> = serde_yaml::from_str(&by_hand).unwrap();
    for ByHand { word, remark, before, after } in &by_hand {
        let [before, after] = [before, after].map(|policy| completed(policy, folder.to_str().unwrap()));
        let report = InForce::new(good(&before)).reload(good(&after));
        if named(&report).is_empty() {
            found.faults.push(format!("{word}: nothing is told of the change from\n{before}to\n{after}"));
        }
        found.add(word, remark, &report);
    }
    let _ = fs::remove_dir_all(folder);
    found
}

#[test]
fn a_reload_tells_the_change_of_every_word_and_the_document_what_it_does() {
    let found = found();
    assert!(found.faults.is_empty(), "{}", found.faults.join("\n"));
    let schema = json_schema().to_value();
    let mut missing = Vec::new();
    for (section, definition) in schema["$defs"].as_object().unwrap() {
        for word in
            definition["properties"].as_object().into_iter().flatten().map(|(word, _)| format!("{section}.{word}"))
        {
            let known = found.effects.contains_key(&word)
                || found.holders.contains(&word)
                || ONE_VALUE.contains(&word.as_str());
            missing.extend((!known).then_some(word));
        }
    }
    assert!(missing.is_empty(), "no change of these words was tried: {missing:?}");
    let file = path("docs/operations.md");
    let document = fs::read_to_string(&file).unwrap();
    let (before, rest) = document.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let now = format!("{before}{BEGIN}{}{END}{after}", table(&found));
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&file, &now).unwrap();
    }
    assert!(fs::read_to_string(&file).unwrap() == now, "docs/operations.md has another table than\n{}", table(&found));
}

const BEGIN: &str = "<!-- written by the test `changes` -->\n";
const END: &str = "<!-- end -->\n";

/// The table of the document: a row for each section with a word that is not just kept, and in it these words.
fn table(found: &Found) -> String {
    const COLUMNS: [Effect; 3] = [Effect::Rerated, Effect::Reset, Effect::Upgrade];
    // what a word that holds others does is said where these are; a secret for the admin pages is not like other secrets
    let is_told_below =
        |word: &str| found.holders.contains(word) && !word.starts_with("Limit.") && word != "Admin.token";
    let mut sections: BTreeMap<&str, BTreeMap<Effect, Vec<String>>> = BTreeMap::new();
    for (word, effects) in &found.effects {
        let (section, name) = word.split_once('.').unwrap();
        if is_told_below(word) {
            continue;
        }
        for (effect, remarks) in effects {
            let remark = |remark: &String| match remark.contains([' ', '`']) || remark.is_empty() {
                true => remark.clone(),
                false => format!("`{remark}`"),
            };
            let remarks: Vec<String> = remarks.iter().filter(|remark| !remark.is_empty()).map(remark).collect();
            let only = effects.len() == 1 || remarks.is_empty();
            let text = if only { format!("`{name}`") } else { format!("`{name}` ({})", remarks.join(", ")) };
            sections.entry(section).or_default().entry(*effect).or_default().push(text);
        }
    }
    let link = |section: &str| format!("[{section}](reference.md#{})", section.to_lowercase());
    let mut text = "| section | re-rated | reset | needs `tidegate upgrade` |\n| --- | --- | --- | --- |\n".to_owned();
    for (section, effects) in sections {
        if effects.keys().any(|effect| *effect != Effect::Kept) {
            let cells = COLUMNS.map(|effect| effects.get(&effect).map_or_else(String::new, |words| words.join(", ")));
            text.push_str(&format!("| {} | {} |\n", link(section), cells.join(" | ")));
        }
    }
    text + "\nAll other words are kept.\n"
}
