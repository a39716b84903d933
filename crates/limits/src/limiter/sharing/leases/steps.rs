//! What the words of one entry say, and the steps that a question takes them through: it begins, and brings something.

use super::super::Promise;
use super::entry::Entry;
use super::size::{self, Demand};
use super::words::{Held, MOST_TOKENS, State, tick, until};
use super::{Ends, Look};
use crate::sketch::Word;
use crate::units::Timestamp;

/// How often a request tries again that meets others at an entry.
pub(super) const ATTEMPTS: u32 = 16;

/// A lease whose end is nearer than this many ticks (0.27 s) is refilled late, so that little is given up for a new end.
const NEAR: u64 = 128;

/// With so many requests expected before a lease ends, it hardly ever ends before one comes.
const EXPECTED: u64 = 8;

/// What is known from an entry, and what was held in it when it was read.
#[inline]
pub(super) fn known<C: Word>(
    found: Option<(&Entry<C>, u64)>,
    tag: u64,
    cost: u32,
    promise: &Promise,
    now: Timestamp,
) -> Look {
    let Some((entry, held)) = found else { return Look::Unknown };
    let held = Held::of(held);
    let word = entry.state.load();
    let state = State::of(word);
    let left = held.left(now);
    if left >= cost {
        return Look::Holds { left, low: is_low(held, state, now), ends: Ends(held.ends) };
    }
    if cost > promise.most() {
        return Look::Refused { retry_nanos: None, due: false };
    }
    match state.refusal(now) {
        // read before the tag and after it, the state is the key's
        Some((refused, back)) if cost >= refused && entry.tag.load() == tag && entry.state.load() == word => {
            let wait = until(back, now).saturating_add(size::longer(refused, cost, promise));
            Look::Refused { retry_nanos: Some(wait), due: state.is_due(now) }
        }
        _ => Look::Unknown,
    }
}

/// Whether little is left, and nobody asks already or may not.
#[inline]
pub(super) fn is_low(held: Held, state: State, now: Timestamp) -> bool {
    let State::Idle { low } = state else { return false };
    let near = held.ends.saturating_sub(tick(now)) < NEAR;
    held.left(now) < if near { low.min((low / 4).max(2)) } else { low }
}

/// What came of trying to ask about a key that has an entry.
pub(super) enum Start {
    /// We ask, with this word in the state; the low-water mark before.
    Ours { asking: u64, low: u32 },
    /// Another request asks, with this word in the state.
    Busy(u64),
    /// The entry has changed meanwhile: look again.
    Moved,
}

/// Marks the key of the entry as being asked about.
pub(super) fn start<C: Word>(entry: &Entry<C>, tag: u64, nonce: u32, now: Timestamp) -> Start {
    let word = entry.state.load();
    let state = State::of(word);
    let low = match state {
        State::Idle { low } => low,
        state if state.is_asking(now) => return Start::Busy(word),
        State::Claimed => return Start::Moved,
        State::Asking { .. } | State::Refused { .. } => 0,
    };
    let asking = State::Asking { since: tick(now), nonce, refused: state.is_due(now) }.word();
    if !entry.state.exchange(word, asking) {
        return Start::Moved;
    }
    if entry.tag.load() == tag {
        // from here on it stays the key's for as long as a question may take
        return Start::Ours { asking, low };
    }
    let _ = entry.state.exchange(asking, word);
    Start::Moved
}

/// What an answer brings to be kept.
pub(super) struct Fresh {
    /// What was granted, without what the request that asked takes.
    pub held: Held,
    /// How long it could have lived at most.
    pub life: u64,
    /// Whether a token may be given up so that a lease does not end between two requests of a key that is asked for seldom.
    pub stocked: bool,
}

/// Adds what was granted to what is held, and says what that is now.
pub(super) fn keep<C: Word>(entry: &Entry<C>, asking: u64, fresh: &Fresh, now: Timestamp) -> Held {
    for attempt in 1..=ATTEMPTS {
        let word = entry.held.load();
        // read after what is held: see the second rule of `entry`
        if entry.state.load() != asking {
            return Held::default();
        }
        let held = Held::of(word);
        let demand = Demand::of(entry.demand.load()).per_second(now);
        let Some(sum) = sum(held, fresh, demand, now) else { return held };
        if entry.held.exchange(word, sum.word()) {
            return sum;
        }
        C::pause(attempt);
    }
    Held::default()
}

/// Both leases in one, with the end of the older or of the fresh one, whichever wastes less; `None` when nothing can be added. The
/// end never falls: see the first rule of `entry`.
fn sum(held: Held, fresh: &Fresh, demand: u32, now: Timestamp) -> Option<Held> {
    let lease = fresh.held;
    if lease.tokens == 0 || !lease.lives(now) {
        return None;
    }
    let left = held.left(now);
    let both = Held { ends: held.ends, tokens: left.saturating_add(lease.tokens).min(MOST_TOKENS) };
    if lease.ends == held.ends {
        return Some(both);
    }
    if lease.ends < held.ends {
        // both end with the window, whose end is known less exactly from the second, or there are more gates now, and leases live
        // shorter; an end near now may be no lease's
        return (held.ends > tick(now) + 1).then_some(both);
    }
    let rest = until(held.ends, now);
    let spendable = u64::from(demand).saturating_mul(rest) / 1_000_000_000;
    let seldom = fresh.stocked && left == 1 && rest < fresh.life / 2 && spendable < EXPECTED;
    if left > 0 && u64::from(lease.tokens) <= spendable && !seldom { Some(both) } else { Some(lease) }
}
