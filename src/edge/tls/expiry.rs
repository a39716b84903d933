//! When an operator is reminded that a certificate must be renewed: once a day, from 14 days before its end on.

/// Seconds of a day.
const DAY: i64 = 86_400;
/// From here on it is said louder: a renewal that fails at weekends still has a working day.
const URGENT_DAYS: i64 = 3;

/// What is said, and how loudly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reminder {
    /// It should have been renewed by now: so many days are left.
    Soon(i64),
    /// It must be renewed now: so many days are left.
    Urgent(i64),
    /// It ended so many days ago.
    Expired(i64),
}

/// Remembers when it was said last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reminders {
    last: Option<i64>,
}

impl Reminders {
    /// What is to be said of a certificate that ends at `not_after`, if anything; both in seconds since 1970. A clock that steps back
    /// may bring a reminder forward, never lose one.
    pub fn due(&mut self, not_after: i64, now: i64) -> Option<Reminder> {
        let left = not_after.saturating_sub(now);
        let days = left.div_euclid(DAY);
        if days >= crate::config::EXPIRES_SOON_DAYS {
            self.last = None;
            return None;
        }
        if self.last.is_some_and(|last| (0..DAY).contains(&now.saturating_sub(last))) {
            return None;
        }
        self.last = Some(now);
        Some(if left < 0 {
            Reminder::Expired(now.saturating_sub(not_after).div_euclid(DAY))
        } else if days < URGENT_DAYS {
            Reminder::Urgent(days)
        } else {
            Reminder::Soon(days)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_reminded_once_a_day_from_the_fourteenth_day_on() {
        let end = 1_000 * DAY;
        let mut reminders = Reminders::default();
        let mut said = Vec::new();
        for hour in 0..24 * 20 {
            said.extend(reminders.due(end, end - 17 * DAY + 1 + hour * 3_600));
        }
        let expected: Vec<Reminder> = (3..14)
            .rev()
            .map(Reminder::Soon)
            .chain((0..3).rev().map(Reminder::Urgent))
            .chain((0..3).map(Reminder::Expired))
            .collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn a_renewed_one_is_not_spoken_of_and_the_next_end_is() {
        let mut reminders = Reminders::default();
        assert!(reminders.due(10 * DAY, 5 * DAY).is_some());
        assert_eq!(reminders.due(100 * DAY, 5 * DAY), None);
        assert_eq!(reminders.due(6 * DAY, 5 * DAY), Some(Reminder::Urgent(1)));
    }

    #[test]
    fn a_clock_that_steps_back_loses_no_reminder() {
        let mut reminders = Reminders::default();
        assert!(reminders.due(10 * DAY, 9 * DAY).is_some());
        assert!(reminders.due(10 * DAY, 5 * DAY).is_some());
    }
}
