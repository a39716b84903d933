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
use super::{Judgement, Kind, Place, RefusedCount};
use crate::sketch::{Meter, Pace, RecentAverage, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one `recent_average` limit.
#[derive(Debug)]
pub struct RecentAverageLimiter {
    leveled: Leveled<RecentAverage>,
    counts_refused: bool,
}

impl RecentAverageLimiter {
    /// An empty limiter with the numbers of `kinds`: the limit's own, then those of its tiers.
    ///
    /// # Errors
    /// No kind, one that is not `recent_average`, or numbers that [`RecentAverage::new`] or the table refuse.
    pub fn new(kinds: &[Kind], memory: Bytes, seed: Seed, indebts: bool) -> Result<RecentAverageLimiter, OutOfRange> {
        let (own, tiers) = averages(kinds, Pace::EVEN)?;
        let counts_refused = counts_refused(kinds);
        Ok(RecentAverageLimiter { leveled: Leveled::new(own, tiers, memory, seed, indebts)?, counts_refused })
    }

    /// The same averages under other numbers, from `now` on; `None` when they cannot be carried over.
    ///
    /// # Errors
    /// As [`RecentAverageLimiter::new`].
    pub fn followed_by(
        &self,
        kinds: &[Kind],
        indebts: bool,
        now: Timestamp,
    ) -> Result<Option<RecentAverageLimiter>, OutOfRange> {
        let Some(Kind::RecentAverage { half_life, .. }) = kinds.first() else { return Err(super::MIXED) };
        let pace = self.leveled.meter(0).pace_for(*half_life);
        let Some(course) = self.leveled.course().followed_by(now, pace) else { return Ok(None) };
        let (own, tiers) = averages(kinds, pace)?;
        let leveled = self.leveled.followed_by(own, tiers, course, indebts);
        Ok(Some(RecentAverageLimiter { leveled, counts_refused: counts_refused(kinds) }))
    }

    /// The same for requests that may be charged so far ahead of now, because they wait.
    pub fn with_longest_wait(self, nanos: u64) -> RecentAverageLimiter {
        RecentAverageLimiter { leveled: self.leveled.with_longest_wait(nanos), ..self }
    }

    /// Levels and meters.
    pub fn leveled(&self) -> &Leveled<RecentAverage> {
        &self.leveled
    }

    /// Counts a request that was refused, if refused ones count. Says what the client is told after that, and whether it has
    /// gone on for so long that its average is at the cap.
    pub fn count_refusal(&self, place: &Place, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        if !self.counts_refused {
            return None;
        }
        let meter = self.leveled.meter(place.tier);
        let at = self.leveled.course().at(now);
        let ceiling = meter.ceiling(at);
        let before = self.leveled.level(place);
        let raised = meter.charge(before, at, cost).min(ceiling);
        let level = if meter.worth_raising(before, raised) {
            self.leveled.charge_up_to(place, now, cost, ceiling)
        } else {
            before
        };
        let at_the_cap = !meter.worth_raising(level, ceiling);
        Some((self.leveled.told(place, level, now, cost), at_the_cap))
    }
}

/// The meters of the limit and its tiers, on an axis of this pace.
fn averages(kinds: &[Kind], pace: Pace) -> Result<(RecentAverage, Vec<RecentAverage>), OutOfRange> {
    let average = |kind: &Kind| match kind {
        Kind::RecentAverage { rate, half_life, refused, .. } => {
            let penalty = match refused {
                RefusedCount::All { max_penalty } => *max_penalty,
                RefusedCount::Admitted => std::time::Duration::ZERO,
            };
            RecentAverage::paced(*rate, *half_life, penalty, pace)
        }
        _ => Err(super::MIXED),
    };
    let (own, tiers) = kinds.split_first().ok_or(super::MIXED)?;
    Ok((average(own)?, tiers.iter().map(average).collect::<Result<_, _>>()?))
}

fn counts_refused(kinds: &[Kind]) -> bool {
    matches!(kinds.first(), Some(Kind::RecentAverage { refused: RefusedCount::All { .. }, .. }))
}
