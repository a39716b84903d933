//! Places and units for important requests.

use crate::units::Criticality;

/// The part of the places, or of a bucket, that is kept for each class: less important requests leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserved([u16; 4]);

/// All places, in parts.
const ALL: u64 = 10_000;

impl Reserved {
    /// So much for each class, 0 to 1, in the order of [`Criticality::ALL`]. Kept to a ten-thousandth, which is also the least.
    pub fn new(shares: [f64; 4]) -> Reserved {
        let part = |share: f64| if share > 0.0 { (share.min(1.0) * ALL as f64).round().max(1.0) as u16 } else { 0 };
        Reserved(shares.map(part))
    }

    /// The share of a class, 0 to 1.
    pub fn share(&self, criticality: Criticality) -> f64 {
        self.0.get(criticality.position()).map_or(0.0, |part| f64::from(*part) / ALL as f64)
    }

    /// The parts of all classes together, 0 to 1 where they fit.
    pub fn sum(&self) -> f64 {
        self.0.iter().map(|part| f64::from(*part)).sum::<f64>() / ALL as f64
    }

    /// The part of all that a request of this class must leave to more important ones, 0 to 1.
    pub fn part_before(&self, criticality: Criticality) -> f64 {
        let parts: u64 = self.0.iter().take(criticality.position()).map(|part| u64::from(*part)).sum();
        parts as f64 / ALL as f64
    }

    /// How many of `max` places a request of this class must leave free for more important ones. Rounded up, but one place is for all.
    pub fn before(&self, criticality: Criticality, max: u32) -> u32 {
        let parts: u64 = self.0.iter().take(criticality.position()).map(|part| u64::from(*part)).sum();
        let places = (parts * u64::from(max)).div_ceil(ALL);
        u32::try_from(places).unwrap_or(u32::MAX).min(max.saturating_sub(1))
    }

    /// In one word, which [`Reserved::from_word`] reads.
    pub(super) fn word(&self) -> u64 {
        self.0.iter().rev().fold(0, |word, part| word << 16 | u64::from(*part))
    }

    /// Reads what [`Reserved::word`] wrote.
    pub(super) fn from_word(word: u64) -> Reserved {
        Reserved([0, 16, 32, 48].map(|bits| (word >> bits) as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_important_ones_leave_the_parts_of_all_that_matter_more() {
        let reserved = Reserved::new([0.05, 0.1, 0.0, 0.0]);
        assert_eq!(Reserved::from_word(reserved.word()), reserved);
        assert_eq!(Criticality::ALL.map(|class| reserved.before(class, 400)), [0, 20, 60, 60]);
        assert_eq!(Criticality::ALL.map(|class| reserved.before(class, 8)), [0, 1, 2, 2], "rounded up");
        assert_eq!(Criticality::ALL.map(|class| reserved.before(class, 1)), [0; 4], "one place is for all");
        assert_eq!(Reserved::new([1.0; 4]).before(Criticality::Background, 8), 7);
        assert_eq!(Reserved::new([1e-9, 0.0, 0.0, 0.0]).share(Criticality::Critical), 1e-4);
        assert_eq!(Reserved::new([0.07, 0.0, 0.0, 0.0]).share(Criticality::Critical), 0.07);
    }
}
