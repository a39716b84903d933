//! Values that only limits have: rates of requests or of bytes, bursts, costs, what is counted, capacities.

use std::time::Duration;

use http::{HeaderName, Method};
use schemars::{Schema, json_schema};

use super::fault::Code;
use super::nearest::nearest;
use super::read::{Scalar, Wrong};
use super::scalar::{Count, RATE_PATTERN, digits, pattern, period};
use super::text::OriginName;
use crate::policy::StatusSet;
use crate::units::{Bytes, Rate};

/// How fast, before anybody has asked whether the type of limit takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitRate {
    /// Requests per period of up to a day.
    Requests(Rate),
    /// Requests per longer period, which only a quota has.
    Long {
        /// How many.
        max: u32,
        /// In what time.
        window: Duration,
    },
    /// Bytes per period, neither of them zero.
    Bytes {
        /// How many.
        bytes: u64,
        /// In what time.
        period: Duration,
    },
}

impl Scalar for LimitRate {
    const NAME: &'static str = Rate::NAME;
    const EXAMPLE: &'static str = "`10/s`, `5/m` or `20MiB/s`";
    const CODE: Code = Code::BAD_RATE;

    fn parse(text: &str) -> Result<LimitRate, Wrong> {
        let Some((amount, span)) = text.split_once('/') else { return Rate::parse(text).map(LimitRate::Requests) };
        if amount.starts_with(|first: char| first.is_ascii_digit()) && amount.ends_with(['B', 'b']) {
            return bytes_per(amount, span);
        }
        // periods of more than a day have no letter of their own
        let long = Duration::parse(span).ok().filter(|window| *window > Duration::from_secs(86_400));
        match (digits(amount).map(u32::try_from), long) {
            (Some(Ok(max @ 1..)), Some(window)) => Ok(LimitRate::Long { max, window }),
            _ => Rate::parse(text).map(LimitRate::Requests),
        }
    }

    fn schema() -> Schema {
        pattern("^[0-9]+(_[0-9]+)*(B|KiB|MiB|GiB|TiB)?/([smhd]|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$")
    }
}

/// `20MiB` and what stands behind the `/`.
fn bytes_per(amount: &str, span: &str) -> Result<LimitRate, Wrong> {
    let Bytes(bytes) = Bytes::parse(amount).map_err(|wrong| {
        let right = wrong.replacement.as_ref().map(|right| format!("{right}/{span}"));
        match right {
            Some(right) => wrong.meant(right, "(a KiB is 1024 bytes)"),
            None => wrong,
        }
    })?;
    let period = period(amount, span)?;
    if bytes == 0 || period.is_zero() || period > Duration::from_secs(86_400) {
        return Err(Wrong::new("must be 1 byte or more in up to a day").code(Code::OUT_OF_RANGE));
    }
    Ok(LimitRate::Bytes { bytes, period })
}

/// How much at once: requests, or bytes for a rate of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Burst {
    /// So many requests, or rather units of their cost.
    Requests(u64),
    /// So many bytes.
    Bytes(Bytes),
}

impl Scalar for Burst {
    const NAME: &'static str = "burst";
    const EXAMPLE: &'static str = "`200` or `64MiB`";
    const CODE: Code = Code::BAD_NUMBER;

    fn parse(text: &str) -> Result<Burst, Wrong> {
        if text.starts_with(|first: char| first.is_ascii_digit()) && text.ends_with(['B', 'b']) {
            return Bytes::parse(text).map(Burst::Bytes).map_err(|wrong| wrong.code(Code::BAD_SIZE));
        }
        Count::parse(text).map(|count| Burst::Requests(count.0))
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [<Count as Scalar>::schema(), <Bytes as Scalar>::schema()] })
    }
}

/// What a request takes, if that is no map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CostText {
    /// The same for all.
    Number(u64),
    /// What this header of the answer says.
    Response(HeaderName),
}

impl Scalar for CostText {
    const NAME: &'static str = "cost";
    const EXAMPLE: &'static str = "`10` or `response:x-query-cost`";
    const CODE: Code = Code::BAD_NUMBER;

