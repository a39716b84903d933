//! Reports words that do not belong to the limit's type, and words that others leave without a meaning.

use super::written::Written;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::section::Section;
use crate::config::span::Span;
use crate::config::word::{all_of, limit_words};
use crate::limiter::Form;

/// Reports every word that does not belong to the limit's type.
pub fn check(written: &Written<'_>, faults: &mut Faults) {
    for (word, at) in written.limit.present() {
        fits(written, word, at, Form::takes, faults);
    }
    if !written.form.has_sketch {
        let sizes = [("memory", written.limit.memory.key()), ("accuracy", written.limit.accuracy.key())];
        for (word, at) in sizes.into_iter().filter_map(|(word, at)| Some((word, at?))) {
            let message = format!("`{word}` has no meaning for type `{}`", written.form.word);
            faults.push(
                Diagnostic::error(Code::CONFLICT, at, message)
                    .label("belongs to types that count in a sketch")
                    .help("leave it out: what it holds follows from `queue`"),
            );
        }
    }
}

/// Reports a word that belongs to other types than the limit's; returns whether it fits. `takes`: whether a word
/// belongs to a type and not to all.
pub fn fits(written: &Written<'_>, word: &str, at: Span, takes: fn(&Form, &str) -> bool, faults: &mut Faults) -> bool {
    let types = limit_words(|form| takes(form, word));
    if types.is_empty() || takes(written.form, word) {
        return true;
    }
    let plural = if types.len() == 1 { "type" } else { "types" };
    let fault =
        Diagnostic::error(Code::CONFLICT, at, format!("`{word}` has no meaning for type `{}`", written.form.word))
            .label(format!("belongs to {plural} {}", all_of(&types)));
    faults.push(if written.limit.r#type.is_present() { fault } else { fault.help("without `type` it is `rate`") });
    false
}

/// Reports words that a limit that counts exactly has no use for: it has no keys to tell apart.
pub fn check_exact(written: &Written<'_>, faults: &mut Faults) {
    let limit = written.limit;
    let sizes = [("memory", limit.memory.key()), ("accuracy", limit.accuracy.key())];
    for (word, at) in sizes.into_iter().chain([("enforce", limit.enforce.key()), ("tiers", limit.tiers.key())]) {
        if let Some(at) = at {
            faults.push(
                Diagnostic::error(Code::CONFLICT, at, format!("`{word}` beside places that are counted exactly"))
                    .label("belongs to keys other than `global`, `route` and `origin`"),
            );
        }
    }
}
