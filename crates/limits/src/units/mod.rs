//! Numbers with units and ranges: rates, costs, sizes, shares, times, networks.
//!
//! Every constructor checks the range that its doc states. Code that takes such a value need not check it again.

pub mod amount;
pub mod calendar;
pub mod criticality;
pub mod dice;
pub mod divisor;
pub mod prefix;
pub mod time;

pub use amount::{Bytes, Cost, Rate, Share};
pub use calendar::{Calendar, CalendarUnit, Period, Weekday, Zone};
pub use criticality::Criticality;
pub use dice::Dice;
pub use divisor::Divisor;
pub use prefix::Prefix;
pub use time::Timestamp;

/// What was wrong with a number, worded for the operator: `found` is repeated by the caller, who also knows the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfRange {
    /// What would have been accepted, as a phrase: `1 to 10,000,000 per second`.
    pub allowed: &'static str,
}

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "allowed {}", self.allowed)
    }
}

impl std::error::Error for OutOfRange {}
