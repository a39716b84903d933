//! Rates with a burst, of requests or of bytes, checked together; and sizes of sketches.
//!
//! A rate of bytes is kept in units of a power of two of bytes, the smallest by which all rates of the limit are at most
//! a million units per second: the emission interval of whole nanoseconds is then right to a thousandth. What is not
//! a whole number of units is rounded down, so that nothing exceeds what was written.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::written::Written;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_value::{Burst, LimitRate, amount_text, rate_text};
use crate::config::read::{At, Field};
use crate::config::span::Span;
use crate::config::{scalar, schema};
use crate::limiter::{Form, Sketch};
use crate::sketch::{Accuracy, Bucket};
use crate::units::{Bytes, Cost, Rate, Share};

/// Where faults of rate and burst are shown.
pub struct BucketPlaces {
    /// The rate's.
    pub rate: Span,
    /// The burst's, or the rate's if there is none.
    pub burst: Span,
    /// Whether there is one.
    pub burst_is_own: bool,
}

/// The burst of a limit, checked together with its rate and cost; `None` when they do not go together. `unit` is that of
/// a limit that counts bytes.
pub fn bucket(
    rate: Rate,
    burst: Option<u32>,
    cost: Cost,
    unit: Option<u32>,
    at: &BucketPlaces,
    faults: &mut Faults,
) -> Option<u32> {
    // at least one request must fit, or the limit would refuse everything
    let second = rate.per_second().ceil().max(1.0) as u32;
    let burst = burst.unwrap_or(second.max(cost.get()));
    let (shown_rate, shown) = (rate_text(rate, unit), amount_text(burst, unit));
    if burst < cost.get() {
        faults.push(
            Diagnostic::error(
                Code::BURST_BELOW_COST,
                at.burst,
                format!("a burst of {shown} cannot hold one request of cost {}", cost.get()),
            )
            .label(format!("must be {} or more", cost.get())),
        );
        return None;
    }
    if let Err(out) = Bucket::new(rate, burst) {
        let fault = Diagnostic::error(
            Code::OUT_OF_RANGE,
            at.burst,
            format!("a burst of {shown} at {shown_rate} is out of range"),
        )
        .label(out.to_string());
        faults.push(if at.rate == at.burst { fault } else { fault.related(at.rate, "with this rate") });
        return None;
    }
    if at.burst_is_own && f64::from(burst) < rate.per_second().floor() {
        faults.push(
            Diagnostic::new(
                Code::SMALL_BURST,
                at.burst,
                format!("a burst of {shown} is less than one second of {shown_rate}"),
            )
            .label("requests that come together are refused below the rate")
            .help(format!("write {} or more", amount_text(second, unit))),
        );
    }
    Some(burst)
}

/// Rate and burst as written for a limit or a tier of type `rate`; `unit` is that of a limit that counts bytes.
pub fn rate_and_burst(
    rate: &At<LimitRate>,
    burst: &Field<Burst>,
    cost: Cost,
    unit: Option<u32>,
    faults: &mut Faults,
) -> Option<(Rate, u32)> {
    let per_time = match (rate.value, unit) {
        (LimitRate::Bytes { bytes, period }, Some(unit)) => match Rate::new(units(bytes, unit), period) {
            Ok(rate) => rate,
            Err(_) => {
                let least = Bytes(u64::from(unit));
                faults.push(
                    Diagnostic::error(Code::OUT_OF_RANGE, rate.span, format!("the rate {} is too slow", rate.shown))
                        .label(format!("must be {least} or more at a time beside the limit's fastest rate")),
                );
                return None;
            }
        },
        _ => requests(rate, unit.is_some(), faults)?,
    };
    let own = match burst.get() {
        None if burst.is_present() => return None,
        None => None,
        Some(at) => Some(burst_units(at, unit, faults)?),
    };
    let places = BucketPlaces {
        rate: rate.span,
        burst: burst.get().map_or(rate.span, |burst| burst.span),
        burst_is_own: own.is_some(),
    };
    Some((per_time, bucket(per_time, own, cost, unit, &places, faults)?))
}

