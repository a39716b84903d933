//! Where a cap last proved too high, so that it comes near that slowly.
//!
//! A cap that is raised evenly until it is too high spends much of its time being too high: each overload lasts as long as the
//! slow answers that it made. So growth is slower around the last one, and as fast as before below and beyond it, where things
//! have changed. Source: CUBIC (Ha, Rhee and Xu 2008), whose window is flat around the last loss; the band takes the place of
//! its curve.

/// The part of the cap that fell above and below which growth is as usual.
const BAND: f64 = 0.05;

/// By how much growth is slower within the band.
const SLOWER: f64 = 16.0;

/// The cap from which it last fell.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling(f64);

impl Ceiling {
    /// It never fell.
    pub fn unknown() -> Ceiling {
        Ceiling(f64::INFINITY)
    }

    /// Whether it ever fell.
    pub fn is_known(self) -> bool {
        self.0.is_finite()
    }

    /// The cap fell from here.
    pub fn fell_from(&mut self, cap: f64) {
        self.0 = cap;
    }

    /// What is left of a step up from this cap.
    pub fn step(self, cap: f64, step: f64) -> f64 {
        let near = self.is_known() && (cap / self.0 - 1.0).abs() < BAND;
        if near { step / SLOWER } else { step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_slower_around_the_last_fall_only() {
        let mut ceiling = Ceiling::unknown();
        assert_eq!(ceiling.step(50.0, 1.6), 1.6);
        ceiling.fell_from(50.0);
        let steps = [45.0, 47.4, 47.6, 50.0, 52.4, 52.6, 100.0].map(|cap| ceiling.step(cap, 1.6));
        assert_eq!(steps, [1.6, 1.6, 0.1, 0.1, 0.1, 1.6, 1.6]);
    }
}
