//! What two effective configurations differ in, as paths.

use serde::Serialize;

use crate::config::Tree;

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
pub fn paths(before: &Tree, after: &Tree) -> Vec<String> {
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
}
