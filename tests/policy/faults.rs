//! `faults/NAME.yaml` beside `faults/NAME.txt`, the whole text that an operator sees. After a deliberate change of a message,
//! `UPDATE_EXPECTED=1 cargo test --test policy faults` rewrites the expected texts; the difference is then for review.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tidegate::config::code::Code;
use tidegate::config::load_text;
use tidegate::config::render::{Format, render};

use crate::{environment, path};

fn broken_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(path("tests/policy/faults"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

/// What `check` says about a file, with names that are the same on every machine.
fn told(file: &PathBuf) -> (String, bool, BTreeSet<&'static str>) {
    let directory = path("tests/policy/faults");
    // what everybody can read is a matter of whoever checked the files out
    for key in ["site.key", "other.key", "nameless.key", "locked.key"] {
        fs::set_permissions(directory.join("tls").join(key), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let name = file.file_name().unwrap().to_str().unwrap();
    let loaded = load_text(name, &fs::read_to_string(file).unwrap(), &environment, &directory);
    let text = render(&loaded, Format::Text, false).replace(&format!("{}/", directory.display()), "");
    let codes = loaded.diagnostics.iter().map(|fault| fault.code.text()).collect();
    (text, loaded.outcome.is_err(), codes)
}

#[test]
fn every_broken_file_is_refused_with_its_text() {
    let files = broken_files();
    assert!(files.len() >= 50, "only {} broken files", files.len());
    let mut wrong = Vec::new();
    for file in &files {
        let (text, refused, _) = told(file);
        assert!(refused, "{} was accepted", file.display());
        let expected = file.with_extension("txt");
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            fs::write(&expected, &text).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != text {
            wrong.push(format!("== {}\n{text}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
}

/// Nothing of a variable's value comes out, wherever it was used.
#[test]
fn values_of_variables_are_never_told() {
    for file in broken_files() {
        assert!(!told(&file).0.contains("hunter2"), "{}", file.display());
    }
}

/// A code without a file that shows it is a message that nobody has read.
#[test]
fn every_error_code_has_a_file() {
    // shown by tests of their own: unreadable, too large, not UTF-8, what only `check` adds, what needs a file without errors
    const ELSEWHERE: [&str; 12] =
        ["E0001", "E0002", "E0003", "E0007", "E0325", "W0409", "W0412", "W0413", "W0418", "W0420", "W0440", "W0442"];
    let seen: BTreeSet<&str> = broken_files().iter().flat_map(|file| told(file).2).collect();
    let missing: Vec<&str> = Code::ALL
        .iter()
        .map(|(code, _)| code.text())
        .filter(|code| !seen.contains(code) && !ELSEWHERE.contains(code))
        .collect();
    assert!(missing.is_empty(), "no broken file shows {missing:?}");
}
