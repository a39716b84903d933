//! Values to places on the paper, and round numbers along an axis.

use crate::human::grouped;

/// Values of an axis to places on the paper.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub(super) from: f64,
    pub(super) until: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// An axis without length is taken for one of length 1.
    pub fn new(from: f64, until: f64, start: f64, end: f64) -> Scale {
        let from = if from.is_finite() { from } else { 0.0 };
        let until = if until.is_finite() && until > from { until } else { from + 1.0 };
        Scale { from, until, start, end }
    }

    /// Where a value goes; what is beyond an end stays at that end.
    pub fn place(&self, value: f64) -> f64 {
        let part = ((value - self.from) / (self.until - self.from)).clamp(0.0, 1.0);
        self.start + part * (self.end - self.start)
    }

    /// About so many round values within the axis, with their labels.
    pub fn ticks(&self, about: u32) -> Vec<(f64, String)> {
        let step = round_step((self.until - self.from) / f64::from(about));
        let first = (self.from / step).ceil();
        let values = (0..=2 * about).map(|index| (first + f64::from(index)) * step);
        values.take_while(|value| *value <= self.until).map(|value| (value, label(value, step))).collect()
    }
}

/// The least of 1, 2 and 5 times a power of ten that is at least this.
fn round_step(least: f64) -> f64 {
    let mut power = 1.0;
    // both loops end: a positive finite number is passed within a few hundred steps of ten
    while power > least {
        power /= 10.0;
    }
    while power * 10.0 <= least {
        power *= 10.0;
    }
    let found = [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= least);
    found.unwrap_or(10.0 * power)
}

/// A tick's number, with commas between thousands, and as many decimals as its step has (up to three).
pub fn label(value: f64, step: f64) -> String {
    let decimals = (0..3).find(|decimals| (step * 10.0_f64.powi(*decimals)).fract().abs() < 1e-9).unwrap_or(3);
    let plain = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    let whole = plain.find('.').unwrap_or(plain.len());
    let (sign, rest) = plain.split_at(usize::from(plain.starts_with('-')));
    let (whole, fraction) = rest.split_at(whole - sign.len());
    format!("{sign}{}{fraction}", whole.parse().map_or_else(|_| whole.to_owned(), grouped))
}

/// An axis of counts by their logarithm, with a place for none: 0 lies at the start, 1 one step from it.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    steps: f64,
    start: f64,
    end: f64,
}

impl Counts {
    /// Up to a count, which is rounded up to 1, 2 or 5 times a power of ten; never less than 1.
    pub fn new(most: f64, start: f64, end: f64) -> Counts {
        let most = if most.is_finite() { most.max(1.0) } else { 1.0 };
        Counts { steps: step_of(round_step(most)), start, end }
    }

    /// Where a count goes; what is above the axis stays at its end.
    pub fn place(&self, count: f64) -> f64 {
        let part = (step_of(count) / self.steps).clamp(0.0, 1.0);
        self.start + part * (self.end - self.start)
    }

    /// None, one, and every power of ten, with their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let powers = (0..18).map(|power| 10.0_f64.powi(power)).take_while(|power| step_of(*power) <= self.steps + 1e-9);
        std::iter::once(0.0).chain(powers).map(|value| (value, label(value, 1.0))).collect()
    }
}

/// Steps from the start of an axis of counts: 0 for none, 1 for one, one more for each power of ten.
fn step_of(count: f64) -> f64 {
    if count >= 1.0 { 1.0 + count.log10() } else { count.max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_grouped() {
        let labels = |until: f64, about| -> Vec<String> {
            Scale::new(0.0, until, 0.0, 1.0).ticks(about).into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(21.0, 4), ["0", "10", "20"]);
        assert_eq!(labels(6_300.0, 4), ["0", "2,000", "4,000", "6,000"]);
        assert_eq!(labels(1.2, 4), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(2_100_000.0, 4), ["0", "1,000,000", "2,000,000"]);
        assert_eq!(label(-1_000.0, 500.0), "-1,000");
    }

    #[test]
    fn none_and_one_have_places_of_their_own() {
        let counts = Counts::new(700.0, 0.0, 400.0);
        let places: Vec<f64> = [0.0, 1.0, 10.0, 1_000.0, 9_999.0].map(|count| counts.place(count).round()).to_vec();
        assert_eq!(places, [0.0, 100.0, 200.0, 400.0, 400.0]);
        let labels: Vec<String> = counts.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "1", "10", "100", "1,000"]);
    }

    #[test]
    fn an_axis_of_nothing_still_has_ends() {
        assert_eq!(Counts::new(f64::NAN, 0.0, 100.0).place(0.0), 0.0);
        assert_eq!(Counts::new(0.0, 0.0, 100.0).place(1.0), 100.0);
    }
}
