//! What a store granted to a request of which it is to be told more: that the answer does not count, or cost more, how many bytes passed, that a
//! place is free again.
//!
//! A face keeps it for as long as the request holds what was granted. Without I/O: it says what to tell
//! ([`StoreGrant::charged`], [`StoreGrant::more`], [`StoreGrant::places`]).

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::shared_limit::SharedLimit;
use crate::limiter::sharing::places::Lend;
use crate::limiter::sharing::{Amendment, Answer, Change, Question};
use crate::policy::KnownBy;
use crate::sketch::KeyHash;
use crate::units::Cost;

/// What a store granted to one request, under each name that the key has.
#[derive(Debug)]
pub struct StoreGrant {
    known_by: KnownBy,
    cost: Cost,
    limit: Arc<SharedLimit>,
    key: KeyHash,
    /// With when each ends, in microseconds since 1970 by the store's clock. Two while the secret is being replaced.
    granted: ArrayVec<(Question, Option<u64>), 2>,
}

impl StoreGrant {
    pub(super) fn new(known_by: KnownBy, cost: Cost, limit: Arc<SharedLimit>, key: KeyHash) -> StoreGrant {
        StoreGrant { known_by, cost, limit, key, granted: ArrayVec::new() }
    }

    /// Takes in an answer to a question about the request, and the store's time of it in microseconds since 1970.
    pub fn answered(&mut self, question: &Question, (answer, now): (Answer, u64)) {
        if answer.granted > 0 {
            // a third question is for what gates without the new secret had granted, and nothing of it comes back
            let _ = self.granted.try_push((question.clone(), Some(ends(&answer, now))));
        }
    }

    /// Whether anything was granted.
    pub fn is_any(&self) -> bool {
        !self.granted.is_empty()
    }

    /// When it is known what becomes of it.
    pub fn known_by(&self) -> KnownBy {
        self.known_by
    }

    /// What was granted.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// What to tell the store when so much was charged in the end; nothing where that is what was granted.
    pub fn charged(&self, units: u32) -> impl Iterator<Item = Amendment> {
        let held = self.cost.get();
        self.granted.iter().filter(move |_| units != held).map(move |(question, ends)| {
            let change = match units.checked_sub(held) {
                Some(more) => Change::More(more),
                None => Change::Less(held - units, ends.unwrap_or(0)),
            };
            Amendment { question: question.clone(), change }
        })
    }

    /// What to tell the store of so many units that were charged on top.
    pub fn more(&self, units: u32) -> impl Iterator<Item = Amendment> {
        let change = Change::More(units);
        self.granted.iter().map(move |(question, _)| Amendment { question: question.clone(), change })
    }

    /// What to tell the store to have the place lent anew, or given back, by its position.
    pub fn places(&self, lend: Lend) -> Vec<(usize, Amendment)> {
        let told = |(at, (question, ends)): (usize, &(Question, Option<u64>))| {
            // of one whose end is not known another is lent, and nothing is given back
            let change = Change::Place(lend, ends.unwrap_or(0));
            (at, Amendment { question: question.clone(), change })
        };
        self.granted.iter().enumerate().map(told).collect()
    }

    /// The place at this position was lent anew, or nobody knows.
    pub fn renewed(&mut self, at: usize, answer: Option<(Answer, u64)>) {
        if let Some((_, kept)) = self.granted.get_mut(at) {
            *kept = answer.map(|(answer, now)| ends(&answer, now));
        }
    }

    /// Some of the key is free again: this gate asks the store at the next request.
    pub fn freed(&self) {
        self.limit.refused().forget(self.key);
    }
}

fn ends(answer: &Answer, now: u64) -> u64 {
    now.saturating_add(answer.ends_nanos / 1_000)
}
