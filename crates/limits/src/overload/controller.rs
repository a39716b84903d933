//! How much each client may still ask for while the pressure is too high.
//!
//! **Beginning and end.** Refusing begins when the pressure has stayed at [`START`] or above for 100 ms: a standing queue, not a burst
//! (CoDel, RFC 8289, whose interval this is), and not a machine that was paused. It ends when the delay has stayed below half of its start, and everything else
//! below nine tenths of its own, for 500 ms.
//!
//! **The delay** is steered to its start by a proportional and an integral term, as PIE does (RFC 8033), of the *logarithm* of the share
//! that one client may have. What reaches a server grows at most in proportion to the share, so the loop's gain is at most one
//! whatever is offered, and the constants need no tuning by load: a natural frequency of 3/s with critical damping, slow beside the
//! 0.1 s that a measurement may be old. The share falls as fast as the delay rises, and rises by at most e² per second.
//!
//! **Memory, descriptors and the accept queue** do not follow at once when clients are refused: their share is a function of the pressure
//! alone, from the heaviest client's rate at the start to a thousandth of it at the end. Who has come no more than twice in the last second is spared until
//! the memory is at its end.
//!
//! **Classes** give way one after the other: the least important that asks for something goes to nothing before the next one is
//! touched, and they come back in the opposite order.

use std::time::Duration;

use super::pressure::{Bounds, Pressure, Readings, Resource, START};
use super::shares::Shares;
use crate::units::{Criticality, Timestamp};

/// How long the pressure must stay high before anybody is refused, and low before nobody is.
const ENTER: Duration = Duration::from_millis(100);
const LEAVE: Duration = Duration::from_millis(500);

/// Parts of [`START`] below which it must stay for that: of the delay, and of the rest.
const CALM_DELAY: f64 = 0.5;
const CALM: f64 = 0.9;

/// Rates are counted from this part of [`START`] on, so that they are known when refusing begins, and for so long after it.
const COUNT_FROM: f64 = 0.4;
const COUNT_ON: Duration = Duration::from_secs(10);

/// The natural frequency of the loop, per second.
const FREQUENCY: f64 = 3.0;

/// The delay counts up to this many times its start: beyond, the share falls as fast as it may.
const DEEPEST: f64 = 20.0;

/// From this excess on the share falls by e to the power of this in a second, however short the start is: a client that is a thousand times
/// too heavy is found in two seconds.
const DEEP: f64 = 2.0;
const DEEP_FALL: f64 = 4.0;

/// Below this excess there is no queue to speak of and capacity lies idle: shares rise as fast as they may.
const IDLE: f64 = -0.8;

/// How fast shares rise: e to the power of this in a second.
const RELEASE: f64 = 2.0;

/// At the end of memory, descriptors or accept queue a client has e to the power of minus this of the heaviest one's rate.
const DEPTH: f64 = 7.0;

/// The end, but for those who have hardly come.
const ALMOST: f64 = 0.999;

/// A share below this, per second of one client, is nothing.
const NOTHING: f64 = 1e-3;

/// Two ticks further apart than this were parted by a pause of the machine. What waits after it is no overload: refusing does not begin
/// before a machine that was half loaded has served it, which takes as long as the pause did, and some more; 5 s at most.
const PAUSE: Duration = Duration::from_millis(250);
const MORE: f64 = 1.5;
const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// The share of one class.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// Infinite: open.
    share: f64,
    /// The heaviest client's rate, halved every half second.
    peak: f64,
}

impl Level {
    const OPEN: Level = Level { share: f64::INFINITY, peak: 0.0 };

    fn learn(&mut self, peak: f64, passed: f64) {
        self.peak = (self.peak * (-2.0 * passed).exp2()).max(peak);
        if self.peak < NOTHING {
            self.peak = 0.0;
        }
    }

    fn is_closed(&self) -> bool {
        self.share < NOTHING
    }

    fn tighten(&mut self, step: f64) {
        self.share = self.share.min(self.peak) * (-step).exp();
    }

    fn loosen(&mut self, step: f64) {
        self.share = self.share.max(NOTHING) * step.exp();
        if self.share >= self.peak {
            self.share = f64::INFINITY;
        }
    }

    /// The share where a resource is so far beyond its start.
    fn within(&self, beyond: f64) -> f64 {
        let cap = match beyond {
            beyond if beyond <= 0.0 => f64::INFINITY,
            beyond if beyond >= 1.0 => 0.0,
            beyond => self.peak * (-DEPTH * beyond).exp(),
        };
        let share = self.share.min(cap);
        if share < NOTHING { 0.0 } else { share }
    }
}

/// What is in force after a tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Refusing {
    /// The pressure that was found.
    pub pressure: Pressure,
    /// Some clients are refused, if they are heavy enough.
    pub refusing: bool,
    /// New connections have no share any more: all are refused.
    pub closed: bool,
}

/// Steers the shares of connections and of requests. One thread owns it.
#[derive(Debug)]
pub struct Controller {
    bounds: Bounds,
    connections: Level,
    requests: [Level; 4],
    last: Option<Timestamp>,
    /// Since when the pressure is high, while nobody is refused; low, while some are.
    since: Option<Timestamp>,
    counted: Option<Timestamp>,
    /// Until when refusing does not begin.
    grace: Timestamp,
    refusing: bool,
    /// The delay's excess in the last tick, in starts.
    excess: f64,
}

