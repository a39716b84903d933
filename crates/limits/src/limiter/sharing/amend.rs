//! What a gate tells the store of something that was granted before, when it knows more: no request waits for that, and the store asks
//! nothing back.
//!
//! A limit that is charged after the verdict asks on entry for what the request is held to cost. That is charged at once, so attempts whose
//! answers are under way count as if they would match, at all gates. The answer then makes it right: what did not match comes back, what
//! cost more is charged, whether it fits or not. What nobody tells stays charged: a gate that is killed, a message that is lost, make
//! clients get less, never more.
//!
//! **Promise.** Of a rate with burst B and rate r, whose answers take D at most: what is charged in the end, beyond what answers cost
//! above what was held back for them, is in every interval of length τ at most
//!
//! > B + r·(τ + D)
//!
//! *Proof.* Let A be the debt in the store, and H what is held back of it for answers under way. In (s, t] A grows by what was held back anew, and
//! falls by what came back and what drained, r·τ at most. H grows by what was held back, and falls by what came back and what was
//! confirmed. So what was confirmed is at most (A(t) − H(t)) − (A(s) − H(s)) + r·τ. A(t) is at most B, as nothing is granted beyond it. And
//! H(s) − A(s), what was held back and has drained since, is at most r·D, as all of it was held back less than D ago. D counts until the
//! store has heard of the answer.
//!
//! A store that is emptied forgets A: B at most, once, as of every rate. A debt of answers that cost more is kept up to [sixteen
//! bursts](super::promise::RateTerms::TOLD). Of a quota: what is granted in one window and confirmed is at most `max`, and what answers
//! cost above what was held back; what comes back does so only within the window that it was granted in. Tiers other than the one that was
//! asked take note of what was held back, and give nothing back: else a client could pay its debts in one by requests in another.

use super::Question;
use super::places::Lend;
use super::promise::{State, Terms, calendar_window, debts_of, owing, sliding_window, window, written};

/// What is told of a grant.
#[derive(Debug, Clone, PartialEq)]
pub struct Amendment {
    /// The question that was granted.
    pub question: Question,
    /// What becomes of the grant.
    pub change: Change,
}

/// What becomes of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// So many units more were charged.
    More(u32),
    /// So many units come back, of a grant that ends then, in microseconds since 1970 by the store's clock.
    Less(u32, u64),
    /// The place that ends then is given back, and one is lent for it or not.
    Place(Lend, u64),
}

/// Does to a key what was told, by the numbers of the tier that was asked. As [`grant`](super::promise::grant) otherwise; `None`: nothing is written.
pub fn amend(
    state: Option<&State>,
    terms: &[(u32, Terms)],
    asked: usize,
    change: Change,
    now: u64,
) -> Option<(State, u64)> {
    let counted = |count: u64, window: u64| match change {
        Change::More(units) => Some(count + u64::from(units)),
        Change::Less(units, ends) if ends == window => Some(count.saturating_sub(u64::from(units))),
        Change::Less(..) | Change::Place(..) => None,
    };
    match terms.get(asked)?.1 {
        Terms::Rate(_) => amend_rate(state, terms, asked, change, now),
        Terms::Quota(quota) => {
            let (index, count) = window(state, &quota, now);
            let ends = (index + 1) * quota.window_micros;
            let count = counted(count, ends)?;
            Some((State::Quota { window: quota.window_micros, index, count }, (ends - now).div_ceil(1_000)))
        }
        Terms::Calendar(calendar) => {
            let (begins, ends, count) = calendar_window(state, &calendar, now)?;
            Some((State::Calendar { begins, ends, count: counted(count, ends)? }, (ends - now).div_ceil(1_000)))
        }
        Terms::Sliding(quota) => {
            let (index, count, before) = sliding_window(state, &quota, now);
            let window = quota.window_micros;
            let ends = (index + 1) * window;
            let (count, before) = match (counted(count, ends), change) {
                (Some(count), _) => (count, before),
                (None, Change::Less(units, then)) if then == ends - window => {
                    (count, before.saturating_sub(u64::from(units)))
                }
                (None, _) => return None,
            };
            Some((State::Sliding { window, index, count, before }, (ends - now + window).div_ceil(1_000)))
        }
        Terms::Places(_) | Terms::Values(_) => None,
    }
}

