//! Points in time as logs write them, to nanoseconds since 1970.
//!
//! What is before 1970 or after 2554 is no stamp.

use jiff::civil::{Date, date as day_of};

const EPOCH: Date = day_of(1970, 1, 1);

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// Reads stamps of one source. A log has many lines of one second: the last text and what it said are kept.
#[derive(Debug, Clone)]
pub struct Stamps {
    last: [u8; 26],
    nanos: u64,
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps { last: *b"01/Jan/1970:00:00:00 +0000", nanos: 0 }
    }
}

impl Stamps {
    /// What the text that was read last said, if `line` has the same from `from` on and a closing bracket behind it.
    #[inline]
    pub fn again(&self, line: &[u8], from: usize) -> Option<u64> {
        let (text, rest) = line.get(from..)?.split_first_chunk::<26>()?;
        (*text == self.last && rest.first() == Some(&b']')).then_some(self.nanos)
    }

    /// `10/Oct/2023:11:06:56 +0200`, what stands between the brackets of the common log format.
    #[inline]
    pub fn common(&mut self, text: &[u8]) -> Option<u64> {
        if text == self.last {
            return Some(self.nanos);
        }
        let nanos = common(text)?;
        if let Ok(text) = text.try_into() {
            (self.last, self.nanos) = (text, nanos);
        }
        Some(nanos)
    }
}

/// `10/Oct/2023:11:06:56 +0200`, with a fraction after the seconds or none, and without zone as UTC.
pub fn common(text: &[u8]) -> Option<u64> {
    let (date, rest) = text.split_at_checked(20)?;
    let [d0, d1, b'/', m0, m1, m2, b'/', y0, y1, y2, y3, b':', h0, h1, b':', i0, i1, b':', s0, s1] = *date else {
        return None;
    };
    let days = days(four([y0, y1, y2, y3])?, month([m0, m1, m2])?, two(d0, d1)?)?;
    let seconds = clock([h0, h1, i0, i1, s0, s1])?;
    let (fraction, rest) = fraction(rest)?;
    let zone = rest.strip_prefix(b" ").unwrap_or(rest);
    total(days, seconds, fraction, offset(zone)?)
}

/// RFC 3339: `2023-04-26T12:22:55.463821Z`, `…+02:00`; with a blank or a tab for the `T`, and without zone as UTC.
pub fn rfc3339(text: &[u8]) -> Option<u64> {
    let (date, rest) = text.split_at_checked(19)?;
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T' | b't' | b' ' | b'\t', h0, h1, b':', i0, i1, b':', s0, s1] =
        *date
    else {
        return None;
    };
    let days = days(four([y0, y1, y2, y3])?, two(m0, m1)?, two(d0, d1)?)?;
    let seconds = clock([h0, h1, i0, i1, s0, s1])?;
    let (fraction, zone) = fraction(rest)?;
    total(days, seconds, fraction, offset(zone)?)
}

/// `2023-04-26`, its beginning in UTC.
pub fn date(text: &[u8]) -> Option<u64> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text else { return None };
    total(days(four([y0, y1, y2, y3])?, two(m0, m1)?, two(d0, d1)?)?, 0, 0, 0)
}

/// A decimal number of units of so many nanoseconds: `1693840791.7564995` of seconds, `0.113`. Digits beyond the nanosecond
/// are cut.
pub fn decimal(text: &[u8], unit: u64) -> Option<u64> {
    let (whole, rest) = digits(text)?;
    let whole = whole.checked_mul(unit)?;
    let Some(fraction) = rest.strip_prefix(b".") else {
        return match rest {
            [] => Some(whole),
            [b'e' | b'E', exponent @ ..] => exponential(whole, exponent),
            _ => None,
        };
    };
    let (mut part, mut scale, mut left) = (0_u64, 1_u64, fraction);
    while let [digit @ b'0'..=b'9', more @ ..] = left {
        if scale < 1_000_000_000 {
            (part, scale) = (part * 10 + u64::from(digit - b'0'), scale * 10);
        }
        left = more;
    }
    match left {
        [] => whole.checked_add(mul_div(unit, part, scale)?),
        // Go writes small numbers so: 2.701e-06
        [b'e' | b'E', exponent @ ..] => exponential(whole.checked_add(mul_div(unit, part, scale)?)?, exponent),
        _ => None,
    }
}

fn exponential(value: u64, exponent: &[u8]) -> Option<u64> {
    let (negative, figures) = match exponent {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (power, []) = digits(figures)? else { return None };
    let power = 10_u64.checked_pow(u32::try_from(power).ok()?);
    match (negative, power) {
        (true, power) => Some(power.map_or(0, |power| value / power)),
        (false, power) => value.checked_mul(power?),
    }
}

fn mul_div(value: u64, by: u64, over: u64) -> Option<u64> {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(over.max(1))).ok()
}

/// A whole number and what follows it.
pub fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut rest = text;
    // nineteen digits always fit
    for _ in 0..19 {
        let [digit @ b'0'..=b'9', more @ ..] = rest else { break };
        value = value * 10 + u64::from(digit - b'0');
        rest = more;
    }
    while let [digit @ b'0'..=b'9', more @ ..] = rest {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        rest = more;
    }
    (rest.len() < text.len()).then_some((value, rest))
}

