//! Which files make one configuration: a file and those it includes, or all `*.yaml` of a directory.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::fault::{Code, Diagnostic, Faults};
use super::node::{Entry, Node, Value};
use super::parse::parse;
use super::quoted::quoted;
use super::source::Sources;
use super::span::Span;
use super::variable::Environment;

/// More files than this are refused.
const MAX_FILES: usize = 1_000;

/// Reads files, and makes one tree of theirs.
pub struct Reader<'a> {
    /// Where texts are kept.
    pub sources: &'a mut Sources,
    /// Where faults go.
    pub faults: &'a mut Faults,
    /// Variables.
    pub environment: &'a Environment<'a>,
}

impl Reader<'_> {
    /// The tree of a file or directory, and the directory that relative paths start from.
    pub fn path(&mut self, path: &Path) -> (Option<Node>, PathBuf) {
        if !path.is_dir() {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new(".")).to_owned();
            let root = if path.try_exists().is_ok_and(|exists| !exists) {
                self.faults.push(self.sources.missing(path));
                None
            } else {
                self.file(path)
            };
            return (self.with_includes(root.into_iter().collect(), &directory), directory);
        }
        let files = match list(path, |name| name.ends_with(".yaml")) {
            Ok(files) => files,
            Err(error) => {
                self.unreadable(path, &error.to_string());
                return (None, path.to_owned());
            }
        };
        if files.is_empty() {
            self.unreadable(path, "it holds no file whose name ends with .yaml");
            return (None, path.to_owned());
        }
        let roots = files.iter().filter_map(|file| self.file(file)).collect();
        (self.with_includes(roots, path), path.to_owned())
    }

    /// The tree of a text that has been added to the sources.
    pub fn text(&mut self, source: usize, directory: &Path) -> Option<Node> {
        let root = parse(source, self.sources, self.environment, self.faults);
        self.with_includes(root.into_iter().collect(), directory)
    }

    fn file(&mut self, path: &Path) -> Option<Node> {
        match self.sources.read(path) {
            Ok(source) => parse(source, self.sources, self.environment, self.faults),
            Err(fault) => {
                self.faults.push(*fault);
                None
            }
        }
    }

    fn unreadable(&mut self, path: &Path, cause: &str) {
        let at = self.sources.add(path.display().to_string(), "");
        self.faults.push(
            Diagnostic::error(Code::UNREADABLE, Span::new(at, 0, 0), format!("cannot read `{}`", path.display()))
                .label(cause),
        );
    }

    /// One tree from main files and what they include.
    fn with_includes(&mut self, mut roots: Vec<Node>, directory: &Path) -> Option<Node> {
        let patterns: Vec<(String, Span)> = roots
            .iter()
            .filter_map(|root| root.field("include"))
            .filter_map(|include| if let Value::List(items) = &include.value { Some(items) } else { None })
            .flatten()
            .filter_map(|item| Some((item.as_text()?.text.clone(), item.span)))
            .collect();
        let mut included: Vec<PathBuf> = Vec::new();
        for (pattern, at) in patterns {
            for file in self.matching(&pattern, at, directory) {
                if included.contains(&file) {
                    continue;
                }
                if included.len() == MAX_FILES {
                    self.faults.push(
                        Diagnostic::error(Code::INCLUDE, at, "too many files")
                            .label(format!("allowed are {MAX_FILES}")),
                    );
                    return join(roots, self.faults);
                }
                if let Some(root) = self.file(&file) {
                    if let Some(entry) = root.as_map().iter().flat_map(|map| map.iter()).find(|e| e.key == "include") {
                        self.faults.push(
                            Diagnostic::error(Code::INCLUDE, entry.key_span, "an included file includes others")
                                .label("only main files may")
                                .help("name those files in the main file"),
                        );
                    }
                    roots.push(root);
                }
                included.push(file);
            }
        }
        join(roots, self.faults)
    }

    /// The files that an `include:` entry names, in the order of their names.
    fn matching(&mut self, pattern: &str, at: Span, directory: &Path) -> Vec<PathBuf> {
        let mut refuse = |label: &str| {
            self.faults
                .push(Diagnostic::error(Code::INCLUDE, at, format!("cannot include {}", quoted(pattern))).label(label));
            Vec::new()
        };
        let path = Path::new(pattern);
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return refuse("must be a path below the directory of the policy file, without `..`");
        }
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return refuse("must name files") };
        let folder = directory.join(path.parent().unwrap_or(Path::new("")));
        if folder.to_string_lossy().contains('*') {
            return refuse("`*` may stand in the last part only");
        }
        let files = if name.contains('*') {
            match list(&folder, |file| !file.starts_with('.') && glob(name, file)) {
                Ok(files) => files,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return refuse(&error.to_string()),
            }
        } else {
            vec![folder.join(name)]
        };
        if files.is_empty() {
            self.faults.push(
                Diagnostic::new(Code::NO_FILES, at, format!("{} matches no file", quoted(pattern)))
                    .label("nothing is included"),
            );
        }
        let home = directory.canonicalize();
        let inside = |file: &PathBuf| match (&home, file.canonicalize()) {
            (Ok(home), Ok(file)) => file.starts_with(home),
            // reading it will say why
            _ => true,
        };
        let (inside, outside): (Vec<_>, Vec<_>) = files.into_iter().partition(inside);
        for file in outside {
            self.faults.push(
                Diagnostic::error(Code::INCLUDE, at, format!("cannot include {}", quoted(&file.display().to_string())))
                    .label("a link leads out of the directory of the policy file"),
            );
        }
        inside
    }
}

