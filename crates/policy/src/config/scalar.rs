//! Quantities as operators write them: `10s`, `100/1m`, `64KiB`, `25%`, `20_000`. One grammar, one style of error.
//!
//! Durations follow the Kubernetes Gateway API (GEP-2257): whole numbers with `h`, `m`, `s`, `ms`, largest unit first;
//! here with `d` too, each unit at most once, and any number of digits. What looks like a known mistake is answered with the right
//! text.

use std::time::Duration;

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::read::{Scalar, Wrong};
pub use crate::units::time::written as duration;
use crate::units::{Bytes, Rate, Share};

/// A whole number, 0 to 2⁶⁴ − 1; `_` may stand between digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Count(pub u64);

impl Scalar for Count {
    const NAME: &'static str = "number";
    const EXAMPLE: &'static str = "`200` or `20_000`";
    const CODE: Code = Code::BAD_NUMBER;

    fn parse(text: &str) -> Result<Count, Wrong> {
        match digits(text) {
            Some(number) => Ok(Count(number)),
            None if is_digits(text) => Err(Wrong::new("too large")),
            None => {
                let wrong = Wrong::new("must be a whole number, with `_` between digits at most");
                let bare: String = text.chars().filter(|c| !matches!(c, ',' | '\'' | ' ')).collect();
                Err(if is_digits(&bare) { wrong.meant(bare, "") } else { wrong })
            }
        }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^[0-9]+(_[0-9]+)*$" },
            { "type": "string", "pattern": "^\\$\\{" }
        ] })
    }
}

impl Scalar for bool {
    const NAME: &'static str = "switch";
    const EXAMPLE: &'static str = "`true` or `false`";
    const CODE: Code = Code::BAD_BOOLEAN;

    fn parse(text: &str) -> Result<bool, Wrong> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => {
                let wrong = Wrong::new("must be `true` or `false`");
                Err(match text.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "true" | "1" => wrong.meant("true", ""),
                    "no" | "off" | "false" | "0" => wrong.meant("false", ""),
                    _ => wrong,
                })
            }
        }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "pattern": "^\\$\\{" }] })
    }
}

impl Scalar for Duration {
    const NAME: &'static str = "duration";
    const EXAMPLE: &'static str = "`250ms`, `10s`, `1h30m` or `7d`";
    const CODE: Code = Code::BAD_DURATION;

    fn parse(text: &str) -> Result<Duration, Wrong> {
        const LABEL: &str = "must be numbers with d, h, m, s or ms, largest first";
        if let Some(number) = digits(text) {
            return Err(Wrong::new("the unit is missing").meant(format!("{number}s"), "for seconds"));
        }
        let mut rest = text;
        let mut millis: u64 = 0;
        let mut largest_left = u64::MAX;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, behind) = rest.split_at(end);
            let unit_end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
            let (unit, next) = behind.split_at(unit_end);
            let Some(size) = unit_millis(unit) else { return Err(guess_duration(text, LABEL)) };
            if size >= largest_left {
                return Err(Wrong::new(LABEL));
            }
            let number: u64 = number.parse().map_err(|_| guess_duration(text, LABEL))?;
            millis = number
                .checked_mul(size)
                .and_then(|part| millis.checked_add(part))
                .filter(|millis| *millis <= MAX_MILLIS)
                .ok_or_else(|| Wrong::new("too long: at most 365d"))?;
            (largest_left, rest) = (size, next);
        }
        if text.is_empty() { Err(Wrong::new(LABEL)) } else { Ok(Duration::from_millis(millis)) }
    }

    fn schema() -> Schema {
        pattern("^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$")
    }
}

/// One year. Nothing here waits longer.
const MAX_MILLIS: u64 = 365 * 86_400_000;

fn unit_millis(unit: &str) -> Option<u64> {
    match unit {
        "d" => Some(86_400_000),
        "h" => Some(3_600_000),
        "m" => Some(60_000),
        "s" => Some(1_000),
        "ms" => Some(1),
        _ => None,
    }
}