/// A whole number and nothing else.
pub fn number(text: &[u8]) -> Option<u64> {
    let (value, []) = digits(text)? else { return None };
    Some(value)
}

/// Nanoseconds of `.123456` at the beginning, and what follows.
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b".").or_else(|| text.strip_prefix(b",")) else { return Some((0, text)) };
    let (mut nanos, mut place) = (0, SECOND / 10);
    while let [digit @ b'0'..=b'9', more @ ..] = rest {
        nanos += u64::from(digit - b'0') * place;
        place /= 10;
        rest = more;
    }
    Some((nanos, rest))
}

/// Seconds east of Greenwich, of `Z`, `+0200`, `+02:00` or nothing.
fn offset(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match *text {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign, h0, h1, m0, m1] | [sign, h0, h1, b':', m0, m1] => (sign, two(h0, h1)?, two(m0, m1)?),
        _ => return None,
    };
    let seconds = i64::try_from(hours * HOUR + minutes * MINUTE).ok()?;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

fn total(days: u64, seconds: u64, nanos: u64, east: i64) -> Option<u64> {
    let seconds = days.checked_mul(DAY)?.checked_add(seconds)?.checked_add_signed(-east)?;
    seconds.checked_mul(SECOND)?.checked_add(nanos)
}

fn clock([h0, h1, i0, i1, s0, s1]: [u8; 6]) -> Option<u64> {
    let (hour, minute, second) = (two(h0, h1)?, two(i0, i1)?, two(s0, s1)?);
    // a leap second is the one after it, as everywhere in Unix time
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * HOUR + minute * MINUTE + second)
}

fn two(tens: u8, ones: u8) -> Option<u64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| u64::from(tens - b'0') * 10 + u64::from(ones - b'0'))
}

fn four([a, b, c, d]: [u8; 4]) -> Option<u64> {
    Some(two(a, b)? * 100 + two(c, d)?)
}

/// `Jan` to `Dec`.
pub fn month(name: [u8; 3]) -> Option<u64> {
    const NAMES: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    NAMES.iter().zip(1..).find(|(known, _)| ***known == name).map(|(_, month)| month)
}

/// Days from the 1st of January 1970; `None` before that or for a day that does not exist.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let date = Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
    u64::try_from(date.duration_since(EPOCH).as_secs()).ok().map(|seconds| seconds / DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_in_every_spelling_is_the_same_number() {
        let instant = 1_696_928_816 * SECOND;
        assert_eq!(common(b"10/Oct/2023:11:06:56 +0200"), Some(instant));
        assert_eq!(common(b"10/Oct/2023:09:06:56 +0000"), Some(instant));
        assert_eq!(common(b"10/Oct/2023:09:06:56.123"), Some(instant + 123_000_000));
        assert_eq!(rfc3339(b"2023-10-10T09:06:56Z"), Some(instant));
        assert_eq!(rfc3339(b"2023-10-10T11:06:56.5+02:00"), Some(instant + SECOND / 2));
        assert_eq!(rfc3339(b"2023-10-10 04:06:56-05:00"), Some(instant));
        assert_eq!(decimal(b"1696928816.25", SECOND), Some(instant + SECOND / 4));
        assert_eq!(date(b"2023-10-10"), Some(1_696_896_000 * SECOND));
    }

    #[test]
    fn what_is_no_time_is_not_read() {
        for text in ["", "10/Oct/2023:11:06:56 +02", "31/Feb/2023:11:06:56 +0000", "10/Okt/2023:11:06:56 +0000", "1"] {
            assert_eq!(common(text.as_bytes()), None, "{text}");
        }
        for text in ["2023-13-10T09:06:56Z", "2023-10-10T24:06:56Z", "2023-10-10T09:06:56X", "1969-12-31T23:59:59Z"] {
            assert_eq!(rfc3339(text.as_bytes()), None, "{text}");
        }
        for text in ["", ".", "-1", "1.2.3", "99999999999999999999", "1e", "1e99"] {
            assert_eq!(decimal(text.as_bytes(), SECOND), None, "{text}");
        }
    }

    #[test]
    fn small_numbers_may_come_with_an_exponent() {
        assert_eq!(decimal(b"2.701e-06", SECOND), Some(2_701));
        assert_eq!(decimal(b"0.000002701", SECOND), Some(2_701));
        assert_eq!(decimal(b"1e-99", SECOND), Some(0));
        assert_eq!(decimal(b"1.6e3", SECOND), Some(1_600 * SECOND));
    }

    #[test]
    fn a_text_that_was_just_read_says_the_same_again() {
        let mut stamps = Stamps::default();
        for text in [b"10/Oct/2023:11:06:56 +0200", b"10/Oct/2023:11:06:56 +0200", b"10/Oct/2023:11:06:57 +0200"] {
            assert_eq!(stamps.common(text), common(text));
        }
        let line = b"a [10/Oct/2023:11:06:57 +0200] \"";
        assert_eq!(stamps.again(line, 3), common(b"10/Oct/2023:11:06:57 +0200"));
        assert_eq!(stamps.again(b"a [10/Oct/2023:11:06:58 +0200] \"", 3), None);
        assert_eq!(stamps.again(b"a [10/Oct/2023:11:06:57 +02000]", 3), None);
        assert_eq!(stamps.again(b"a [10/Oct/2023:11:06:57 +0200", 3), None);
        assert_eq!(stamps.common(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), None);
    }
}