/// A rate of requests; `None` when it is of something else, which is then told. `in_bytes`: the limit counts bytes.
pub fn requests(at: &At<LimitRate>, in_bytes: bool, faults: &mut Faults) -> Option<Rate> {
    faults.push(match at.value {
        LimitRate::Requests(rate) if !in_bytes => return Some(rate),
        LimitRate::Requests(_) => Diagnostic::error(Code::CONFLICT, at.span, "a rate of requests in a limit of bytes")
            .label("must be of bytes, such as 1MiB/s"),
        LimitRate::Bytes { .. } => Diagnostic::error(Code::CONFLICT, at.span, "a rate of bytes out of place")
            .label("belongs to limits of type `rate`, and there to all their tiers or none"),
        LimitRate::Long { .. } => Diagnostic::error(Code::OUT_OF_RANGE, at.span, "a rate per more than a day")
            .label("belongs to type `quota`")
            .help("say `type: quota`, or give the rate per day"),
    });
    None
}

/// A burst in units of the limit's rate.
fn burst_units(at: &At<Burst>, unit: Option<u32>, faults: &mut Faults) -> Option<u32> {
    let out = |label: String| {
        Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is out of range", at.shown)).label(label)
    };
    faults.push(match (at.value, unit) {
        (Burst::Requests(number), None) => match u32::try_from(number) {
            Ok(number @ 1..) => return Some(number),
            _ => out("must be 1 to 4294967295".into()),
        },
        (Burst::Bytes(Bytes(bytes)), Some(unit)) => match units(bytes, unit) {
            0 => out(format!("must be {} or more at this rate", Bytes(u64::from(unit)))),
            units => return Some(units),
        },
        (Burst::Requests(_), Some(_)) => Diagnostic::error(Code::CONFLICT, at.span, "a burst without a unit of bytes")
            .label("must be a size, such as 64MiB, like the rate"),
        (Burst::Bytes(_), None) => {
            Diagnostic::error(Code::CONFLICT, at.span, "a burst of bytes beside a rate of requests")
                .label("must be a number")
        }
    });
    None
}

/// Whole units in so many bytes. The unit was chosen so that they fit.
fn units(bytes: u64, unit: u32) -> u32 {
    u32::try_from(bytes / u64::from(unit.max(1))).unwrap_or(u32::MAX)
}

/// The unit in which a limit of bytes and its tiers are counted; `Some(None)` when it does not count bytes.
pub(super) fn unit(written: &Written<'_>, faults: &mut Faults) -> Option<Option<u32>> {
    let limit = written.limit;
    let tiers = || limit.tiers.value().into_iter().flat_map(|list| &list.items).map(|tier| &tier.value);
    let Some(at) = limit.rate.get().filter(|at| matches!(at.value, LimitRate::Bytes { .. })) else { return Some(None) };
    let rates =
        std::iter::once(&limit.rate).chain(tiers().map(|tier| &tier.rate)).filter_map(|field| match field.value() {
            Some(LimitRate::Bytes { bytes, period }) => Some((*bytes, *period)),
            _ => None,
        });
    let bursts =
        std::iter::once(&limit.burst).chain(tiers().map(|tier| &tier.burst)).filter_map(|field| match field.value() {
            Some(Burst::Bytes(Bytes(bytes))) => Some(*bytes),
            _ => None,
        });
    let unit = smallest_unit(rates.collect(), bursts.collect());
    if unit.is_none() {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at.span, "a rate of bytes or its burst is out of range")
                .label("rates must be at most 1900TiB/s, bursts at most 8388608TiB"),
        );
        return None;
    }
    Some(unit)
}

