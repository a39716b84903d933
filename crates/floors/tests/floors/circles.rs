//! No file uses another that uses it again, over however many steps: so every file can be read, and moved, with those below it alone.
//!
//! What counts is where a name is defined: a name that a module only hands on leads to the file that it comes from. To hand a name on
//! is no use of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{SOURCES, below, product, root};

/// A module: its crate, and its path inside.
type Module = (String, Vec<String>);

/// One name that a `use` brings into a module, or hands on.
struct Brought {
    path: Vec<String>,
    handed_on: bool,
}

#[derive(Default)]
struct Contents {
    file: PathBuf,
    /// By the names that they have here.
    brought: BTreeMap<String, Brought>,
    /// Modules all of whose names are brought in.
    globs: Vec<Brought>,
    /// Paths in the code itself.
    named: Vec<Vec<String>>,
}

#[derive(Default)]
pub struct House {
    modules: BTreeMap<Module, Contents>,
}

impl House {
    /// All files of the project but for their tests.
    pub fn read() -> House {
        let root = root();
        let mut house = House::default();
        for folder in SOURCES {
            let name = folder.split('/').nth(1).map_or("tidegate".to_owned(), |name| format!("tidegate_{name}"));
            for file in below(folder) {
                let inside = file.strip_prefix(root.join(folder)).unwrap().to_str().unwrap().to_owned();
                if inside == "main.rs" || inside.split(['/', '.']).any(|part| part == "tests") {
                    continue;
                }
                let text: Vec<String> = product(&file).into_iter().map(|(_, statement)| statement).collect();
                house.add(&name, &inside, file, &text);
            }
        }
        house
    }

    fn add(&mut self, krate: &str, inside: &str, file: PathBuf, statements: &[String]) {
        let path = inside.trim_end_matches(".rs").trim_end_matches("/mod");
        let path = if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() };
        let mut contents = Contents { file, ..Contents::default() };
        for statement in statements {
            let Some((handed_on, tree)) = used(statement) else {
                contents.named.extend(paths(statement));
                continue;
            };
            for (path, name) in leaves(tree) {
                match name {
                    Some(name) => drop(contents.brought.insert(name, Brought { path, handed_on })),
                    None => contents.globs.push(Brought { path, handed_on }),
                }
            }
        }
        self.modules.insert((krate.to_owned(), path), contents);
    }

    /// The file in which what a path names is defined, as far as it is one of these.
    fn home(&self, from: &Module, path: &[String], depth: u32) -> Option<Module> {
        let (mut at, mut rest) = (from.clone(), path);
        let mut led = false;
        while let Some((first, others)) = rest.split_first() {
            let crates = || self.modules.keys().any(|(krate, _)| krate == first);
            match first.as_str() {
                "crate" => at.1.clear(),
                "self" => {}
                "super" => drop(at.1.pop()?),
                _ if !led && crates() => at = (first.clone(), Vec::new()),
                _ => break,
            }
            (led, rest) = (true, others);
        }
        let mut within = led;
        for (place, name) in rest.iter().enumerate() {
            let mut child = at.clone();
            child.1.push(name.clone());
            if self.modules.contains_key(&child) {
                (at, within) = (child, true);
                continue;
            }
            let Some(brought) = self.modules.get(&at)?.brought.get(name).filter(|_| depth > 0) else {
                // an item of this module, or of a library
                return within.then_some(at);
            };
            let whole = [&brought.path[..], &rest[place + 1..]].concat();
            return self.home(&at, &whole, depth - 1);
        }
        within.then_some(at)
    }

    /// Which files each file uses, and what it names of them.
    fn uses(&self) -> BTreeMap<&Path, BTreeMap<&Path, BTreeSet<&str>>> {
        let mut uses: BTreeMap<&Path, BTreeMap<&Path, BTreeSet<&str>>> = BTreeMap::new();
        for (module, contents) in &self.modules {
            let brought = contents.brought.values().chain(&contents.globs).filter(|brought| !brought.handed_on);
            for path in brought.map(|brought| &brought.path).chain(&contents.named) {
                let Some(home) = self.home(module, path, 8) else { continue };
                let to = &self.modules[&home].file;
                if *to != contents.file {
                    let name = path.last().map_or("*", String::as_str);
                    uses.entry(&contents.file).or_default().entry(to).or_default().insert(name);
                }
            }
        }
        uses
    }

    /// Each circle once, by one of the shortest ways round it.
    pub fn circles(&self) -> Vec<String> {
        let uses = self.uses();
        let mut known: BTreeSet<&Path> = BTreeSet::new();
        let mut circles = Vec::new();
        for start in uses.keys() {
            if known.contains(start) {
                continue;
            }
            // breadth first, back to where it began
            let (mut before, mut next): (BTreeMap<&Path, &Path>, Vec<&Path>) = (BTreeMap::new(), vec![start]);
            let mut last = None;
            while let (None, Some(file)) = (last, (!next.is_empty()).then(|| next.remove(0))) {
                for to in uses.get(file).into_iter().flat_map(BTreeMap::keys) {
                    if to == start {
                        last = Some(file);
                    } else if !before.contains_key(to) && !known.contains(to) {
                        before.insert(to, file);
                        next.push(to);
                    }
                }
            }
            let Some(last) = last else { continue };
            let mut way = vec![last];
            while let Some(file) = before.get(way[way.len() - 1]).filter(|_| way[way.len() - 1] != *start) {
                way.push(file);
            }
            way.reverse();
            known.extend(&way);
            let root = root();
            let steps = way.iter().zip(way.iter().cycle().skip(1)).map(|(file, next)| {
                let names: Vec<&str> = uses[file][next].iter().copied().collect();
                format!("{} ({}) →", file.strip_prefix(root).unwrap_or(file).display(), names.join(", "))
            });
            circles.push(steps.collect::<Vec<_>>().join(" "));
        }
        circles
    }
}

