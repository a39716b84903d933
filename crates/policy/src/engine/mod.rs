//! Decides: no I/O, no clock, no dice.
//!
//! A [`Engine`] is the policy with the state of its limits. A face asks it twice about a request:
//! [`Engine::judge`] finds the client, the route and what every limit says; [`Engine::admit`] charges. Both write into one
//! [`Decision`], which the answer, the log and the metrics read. In between, limits that several gates share are settled
//! ([`SharedCall`], [`estimate`]).

mod ask;
mod charge;
mod core;
pub mod decision;
pub mod estimate;
mod evaluation;
mod find;
mod judge;
mod keys;
mod learned;
mod numbers;
mod pardon;
mod penalty;
mod settle;
mod several;
mod share;
mod shared_call;
mod shared_limit;
mod succession;

pub use core::Engine;
pub use decision::{DecidedBy, Decision, DecisionId, Outcome, Reading, Readings, Refusal, Verdict};
pub use estimate::PeerSync;
pub use evaluation::{Arrival, Evaluation, Held, Holds};
pub use pardon::{NotPardoned, Pardon};
pub use shared_call::{SharedCall, SharedStep};
pub use shared_limit::{SharedLimit, SharedOutcome};
pub use succession::{Base, Carried, Fate, Reset, Succession};
