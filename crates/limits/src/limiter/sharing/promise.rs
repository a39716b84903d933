//! What a store does with a question: the arithmetic of its scripts, in whole numbers, as a pure function.
//!
//! `src/store/rate.lua`, `quota.lua` and `sliding.lua` do the same, number by number; a test drives both with the same questions. Time is
//! the store's own clock in microseconds since 1970. Every number stays below 2⁵³, where Lua's numbers are exact.
//!
//! **Rate.** A key owes a debt that drains at the rate: a unit granted adds [`RateTerms::cost`] to it, and each tick takes
//! [`RateTerms::drain`] away, the two without a common divisor. Granted is what leaves no more than `burst` units of debt, so in
//! every interval of length τ at most `burst + rate·τ`. Debt is kept in the numbers it was made with, and counted in the same
//! units under others, rounded up. Under a smaller burst what is owed is at most that burst, so nobody is kept out for longer than a
//! burst takes to come back; but the whole debt stays, as other gates may still have the numbers it was made with: so gates of
//! different numbers spend no more together than the loosest of them allow. A clock that steps back drains nothing by that, and goes on from there; one that steps
//! forward drains as much as it skips.
//!
//! **Tiers of a rate.** A key owes a debt to each tier, which drains at that tier's rate. Units that one tier grants are added to
//! the debts of all others, up to the burst of each. So each tier grants what its numbers allow, whatever the key spends by the others, and a change of
//! tier brings no fresh budget. A tier that a key has not met, since a reload added it, begins with what the key owes by
//! the limit's own numbers. A tier is known by its condition: gates with other tiers keep the debts of those that they do not have as they are.
//!
//! **Quota.** A key counts what was granted in a window. Windows of a length are found by the store; windows of the calendar are named
//! by the gate, and the store finds the present one among them by its own clock. A window that the policy has changed and that has
//! not ended counts in the present one. A clock that steps back stays in the window that it had reached, so
//! no window has its budget twice.
//!
//! **Sliding quota.** A key counts what was granted in a window and in the one before, of which as much counts as the present one has yet to
//! come, in at most 2²⁰ ticks, rounded up. What is granted leaves `count + before·(1 − f)` within `max`, f being the part that has passed. So
//! across one boundary at most `max·(1 + v/window)` is granted until v after it. It is spent later, in the same window: the promise holds
//! for what is spent, too. Windows are otherwise those of a quota.

mod kept;

use std::time::Duration;

use super::values::ValuesTerms;
use super::{Answer, Promise};
use crate::units::{OutOfRange, Rate};
pub use kept::{Debt, State};

/// Lua counts exactly below this.
const EXACT: u64 = 1 << 53;

/// No debt reaches this, so that a debt and what is added to it stay below [`EXACT`].
const MOST_DEBT: u64 = 1 << 52;

/// The longest time that a whole burst may take to come back, and a state is kept: 400 days.
const LONGEST: Duration = Duration::from_secs(400 * 86_400);

/// The most ticks of a sliding window, so that they times any count stay below [`EXACT`].
const MOST_TICKS: u64 = 1 << 20;

/// The longest tick, in microseconds.
const LONGEST_TICK: u64 = 1_000_000;

impl Terms {
    /// The same, of a limit whose charges may be [told](super::amend) without having been asked for.
    #[must_use]
    pub fn told(self) -> Terms {
        match self {
            Terms::Rate(rate) => Terms::Rate(RateTerms { bursts: RateTerms::TOLD, ..rate }),
            other => other,
        }
    }
}

/// A promise in the numbers that a store counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terms {
    /// Of a rate.
    Rate(RateTerms),
    /// Of a quota.
    Quota(QuotaTerms),
    /// Of a quota whose windows slide.
    Sliding(QuotaTerms),
    /// Of a quota whose windows are those of a calendar.
    Calendar(CalendarTerms),
    /// Of [`places`](super::places): so many. They are counted there.
    Places(u32),
    /// Of [`values`](super::values). They are counted there.
    Values(ValuesTerms),
}

/// See [`Terms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateTerms {
    /// What one unit adds to the debt; times `burst` below 2⁵².
    pub cost: u64,
    /// What leaves the debt per tick; below 2⁵².
    pub drain: u64,
    /// Microseconds per tick: 1, or a power of ten up to a million where `cost` would be too great. Part of a tick counts as
    /// none, so a client may wait up to a tick longer.
    pub tick_micros: u64,
    /// The most units of debt.
    pub burst: u32,
    /// How many bursts of a debt count: one, or where charges are told that nobody asked for [`RateTerms::TOLD`].
    pub bursts: u32,
}

