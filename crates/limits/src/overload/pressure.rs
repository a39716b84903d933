//! One number for how near the server is to what it can serve.
//!
//! Each resource has a *start*: the use from which on clients are refused. Its pressure is 0 without use, ½ at the start and 1 where
//! nothing is left (for the delay: at twice the start), straight in between. The pressure of the server is that of its scarcest resource:
//! a mean would hide an exhausted one behind three idle ones.

use std::time::Duration;

/// The pressure from which on clients are refused.
pub const START: f64 = 0.5;

/// What can run short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Time of the worker threads: how late they begin with what is ready.
    Delay,
    /// Memory.
    Memory,
    /// File descriptors.
    Descriptors,
    /// The listeners' accept queues.
    Backlog,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 4] = [Resource::Delay, Resource::Memory, Resource::Descriptors, Resource::Backlog];

    /// The word in metrics and log.
    pub fn word(self) -> &'static str {
        match self {
            Resource::Delay => "delay",
            Resource::Memory => "memory",
            Resource::Descriptors => "descriptors",
            Resource::Backlog => "backlog",
        }
    }
}

/// From which use on clients are refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Scheduling delay; more than zero.
    pub delay: Duration,
    /// Share of the memory, between 0 and 1.
    pub memory: f64,
    /// Share of the descriptors that clients may have.
    pub descriptors: f64,
    /// Share of the accept queue.
    pub backlog: f64,
}

/// What was measured. A share is used over available, 0 to 1; zero where it cannot be measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Readings {
    /// How late a task that is ready begins.
    pub delay: Duration,
    /// Share of the memory in use.
    pub memory: f64,
    /// Share of the descriptors in use.
    pub descriptors: f64,
    /// The fullest accept queue.
    pub backlog: f64,
}

/// The pressure by resource.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    parts: [f64; 4],
}

impl Pressure {
    /// Returns what the readings mean.
    pub fn of(readings: &Readings, bounds: &Bounds) -> Pressure {
        let delay = readings.delay.as_secs_f64() / bounds.delay.as_secs_f64().max(1e-9);
        Pressure {
            parts: [
                (START * delay).min(1.0),
                share(readings.memory, bounds.memory),
                share(readings.descriptors, bounds.descriptors),
                share(readings.backlog, bounds.backlog),
            ],
        }
    }

    /// The pressure of the server: that of its scarcest resource.
    pub fn value(&self) -> f64 {
        self.parts.iter().copied().fold(0.0, f64::max)
    }

    /// The scarcest resource.
    pub fn resource(&self) -> Resource {
        let mut scarcest = Resource::Delay;
        for resource in Resource::ALL {
            if self.part(resource) > self.part(scarcest) {
                scarcest = resource;
            }
        }
        scarcest
    }

    /// The pressure of one resource.
    pub fn part(&self, resource: Resource) -> f64 {
        self.parts.get(resource as usize).copied().unwrap_or(0.0)
    }

    /// How far a resource is beyond its start: 0 at the start or below, 1 where nothing is left.
    pub fn beyond(&self, resource: Resource) -> f64 {
        ((self.part(resource) - START) / (1.0 - START)).clamp(0.0, 1.0)
    }
}

fn share(used: f64, start: f64) -> f64 {
    let start = start.clamp(0.01, 0.99);
    // what is no number was not measured
    let used = if used.is_finite() { used.clamp(0.0, 1.0) } else { 0.0 };
    if used <= start { START * used / start } else { START + (1.0 - START) * (used - start) / (1.0 - start) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { delay: Duration::from_millis(50), memory: 0.85, descriptors: 0.9, backlog: 0.5 };

    #[test]
    fn the_start_of_each_resource_is_one_half_and_its_end_one() {
        let at = |delay, memory, descriptors, backlog| {
            let delay = Duration::from_millis(delay);
            Pressure::of(&Readings { delay, memory, descriptors, backlog }, &BOUNDS)
        };
        assert_eq!(at(0, 0.0, 0.0, 0.0).value(), 0.0);
        for (pressure, resource) in [
            (at(50, 0.1, 0.1, 0.1), Resource::Delay),
            (at(5, 0.85, 0.1, 0.1), Resource::Memory),
            (at(5, 0.1, 0.9, 0.1), Resource::Descriptors),
            (at(5, 0.1, 0.1, 0.5), Resource::Backlog),
        ] {
            assert!((pressure.value() - 0.5).abs() < 1e-12, "{pressure:?}");
            assert_eq!((pressure.resource(), pressure.beyond(resource)), (resource, 0.0));
        }
        assert_eq!(at(100, 0.0, 0.0, 0.0).value(), 1.0);
        assert_eq!(at(10_000, 1.0, 1.0, 1.0).value(), 1.0);
        assert_eq!(at(0, f64::NAN, 0.0, 0.0).value(), 0.0);
    }

    proptest! {
        #[test]
        fn it_stays_within_zero_and_one_and_never_falls_when_a_reading_rises(
            delay in 0_u64..1_000_000, memory in 0.0..1.5_f64, more in 0.0..1.0_f64,
        ) {
            let of = |delay, memory| {
                Pressure::of(&Readings { delay: Duration::from_micros(delay), memory, ..Readings::default() }, &BOUNDS)
            };
            let before = of(delay, memory);
            let after = of(delay + (1e6 * more) as u64, memory + more);
            prop_assert!((0.0..=1.0).contains(&before.value()));
            prop_assert!(after.value() >= before.value());
        }
    }
}
