//! What one request takes, and which requests are counted.

use super::written::Written;
use crate::config::compile::checks::{number32, out_of_place};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_value::{CostMethod, CostText, CountText};
use crate::config::read::Field;
use crate::config::scalar::Count;
use crate::config::shape::Either;
use crate::config::word::{all_of, limit_words};
use crate::policy::{CostRule, Counted};
use crate::units::Cost;

/// What one request takes; a stand-in for limits that count bytes. `None` when there are faults, which have been told.
pub fn cost(written: &Written<'_>, faults: &mut Faults) -> Option<CostRule> {
    let limit = written.limit;
    let response = matches!(limit.cost.value(), Some(Either::Short(CostText::Response(_))));
    if !response && limit.cost.get().is_some() | !limit.cost.is_present() {
        out_of_place(
            &limit.cost_estimate,
            "`cost_estimate` without `cost: response:HEADER`",
            "it is what is held back until the answer says the cost",
            faults,
        );
        out_of_place(
            &limit.cost_max,
            "`cost_max` without `cost: response:HEADER`",
            "it is the most that an answer says",
            faults,
        );
    }
    let Some(at) = limit.cost.get() else {
        return (!limit.cost.is_present()).then_some(CostRule::Fixed(Cost::ONE));
    };
    if counts_bytes(written) {
        out_of_place(&limit.cost, "`cost` beside a rate of bytes", "remove it: every byte takes one", faults);
        return None;
    }
    let one = |number: u64, faults: &mut Faults| {
        let field = Field::Set { key: at.span, at: at.with(Count(number)) };
        in_range(&field, faults)
    };
    match &at.value {
        Either::Short(CostText::Number(number)) => one(*number, faults).map(CostRule::Fixed),
        Either::Short(CostText::Response(header)) => {
            let estimate =
                if limit.cost_estimate.is_present() { in_range(&limit.cost_estimate, faults)? } else { Cost::ONE };
            let max = if limit.cost_max.is_present() { Some(in_range(&limit.cost_max, faults)?) } else { None };
            if let (Some(max), Some(at)) = (max, limit.cost_max.get())
                && max < estimate
            {
                faults.push(
                    Diagnostic::error(Code::CONFLICT, at.span, "`cost_max` below `cost_estimate`")
                        .label(format!("must be at least {}", estimate.get())),
                );
                return None;
            }
            Some(CostRule::Response { header: header.clone(), estimate, max })
        }
        Either::Long(map) => {
            if map.0.is_empty() {
                faults.push(
                    Diagnostic::error(Code::EMPTY_VALUE, at.span, "`cost` names no method")
                        .label("needs one or more, or a number"),
                );
                return None;
            }
            let (mut methods, mut other, mut good) = (Vec::new(), Cost::ONE, true);
            for entry in &map.0 {
                let value = entry.value.as_ref().and_then(|at| {
                    let field = Field::Set { key: entry.key_span, at: at.with(at.value) };
                    in_range(&field, faults)
                });
                match (&entry.key, value) {
                    (Some(CostMethod::Method(method)), Some(cost)) => methods.push((method.clone(), cost)),
                    (Some(CostMethod::Other), Some(cost)) => other = cost,
                    _ => good = false,
                }
            }
            let rule = if methods.is_empty() { CostRule::Fixed(other) } else { CostRule::ByMethod { methods, other } };
            good.then_some(rule)
        }
    }
}

fn in_range(field: &Field<Count>, faults: &mut Faults) -> Option<Cost> {
    let cost = number32(field, 1..=u32::MAX, 0, faults);
    Cost::new(cost).ok()
}

/// The most that must fit at once.
pub fn largest(cost: Option<&CostRule>) -> Cost {
    match cost {
        Some(CostRule::Fixed(cost)) => *cost,
        Some(CostRule::ByMethod { methods, other }) => methods.iter().map(|(_, cost)| *cost).fold(*other, Cost::max),
        Some(CostRule::Response { estimate, .. }) => *estimate,
        Some(CostRule::Bytes { .. }) | None => Cost::ONE,
    }
}

/// Which requests are charged. Whether refused ones count is a matter of the kind's numbers.
pub fn counted(written: &Written<'_>, faults: &mut Faults) -> Option<Counted> {
    let Some(at) = written.limit.count.get() else {
        return (!written.limit.count.is_present()).then_some(Counted::Requests);
    };
    let conflict = |message: String, label: &str| Diagnostic::error(Code::CONFLICT, at.span, message).label(label);
    let form = written.form;
    match at.value {
        CountText::All | CountText::Admitted if form.counts_refused => Some(Counted::Requests),
        CountText::All | CountText::Admitted if form.counts_answers => {
            let types = all_of(&limit_words(|form| form.counts_refused));
            let message = format!("`count: {}` belongs to types {types}", at.shown.trim_matches('`'));
            faults.push(
                conflict(message, "here `responses LIST` or `not LIST` are possible")
                    .help("without `count`, what is admitted uses up the limit, and what is refused does not"),
            );
            None
        }
        CountText::Responses(_) if !form.counts_answers && form.counts_refused => {
            let types = all_of(&limit_words(|form| form.counts_answers));
            faults.push(conflict(
                format!("answers cannot be counted by type `{}`", form.word),
                &format!("belongs to types {types}"),
            ));
            None
        }
        CountText::Responses(_) if form.may_count_bytes && counts_bytes(written) => {
            faults.push(conflict("`count` beside a rate of bytes".into(), "bytes are charged as they pass"));
            None
        }
        CountText::Responses(set) if form.counts_answers => Some(Counted::Responses(set)),
        // told as a word that does not belong to the type
        _ => None,
    }
}

/// Whether the charge waits for the answer, as far as what is written can be read.
pub fn is_deferred(written: &Written<'_>) -> bool {
    matches!(written.limit.cost.value(), Some(Either::Short(CostText::Response(_))))
        || matches!(written.limit.count.value(), Some(CountText::Responses(_)))
}

/// Whether its rate is one of bytes.
fn counts_bytes(written: &Written<'_>) -> bool {
    written.limit.own.counts_bytes()
}