/// See [`Terms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaTerms {
    /// Microseconds per window.
    pub window_micros: u64,
    /// The most units per window.
    pub max: u32,
}

/// See [`Terms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalendarTerms {
    /// When three windows begin, and when the last of them ends, in microseconds since 1970.
    pub begins: [u64; 4],
    /// The most units per window.
    pub max: u32,
}

impl Promise {
    /// The numbers that a store counts in.
    ///
    /// # Errors
    /// A burst that takes more than 400 days to come back, or a rate whose period and burst are together so great and so odd
    /// that they cannot be counted exactly; a window that is none, over 400 days or no whole number of microseconds; more than
    /// [`ValuesTerms::MOST`] values.
    pub fn terms(&self) -> Result<Terms, OutOfRange> {
        match *self {
            Promise::Rate { rate, burst } => RateTerms::new(rate, burst).map(Terms::Rate),
            Promise::Quota { max, window } => QuotaTerms::new(max, window).map(Terms::Quota),
            Promise::Sliding { max, window } => QuotaTerms::new(max, window).map(Terms::Sliding),
            Promise::Calendar { max, begins, .. } => {
                let begins = begins.map(|second| u64::from(second) * 1_000_000);
                match begins.is_sorted_by(|one, next| one < next) {
                    true => Ok(Terms::Calendar(CalendarTerms { begins, max })),
                    false => Err(OutOfRange { allowed: "windows that begin one after the other" }),
                }
            }
            Promise::Places { max } => Ok(Terms::Places(max)),
            Promise::Values { max, window, sliding } => {
                let QuotaTerms { window_micros, max } = QuotaTerms::new(max, window)?;
                ValuesTerms::new(window_micros, max, sliding).map(Terms::Values)
            }
        }
    }
}

impl RateTerms {
    /// How many bursts of a debt count where charges are told that nobody asked for.
    pub const TOLD: u32 = 16;

    fn new(rate: Rate, burst: u32) -> Result<RateTerms, OutOfRange> {
        const ALLOWED: OutOfRange =
            OutOfRange { allowed: "a burst that comes back within 400 days, and a period of whole milliseconds" };
        let period = rate.period().as_nanos();
        // `events` per `period` is `events·1000·tick / period` per tick, in units
        if u128::from(burst) * period > LONGEST.as_nanos() * u128::from(rate.events()) {
            return Err(ALLOWED);
        }
        let mut tick_micros = 1;
        while tick_micros <= LONGEST_TICK {
            let per_tick = u128::from(rate.events()) * 1_000 * u128::from(tick_micros);
            let divisor = common_divisor(per_tick, period);
            let (drain, cost) = (per_tick / divisor, period / divisor);
            if drain < u128::from(MOST_DEBT)
                && cost * u128::from(burst.max(1)) < u128::from(MOST_DEBT)
                && let (Ok(drain), Ok(cost)) = (u64::try_from(drain), u64::try_from(cost))
            {
                return Ok(RateTerms { cost, drain, tick_micros, burst, bursts: 1 });
            }
            tick_micros *= 10;
        }
        Err(ALLOWED)
    }

    /// The debt beyond which nothing is granted.
    fn full(&self) -> u64 {
        u64::from(self.burst) * self.cost
    }

    /// The most of a debt that counts.
    pub(super) fn most(&self) -> u64 {
        self.full().saturating_mul(u64::from(self.bursts)).min(MOST_DEBT)
    }

    /// How long `debt` takes to drain, in whole ticks.
    fn drained_micros(&self, debt: u64) -> u64 {
        debt.div_ceil(self.drain).saturating_mul(self.tick_micros).min(EXACT)
    }

    /// The same units of debt, rounded up, when it was counted at `cost` per unit. It may be more than these numbers allow.
    fn converted(&self, debt: u64, cost: u64) -> u64 {
        if cost == self.cost {
            return debt;
        }
        let (units, rest) = (debt / cost, debt % cost);
        if units >= MOST_DEBT / self.cost {
            return MOST_DEBT;
        }
        let part = u128::from(rest) * u128::from(self.cost);
        let part = match u64::try_from(part) {
            Ok(part) if part < EXACT => part.div_ceil(cost),
            // two roundings are less than two off; the script does the same two
            _ => self.cost.min((rest as f64 / cost as f64 * self.cost as f64) as u64 + 2),
        };
        units * self.cost + part
    }
}

