//! Conditions under which a replay fails, for continuous integration: `per_client.clients > 0.5%`.
//!
//! `LIMIT.limited` is how many requests the limit would limit, or with `%` the share of those it was asked about;
//! `LIMIT.clients` is how many clients it would touch, or with `%` the share of those. `>` and `>=` compare.

use std::fmt;
use std::str::FromStr;

use super::outcome::{LimitOutcome, Outcome};

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub struct FailIf {
    limit: String,
    what: What,
    or_equal: bool,
    bound: f64,
    share: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Limited,
    Clients,
}

/// A text that is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {0:?}; allowed LIMIT.limited or LIMIT.clients, > or >=, and a number or a share in %")]
pub struct ConditionFault(String);

impl FromStr for FailIf {
    type Err = ConditionFault;

    fn from_str(text: &str) -> Result<FailIf, ConditionFault> {
        parse(text).ok_or_else(|| ConditionFault(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<FailIf> {
    let (left, right) = text.split_once('>')?;
    let (right, or_equal) = right.strip_prefix('=').map_or((right, false), |right| (right, true));
    let (limit, what) = left.trim().rsplit_once('.')?;
    let what = match what {
        "limited" => What::Limited,
        "clients" => What::Clients,
        _ => return None,
    };
    let (number, share) = right.trim().strip_suffix('%').map_or((right.trim(), false), |share| (share.trim(), true));
    let bound: f64 = number.parse().ok()?;
    let usable = !limit.is_empty() && bound.is_finite() && bound >= 0.0;
    usable.then(|| FailIf { limit: limit.to_owned(), what, or_equal, bound, share })
}

impl FailIf {
    /// The limit that it asks about.
    pub fn limit(&self) -> &str {
        &self.limit
    }

    /// Whether it holds, and the number that it found; `None` if there is no such limit or it could not be replayed.
    pub fn holds(&self, outcome: &Outcome) -> Option<(bool, f64)> {
        let limit = outcome.limits.iter().find(|limit| limit.name == self.limit && limit.missing.is_none())?;
        let found = self.found(limit);
        Some((if self.or_equal { found >= self.bound } else { found > self.bound }, found))
    }

    fn found(&self, limit: &LimitOutcome) -> f64 {
        match (self.what, self.share) {
            (What::Limited, false) => limit.limited as f64,
            (What::Limited, true) => limit.limited_share() * 100.0,
            (What::Clients, false) => limit.clients as f64,
            (What::Clients, true) => limit.clients_share() * 100.0,
        }
    }
}

impl fmt::Display for FailIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.what == What::Limited { "limited" } else { "clients" };
        let sign = if self.or_equal { ">=" } else { ">" };
        write!(f, "{}.{what} {sign} {}{}", self.limit, self.bound, if self.share { "%" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_compares_a_count_or_a_share() {
        let limit = LimitOutcome {
            name: "a.b".into(),
            judged: 200,
            limited: 3,
            clients: 1,
            clients_judged: 100,
            ..Default::default()
        };
        let outcome = Outcome { limits: vec![limit], ..Outcome::default() };
        for (text, wanted) in [
            ("a.b.limited > 2", true),
            ("a.b.limited > 3", false),
            ("a.b.limited >= 3", true),
            ("a.b.limited>1.5%", false),
            ("a.b.limited >= 1.5 %", true),
            ("a.b.clients > 0.5%", true),
            ("a.b.clients > 1%", false),
        ] {
            let condition: FailIf = text.parse().unwrap();
            assert_eq!(condition.holds(&outcome).map(|(holds, _)| holds), Some(wanted), "{text}");
            assert_eq!(condition.to_string().parse(), Ok(condition));
        }
        assert_eq!("other.limited > 1".parse::<FailIf>().unwrap().holds(&outcome), None);
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in [
            "",
            "a",
            "a > 1",
            "a.b > 1",
            ".limited > 1",
            "a.limited",
            "a.limited > x",
            "a.limited > -1",
            "a.limited < 1",
            "a.limited > NaN",
        ] {
            assert!(text.parse::<FailIf>().is_err(), "{text}");
        }
    }
}
