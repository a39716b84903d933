//! Decides: no I/O, no clock, no dice.
//!
//! A [`Engine`] is the policy with the state of its limits. A face asks it twice about a request:
//! [`Engine::judge`] finds the client, the route and what every limit says; [`Engine::admit`] charges. Both write into one
//! [`Decision`], which the answer, the log and the metrics read. In between, limits that several gates share are settled
//! ([`shared_limit`], [`estimate`]).

mod ask;
mod charge;
mod core;
mod decided_by;
pub mod decision;
pub mod estimate;
mod evaluation;
mod find;
mod judge;
mod keys;
mod learned;
mod numbers;
mod own_limit;
mod pardon;
mod penalty;
mod read;
mod reading;
mod settle;
mod several;
mod share;
pub mod shared_limit;
mod sharing;
mod short;
mod succession;

pub use core::Engine;
pub use decided_by::DecidedBy;
pub use decision::{Decision, DecisionId, Outcome, Reading, Readings, Refusal, Verdict};
pub use estimate::Told;
pub use evaluation::{Arrival, Evaluation, Held, Holds};
pub use pardon::{NotPardoned, Pardon};
pub use shared_limit::{Brought, Errand, SharedLimit, Step};
pub use succession::{Base, Carried, Fate, Reset, Succession};