/// The files of a directory whose names are wanted, in the order of their names.
fn list(directory: &Path, wanted: impl Fn(&str) -> bool) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Whether a name fits a pattern in which `*` stands for any text. Takes time in the product of their lengths at most.
fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let (Some(first), Some(last)) = (parts.next(), parts.next_back()) else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    true
}

/// One tree from several: lists of routes follow each other, maps of names are joined, anything else may stand in one
/// file only.
fn join(roots: Vec<Node>, faults: &mut Faults) -> Option<Node> {
    let mut roots = roots.into_iter();
    let mut joined = roots.next()?;
    for root in roots {
        let (Value::Map(into), Value::Map(from)) = (&mut joined.value, root.value) else {
            faults.push(Diagnostic::error(Code::SHAPE, root.span, "expected a map of sections").label("no map"));
            continue;
        };
        for entry in from {
            match into.iter_mut().find(|known| known.key == entry.key) {
                None => into.push(entry),
                Some(known) => add(known, entry, faults),
            }
        }
    }
    Some(joined)
}

fn add(known: &mut Entry, entry: Entry, faults: &mut Faults) {
    if entry.key.starts_with("x-") || matches!(entry.key.as_str(), "version" | "include") {
        return;
    }
    let by_name = matches!(entry.key.as_str(), "listeners" | "origins" | "limits");
    match (&mut known.value.value, entry.value.value) {
        (Value::List(into), Value::List(from)) if entry.key == "routes" => into.extend(from),
        (Value::Map(into), Value::Map(from)) if by_name => {
            for field in from {
                match into.iter().find(|known| known.key == field.key && !field.key.starts_with("x-")) {
                    None => into.push(field),
                    Some(first) => faults.push(
                        Diagnostic::error(
                            Code::DUPLICATE_NAME,
                            field.key_span,
                            format!("{} is here twice", quoted(&field.key)),
                        )
                        .label("a second time")
                        .related(first.key_span, "first here"),
                    ),
                }
            }
        }
        _ => faults.push(
            Diagnostic::error(Code::DUPLICATE_FIELD, entry.key_span, format!("{} is here twice", quoted(&entry.key)))
                .label("may stand in one file only")
                .related(known.key_span, "first here"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name) in [("*.yaml", "a.yaml"), ("*", "x"), ("a*b*c", "aXbXc"), ("a*", "a"), ("x", "x")] {
            assert!(glob(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.yaml", "a.yml"), ("a*a", "a"), ("a*b*c", "acb"), ("x", "y")] {
            assert!(!glob(pattern, name), "{pattern} {name}");
        }
    }
}