    fn parse(text: &str) -> Result<CostText, Wrong> {
        if let Some(name) = text.strip_prefix("response:") {
            return HeaderName::parse(name).map(CostText::Response).map_err(|wrong| wrong.code(Code::BAD_HEADER));
        }
        Count::parse(text).map(|count| CostText::Number(count.0)).map_err(|mut wrong| {
            wrong.label.push_str(", or `response:HEADER`");
            wrong
        })
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [<Count as Scalar>::schema(), { "type": "string", "pattern": "^response:.+$" }] })
    }
}

/// The key of a map of costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CostMethod {
    /// This method.
    Method(Method),
    /// All that are not named.
    Other,
}

impl Scalar for CostMethod {
    const NAME: &'static str = "method";
    const EXAMPLE: &'static str = "`POST` or `other`";
    const CODE: Code = Code::BAD_METHOD;
    const KEYS_EXCEPT_EXTENSIONS: bool = true;

    fn parse(text: &str) -> Result<CostMethod, Wrong> {
        if text == "other" { Ok(CostMethod::Other) } else { Method::parse(text).map(CostMethod::Method) }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "const": "other" }, <Method as Scalar>::schema()] })
    }
}

/// Which requests use up a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountText {
    /// All, refused ones too.
    All,
    /// Those that pass.
    Admitted,
    /// Those whose answer has one of these statuses.
    Responses(StatusSet),
}

impl Scalar for CountText {
    const NAME: &'static str = "count";
    const EXAMPLE: &'static str = "`responses 401,403`, `not 2xx`, `all` or `admitted`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<CountText, Wrong> {
        const WORDS: [&str; 4] = ["responses", "not", "all", "admitted"];
        let (word, list) = text.split_once(' ').unwrap_or((text, ""));
        match (word, list) {
            ("all", "") => Ok(CountText::All),
            ("admitted", "") => Ok(CountText::Admitted),
            ("responses", list) => statuses(list).map(CountText::Responses),
            ("not", list) => match statuses(list)?.inverted() {
                none if none.is_empty() => Err(Wrong::new("leaves no status at all")),
                set => Ok(CountText::Responses(set)),
            },
            _ => {
                let wrong = Wrong::new("must be `responses LIST`, `not LIST`, `all` or `admitted`");
                if statuses(text).is_ok() {
                    return Err(wrong.meant(format!("responses {text}"), ""));
                }
                Err(match nearest(word, WORDS).filter(|near| *near != word) {
                    Some(near) => wrong.nearest(Some(text.replacen(word, near, 1).as_str())),
                    None => wrong.help("a list is of statuses and classes, such as `401,403` or `4xx,503`"),
                })
            }
        }
    }

    fn schema() -> Schema {
        pattern("^(all|admitted|(responses|not) *[1-5][0-9x]{2}( *, *[1-5][0-9x]{2})*)$")
    }
}

/// `401,403`, `4xx,503`.
fn statuses(list: &str) -> Result<StatusSet, Wrong> {
    let wrong = || Wrong::new("statuses are 100 to 599, or classes such as 4xx, with commas between");
    list.split(',').map(str::trim).try_fold(StatusSet::NONE, |set, status| {
        if let Some(class) = status.strip_suffix("xx") {
            let class = digits(class).filter(|class| (1..=5).contains(class)).ok_or_else(wrong)?;
            let first = u16::try_from(class * 100).map_err(|_| wrong())?;
            return Ok(set.with(first, first + 99));
        }
        let status = digits(status).and_then(|status| u16::try_from(status).ok());
        let status = status.filter(|status| (100..=599).contains(status)).ok_or_else(wrong)?;
        Ok(set.with(status, status))
    })
}

/// What `fair_share` shares out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapacityText {
    /// So many requests per time.
    Rate(Rate),
    /// What this origin can take.
    Origin(String),
}

impl Scalar for CapacityText {
    const NAME: &'static str = "capacity";
    const EXAMPLE: &'static str = "`2000/s` or `origin:shop`";
    const CODE: Code = Code::BAD_RATE;