impl QuotaTerms {
    fn new(max: u32, window: Duration) -> Result<QuotaTerms, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "a window of 1ms to 400 days, in whole milliseconds" };
        let window_micros = u64::try_from(window.as_micros()).map_err(|_| ALLOWED)?;
        let odd = !window.subsec_nanos().is_multiple_of(1_000_000);
        if odd || window.is_zero() || window > LONGEST { Err(ALLOWED) } else { Ok(QuotaTerms { window_micros, max }) }
    }

    /// How long a tick of a sliding window is, and how many whole ones it has.
    fn ticks(&self) -> (u64, u64) {
        let tick = self.window_micros.div_ceil(MOST_TICKS).max(1);
        (tick, self.window_micros / tick)
    }
}

fn common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// What becomes of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What is answered.
    pub answer: Answer,
    /// What is kept from now on and for how many milliseconds, at least 1; `None` when nothing is written.
    pub written: Option<(State, u64)>,
}

/// Judges a question about a key: as much of `wanted` as fits, nothing if `least` does not fit; 1 ≤ `least` ≤ `wanted`. `state` is
/// what is kept of the key, `None` once its time is over; `now` is the store's clock in microseconds since 1970, below 2⁵¹. `terms`
/// are the limit's own numbers and then those of its tiers, each with its [`StoreTier::id`](super::StoreTier::id); it is judged by
/// those at `asked`. A state of the other kind counts as none. Nothing is granted at a time that lies in none of the windows that a
/// calendar names; the script says so by an error.
pub fn grant(
    state: Option<&State>,
    terms: &[(u32, Terms)],
    asked: usize,
    (wanted, least): (u32, u32),
    now: u64,
) -> Outcome {
    match terms.get(asked) {
        Some((_, Terms::Rate(judged))) => grant_of_rate(state, terms, (asked, judged), wanted, least, now),
        Some((_, Terms::Quota(judged))) => grant_of_quota(state, judged, wanted, least, now),
        Some((_, Terms::Sliding(judged))) => grant_of_sliding(state, judged, wanted, least, now),
        Some((_, Terms::Calendar(judged))) => grant_of_calendar(state, judged, wanted, least, now),
        Some((_, Terms::Places(_) | Terms::Values(_))) | None => {
            Outcome { answer: answer(0, 0, None, None), written: None }
        }
    }
}

/// What a key owes by the numbers of one tier, now.
pub(super) struct Owing<'t> {
    id: u32,
    pub terms: &'t RateTerms,
    /// All that it owes.
    pub debt: u64,
    /// What of that these numbers know.
    owed: u64,
    stamp: u64,
}

/// The debts that a store keeps of a key.
pub(super) fn debts_of(state: Option<&State>) -> &[Debt] {
    if let Some(State::Rate(debts)) = state { debts } else { &[] }
}

/// What a key owes now by the numbers of each tier, and whether that is to be kept whatever comes of the question.
pub(super) fn owing<'t>(kept: &[Debt], terms: &'t [(u32, Terms)], now: u64) -> (Vec<Owing<'t>>, bool) {
    let (mut tiers, mut changed) = (Vec::<Owing<'_>>::new(), false);
    for (id, terms) in terms {
        let Terms::Rate(terms) = terms else { continue };
        let mut tier = Owing { id: *id, terms, debt: 0, owed: 0, stamp: now };
        // of two tiers with one condition the first judges
        if let Some(was) = kept.iter().rfind(|kept| kept.id == *id) {
            tier.debt = terms.converted(was.debt, was.cost);
            tier.owed = tier.debt.min(terms.most());
            if now < was.stamp {
                changed = true;
            } else {
                let ticks = (now - was.stamp) / terms.tick_micros;
                let left = |debt: u64| if ticks >= debt.div_ceil(terms.drain) { 0 } else { debt - ticks * terms.drain };
                (tier.debt, tier.owed) = (left(tier.debt), left(tier.owed));
                tier.stamp = if tier.debt == 0 { now } else { was.stamp + ticks * terms.tick_micros };
            }
        } else if let Some(own) = tiers.first().filter(|own| own.debt > 0) {
            // a tier that this key has not met: it begins with what is owed by the limit's own numbers
            (tier.debt, changed) = (terms.converted(own.debt, own.terms.cost), true);
            tier.owed = tier.debt.min(terms.most());
        }
        tiers.push(tier);
    }
    (tiers, changed)
}

impl Owing<'_> {
    /// The debt of a tier that takes note of units of another: up to all that it has.
    pub fn noted(&self, units: u64) -> u64 {
        let whole = self.terms.full();
        match units >= u64::from(self.terms.burst) {
            true => self.debt.max(whole),
            false => self.debt.max(whole.min(self.debt + units * self.terms.cost)),
        }
    }
}

