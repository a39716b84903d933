//! A set of status codes: `responses 401,403`, `not 2xx`.

use std::fmt;

use http::StatusCode;

/// Any statuses from 100 to 599.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusSet([u64; 8]);

impl StatusSet {
    /// No status at all.
    pub const NONE: StatusSet = StatusSet([0; 8]);

    /// With all statuses from `first` to `last`; what is not a status is left out.
    pub fn with(mut self, first: u16, last: u16) -> StatusSet {
        for status in first.max(100)..=last.min(599) {
            if let Some(word) = self.0.get_mut(usize::from((status - 100) / 64)) {
                *word |= 1 << ((status - 100) % 64);
            }
        }
        self
    }

    /// All other final statuses. Interim ones are none of them: a change of protocol (101) is no failure.
    pub fn inverted(self) -> StatusSet {
        let all = StatusSet::NONE.with(200, 599);
        let mut inverted = all;
        for (word, mine) in inverted.0.iter_mut().zip(self.0) {
            *word &= !mine;
        }
        inverted
    }

    /// Whether the set holds the status.
    pub fn contains(&self, status: StatusCode) -> bool {
        let Some(index) = status.as_u16().checked_sub(100) else { return false };
        self.0.get(usize::from(index / 64)).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        *self == StatusSet::NONE
    }
}

impl fmt::Display for StatusSet {
    /// `401,403`, whole classes as `4xx`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for class in 1..=5_u16 {
            let class_set = StatusSet::NONE.with(class * 100, class * 100 + 99);
            let whole = class_set.0.iter().zip(self.0).all(|(wanted, mine)| wanted & mine == *wanted);
            if whole {
                write!(f, "{separator}{class}xx")?;
                separator = ",";
                continue;
            }
            for status in class * 100..class * 100 + 100 {
                if StatusCode::from_u16(status).is_ok_and(|status| self.contains(status)) {
                    write!(f, "{separator}{status}")?;
                    separator = ",";
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(set: StatusSet, status: u16) -> bool {
        set.contains(StatusCode::from_u16(status).unwrap())
    }

    #[test]
    fn a_set_holds_what_was_put_in_and_its_inverse_the_rest() {
        let set = StatusSet::NONE.with(401, 401).with(403, 403).with(500, 599);
        for status in 100..600 {
            let expected = matches!(status, 401 | 403 | 500..=599);
            assert_eq!(holds(set, status), expected, "{status}");
            assert_eq!(holds(set.inverted(), status), !expected && status >= 200, "{status}");
        }
        assert_eq!(set.to_string(), "401,403,5xx");
        assert_eq!(StatusSet::NONE.with(200, 299).inverted().to_string(), "3xx,4xx,5xx");
        assert!(!holds(set, 999) && StatusSet::NONE.is_empty());
    }
}
