//! Steering: which base share α lets just the capacity through.
//!
//! Source: the controller of core-stateless fair queueing (Stoica, Shenker and Zhang 1998, §4.1). What reaches the
//! total, F(α) = Σ min(rᵢ, α·mᵢ), never falls when α rises and grows at most in proportion to it. So α·C/F never
//! overshoots, and steering F to C finds the max-min share without a list of flows. Isolation as rakelimit has it breaks
//! this (limited traffic escapes its networks' shares, so that F may rise steeply as α falls); counted apart, what escapes is one
//! share per node.
//!
//! F counts what *would* pass if the total refused nothing: requests that it admits and those it refuses. Otherwise F
//! could never exceed C.
//!
//! Two loops. The slow one sets α every tenth of a second of the stamps it is shown. The fast one, read on every
//! request, takes α down while more than half of the total's bucket is spent: at the onset of a flood the heaviest give
//! way within milliseconds, and not when a tick comes round. In the long run the slow loop brings the bucket back to
//! half, by aiming a little above C while it is fuller and a little below while it is emptier; so the total itself need
//! not refuse anybody, which it would do without looking who it is.
//!
//! Idle without pressure: α climbs to a maximum far above the capacity, at which nothing is thinned.

use super::root::Total;
use super::word::Word;
use crate::units::Timestamp;

/// How often α moves.
const TICK_NANOS: u64 = 100_000_000;

/// In the place of the next tick's time while one thread is at it.
const BUSY: u64 = u64::MAX;

/// How many requests at capacity F must average over: a mean over fewer would take noise for pressure. So at capacities
/// below 160/s the downward steps are slower than a tick.
const LEAST_SAMPLE: f64 = 16.0;

/// The largest step down in a tick: an estimate that is off cannot close everything at once.
const STEEPEST_FALL: f64 = 0.5;

/// The largest step up in a tick, near the capacity: ×131 in ten seconds.
const GENTLE_RISE: f64 = 1.05;

/// The largest step up while F is below [`FAR_BELOW`] of the capacity. Sweeps over 10,000-host floods needed it: after
/// the onset α lies far below the share that fits, and at 1.05 honest clients would wait four seconds for theirs.
const STEEP_RISE: f64 = 1.25;
const FAR_BELOW: f64 = 0.8;

/// From this part of the target on α, which may lie far above all rates, is brought down to the heaviest at once.
const FAR_ABOVE: f64 = 1.25;

/// How far the target lies above C while the total's bucket is full, and below while it is empty.
const LEAN: f64 = 0.2;

/// α is at most this often the capacity, plus [`TOP_EVENTS`] times the rate that one event amounts to: neither a single
/// client that uses all of the capacity nor a burst of a small one is ever heavier.
const TOP: f64 = 4.0;
const TOP_EVENTS: f64 = 32.0;

/// α is at least the capacity over this. With more equally heavy hosts than that the total decides alone, which between
/// equals comes to the same; and from here the way back up takes less than ten seconds.
const MOST_HOSTS: f64 = 16_384.0;

/// While the bucket is emptier than half, α is taken down to no less than this part of itself.
const FAST_FLOOR: f64 = 1.0 / 64.0;

/// The base share and all that steers it. All words are numbers (`f64`) or nanoseconds.
#[derive(Debug, Default)]
pub struct Controller<W> {
    /// When the next tick is due. Who exchanges it for [`BUSY`] owns every word below but `reached`, `peak` and
    /// `wanted` until he stores it: the load before the exchange acquires what the last owner wrote, the store releases
    /// it. Nobody waits for the owner.
    due: W,
    /// The last tick; zero before the first.
    last: W,
    /// Requests that have reached the total.
    reached: W,
    /// How many of them the last tick had seen.
    counted: W,
    /// α.
    alpha: W,
    /// F.
    demand: W,
    /// F as it would be if it followed α at once; see [`Controller::steer`].
    followed: W,
    /// The heaviest rate over multiplier since the last tick.
    peak: W,
    /// The same in the tick before: what α can be measured by.
    heaviest: W,
    /// The capacity that was asked for, zero for none.
    wanted: W,
    /// The capacity in force.
    capacity: W,
    /// An α that stays.
    fixed: Option<f64>,
    /// λ: the rate that one event amounts to.
    per_event: f64,
}

impl<W: Word> Controller<W> {
    /// At rest: no capacity, and α fixed or without bound.
    pub fn new(fixed: Option<f64>, per_event: f64) -> Controller<W> {
        let controller = Controller::<W> { fixed, per_event, ..Controller::default() };
        controller.alpha.set_number(fixed.unwrap_or(f64::INFINITY));
        controller
    }

    /// Asks for a capacity; it is in force from the next tick.
    pub fn set_capacity(&self, per_second: f64) {
        self.wanted.set_number(per_second);
    }

    /// The capacity asked for last.
    pub fn capacity(&self) -> Option<f64> {
        Some(self.wanted.number()).filter(|capacity| *capacity > 0.0)
    }

