//! Costs, rates, shares and sizes.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::OutOfRange;
use super::time::saturating_nanos;

/// What one request takes out of a quota: 1 to 4,294,967,295.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU32);

impl Cost {
    /// The cost of an ordinary request.
    pub const ONE: Cost = Cost(NonZeroU32::MIN);

    /// # Errors
    /// Zero: a request that costs nothing is `exempt`, which is said elsewhere.
    pub const fn new(cost: u32) -> Result<Cost, OutOfRange> {
        match NonZeroU32::new(cost) {
            Some(cost) => Ok(Cost(cost)),
            None => Err(OutOfRange { allowed: "1 to 4294967295" }),
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Both together, or the greatest cost there is.
    pub const fn saturating_add(self, more: u32) -> Cost {
        Cost(self.0.saturating_add(more))
    }
}

/// So many events per period, such as `5/m`: 1 event per day up to 10,000,000 per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    events: NonZeroU32,
    period_nanos: u64,
}

impl Rate {
    /// Above this the emission interval of whole nanoseconds would be more than 1 % off.
    const MAX_PER_SECOND: u128 = 10_000_000;
    const MAX_PERIOD: Duration = Duration::from_secs(86_400);

    /// # Errors
    /// No events, no period, a period over a day, or more than ten million events per second.
    pub fn new(events: u32, period: Duration) -> Result<Rate, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "1/d to 10000000/s" };
        let events = NonZeroU32::new(events).ok_or(ALLOWED)?;
        if period.is_zero() || period > Self::MAX_PERIOD {
            return Err(ALLOWED);
        }
        if u128::from(events.get()) * 1_000_000_000 > Self::MAX_PER_SECOND * period.as_nanos() {
            return Err(ALLOWED);
        }
        Ok(Rate { events, period_nanos: saturating_nanos(period) })
    }

    /// Events per [`Rate::period`].
    pub fn events(self) -> u32 {
        self.events.get()
    }

    /// The period that the operator wrote.
    pub fn period(self) -> Duration {
        Duration::from_nanos(self.period_nanos)
    }

    /// Nanoseconds between two events at exactly this rate, rounded up so that a promise is never exceeded.
    pub fn interval_nanos(self) -> u64 {
        self.period_nanos.div_ceil(u64::from(self.events.get()))
    }

    /// Events per second, for display and for choosing a default burst.
    pub fn per_second(self) -> f64 {
        f64::from(self.events.get()) * 1e9 / self.period_nanos as f64
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.events.get();
        match self.period_nanos {
            1_000_000_000 => write!(f, "{events}/s"),
            60_000_000_000 => write!(f, "{events}/m"),
            3_600_000_000_000 => write!(f, "{events}/h"),
            86_400_000_000_000 => write!(f, "{events}/d"),
            nanos if nanos % 1_000_000_000 == 0 => write!(f, "{events}/{}s", nanos / 1_000_000_000),
            nanos => write!(f, "{events}/{}ms", nanos / 1_000_000),
        }
    }
}

/// A part of a whole, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// The whole.
    pub const ALL: Share = Share(1.0);
    /// A half of it.
    pub const HALF: Share = Share(0.5);

    /// # Errors
    /// Not a number, or outside 0 to 1.
    pub fn new(share: f64) -> Result<Share, OutOfRange> {
        if (0.0..=1.0).contains(&share) { Ok(Share(share)) } else { Err(OutOfRange { allowed: "0% to 100%" }) }
    }

    /// The fraction.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    /// The largest binary unit that divides the size: `64KiB`, `10MiB`, `1500B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, name) in UNITS {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{name}", self.0 >> shift);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// A rate as the policy file writes it; `unit` is that of a limit that counts bytes.
pub fn rate_text(rate: Rate, unit: Option<u32>) -> String {
    let text = rate.to_string();
    match (unit, text.split_once('/')) {
        (Some(unit), Some((_, period))) => format!("{}/{period}", amount_text(rate.events(), Some(unit))),
        _ => text,
    }
}

/// An amount as the policy file writes it; `unit` is that of a limit that counts bytes.
pub fn amount_text(amount: impl Into<u64>, unit: Option<u32>) -> String {
    let amount = amount.into();
    match unit {
        Some(unit) => Bytes(amount.saturating_mul(u64::from(unit))).to_string(),
        None => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_rounded_against_the_client() {
        let third = Rate::new(3, Duration::from_secs(1)).unwrap();
        assert_eq!(third.interval_nanos(), 333_333_334);
    }

    #[test]
    fn rates_outside_the_range_are_refused() {
        assert!(Rate::new(0, Duration::from_secs(1)).is_err());
        assert!(Rate::new(1, Duration::ZERO).is_err());
        assert!(Rate::new(1, Duration::from_secs(86_401)).is_err());
        assert!(Rate::new(10_000_000, Duration::from_secs(1)).is_ok());
        assert!(Rate::new(10_000_001, Duration::from_secs(1)).is_err());
    }

    #[test]
    fn rates_and_sizes_print_as_they_are_written() {
        assert_eq!(Rate::new(5, Duration::from_secs(60)).unwrap().to_string(), "5/m");
        assert_eq!(Rate::new(5, Duration::from_millis(250)).unwrap().to_string(), "5/250ms");
        assert_eq!(Rate::new(51, Duration::from_secs(10)).unwrap().to_string(), "51/10s");
        assert_eq!(Bytes(64 << 10).to_string(), "64KiB");
        assert_eq!(Bytes(1500).to_string(), "1500B");
        assert_eq!(Bytes(0).to_string(), "0B");
    }

    #[test]
    fn a_share_is_between_nothing_and_all() {
        assert!(Share::new(f64::NAN).is_err());
        assert!(Share::new(1.01).is_err());
        assert_eq!(Share::new(0.25).unwrap().get(), 0.25);
    }
}
