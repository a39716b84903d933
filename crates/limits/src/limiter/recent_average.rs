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

use super::leveled::Leveled;
use super::tiered::Tiered;
use super::{Judgement, Kind, Place, RefusedCount, kinds};
use crate::sketch::{Meter, Pace, RecentAverage, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one `recent_average` limit.
#[derive(Debug)]
pub struct RecentAverageLimiter {
    tiered: Tiered<RecentAverage>,
    counts_refused: bool,
}

impl RecentAverageLimiter {
    /// An empty limiter with the numbers of `kinds`: the limit's own, then those of its tiers.
    ///
    /// # Errors
    /// No kind, one that is not `recent_average`, or numbers that [`RecentAverage::new`] or the table refuse.
    pub fn new(kinds: &[Kind], memory: Bytes, seed: &Seed, indebts: bool) -> Result<RecentAverageLimiter, OutOfRange> {
        let counts_refused = counts_refused(kinds);
        let meters = kinds.iter().map(|kind| average(kind, Pace::EVEN));
        let table = |meter| Leveled::new(meter, memory, seed.clone(), indebts);
        Ok(RecentAverageLimiter { tiered: Tiered::empty(meters, RecentAverage::eq, table)?, counts_refused })
    }

    /// The same averages under other numbers, from `now` on.
    ///
    /// # Errors
    /// As [`RecentAverageLimiter::new`].
    pub fn followed_by(
        &self,
        (kinds, was): (&[Kind], &[Option<u8>]),
        indebts: bool,
        now: Timestamp,
    ) -> Result<RecentAverageLimiter, OutOfRange> {
        let pace = |before: &Leveled<RecentAverage>, kind: &Kind| match kind {
            Kind::RecentAverage(kinds::RecentAverage { half_life, .. }) => Ok(before.meter().pace_for(*half_life)),
            _ => Err(super::kind::MIXED),
        };
        let follow = |before: &Leveled<RecentAverage>, kind: &Kind| {
            let pace = pace(before, kind)?;
            let course = before.course().followed_by(now, pace);
            course.map(|course| Ok(before.followed_by(average(kind, pace)?, course, indebts))).transpose()
        };
        let apart = |before: &Leveled<RecentAverage>, kind: &Kind| {
            Ok(before.apart(average(kind, Pace::EVEN)?, now, pace(before, kind)?, indebts))
        };
        let counts_refused = counts_refused(kinds);
        let tiered = self.tiered.follow((kinds, was), RecentAverage::eq, follow, apart)?;
        Ok(RecentAverageLimiter { tiered, counts_refused })
    }

    /// The same for requests that may be charged so far ahead of now, because they wait.
    pub fn with_longest_wait(self, nanos: u64) -> RecentAverageLimiter {
        RecentAverageLimiter { tiered: self.tiered.with_longest_wait(nanos), ..self }
    }

    /// Levels and meters.
    pub fn tiered(&self) -> &Tiered<RecentAverage> {
        &self.tiered
    }

    /// Counts a request that was refused, if refused ones count. Says what the client is told after that, and whether it has
    /// gone on for so long that its average is at the cap. It counts by the numbers that refused it alone: a client may choose to be
    /// refused by a slow tier, and must not lock others out of a faster one by that.
    pub fn count_refusal(&self, place: &Place, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        if !self.counts_refused {
            return None;
        }
        let leveled = self.tiered.at(place.tier);
        let meter = leveled.meter();
        let at = leveled.course().at(now);
        let ceiling = meter.ceiling(at);
        let before = leveled.level(place);
        let raised = meter.charge(before, at, cost).min(ceiling);
        let level =
            if meter.worth_raising(before, raised) { leveled.charge_up_to(place, now, cost, ceiling) } else { before };
        let at_the_cap = !meter.worth_raising(level, ceiling);
        Some((leveled.told(place, level, now, cost), at_the_cap))
    }
}

/// The meter of these numbers on an axis of this pace.
fn average(kind: &Kind, pace: Pace) -> Result<RecentAverage, OutOfRange> {
    match kind {
        Kind::RecentAverage(kinds::RecentAverage { rate, half_life, refused, .. }) => {
            let penalty = match refused {
                RefusedCount::All { max_penalty } => *max_penalty,
                RefusedCount::Admitted => std::time::Duration::ZERO,
            };
            RecentAverage::paced(*rate, *half_life, penalty, pace)
        }
        _ => Err(super::kind::MIXED),
    }
}

fn counts_refused(kinds: &[Kind]) -> bool {
    matches!(kinds.first(), Some(Kind::RecentAverage(kinds::RecentAverage { refused: RefusedCount::All { .. }, .. })))
}
