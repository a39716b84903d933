//! `type: recent_average`: at most `rate` per key as an average that halves every `half_life` without a request.
//!
//! Source: the recent-average rate limiter (continuous exponentially weighted moving average). A client may burst up to
//! rate·half_life/ln 2 requests; above that it is refused until its average has come down.
//!
//! **Promise.** At most B + rate·τ admitted in every interval of length τ, with B = rate·half_life/ln 2.
//!
//! With `count: all` a refused request counts too, so a client that keeps on keeps itself out, and one that backs off is let
//! in again at the very instant that it was told. The lock-out is capped: it ends at most `max_penalty` after the time that
//! the full average itself needs, however long a client went on. Above that cap, and for raises too small to matter,
//! nothing is written, so that a flood costs reads only.

use super::by_level::ByLevel;
use super::kind::MIXED;
use super::leveled::Leveled;
use super::needs::Owed;
use super::tiered::Tiered;
use super::{Judgement, Kind, Moved, Place, RefusedCount, Spec, kinds};
use crate::sketch::{Meter, Ratio, RecentAverage, Seed};
use crate::units::{Cost, OutOfRange, Timestamp};

/// The state of one `recent_average` limit.
#[derive(Debug)]
pub(super) struct RecentAverageLimit {
    tiered: Tiered<RecentAverage>,
    counts_refused: bool,
}

impl RecentAverageLimit {
    /// An empty limiter with the numbers of the spec's kinds: the limit's own, then those of its tiers.
    ///
    /// # Errors
    /// No kind, one that is not `recent_average`, or numbers that [`RecentAverage::new`] or the table refuse.
    pub fn new(spec: &Spec<'_>, seed: &Seed) -> Result<RecentAverageLimit, OutOfRange> {
        let Some(Kind::RecentAverage(kinds::RecentAverage { memory, .. })) = spec.kinds.first() else {
            return Err(MIXED);
        };
        let meters = spec.kinds.iter().map(|kind| average(kind, Ratio::EVEN));
        let table = |meter| Leveled::new(meter, *memory, seed.clone(), spec.indebts);
        RecentAverageLimit::of(Tiered::empty(meters, RecentAverage::eq, table)?, spec)
    }

    fn of(tiered: Tiered<RecentAverage>, spec: &Spec<'_>) -> Result<RecentAverageLimit, OutOfRange> {
        let tiered = tiered.with_longest_wait(spec.longest_wait);
        let counts_refused = matches!(
            spec.kinds.first(),
            Some(Kind::RecentAverage(kinds::RecentAverage { refused: RefusedCount::All { .. }, .. }))
        );
        Ok(RecentAverageLimit { tiered, counts_refused })
    }
}

impl ByLevel for RecentAverageLimit {
    type Meter = RecentAverage;

    fn tiered(&self) -> &Tiered<RecentAverage> {
        &self.tiered
    }

    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<RecentAverageLimit, OutOfRange> {
        let ratio = |before: &Leveled<RecentAverage>, kind: &Kind| match kind {
            Kind::RecentAverage(kinds::RecentAverage { half_life, .. }) => Ok(before.meter().pace_for(*half_life)),
            _ => Err(MIXED),
        };
        let follow = |before: &Leveled<RecentAverage>, kind: &Kind| {
            let ratio = ratio(before, kind)?;
            let timeline = before.timeline().followed_by(moved.now, ratio);
            timeline.map(|timeline| Ok(before.followed_by(average(kind, ratio)?, timeline, spec.indebts))).transpose()
        };
        let apart = |before: &Leveled<RecentAverage>, kind: &Kind| {
            Ok(before.apart(average(kind, Ratio::EVEN)?, moved.now, ratio(before, kind)?, spec.indebts))
        };
        let after = self.tiered.follow((spec.kinds, moved.tiers), RecentAverage::eq, follow, apart)?;
        RecentAverageLimit::of(after, spec)
    }

    fn owed(&self, _: &Kind, _: u8, standing: u64, cost: Cost) -> Owed {
        Owed::sum(f64::from_bits(standing) + f64::from(cost.get()))
    }

    /// Counts by the numbers that refused the request alone: a client may choose to be refused by a slow tier, and must not lock
    /// others out of a faster one by that.
    fn count_refusal(&self, at: &Place<'_>, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        if !self.counts_refused {
            return None;
        }
        let leveled = self.tiered.at(at.tier);
        let (meter, moment) = (leveled.meter(), leveled.timeline().at(now));
        let ceiling = meter.ceiling(moment);
        let before = leveled.level(at);
        let raised = meter.charge(before, moment, cost).min(ceiling);
        let level =
            if meter.worth_raising(before, raised) { leveled.charge_up_to(at, now, cost, ceiling) } else { before };
        let at_the_cap = !meter.worth_raising(level, ceiling);
        Some((leveled.refusal(at, level, now, cost), at_the_cap))
    }
}

/// The meter of these numbers on an axis of this pace.
fn average(kind: &Kind, ratio: Ratio) -> Result<RecentAverage, OutOfRange> {
    match kind {
        Kind::RecentAverage(kinds::RecentAverage { rate, half_life, refused, .. }) => {
            let penalty = match refused {
                RefusedCount::All { max_penalty } => *max_penalty,
                RefusedCount::Admitted => std::time::Duration::ZERO,
            };
            RecentAverage::paced(*rate, *half_life, penalty, ratio)
        }
        _ => Err(MIXED),
    }
}