/// What was probably meant by something that is no duration.
fn guess_duration(text: &str, label: &str) -> Wrong {
    let wrong = Wrong::new(label);
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let Some(unit) = right_unit(unit) else { return wrong };
    if let Some(number) = digits(number) {
        return wrong.meant(format!("{number}{unit}"), "");
    }
    match (number.parse::<f64>(), unit_millis(unit)) {
        (Ok(number), Some(size)) if number < 1e6 => {
            let millis = (number * size as f64).round();
            // of hours and days nobody counts milliseconds
            let meant =
                if size < 3_600_000 { format!("{millis}ms") } else { duration(Duration::from_millis(millis as u64)) };
            wrong.meant(meant, "")
        }
        _ => wrong,
    }
}

/// The unit that a usual spelling of it stands for.
fn right_unit(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "ms" | "msec" | "millis" | "millisecond" | "milliseconds" => Some("ms"),
        "s" | "sec" | "secs" | "second" | "seconds" => Some("s"),
        "m" | "min" | "mins" | "minute" | "minutes" => Some("m"),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some("h"),
        "d" | "day" | "days" => Some("d"),
        _ => None,
    }
}

/// What stands behind the `/` of a rate for a usual spelling of it.
fn right_period(word: &str) -> Option<&'static str> {
    // the only unit that is no letter is written as a duration
    right_unit(word).map(|unit| if unit == "ms" { "1ms" } else { unit })
}

impl Scalar for Rate {
    const NAME: &'static str = "rate";
    const EXAMPLE: &'static str = "`10/s`, `5/m` or `100/10s`";
    const CODE: Code = Code::BAD_RATE;

    fn parse(text: &str) -> Result<Rate, Wrong> {
        let Some((events, period)) = text.split_once('/') else {
            let wrong = Wrong::new("must be a number, `/`, and s, m, h, d or a duration");
            return Err(match digits(text) {
                Some(number) => wrong.meant(format!("{number}/s"), "for so many per second"),
                None => wrong,
            });
        };
        let out = |_| Wrong::new("must be 1/d to 10000000/s").code(Code::OUT_OF_RANGE);
        let Some(number) = digits(events) else {
            if !events.is_empty() && events.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(out(()));
            }
            // 10r/s is nginx's spelling, 10 / s a human's
            let bare = events.trim().trim_end_matches(['r', 'R']);
            return Err(if events.contains("iB") || events.ends_with('B') {
                Wrong::new("a rate of bytes is only possible as the `rate` of a limit of type `rate`")
            } else {
                let wrong = Wrong::new("a whole number must stand before the `/`");
                match right_period(period.trim()).filter(|_| digits(bare).is_some()) {
                    Some(period) => wrong.meant(format!("{bare}/{period}"), ""),
                    None => wrong,
                }
            });
        };
        let span = self::period(&number.to_string(), period)?;
        let events = u32::try_from(number).map_err(|_| out(()))?;
        Rate::new(events, span).map_err(|_| out(()))
    }

    fn schema() -> Schema {
        pattern(RATE_PATTERN)
    }
}

/// What a [`Rate`] looks like, for the schema and for what begins with one.
pub const RATE_PATTERN: &str = "^[0-9]+(_[0-9]+)*/([smhd]|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$";

/// What stands behind the `/` of a rate that begins with `amount`.
///
/// # Errors
/// Neither a letter nor a duration.
pub fn period(amount: &str, text: &str) -> Result<Duration, Wrong> {
    match text {
        "s" => Ok(Duration::from_secs(1)),
        "m" => Ok(Duration::from_secs(60)),
        "h" => Ok(Duration::from_secs(3_600)),
        "d" => Ok(Duration::from_secs(86_400)),
        text => Duration::parse(text).map_err(|_| {
            let wrong = Wrong::new("unit must be s, m, h or d, or a duration such as 10s");
            match right_period(text.trim()) {
                Some(period) => wrong.meant(format!("{amount}/{period}"), ""),
                None => wrong,
            }
        }),
    }
}

