//! Numbers in few characters.

/// The full and the broken block of a bar, from an eighth to the whole.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Heights of a spark line. The lowest is nothing.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How many characters a bar has.
const BAR: u64 = 8;

/// `0`, `0.04`, `3.1`, `24`, `912`, `4.1k`, `48k`, `1.2M`: two or three digits that count.
pub fn short(number: f64) -> String {
    // what is less than half of the last digit is not there
    match number {
        n if n < 0.005 => "0".to_owned(),
        n if n < 0.095 => format!("{n:.2}"),
        n if n < 9.95 => format!("{n:.1}"),
        n if n < 999.5 => format!("{n:.0}"),
        n if n < 99_950.0 => format!("{:.1}k", n / 1e3),
        n if n < 999_500.0 => format!("{:.0}k", n / 1e3),
        n if n < 99_950_000.0 => format!("{:.1}M", n / 1e6),
        n => format!("{:.0}M", n / 1e6),
    }
}

/// `0%`, `0.8%`, `31%`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 9.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// `0.8ms`, `212ms`, `1.9s`.
pub fn duration(seconds: f64) -> String {
    let millis = seconds * 1e3;
    match millis {
        m if m < 9.95 => format!("{m:.1}ms"),
        m if m < 999.5 => format!("{m:.0}ms"),
        _ => format!("{seconds:.1}s"),
    }
}

/// What a count that is at most `error` too high may be: `209–212`.
pub fn range(count: u64, error: u64) -> String {
    if error == 0 { count.to_string() } else { format!("{}–{count}", count.saturating_sub(error)) }
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
    fn numbers_have_the_digits_that_count() {
        let cases = [
            (0.0, "0"),
            (0.04, "0.04"),
            (0.0999, "0.1"),
            (3.16, "3.2"),
            (9.99, "10"),
            (24.4, "24"),
            (999.9, "1.0k"),
            (4_075.0, "4.1k"),
            (99_999.0, "100k"),
            (999_999.0, "1.0M"),
            (250e6, "250M"),
        ];
        for (number, text) in cases {
            assert_eq!(short(number), text, "{number}");
        }
    }

    #[test]
    fn shares_and_durations_are_read_at_a_glance() {
        assert_eq!([0.0, 0.008, 0.0999, 0.31, 1.0].map(percent), ["0%", "0.8%", "10%", "31%", "100%"]);
        assert_eq!([0.0008, 0.212, 0.9999, 1.94].map(duration), ["0.8ms", "212ms", "1.0s", "1.9s"]);
        assert_eq!((range(5, 0), range(212, 3), range(2, 3)), ("5".into(), "209–212".into(), "0–2".into()));
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
