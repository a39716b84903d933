//! The words of an entry, packed and unpacked: what is held, and where its asking stands.

use crate::units::Timestamp;

/// How long a lease lives, counted from before its question was sent; and the longest that an answer may take.
pub(super) const LIFE: u64 = 1_000_000_000;

/// The same, where all that gates can hold of a key comes back in half a [`LIFE`]: then the promise is no greater for it.
pub(super) const LONG_LIFE: u64 = 4 * LIFE;

/// Time is kept in ticks of 2²¹ ns (2.1 ms), so that 36 bits reach 4.5 years. Ends are rounded down, retry times up.
pub(super) const TICK: u64 = 1 << 21;

/// The last tick. Nothing is live then, so a gate that has run for 4.5 years keeps no lease and asks about every request.
pub(super) const LAST_TICK: u64 = (1 << 36) - 1;

/// The most tokens that an entry can hold: 28 bits.
pub(super) const MOST_TOKENS: u32 = (1 << 28) - 1;

/// The highest cost whose refusal can be remembered, and the highest low-water mark: 25 bits.
const MOST_NOTED: u32 = (1 << 25) - 1;

/// How many ticks before the end of a pause somebody asks in the background, and how long nobody waits for that: 8.4 ms, more
/// than any request waits for an answer.
pub(super) const LEAD: u64 = 4;

/// As long, in nanoseconds.
pub(super) const LEAD_NANOS: u64 = LEAD * TICK;

/// The tick in which `now` lies.
pub(super) fn tick(now: Timestamp) -> u64 {
    (now.nanos() / TICK).min(LAST_TICK)
}

/// The first tick that begins at this instant or after it.
pub(super) fn tick_from(nanos: u64) -> u64 {
    nanos.div_ceil(TICK).min(LAST_TICK)
}

/// Nanoseconds from `now` until the tick begins.
pub(super) fn until(tick: u64, now: Timestamp) -> u64 {
    (tick * TICK).saturating_sub(now.nanos())
}

/// What is held: tokens that may be spent in any tick before `ends`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    /// A tick.
    pub ends: u64,
    /// How many.
    pub tokens: u32,
}

impl Held {
    pub fn of(word: u64) -> Held {
        Held { ends: word >> 28, tokens: (word & u64::from(MOST_TOKENS)) as u32 }
    }

    pub fn word(self) -> u64 {
        self.ends.min(LAST_TICK) << 28 | u64::from(self.tokens.min(MOST_TOKENS))
    }

    /// Whether the lease has not ended.
    pub fn lives(self, now: Timestamp) -> bool {
        tick(now) < self.ends
    }

    /// What may be spent of it.
    pub fn left(self, now: Timestamp) -> u32 {
        if self.lives(now) { self.tokens } else { 0 }
    }
}

/// Where the asking of a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody asks; somebody should in the background as soon as fewer than `low` tokens are left.
    Idle { low: u32 },
    /// A question has been on its way since this tick. The nonce tells it from any other. If it was asked towards the end
    /// of a pause, the key goes on being `refused` for [`LEAD`], so that nobody has to wait.
    Asking { since: u64, nonce: u32, refused: bool },
    /// The store said no to this cost, and so to every higher one, until this tick. `early`: the
    /// store will have something [`LEAD`] before that.
    Refused { until: u64, cost: u32, early: bool },
    /// The entry is changing hands, which nobody else can end or undo.
    Claimed,
}

impl State {
    /// A refusal; `None` if the cost is too high to be remembered.
    pub fn refused(until: u64, cost: u32, early: bool) -> Option<State> {
        (cost <= MOST_NOTED).then_some(State::Refused { until, cost, early })
    }

    pub fn of(word: u64) -> State {
        let time = word >> 26 & LAST_TICK;
        let number = (word & u64::from(MOST_NOTED)) as u32;
        let flag = word >> 25 & 1 == 1;
        match word >> 62 {
            0 => State::Idle { low: number },
            1 => State::Asking { since: time, nonce: number, refused: flag },
            2 => State::Refused { until: time, cost: number, early: flag },
            _ => State::Claimed,
        }
    }

    pub fn word(self) -> u64 {
        let pack = |kind: u64, time: u64, number: u32, flag: bool| {
            kind << 62 | time.min(LAST_TICK) << 26 | u64::from(flag) << 25 | u64::from(number & MOST_NOTED)
        };
        match self {
            State::Idle { low } => pack(0, 0, low.min(MOST_NOTED), false),
            State::Asking { since, nonce, refused } => pack(1, since, nonce, refused),
            State::Refused { until, cost, early } => pack(2, until, cost, early),
            State::Claimed => pack(3, 0, 0, false),
        }
    }

    /// Whether a question is on its way that still counts: one that has been for longer than [`LIFE`] brings nothing any more,
    /// and was lost.
    pub fn is_asking(self, now: Timestamp) -> bool {
        matches!(self, State::Asking { since, .. } if tick(now) <= since + LIFE / TICK)
    }

    /// The cost that was refused and the tick until which, while that lasts.
    pub fn refusal(self, now: Timestamp) -> Option<(u32, u64)> {
        match self {
            State::Refused { until, cost, .. } if tick(now) < until => Some((cost, until)),
            State::Asking { since, refused: true, .. } if tick(now) < since + LEAD => Some((1, since + LEAD)),
            _ => None,
        }
    }

    /// Whether a pause is about to end, so that somebody should ask.
    pub fn is_due(self, now: Timestamp) -> bool {
        matches!(self, State::Refused { until, early: true, .. } if (until.saturating_sub(LEAD)..until).contains(&tick(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_as_they_were_written() {
        for ends in [0, 1, LAST_TICK] {
            for tokens in [0, 1, MOST_TOKENS] {
                let held = Held { ends, tokens };
                assert_eq!(Held::of(held.word()), held);
            }
            for number in [0, 1, MOST_NOTED] {
                for state in [
                    State::Idle { low: number },
                    State::Asking { since: ends, nonce: number, refused: ends == 1 },
                    State::Refused { until: ends, cost: number, early: number == 1 },
                    State::Claimed,
                ] {
                    assert_eq!(State::of(state.word()), state);
                }
            }
        }
        assert_eq!((Held::of(0), State::of(0)), (Held::default(), State::Idle { low: 0 }));
    }

    #[test]
    fn nothing_lives_at_the_end_of_time() {
        let held = Held { ends: u64::MAX, tokens: u32::MAX };
        assert_eq!(Held::of(held.word()), Held { ends: LAST_TICK, tokens: MOST_TOKENS });
        assert!(!Held::of(held.word()).lives(Timestamp::from_nanos(u64::MAX)));
    }

    #[test]
    fn a_question_after_a_refusal_goes_on_refusing_for_its_lead_and_no_longer() {
        let asking = State::Asking { since: 100, nonce: 1, refused: true };
        let at = |tick: u64| asking.refusal(Timestamp::from_nanos(tick * TICK));
        assert_eq!((at(100), at(100 + LEAD - 1)), (Some((1, 100 + LEAD)), Some((1, 100 + LEAD))));
        assert_eq!(at(100 + LEAD), None);
    }

    #[test]
    fn ends_are_rounded_down_and_retry_times_up() {
        let within = Timestamp::from_nanos(10 * TICK + 5);
        assert_eq!((tick(within), tick_from(within.nanos())), (10, 11));
        assert_eq!((until(11, within), until(3, within)), (TICK - 5, 0));
    }
}
