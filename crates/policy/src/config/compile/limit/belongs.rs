//! Which word belongs to which type of limit.

use super::written::Written;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::schema::Limit;
use crate::config::span::Span;
use crate::config::word::{CalendarWord, LimitType, Word, one_of};

use LimitType::{Distinct, FairShare, Inflight, Quota, Rate, RecentAverage};

type Place = fn(&Limit) -> Option<Span>;

/// Words that do not belong to every type, with those they belong to.
const WORDS: [(&str, Place, &[LimitType]); 22] = [
    ("key", |limit| limit.key.key(), &[Rate, Quota, RecentAverage, Distinct, Inflight]),
    ("missing", |limit| limit.missing.key(), &[Rate, Quota, RecentAverage, Distinct, Inflight]),
    ("of", |limit| limit.of.key(), &[Distinct]),
    ("rate", |limit| limit.rate.key(), &[Rate, Quota, RecentAverage]),
    ("burst", |limit| limit.burst.key(), &[Rate]),
    ("max", |limit| limit.max.key(), &[Quota, Distinct, Inflight]),
    ("window", |limit| limit.window.key(), &[Quota, Distinct]),
    ("per", |limit| limit.per.key(), &[Quota]),
    ("time_zone", |limit| limit.time_zone.key(), &[Quota]),
    ("week_starts", |limit| limit.week_starts.key(), &[Quota]),
    ("sliding", |limit| limit.sliding.key(), &[Quota, Distinct]),
    ("half_life", |limit| limit.half_life.key(), &[RecentAverage]),
    ("max_penalty", |limit| limit.max_penalty.key(), &[RecentAverage, Distinct]),
    ("capacity", |limit| limit.capacity.key(), &[FairShare]),
    ("nodes", |limit| limit.nodes.key(), &[FairShare]),
    ("charge_parents", |limit| limit.charge_parents.key(), &[FairShare]),
    ("upgraded", |limit| limit.upgraded.key(), &[Inflight]),
    ("cost", |limit| limit.cost.key(), &[Rate, Quota, RecentAverage]),
    ("cost_estimate", |limit| limit.cost_estimate.key(), &[Rate, Quota, RecentAverage]),
    ("cost_max", |limit| limit.cost_max.key(), &[Rate, Quota, RecentAverage]),
    ("count", |limit| limit.count.key(), &[Rate, Quota, RecentAverage, Distinct]),
    ("tiers", |limit| limit.tiers.key(), &[Rate, Quota, RecentAverage, Distinct, Inflight]),
];

/// Reports every word that does not belong to the limit's type.
pub fn check(written: &Written<'_>, faults: &mut Faults) {
    for (word, place, types) in WORDS {
        if let Some(at) = place(written.limit).filter(|_| !types.contains(&written.kind)) {
            misplaced(written, word, at, types, faults);
        }
    }
}

/// Reports a word of a part of the limit that does not belong to the limit's type; says whether it does.
pub fn check_word(
    written: &Written<'_>,
    word: &str,
    at: Option<Span>,
    types: &[LimitType],
    faults: &mut Faults,
) -> bool {
    if types.contains(&written.kind) {
        return true;
    }
    if let Some(at) = at {
        misplaced(written, word, at, types, faults);
    }
    false
}

fn misplaced(written: &Written<'_>, word: &str, at: Span, types: &[LimitType], faults: &mut Faults) {
    let words: Vec<&str> = types.iter().map(LimitType::word).collect();
    let plural = if types.len() == 1 { "type" } else { "types" };
    let named = one_of(&words).replace(" or ", " and ");
    let fault =
        Diagnostic::error(Code::CONFLICT, at, format!("`{word}` has no meaning for type `{}`", written.kind.word()))
            .label(format!("belongs to {plural} {named}"));
    faults.push(if written.limit.r#type.is_present() { fault } else { fault.help("without `type` it is `rate`") });
}

/// Reports what an `inflight` limit that is counted exactly has no use for: it has one count, and no keys to tell apart.
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
    if written.kind != Quota {
        return;
    }
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
    if written.kind != Quota || limit.sliding.value() != Some(&true) {
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