/// The smallest power of two by which every rate is at most a million units per second, and all numbers fit their fields.
fn smallest_unit(mut rates: Vec<(u64, Duration)>, mut bursts: Vec<u64>) -> Option<u32> {
    const FASTEST: u128 = 1_000_000;
    loop {
        let fits = |unit: u64| {
            let fits32 = |bytes: u64| bytes / unit <= u64::from(u32::MAX);
            let slow = |bytes: u64, period: Duration| {
                u128::from(bytes) * 1_000_000_000 <= FASTEST * u128::from(unit) * period.as_nanos()
            };
            rates.iter().all(|(bytes, period)| fits32(*bytes) && slow(*bytes, *period))
                && bursts.iter().all(|bytes| fits32(*bytes))
        };
        let unit = (0..u32::BITS).map(|shift| 1_u64 << shift).find(|unit| fits(*unit))?;
        // what is left after rounding may do with a smaller unit; only then does what is shown load as the same
        let (before, rest) = ((rates.clone(), bursts.clone()), |bytes: &mut u64| *bytes -= *bytes % unit);
        rates.iter_mut().for_each(|(bytes, _)| rest(bytes));
        bursts.iter_mut().for_each(rest);
        if (rates.clone(), bursts.clone()) == before {
            return u32::try_from(unit).ok();
        }
    }
}

/// The size of the limit's sketch: `memory`, what `accuracy` takes, or the default. A power of two in the range.
pub(super) fn memory(written: &Written<'_>, sketch: Sketch, faults: &mut Faults) -> Bytes {
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
pub(super) fn accuracy(written: &schema::Accuracy) -> Option<Accuracy> {
    let (error, confidence) = (*written.error.value()?, *written.confidence.value()?);
    let within = |share: Share| share.get() > 0.0 && share.get() < 1.0;
    (within(error) && within(confidence)).then_some(Accuracy { error, confidence })
}

/// Reports shares of nothing and of all, which no sketch has.
pub(super) fn check_accuracy(written: &Written<'_>, faults: &mut Faults) {
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

/// The size of a sketch of levels. One that is small enough to refuse innocent clients early, more often than one in
/// [`RARELY`] while [`BUSY`] others are at their limits, is told with the error that it makes.
pub(super) fn levels_memory(written: &Written<'_>, sketch: Sketch, faults: &mut Faults) -> Bytes {
    let (limit, before) = (written.limit, faults.errors());
    let size = memory(written, sketch, faults);
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

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_error_of_a_sketch_is_the_one_that_it_states_itself() {
        for size in [4 << 10, 64 << 10, 1 << 20].map(Bytes) {
            let stated = MonotoneTable::with_memory(size).unwrap().false_refusal(BUSY);
            assert!((Sketch::WHOLE.shape(size).covered(BUSY) - stated).abs() < 1e-12, "{size}: {stated}");
        }
    }

    #[test]
    fn the_unit_is_the_smallest_that_keeps_the_rate_below_a_million() {
        let unit = |bytes, period| smallest_unit(vec![(bytes, period)], Vec::new());
        assert_eq!(unit(1_000_000, SECOND), Some(1));
        assert_eq!(unit(20 << 20, SECOND), Some(32));
        assert_eq!(unit(512 << 10, SECOND * 60), Some(1));
        assert_eq!(unit(1, SECOND), Some(1));
        assert_eq!(unit(u64::MAX, SECOND), None);
        // a million per second in all of a day is more than 32 bits hold
        assert_eq!(unit(86_400_000_000, SECOND * 86_400), Some(32));
        assert_eq!(smallest_unit(vec![(1_000, SECOND)], vec![1 << 40]), Some(512));
    }

    #[test]
    fn what_was_rounded_has_the_same_unit_again() {
        for bytes in (999_990..1_000_020).chain(1_999_990..2_000_020).chain(63_999_900..64_000_100) {
            let unit = smallest_unit(vec![(bytes, SECOND)], vec![]).unwrap();
            let rounded = bytes - bytes % u64::from(unit);
            assert_eq!(smallest_unit(vec![(rounded, SECOND)], vec![]), Some(unit), "{bytes}");
        }
    }
}