impl Controller {
    /// Nobody is refused.
    pub fn new(bounds: Bounds) -> Controller {
        Controller {
            bounds,
            connections: Level::OPEN,
            requests: [Level::OPEN; 4],
            last: None,
            since: None,
            counted: None,
            grace: Timestamp::ZERO,
            refusing: false,
            excess: -1.0,
        }
    }

    /// Takes what was measured since the last tick and puts new shares in force.
    pub fn tick(
        &mut self,
        now: Timestamp,
        readings: &Readings,
        connections: &Shares<1>,
        requests: &Shares<4>,
    ) -> Refusing {
        let passed = self.last.map_or(Duration::ZERO, |last| now.since(last));
        self.last = Some(now);
        let pressure = Pressure::of(readings, &self.bounds);
        self.connections.learn(connections.take_peak(0), passed.as_secs_f64());
        for (class, level) in self.requests.iter_mut().enumerate() {
            level.learn(requests.take_peak(class), passed.as_secs_f64());
        }
        let excess = (readings.delay.as_secs_f64() / self.bounds.delay.as_secs_f64().max(1e-9)).min(DEEPEST) - 1.0;
        if passed > PAUSE {
            self.grace = now.after(passed.min(LONGEST_GRACE).mul_f64(MORE).min(LONGEST_GRACE));
        }
        if !self.refusing && now < self.grace {
            self.since = None;
        } else {
            self.begin_or_end(now, &pressure);
            if self.refusing {
                self.steer(excess, passed.as_secs_f64());
            }
        }
        self.excess = excess;
        if self.refusing || pressure.value() >= COUNT_FROM * START {
            self.counted = Some(now);
        }
        let counting = self.counted.filter(|counted| now.since(*counted) < COUNT_ON).map(|_| now);
        connections.count(counting);
        requests.count(counting);
        let closed = self.publish(&pressure, connections, requests);
        Refusing { pressure, refusing: self.refusing, closed }
    }

    fn begin_or_end(&mut self, now: Timestamp, pressure: &Pressure) {
        let calm = |resource| {
            let part = if resource == Resource::Delay { CALM_DELAY } else { CALM };
            pressure.part(resource) < part * START
        };
        let levels = self.requests.iter().chain([&self.connections]);
        let open = || levels.clone().all(|level| level.share.is_infinite());
        let (turns, after) = match self.refusing {
            false => (pressure.value() >= START, ENTER),
            true => (Resource::ALL.into_iter().all(calm) && open(), LEAVE),
        };
        if !turns {
            self.since = None;
            return;
        }
        let since = *self.since.get_or_insert(now);
        if now.since(since) >= after {
            self.since = None;
            self.refusing = !self.refusing;
            // what has built up meanwhile counts as one rise
            self.excess = -1.0;
        }
    }

    fn steer(&mut self, excess: f64, passed: f64) {
        let start = self.bounds.delay.as_secs_f64();
        let integral = FREQUENCY * FREQUENCY * start * excess * passed;
        let integral = if excess >= DEEP { integral.max(DEEP_FALL * passed) } else { integral };
        let proportional = 2.0 * FREQUENCY * start * (excess - self.excess);
        let step = integral + proportional;
        if excess < IDLE {
            self.loosen(RELEASE * passed);
        } else if step < 0.0 {
            self.loosen((-step).min(RELEASE * passed));
        } else if excess > 0.0 {
            self.tighten(step);
        }
    }

    fn tighten(&mut self, step: f64) {
        self.connections.tighten(step);
        let next = self.requests.iter_mut().find(|level| level.peak > 0.0 && !level.is_closed());
        if let Some(level) = next {
            level.tighten(step);
        }
    }

    fn loosen(&mut self, step: f64) {
        self.connections.loosen(step);
        if let Some(level) = self.requests.iter_mut().rev().find(|level| level.share.is_finite()) {
            level.loosen(step);
        }
    }

    /// Puts the shares in force; returns whether new connections have none.
    fn publish(&self, pressure: &Pressure, connections: &Shares<1>, requests: &Shares<4>) -> bool {
        let beyond = |resource| if self.refusing { pressure.beyond(resource) } else { 0.0 };
        let memory = beyond(Resource::Memory);
        // without a descriptor, or behind a full queue, a connection waits: that is enough for the light
        let full = beyond(Resource::Descriptors).max(beyond(Resource::Backlog)).min(ALMOST);
        let share = self.connections.within(memory.max(full));
        connections.set(0, share, self.connections.share.is_infinite() && memory < 1.0);
        // one class after the other; none of the critical goes for want of memory
        let memory = memory * (Criticality::ALL.len() - 1) as f64;
        for (class, level) in self.requests.iter().enumerate() {
            let beyond = (memory - class as f64).clamp(0.0, 1.0);
            requests.set(class, level.within(beyond), level.share.is_infinite() && beyond < 1.0);
        }
        share <= 0.0
    }
}