fn grant_of_rate(
    state: Option<&State>,
    terms: &[(u32, Terms)],
    (asked, judged): (usize, &RateTerms),
    wanted: u32,
    least: u32,
    now: u64,
) -> Outcome {
    let kept = debts_of(state);
    let (mut tiers, changed) = owing(kept, terms, now);
    let (owed, stamp) = tiers.get(asked).map_or((0, now), |tier| (tier.owed, tier.stamp));
    let fit = judged.full().saturating_sub(owed) / judged.cost;
    let granted = u64::from(wanted).min(fit);
    let granted = if granted < u64::from(least) { 0 } else { granted };
    let retry = if granted > 0 {
        for (at, tier) in tiers.iter_mut().enumerate() {
            tier.debt = if at == asked { tier.debt + granted * tier.terms.cost } else { tier.noted(granted) };
        }
        Some(0)
    } else {
        let room = judged.burst.checked_sub(least).map(|room| u64::from(room) * judged.cost);
        room.map(|room| judged.drained_micros(owed.saturating_sub(room)) - (now - stamp))
    };
    let written = (granted > 0 || changed).then(|| written(&tiers, kept, now));
    Outcome { answer: answer(granted, fit, retry, None), written }
}

/// What is kept then, and for how many milliseconds.
pub(super) fn written(tiers: &[Owing<'_>], kept: &[Debt], now: u64) -> (State, u64) {
    let ours = tiers.iter().map(|&Owing { id, terms, debt, stamp, .. }| {
        let ends = now + (terms.drained_micros(debt) - (now - stamp));
        Debt { id, cost: terms.cost, debt, stamp, ends }
    });
    // of gates with other tiers
    let theirs = kept.iter().filter(|kept| kept.ends > now && tiers.iter().all(|tier| tier.id != kept.id));
    let debts: Vec<Debt> = ours.chain(theirs.copied()).collect();
    let ends = debts.iter().map(|debt| debt.ends).max().unwrap_or(now);
    let longest = u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX);
    (State::Rate(debts), (ends - now).div_ceil(1_000).clamp(1, longest))
}

/// The present window of a quota, and what was granted in it.
pub(super) fn window(state: Option<&State>, terms: &QuotaTerms, now: u64) -> (u64, u64) {
    let (mut index, mut count) = (now / terms.window_micros, 0);
    match state {
        Some(&State::Quota { window, index: kept, count: taken }) if window == terms.window_micros && kept >= index => {
            (index, count) = (kept, taken);
        }
        // a changed window: what was taken in the old one counts in the new one while the old one has not ended
        Some(&State::Quota { window, index, count: taken }) if (index + 1).saturating_mul(window) > now => {
            count = taken;
        }
        Some(&State::Calendar { ends, count: taken, .. }) if ends > now => count = taken,
        _ => {}
    }
    (index, count)
}

fn grant_of_quota(state: Option<&State>, terms: &QuotaTerms, wanted: u32, least: u32, now: u64) -> Outcome {
    let (index, count) = window(state, terms, now);
    let ends = (index + 1) * terms.window_micros;
    let kept = |count| State::Quota { window: terms.window_micros, index, count };
    counted((count, ends, terms.max), kept, wanted, least, now)
}

/// The present window of a sliding quota, and what was granted in it and in the one before.
pub(super) fn sliding_window(state: Option<&State>, terms: &QuotaTerms, now: u64) -> (u64, u64, u64) {
    let length = terms.window_micros;
    let (mut index, mut count, mut before) = (now / length, 0, 0);
    match state {
        // a clock that steps back stays in the window that it had reached
        Some(&State::Sliding { window, index: kept, count: taken, before: early })
            if window == length && kept >= index =>
        {
            (index, count, before) = (kept, taken, early);
        }
        Some(&State::Sliding { window, index: kept, count: taken, .. }) if window == length => {
            before = if kept + 1 == index { taken } else { 0 };
        }
        // a changed window: what was taken in the old one counts in the new one while the old one has not ended
        Some(&State::Sliding { window, index, count: taken, .. }) if (index + 1).saturating_mul(window) > now => {
            count = taken;
        }
        _ => {}
    }
    (index, count, before)
}

