//! Stores of a program that was built without the feature `store`: none can be opened.
//!
//! [`StoreInUse`] has no value, so the code that would use a store compiles and never runs. `tidegate check`, start and reload refuse a
//! policy with `stores:` before they get here.

pub mod breaker;
pub mod counters;
mod state;

use std::sync::Arc;
use std::time::Duration;

pub use breaker::BreakerState;
pub use counters::BUCKETS_MICROS;
pub use state::{Dropped, ExchangeState, ServerStanding, ServerState, StoreState};

use crate::bans::Bans;
use crate::client::Trust;
use crate::config::settings::Secret;
use crate::engine::PeerSync;
use crate::limiter::sharing::{Amendment, Answer, OnStoreError, Question, StoreError};
use crate::policy::Store;
use crate::system::clock::Clock;

/// A store that limits of the policy in force are shared through. There is none.
pub enum StoreInUse {}

impl StoreInUse {
    /// Returns the stores of a policy that names none.
    ///
    /// # Errors
    /// The policy names a store: the first one's name, and why it cannot be opened.
    pub fn all(
        specs: &[Arc<Store>],
        _: &[Option<Secret>],
        _: &[Arc<StoreInUse>],
        _: Clock,
    ) -> Result<Vec<Arc<StoreInUse>>, (String, String)> {
        match specs.first() {
            None => Ok(Vec::new()),
            Some(spec) => Err((spec.name.clone(), "this tidegate was built without the feature `store`".to_owned())),
        }
    }

    /// Keeps it connected.
    pub fn tend(&self) {
        match *self {}
    }

    /// Publishes what these limits admit.
    pub fn publish(&self, _: Vec<Arc<PeerSync>>) {
        match *self {}
    }

    /// Shares bans through it.
    pub fn share_bans(&self, _: &Arc<Bans>, _: &Trust, _: Option<(&[u8], Option<&[u8]>)>) {
        match *self {}
    }

    /// Has the bans shared at once.
    pub fn has_new_bans(&self) {
        match *self {}
    }

    /// Waits until it has the bans.
    pub async fn has_bans_within(&self, _: Duration) -> bool {
        match *self {}
    }

    /// Returns the policy's words on it.
    pub fn spec(&self) -> &Store {
        match *self {}
    }

    /// Returns the number of gates that share it.
    pub fn nodes(&self) -> u32 {
        match *self {}
    }

    /// Waits for the first answer of each.
    pub async fn first_answers(_: &[Arc<StoreInUse>]) -> Vec<(Arc<StoreInUse>, bool)> {
        Vec::new()
    }

    /// Asks it.
    pub async fn ask(&self, _: &Question, _: &str) -> (Result<(Answer, u64), StoreError>, bool) {
        match *self {}
    }

    /// Tells it what became of a grant.
    pub async fn tell(&self, _: &Amendment, _: &str) -> (Result<(Answer, u64), StoreError>, bool) {
        match *self {}
    }

    /// Counts a request that waited for it.
    pub fn waited(&self) {
        match *self {}
    }

    /// Counts a decision that was made without it.
    pub fn fell_back(&self, _: OnStoreError) {
        match *self {}
    }

    /// Returns how it stands.
    pub fn state(&self) -> StoreState {
        match *self {}
    }
}
