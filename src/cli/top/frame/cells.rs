//! Numbers as bars, ranges and lines of blocks.

/// The full and the broken block of a bar, from an eighth to the whole.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Heights of a spark line. The lowest is nothing.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How many characters a bar has.
const BAR: u64 = 8;

/// A part of ten blocks, 0 to 1.
pub fn gauge(part: f64) -> String {
    let full = (part.clamp(0.0, 1.0) * 10.0).round() as usize;
    (0..10).map(|block| if block < full { '█' } else { '░' }).collect()
}

/// `███▌     301/400`; a number alone without a cap.
pub fn bar(number: u64, cap: Option<u64>) -> String {
    let Some(cap) = cap else { return format!("{:width$} {number}", "", width = BAR as usize) };
    let eighths = (number.min(cap) * BAR * 8).checked_div(cap).unwrap_or(0);
    // what is there is seen
    let eighths = if number > 0 { eighths.max(1) } else { 0 };
    let mut bar: String = std::iter::repeat_n('█', (eighths / 8) as usize).collect();
    let broken = (eighths % 8).checked_sub(1).and_then(|eighth| EIGHTHS.get(eighth as usize));
    bar.extend(broken);
    format!("{bar:<width$} {number}/{cap}", width = BAR as usize)
}

/// A line as high as the numbers, the greatest of which has full height.
pub fn sparks(points: &[f64]) -> String {
    let greatest = points.iter().copied().fold(0.0, f64::max);
    let height = |point: &f64| {
        let steps = if greatest > 0.0 { (point / greatest * 7.0).ceil() } else { 0.0 };
        HEIGHTS.get(steps as usize).copied().unwrap_or('█')
    };
    points.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_has_ten_blocks() {
        assert_eq!([0.0, 0.34, 1.7, f64::NAN].map(gauge), ["░░░░░░░░░░", "███░░░░░░░", "██████████", "░░░░░░░░░░"]);
    }

    #[test]
    fn a_bar_is_as_long_as_its_part_of_the_cap() {
        assert_eq!(bar(301, Some(400)), "██████   301/400");
        assert_eq!(bar(0, Some(400)), "         0/400");
        assert_eq!(bar(1, Some(400)), "▏        1/400");
        assert_eq!(bar(500, Some(400)), "████████ 500/400", "a cap may have sunk below what is there");
        assert_eq!(bar(3, Some(0)), "▏        3/0");
        assert_eq!(bar(7, None), "         7");
    }

    #[test]
    fn a_spark_line_tells_nothing_from_little() {
        assert_eq!(sparks(&[0.0, 0.1, 50.0, 100.0]), "▁▂▅█");
        assert_eq!(sparks(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparks(&[]), "");
    }
}
