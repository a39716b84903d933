//! A request's questions to a limit in as few words as they take: most requests fit, and what was found out to ask is not found out
//! again to charge.
//!
//! No other answers than those of [`Limiter::probe`] and [`Limiter::admit`], which say the same in full.

use std::sync::Arc;

use super::{Hold, Judgement, Limiter, Lost, Near, Place, Said, State, most_of};
use crate::units::{Cost, Timestamp};

impl Limiter {
    /// Finds out where the key of a request is counted, for the questions about it. With `ahead` it also has all of that brought
    /// near, as [`Limiter::prefetch`].
    #[inline]
    pub fn spot(&self, place: &Place, near: &mut Near, ahead: bool) {
        let key = place.key;
        let levels = match &self.state {
            State::Rate(limiter) => limiter.levels(),
            State::Quota(limiter) => limiter.levels(),
            State::RecentAverage(limiter) => limiter.leveled().levels(),
            State::Distinct(limiter) => {
                near.spot = limiter.spot(key);
                if ahead {
                    limiter.prefetch_at(&near.spot, key, place.value);
                }
                return;
            }
            State::InflightByKey { places, .. } => {
                near.places = places.spot(key);
                if ahead {
                    places.prefetch_at(near.places);
                }
                return;
            }
            // few cells, or keys of their own
            State::SlidingQuota(_) | State::FairShare { .. } | State::Inflight(_) => return,
        };
        near.spot = levels.spot(key);
        if ahead {
            levels.prefetch_at(&near.spot, key);
        }
    }

    /// The question of a key that has no pardon.
    #[inline]
    pub(super) fn said(&self, place: &Place, near: &mut Near, now: Timestamp, cost: Cost) -> Said {
        if self.pending.is_none() {
            match &self.state {
                State::Rate(limiter) => return limiter.said(place, near, now, cost),
                State::Quota(limiter) => return limiter.said(place, near, now, cost),
                State::RecentAverage(limiter) => return limiter.leveled().said(place, near, now, cost),
                State::Distinct(limiter) => return limiter.said(place, near, now),
                State::InflightByKey { places, max, .. } => {
                    return places.said(near.places, cost, most_of(max, place.tier));
                }
                State::SlidingQuota(_) | State::FairShare { .. } | State::Inflight(_) => {}
            }
        }
        Said::All(self.probe_beside(place, now, cost, self.held_back(place)))
    }

    /// Charges a request of a key that has no pardon, as [`Limiter::admit_at`].
    #[inline]
    pub(super) fn admit_saying(
        self: &Arc<Self>,
        place: &Place,
        near: &Near,
        now: Timestamp,
        cost: Cost,
        hold: &mut Option<Hold>,
    ) -> Result<Said, Lost> {
        if self.pending.is_none() {
            match &self.state {
                State::Rate(limiter) => return limiter.admit_saying(place, near, now, cost),
                State::Quota(limiter) => return limiter.admit_saying(place, near, now, cost),
                State::RecentAverage(limiter) => return limiter.leveled().admit_saying(place, near, now, cost),
                State::Distinct(limiter) => return limiter.admit_saying(place, near, now),
                State::InflightByKey { places, max, most_upgraded, .. } => {
                    let max = most_of(max, place.tier);
                    let (judgement, permit) = places.admit_at(place.key, near.places, cost, max)?;
                    *hold = Some(Hold::Key { permit, most_upgraded: most_of(most_upgraded, place.tier) });
                    let Judgement { remaining, next_unit, .. } = judgement;
                    return Ok(Said::Fits { remaining, next_unit });
                }
                State::SlidingQuota(_) | State::FairShare { .. } | State::Inflight(_) => {}
            }
        }
        self.admit_at(place, place, now, cost, hold).map(Said::All)
    }
}
