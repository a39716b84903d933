//! Builds all changes of a sample at once, each behind a switch.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::find::{Change, Form};

/// The tests that are built: a crate for those beside the code, or a folder of `tests`.
pub const TESTS: [&str; 8] = ["limits", "policy", "client", "sketch", "laws", "door", "leases", "sources"];

/// Those of them that are crates. Each has changes of its own, and so a switch.
const CRATES: [&str; 2] = ["limits", "policy"];

/// What stands for `serve` and `cli`; without them, and the framework that they bring, a build takes a third of the time. `tests/sources` needs one of
/// its files, which needs nothing of the others.
const SERVE: &str = "pub mod serve { pub mod telling { pub mod pseudonym; } }";

/// Appended to the `lib.rs` of a crate. The variable is read at once, as a decision must not allocate.
const SWITCH: &str = r#"
pub mod mutants {
    static ON: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
        std::env::var("TIDEGATE_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(usize::MAX)
    });
    #[inline]
    pub fn on(number: usize) -> bool {
        *ON == number
    }
}
"#;

/// The position of the changes that compile, and the program of each of [`TESTS`].
pub fn build(chosen: &[Change], work: &Path) -> (BTreeSet<usize>, BTreeMap<&'static str, PathBuf>) {
    let tree = work.join("tree");
    copy_tree(chosen, &tree);
    let mut built: BTreeSet<usize> = (0..chosen.len()).collect();
    loop {
        let places = write(chosen, &built, &tree);
        let said = match compile(&tree) {
            Ok(programs) => return (built, programs),
            Err(said) => said,
        };
        let faulty = faulty(&said, &places);
        assert!(!faulty.is_empty(), "{said}\nthe tree does not build");
        for number in faulty {
            built.remove(&number);
        }
    }
}

/// Copies what git knows or would know, as it is in the working tree, but for the files that are changed.
fn copy_tree(chosen: &[Change], tree: &Path) {
    let list =
        Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    for file in list.split_terminator('\0').filter(|file| !chosen.iter().any(|change| change.file == *file)) {
        // one that git knows may have been removed
        let Ok(content) = fs::read(file) else { continue };
        match file {
            // without the program, whose place in the target folder is the real one's
            "src/main.rs" => {}
            "Cargo.toml" => update(&tree.join(file), without_program(&String::from_utf8(content).unwrap()).as_bytes()),
            "src/lib.rs" => update(&tree.join(file), without_faces(&String::from_utf8(content).unwrap()).as_bytes()),
            _ if CRATES.iter().any(|name| *file == library(name)) => {
                let text = String::from_utf8(content).unwrap();
                update(&tree.join(file), format!("#![allow(warnings)]\n{text}{SWITCH}").as_bytes());
            }
            _ => update(&tree.join(file), &content),
        }
    }
}

fn without_program(manifest: &str) -> String {
    let (before, program) = manifest.split_once("[[bin]]").expect("a program");
    let (_, after) = program.split_once("\n\n").expect("a table after it");
    format!("{before}{after}")
}

fn library(name: &str) -> String {
    format!("crates/{name}/src/lib.rs")
}

fn without_faces(lib: &str) -> String {
    let lines = lib.lines().filter(|line| *line != "pub mod cli;");
    let lines: Vec<&str> = lines.map(|line| if line == "pub mod serve;" { SERVE } else { line }).collect();
    format!("#![allow(warnings)]\n{}", lines.join("\n"))
}

/// Cargo builds again what was written, so what is the same is left alone.
fn update(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|before| before == content) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Where each change is: its file and its lines there.
type Places = Vec<(usize, String, std::ops::RangeInclusive<usize>)>;

/// Writes the files with these changes.
fn write(chosen: &[Change], built: &BTreeSet<usize>, tree: &Path) -> Places {
    let files: BTreeSet<&str> = chosen.iter().map(|change| change.file.as_str()).collect();
    let mut places = Places::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let mut here: Vec<(usize, &Change)> = chosen.iter().enumerate().filter(|(_, one)| one.file == file).collect();
        here.sort_by_key(|(_, change)| change.bytes.start);
        let (mut changed, mut done) = (String::new(), 0);
        for (number, change) in here.into_iter().filter(|(number, _)| built.contains(number)) {
            changed += &text[done..change.bytes.start];
            let first = 1 + changed.matches('\n').count();
            let (from, to) = (&text[change.bytes.clone()], &change.to);
            let on = format!("crate::mutants::on({number})");
            changed += &match change.form {
                Form::Expression => format!("(if {on} {{ {to} }} else {{ {from} }})"),
                Form::Statement => format!("if !{on} {{ {from} }}"),
                Form::Body => format!(" if {on} {{ {to} }} "),
            };
            places.push((number, file.to_owned(), first..=1 + changed.matches('\n').count()));
            done = change.bytes.end;
        }
        changed += &text[done..];
        update(&tree.join(file), changed.as_bytes());
    }
    places
}

/// The programs by their tests' names, or what the compiler said.
fn compile(tree: &Path) -> Result<BTreeMap<&'static str, PathBuf>, String> {
    let mut cargo = Command::new(std::env::var("TIDEGATE_CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.args(["test", "--locked", "--no-run", "--lib", "--package", "tidegate"]).current_dir(tree);
    for test in TESTS {
        if CRATES.contains(&test) {
            cargo.args(["--package", &format!("tidegate-{test}")])
        } else {
            cargo.args(["--test", test])
        };
    }
    // tests spend their time in sketches, and nobody debugs them
    cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_TERM_COLOR", "never");
    // never the project's own: cargo takes the copy for the project, as both have one name and one place below their roots
    let target = std::env::current_dir().unwrap().join(tree.parent().unwrap().join("build"));
    cargo.env("CARGO_TARGET_DIR", target);
    let output = cargo.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(said);
    }
    // Executable unittests crates/limits/src/lib.rs (/…/deps/tidegate_limits-0123), or src/lib.rs of the package
    let mut programs = BTreeMap::new();
    for line in said.lines().filter_map(|line| line.trim().strip_prefix("Executable ")) {
        let (source, program) = line.trim_end_matches(')').split_once(" (").unwrap();
        let named = |test: &&&str| {
            program.contains(&format!("deps/tidegate_{}-", **test))
                || source.ends_with(&format!("tests/{test}/main.rs"))
        };
        if let Some(test) = TESTS.iter().find(named) {
            programs.insert(*test, PathBuf::from(program));
        }
    }
    assert_eq!(programs.len(), TESTS.len(), "{said}");
    Ok(programs)
}

/// The changes in whose lines the compiler found errors.
fn faulty(said: &str, places: &Places) -> BTreeSet<usize> {
    let mut faulty = BTreeSet::new();
    let mut is_error = false;
    for line in said.lines() {
        if line.starts_with("error") || line.starts_with("warning") {
            is_error = line.starts_with("error");
        }
        let Some(place) = line.trim_start().strip_prefix("--> ").filter(|_| is_error) else { continue };
        let mut parts = place.split(':');
        let (Some(file), Some(Ok(at))) = (parts.next(), parts.next().map(str::parse::<usize>)) else { continue };
        faulty.extend(
            places.iter().filter(|(_, of, lines)| of == file && lines.contains(&at)).map(|(number, ..)| *number),
        );
    }
    faulty
}
