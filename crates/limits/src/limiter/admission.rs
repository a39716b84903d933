//! How a request is admitted under one key: charged at once, or held back until its answer.

use std::sync::Arc;

use super::attempt::Attempt;
use super::hold::Hold;
use super::pending::Pending;
use super::state::{State, UNASKED, most_of};
use super::{Judgement, Limiter, Lost, Place};
use crate::units::{Cost, Timestamp};

impl Limiter {
    /// Charges the request under the key of `at`, or holds it back under that one to be charged later as at `place`.
    pub(super) fn admit_at(
        self: &Arc<Self>,
        at: &Place,
        place: &Place,
        now: Timestamp,
        cost: Cost,
        hold: &mut Option<Hold>,
    ) -> Result<Judgement, Lost> {
        if let Some(pending) = &self.pending {
            if self.deferred {
                return self.hold_back(pending, at, place, now, cost, hold);
            }
            // attempts from before the reload after which none are held back
            let beside = self.probe_beside(at, now, cost, self.held_back(at));
            if !beside.admitted {
                return Err(Lost { judgement: beside, contended: false });
            }
        }
        match &self.state {
            State::Rate(limiter) => limiter.admit(at, now, cost),
            State::Quota(limiter) => limiter.admit(at, now, cost),
            State::SlidingQuota(limiter) => limiter.admit(at, now, cost),
            State::RecentAverage(limiter) => limiter.tiered().admit(at, now, cost),
            State::Distinct(limiter) => limiter.admit_in(at.tier, at.key, at.value, now),
            // charged by `take`, which knows what was offered
            State::FairShare { .. } => Err(Lost { judgement: UNASKED, contended: false }),
            State::Inflight(limiter) => {
                let (judgement, permit) = limiter.admit(*at)?;
                *hold = Some(Hold::Slot(permit));
                Ok(judgement)
            }
            State::InflightByKey { places, max, most_upgraded, .. } => {
                let (judgement, permit) = places.admit(at.key, cost, most_of(max, at.tier))?;
                *hold = Some(Hold::Key { permit, most_upgraded: most_of(most_upgraded, at.tier) });
                Ok(judgement)
            }
        }
    }

    /// Holds an attempt back until its answer, if it fits on top of what is charged and of all that is held back already.
    fn hold_back(
        self: &Arc<Self>,
        pending: &Arc<Pending>,
        at: &Place,
        place: &Place,
        now: Timestamp,
        cost: Cost,
        hold: &mut Option<Hold>,
    ) -> Result<Judgement, Lost> {
        if self.is_repeat(at, now) {
            return Ok(self.probe_beside(at, now, cost, 0));
        }
        let mut judgement = UNASKED;
        let fits = |sum: u32| {
            judgement = self.probe_beside(at, now, cost, sum.saturating_sub(cost.get()));
            judgement.admitted
        };
        match pending.attempt(at.key, cost, fits) {
            Ok((_, held)) => {
                let attempt = Attempt::new(Arc::clone(self), held, *place, cost, now);
                *hold = Some(Hold::Attempt(attempt));
                Ok(judgement)
            }
            Err(_) => Err(Lost { judgement, contended: false }),
        }
    }
}