fn amend_rate(
    state: Option<&State>,
    terms: &[(u32, Terms)],
    asked: usize,
    change: Change,
    now: u64,
) -> Option<(State, u64)> {
    let kept = debts_of(state);
    let (mut tiers, _) = owing(kept, terms, now);
    for (at, tier) in tiers.iter_mut().enumerate() {
        tier.debt = match change {
            Change::More(units) if at == asked => {
                let more = u64::from(units).saturating_mul(tier.terms.cost);
                tier.debt.max(tier.terms.most().min(tier.debt.saturating_add(more)))
            }
            Change::More(units) => tier.noted(units.into()),
            Change::Less(units, _) if at == asked => {
                tier.debt.saturating_sub(u64::from(units).saturating_mul(tier.terms.cost))
            }
            Change::Less(..) => tier.debt,
            Change::Place(..) => return None,
        };
    }
    Some(written(&tiers, kept, now))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limiter::sharing::Promise;
    use crate::limiter::sharing::promise::grant;
    use crate::units::Rate;

    const NOW: u64 = 1_790_000_000_000_000;
    const SECOND: u64 = 1_000_000;

    fn terms(promises: &[Promise]) -> Vec<(u32, Terms)> {
        promises.iter().zip(0..).map(|(promise, id)| (id, promise.terms().unwrap().told())).collect()
    }

    /// What is left under these numbers, and when the window ends.
    fn left(state: &State, terms: &[(u32, Terms)], asked: usize, now: u64) -> (u32, u64) {
        let answer = grant(Some(state), terms, asked, (u32::MAX, 1), now).answer;
        (answer.granted, now + answer.ends_nanos / 1_000)
    }

    fn granted(terms: &[(u32, Terms)], units: u32, now: u64) -> State {
        grant(None, terms, 0, (units, units), now).written.unwrap().0
    }

    fn told(state: &State, terms: &[(u32, Terms)], change: Change, now: u64) -> State {
        amend(Some(state), terms, 0, change, now).map_or(state.clone(), |(state, _)| state)
    }

    #[test]
    fn what_comes_back_to_one_tier_of_a_rate_comes_back_to_no_other() {
        let rate = |burst| Promise::Rate { rate: Rate::new(1, Duration::from_secs(3_600)).unwrap(), burst };
        let terms = terms(&[rate(100), rate(5)]);
        let held = granted(&terms, 10, NOW);
        assert_eq!((left(&held, &terms, 0, NOW).0, left(&held, &terms, 1, NOW).0), (90, 0));
        let back = told(&held, &terms, Change::Less(10, 0), NOW);
        assert_eq!((left(&back, &terms, 0, NOW).0, left(&back, &terms, 1, NOW).0), (100, 0));
        // and more than was held back is noted by both, beyond the burst by the one that was asked
        let more = told(&back, &terms, Change::More(150), NOW);
        assert_eq!(left(&more, &terms, 0, NOW + 49 * 3_600 * SECOND).0, 0);
        assert_eq!(left(&more, &terms, 0, NOW + 51 * 3_600 * SECOND).0, 1);
        assert_eq!(left(&more, &terms, 1, NOW + 2 * 3_600 * SECOND).0, 2);
    }

    #[test]
    fn a_debt_is_kept_up_to_sixteen_bursts() {
        let terms = terms(&[Promise::Rate { rate: Rate::new(1, Duration::from_secs(1)).unwrap(), burst: 10 }]);
        let owes = told(&granted(&terms, 1, NOW), &terms, Change::More(u32::MAX), NOW);
        assert_eq!(
            (left(&owes, &terms, 0, NOW + 150 * SECOND).0, left(&owes, &terms, 0, NOW + 151 * SECOND).0),
            (0, 1)
        );
    }

    #[test]
    fn units_of_a_quota_come_back_in_their_window_and_in_no_other() {
        let window = Duration::from_secs(60);
        for promise in [Promise::Quota { max: 10, window }, Promise::Sliding { max: 10, window }] {
            let terms = terms(&[promise]);
            let now = NOW - NOW % (60 * SECOND) + 10 * SECOND;
            let held = granted(&terms, 4, now);
            let ends = now + 50 * SECOND;
            let back = told(&held, &terms, Change::Less(4, ends), now);
            assert_eq!(left(&back, &terms, 0, now), (10, ends), "{promise:?}");
            // three more are taken in the next window; what comes back then is of the one before
            let later = now + 60 * SECOND;
            let next = grant(Some(&held), &terms, 0, (3, 3), later).written.unwrap().0;
            let before = left(&next, &terms, 0, later).0;
            let back = told(&next, &terms, Change::Less(4, ends), later);
            let gained = left(&back, &terms, 0, later).0 - before;
            let counts = matches!(promise, Promise::Sliding { .. });
            // of the four five sixths count, rounded up
            assert_eq!(gained, if counts { 4 } else { 0 }, "{promise:?}");
            assert_eq!(left(&told(&back, &terms, Change::Less(3, ends), later), &terms, 0, later).0, 7, "{promise:?}");
        }
    }
}