/// What a `use` statement says, and whether it hands on.
fn used(statement: &str) -> Option<(bool, &str)> {
    let statement = statement.trim_start();
    let (handed_on, rest) = match statement.strip_prefix("pub") {
        Some(rest) => {
            (true, rest.trim_start().trim_start_matches("(crate)").trim_start_matches("(super)").trim_start())
        }
        None => (false, statement),
    };
    Some((handed_on, rest.strip_prefix("use ")?.trim_end().trim_end_matches(';')))
}

/// Every path of a `use` with the name that it has here; none for all names.
fn leaves(tree: &str) -> Vec<(Vec<String>, Option<String>)> {
    fn walk(tree: &str, before: &[String], found: &mut Vec<(Vec<String>, Option<String>)>) {
        let tree = tree.trim();
        if let Some((path, list)) = tree.split_once('{') {
            let mut before = before.to_vec();
            before.extend(path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
            let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
            let (mut depth, mut start) = (0, 0);
            for (at, byte) in list.bytes().enumerate().chain([(list.len(), b',')]) {
                match byte {
                    b'{' => depth += 1,
                    b'}' => depth -= 1,
                    b',' if depth == 0 => {
                        if !list[start..at].trim().is_empty() {
                            walk(&list[start..at], &before, found);
                        }
                        start = at + 1;
                    }
                    _ => {}
                }
            }
            return;
        }
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
        let mut whole = before.to_vec();
        whole.extend(path.split("::").map(|part| part.trim().to_owned()));
        match whole.last().map(String::as_str) {
            Some("*") => {
                whole.pop();
                found.push((whole, None));
            }
            Some("self") => {
                whole.pop();
                let name = alias.map_or_else(|| whole.last().cloned().unwrap_or_default(), str::to_owned);
                found.push((whole, Some(name)));
            }
            _ => {
                let name = alias.map_or_else(|| whole.last().cloned().unwrap_or_default(), str::to_owned);
                found.push((whole, Some(name)));
            }
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Paths of two parts or more in a line of code.
fn paths(line: &str) -> Vec<Vec<String>> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .filter(|word| word.contains("::"))
        .map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>())
        .filter(|path| path.len() > 1)
        .collect()
}

#[test]
fn no_file_uses_one_that_uses_it() {
    let circles = House::read().circles();
    assert!(circles.is_empty(), "{} circles:\n{}", circles.len(), circles.join("\n"));
}

#[test]
fn a_circle_is_found_however_its_names_are_spelt() {
    let mut house = House::default();
    let mut add = |inside: &str, text: &[&str]| {
        let text: Vec<String> = text.iter().map(|line| (*line).to_owned()).collect();
        house.add("tidegate", inside, PathBuf::from(inside), &text);
    };
    add("lib.rs", &["pub use self::a::{One, b::Two as Zwei};"]);
    add("a/mod.rs", &["pub mod b;", "pub struct One;", "pub use c::Three;"]);
    add("a/b.rs", &["use super::{self as up, One};", "pub struct Two;"]);
    add("a/c.rs", &["pub struct Three(crate::Zwei);"]);
    assert_eq!(house.circles(), [""; 0], "what is handed on is not used");
    let mut add = |inside: &str, text: &str| house.add("tidegate", inside, PathBuf::from(inside), &[text.to_owned()]);
    add("d.rs", "use crate::{a::Three, e};");
    add("e.rs", "fn f() { crate::d::g() }");
    assert_eq!(house.circles(), ["d.rs (e) → e.rs (g) →"]);
    house.add("tidegate", "a/b.rs", PathBuf::from("a/b.rs"), &["use crate::a::{Three};".to_owned()]);
    assert_eq!(house.circles(), ["a/b.rs (Three) → a/c.rs (Zwei) →", "d.rs (e) → e.rs (g) →"]);
}
