//! Reports words that do not belong to the limit's type, and words that others leave without a meaning.

use super::written::Written;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::section::Section;
use crate::config::span::Span;
use crate::config::word::{CalendarWord, all_of, limit_words};
use crate::limiter::Form;

/// Reports every word that does not belong to the limit's type.
pub fn check(written: &Written<'_>, faults: &mut Faults) {
    for (word, at) in written.limit.present() {
        fits(written, word, at, |form| form.words, faults);
    }
}

/// Reports a word that belongs to other types than the limit's; returns whether it fits. `words`: those of a type that
/// do not belong to all.
pub fn fits(
    written: &Written<'_>,
    word: &str,
    at: Span,
    words: fn(&Form) -> &'static [&'static str],
    faults: &mut Faults,
) -> bool {
    let types = limit_words(|form| words(form).contains(&word));
    if types.is_empty() || words(written.form).contains(&word) {
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

/// Reports words of the calendar that another word leaves without a meaning.
pub fn check_calendar(written: &Written<'_>, faults: &mut Faults) {
    let limit = written.limit;
    let mut conflict = |at: Span, message: String, label: &str, other: Option<(Span, &'static str)>| {
        let fault = Diagnostic::error(Code::CONFLICT, at, message).label(label.to_owned());
        faults.push(match other {
            Some((other, said)) => fault.related(other, said),
            None => fault,
        });
    };
    if let Some(per) = limit.per.key() {
        let words = [
            ("window", limit.window.key(), "a quota has one kind of window"),
            ("rate", limit.rate.key(), "`per` stands beside `max`"),
            (
                "sliding",
                limit.sliding.value().and_then(|slides| limit.sliding.key().filter(|_| *slides)),
                "months differ in length, so no part of the last one can be counted",
            ),
        ];
        for (word, at, label) in words {
            if let Some(at) = at {
                conflict(at, format!("`{word}` beside `per`"), label, Some((per, "windows of the calendar")));
            }
        }
    } else if let Some(at) = limit.time_zone.key() {
        conflict(at, "`time_zone` without `per`".into(), "needs `per: month`, `week` or `day`", None);
    }
    if let Some(at) = limit.week_starts.key().filter(|_| limit.per.value() != Some(&CalendarWord::Week)) {
        conflict(at, "`week_starts` without `per: week`".into(), "belongs to weeks", None);
    }
}

/// Reports what a sliding `quota` cannot do: it keeps two counts of a key, which one set of numbers judges on entry.
pub fn check_sliding(written: &Written<'_>, deferred: bool, faults: &mut Faults) {
    let limit = written.limit;
    if limit.sliding.value() != Some(&true) {
        return;
    }
    let late = if deferred { limit.count.key().or(limit.cost.key()) } else { None };
    for (what, at) in [("`tiers`", limit.tiers.key()), ("a charge that waits for the answer", late)] {
        if let (Some(at), Some(sliding)) = (at, limit.sliding.key()) {
            faults.push(
                Diagnostic::error(Code::CONFLICT, at, format!("{what} beside `sliding: true`"))
                    .label("a sliding quota is charged on entry, by one set of numbers")
                    .related(sliding, "slides because of this"),
            );
        }
    }
}
