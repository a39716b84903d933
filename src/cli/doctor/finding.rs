//! What a look at the machine finds.

use serde::Serialize;

/// What a finding means for a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It starts, and something will be worse than it could be.
    Warn,
    /// It does not start, or requests will fail.
    Fail,
}

impl Verdict {
    /// The word at the beginning of its line.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `listener main`.
    pub check: String,
    /// What it means.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do, where it is not as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// One without advice.
    pub fn new(check: impl Into<String>, verdict: Verdict, found: impl Into<String>) -> Finding {
        Finding { check: check.into(), verdict, found: found.into(), advice: None }
    }

    /// One that is as it should be.
    pub fn ok(check: impl Into<String>, found: impl Into<String>) -> Finding {
        Finding::new(check, Verdict::Ok, found)
    }

    /// The same with what to do.
    pub fn advise(self, advice: impl Into<String>) -> Finding {
        Finding { advice: Some(advice.into()), ..self }
    }
}
