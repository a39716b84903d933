//! One limiter after another: the same state under other numbers.
//!
//! **Promise.** What was admitted under the old numbers counts under the new ones, at every instant and to the unit, and comes back
//! as the new ones say. No client gains a budget by a change, however often it comes: over any time in which the numbers changed
//! it is admitted at most the greatest burst in force, and what the rates in force gave back. Requests that began under the old
//! numbers end under them, on the same state.
//!
//! | kind | state | under other numbers |
//! |---|---|---|
//! | `rate`, `distinct` with `sliding` | when the key will have all its budget again | the axis of these instants [bends](crate::sketch::Axis): units stay units. Where it cannot, a table of their own begins with the levels of this one, which hears no more of requests that began before |
//! | `recent_average` | when the sum of the key will be one | as above for `half_life`; a sum is judged by any `rate` |
//! | `quota` | a count | judged by any `max`; the open window goes on as the open one of the new windows |
//! | `quota` with `sliding`, `distinct` | counts | judged by any `max` |
//! | `inflight` | places that are taken | counted against any `max` |
//! | `fair_share` | offered rates, caps as time, one bucket for all | any `capacity`, multipliers and levels; the bucket keeps its units |
//!
//! What a state means must be the same on both sides: the engine asks only when type, key, `of`, window, nodes and memory are.

use std::sync::Arc;

use super::follows::Follows;
use super::kind::{MIXED, fixed};
use super::spec::{most, most_upgraded};
use super::state::{State, pending, share_spec};
use super::{FairShare, Kind, Limiter, Scope, Spec, kinds, quota, rate};
use crate::sketch::Seed;
use crate::units::{OutOfRange, Timestamp};

/// What a new policy has moved around a limit.
#[derive(Debug, Clone, Copy)]
pub struct Moved<'a> {
    /// For each route of the new policy, which of the old one it was; `None` if it is new.
    pub routes: &'a [Option<usize>],
    /// The same of origins.
    pub origins: &'a [Option<usize>],
    /// For the limit's own numbers and each tier, which of the old limit's tiers it was, 0 its own numbers; `None` if it is new.
    pub tiers: &'a [Option<u8>],
    /// When. No stamp that a request was judged by may be later.
    pub now: Timestamp,
}

impl Limiter {
    /// The same state under other numbers. This limiter stays as it is and may go on being asked: both charge one state, and each
    /// judges by its own numbers. Nothing changes for anybody before the first question to the new one and
    /// [`Limiter::take_over`].
    ///
    /// # Errors
    /// As [`Limiter::new`], and a state that means something else under the new numbers.
    pub fn followed_by(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Limiter, OutOfRange> {
        let state = self.state_under(spec, moved)?;
        let held_back = match (&self.pending, spec.deferred) {
            (Some(before), _) => Some(Arc::clone(before)),
            (None, true) => Some(pending(&self.seed)?),
            (None, false) => None,
        };
        Ok(Limiter {
            state,
            pending: held_back,
            deferred: spec.deferred,
            own_hash: self.own_hash.clone(),
            seed: self.seed.clone(),
            unit: spec.unit,
            pardons: Arc::clone(&self.pardons),
        })
    }

    /// From now on this limiter's policy is in force: what is one for it and the limiter before goes by its numbers.
    pub fn take_over(&self) {
        match &self.state {
            State::Rate(limiter) => limiter.take_over(),
            State::Quota(limiter) => limiter.take_over(),
            State::RecentAverage(limiter) => limiter.tiered().take_over(),
            State::Distinct(limiter) => limiter.take_over(),
            State::FairShare { share, capacity: Some(capacity), .. } => share.set_capacity(*capacity),
            State::FairShare { capacity: None, .. }
            | State::SlidingQuota(_)
            | State::Inflight(_)
            | State::InflightByKey { .. } => {}
        }
    }

    /// The seed that all of its tables are drawn by.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    fn state_under(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<State, OutOfRange> {
        let (kinds, now) = (spec.kinds, moved.now);
        let kinds_were = (kinds, moved.tiers);
        Ok(match (&self.state, kinds.first().ok_or(MIXED)?) {
            (State::Rate(before), Kind::Rate(..)) => {
                let after = rate::followed_by(before, kinds_were, (self.unit, spec.unit), spec.indebts, now)?;
                State::Rate(after.with_longest_wait(spec.longest_wait))
            }
            (State::Quota(before), Kind::Quota(kinds::Quota { sliding: false, .. })) => {
                State::Quota(quota::followed_by(before, spec, moved.tiers, now)?)
            }
            (State::SlidingQuota(before), Kind::Quota(kinds::Quota { sliding: true, .. })) => {
                State::SlidingQuota(before.followed_by(kinds, spec.unix_nanos_at_origin)?)
            }
            (State::RecentAverage(before), Kind::RecentAverage(..)) => {
                let after = before.followed_by(kinds_were, spec.indebts, now)?;
                State::RecentAverage(after.with_longest_wait(spec.longest_wait))
            }
            (State::Distinct(before), Kind::Distinct(..)) => {
                let after = before.followed_by(kinds_were, now)?;
                State::Distinct(after.with_longest_wait(spec.longest_wait))
            }
            (State::Inflight(before), Kind::Inflight(kinds::Inflight { max, upgraded, .. })) => {
                State::Inflight(before.followed_by(*max, *upgraded, moved.routes, moved.origins))
            }
            (
                State::InflightByKey { places, upgraded, .. },
                Kind::Inflight(kinds::Inflight { scope: Scope::Key { .. }, .. }),
            ) => State::InflightByKey {
                places: Arc::clone(places),
                upgraded: Arc::clone(upgraded),
                max: kinds.iter().map(most).collect::<Result<_, _>>()?,
                most_upgraded: kinds.iter().map(most_upgraded).collect::<Result<_, _>>()?,
            },
            (State::FairShare { share, follows, .. }, Kind::FairShare(..)) => {
                fair_share_under(spec, moved, share, follows.as_ref())?
            }
            _ => return Err(MIXED),
        })
    }
}

fn fair_share_under(
    spec: &Spec<'_>,
    moved: &Moved<'_>,
    share: &FairShare,
    follows: Option<&Follows>,
) -> Result<State, OutOfRange> {
    let kind = spec.kinds.first().ok_or(MIXED)?;
    let Kind::FairShare(kinds::FairShare { capacity, .. }) = kind else { return Err(MIXED) };
    let after = Follows::new(*capacity, spec.origin_caps).map(|after| after.following(follows, moved.origins));
    Ok(State::FairShare { share: share.followed_by(&share_spec(kind)?)?, follows: after, capacity: fixed(*capacity) })
}
