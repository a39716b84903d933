//! How much a request matters.

/// How much a request matters, from most to least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Class {
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

impl Class {
    /// All, the most important first.
    pub const ALL: [Class; 4] = [Class::Critical, Class::Default, Class::Sheddable, Class::Background];

    /// The word in policies, metrics and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Class::Critical => "critical",
            Class::Default => "default",
            Class::Sheddable => "sheddable",
            Class::Background => "background",
        }
    }

    /// Its position in [`Class::ALL`].
    pub const fn position(self) -> usize {
        self as usize
    }
}

/// The places that are kept for each class: less important ones leave them free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserved(pub [u32; 4]);

impl Reserved {
    /// How many places a request of this class must leave free for more important ones.
    pub fn before(&self, class: Class) -> u32 {
        self.0.iter().take(class.position()).fold(0, |sum, places| sum.saturating_add(*places))
    }
}
