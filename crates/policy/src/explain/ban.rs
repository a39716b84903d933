//! The ban that a request was refused by.

use serde::{Deserialize, Serialize};

use crate::bans::Ban;

/// Who banned whom, why and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanPart {
    /// Its number, as in `tidegate bans`.
    pub number: u32,
    /// Who gave it; none when it has ended since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason that was given with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it was given, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// When it ends, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl BanPart {
    /// A ban in force, given and ending at these times in RFC 3339.
    pub fn of(ban: &Ban, given: String, until: String) -> BanPart {
        BanPart {
            number: ban.number,
            by: Some(ban.by.clone()),
            why: Some(ban.why.clone()).filter(|why| !why.is_empty()),
            given: Some(given),
            until: Some(until),
        }
    }

    /// A ban that has ended: nothing but its number is remembered.
    pub fn ended(number: u32) -> BanPart {
        BanPart { number, by: None, why: None, given: None, until: None }
    }

    /// In lines, for people. `time` shortens a time.
    pub fn lines(&self, time: impl Fn(&str) -> String) -> Vec<String> {
        let BanPart { number, by, why, given, until } = self;
        let (Some(by), Some(given), Some(until)) = (by, given, until) else {
            return vec![format!("number {number}, which has ended since")];
        };
        let head = format!("number {number}, by {by} at {}, until {}", time(given), time(until));
        std::iter::once(head).chain(why.as_ref().map(|why| format!("  {why}"))).collect()
    }
}
