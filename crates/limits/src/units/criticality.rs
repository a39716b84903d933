//! How much a request matters.

/// How much a request matters, from most to least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Criticality {
    /// Goes before all others.
    Critical,
    /// Unless something else is said.
    #[default]
    Default,
    /// Can be refused without harm.
    Sheddable,
    /// Has time.
    Background,
}

impl Criticality {
    /// All, the most important first.
    pub const ALL: [Criticality; 4] =
        [Criticality::Critical, Criticality::Default, Criticality::Sheddable, Criticality::Background];

    /// The word in policy files, fields, log and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Criticality::Critical => "critical",
            Criticality::Default => "default",
            Criticality::Sheddable => "sheddable",
            Criticality::Background => "background",
        }
    }

    /// The one of this word, in any case.
    pub fn from_word(word: &str) -> Option<Criticality> {
        Criticality::ALL.into_iter().find(|criticality| criticality.word().eq_ignore_ascii_case(word))
    }

    /// How much it matters, from 0 to 3.
    pub const fn importance(self) -> usize {
        3 - self as usize
    }

    /// Its position in [`Criticality::ALL`]: 0 for the most important.
    pub const fn position(self) -> usize {
        self as usize
    }
}
