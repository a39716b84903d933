//! Reads the text format 0.0.4 back, strictly, for tests: what a scraper would refuse, this refuses.

use std::collections::{BTreeMap, BTreeSet};

/// A page that follows the rules.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub families: BTreeMap<String, FamilyText>,
    /// Name and labels as they stand, with the value.
    pub samples: BTreeMap<String, f64>,
}

#[derive(Debug, Default)]
pub(super) struct FamilyText {
    pub help: String,
    pub kind: String,
    pub labels: BTreeSet<String>,
}

impl Page {
    /// # Panics
    /// The page breaks a rule of the format, or one that `promtool check metrics` has on names.
    pub fn read(text: &str) -> Page {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut page = Page::default();
        let mut current = String::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect("a help text");
                current = name.to_owned();
                let family = FamilyText { help: help.to_owned(), ..FamilyText::default() };
                assert!(page.families.insert(current.clone(), family).is_none(), "{name} comes twice");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a type");
                assert_eq!(name, current, "the type of another family");
                page.families.get_mut(name).unwrap().kind = kind.to_owned();
            } else {
                page.sample(line, &current);
            }
        }
        page.families.iter().for_each(|(name, family)| lint(name, family));
        page
    }

    fn sample(&mut self, line: &str, current: &str) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(self.samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect("closed labels")),
            None => (series, ""),
        };
        let family = self.families.get_mut(current).unwrap_or_else(|| panic!("{line}: before any family"));
        let suffix = name.strip_prefix(current).unwrap_or_else(|| panic!("{line}: not of {current}"));
        match family.kind.as_str() {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            "counter" | "gauge" => assert_eq!(suffix, "", "{line}"),
            kind => panic!("{current} has the type {kind:?}"),
        }
        assert!(family.kind == "gauge" || value >= 0.0, "{line}");
        let mut rest = labels;
        while !rest.is_empty() {
            let (label, quoted) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            let end = closing_quote(quoted).unwrap_or_else(|| panic!("{line}"));
            if !(label == "le" && suffix == "_bucket") {
                family.labels.insert(label.to_owned());
            }
            rest = quoted[end + 1..].trim_start_matches(',');
        }
    }

    /// The value of a series, written as on the page.
    pub fn value(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("{series} is not on the page"))
    }

    pub fn has(&self, series: &str) -> bool {
        self.samples.contains_key(series)
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let closes = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        closes.then_some(at)
    })
}

/// The rules of Prometheus' `promlint`, as far as they concern counters, gauges and histograms.
fn lint(name: &str, family: &FamilyText) {
    let plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    assert!(plain(name) && family.labels.iter().all(|label| plain(label)), "{name}: letters");
    assert!(name.starts_with("tidegate_") || name.starts_with("process_"), "{name}: prefix");
    assert!(!family.help.is_empty(), "{name}: no help");
    assert_eq!(
        family.kind == "counter",
        name.ends_with("_total"),
        "{name}: `_total` is for counters, and for all of them"
    );
    for (word, because) in [
        ("milliseconds", "base unit"),
        ("ms", "base unit"),
        ("minutes", "base unit"),
        ("hours", "base unit"),
        ("kilobytes", "base unit"),
        ("mb", "base unit"),
        ("percent", "base unit"),
        ("counter", "type in the name"),
        ("gauge", "type in the name"),
        ("histogram", "type in the name"),
        ("count", "reserved"),
        ("sum", "reserved"),
        ("bucket", "reserved"),
    ] {
        assert!(!name.split('_').any(|part| part == word), "{name}: {because}");
    }
    assert!(family.labels.iter().all(|label| !["le", "quantile"].contains(&label.as_str())), "{name}: reserved label");
}
