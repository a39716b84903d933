//! When it is known what becomes of what a store granted to a request.

use super::rule::{CostRule, Counted, Rule};
use crate::limiter::sharing::Promise;

/// When it is known what becomes of what a store granted to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// At the end of the request, which has a place until then.
    Place,
    /// By the answer.
    Answer,
    /// As bytes pass.
    Bytes,
}

impl KnownBy {
    /// Of grants for this rule; `None`: at once.
    pub fn of(rule: &Rule) -> Option<KnownBy> {
        match (rule.kind.store_promise(), &rule.cost, &rule.counted) {
            (Some(Promise::Places { .. }), ..) => Some(KnownBy::Place),
            (_, CostRule::Bytes { .. }, _) => Some(KnownBy::Bytes),
            (_, CostRule::Response { .. }, _) | (.., Counted::Responses(_)) => Some(KnownBy::Answer),
            _ => None,
        }
    }
}
