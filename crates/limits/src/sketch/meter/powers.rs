//! Powers and logarithms of two that keep order exactly, and are the same number on every machine.
//!
//! `f64::exp2` and `f64::log2` promise neither: they may differ between systems, on which replay would then decide
//! otherwise than serving did, and two neighbouring arguments may come out in the wrong order, which would break the
//! laws of a [`Meter`](super::Meter). Here every step is one correctly rounded operation on numbers that are not
//! negative, with series whose terms are all positive; each step keeps order, so the whole does. No source but Taylor.

/// 2^`exponent`, off by less than 2⁻⁵⁰ of itself. Below −60 it is zero, which is not lower by more than 2⁻⁶⁰; from 64
/// on it is 2⁶⁴.
#[inline]
pub fn power_of_two(exponent: f64) -> f64 {
    if exponent.is_nan() || exponent < -60.0 {
        return 0.0;
    }
    if exponent >= 64.0 {
        return 2.0_f64.powi(64);
    }
    let whole = floor(exponent);
    let eighths = (exponent - whole as f64) * 8.0;
    // 0 to 7; through the signed number, as processors have no unsigned one
    let step = eighths as i32;
    let rest = (eighths - f64::from(step)) / 8.0; // exact, as were all before it: 0 up to 1/8
    let step = step as usize;
    let (low, high) = (EIGHTHS.get(step).copied().unwrap_or(1.0), EIGHTHS.get(step + 1).copied().unwrap_or(2.0));
    // the bound keeps the order where two steps meet
    let mantissa = lesser(low * exponential(rest), high);
    mantissa * f64::from_bits(((whole + 1_023) as u64) << 52)
}

/// What `f64::floor` does, without the call that it is where the processor's rounding may not be counted on.
#[inline]
fn floor(number: f64) -> i64 {
    let whole = number as i64;
    whole - i64::from(whole as f64 > number)
}

/// 2^`x` for x up to 1/8: ln(2)ⁿ/n! from n = 0 to 9, the first term left out being below 2⁻⁵⁷. In pairs, on which a
/// processor works at once, and which keep order just as well.
#[inline]
fn exponential(x: f64) -> f64 {
    let (x2, x4) = (x * x, (x * x) * (x * x));
    let first = (1.0 + std::f64::consts::LN_2 * x) + (0.24022650695910072 + 0.05550410866482158 * x) * x2;
    let second =
        (0.009618129107628477 + 0.0013333558146428443 * x) + (0.0001540353039338161 + 1.5252733804059841e-05 * x) * x2;
    first + (second + (1.321548679014431e-06 + 1.01780860092397e-07 * x) * x4) * x4
}

/// The logarithm to base 2 of a finite `number` of at least 1, off by less than 2⁻⁵¹ of itself and 2⁻⁵¹.
#[inline]
pub fn logarithm(number: f64) -> f64 {
    let bits = greater(number, 1.0).to_bits();
    let exponent = (bits >> 52) as i64 - 1_023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1_023 << 52);
    let step = (bits >> 48 & 15) as usize;
    let low = SIXTEENTHS.get(step).copied().unwrap_or(0.0);
    let high = SIXTEENTHS.get(step + 1).copied().unwrap_or(1.0);
    // down from the upper end of the step: log(m) = log(c) − (t + t²/2 + t³/3 + …) with t = (c − m)/c, at most 1/17
    let upper = 1.0 + (step + 1) as f64 / 16.0;
    let below = (upper - mantissa) / upper;
    greater(high - series(below), low) + exponent as f64
}

/// By how much an instant is ahead of another, or behind it: the number nearest to the difference.
#[inline]
pub fn ahead(of: u64, behind: u64) -> f64 {
    match (i64::try_from(of), i64::try_from(behind)) {
        // by the conversion that processors have
        (Ok(of), Ok(behind)) => (of - behind) as f64,
        _ if of >= behind => (of - behind) as f64,
        _ => -((behind - of) as f64),
    }
}

