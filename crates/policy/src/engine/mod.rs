//! Decides about requests: no I/O, no clock, no dice.
//!
//! An [`Engine`] is a policy with the state of its limits. A face calls it twice for a request: [`Engine::judge`] finds the client,
//! the route and what each limit says; [`Engine::admit`] charges. Both write into one [`Decision`], which the answer, the log and
//! the metrics read. In between the face settles limits that a store is asked about ([`SharedCall`]); limits with
//! `sharing: estimate` need no question ([`estimate`]).

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
