//! The differences between two configurations, as paths.

use serde::Serialize;

use crate::config::Tree;
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
    /// Those of a section: a map, or a list of maps with a `name`.
    pub fn of(before: &Tree, after: &Tree, section: &str) -> Changes {
        let (before, after) = (named(before.field(section)), named(after.field(section)));
        let of = |list: &[(String, &Tree)], name: &str| {
            list.iter().find(|(other, _)| other == name).map(|(_, tree)| (*tree).clone())
        };
        let names = |list: &[(String, &Tree)], keep: &dyn Fn(&str) -> bool| -> Vec<String> {
            list.iter().map(|(name, _)| name.clone()).filter(|name| keep(name)).collect()
        };
        Changes {
            added: names(&after, &|name| of(&before, name).is_none()),
            changed: names(&after, &|name| of(&before, name).is_some_and(|was| Some(was) != of(&after, name))),
            removed: names(&before, &|name| of(&after, name).is_none()),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// The items of a section by their names; of a list without names, by their places.
fn named(section: Option<&Tree>) -> Vec<(String, &Tree)> {
    match section {
        Some(Tree::Map(fields)) => fields.iter().map(|(name, tree)| (name.clone(), tree)).collect(),
        Some(tree @ Tree::List(items)) => tree.steps().into_iter().zip(items).collect(),
        Some(Tree::Text(_) | Tree::Written(_)) | None => Vec::new(),
    }
}

/// The paths of everything that differs, the shortest that say where: of what is on one side only, its own.
fn paths(before: &Tree, after: &Tree) -> Vec<String> {
    let mut paths = Vec::new();
    descend(before, after, "", &mut paths);
    paths
}

fn descend(before: &Tree, after: &Tree, path: &str, paths: &mut Vec<String>) {
    if before == after {
        return;
    }
    let same_kind = matches!((before, after), (Tree::Map(_), Tree::Map(_)) | (Tree::List(_), Tree::List(_)));
    let (was, now) = (named(Some(before)), named(Some(after)));
    let texts = |list: &[(String, &Tree)]| list.iter().all(|(_, item)| matches!(item, Tree::Text(_)));
    if !same_kind || (matches!(before, Tree::List(_)) && (texts(&was) || texts(&now))) {
        paths.push(path.to_owned());
        return;
    }
    let count = paths.len();
    let under = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, tree) in &now {
        match was.iter().find(|(other, _)| other == name) {
            Some((_, before)) => descend(before, tree, &under(name), paths),
            None => paths.push(under(name)),
        }
    }
    let gone = was.iter().filter(|(name, _)| !now.iter().any(|(other, _)| other == name));
    paths.extend(gone.map(|(name, _)| under(name)));
    if paths.len() == count {
        // the same things in another order
        paths.push(path.to_owned());
    }
}

/// Paths of what is in force from this reload on, beside routes, origins and limits.
pub fn followed(before: &Source, after: &Source) -> Vec<String> {
    let of_policy = |path: &str| matches!(path.split('.').next(), Some("routes" | "origins" | "limits"));
    let mut changed = paths(&before.effective, &after.effective);
    changed.retain(|path| !of_policy(path) && !waits(path));
    // secrets are masked in the trees
    let secrets = |settings: &Settings| [settings.client_hmac.clone(), settings.previous_client_hmac.clone()];
    if secrets(&before.settings) != secrets(&after.settings) && !changed.iter().any(|path| path.starts_with("secrets"))
    {
        changed.push("secrets.client_hmac".to_owned());
    }
    let were = passwords(before);
    for (store, password) in passwords(after) {
        let path = format!("stores.{store}.password");
        if were.iter().any(|(name, was)| *name == store && *was != password) && !changed.contains(&path) {
            changed.push(path);
        }
    }
    changed
}

/// Paths of what the process was not built from and does not follow before an upgrade.
pub fn waiting(started: &Source, after: &Source) -> Vec<String> {
    let mut waiting = paths(&started.effective, &after.effective);
    waiting.retain(|path| waits(path));
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

    #[test]
    fn what_differs_is_named_by_the_shortest_path() {
        let before = tree(":80", &[("a", "x"), ("b", "x"), ("c", "x")]);
        let after = tree(":81", &[("a", "x"), ("b", "y"), ("d", "x")]);
        assert_eq!(paths(&before, &after), ["listeners.main.address", "routes.b.origin", "routes.d", "routes.c"]);
        assert_eq!(paths(&before, &before), [""; 0]);
        let turned = tree(":80", &[("b", "x"), ("a", "x"), ("c", "x")]);
        assert_eq!(paths(&before, &turned), ["routes"]);
        let changes = Changes::of(&before, &after, "routes");
        assert_eq!(
            (changes.added, changes.changed, changes.removed),
            (vec!["d".into()], vec!["b".into()], vec!["c".into()])
        );
        assert!(Changes::of(&before, &turned, "routes").is_empty());
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
        assert!(waits("listeners.main.connections.idle") && waits("listeners.main.connections"));
        assert!(waits("telemetry.log.format") && waits("telemetry.access_log.to") && waits("version"));
    }
}
