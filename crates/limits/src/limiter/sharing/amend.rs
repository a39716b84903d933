//! What a gate tells the store of something that was granted before, when it knows more: no request waits for that, and the store asks
//! nothing back.
//!
//! A limit that is charged after the verdict asks on entry for what the request is held to cost. That is charged at once, so attempts whose answers
//! are under way count as if they would match, at all gates. The answer then makes it right: what did not match comes back, what cost more is charged,
//! whether it fits or not. What nobody tells stays charged: a gate that is killed, a message that is lost, make clients get less, never more.
//!
//! **Promise.** Of a rate with burst B and rate r, whose answers take D at most: what is charged in the end, beyond what answers cost above what was
//! held back for them, is in every interval of length τ at most
//!
//! > B + r·(τ + D)
//!
//! *Proof.* Let A be the debt in the store, and H what is held back of it for answers under way. In (s, t] A grows by what was held back anew, and
//! falls by what came back and what drained, r·τ at most. H grows by what was held back, and falls by what came back and what was confirmed. So what was
//! confirmed is at most (A(t) − H(t)) − (A(s) − H(s)) + r·τ. A(t) is at most B, as nothing is granted beyond it. And H(s) − A(s), what was held back and has
//! drained since, is at most r·D, as all of it was held back less than D ago. D counts until the store has heard of the answer.
//!
//! A store that is emptied forgets A: B at most, once, as of every rate. A debt of answers that cost more is kept up to
//! [sixteen bursts](super::promise::RateTerms::TOLD). Of a quota: what is granted in one window and confirmed is at most `max`, and what answers cost
//! above what was held back; what comes back does so only within the window that it was granted in. Tiers other than the one that was asked take note of what
//! was held back, and give nothing back: else a client could pay its debts in one by requests in another.

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
        Terms::Places(_) => None,
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
