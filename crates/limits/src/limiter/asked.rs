//! A request's questions to a limit in as few words as they take: most requests fit, and what was found out to ask is not found out
//! again to charge.
//!
//! No other answers than those of [`Limiter::probe`] and [`Limiter::admit`], which say the same in full.

use super::state::{State, most_of};
use super::{Hold, Judgement, Keeper, Left, Limiter, Near, Place, Said};
use crate::sketch::NextUnit;
use crate::units::{Cost, Timestamp};

impl Limiter {
    /// Finds out where the key of a request is counted, for the questions about it. With `ahead` it also has all of that brought
    /// near, as [`Limiter::prefetch`].
    #[inline]
    pub fn spot(&self, place: &Place, near: &mut Near, ahead: bool) {
        let key = place.key;
        let levels = match &self.state {
            State::Rate(limiter) => limiter.levels(place.tier),
            State::Quota(limiter) => limiter.levels(place.tier),
            State::RecentAverage(limiter) => limiter.tiered().levels(place.tier),
            State::Distinct(limiter) => {
                near.spot = limiter.spot(place.tier, key);
                if ahead {
                    limiter.prefetch_at(&near.spot, place);
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

    /// [`Limiter::probe`] of the key that `near` was [found](Limiter::spot) for, in a word if that is enough. Of a request that fits, when
    /// the next unit comes back is put into `next`; where nobody knows yet, that is left as it is.
    #[inline(always)]
    pub fn ask(&self, place: &Place, near: &mut Near, now: Timestamp, cost: Cost, next: &mut NextUnit) -> Said {
        if !self.is_plain() {
            return Said::Nothing;
        }
        match &self.state {
            State::Rate(limiter) => limiter.said(place, near, now, cost),
            State::Quota(limiter) => limiter.said(place, near, now, cost),
            State::RecentAverage(limiter) => limiter.tiered().said(place, near, now, cost),
            State::Distinct(limiter) => limiter.said(place, near, now, next),
            State::InflightByKey { places, max, .. } => places.said(near.places, cost, most_of(max, place.tier)),
            State::SlidingQuota(_) | State::FairShare { .. } | State::Inflight(_) => Said::Nothing,
        }
    }

    /// All that there is to say where [`Limiter::ask`] did not say that the request fits; `None` if the limit leaves the key alone at
    /// the moment.
    #[inline(never)]
    pub fn in_full(&self, said: Said, place: &Place, now: Timestamp, cost: Cost) -> Option<Judgement> {
        if let Said::Over(level) = said {
            match &self.state {
                State::Rate(limiter) => return Some(limiter.told(place, level, now, cost)),
                State::Quota(limiter) => return Some(limiter.told(place, level, now, cost)),
                State::RecentAverage(limiter) => return Some(limiter.tiered().told(place, level, now, cost)),
                State::Distinct(limiter) => return Some(limiter.told_at(place.tier, level, now)),
                _ => {}
            }
        }
        (!self.is_exempt(place.key, now)).then(|| self.probe(place, now, cost))
    }

    /// Charges the request as it was [asked](Limiter::ask) about, if that still stands: says how many more would fit, once it has. What
    /// it holds then is given to `keeper`, and when the next unit comes back is put into `next`. `None` proves nothing, and has
    /// [`Limiter::admit`] start again.
    #[inline]
    pub fn charge_asked(
        &self,
        place: &Place,
        near: &Near,
        now: Timestamp,
        cost: Cost,
        next: &mut NextUnit,
        keeper: impl Keeper,
    ) -> Option<Left> {
        if !self.is_plain() {
            return None;
        }
        let as_asked = match &self.state {
            State::Rate(limiter) => limiter.charge_asked(place, near, now, cost, next),
            State::Quota(limiter) => limiter.charge_asked(place, near, now, cost, next),
            State::RecentAverage(limiter) => limiter.tiered().charge_asked(place, near, now, cost, next),
            State::Distinct(limiter) => limiter.charge_asked(place, near, now),
            State::InflightByKey { places, max, most_upgraded, .. } => {
                let (remaining, permit) = places.take(place.key, near.places, cost, most_of(max, place.tier))?;
                keeper.keep(Hold::Key { permit, most_upgraded: most_of(most_upgraded, place.tier) });
                return Some(Left::Now(remaining));
            }
            State::SlidingQuota(_) | State::FairShare { .. } | State::Inflight(_) => false,
        };
        as_asked.then_some(Left::AsAsked)
    }

    /// Whether what a key is charged is all that there is to it: no key has a pardon, no charge waits for an answer, and none is
    /// charged ahead of time.
    #[inline]
    fn is_plain(&self) -> bool {
        let apart = matches!(&self.state, State::Quota(limiter) if limiter.at(0).meter().windows().keep_apart());
        self.pending.is_none() && !self.pardons.are_any() && !apart
    }
}
