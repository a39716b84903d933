//! What a store keeps of a key, and how it is spelled there.

/// What a store keeps of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Of a rate: by the limit's own numbers and those of its tiers.
    Rate(Vec<Debt>),
    /// Of a quota, whose tiers have windows in common.
    Quota {
        /// The [`QuotaTerms::window_micros`](super::QuotaTerms::window_micros) that the window was numbered with.
        window: u64,
        /// Windows since 1970.
        index: u64,
        /// Units granted in it.
        count: u64,
    },
    /// Of a quota whose windows slide.
    Sliding {
        /// The [`QuotaTerms::window_micros`](super::QuotaTerms::window_micros) that the window was numbered with.
        window: u64,
        /// Windows since 1970.
        index: u64,
        /// Units granted in it.
        count: u64,
        /// Units granted in the one before.
        before: u64,
    },
    /// Of a quota by the calendar.
    Calendar {
        /// When the window began, in microseconds since 1970.
        begins: u64,
        /// When it ends.
        ends: u64,
        /// Units granted in it.
        count: u64,
    },
}

/// What a key owes by the numbers of one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debt {
    /// The [`StoreTier::id`](crate::limiter::sharing::StoreTier::id).
    pub id: u32,
    /// The [`RateTerms::cost`](super::RateTerms::cost) that the debt was counted with.
    pub cost: u64,
    /// The debt at the stamp.
    pub debt: u64,
    /// Microseconds since 1970, a whole number of ticks before or at the time of writing.
    pub stamp: u64,
    /// When it has drained, likewise.
    pub ends: u64,
}

impl std::fmt::Display for State {
    /// The value in the store; its first number is the format's.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            State::Rate(debts) => match debts.as_slice() {
                [Debt { id: 0, cost, debt, stamp, .. }] => write!(f, "1 {cost} {debt} {stamp}"),
                debts => {
                    write!(f, "2")?;
                    debts.iter().try_for_each(|Debt { id, cost, debt, stamp, ends }| {
                        write!(f, " {id} {cost} {debt} {stamp} {ends}")
                    })
                }
            },
            State::Quota { window, index, count } => write!(f, "1 {window} {index} {count}"),
            State::Sliding { window, index, count, before } => write!(f, "1 {window} {index} {count} {before}"),
            State::Calendar { begins, ends, count } => write!(f, "2 {begins} {ends} {count}"),
        }
    }
}