    fn parse(text: &str) -> Result<CapacityText, Wrong> {
        if let Some(name) = text.strip_prefix("origin:") {
            return OriginName::parse(name)
                .map(|name| CapacityText::Origin(name.0))
                .map_err(|_| Wrong::new("after `origin:` must stand an origin's name").code(Code::BAD_NAME));
        }
        Rate::parse(text).map(CapacityText::Rate).map_err(|mut wrong| {
            wrong.label.push_str(", or `origin:NAME`");
            wrong
        })
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "type": "string", "pattern": "^origin:.+$" }, pattern(RATE_PATTERN)] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Option<LimitRate> {
        LimitRate::parse(text).ok()
    }

    fn hint<T: Scalar>(text: &str) -> String {
        T::parse(text).err().and_then(|wrong| wrong.replacement).unwrap_or_default()
    }

    #[test]
    fn rates_are_of_requests_or_bytes_and_may_be_long() {
        let second = Duration::from_secs(1);
        assert_eq!(rate("20MiB/s"), Some(LimitRate::Bytes { bytes: 20 << 20, period: second }));
        assert_eq!(rate("512KiB/m"), Some(LimitRate::Bytes { bytes: 512 << 10, period: second * 60 }));
        assert_eq!(rate("10/s"), Rate::new(10, second).ok().map(LimitRate::Requests));
        assert_eq!(rate("10/1d"), rate("10/d"));
        assert_eq!(rate("100000/31d"), Some(LimitRate::Long { max: 100_000, window: second * 86_400 * 31 }));
        assert_eq!(rate("5/48h"), Some(LimitRate::Long { max: 5, window: second * 86_400 * 2 }));
        for text in ["0B/s", "1MiB/48h", "0/2d", "MiB/s", "1.5MiB/s", "5/366d", "5/d d"] {
            assert_eq!(rate(text), None, "{text}");
        }
        assert_eq!(hint::<LimitRate>("20MB/s"), "20MiB/s");
        assert_eq!(hint::<LimitRate>("20MiB/sec"), "20MiB/s");
        assert_eq!(hint::<LimitRate>("10/sec"), "10/s");
    }

    #[test]
    fn what_is_counted_is_a_word_or_a_set_of_statuses() {
        let set = |text| match CountText::parse(text) {
            Ok(CountText::Responses(set)) => Some(set.to_string()),
            _ => None,
        };
        assert_eq!(set("responses 401,403").as_deref(), Some("401,403"));
        assert_eq!(set("responses 503, 4xx").as_deref(), Some("4xx,503"));
        assert_eq!(set("not 2xx").as_deref(), Some("3xx,4xx,5xx"));
        for text in ["", "responses", "responses 600", "responses 6xx", "not 2xx,3xx,4xx,5xx", "all 401", "not", "4xx"]
        {
            assert!(CountText::parse(text).is_err(), "{text}");
        }
        assert_eq!(CountText::parse("all"), Ok(CountText::All));
        assert_eq!(hint::<CountText>("response 401"), "responses 401");
        assert_eq!(hint::<CountText>("4xx,503"), "responses 4xx,503");
    }

    #[test]
    fn costs_bursts_and_capacities_read_both_ways() {
        assert_eq!(CostText::parse("1_0"), Ok(CostText::Number(10)));
        assert_eq!(CostText::parse("response:X-Cost"), Ok(CostText::Response(HeaderName::from_static("x-cost"))));
        assert!(CostText::parse("response:").is_err() && CostText::parse("answer:x").is_err());
        assert_eq!(Burst::parse("64MiB"), Ok(Burst::Bytes(Bytes(64 << 20))));
        assert_eq!(Burst::parse("200"), Ok(Burst::Requests(200)));
        assert_eq!(hint::<Burst>("64MB"), "64MiB");
        assert_eq!(CapacityText::parse("origin:shop"), Ok(CapacityText::Origin("shop".into())));
        assert!(CapacityText::parse("origin:").is_err() && CapacityText::parse("fast").is_err());
        assert_eq!(CostMethod::parse("other"), Ok(CostMethod::Other));
        assert_eq!(CostMethod::parse("GET"), Ok(CostMethod::Method(Method::GET)));
    }
}