impl Scalar for Bytes {
    const NAME: &'static str = "size";
    const EXAMPLE: &'static str = "`64KiB` or `10MiB`";
    const CODE: Code = Code::BAD_SIZE;

    fn parse(text: &str) -> Result<Bytes, Wrong> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '_')).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let wrong = Wrong::new("must be a whole number with B, KiB, MiB, GiB or TiB");
        let Some(number) = digits(number) else { return Err(wrong) };
        let shift = match unit {
            "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            "TiB" => 40,
            _ => {
                let right = match unit.trim().to_ascii_lowercase().as_str() {
                    "" | "b" | "byte" | "bytes" => "B",
                    "k" | "kb" | "kib" => "KiB",
                    "m" | "mb" | "mib" => "MiB",
                    "g" | "gb" | "gib" => "GiB",
                    "t" | "tb" | "tib" => "TiB",
                    _ => return Err(wrong),
                };
                let why = if right == "B" { "for bytes" } else { "(a KiB is 1024 bytes)" };
                return Err(wrong.meant(format!("{number}{right}"), why));
            }
        };
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(|| Wrong::new("too large"))
    }

    fn schema() -> Schema {
        pattern("^[0-9]+(_[0-9]+)*(B|KiB|MiB|GiB|TiB)$")
    }
}

impl Scalar for Share {
    const NAME: &'static str = "share";
    const EXAMPLE: &'static str = "`10%`";
    const CODE: Code = Code::BAD_SHARE;

    fn parse(text: &str) -> Result<Share, Wrong> {
        let wrong = Wrong::new("must be 0% to 100%, with at most four decimals");
        let Some(number) = text.strip_suffix('%') else {
            return Err(match text.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => wrong.meant(percent(number), ""),
                _ => wrong,
            });
        };
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(whole) || !plain(decimals) || decimals.len() > 4 {
            return Err(wrong);
        }
        let number: f64 = number.parse().map_err(|_| wrong.clone())?;
        Share::new(number / 100.0).map_err(|_| wrong)
    }

    fn schema() -> Schema {
        pattern("^[0-9]{1,3}(\\.[0-9]{1,4})?%$")
    }
}

/// A share as it is written. Four decimals are all that [`Share`]'s reader takes, so nothing is lost.
pub fn percent(share: f64) -> String {
    format!("{}%", (share * 1e6).round() / 1e4)
}

/// The least share that can be written and is not below this one.
pub fn percent_above(share: f64) -> String {
    percent((share * 1e6).ceil() / 1e6)
}

/// A text schema with this pattern, or a variable.
pub fn pattern(pattern: &str) -> Schema {
    json_schema!({ "type": "string", "anyOf": [{ "pattern": pattern }, { "pattern": "^.*\\$\\{" }] })
}

/// A number without sign, `_` between digits; `None` too when it does not fit.
pub fn digits(text: &str) -> Option<u64> {
    if !is_digits(text) {
        return None;
    }
    text.bytes()
        .filter(|byte| *byte != b'_')
        .try_fold(0u64, |sum, byte| sum.checked_mul(10)?.checked_add(u64::from(byte - b'0')))
}