fn grant_of_sliding(state: Option<&State>, terms: &QuotaTerms, wanted: u32, least: u32, now: u64) -> Outcome {
    let (length, max) = (terms.window_micros, u64::from(terms.max));
    let (index, count, before) = sliding_window(state, terms, now);
    let (tick, ticks) = terms.ticks();
    let rest = (index + 1) * length - now;
    let weight = (before * rest.div_ceil(tick).min(ticks)).div_ceil(ticks);
    let fit = max.saturating_sub(count + weight);
    let granted = u64::from(wanted).min(fit);
    let granted = if granted < u64::from(least) { 0 } else { granted };
    if granted > 0 {
        let kept = State::Sliding { window: length, index, count: count + granted, before };
        let millis = (rest + length).div_ceil(1_000);
        return Outcome { answer: answer(granted, fit, Some(0), Some(rest)), written: Some((kept, millis)) };
    }
    // how many ticks before a window's end so much of the one before it leaves room for the least
    let opens = |count: u64, before: u64| {
        let room = max.checked_sub(count + u64::from(least))?;
        (room * ticks).checked_div(before).map_or(Some(ticks), |left| Some(left.min(ticks))).filter(|left| *left > 0)
    };
    let retry = match (opens(count, before), opens(0, count)) {
        _ if least > terms.max => None,
        (Some(left), _) => Some(rest - left * tick),
        (None, Some(left)) if left == ticks => Some(rest),
        (None, Some(left)) => Some(rest + length - left * tick),
        (None, None) => Some(rest + length),
    };
    Outcome { answer: answer(0, fit, retry, Some(rest)), written: None }
}

/// The present window of a calendar, from when to when, and what was granted in it.
pub(super) fn calendar_window(state: Option<&State>, terms: &CalendarTerms, now: u64) -> Option<(u64, u64, u64)> {
    let windows = terms.begins.iter().zip(terms.begins.iter().skip(1));
    let present = windows.rev().find(|(begins, ends)| **begins <= now && now < **ends);
    let (&(mut begins), &(mut ends)) = present?;
    let mut count = 0;
    match state {
        // a clock that steps back stays in the window that it had reached
        Some(&State::Calendar { begins: kept, ends: end, count: taken }) if end > now => {
            count = taken;
            if kept > now {
                (begins, ends) = (kept, end);
            }
        }
        Some(&State::Quota { window, index, count: taken }) if (index + 1).saturating_mul(window) > now => {
            count = taken;
        }
        _ => {}
    }
    Some((begins, ends, count))
}

fn grant_of_calendar(state: Option<&State>, terms: &CalendarTerms, wanted: u32, least: u32, now: u64) -> Outcome {
    let Some((begins, ends, count)) = calendar_window(state, terms, now) else {
        return Outcome { answer: answer(0, 0, None, None), written: None };
    };
    let kept = |count| State::Calendar { begins, ends, count };
    counted((count, ends, terms.max), kept, wanted, least, now)
}

/// What is granted in a window in which so much was, and which ends then.
fn counted(
    (count, ends, max): (u64, u64, u32),
    kept: impl Fn(u64) -> State,
    wanted: u32,
    least: u32,
    now: u64,
) -> Outcome {
    let fit = u64::from(max).saturating_sub(count);
    let granted = u64::from(wanted).min(fit);
    let granted = if granted < u64::from(least) { 0 } else { granted };
    let rest = ends - now;
    let retry = match granted {
        0 if least > max => None,
        0 => Some(rest),
        _ => Some(0),
    };
    let written = (granted > 0).then(|| (kept(count + granted), rest.div_ceil(1_000)));
    Outcome { answer: answer(granted, fit, retry, Some(rest)), written }
}

fn answer(granted: u64, fit: u64, retry_micros: Option<u64>, rest_micros: Option<u64>) -> Answer {
    let whole = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
    Answer {
        granted: whole(granted),
        left: whole(fit - granted),
        retry_nanos: retry_micros.map(|micros| micros.saturating_mul(1_000)),
        ends_nanos: rest_micros.map_or(u64::MAX, |micros| micros.saturating_mul(1_000)),
    }
}

#[cfg(test)]
mod tests;
