//! What becomes of requests.

use std::time::Duration;

/// What became of the requests of some clients.
#[derive(Default, Clone, Debug)]
pub struct Fate {
    pub asked: u64,
    pub served: u64,
    pub waits: Vec<u64>,
}

impl Fate {
    /// The part that was served.
    pub fn share(&self) -> f64 {
        self.served as f64 / self.asked.max(1) as f64
    }

    /// 99 of 100 of those that were served waited no longer.
    pub fn p99(&self) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        Duration::from_nanos(waits.get(waits.len() * 99 / 100).copied().unwrap_or(0))
    }

    /// Both together.
    pub fn and(mut self, other: &Fate) -> Fate {
        self.asked += other.asked;
        self.served += other.served;
        self.waits.extend(&other.waits);
        self
    }
}
