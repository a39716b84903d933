//! Decides about requests. Begin with [`Engine::judge`]. No I/O, no clock, no dice.
//!
//! An [`Engine`] is the policy with the state of its limits. The proxy asks it twice about a request: [`Engine::judge`] finds the
//! client, the route and the answer of each limit; [`Engine::admit`] charges. Both write one [`Decision`], which the answer, the
//! log and the metrics read. In between a `fair_share` may make the request wait ([`RateWait`]). Limits that a store is asked about are settled in between ([`SharedCall`]); limits with
//! `sharing: estimate` need no question ([`estimate`]).

mod ask;
mod at_the_door;
mod barred;
mod charge;
mod core;
pub mod decision;
mod drawn;
pub mod estimate;
mod evaluation;
mod fate;
mod find;
mod identity;
mod judge;
mod just_refused;
mod keys;
mod learned;
mod no_place;
mod numbers;
mod own_limit;
mod pardon;
mod penalty;
mod rate;
mod saved;
mod settle;
mod several;
mod shared_call;
mod shared_limit;
mod store_grant;
mod succession;
mod under_way;

pub use core::Engine;
pub use decision::{DecidedBy, Decision, DecisionId, Outcome, Reading, Readings, Refusal, Verdict};
pub use estimate::PeerSync;
pub use evaluation::{Arrival, Evaluation, Held, Holds};
pub use fate::{Carried, Fate, Reset, Succession};
pub use no_place::{Heavy, NoPlace, NoPlaceReason, Scarce};
pub use own_limit::has_demand;
pub use pardon::{NotPardoned, Pardon};
pub use rate::RateWait;
pub use saved::Restored;
pub use shared_call::{SharedCall, SharedStep};
pub use shared_limit::{SharedLimit, SharedOutcome};
pub use store_grant::StoreGrant;
pub use succession::Base;
pub use under_way::{Admitted, Asked, UnderWay};
