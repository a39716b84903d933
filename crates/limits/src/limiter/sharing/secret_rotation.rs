//! A key that has two names in a store, while the secret that makes names is changed on one gate after the other.
//!
//! A gate that has the new secret and the previous one asks about the previous name first, and about the new one for what
//! that granted; what both grant is granted. So the previous name is charged by the gates of before and by those of the change
//! alike, and keeps the promise while they are mixed. What it was charged beyond that is lost: stricter, never looser.
//!
//! For the promise to be kept when the previous secret is taken away, the new name must not be left with more than the previous
//! one. At first it is: it has not heard of what was charged before, nor of what gates without the new secret charge. To charge it
//! the same from then on would not do: of a key that spends as fast as its budget comes back, it would have as much more for ever. So
//! a third question charges it the difference, and is not asked any more once the names agree. Then it has less than one unit
//! more than the previous one, since what is left is told in whole units. A key that is granted nothing catches up by
//! itself: in the time in which a whole burst comes back, or when the window ends.
//!
//! Of a limit of different values both names are asked about each value, and nothing else is charged: values that nobody has used
//! since the change began are new to the new name.
//!
//! Silence to any of the questions is silence to all of them, and no question is repeated.

use std::sync::Arc;

use super::{Answer, Promise, Question, StoreKey, StoreTier};

/// The questions about a key that has two names.
#[derive(Debug)]
pub struct SecretRotation {
    present: Named,
    stage: Stage,
}

/// A key's name, that of the value that is counted, and the tiers by theirs.
pub type Named = (StoreKey, Option<StoreKey>, Arc<[StoreTier]>);

#[derive(Debug)]
enum Stage {
    Begun,
    Previous(Answer),
    Both(Answer),
}

impl SecretRotation {
    /// Turns a question about the present names, of the key and its tiers, into the first to be asked, about the `previous` ones.
    pub fn begin(question: &mut Question, (key, value, tiers): Named) -> SecretRotation {
        let present = (
            std::mem::replace(&mut question.key, key),
            std::mem::replace(&mut question.value, value),
            std::mem::replace(&mut question.tiers, tiers),
        );
        SecretRotation { present, stage: Stage::Begun }
    }

    /// Takes in the answer to `question`. Gives what all answers say together; `None` if there is another question, which then
    /// stands in the place of the one answered.
    pub fn answered(&mut self, question: &mut Question, answer: Answer) -> Option<Answer> {
        match std::mem::replace(&mut self.stage, Stage::Begun) {
            Stage::Begun if answer.granted == 0 => Some(answer),
            Stage::Begun => {
                (question.key, question.value, question.tiers) = self.present.clone();
                question.wanted = answer.granted.min(question.wanted);
                self.stage = Stage::Previous(answer);
                None
            }
            Stage::Previous(previous) => {
                let both = both(&previous, &answer);
                let behind = answer.left.saturating_sub(previous.left);
                // of places none is taken that nobody gives back; and values are counted by their own names
                let apart = matches!(question.promise(), Promise::Places { .. } | Promise::Values { .. });
                if both.granted == 0 || behind == 0 || apart {
                    return Some(both);
                }
                (question.wanted, question.least) = (behind, 1);
                self.stage = Stage::Both(both);
                None
            }
            Stage::Both(both) => Some(both),
        }
    }
}

/// What both names grant together: the less of everything, and of waits the longer.
fn both(one: &Answer, other: &Answer) -> Answer {
    let granted = one.granted.min(other.granted);
    Answer {
        granted,
        left: one.left.min(other.left),
        // never by one of them: never
        retry_nanos: one.retry_nanos.zip(other.retry_nanos).map(|(one, other)| one.max(other)),
        ends_nanos: one.ends_nanos.min(other.ends_nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;
    use std::time::Duration;

    const PREVIOUS: StoreKey = StoreKey([1; 16]);
    const PRESENT: StoreKey = StoreKey([2; 16]);

    fn begun(wanted: u32, least: u32) -> (SecretRotation, Question) {
        let promise = Promise::Rate { rate: Rate::new(10, Duration::from_secs(1)).unwrap(), burst: 20 };
        let tiers: Arc<[StoreTier]> = [StoreTier { id: 0, promise }].into();
        let mut question = Question {
            rule: 0,
            key: PRESENT,
            tiers: tiers.clone(),
            tier: 0,
            begins: None,
            value: None,
            wanted,
            least,
            told: false,
        };
        let rotation = SecretRotation::begin(&mut question, (PREVIOUS, None, tiers));
        assert_eq!((question.key, question.wanted, question.least), (PREVIOUS, wanted, least));
        (rotation, question)
    }

    fn granted(granted: u32, left: u32, ends_nanos: u64) -> Answer {
        Answer { granted, left, retry_nanos: Some(0), ends_nanos }
    }

    fn refused(retry_nanos: Option<u64>) -> Answer {
        Answer { granted: 0, left: 1, retry_nanos, ends_nanos: 9 }
    }

    #[test]
    fn what_the_previous_name_refuses_is_refused_and_the_new_one_is_not_asked() {
        let (mut rotation, mut question) = begun(5, 2);
        assert_eq!(rotation.answered(&mut question, refused(Some(7))), Some(refused(Some(7))));
    }

    #[test]
    fn the_new_name_is_asked_for_what_the_previous_one_granted_and_the_less_of_both_is_granted() {
        let (mut rotation, mut question) = begun(5, 2);
        assert_eq!(rotation.answered(&mut question, granted(4, 3, 90)), None);
        assert_eq!((question.key, question.wanted, question.least), (PRESENT, 4, 2));
        assert_eq!(rotation.answered(&mut question, granted(3, 0, 80)), Some(granted(3, 0, 80)));
    }

    #[test]
    fn a_refusal_of_the_new_name_is_one_and_says_when_to_come_again() {
        for retry in [Some(6), None] {
            let (mut rotation, mut question) = begun(5, 2);
            assert_eq!(rotation.answered(&mut question, granted(2, 0, 90)), None);
            // it has one more than the previous name, and that is no reason to take from it
            let said = rotation.answered(&mut question, refused(retry)).unwrap();
            assert_eq!(said, Answer { left: 0, ..refused(retry) });
        }
    }

    #[test]
    fn a_new_name_that_has_more_left_than_the_previous_one_is_charged_the_difference() {
        let (mut rotation, mut question) = begun(2, 2);
        assert_eq!(rotation.answered(&mut question, granted(2, 3, u64::MAX)), None);
        assert_eq!(rotation.answered(&mut question, granted(2, 18, u64::MAX)), None);
        assert_eq!((question.key, question.wanted, question.least), (PRESENT, 15, 1));
        // whatever came of that
        for last in [granted(15, 3, u64::MAX), refused(Some(1))] {
            let present = (PRESENT, None, question.tiers.clone());
            let mut rotation = SecretRotation { present, stage: Stage::Both(granted(2, 3, u64::MAX)) };
            assert_eq!(rotation.answered(&mut question, last), Some(granted(2, 3, u64::MAX)));
        }
    }
}
