//! The [`process`], shared by all requests, and the [`generation`] of the policy in force.
//!
//! A generation holds its [`backends`]; [`fault`] says why it could not be made. [`state`] gathers the state of both for views.
//! [`bans`] puts bans into words, [`kept_bans`] tells how far they are on disk. [`loads`] remembers which policies were
//! loaded or refused. [`pardoned`] lists who is pardoned. [`snapshot_status`] tells of the snapshots of limits. [`waits`] are the requests that limits delay. [`wakers`] wake
//! requests that wait for another request's question to a store. [`successor`] is the process that takes this one's place.

pub mod backends;
pub mod bans;
pub mod fault;
pub mod generation;
pub mod kept_bans;
pub mod loads;
pub mod pardoned;
pub mod process;
pub mod snapshot_status;
pub mod state;
pub mod successor;
pub mod waits;
pub mod wakers;
