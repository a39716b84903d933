//! Checks of single fields that many sections share: ranges, and fields beside others.

use std::time::Duration;

use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::read::Field;
use crate::config::scalar::{self, Count};
use crate::config::span::Span;

/// A number in a range; `default` when absent, and as a stand-in.
pub fn number(field: &Field<Count>, range: std::ops::RangeInclusive<u64>, default: u64, faults: &mut Faults) -> u64 {
    let Some(at) = field.get() else { return default };
    if range.contains(&at.value.0) {
        return at.value.0;
    }
    let (low, high) = range.into_inner();
    faults.push(
        Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is out of range", at.shown))
            .label(format!("must be {low} to {high}")),
    );
    default
}

/// The same for numbers that are kept in 32 bits. The range must fit them.
pub fn number32(field: &Field<Count>, range: std::ops::RangeInclusive<u32>, default: u32, faults: &mut Faults) -> u32 {
    let (low, high) = range.into_inner();
    let number = number(field, u64::from(low)..=u64::from(high), u64::from(default), faults);
    u32::try_from(number).unwrap_or(default)
}

/// A duration in a range; `default` when absent, and as a stand-in.
pub fn span(
    field: &Field<Duration>,
    range: std::ops::RangeInclusive<Duration>,
    default: Duration,
    faults: &mut Faults,
) -> Duration {
    let Some(at) = field.get() else { return default };
    if range.contains(&at.value) {
        return at.value;
    }
    let (low, high) = range.into_inner();
    faults.push(
        Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is out of range", at.shown)).label(format!(
            "must be {} to {}",
            scalar::duration(low),
            scalar::duration(high)
        )),
    );
    default
}

/// Reports a field that has no place beside the others.
pub fn out_of_place<T>(field: &Field<T>, message: &str, help: &str, faults: &mut Faults) {
    if let Some(key) = field.key() {
        let fault = Diagnostic::error(Code::CONFLICT, key, message);
        faults.push(if help.is_empty() { fault } else { fault.help(help) });
    }
}

/// Reports a choice of none or several.
pub fn exactly_one(given: &[(&str, Option<Span>)], at: Span, faults: &mut Faults) -> bool {
    let words = || given.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let mut set = given.iter().filter_map(|(word, key)| Some((word, (*key)?)));
    let Some((_, first)) = set.next() else {
        faults.push(
            Diagnostic::error(Code::MISSING_FIELD, at, "says nothing to match")
                .label(format!("needs one of {}", words())),
        );
        return false;
    };
    match set.next() {
        None => true,
        Some((word, second)) => {
            faults.push(
                Diagnostic::error(Code::CONFLICT, second, format!("`{word}` beside another"))
                    .label(format!("needs one of {}", words()))
                    .related(first, "the other"),
            );
            false
        }
    }
}
