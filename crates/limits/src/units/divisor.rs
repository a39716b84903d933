//! Division by a number that is known long before: two multiplications instead of a division.
//!
//! Source: Granlund and Montgomery, *Division by invariant integers using multiplication* (1994), in the form that corrects a
//! quotient which may be one too low.

/// A number above zero to divide by, and 2⁶⁴ over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisor {
    divisor: u64,
    inverse: u64,
}

impl Divisor {
    /// A divisor of zero is taken for one.
    pub const fn new(divisor: u64) -> Divisor {
        let divisor = if divisor == 0 { 1 } else { divisor };
        let inverse = (1_u128 << 64) / divisor as u128;
        // of one it would be 2⁶⁴; the next lower number makes the quotient one too low, as others are
        Divisor { divisor, inverse: if divisor == 1 { u64::MAX } else { inverse as u64 } }
    }

    /// The number to divide by.
    #[inline]
    pub const fn get(self) -> u64 {
        self.divisor
    }

    /// `number` over the divisor, rounded down, and what remains: for every number exactly what `/` and `%` give.
    #[inline]
    pub const fn divide(self, number: u64) -> (u64, u64) {
        // the inverse is too low by less than one, so this is too low by less than number/2⁶⁴ + 1, which is at most one
        let low = ((number as u128 * self.inverse as u128) >> 64) as u64;
        let rest = number.wrapping_sub(low.wrapping_mul(self.divisor));
        if rest >= self.divisor { (low.wrapping_add(1), rest.wrapping_sub(self.divisor)) } else { (low, rest) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_both_ranges_divide_as_they_should() {
        let ends = [0, 1, 2, 3, 999_999_999, 1_000_000_000, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX];
        for divisor in ends {
            for near in ends {
                for number in [near, near.saturating_sub(divisor), near / divisor.max(1) * divisor] {
                    let expected = (number / divisor.max(1), number % divisor.max(1));
                    assert_eq!(Divisor::new(divisor).divide(number), expected, "{number} / {divisor}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn it_divides_as_the_processor_does(
            number: u64, divisor: u64, less in 0_u32..64, smaller in 0_u32..64, past in 0_u64..3,
        ) {
            let (number, divisor) = (number >> less, (divisor >> smaller).max(1));
            // and at the steps of the quotient, where one too low would show
            let step = (number / divisor).wrapping_mul(divisor).wrapping_add(past).wrapping_sub(1);
            for number in [number, step] {
                prop_assert_eq!(Divisor::new(divisor).divide(number), (number / divisor, number % divisor));
            }
        }
    }
}
