//! To whom a limit does not apply, and to whom with other numbers.

use super::belongs::fits;
use super::cost::largest;
use super::kind::{Numbers, tier_numbers};
use super::written::Written;
use crate::client::trust::parse_cidr_or_everyone;
use crate::config::compile::clients;
use crate::config::compile::matches::check_sent_on;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::read::{At, Field};
use crate::config::schema;
use crate::config::section::Section;
use crate::config::shape::{Either, List, OneOrMany};
use crate::config::span::Span;
use crate::limiter::{FORMS, Form};
use crate::policy::{Condition, CostRule, Kind, Rule, Tier};
use crate::units::Prefix;
use tidegate_http::hearsay;

/// Requests that the limit does not apply to; `None` when there are faults, which have been told.
pub fn exempt(field: &Field<List<Either<String, schema::Condition>>>, faults: &mut Faults) -> Option<Vec<Condition>> {
    let Some(at) = field.get() else { return (!field.is_present()).then(Vec::new) };
    if at.value.items.is_empty() && !at.value.bad {
        faults
            .push(Diagnostic::error(Code::EMPTY_VALUE, at.span, "`exempt` exempts nobody").label("needs one or more"));
        return None;
    }
    let mut conditions = Vec::with_capacity(at.value.items.len());
    for item in &at.value.items {
        conditions.push(match &item.value {
            Either::Short(text) => network(&item.with(text.clone()), faults)
                .map(|network| Condition { networks: vec![network], headers: Vec::new() }),
            Either::Long(written) => {
                let condition = condition(item.span, written, faults);
                warn_if_forgeable(condition.as_ref(), item.span, ESCAPES, faults);
                condition
            }
        });
    }
    conditions.into_iter().collect()
}

/// The tiers; `None` when there are faults, which have been told.
pub fn tiers(
    written: &Written<'_>,
    numbers: Option<&Numbers>,
    cost: Option<&CostRule>,
    faults: &mut Faults,
) -> Option<Vec<Tier>> {
    let field = &written.limit.tiers;
    let Some(list) = field.get() else { return (!field.is_present()).then(Vec::new) };
    if list.value.items.is_empty() && !list.value.bad {
        faults.push(Diagnostic::error(Code::EMPTY_VALUE, list.span, "`tiers` names none").label("needs one or more"));
        return None;
    }
    if let Some(beyond) = list.value.items.get(Rule::MAX_TIERS) {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, beyond.span, format!("{} tiers", list.value.items.len()))
                .label(format!("allowed are {}", Rule::MAX_TIERS)),
        );
    }
    let mut tiers = Vec::with_capacity(list.value.items.len());
    for item in &list.value.items {
        let when = item.value.when.get().and_then(|when| condition(when.span, &when.value, faults));
        let kind = tier(written, item, numbers, cost, faults);
        if kind == Some(None) {
            warn_if_forgeable(when.as_ref(), item.span, ESCAPES, faults);
        }
        tiers.push(when.zip(kind).map(|(when, kind)| Tier { when, kind }));
    }
    tiers.into_iter().collect()
}

/// Tells whether a word of a tier is a number of some type.
fn is_number(word: &str) -> bool {
    FORMS.iter().any(|form| form.takes_in_tier(word))
}

/// The promise of a tier, `Some(None)` if it exempts.
fn tier(
    written: &Written<'_>,
    at: &At<schema::Tier>,
    numbers: Option<&Numbers>,
    cost: Option<&CostRule>,
    faults: &mut Faults,
) -> Option<Option<Kind>> {
    let own = &at.value;
    let given: Vec<_> = own.present().into_iter().filter(|(word, _)| is_number(word)).collect();
    if own.exempt.value() == Some(&true) {
        if let Some((word, key)) = given.first() {
            faults.push(
                Diagnostic::error(Code::CONFLICT, *key, format!("`{word}` beside `exempt: true`"))
                    .label("what is exempt has no numbers")
                    .related(own.exempt.key().unwrap_or(at.span), "exempt"),
            );
            return None;
        }
        return Some(None);
    }
    // every word is asked, so that all that are misplaced are told at once
    let fitting = given.iter().filter(|(word, key)| fits(written, word, *key, Form::takes_in_tier, faults)).count();
    if fitting < given.len() {
        return None;
    }
    if given.is_empty() {
        let names: Vec<String> = written.form.tier_words.iter().map(|word| format!("`{}`", word.name)).collect();
        if !names.is_empty() {
            faults.push(
                Diagnostic::error(Code::MISSING_FIELD, at.span, "a tier that changes nothing")
                    .label(format!("needs {} or `exempt: true`", names.join(", "))),
            );
        }
        return None;
    }
    tier_numbers(written, numbers?, own, largest(cost), faults).map(Some)
}

/// A condition; `None` when it has faults or would never hold.
pub fn condition(at: Span, written: &schema::Condition, faults: &mut Faults) -> Option<Condition> {
    let mut condition = Condition::default();
    let mut good = (written.cidr.get().is_some() || !written.cidr.is_present())
        && (written.header.get().is_some() || !written.header.is_present());
    if let Some(OneOrMany(List { items, bad })) = written.cidr.value() {
        good &= !bad;
        for item in items {
            let network = network(item, faults);
            good &= network.is_some();
            condition.networks.extend(network);
        }
    }
    for entry in written.header.value().into_iter().flat_map(|map| &map.0) {
        match (&entry.key, &entry.value) {
            (Some(name), Some(value)) => {
                check_sent_on(name, entry.key_span, faults);
                condition.headers.push((name.clone(), value.value.clone()));
            }
            _ => good = false,
        }
    }
    if good && condition == Condition::default() {
        faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, at, "a condition that never holds").label("needs `cidr` or `header`"),
        );
    }
    (good && condition != Condition::default()).then_some(condition)
}

/// A network of clients; everybody is none.
fn network(entry: &At<String>, faults: &mut Faults) -> Option<Prefix> {
    if parse_cidr_or_everyone(&entry.value).is_ok_and(|(network, _)| network.length() == 0) {
        faults.push(
            Diagnostic::error(Code::BAD_CIDR, entry.span, format!("{} is everybody", entry.shown))
                .label("an exception needs a length of 1 or more"),
        );
        return None;
    }
    clients::network(entry, false, faults)
}

/// What comes of a header that anybody can send.
const ESCAPES: &str = "escapes this limit";

/// Warns of a condition that rests on a header alone; `what` says what whoever knows it gets.
pub fn warn_if_forgeable(condition: Option<&Condition>, at: Span, what: &str, faults: &mut Faults) {
    let Some(when) = condition.filter(|when| when.networks.is_empty()) else { return };
    // a stranger may not tell these
    if when.headers.iter().any(|(name, _)| hearsay::standing(name.as_str()).is_some()) {
        return;
    }
    let Some((name, _)) = when.headers.first() else { return };
    faults.push(
        Diagnostic::new(Code::FORGEABLE, at, format!("whoever sends `{name}` {what}"))
            .label("rests on a header alone, which anybody can send")
            .help("add `cidr`, or make sure that a proxy in front removes what clients send"),
    );
}
