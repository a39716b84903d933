//! Keys, and the inline form of a limit: `50/s burst 100 by header:x-api-key missing deny shadow`.

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::nearest::nearest;
use super::read::{Scalar, Wrong};
use super::scalar::{digits, pattern};
use crate::client::key::{KeyPart, Missing};
use crate::policy::Mode;
use crate::units::Rate;

impl Scalar for KeyPart {
    const NAME: &'static str = "key";
    const EXAMPLE: &'static str = "`client_ip` or `header:x-api-key`";
    const CODE: Code = Code::BAD_KEY;

    fn parse(text: &str) -> Result<KeyPart, Wrong> {
        const WORDS: [&str; 11] = [
            "client_ip",
            "header",
            "cookie",
            "query",
            "host",
            "path",
            "method",
            "method_class",
            "route",
            "tls_sni",
            "global",
        ];
        text.parse().map_err(|fault: crate::client::key::PartFault| {
            let wrong = Wrong::new(fault.allowed);
            if matches!(text, "asn" | "country") {
                return wrong.help("not available in this version");
            }
            let (word, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            match nearest(word, WORDS).filter(|near| *near != word) {
                Some(near) => wrong.nearest(Some(&format!("{near}{rest}"))),
                None => wrong,
            }
        })
    }

    fn schema() -> Schema {
        pattern(
            "^(client_ip(:ipv[46]_prefix=[0-9]+(,ipv[46]_prefix=[0-9]+)?)?|(header|cookie|query):.+|host|path(:segments=[0-9]+)?|method|method_class|route|tls_sni|global)$",
        )
    }
}

/// What a limit of `limits` counts by: a key, or `origin`, which is no part of a key as the route fixes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitKey {
    /// A part of a key.
    Part(KeyPart),
    /// Each origin.
    Origin,
}

impl Scalar for LimitKey {
    const NAME: &'static str = KeyPart::NAME;
    const EXAMPLE: &'static str = KeyPart::EXAMPLE;
    const CODE: Code = KeyPart::CODE;

    fn parse(text: &str) -> Result<LimitKey, Wrong> {
        if text == "origin" { Ok(LimitKey::Origin) } else { KeyPart::parse(text).map(LimitKey::Part) }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "const": "origin" }, <KeyPart as Scalar>::schema()] })
    }
}

/// A limit written in one line of a route: `RATE [burst N] [by KEY] [missing allow|deny] [shadow]`.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitText {
    /// How fast.
    pub rate: Rate,
    /// How much at once.
    pub burst: Option<u64>,
    /// Counted by.
    pub key: Option<KeyPart>,
    /// What happens without that key.
    pub missing: Option<Missing>,
    /// Whether it is only measured.
    pub mode: Option<Mode>,
}

impl Scalar for LimitText {
    const NAME: &'static str = "limit";
    const EXAMPLE: &'static str = "`50/s burst 100 by client_ip`";
    const CODE: Code = Code::BAD_LIMIT_TEXT;

    fn parse(text: &str) -> Result<LimitText, Wrong> {
        let mut words = text.split_ascii_whitespace();
        let rate = words.next().unwrap_or_default();
        let mut limit = LimitText {
            rate: Rate::parse(rate).map_err(|wrong| in_text(wrong, text, rate, Code::BAD_RATE))?,
            burst: None,
            key: None,
            missing: None,
            mode: None,
        };
        while let Some(word) = words.next() {
            let twice = || Wrong::new(format!("`{word}` is here twice"));
            match word {
                "burst" if limit.burst.is_some() => return Err(twice()),
                "burst" => {
                    let number = words.next().and_then(digits);
                    limit.burst = Some(number.ok_or_else(|| Wrong::new("after `burst` must stand a whole number"))?);
                }
                "by" if limit.key.is_some() => return Err(twice()),
                "by" => {
                    let key = words.next().ok_or_else(|| Wrong::new("after `by` must stand a key"))?;
                    limit.key = Some(KeyPart::parse(key).map_err(|wrong| in_text(wrong, text, key, Code::BAD_KEY))?);
                }
                "missing" if limit.missing.is_some() => return Err(twice()),
                "missing" => {
                    let word = words.next().unwrap_or_default();
                    let missing = Missing::parse(word);
                    limit.missing =
                        Some(missing.map_err(|_| Wrong::new("after `missing` must stand `allow` or `deny`"))?);
                }
                "shadow" if limit.mode.is_some() => return Err(twice()),
                "shadow" => limit.mode = Some(Mode::Shadow),
                "enforce" if limit.mode.is_some() => return Err(twice()),
                "enforce" => limit.mode = Some(Mode::Enforce),
                _ => {
                    let near = nearest(word, ["burst", "by", "missing", "shadow"]);
                    let wrong = Wrong::new("must be RATE [burst N] [by KEY] [missing allow|deny] [shadow]");
                    return Err(match near {
                        Some(near) => wrong.meant(text.replacen(word, near, 1), ""),
                        None => wrong,
                    });
                }
            }
        }
        Ok(limit)
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "anyOf": [
            { "pattern": "^[0-9]+(_[0-9]+)*/[0-9a-z]+( .*)?$" }, { "pattern": "^.*\\$\\{" }
        ] })
    }
}

/// A part's fault as a fault of the whole text, which its replacement must then be for.
fn in_text(mut wrong: Wrong, text: &str, part: &str, code: Code) -> Wrong {
    wrong.code = wrong.code.or(Some(code));
    wrong.replacement = wrong.replacement.map(|right| text.replacen(part, &right, 1));
    wrong
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_inline_limit_says_all_that_a_long_one_does() {
        let limit = LimitText::parse("50/s burst 100 by header:x-api-key missing deny shadow").unwrap();
        assert_eq!(limit.rate, Rate::new(50, Duration::from_secs(1)).unwrap());
        assert_eq!(limit.burst, Some(100));
        assert_eq!(limit.key, KeyPart::parse("header:x-api-key").ok());
        assert_eq!((limit.missing, limit.mode), (Some(Missing::Deny), Some(Mode::Shadow)));
        let short = LimitText::parse("5/m").unwrap();
        assert_eq!((short.burst, short.key, short.missing, short.mode), (None, None, None, None));
    }

    #[test]
    fn words_out_of_place_are_refused() {
        for text in
            ["", "burst 5", "5/m burst", "5/m burst x", "5/m by", "5/m by nobody", "5/m burst 1 burst 2", "5/m missing"]
        {
            assert!(LimitText::parse(text).is_err(), "{text}");
        }
        assert_eq!(LimitText::parse("5/m brust 5").unwrap_err().replacement.unwrap(), "5/m burst 5");
        assert_eq!(LimitText::parse("5/min burst 5").unwrap_err().replacement.unwrap(), "5/m burst 5");
    }
}