fn is_digits(text: &str) -> bool {
    let inner = text.split('_').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    !text.is_empty() && inner
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Scalar>(text: &str) -> Option<T> {
        T::parse(text).ok()
    }

    fn hint<T: Scalar>(text: &str) -> String {
        T::parse(text).err().and_then(|wrong| wrong.replacement).unwrap_or_default()
    }

    #[test]
    fn quantities_read_as_they_are_written() {
        assert_eq!(read::<Duration>("1h30m"), Some(Duration::from_secs(5_400)));
        assert_eq!(read::<Duration>("1s500ms"), Some(Duration::from_millis(1_500)));
        assert_eq!(read::<Duration>("0s"), Some(Duration::ZERO));
        assert_eq!(read::<Duration>("3d4h"), Some(Duration::from_secs(76 * 3_600)));
        assert_eq!(read::<Duration>("365d"), read::<Duration>("8760h"));
        assert_eq!(read::<Rate>("100/10s"), Rate::new(100, Duration::from_secs(10)).ok());
        assert_eq!(read::<Rate>("1_000/h"), Rate::new(1_000, Duration::from_secs(3_600)).ok());
        assert_eq!(read::<Bytes>("64KiB"), Some(Bytes(65_536)));
        assert_eq!(read::<Bytes>("0B"), Some(Bytes(0)));
        assert_eq!(read::<Share>("12.5%").map(Share::get), Some(0.125));
        assert_eq!(read::<Count>("20_000"), Some(Count(20_000)));
        assert_eq!(read::<Count>("18446744073709551615"), Some(Count(u64::MAX)));
    }

    #[test]
    fn what_is_not_quite_a_quantity_is_refused() {
        for text in [
            "",
            "s",
            "1",
            "1s1s",
            "1s1m",
            "1h1d",
            "-1s",
            "+1s",
            "1.5s",
            "1 s",
            "1D",
            "366d",
            "9999999h",
            "99999999999999999999s",
        ] {
            assert!(read::<Duration>(text).is_none(), "{text}");
        }
        for text in
            ["", "/", "10", "10/", "/s", "0/s", "10/0s", "10/sec", "10/2d", "-1/s", "10000001/s", "5000000000/d"]
        {
            assert!(read::<Rate>(text).is_none(), "{text}");
        }
        let fault = Rate::parse("99999999999999999999/s").unwrap_err();
        assert_eq!(fault.code, Some(Code::OUT_OF_RANGE), "{}", fault.label);
        for text in ["10/ms", "10 / ms", "10/sec", "10 / s", "10r/m"] {
            assert!(read::<Rate>(&hint::<Rate>(text)).is_some(), "{text}: {}", hint::<Rate>(text));
        }
        for text in ["", "1", "1KB", "1.5MiB", "MiB", "99999999999TiB", "-1B", "1 KiB"] {
            assert!(read::<Bytes>(text).is_none(), "{text}");
        }
        for text in ["", "%", "10", "101%", "-1%", "1e1%", "0.1", ".5%", "5.%", "0.00001%", "NaN%"] {
            assert!(read::<Share>(text).is_none(), "{text}");
        }
        for text in ["", "_", "1_", "_1", "1__0", "1.0", "0x10", "1e3", "18446744073709551616"] {
            assert!(read::<Count>(text).is_none(), "{text}");
        }
    }

    #[test]
    fn known_mistakes_are_answered_with_the_right_text() {
        assert_eq!(hint::<Rate>("10/sec"), "10/s");
        assert_eq!(hint::<Rate>("10r/s"), "10/s");
        assert_eq!(hint::<Rate>("10 / minute"), "10/m");
        assert_eq!(hint::<Rate>("10"), "10/s");
        assert_eq!(hint::<Duration>("30"), "30s");
        assert_eq!(hint::<Duration>("1.5s"), "1500ms");
        assert_eq!(hint::<Duration>("2 days"), "2d");
        assert_eq!(hint::<Duration>("1.5d"), "36h");
        assert_eq!(hint::<Bytes>("10mb"), "10MiB");
        assert_eq!(hint::<Bytes>("4096"), "4096B");
        assert_eq!(hint::<Share>("0.25"), "25%");
        assert_eq!(hint::<Count>("20,000"), "20000");
        assert_eq!(hint::<bool>("yes"), "true");
    }

    #[test]
    fn quantities_print_as_they_read() {
        for text in ["1h30m", "250ms", "1s500ms", "0s", "8760h"] {
            assert_eq!(duration(Duration::parse(text).unwrap()), text);
        }
        for text in ["0%", "0.07%", "7%", "12.5%", "33.3333%", "100%"] {
            assert_eq!(percent(Share::parse(text).unwrap().get()), text);
        }
    }
}
