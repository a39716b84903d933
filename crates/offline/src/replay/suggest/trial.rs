//! The second pass: what the touched clients would lose to a proposed limit.
//!
//! Only clients that are touched at all are followed, which the first pass told; the limiter's own arithmetic refuses and
//! charges. Nothing of it is an estimate.

use std::collections::HashMap;

use super::frontier::Frontier;
use crate::sketch::{Bucket, KeyHash, Meter};
use crate::units::{Cost, OutOfRange, Rate, Timestamp};

/// One limit, tried on the clients that it touches.
#[derive(Debug)]
pub struct Trial {
    bucket: Bucket,
    clients: HashMap<KeyHash, Touched>,
}

/// A client that a limit touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    level: u64,
    /// All its requests that the limit would judge.
    pub requests: u64,
    /// Those that it would refuse.
    pub refused: u64,
    /// When the first was refused.
    pub since: Option<Timestamp>,
}

impl Trial {
    /// A trial of a rate of the frontier's grid, by its place.
    ///
    /// # Errors
    /// A burst that a limit of this rate cannot have.
    pub fn new(frontier: &Frontier, column: usize, rate: Rate, burst: u32) -> Result<Trial, OutOfRange> {
        let clients = frontier.touched(column, burst).into_iter().map(|client| (client, Touched::default()));
        Ok(Trial { bucket: Bucket::new(rate, burst)?, clients: clients.collect() })
    }

    /// Judges one request; says whether it would be refused. `None`: its client is never touched.
    pub fn observe(&mut self, client: KeyHash, now: Timestamp, cost: Cost) -> Option<bool> {
        let touched = self.clients.get_mut(&client)?;
        touched.requests += 1;
        let charged = self.bucket.charge(touched.level, now, cost);
        let refused = !self.bucket.admits(charged, now);
        if refused {
            touched.refused += 1;
            touched.since.get_or_insert(now);
        } else {
            touched.level = charged;
        }
        Some(refused)
    }

    /// Requests refused so far.
    pub fn refused(&self) -> u64 {
        self.clients.values().map(|touched| touched.refused).sum()
    }

    /// The clients, those that lose most first.
    pub fn clients(&self) -> Vec<(KeyHash, &Touched)> {
        let mut clients: Vec<_> = self.clients.iter().map(|(client, touched)| (*client, touched)).collect();
        clients.sort_by_key(|(client, touched)| (std::cmp::Reverse(touched.refused), *client));
        clients
    }
}
