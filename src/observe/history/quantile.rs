//! How long nine of ten took, read from buckets.

/// The `share` quantile (0 to 1) of what lies in these buckets, in the unit of their `bounds`: `counts` has one for each
/// bound, of what is at most that and above the one before, and one more for what is above all. `None` where there is
/// nothing.
///
/// Within a bucket all is taken as evenly spread, and what is above all bounds as at the last of them, as Prometheus'
/// `histogram_quantile` does; so both tell the same.
pub fn quantile(bounds: &[f64], counts: &[u64], share: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = share.clamp(0.0, 1.0) * total as f64;
    let (mut below, mut lower) = (0.0, 0.0);
    for (bound, count) in bounds.iter().zip(counts) {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            return Some(lower + (bound - lower) * (rank - below) / count);
        }
        below += count;
        lower = *bound;
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    const BOUNDS: [f64; 3] = [0.1, 0.2, 1.0];

    #[test]
    fn spreads_a_bucket_evenly() {
        let counts = [0, 10, 0, 0];
        for (share, expected) in [(0.5, 0.15), (0.9, 0.19), (1.0, 0.2)] {
            assert!((quantile(&BOUNDS, &counts, share).unwrap() - expected).abs() < 1e-12, "{share}");
        }
        assert!((quantile(&BOUNDS, &[50, 50, 0, 0], 0.5).unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn nothing_has_no_quantile_and_what_is_above_all_has_the_last_bound() {
        assert_eq!(quantile(&BOUNDS, &[0; 4], 0.5), None);
        assert_eq!(quantile(&BOUNDS, &[], 0.5), None);
        assert_eq!(quantile(&BOUNDS, &[0, 0, 0, 7], 0.5), Some(1.0));
        assert_eq!(quantile(&[], &[3], 0.5), Some(0.0));
    }
}
