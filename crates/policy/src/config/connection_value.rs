//! Values that only connections have: something or `none`, and speeds in bytes.

use std::time::Duration;

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::limit_value::LimitRate;
use super::read::{Scalar, Wrong};
use super::scalar::{digits, pattern};
use super::setting::Setting;
use super::tree::Tree;
use crate::units::Bytes;

/// A value, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrNone<T>(pub Option<T>);

impl<T: Scalar> Scalar for OrNone<T> {
    const NAME: &'static str = T::NAME;
    const EXAMPLE: &'static str = T::EXAMPLE;
    const CODE: Code = T::CODE;

    fn parse(text: &str) -> Result<OrNone<T>, Wrong> {
        if text == "none" {
            return Ok(OrNone(None));
        }
        T::parse(text).map(|value| OrNone(Some(value))).map_err(|mut wrong| {
            wrong.label.push_str(", or `none`");
            wrong
        })
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "const": "none" }, T::schema()] })
    }
}

impl<T: Setting> Setting for OrNone<T> {
    type Value = Option<T::Value>;

    fn used(&self) -> Option<T::Value> {
        self.0.as_ref().map(T::used)
    }

    fn tree(value: &Option<T::Value>) -> Tree {
        value.as_ref().map_or_else(|| Tree::text("none"), T::tree)
    }

    fn within(&self, low: &OrNone<T>, high: &OrNone<T>) -> bool {
        match (&self.0, &low.0, &high.0) {
            (Some(value), Some(low), Some(high)) => value.within(low, high),
            _ => true,
        }
    }
}

/// Bytes per second, 1 to 2³⁰.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRate(pub u32);

impl Scalar for ByteRate {
    const NAME: &'static str = "speed";
    const EXAMPLE: &'static str = "`500B/s` or `4KiB/s`";
    const CODE: Code = Code::BAD_RATE;

    fn parse(text: &str) -> Result<ByteRate, Wrong> {
        const ALLOWED: &str = "must be 1B/s to 1GiB/s";
        match LimitRate::parse(text) {
            Ok(LimitRate::Bytes { bytes, period }) if period == Duration::from_secs(1) && bytes <= 1 << 30 => {
                u32::try_from(bytes).map(ByteRate).map_err(|_| Wrong::new(ALLOWED))
            }
            Ok(LimitRate::Bytes { .. }) => Err(Wrong::new(ALLOWED).code(Code::OUT_OF_RANGE)),
            // whatever a limit would make of it, here it is bytes
            Ok(_) | Err(Wrong { replacement: None, .. }) => {
                Err(Wrong::new("must be of bytes per second, such as 500B/s"))
            }
            Err(wrong) if digits(text).is_some() => {
                Err(Wrong { label: ALLOWED.into(), ..wrong }.meant(format!("{text}B/s"), ""))
            }
            Err(wrong) => Err(wrong),
        }
    }

    fn schema() -> Schema {
        pattern("^[0-9]+(_[0-9]+)*(B|KiB|MiB|GiB)/s$")
    }
}

impl Setting for ByteRate {
    type Value = u32;

    fn used(&self) -> u32 {
        self.0
    }

    fn tree(value: &u32) -> Tree {
        Tree::text(format!("{}/s", Bytes(u64::from(*value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::scalar::Count;

    #[test]
    fn speeds_are_of_bytes_per_second() {
        assert_eq!(ByteRate::parse("500B/s"), Ok(ByteRate(500)));
        assert_eq!(ByteRate::parse("4KiB/s"), Ok(ByteRate(4096)));
        assert_eq!(ByteRate::parse("1GiB/s"), Ok(ByteRate(1 << 30)));
        for text in ["500", "500/s", "0B/s", "2GiB/s", "500B/m", "500B", "B/s", ""] {
            assert!(ByteRate::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn none_is_a_value_too() {
        assert_eq!(OrNone::<Count>::parse("none"), Ok(OrNone(None)));
        assert_eq!(OrNone::<Count>::parse("7"), Ok(OrNone(Some(Count(7)))));
        assert!(OrNone::<Count>::parse("None").unwrap_err().label.ends_with("or `none`"));
    }
}
