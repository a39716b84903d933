//! Places of `type: inflight` that a store lends to gates, and which come back by themselves when a gate is gone.
//!
//! A key has places of the present epoch, a time of [`LIFE`] by the store's clock, and of the one before. A place is counted in the epoch
//! in which it was lent; with the second epoch after it is forgotten. So it ends by itself between one and two [`LIFE`]s after it was lent.
//! A gate whose request lives longer has it lent anew every [`RENEWED`]: taken out of its epoch and counted in the present one, whether
//! there is room or not. Who gives a place back, or has it lent anew, says when it was to end: that names its epoch. Each of these is one
//! step in the store, whatever the number of gates and places.
//!
//! **Promise.** At every instant at most `max` requests of a key are under way that the store lent a place to, while each gate reaches the
//! store once in [`LIFE`] and the store forgets nothing. *Proof.* A place is lent only if it and those counted are `max` or fewer, and
//! each that is under way is counted: it was lent or lent anew within its life, and taken out by nobody else, as each is taken out once,
//! by the end that it was given.
//!
//! **What breaks it, and by how much.** Each place that the store forgets too early is under way and not counted. A store that is emptied,
//! or fails over to a replica that had not heard of it, forgets `max` places of a key at most: so at most 2·`max` are under way. Its clock
//! stepping forward by a [`LIFE`] or more does the same. When a place that was forgotten is given back or lent anew, one that was lent since
//! in the same epoch is taken out in its stead: so the excess does not grow, but it may last until the epoch is over. In the next one each
//! place is counted as it is lent anew: after a [`LIFE`] and a [`RENEWED`] at most none is lent until fewer than `max` are under way. A store
//! that says nothing for longer than a [`LIFE`] forgets what it cannot be asked to lend anew.
//!
//! **What is lost.** A question, or a return, whose answer does not come may have been executed or not. It is never repeated: a place may
//! stay counted for up to two [`LIFE`]s, so clients get less, never more. So may those of a gate that was killed.

use std::fmt;
use std::time::Duration;

use super::Answer;

/// How long an epoch is.
pub const LIFE: Duration = Duration::from_secs(10);

/// How often a place is lent anew.
pub const RENEWED: Duration = Duration::from_secs(3);

/// The same as [`LIFE`], as the store counts.
pub const LIFE_MICROS: u64 = 10_000_000;

/// What a store keeps of a key's places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Epochs since 1970.
    pub epoch: u64,
    /// Lent in it.
    pub lent: u64,
    /// Lent in the one before.
    pub before: u64,
}

impl fmt::Display for Places {
    /// The value in the store; its first number is the format's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 {} {} {}", self.epoch, self.lent, self.before)
    }
}

/// Whether a place is to be lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lend {
    /// None.
    Nothing,
    /// If there is room.
    IfFree,
    /// Whether there is room or not, as its request is under way.
    Anew,
}

impl Lend {
    /// The number by which the script knows it.
    pub fn number(self) -> u64 {
        match self {
            Lend::Nothing => 0,
            Lend::IfFree => 1,
            Lend::Anew => 2,
        }
    }
}

