//! Points in time as text: RFC 3339, UTC, nine decimals, as in `2026-11-21T08:35:53.000000001Z`.

use std::cell::Cell;

use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::fmt::temporal::DateTimePrinter;

const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(9));

/// Of a time's text, what stands before the decimals.
const TO_THE_SECOND: usize = "2026-11-21T08:35:53".len();

thread_local! {
    /// The second that this thread wrote last, and its text: the lines of a second begin alike.
    static LAST: Cell<(u64, [u8; TO_THE_SECOND])> = const { Cell::new((u64::MAX, [0; TO_THE_SECOND])) };
}

/// Appends the time so many nanoseconds after 1970 began; a `u64` reaches the year 2554.
pub fn write(out: &mut Vec<u8>, unix_nanos: u64) {
    let (second, mut rest) = (unix_nanos / SECOND, unix_nanos % SECOND);
    let (last, mut text) = LAST.get();
    if last == second {
        out.extend_from_slice(&text);
    } else {
        let begin = out.len();
        let time = Timestamp::from_nanosecond(unix_nanos.into()).unwrap_or_default();
        // a vector takes all of it
        let _ = PRINTER.print_timestamp(&time, &mut *out);
        text.iter_mut().zip(out.iter().skip(begin)).for_each(|(to, from)| *to = *from);
        LAST.set((second, text));
        out.truncate(begin + TO_THE_SECOND);
    }
    let mut decimals = *b".000000000Z";
    for digit in decimals.iter_mut().rev().skip(1).take(9) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&decimals);
}

const SECOND: u64 = 1_000_000_000;

/// The time so many nanoseconds after 1970 began, as text.
pub fn text(unix_nanos: u64) -> String {
    let mut text = Vec::with_capacity(30);
    write(&mut text, unix_nanos);
    String::from_utf8(text).unwrap_or_default()
}

/// Reads exactly what `write` writes.
pub fn read(written: &str) -> Option<u64> {
    let nanos = written.parse::<Timestamp>().ok()?.as_nanosecond();
    u64::try_from(nanos).ok().filter(|nanos| text(*nanos) == written)
}

/// Appends the time as Apache and nginx do, in UTC: `10/Oct/2000:13:55:36 +0000`.
pub fn write_common(out: &mut Vec<u8>, unix_nanos: u64) {
    let time = Timestamp::from_nanosecond(unix_nanos.into()).unwrap_or_default();
    let _ = BrokenDownTime::from(time).format("%d/%b/%Y:%H:%M:%S +0000", out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_instants_have_their_known_names() {
        for (seconds, name) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_000_000_000, "2001-09-09T01:46:40"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (4_107_542_399, "2100-02-28T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(text(seconds * 1_000_000_000 + 1), format!("{name}.000000001Z"));
        }
        let mut out = Vec::new();
        write_common(&mut out, 951_782_400 * 1_000_000_000 + 12 * 3_600_000_000_000 + 34_999_999_999);
        assert_eq!(String::from_utf8(out).unwrap(), "29/Feb/2000:12:00:34 +0000");
        assert_eq!(text(u64::MAX), "2554-07-21T23:34:33.709551615Z");
    }

    #[test]
    fn what_is_no_time_is_not_read() {
        for text in [
            "",
            "2026-11-21T08:35:53Z",
            "2026-11-21 08:35:53.000000000Z",
            "2026-11-21T08:35:53.000000000",
            "2026-11-21T08:35:53.000000000Z ",
            "2026-13-01T00:00:00.000000000Z",
            "2026-00-01T00:00:00.000000000Z",
            "2026-02-29T00:00:00.000000000Z",
            "2026-02-00T00:00:00.000000000Z",
            "2026-11-21T24:00:00.000000000Z",
            "2026-11-21T00:00:60.000000000Z",
            "1969-12-31T23:59:59.999999999Z",
            "0000-01-01T00:00:00.000000000Z",
            "9999-12-31T23:59:59.999999999Z",
            "+026-11-21T08:35:53.000000000Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_instant_is_read_back_and_later_ones_sort_later(one in any::<u64>(), other in any::<u64>()) {
            prop_assert_eq!(read(&text(one)), Some(one));
            prop_assert_eq!(one.cmp(&other), text(one).cmp(&text(other)));
        }
    }
}