/// The greater of the two; `b` if `a` is no number, so that it is one instruction.
#[inline]
fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The lesser of the two, likewise.
#[inline]
pub fn lesser(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// −log2(1 − `x`) for x up to 1/17: xⁿ/(n·ln 2) from n = 1 to 13, the first term left out being below 2⁻⁵⁹.
#[inline]
fn series(x: f64) -> f64 {
    let (x2, x4) = (x * x, (x * x) * (x * x));
    let first =
        (std::f64::consts::LOG2_E + 0.7213475204444817 * x) + (0.4808983469629878 + 0.36067376022224085 * x) * x2;
    let second = (0.28853900817779266 + 0.2404491734814939 * x) + (0.2060992915555662 + 0.18033688011112042 * x) * x2;
    let third = (0.1602994489876626 + 0.14426950408889633 * x) + (0.1311540946262694 + 0.12022458674074694 * x) * x2;
    x * (first + (second + (third + 0.11097654160684334 * x4) * x4) * x4)
}

/// 2^(i/8).
const EIGHTHS: [f64; 9] = [
    1.0,
    1.0905077326652577,
    1.189207115002721,
    1.2968395546510096,
    std::f64::consts::SQRT_2,
    1.5422108254079407,
    1.681792830507429,
    1.8340080864093424,
    2.0,
];

/// log2(1 + i/16).
const SIXTEENTHS: [f64; 17] = [
    0.0,
    0.0874628412503394,
    0.16992500144231237,
    0.2479275134435855,
    0.32192809488736235,
    0.3923174227787603,
    0.45943161863729726,
    0.5235619560570128,
    0.5849625007211562,
    0.6438561897747247,
    0.7004397181410922,
    0.7548875021634686,
    0.8073549220576041,
    0.8579809951275721,
    0.9068905956085185,
    0.9541963103868752,
    1.0,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_powers_are_exact() {
        for n in -60..=64 {
            assert_eq!(power_of_two(f64::from(n)), 2.0_f64.powi(n));
        }
        for n in 0..=64 {
            assert_eq!(logarithm(2.0_f64.powi(n)), f64::from(n));
        }
    }

    #[test]
    fn there_is_a_number_for_every_argument() {
        assert_eq!((power_of_two(f64::NAN), power_of_two(f64::NEG_INFINITY)), (0.0, 0.0));
        assert_eq!(power_of_two(f64::INFINITY), 2.0_f64.powi(64));
        assert_eq!((logarithm(f64::NAN), logarithm(-1.0), logarithm(0.5)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn order_is_kept_where_two_steps_meet() {
        for n in -480..=512 {
            let seam = f64::from(n) / 8.0;
            assert!(power_of_two(seam.next_down()) <= power_of_two(seam), "{seam}");
            assert!(power_of_two(seam) <= power_of_two(seam.next_up()), "{seam}");
        }
        for n in 16..=32 {
            for scale in [1.0, 1_024.0, 2.0_f64.powi(40)] {
                let seam = f64::from(n) / 16.0 * scale;
                assert!(logarithm(seam.next_down()) <= logarithm(seam), "{seam}");
                assert!(logarithm(seam) <= logarithm(seam.next_up()), "{seam}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_difference_of_two_instants_is_the_nearest_number(
            of: u64, behind: u64, less in 0_u32..64, near in 0_u64..1 << 60, past: bool,
        ) {
            for (of, behind) in [(of, behind), (of >> less, behind), (of, of.saturating_sub(near)), (near, near | 1)] {
                let (of, behind) = if past { (behind, of) } else { (of, behind) };
                prop_assert_eq!(ahead(of, behind), (i128::from(of) - i128::from(behind)) as f64);
            }
        }

        #[test]
        fn both_are_near_those_of_the_system_and_keep_order(exponent in -60.0..64.0_f64, steps in 1_u64..1_000) {
            let power = power_of_two(exponent);
            prop_assert!((power / exponent.exp2() - 1.0).abs() < 2.0_f64.powi(-50));
            prop_assert!(power <= power_of_two(exponent + steps as f64 * f64::EPSILON));
            let number = 1.0 + power;
            let (ours, theirs) = (logarithm(number), number.log2());
            prop_assert!((ours - theirs).abs() <= 2.0_f64.powi(-51) * theirs.max(1.0), "{number}: {ours} {theirs}");
            prop_assert!(ours <= logarithm(f64::from_bits(number.to_bits() + steps)));
        }
    }
}
