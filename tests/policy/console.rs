//! Pages whose console blocks are what the binary prints: run again, and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;

use crate::path;

/// A folder of its own.
pub fn home(name: &str) -> PathBuf {
    let home = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
    fs::create_dir_all(&home).unwrap();
    home
}

/// Runs a line as a shell would.
pub fn shell(home: &Path, line: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let search = format!("{}:/usr/bin:/bin", binary.display());
    Command::new("sh").args(["-c", line]).current_dir(home).env_clear().env("PATH", search).output().unwrap()
}

/// What it printed.
pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What it said.
pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Without what differs from run to run: how long it took, and pseudonyms, whose secret is drawn anew.
pub fn settled(text: &str) -> String {
    let took = Regex::new(r"(?m) in (\d+\.\d s\b|\d+(\.\d)? (ms|s)$)").unwrap().replace_all(text, " in 0.1 s");
    let pseudonym = Regex::new(r"(?m)^[A-Za-z0-9_-]{22}( |$)").unwrap();
    let mut number = 0;
    let numbered = |found: &regex::Captures<'_>| {
        number += 1;
        // as long as one
        format!("pseudonym-of-client-{number:02}{}", &found[1])
    };
    let text = pseudonym.replace_all(&took, numbered).into_owned();
    // how far it has come is told on a slow machine only
    let lines = text.lines().filter(|line| !line.ends_with(" lines/s"));
    lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Runs every command of a page in `home`, one after the other, and fails unless the page shows what they print. With
/// `UPDATE_EXPECTED` in the environment the page is rewritten. `codes`: how a command may end. Says how many ran.
#[track_caller]
pub fn page(name: &str, home: &Path, codes: &[i32]) -> usize {
    let file = path(name);
    let page = fs::read_to_string(&file).unwrap();
    let block = Regex::new(r"(?s)```console\n(.*?)```").unwrap();
    let mut ran = 0;
    let now = block.replace_all(&page, |found: &regex::Captures<'_>| {
        let mut text = String::from("```console\n");
        for line in found[1].lines().filter_map(|line| line.strip_prefix("$ ")) {
            let output = shell(home, line);
            assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{line}\n{}", err(&output));
            text.push_str(&format!("$ {line}\n"));
            for said in [out(&output), err(&output)] {
                let said = settled(&said);
                text.push_str(&said);
                text.push_str(if said.is_empty() { "" } else { "\n" });
            }
            ran += 1;
        }
        text + "```"
    });
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&file, &*now).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap();
    // a policy's fingerprint changes with every word that its effective form learns
    let hash = Regex::new(r"(?m)^( +config +)[0-9a-f]{12}\b").unwrap();
    let masked = |text: &str| hash.replace_all(text, "${1}HASH").into_owned();
    assert!(
        masked(&committed) == masked(&now),
        "{name} is not what is printed now; UPDATE_EXPECTED=1 rewrites it:\n{now}"
    );
    ran
}

/// The first block of a page that is a policy file.
pub fn policy_of(name: &str) -> String {
    let page = fs::read_to_string(path(name)).unwrap();
    let block = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("{name} has no policy")).to_owned()
}
