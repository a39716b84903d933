//! Who has the last word on a limit: this gate, what it holds of a shared one, or the store.

/// Whose word a reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DecidedBy {
    /// This gate's alone, as of every limit without a store.
    #[default]
    Gate,
    /// Of a shared limit: what this gate holds or remembers of it, and whatever can be told without asking the store.
    Lease,
    /// Of a shared limit: the store's, about this very request.
    Store,
    /// Of a shared limit: the store was silent, and `on_store_error` decided.
    Fallback,
    /// Of a shared limit: this gate's, with what other gates told it.
    Estimate,
    /// This gate's, by how much the client asks for, refused requests included, as `fair_share` measures it: more than the limit admits.
    Offered,
}

impl DecidedBy {
    /// All of them, in the order of their numbers.
    pub const ALL: [DecidedBy; 6] = [
        DecidedBy::Gate,
        DecidedBy::Lease,
        DecidedBy::Store,
        DecidedBy::Fallback,
        DecidedBy::Estimate,
        DecidedBy::Offered,
    ];

    /// Whether it rests on what this gate itself counts of the key.
    pub fn counts_here(self) -> bool {
        matches!(self, DecidedBy::Gate | DecidedBy::Estimate)
    }

    /// The word in explanations.
    pub fn word(self) -> &'static str {
        match self {
            DecidedBy::Gate => "gate",
            DecidedBy::Lease => "lease",
            DecidedBy::Store => "store",
            DecidedBy::Fallback => "fallback",
            DecidedBy::Estimate => "estimate",
            DecidedBy::Offered => "offered",
        }
    }
}
