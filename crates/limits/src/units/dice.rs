//! Numbers that look random and are the same for the same start; not for secrets.
//!
//! Where they begin is the face's to say: from the system's randomness when serving, from a fixed number in replay and tests.
//!
//! Source: SplitMix64 of Steele, Lea and Flood, *Fast splittable pseudorandom number generators* (2014).

/// A stream of uniform numbers. Started at n, it begins as reference implementations do with the seed n.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// The golden ratio's odd neighbour in 2⁶⁴: steps of it visit every number once before any twice.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The next number.
    #[inline]
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        mixed(self.0)
    }

    /// The stream without its next `rolls` numbers, which are not rolled for it.
    #[inline]
    pub const fn skip(self, rolls: u64) -> Dice {
        Dice(self.0.wrapping_add(rolls.wrapping_mul(Self::STEP)))
    }

    /// The next number, from 0 to below `bound`; 0 if that is 0. Uniform to one part in 2⁶⁴ / `bound`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or_default()
    }

    /// The next number, from 0 to below 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The finaliser of SplitMix64: a bijection whose output bits all depend on all input bits.
#[inline]
pub const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // the vector of Vigna's splitmix64.c, with the seed 1234567
        let mut dice = Dice(1_234_567);
        let rolled = [(); 5].map(|()| dice.roll());
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(rolled, published);
    }

    #[test]
    fn skipping_is_rolling_for_nothing() {
        let (mut rolled, mut skipped) = (Dice(9), Dice(9).skip(3));
        for _ in 0..3 {
            rolled.roll();
        }
        assert_eq!(rolled.roll(), skipped.roll());
    }

    #[test]
    fn bounds_hold_even_where_there_is_nothing_below() {
        let mut dice = Dice(1);
        assert_eq!(dice.below(0), 0);
        assert!((0..1_000).all(|_| dice.below(3) < 3 && (0.0..1.0).contains(&dice.unit())));
    }
}
