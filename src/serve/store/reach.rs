//! How a store is reached just now: by which connection, or why by none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::link::Link;
use crate::limiter::cluster::Silence;

/// What questions go out by.
pub enum Line {
    /// By this.
    Up(Live),
    /// There is no connection, and this is what is said instead: [`Silence::Faulty`] where the store refused us when it was tried last.
    Down(Silence),
}

/// A connection and which one it is.
#[derive(Clone)]
pub struct Live {
    /// The connection itself.
    pub link: Link,
    /// Which of all that there were.
    pub number: u64,
    /// Of a cluster.
    pub servers: Arc<Servers>,
}

/// How it stands with the servers of a cluster that its connection does not reach.
#[derive(Default)]
pub struct Servers {
    /// A question or a stamp found one missing.
    pub missed: AtomicBool,
    /// One refuses us, so one that is missing may be no outage.
    pub refuse: AtomicBool,
}

impl Servers {
    /// What a silence means for a question.
    pub fn excuse(&self, silence: Silence) -> Silence {
        match silence {
            Silence::Unreachable | Silence::Breaker if self.refuse.load(Ordering::Relaxed) => Silence::Faulty,
            other => other,
        }
    }
}
