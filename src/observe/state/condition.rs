//! The condition of the process as a whole, in one sentence.

use serde::{Deserialize, Serialize};

/// What can be said of the process as a whole. The words are those of JSON, and stay.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ConditionKind {
    /// It takes no new connections and finishes what is under way.
    Stopping,
    /// It has more to do than it can.
    Overloaded,
    /// No address of an origin is in use, or the origin fails its requests.
    OriginFails,
    /// Much is refused, and one network causes a large part of it.
    Flood,
    /// Much is refused, and no network stands out.
    Crowd,
    /// A store does not answer, or there is an urgent notice.
    Trouble,
    /// There was no request since the start.
    NoRequest,
    /// None of these.
    #[default]
    Well,
}

impl ConditionKind {
    /// The word of the kind.
    pub const fn word(self) -> &'static str {
        self.into_str()
    }

    /// How urgent it is.
    pub const fn sign(self) -> Sign {
        match self {
            ConditionKind::Stopping | ConditionKind::NoRequest => Sign::None,
            ConditionKind::Overloaded | ConditionKind::OriginFails => Sign::Bad,
            ConditionKind::Flood | ConditionKind::Crowd | ConditionKind::Trouble => Sign::Watch,
            ConditionKind::Well => Sign::Good,
        }
    }
}

/// How urgent a condition is. It is shown as a symbol and a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Nothing is the matter.
    Good,
    /// The gate copes, and an operator should look.
    Watch,
    /// Clients get errors.
    Bad,
    /// Nothing can be said.
    None,
}

impl Sign {
    /// The symbol of one column.
    pub const fn symbol(self) -> &'static str {
        match self {
            Sign::Good => "✓",
            Sign::Watch => "!",
            Sign::Bad => "✕",
            Sign::None => "○",
        }
    }
}

/// The condition of the process as a whole. Only the texts of [`ConditionKind::Trouble`] can name clients' networks or addresses, as
/// notices do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The kind, a word that stays.
    pub kind: ConditionKind,
    /// The origin, store or notice concerned; empty for the whole process.
    pub subject: String,
    /// One sentence without its full stop.
    pub head: String,
    /// What was measured, in one or two sentences.
    pub text: String,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// The heads of other conditions that hold as well, the most urgent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}
