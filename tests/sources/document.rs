//! `docs/sources.md` is written from the table, and what the table says of the program is held to the program: tests and
//! headings exist, entries load or are refused as said, and words in code spans are words of the program.
//!
//! After a deliberate change, `UPDATE_EXPECTED=1 cargo test --test sources` rewrites the page.

use std::fs;
use std::path::{Path, PathBuf};

use crate::gate::{load, with_limits};
use crate::table::{Row, TABLE};

/// The sources, by the word in a row, and where each can be read.
const SOURCES: [(&str, &str, &str); 4] = [
    (
        "throttlekit",
        "throttlekit: overload and security",
        "the page *11 · Overload & security* of throttlekit's manual, and its tests",
    ),
    (
        "recent average",
        "Recent average",
        "the post *Teaching Abusive Users a Lesson with Recent Average Rate Limiters*: a continuous exponentially weighted moving average",
    ),
    ("Exim", "Exim's distinct values", "T. Finch's post on Bloom filters in Exim's `ratelimit`, and Exim's `acl.c`"),
    ("pingora-limits", "pingora-limits", "Cloudflare's post on `pingora-limits`, the crate and its benchmark"),
];

const HEAD: &str = "\
# Sources

Four published limiters stand behind the limits of tidegate. Each of their own tests, tables and promises is a row here, and each row
is a test against this program: `cargo test --test sources` runs all of them, and writes this page.

A row says what the source claims, its numbers, the test, what differs here, and where the documents tell of it. Where it names
words of the policy file, the test loads them: an entry that *loads* does, and one that is *refused* gets an error.
";

fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn read(below: &str) -> String {
    fs::read_to_string(path(below)).unwrap_or_else(|fault| panic!("{below}: {fault}"))
}

/// The file that a row's check stands in.
fn file(row: &Row) -> String {
    let name = match row.source {
        "throttlekit" => "throttlekit",
        "recent average" => "recent_average",
        "Exim" => "exim",
        _ => "pingora_limits",
    };
    format!("tests/sources/{name}.rs")
}

/// All tests of a row, its own first.
fn tests(row: &Row) -> Vec<String> {
    let own = format!("{}::{}", file(row), row.name);
    std::iter::once(own).chain(row.also.iter().map(|test| (*test).to_owned())).collect()
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (word, title, origin) in SOURCES {
        page += &format!("\n## {title}\n\nSource: {origin}.\n\n");
        page += "| | claimed | numbers | tested | what differs | documented |\n|---|---|---|---|---|---|\n";
        for row in TABLE.iter().filter(|row| row.source == word) {
            let tested: Vec<String> = tests(row).iter().map(|test| format!("`{test}`")).collect();
            let entries = |said: &str, entries: &[&str]| {
                let entries: Vec<String> = entries.iter().map(|entry| format!("`{entry}`")).collect();
                (!entries.is_empty()).then(|| format!("{said}: {}", entries.join(", ")))
            };
            let differs: Vec<String> = (!row.adapted.is_empty())
                .then(|| row.adapted.to_owned())
                .into_iter()
                .chain(entries("loads", row.loads))
                .chain(entries("refused", row.refuses))
                .collect();
            let documented = row.documented.split('#').next().unwrap_or_default();
            page += &format!(
                "| {} | {} | {} | {} | {} | [{documented}]({}) |\n",
                row.id,
                row.claim,
                row.numbers,
                tested.join(", "),
                differs.join("; "),
                row.documented
            );
        }
    }
    page
}

#[test]
fn the_page_of_the_sources_is_what_the_table_says() {
    let (page, at) = (page(), path("docs/sources.md"));
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&at, &page).unwrap();
    }
    let written = fs::read_to_string(&at).unwrap_or_default();
    assert_eq!(written, page, "docs/sources.md is not what the table says; UPDATE_EXPECTED=1 rewrites it");
}

#[test]
fn every_test_that_a_row_names_exists() {
    for row in TABLE {
        for test in tests(row) {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{test}"));
            assert!(read(file).contains(&format!("fn {name}(")), "{}: {file} has no `{name}`", row.id);
        }
    }
}

#[test]
fn every_heading_that_a_row_names_exists() {
    for row in TABLE {
        let (file, anchor) = row.documented.split_once('#').unwrap_or_else(|| panic!("{}: no heading", row.id));
        let text = read(&format!("docs/{file}"));
        let found = headings(&text).any(|heading| slug(heading) == anchor);
        assert!(found, "{}: no heading `{anchor}` in docs/{file}", row.id);
    }
}

/// The headings of a page, without those lines of code blocks that look like one.
fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter_map(move |line| {
        code ^= line.starts_with("```");
        line.strip_prefix('#').filter(|_| !code).map(|rest| rest.trim_start_matches('#').trim())
    })
}

/// The anchor of a heading, as GitHub makes it.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.flat_map(char::to_lowercase).map(|character| if character == ' ' { '-' } else { character }).collect()
}

/// That the program has a word, or has it not, is said as an entry that is tried.
#[test]
fn every_entry_of_a_row_loads_or_is_refused_as_it_says() {
    for row in TABLE {
        for entry in row.loads {
            let loaded = load(&with_limits(entry));
            assert!(loaded.is_ok(), "{} says that this loads: {entry}\n{}", row.id, loaded.err().unwrap_or_default());
        }
        for entry in row.refuses {
            assert!(load(&with_limits(entry)).is_err(), "{} says that this is refused: {entry}", row.id);
        }
    }
}

/// Free text makes no claim about the program that nothing tries.
#[test]
fn what_a_row_says_of_the_program_in_free_text_is_held_to_it() {
    let schema = read("conf/tidegate.schema.json");
    for row in TABLE {
        for text in [row.claim, row.numbers, row.adapted] {
            for stale in ["this version", "no store", "no sketch", "nothing can be shown", "does not have"] {
                assert!(!text.contains(stale), "{} says `{stale}`: say it by an entry that is refused", row.id);
            }
            for span in text.split('`').skip(1).step_by(2) {
                assert!(is_of_the_program(span, &schema), "{}: the program has no `{span}`", row.id);
            }
        }
        let says_refused = row.adapted.contains("refused when the policy is loaded");
        assert!(!says_refused || !row.refuses.is_empty(), "{}: what is refused? name an entry", row.id);
    }
}

/// Whether each word of a code span is one of the policy file's, or the span runs a benchmark that there is.
fn is_of_the_program(span: &str, schema: &str) -> bool {
    if let Some(bench) = span.strip_prefix("cargo bench --bench ") {
        let (bench, flag) = bench.split_once(" -- ").unwrap_or((bench, ""));
        return read(&format!("benches/{bench}/main.rs")).contains(&format!("\"{flag}\""));
    }
    let mut words = span.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.all(|word| ["", "true", "false"].contains(&word) || schema.contains(&format!("\"{word}\"")))
}
