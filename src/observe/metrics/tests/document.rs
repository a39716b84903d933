//! `docs/metrics.md` has what the program exports, word by word.

use std::fs;

use super::*;
use crate::observe::metrics::labels::ORIGIN_ERRORS;

fn document() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md")).unwrap()
}

#[test]
fn the_document_and_the_catalogue_agree() {
    let document = document();
    let begins = ["- `tidegate_", "- `process_"];
    let documented: Vec<&str> =
        document.lines().filter(|line| begins.iter().any(|begin| line.starts_with(begin))).collect();
    let exported: Vec<String> = all::document_lines().collect();
    assert_eq!(documented, exported, "docs/metrics.md should hold these lines:\n{}", exported.join("\n"));
    // its sentence on kinds
    assert!(document.contains("Names in `_total` are counters, in `_duration_seconds` histograms, all others gauges."));
    for family in all::ALL {
        let kind = match family.name {
            name if name.ends_with("_total") => all::Kind::Counter,
            name if name.ends_with("_duration_seconds") => all::Kind::Histogram,
            _ => all::Kind::Gauge,
        };
        assert_eq!(kind, family.kind, "{}", family.name);
    }
}

#[test]
fn the_document_has_every_fixed_value_of_a_label() {
    let document = document();
    let words = [CONNECTION_REASONS, SHED_REASONS].concat().into_iter().chain(malformed_reasons());
    let words = words.chain(REFUSALS.map(Refusal::word)).chain(ORIGIN_ERRORS.map(|(_, word)| word));
    let words = words.chain(Violation::ALL.iter().map(|violation| violation.word()));
    for word in words.chain(CLIENTS.into_iter().flat_map(|(_, source, result)| [source, result])) {
        assert!(document.contains(&format!("`{word}`")), "docs/metrics.md does not say `{word}`");
    }
}