/// Takes out the place that was to end at `ends`, in microseconds since 1970, or none; then lends one. `state` is what is kept of the key,
/// `None` once its time is over; `now` is the store's clock in microseconds since 1970. Returns the answer, and what is kept from now on
/// and for how many milliseconds; `None` when nothing is written. `src/store/places.lua` does the same, number by number; a test drives
/// both.
pub fn lend(
    state: Option<&Places>,
    max: u32,
    lend: Lend,
    ends: Option<u64>,
    now: u64,
) -> (Answer, Option<(Places, u64)>) {
    let present = now / LIFE_MICROS;
    let mut places = match state {
        // a clock that steps back stays in the epoch that it had reached
        Some(kept) if kept.epoch >= present => *kept,
        Some(kept) if kept.epoch + 1 == present => Places { epoch: present, lent: 0, before: kept.lent },
        _ => Places { epoch: present, lent: 0, before: 0 },
    };
    if ends == Some((places.epoch + 2) * LIFE_MICROS) {
        places.lent = places.lent.saturating_sub(1);
    } else if ends == Some((places.epoch + 1) * LIFE_MICROS) {
        places.before = places.before.saturating_sub(1);
    }
    let free = |places: &Places| u64::from(max).saturating_sub(places.lent + places.before);
    let granted = lend == Lend::Anew || lend == Lend::IfFree && free(&places) > 0;
    places.lent += u64::from(granted);
    let rest = (places.epoch + 2) * LIFE_MICROS - now;
    let answer = Answer {
        granted: u32::from(granted),
        left: u32::try_from(free(&places)).unwrap_or(u32::MAX),
        // when a place comes back is up to others
        retry_nanos: granted.then_some(0),
        ends_nanos: rest.saturating_mul(1_000),
    };
    let millis = if places.lent + places.before == 0 { 1 } else { rest.div_ceil(1_000) };
    (answer, (granted || ends.is_some()).then_some((places, millis)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_790_000_000_000_000;

    /// A key of so many places in a store without others.
    struct Key {
        max: u32,
        kept: Option<(Places, u64)>,
    }

    impl Key {
        fn new(max: u32) -> Key {
            Key { max, kept: None }
        }

        /// When the place that is lent ends.
        fn lend(&mut self, how: Lend, ends: Option<u64>, now: u64) -> Option<u64> {
            let known = self.kept.filter(|(_, over)| now < *over).map(|(places, _)| places);
            let (answer, written) = lend(known.as_ref(), self.max, how, ends, now);
            if let Some((places, millis)) = written {
                self.kept = Some((places, now + millis * 1_000));
            }
            (answer.granted > 0).then(|| now + answer.ends_nanos / 1_000)
        }
    }

    #[test]
    fn a_place_comes_back_when_it_is_given_back_or_by_itself_within_two_lives() {
        for into in [0, 1, LIFE_MICROS / 2, LIFE_MICROS - 1] {
            let (mut key, began) = (Key::new(2), NOW + into);
            let first = key.lend(Lend::IfFree, None, began).unwrap();
            let second = key.lend(Lend::IfFree, None, began).unwrap();
            assert_eq!(key.lend(Lend::IfFree, None, began), None);
            assert_eq!(key.lend(Lend::Nothing, Some(first), began), None);
            assert!(key.lend(Lend::IfFree, None, began).is_some());
            assert_eq!(key.lend(Lend::IfFree, None, began + LIFE_MICROS), None, "not within one");
            assert!(key.lend(Lend::IfFree, None, second).is_some() && second <= began + 2 * LIFE_MICROS);
        }
    }

    #[test]
    fn a_place_that_is_lent_anew_in_time_stays_for_as_long_as_its_request() {
        let mut key = Key::new(2);
        let mut mine = [(); 2].map(|()| key.lend(Lend::IfFree, None, NOW).unwrap());
        let every = u64::try_from(RENEWED.as_micros()).unwrap();
        for nth in 1..40 {
            let now = NOW + nth * every;
            mine = mine.map(|ends| key.lend(Lend::Anew, Some(ends), now).unwrap());
            assert_eq!(key.lend(Lend::IfFree, None, now), None, "after {nth}");
        }
        let now = NOW + 40 * every;
        assert!(mine.iter().all(|ends| key.lend(Lend::Nothing, Some(*ends), now).is_none()));
        assert!([(); 2].map(|()| key.lend(Lend::IfFree, None, now)).iter().all(Option::is_some));
    }

    #[test]
    fn a_clock_that_steps_back_forgets_no_place_and_one_that_was_forgotten_is_given_back_to_nobody() {
        let mut key = Key::new(2);
        let ends = key.lend(Lend::IfFree, None, NOW).unwrap();
        key.lend(Lend::IfFree, None, NOW).unwrap();
        assert_eq!(key.lend(Lend::IfFree, None, NOW - 5 * LIFE_MICROS), None);
        let later = NOW + 3 * LIFE_MICROS;
        assert!(key.lend(Lend::IfFree, None, later).is_some());
        let next = later + LIFE_MICROS;
        assert!(key.lend(Lend::IfFree, None, next).is_some());
        key.lend(Lend::Nothing, Some(ends), next);
        assert_eq!(key.lend(Lend::IfFree, None, next), None);
    }

    proptest! {
        /// Each place is lent anew at most six seconds after it was, and now and then nobody hears whether it was.
        #[test]
        fn whatever_is_lost_no_more_places_are_taken_than_there_are_and_twice_as_many_by_an_emptied_store(
            steps in vec((0_usize..4, 0_u64..3_000_000, any::<bool>()), 50..400),
            max in 1_u32..6,
            emptied in 0_usize..800,
        ) {
            let (mut key, mut now, mut under_way) = (Key::new(max), NOW, Vec::<Option<u64>>::new());
            let (mut most, mut emptied_in, mut rounds) = (max as usize, u64::MAX, 0);
            for (nth, (what, pause, executed)) in steps.into_iter().enumerate() {
                now += pause;
                if nth == emptied {
                    key.kept = None;
                    emptied_in = now / LIFE_MICROS;
                    most *= 2;
                }
                for (at, ends) in under_way.iter_mut().enumerate() {
                    // every second time somebody's message or answer is lost
                    *ends = match (nth % 2 == 0 && at == what, executed) {
                        (false, _) => key.lend(Lend::Anew, *ends, now),
                        (true, true) => key.lend(Lend::Anew, *ends, now).and(None),
                        (true, false) => None,
                    };
                }
                // all are counted again once each was lent anew behind the epoch in which the store was emptied
                rounds += u32::from(now / LIFE_MICROS > emptied_in);
                if rounds >= 2 {
                    prop_assert!(under_way.len() <= max as usize || key.lend(Lend::IfFree, None, now).is_none());
                }
                match what {
                    0 | 1 => under_way.extend(key.lend(Lend::IfFree, None, now).map(Some)),
                    2 if !under_way.is_empty() => _ = key.lend(Lend::Nothing, under_way.remove(0), now),
                    _ => {}
                }
                prop_assert!(under_way.len() <= most, "{} of {max} by step {nth}", under_way.len());
            }
        }
    }
}
