//! The pages themselves: every kind has one with its three pictures, every link leads somewhere, every YAML block
//! loads.
//!
//! A ```` ```yaml ```` block is either a whole policy file, which is then one with a `routes:` section, or a `limits:`
//! section. The latter is wrapped: beside it stand an origin `shop` with an in-flight cap and, for each limit, a route
//! of its own, so that a block may show limits that could not share one. Neither errors nor warnings are allowed.

use std::fs;

use tidegate::config::load_text;
use tidegate::config::render::{Format, render};

use crate::path;

const KINDS: [&str; 6] = ["rate", "quota", "recent_average", "distinct", "fair_share", "inflight"];

/// The pages by name, with their texts.
fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> = fs::read_dir(path("docs/limits"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "md"))
        .map(|file| (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&file).unwrap()))
        .collect();
    pages.sort();
    pages
}

/// What a page links to or shows.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("](").filter_map(|(at, _)| text[at + 2..].split(')').next())
}

/// The YAML blocks of a page, with the number of the line on which each begins.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (&mut open, line) {
            (None, "```yaml" | "```yaml fragment") => open = Some((number + 1, String::new())),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some((_, block)), line) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

/// The names in a `limits:` section.
fn names(block: &str) -> Vec<&str> {
    let entries = block.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with([' ', '#']));
    entries.filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect()
}

/// A block as a whole file.
fn whole(block: &str) -> String {
    if block.lines().any(|line| line.starts_with("routes:")) {
        return block.to_owned();
    }
    assert!(block.starts_with("limits:\n"), "neither a file nor a section of limits:\n{block}");
    let mut file = format!(
        "listen: \":8080\"\norigins:\n  shop: {{ addresses: [\"127.0.0.1:3000\"], inflight: 400 }}\n{block}routes:\n"
    );
    for name in names(block) {
        file.push_str(&format!(
            "  - {{ name: to_{name}, match: {{ path: /{name} }}, limits: [{name}], origin: shop }}\n"
        ));
    }
    file
}

#[test]
fn every_kind_has_its_page_with_its_three_pictures() {
    let pages = pages();
    let text = |name: &str| &pages.iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no {name}")).1;
    for kind in KINDS {
        let page = text(&format!("{kind}.md"));
        for picture in ["burst", "abuser", "flood"] {
            assert!(targets(page).any(|target| target == format!("{kind}-{picture}.svg")), "{kind}: no {picture}");
        }
        assert!(targets(text("README.md")).any(|target| target == format!("{kind}.md")), "{kind} is not in the README");
    }
}

#[test]
fn every_link_leads_somewhere_and_every_picture_is_shown() {
    let pages = pages();
    let mut shown = Vec::new();
    for (page, text) in &pages {
        for target in targets(text).filter(|target| !target.starts_with("https://") && !target.starts_with('#')) {
            let file = target.split('#').next().unwrap();
            assert!(path("docs/limits").join(file).exists(), "{page}: {target} does not exist");
            shown.push(file.to_owned());
        }
    }
    for entry in fs::read_dir(path("docs/limits")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.ends_with(".svg") || shown.contains(&name), "{name} is shown nowhere");
    }
}

#[test]
fn every_policy_in_the_pages_loads_without_a_word() {
    let mut seen = 0;
    for (page, text) in pages() {
        for (line, block) in blocks(&text) {
            let file = whole(&block);
            let loaded = load_text(&page, &file, &|_: &str| None, &path("docs/limits"));
            let told = render(&loaded, Format::Short, false);
            assert!(loaded.outcome.is_ok() && loaded.diagnostics.is_empty(), "{page}:{line}: {told}\n{file}");
            seen += 1;
        }
    }
    assert!(seen >= 10, "only {seen} blocks: are they fenced as yaml?");
}
