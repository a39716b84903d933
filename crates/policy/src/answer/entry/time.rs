//! Points in time as text: RFC 3339, UTC, nine decimals, as in `2026-11-21T08:35:53.000000001Z`.
//!
//! The calendar is the proleptic Gregorian one, counted from March so that the leap day comes last (Howard Hinnant,
//! "chrono-compatible low-level date algorithms", 2013). Leap seconds do not exist here, as in all Unix time.

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// Days from the 1st of March of year 0 to the 1st of January of 1970.
const EPOCH_DAYS: u64 = 719_468;
const DAYS_PER_ERA: u64 = 146_097;
const YEARS_PER_ERA: u64 = 400;

/// Appends the time so many nanoseconds after 1970 began; a `u64` reaches the year 2554.
pub fn write(out: &mut Vec<u8>, unix_nanos: u64) {
    let seconds = unix_nanos / NANOS_PER_SECOND;
    let (year, month, day) = date(seconds / SECONDS_PER_DAY);
    let second = seconds % SECONDS_PER_DAY;
    digits(out, year, 4);
    for (before, number) in
        [(b'-', month), (b'-', day), (b'T', second / 3_600), (b':', second / 60 % 60), (b':', second % 60)]
    {
        out.push(before);
        digits(out, number, 2);
    }
    out.push(b'.');
    digits(out, unix_nanos % NANOS_PER_SECOND, 9);
    out.push(b'Z');
}

/// Reads exactly what [`write()`] writes.
pub fn read(text: &str) -> Option<u64> {
    let mut rest = text.as_bytes();
    let mut number = |width: usize, after: u8| {
        let (digits, tail) = rest.split_at_checked(width)?;
        let number = digits
            .iter()
            .try_fold(0, |number: u64, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))?;
        rest = tail.strip_prefix(&[after])?;
        Some(number)
    };
    let (year, month, day) = (number(4, b'-')?, number(2, b'-')?, number(2, b'T')?);
    let (hour, minute, second) = (number(2, b':')?, number(2, b':')?, number(2, b'.')?);
    let nanos = number(9, b'Z')?;
    let days = days(year, month, day)?;
    // a day that its month does not have comes back as another
    if !rest.is_empty() || date(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second;
    seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(nanos)
}

/// Year, month and day, so many days after the 1st of January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    // leap days: one in 4 years, but none in 100, but one in 400
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // the months from March have 31, 30, 31, 30, 31 days, again and again: 153 in five
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * YEARS_PER_ERA + year_of_era + u64::from(month <= 2), month, day)
}

/// The inverse of [`date`]; `None` before 1970 or for a month that does not exist.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let from_march = match month {
        1..=2 => month + 9,
        3..=12 => month - 3,
        _ => return None,
    };
    let year = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (year / YEARS_PER_ERA, year % YEARS_PER_ERA);
    let day_of_year = (153 * from_march + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * DAYS_PER_ERA + day_of_era).checked_sub(EPOCH_DAYS)
}

/// Appends the time as Apache and nginx do, in UTC: `10/Oct/2000:13:55:36 +0000`.
pub fn write_common(out: &mut Vec<u8>, unix_nanos: u64) {
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let seconds = unix_nanos / NANOS_PER_SECOND;
    let (year, month, day) = date(seconds / SECONDS_PER_DAY);
    let second = seconds % SECONDS_PER_DAY;
    digits(out, day, 2);
    out.push(b'/');
    out.extend_from_slice(MONTHS.get(month as usize - 1).map_or(b"", |name| *name));
    for (before, number, width) in
        [(b'/', year, 4), (b':', second / 3_600, 2), (b':', second / 60 % 60, 2), (b':', second % 60, 2)]
    {
        out.push(before);
        digits(out, number, width);
    }
    out.extend_from_slice(b" +0000");
}

/// The last `width` digits of a number, with zeros in front.
fn digits(out: &mut Vec<u8>, number: u64, width: u32) {
    for place in (0..width).rev() {
        // the remainder is below ten
        out.push(b'0' + (number / 10_u64.pow(place) % 10) as u8);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(unix_nanos: u64) -> String {
        let mut out = Vec::new();
        write(&mut out, unix_nanos);
        String::from_utf8(out).unwrap()
    }

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
            assert_eq!(text(seconds * NANOS_PER_SECOND + 1), format!("{name}.000000001Z"));
        }
        let mut out = Vec::new();
        write_common(&mut out, 951_782_400 * NANOS_PER_SECOND + 12 * 3_600_000_000_000 + 34_999_999_999);
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