    /// α, infinite while there is no capacity.
    pub fn alpha(&self) -> f64 {
        self.alpha.number()
    }

    /// F: requests per second that reached the total lately, whether it had room for them or not.
    pub fn demand(&self) -> f64 {
        self.demand.number()
    }

    /// Notes a request that has reached the total.
    #[inline]
    pub fn reached(&self) {
        self.reached.count();
    }

    /// Notes how heavy a request's heaviest node is.
    #[inline]
    pub fn weighed(&self, weight: f64) {
        // Positive numbers are ordered like their bits. A lost race loses one weight, and the next request brings
        // another.
        let seen = self.peak.load();
        if weight.to_bits() > seen {
            self.peak.exchange(seen, weight.to_bits());
        }
    }

    /// The share by which a request is judged now: α, or less while the total's bucket is emptier than half.
    #[inline]
    pub fn share(&self, total: &Total<W>, now: Timestamp) -> f64 {
        let alpha = self.alpha.number();
        if self.fixed.is_some() {
            return alpha;
        }
        let left = 2.0 * (1.0 - total.spent(now));
        if left >= 1.0 {
            return alpha;
        }
        // measured by what there is: a fraction of an α above all rates would change nothing
        let heaviest = self.heaviest.number().max(self.peak.number());
        alpha.min(heaviest) * left.max(FAST_FLOOR)
    }

    /// Moves α if a tick is due; otherwise one load.
    #[inline]
    pub fn tick(&self, total: &Total<W>, now: Timestamp) {
        let due = self.due.load();
        if now.nanos() >= due && due != BUSY && self.due.exchange(due, BUSY) {
            self.steer(total, now);
            self.due.store(now.nanos().saturating_add(TICK_NANOS).min(BUSY - 1));
        }
    }

    /// One step, by the owner of the tick.
    #[cold]
    fn steer(&self, total: &Total<W>, now: Timestamp) {
        let capacity = self.adopt(total, now);
        let (last, reached) = (self.last.load(), self.reached.load());
        let arrived = reached.saturating_sub(self.counted.load()) as f64;
        self.last.store(now.nanos());
        self.counted.store(reached);
        let peak = self.peak.number();
        self.peak.set_number(0.0);
        self.heaviest.set_number(peak);
        if last == 0 || now.nanos() <= last {
            return;
        }
        let elapsed = (now.nanos() - last) as f64;
        let measured = arrived * 1e9 / elapsed;
        // halved per tick, or per the time of a sample if that is longer
        let ratio = elapsed / (TICK_NANOS as f64).max(LEAST_SAMPLE * 1e9 / capacity.max(1e-5));
        let old = (-ratio).exp2();
        self.demand.set_number(self.demand.number() * old + measured * (1.0 - old));
        let followed = self.followed.number() * old + measured * (1.0 - old);
        self.followed.set_number(followed);
        if self.fixed.is_some() || capacity <= 0.0 {
            return;
        }
        let spent = total.spent(now);
        let target = capacity * (1.0 + LEAN * (1.0 - 2.0 * spent));
        let alpha = self.alpha.number();
        let moved = if followed > target {
            if spent <= 0.5 {
                return; // a bucket that is half full takes the peaks of a load below capacity
            }
            let factor = (target / followed).max(STEEPEST_FALL).powf(ratio.min(1.0));
            // F is a mean over the ticks before; without this it would call for the same step once more
            self.followed.set_number(followed * factor);
            // no peak: all that came has lost the race for it, or came under another capacity
            let far = peak > 0.0 && followed > FAR_ABOVE * target;
            factor * if far { alpha.min(peak) } else { alpha }
        } else {
            let steepest = if followed < FAR_BELOW * capacity { STEEP_RISE } else { GENTLE_RISE };
            alpha * (target / followed).min(steepest).powf(elapsed / TICK_NANOS as f64)
        };
        self.alpha.set_number(moved.clamp(self.least(capacity), self.most(capacity)));
    }

    /// Puts the capacity asked for in force, and returns it. α keeps its proportion to the capacity.
    fn adopt(&self, total: &Total<W>, now: Timestamp) -> f64 {
        let (wanted, capacity) = (self.wanted.number(), self.capacity.number());
        if wanted > 0.0 && wanted != capacity {
            total.set_rate(wanted, now);
            self.capacity.set_number(wanted);
            if self.fixed.is_none() {
                let unlimited = capacity <= 0.0 || self.alpha.number() >= self.most(capacity);
                let scaled = if unlimited { self.most(wanted) } else { self.alpha.number() * wanted / capacity };
                self.alpha.set_number(scaled.clamp(self.least(wanted), self.most(wanted)));
            }
        }
        wanted
    }

    fn most(&self, capacity: f64) -> f64 {
        TOP * capacity + TOP_EVENTS * self.per_event
    }

    fn least(&self, capacity: f64) -> f64 {
        capacity / MOST_HOSTS
    }
}
