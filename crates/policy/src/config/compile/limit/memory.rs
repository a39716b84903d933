//! The size of a limit's sketch, by `memory` or by `accuracy`.

use std::ops::RangeInclusive;

use super::written::Written;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::span::Span;
use crate::config::{scalar, schema};
use crate::limiter::{Form, Sketch};
use crate::sketch::Accuracy;
use crate::units::{Bytes, Share};

/// The size of the limit's sketch: `memory`, what `accuracy` takes, or the default. A power of two in the range.
fn size(written: &Written<'_>, sketch: Sketch, faults: &mut Faults) -> Bytes {
    let (limit, default) = (written.limit, written.form.memory);
    let range = written.form.least_memory.0..=Form::MOST_MEMORY.0;
    if let (Some(memory), Some(accuracy)) = (limit.memory.key(), limit.accuracy.key()) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, accuracy, "both `memory` and `accuracy`")
                .label("says what `memory` says already; keep one")
                .related(memory, "the other")
                .help("`tidegate check -v` prints the error that a memory buys, and the memory that an accuracy takes"),
        );
        return default;
    }
    if let Some(at) = limit.accuracy.get() {
        return accuracy(&at.value)
            .and_then(|accuracy| memory_for(accuracy, at.span, sketch, range, faults))
            .unwrap_or(default);
    }
    let Some(at) = limit.memory.get() else { return default };
    if at.value.0.is_power_of_two() && range.contains(&at.value.0) {
        return at.value;
    }
    let (low, high) = range.into_inner();
    let near = Bytes(at.value.0.clamp(low, high).next_power_of_two());
    let fault = Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} cannot be the size of a sketch", at.shown))
        .label(format!("must be a power of two from {} to {}", Bytes(low), Bytes(high)));
    faults.push(if at.masked { fault } else { fault.help(format!("write `{near}`")) });
    default
}

/// What is asked of the sketch, if both numbers are such.
pub fn accuracy(written: &schema::Accuracy) -> Option<Accuracy> {
    let (error, confidence) = (*written.error.value()?, *written.confidence.value()?);
    let within = |share: Share| share.get() > 0.0 && share.get() < 1.0;
    (within(error) && within(confidence)).then_some(Accuracy { error, confidence })
}

/// Reports shares of nothing and of all, which no sketch has.
pub fn check_accuracy(written: &Written<'_>, faults: &mut Faults) {
    let Some(accuracy) = written.limit.accuracy.value() else { return };
    for (word, field) in [("error", &accuracy.error), ("confidence", &accuracy.confidence)] {
        if let Some(at) = field.get().filter(|at| at.value.get() <= 0.0 || at.value.get() >= 1.0) {
            faults.push(
                Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("`{word}` of {} is out of range", at.shown))
                    .label("must be 0.0001% to 99.9999%"),
            );
        }
    }
}

/// The memory that an accuracy takes, in the range: there is none smaller, and a larger one is a fault.
fn memory_for(
    accuracy: Accuracy,
    at: Span,
    sketch: Sketch,
    range: RangeInclusive<u64>,
    faults: &mut Faults,
) -> Option<Bytes> {
    let (low, high) = range.into_inner();
    let memory = sketch.memory(accuracy);
    if let Some(memory) = memory.filter(|memory| memory.0 <= high) {
        return Some(Bytes(memory.0.max(low)));
    }
    let takes = memory.map_or_else(|| "too much memory".to_owned(), |memory| memory.to_string());
    let least = scalar::percent_above(sketch.shape(Bytes(high)).error(accuracy.confidence));
    faults.push(
        Diagnostic::error(Code::OUT_OF_RANGE, at, format!("a sketch of this accuracy takes {takes}"))
            .label(format!("must fit into {}: `error: {least}` or more at this `confidence`", Bytes(high))),
    );
    None
}

/// The size of the limit's sketch. One that is small enough to refuse innocent clients early, more often than one in [`RARELY`] while
/// [`BUSY`] others are at their limits, is told with the error that it makes.
pub fn memory(written: &Written<'_>, sketch: Sketch, faults: &mut Faults) -> Bytes {
    let (limit, before) = (written.limit, faults.errors());
    let size = size(written, sketch, faults);
    if !written.form.warns_of_small_sketch {
        return size;
    }
    let refused_early = |size| sketch.shape(size).covered(BUSY);
    let memory = limit.memory.get().map(|at| (at.span, at.masked, at.shown.to_string()));
    let said = memory.or(limit.accuracy.get().map(|at| (at.span, false, size.to_string())));
    if let Some((at, masked, shown)) = said.filter(|_| faults.errors() == before)
        && refused_early(size) > 1.0 / RARELY
    {
        let enough = (0..u64::BITS).map(|shift| Bytes(1 << shift)).find(|size| refused_early(*size) <= 1.0 / RARELY);
        let one_in = (1.0 / refused_early(size)).round().max(1.0);
        let fault = Diagnostic::new(Code::SMALL_SKETCH, at, format!("a sketch of {shown} is small"))
            .label(format!("one client in {one_in} is refused early while 1000 others are at their limits"));
        faults.push(match enough.filter(|_| !masked) {
            Some(enough) if limit.memory.is_present() => {
                fault.help(format!("write `{enough}` or more, or leave it out for {}", written.form.memory))
            }
            Some(enough) => fault.help(format!("a smaller `error` gives it {enough} or more")),
            None => fault,
        });
    }
    size
}

/// So many clients are taken to be at their limits, as `tidegate check -v` does.
const BUSY: u64 = 1_000;

/// More often than one in so many is worth a word: a support team hears of it.
const RARELY: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::MonotoneTable;

    #[test]
    fn the_error_of_a_sketch_is_the_one_that_it_states_itself() {
        for size in [4 << 10, 64 << 10, 1 << 20].map(Bytes) {
            let stated = MonotoneTable::with_memory(size).unwrap().false_refusal(BUSY);
            assert!((Sketch::WHOLE.shape(size).covered(BUSY) - stated).abs() < 1e-12, "{size}: {stated}");
        }
    }
}
