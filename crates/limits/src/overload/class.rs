//! How much a request matters.

/// How much a request matters. Under overload the least important class gives way first, and whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Criticality {
    /// Goes first: crawlers, exports.
    Background,
    /// May be refused where others are served.
    Sheddable,
    /// Everything of which nothing else is known.
    #[default]
    Default,
    /// Goes last: payments, logins.
    Critical,
}

impl Criticality {
    /// All classes, the least important first.
    pub const ALL: [Criticality; 4] =
        [Criticality::Background, Criticality::Sheddable, Criticality::Default, Criticality::Critical];

    /// Its position in [`Criticality::ALL`].
    pub fn position(self) -> usize {
        self as usize
    }
}
