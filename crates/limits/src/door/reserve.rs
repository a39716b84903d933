//! Places that the heaviest leave free, so that a light request finds one although all others are held for long.

use std::time::Duration;

use crate::units::Timestamp;

/// How many places the heaviest leave to lighter ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Reserve {
    /// None: every place is used while anybody waits.
    None,
    /// As many as light requests were found to need.
    #[default]
    Learned,
    /// A part of all places.
    Share(f32),
}

/// The reserve as it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learned {
    kind: Reserve,
    places: f32,
    /// Places that light requests hold.
    light_held: u32,
    /// The mean duration of requests that were light when they were given their place, in seconds.
    light_seconds: f32,
    last_rise: Timestamp,
    last_light: Timestamp,
}

/// The reserve shrinks by so much with each light request that did not wait for long, so that one in a hundred does.
const STEP_DOWN: f32 = 1.0 / 99.0;

/// A light request may wait for so many of its durations.
const AIM: f32 = 1.5;

/// What a light request is taken to last before one was seen.
const FIRST: f32 = 0.05;

/// After this, with no light request, the reserve fades.
const QUIET: Duration = Duration::from_secs(2);

/// The time constant of its fading, in seconds.
const FADES: f32 = 5.0;

impl Learned {
    pub fn new(kind: Reserve) -> Learned {
        Learned {
            kind,
            places: 0.0,
            light_held: 0,
            light_seconds: FIRST,
            last_rise: Timestamp::ZERO,
            last_light: Timestamp::ZERO,
        }
    }

    /// Another kind from now on; what was learned stays.
    pub fn follow(&mut self, kind: Reserve) {
        self.kind = kind;
    }

    /// How many places there are in it.
    pub fn places(&self, max: u32) -> f32 {
        match self.kind {
            Reserve::None => 0.0,
            Reserve::Learned => self.places,
            Reserve::Share(share) => share.clamp(0.0, 0.5) * max as f32,
        }
    }

    /// So much time has passed.
    pub fn pass(&mut self, seconds: f32, now: Timestamp) {
        if now.since(self.last_light) > QUIET {
            self.places *= (-seconds / FADES).exp();
        }
    }

    /// A light request was given a place, or went without one, after it had waited for so long.
    pub fn learn(&mut self, waited: Duration, max: u32, now: Timestamp) {
        self.last_light = now;
        if waited.as_secs_f32() <= AIM * self.light_seconds {
            self.places = (self.places - STEP_DOWN).max(0.0);
            return;
        }
        // where the light hold half of the places, they wait for one another; and a crowd that comes together counts once
        let crowd = now.since(self.last_rise).as_secs_f32() < self.light_seconds && self.last_rise > Timestamp::ZERO;
        if self.light_held * 2 < max && !crowd {
            self.places = (self.places + 1.0).min(max as f32 / 2.0);
            self.last_rise = now;
        }
    }

    /// A light request holds a place.
    pub fn taken(&mut self) {
        self.light_held += 1;
    }

    /// A light request's place is free again after so long.
    pub fn given_back(&mut self, held: Duration) {
        self.light_held = self.light_held.saturating_sub(1);
        self.light_seconds += (held.as_secs_f32() - self.light_seconds) / 16.0;
    }
}
