//! Every YAML block of the documents is loaded, and the tests in it are run: what is shown works.
//!
//! The word behind `yaml` at a block's fence says what it is. None: a whole policy, without an error or a warning. `fragment`: a part
//! of one; a listener and a route are added where it has none, and nobody minds that its limits and origins are not used yet.
//! `files`: the same, and
//! it names certificates or secrets that are not here. `foreign`: the file of another program, which only has to be YAML.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::config::render::{Format, render};
use tidegate::config::{Loaded, load_text};
use tidegate::explain::Book;
use tidegate::scenario;

use crate::{environment, path};

/// A block, and where it stands.
struct Block {
    file: PathBuf,
    line: usize,
    kind: String,
    text: String,
}

fn documents() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![path("README.md")];
    walk(&path("docs"), &mut found);
    found.sort();
    found
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for file in documents() {
        let text = fs::read_to_string(&file).unwrap();
        let mut open: Option<Block> = None;
        for (index, line) in text.lines().enumerate() {
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, Some(info)) => {
                    let kind = info.strip_prefix("yaml").map_or("none", str::trim).to_owned();
                    open = Some(Block { file: file.clone(), line: index + 2, kind, text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take().filter(|block| block.kind != "none")),
                (Some(block), None) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
    }
    blocks
}

/// A fragment as a whole.
fn completed(text: &str) -> String {
    let has = |word: &str| text.lines().any(|line| line.starts_with(word));
    let mut whole = text.to_owned();
    if !has("listen:") && !has("listeners:") {
        whole.push_str("listen: \":8080\"\n");
    }
    if !has("origins:") && text.contains("origin:shop") {
        whole.push_str("origins: { shop: { addresses: [\"127.0.0.1:3000\"], inflight: 400 } }\n");
    }
    if !has("routes:") {
        whole.push_str("routes: [{ origin: \"127.0.0.1:3000\" }]\n");
    }
    whole
}

fn loaded(block: &Block) -> Loaded {
    let text = if !block.kind.is_empty() { completed(&block.text) } else { block.text.clone() };
    let mut loaded = load_text("block.yaml", &text, &environment, &path("conf"));
    if !block.kind.is_empty() {
        loaded.diagnostics.retain(|fault| !matches!(fault.code.text(), "W0401" | "W0402"));
    }
    if block.kind == "files" {
        let told = loaded.diagnostics.len();
        let of_files = |code: &str| ["E0313", "E0320"].contains(&code);
        loaded.diagnostics.retain(|fault| !of_files(fault.code.text()) || !fault.label.starts_with("No such file"));
        assert!(told > loaded.diagnostics.len(), "{}:{}: all files are here", block.file.display(), block.line);
    }
    loaded
}

#[test]
fn every_yaml_block_of_the_documents_loads() {
    let blocks = blocks();
    assert!(blocks.len() >= 30, "only {} blocks were found", blocks.len());
    let mut wrong = Vec::new();
    for block in &blocks {
        let place = format!("{}:{}", block.file.display(), block.line);
        match block.kind.as_str() {
            "" | "fragment" | "files" => {
                let loaded = loaded(block);
                if (loaded.outcome.is_err() && block.kind != "files") || !loaded.diagnostics.is_empty() {
                    wrong.push(format!("== {place}\n{}", render(&loaded, Format::Text, false)));
                }
            }
            "foreign" => {
                if let Err(fault) = serde_yaml::from_str::<serde_json::Value>(&block.text) {
                    wrong.push(format!("== {place}: {fault}"));
                }
            }
            other => wrong.push(format!("== {place}: what is a `{other}` block?")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_claim_of_the_documents_holds() {
    let mut claims = 0;
    let mut wrong = Vec::new();
    for block in blocks().iter().filter(|block| block.kind.is_empty()) {
        let Ok(config) = loaded(block).outcome else { continue };
        let book = Book::of(&config);
        for case in &config.cases {
            claims += 1;
            let outcome = scenario::run(&config.policy, &book, case, config.escaped_slash()).unwrap();
            if !outcome.holds() {
                wrong.push(format!("== {}:{}: {}\n{outcome:#?}", block.file.display(), block.line, case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(claims >= 20, "only {claims} claims were found");
}

#[test]
fn every_recipe_of_the_cookbook_is_a_policy_with_tests() {
    let blocks = blocks();
    for file in documents().iter().filter(|file| file.parent().unwrap().ends_with("cookbook")) {
        if file.ends_with("README.md") {
            continue;
        }
        let whole = blocks.iter().filter(|block| block.file == *file && block.kind.is_empty());
        let cases: usize = whole.map(|block| loaded(block).outcome.map_or(0, |config| config.cases.len())).sum();
        assert!(cases >= 2, "{}: {cases} tests", file.display());
        let text = fs::read_to_string(file).unwrap();
        for part in ["## What a client sees", "## What to watch"] {
            assert!(text.contains(part), "{}: no `{part}`", file.display());
        }
    }
}

/// What the threat model claims is shown by tests; each of them must be there.
#[test]
fn every_test_that_the_threat_model_names_exists() {
    let text = fs::read_to_string(path("docs/threat_model.md")).unwrap();
    let mut named = 0;
    for name in text.split('`').filter(|part| part.contains(".rs::")) {
        let (file, function) = name.split_once("::").unwrap();
        let source = fs::read_to_string(path(file)).unwrap_or_else(|fault| panic!("{file}: {fault}"));
        assert!(source.contains(&format!("fn {function}(")), "{file} has no test `{function}`");
        named += 1;
    }
    assert!(named >= 20, "only {named} tests are named");
}

/// The README shows parts of what `docs/suggest.md` prints, which a test of its own holds to the truth.
#[test]
fn what_the_readme_shows_of_suggest_is_what_its_page_prints() {
    let (readme, page) = (fs::read_to_string(path("README.md")).unwrap(), path("docs/suggest.md"));
    let page = fs::read_to_string(page).unwrap();
    let (mut commands, mut lines) = (0, 0);
    for block in readme.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let first = block.lines().next().unwrap();
        if !["$ tidegate suggest ", "$ tidegate replay "].iter().any(|verb| first.starts_with(verb)) {
            continue;
        }
        commands += 1;
        let mut rest = page.split_once(&format!("```console\n{first}\n")).unwrap_or_else(|| panic!("{first}")).1;
        rest = rest.split("```").next().unwrap();
        for line in block.lines().skip(1).filter(|line| *line != "…") {
            // in the order of the page, each once
            rest = rest.split_once(&format!("{line}\n")).unwrap_or_else(|| panic!("the page does not print: {line}")).1;
            lines += 1;
        }
    }
    assert!(commands == 3 && lines >= 8, "{commands} commands with {lines} lines");
}
