//! Decides: no I/O, no clock, no dice.
//!
//! A [`Snapshot`] is the policy with the state of its limits. A face asks it twice about a request:
//! [`Snapshot::judge`] finds the client, the route and what every limit says; [`Snapshot::admit`] charges. Both write into one
//! [`Decision`], which the answer, the log and the metrics read. In between, limits that several gates share are settled
//! ([`cluster`], [`estimate`]).

mod ask;
mod by;
mod charge;
pub mod cluster;
pub mod decision;
pub mod estimate;
mod find;
mod judge;
mod judged;
mod keys;
mod learned;
mod numbers;
mod pardon;
mod penalty;
mod read;
mod reading;
mod settle;
mod several;
mod share;
mod sharing;
mod short;
mod snapshot;
mod succession;

pub use by::By;
pub use cluster::{Brought, Cluster, Errand, Step};
pub use decision::{Decision, DecisionId, Outcome, Reading, Readings, Refusal, Verdict};
pub use estimate::Told;
pub use judged::{Arrival, Held, Holds, Judged};
pub use pardon::{NotPardoned, Pardon};
pub use snapshot::Snapshot;
pub use succession::{Base, Carried, Fate, Reset, Succession};
