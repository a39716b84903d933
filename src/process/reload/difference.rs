//! The differences between two configurations, as paths. They are found in the effective configurations, which have every word that
//! decides anything, so none can be forgotten here; what these mask is compared beside them.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;

use crate::config::Tree;
use crate::config::conceal::HIDDEN;
use crate::config::settings::{Secret, Settings};
use crate::running::generation::Source;

/// Named things of a section.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Changes {
    /// The names that are new.
    pub added: Vec<String>,
    /// The names under which something else stands.
    pub changed: Vec<String>,
    /// The names that are gone.
    pub removed: Vec<String>,
}

impl Changes {
    /// Compares a section: a map, or a list of maps with a `name`.
    pub fn of(before: &Tree, after: &Tree, section: &str) -> Changes {
        let items = |tree| Part { tree, shown: None }.items();
        let (was, now) = (before.field(section).map(items), after.field(section).map(items));
        let (was, now) = (was.unwrap_or_default(), now.unwrap_or_default());
        let (by_name_before, by_name) = (by_name(&was), by_name(&now));
        let mut changes = Changes::default();
        for (name, part) in &now {
            match by_name_before.get(name.as_str()) {
                None => changes.added.push(name.clone()),
                Some(before) if before.tree != part.tree => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let gone = was.iter().filter(|(name, _)| !by_name.contains_key(name.as_str()));
        changes.removed.extend(gone.map(|(name, _)| name.clone()));
        changes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// A part of the configuration that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where it stands: the shortest path that has all of the difference.
    pub path: String,
    /// What stood there, as it may be shown; `None`: nothing, or a secret.
    pub from: Option<Value>,
    /// What stands there now.
    pub to: Option<Value>,
}

/// A part of a configuration, and what of it may be shown.
#[derive(Clone, Copy)]
struct Part<'t> {
    tree: &'t Tree,
    shown: Option<&'t Tree>,
}

type Items<'t> = Vec<(String, Part<'t>)>;

impl<'t> Part<'t> {
    fn of(source: &'t Source) -> Part<'t> {
        Part { tree: &source.effective, shown: Some(&source.shown) }
    }

    /// Returns its items by name; those of a list without names by position.
    fn items(self) -> Items<'t> {
        let items: Vec<(String, &'t Tree)> = match self.tree {
            Tree::Map(fields) => fields.iter().map(|(name, tree)| (name.clone(), tree)).collect(),
            list @ Tree::List(items) => list.steps().into_iter().zip(items).collect(),
            Tree::Text(_) | Tree::Written(_) => Vec::new(),
        };
        let shown = |at: usize, name: &str| match self.shown? {
            Tree::List(items) => items.get(at),
            map => map.field(name),
        };
        let item = |(at, (name, tree)): (usize, (String, &'t Tree))| {
            let shown = shown(at, &name);
            (name, Part { tree, shown })
        };
        items.into_iter().enumerate().map(item).collect()
    }

    fn to_json(self) -> Value {
        self.shown.map_or_else(|| HIDDEN.into(), Tree::to_json)
    }
}

fn by_name<'i, 't>(items: &'i Items<'t>) -> HashMap<&'i str, Part<'t>> {
    items.iter().map(|(name, part)| (name.as_str(), *part)).collect()
}

/// Returns everything that differs between two configurations.
fn changes(before: &Source, after: &Source) -> Vec<Change> {
    let mut changes = Vec::new();
    descend(Part::of(before), Part::of(after), "", &mut changes);
    changes
}

fn descend(before: Part<'_>, after: Part<'_>, path: &str, changes: &mut Vec<Change>) {
    if before.tree == after.tree {
        return;
    }
    if !have_items_in_common(before.tree, after.tree) {
        let (from, to) = (Some(before.to_json()), Some(after.to_json()));
        return changes.push(Change { path: path.to_owned(), from, to });
    }
    let (was, now) = (before.items(), after.items());
    let (by_name_before, by_name) = (by_name(&was), by_name(&now));
    let order = |items: &Items<'_>, others: &HashMap<&str, Part<'_>>| -> Vec<String> {
        items.iter().map(|(name, _)| name.clone()).filter(|name| others.contains_key(name.as_str())).collect()
    };
    let (from, to) = (order(&was, &by_name), order(&now, &by_name_before));
    if from != to {
        changes.push(Change { path: path.to_owned(), from: Some(from.into()), to: Some(to.into()) });
    }
    let under = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, part) in &now {
        match by_name_before.get(name.as_str()) {
            Some(before) => descend(*before, *part, &under(name), changes),
            None => changes.push(Change { path: under(name), from: None, to: Some(part.to_json()) }),
        }
    }
    let gone = was.iter().filter(|(name, _)| !by_name.contains_key(name.as_str()));
    changes.extend(gone.map(|(name, part)| Change { path: under(name), from: Some(part.to_json()), to: None }));
}

/// Returns whether two parts are compared item by item: maps, lists of named maps, and lists of as many maps.
fn have_items_in_common(before: &Tree, after: &Tree) -> bool {
    let (was, now) = match (before, after) {
        (Tree::Map(_), Tree::Map(_)) => return true,
        (Tree::List(was), Tree::List(now)) => (was, now),
        _ => return false,
    };
    let are_maps = was.iter().chain(now).all(|item| matches!(item, Tree::Map(_)));
    let have_names = |items: &[Tree]| {
        let names: HashSet<String> = items.iter().filter_map(|item| item.field("name")).map(Tree::to_yaml).collect();
        (!names.is_empty()).then_some(names.len() == items.len())
    };
    are_maps
        && match (have_names(was), have_names(now)) {
            (None, None) => was.len() == now.len(),
            (was, now) => was != Some(false) && now != Some(false),
        }
}

/// Returns the configuration with limits under the names that they have now, by pairs of old and new names.
pub fn renamed(source: &Source, names: &[(String, String)]) -> Source {
    let rename = |tree: &Tree| {
        let mut tree = tree.clone();
        if let Tree::Map(sections) = &mut tree {
            for (name, section) in sections {
                if let ("limits", Tree::Map(limits)) = (name.as_str(), section) {
                    for (name, _) in limits {
                        if let Some((_, now)) = names.iter().find(|(was, _)| was == name) {
                            name.clone_from(now);
                        }
                    }
                }
            }
        }
        tree
    };
    Source {
        settings: source.settings.clone(),
        fingerprint: source.fingerprint.clone(),
        effective: rename(&source.effective),
        shown: rename(&source.shown),
        loaded: source.loaded,
    }
}

/// Everything that is in force from this reload on and was not before.
pub fn followed(before: &Source, after: &Source) -> Vec<Change> {
    let mut changed = changes(before, after);
    changed.retain(|change| !waits(&change.path));
    // secrets are masked in the trees
    let mut add = |path: String| {
        if !changed.iter().any(|change| change.path.starts_with(&path)) {
            changed.push(Change { path, from: None, to: None });
        }
    };
    let secrets = |settings: &Settings| [settings.client_hmac.clone(), settings.previous_client_hmac.clone()];
    if secrets(&before.settings) != secrets(&after.settings) {
        add("secrets.client_hmac".to_owned());
    }
    let were = passwords(before);
    for (store, password) in passwords(after) {
        if were.iter().any(|(name, was)| *name == store && *was != password) {
            add(format!("stores.{store}.password"));
        }
    }
    changed
}

/// Paths of what the process was not built from and does not follow before an upgrade.
pub fn waiting(started: &Source, after: &Source) -> Vec<String> {
    let paths = changes(started, after).into_iter().map(|change| change.path);
    let mut waiting: Vec<String> = paths.filter(|path| waits(path)).collect();
    // the token is masked in the trees
    if started.settings.admin != after.settings.admin && !waiting.iter().any(|path| path.starts_with("admin")) {
        waiting.push("admin.token".to_owned());
    }
    waiting
}

/// The passwords of stores by the names of these.
fn passwords(source: &Source) -> Vec<(String, &Option<Secret>)> {
    let Some(Tree::Map(stores)) = source.effective.field("stores") else { return Vec::new() };
    stores.iter().map(|(name, _)| name.clone()).zip(&source.settings.store_passwords).collect()
}

/// Whether a change there cannot be made while the process runs.
fn waits(path: &str) -> bool {
    /// What can, of the sections that make the process.
    const HOT: [&str; 4] = [
        "telemetry.log.level",
        "telemetry.access_log.client",
        "telemetry.access_log.format",
        "telemetry.access_log.sample",
    ];
    let below =
        |path: &str, of: &str| path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    /// And of what a listener says of its connections.
    const AT_THE_DOOR: [&str; 5] = ["max", "per_client", "handshakes", "refuse", "refuse_at_accept"];
    let steps: Vec<&str> = path.split('.').collect();
    if let ["listeners", .., "connections", word] | ["listeners", .., "connections", word, _] = steps.as_slice()
        && AT_THE_DOOR.contains(word)
    {
        return false;
    }
    if let ["listeners", _, "deny"] | ["listeners", _, "deny", ..] = steps.as_slice() {
        return false;
    }
    let of_process =
        ["version", "listeners", "telemetry", "admin", "server"].iter().any(|section| below(path, section));
    of_process && !HOT.iter().any(|hot| below(path, hot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(listen: &str, routes: &[(&str, &str)]) -> Tree {
        let route =
            |(name, origin): &(&str, &str)| Tree::map([("name", Tree::text(name)), ("origin", Tree::text(origin))]);
        Tree::map([
            ("listeners", Tree::map([("main", Tree::map([("address", Tree::text(listen))]))])),
            ("routes", Tree::List(routes.iter().map(route).collect())),
        ])
    }

    /// The changes in lines: path, before, after.
    fn differences(before: &Tree, after: &Tree) -> Vec<String> {
        let mut changes = Vec::new();
        let part = |tree| Part { tree, shown: Some(tree) };
        descend(part(before), part(after), "", &mut changes);
        let text = |value: Option<Value>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        changes.into_iter().map(|Change { path, from, to }| format!("{path} {} {}", text(from), text(to))).collect()
    }

    #[test]
    fn what_differs_is_named_by_the_shortest_path() {
        let before = tree(":80", &[("a", "x"), ("b", "x"), ("c", "x")]);
        let after = tree(":81", &[("a", "x"), ("b", "y"), ("d", "x")]);
        let expected = [
            r#"listeners.main.address ":80" ":81""#,
            r#"routes.b.origin "x" "y""#,
            r#"routes.d - {"name":"d","origin":"x"}"#,
            r#"routes.c {"name":"c","origin":"x"} -"#,
        ];
        assert_eq!(differences(&before, &after), expected);
        assert_eq!(differences(&before, &before), [""; 0]);
        let changes = Changes::of(&before, &after, "routes");
        assert_eq!(
            (changes.added, changes.changed, changes.removed),
            (vec!["d".into()], vec!["b".into()], vec!["c".into()])
        );
    }

    #[test]
    fn another_order_is_a_difference_beside_others() {
        let before = tree(":80", &[("a", "x"), ("b", "x"), ("c", "x")]);
        let turned = tree(":80", &[("b", "x"), ("a", "y"), ("c", "x")]);
        assert_eq!(
            differences(&before, &turned),
            [r#"routes ["a","b","c"] ["b","a","c"]"#, r#"routes.a.origin "x" "y""#]
        );
        assert_eq!(Changes::of(&before, &turned, "routes").changed, ["a"]);
    }

    #[test]
    fn lists_without_names_are_compared_by_position_or_as_a_whole() {
        let list = |items: &[&[(&str, &str)]]| {
            let item = |fields: &&[(&str, &str)]| Tree::map(fields.iter().map(|(key, text)| (*key, Tree::text(text))));
            Tree::map([("l", Tree::List(items.iter().map(item).collect()))])
        };
        let (one, other) = (list(&[&[("k", "1")], &[("k", "2")]]), list(&[&[("k", "1")], &[("k", "3")]]));
        assert_eq!(differences(&one, &other), [r#"l.1.k "2" "3""#]);
        assert_eq!(differences(&one, &list(&[&[("k", "1")]])), [r#"l [{"k":"1"},{"k":"2"}] [{"k":"1"}]"#]);
        // two of one name could hide a difference of the second
        let twins = |text| list(&[&[("name", "t"), ("k", "1")], &[("name", "t"), ("k", text)]]);
        assert_eq!(differences(&twins("1"), &twins("2")).len(), 1);
    }

    #[test]
    fn what_may_not_be_shown_is_told_without_values() {
        let (before, after) = (Tree::map([("k", Tree::text("1"))]), Tree::map([("k", Tree::text("2"))]));
        let mut changes = Vec::new();
        descend(Part { tree: &before, shown: None }, Part { tree: &after, shown: None }, "", &mut changes);
        assert_eq!(changes, [Change { path: "k".into(), from: Some(HIDDEN.into()), to: Some(HIDDEN.into()) }]);
    }

    #[test]
    fn what_the_process_is_built_from_waits_and_all_else_does_not() {
        for path in
            ["listeners.main.address", "server.threads", "telemetry.metrics", "telemetry.access_log", "admin.address"]
        {
            assert!(waits(path), "{path}");
        }
        for path in [
            "telemetry.log.level",
            "telemetry.access_log.sample.other",
            "telemetry.access_log.client",
            "secrets",
            "watch",
        ] {
            assert!(!waits(path), "{path}");
        }
        assert!(!waits("listeners.main.connections.refuse") && !waits("listeners.a.b.connections.max"));
        assert!(!waits("listeners.main.deny") && !waits("listeners.main.deny.0.file"));
        assert!(waits("listeners.main.connections.idle") && waits("listeners.main.connections"));
        assert!(waits("telemetry.log.format") && waits("telemetry.access_log.to") && waits("version"));
    }
}
