//! Texts about sick origins: the statuses of one that is well, what is slow, and whom a check asks for.

use std::time::Duration;

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::read::{Scalar, Wrong};
use super::scalar::{self, digits, pattern};
use super::text::{HostPort, is_host};
use crate::limiter::adaptive::Target;
use crate::policy::StatusSet;

/// `200-399`, `2xx,3xx`, `200,204`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthyStatuses(pub StatusSet);

impl Scalar for HealthyStatuses {
    const NAME: &'static str = "list of statuses";
    const EXAMPLE: &'static str = "`200-399` or `2xx,401`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<HealthyStatuses, Wrong> {
        let wrong = || {
            Wrong::new(
                "must be statuses from 200 to 599, ranges or classes such as `200-399`, `2xx`, with commas between",
            )
        };
        let status = |text: &str| {
            let number = digits(text).filter(|_| text.len() == 3).and_then(|number| u16::try_from(number).ok());
            number.filter(|number| (200..=599).contains(number)).ok_or_else(wrong)
        };
        let add = |set: StatusSet, part: &str| {
            if let Some(class) = part.strip_suffix("xx") {
                let first = status(&format!("{class}00"))?;
                return Ok(set.with(first, first + 99));
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (status(first.trim())?, status(last.trim())?);
            if first > last {
                return Err(wrong().meant(format!("{last}-{first}"), ""));
            }
            Ok(set.with(first, last))
        };
        text.split(',').map(str::trim).try_fold(StatusSet::NONE, add).map(HealthyStatuses)
    }

    fn schema() -> Schema {
        const PART: &str = "([2-5]xx|[2-5][0-9]{2}( *- *[2-5][0-9]{2})?)";
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 200 },
            pattern(&format!("^{PART}( *, *{PART})*$"))
        ] })
    }
}

/// `p95<300ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetText(pub Target);

/// A bound below this is noise, one above it never ends an overload.
const BOUNDS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(600);

impl Scalar for TargetText {
    const NAME: &'static str = "target";
    const EXAMPLE: &'static str = "`p95<300ms`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<TargetText, Wrong> {
        let wrong = || Wrong::new("must be `pN<DURATION`, N from 50 to 99");
        let (percentile, bound) = text.split_once('<').ok_or_else(wrong)?;
        let number = percentile.trim().strip_prefix('p').and_then(digits).ok_or_else(wrong)?;
        let percentile = u8::try_from(number).ok().filter(|number| (50..=99).contains(number)).ok_or_else(wrong)?;
        let bound = Duration::parse(bound.trim()).map_err(|fault| match fault.replacement {
            Some(meant) => wrong().meant(format!("p{percentile}<{meant}"), ""),
            None => wrong(),
        })?;
        if !BOUNDS.contains(&bound) {
            let (low, high) = (scalar::duration(*BOUNDS.start()), scalar::duration(*BOUNDS.end()));
            return Err(Wrong::new(format!("the bound must be {low} to {high}")).code(Code::OUT_OF_RANGE));
        }
        Ok(TargetText(Target { percentile, bound }))
    }

    fn schema() -> Schema {
        pattern("^p[5-9][0-9] *< *([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$")
    }
}

/// A host, with a port or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckHost(pub String);

impl Scalar for CheckHost {
    const NAME: &'static str = "host";
    const EXAMPLE: &'static str = "`shop.example.com`";
    const CODE: Code = Code::BAD_HOST;

    fn parse(text: &str) -> Result<CheckHost, Wrong> {
        if is_host(text) || HostPort::parse(text).is_ok() {
            return Ok(CheckHost(text.to_ascii_lowercase()));
        }
        Err(Wrong::new("must be a host name or an address, with a port or without"))
    }

    fn schema() -> Schema {
        pattern("^[A-Za-z0-9._-]+(:[0-9]{1,5})?$|^\\[[0-9a-fA-F:.]+\\]:[0-9]{1,5}$")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_ranges_classes_and_single_ones() {
        let shown =
            |text: &str| HealthyStatuses::parse(text).map(|set| set.0.to_string()).map_err(|wrong| wrong.replacement);
        assert_eq!(shown("200-399").as_deref(), Ok("2xx,3xx"));
        assert_eq!(shown("2xx, 401").as_deref(), Ok("2xx,401"));
        assert_eq!(shown("200 - 201,404").as_deref(), Ok("200,201,404"));
        assert_eq!(shown("399-200"), Err(Some("200-399".into())));
        for wrong in ["", "20", "100", "1xx", "6xx", "200-", "-200", "200-600", "ok", "2x", "200,,201", "+200"] {
            assert_eq!(shown(wrong), Err(None), "{wrong:?}");
        }
    }

    #[test]
    fn a_target_is_a_percentile_and_a_bound() {
        let shown =
            |text: &str| TargetText::parse(text).map(|target| target.0.to_string()).map_err(|wrong| wrong.replacement);
        assert_eq!(shown("p95<300ms").as_deref(), Ok("p95<300ms"));
        assert_eq!(shown("p50 < 1s").as_deref(), Ok("p50<1000ms"));
        assert_eq!(shown("p95<0.5s"), Err(Some("p95<500ms".into())));
        for wrong in ["p95", "95<1s", "p49<1s", "p100<1s", "p95<", "p95>1s", "p95<0s", "p95<1h"] {
            assert_eq!(shown(wrong), Err(None), "{wrong:?}");
        }
    }

    #[test]
    fn a_check_asks_for_a_host_that_could_be_one() {
        for right in ["shop.example.com", "Shop:8080", "[::1]:80", "127.0.0.1"] {
            assert!(CheckHost::parse(right).is_ok(), "{right}");
        }
        for wrong in ["", "a b", "http://x", "a\r\nb", "x:0", "x:y"] {
            assert!(CheckHost::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
