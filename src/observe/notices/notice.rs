//! A notice: its kind, its subject, its words.

use serde::{Deserialize, Serialize};

/// Kinds of notices. The words are those of `tidegate_notice{notice="…"}` and of JSON, and stay.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Kind {
    /// The policy file was refused at the last reload.
    ReloadRefused,
    /// An origin has no address that is in use.
    OriginDown,
    /// An origin answers 5xx, or not as a whole.
    OriginFails,
    /// An origin has no place for its requests.
    OriginFull,
    /// The access log cannot be written.
    LogFails,
    /// All clients behind a proxy count as one client.
    ClientsCollapsed,
    /// Most requests lack the key of a limit.
    KeyMissing,
    /// A sketch is too small for its load.
    SketchCrowded,
    /// A limit has been in shadow for long.
    ShadowOld,
    /// No request comes from a trusted network.
    TrustUnseen,
    /// The policy makes very many metric series.
    ManySeries,
    /// A kind of a later version, in a list that was read.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Kind {
    /// All kinds that the gate detects, the most urgent first.
    pub const ALL: [Kind; 11] = [
        Kind::ReloadRefused,
        Kind::OriginDown,
        Kind::OriginFails,
        Kind::OriginFull,
        Kind::LogFails,
        Kind::ClientsCollapsed,
        Kind::KeyMissing,
        Kind::SketchCrowded,
        Kind::ShadowOld,
        Kind::TrustUnseen,
        Kind::ManySeries,
    ];

    /// The word of the kind.
    pub const fn word(self) -> &'static str {
        self.into_str()
    }

    /// Returns whether requests are decided wrongly or fail meanwhile.
    pub const fn is_urgent(self) -> bool {
        matches!(
            self,
            Kind::ReloadRefused
                | Kind::OriginDown
                | Kind::OriginFails
                | Kind::OriginFull
                | Kind::ClientsCollapsed
                | Kind::SketchCrowded
        )
    }
}

/// Something that the operator should know, in words that are the same wherever it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notice {
    /// The kind, a word that stays.
    pub kind: Kind,
    /// Whether requests are decided wrongly or fail meanwhile.
    pub urgent: bool,
    /// The limit, origin or network concerned; empty for the whole gate.
    pub subject: String,
    /// The fault, in one line.
    pub text: String,
    /// The remedy, in one line.
    pub hint: String,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// More lines, as in a terminal; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl Notice {
    pub(super) fn new(kind: Kind, subject: impl Into<String>, text: String, hint: impl Into<String>) -> Notice {
        let (subject, hint) = (subject.into(), hint.into());
        Notice { kind, urgent: kind.is_urgent(), subject, text, hint, since: 0, details: String::new() }
    }

    /// Returns whether both are about the same kind and subject.
    pub(super) fn is_about(&self, other: &Notice) -> bool {
        // the clients that count as one differ from look to look
        self.kind == other.kind && (self.kind == Kind::ClientsCollapsed || self.subject == other.subject)
    }
}
