//! What requests share: the [`process`], and in it the [`generation`] of the policy that is in force.
//!
//! A generation holds its [`backends`]; a [`fault`] is why there is none. [`state`] gathers what of both is shown. [`waits`] are
//! the requests that limits delay; [`wakers`] wake requests that wait for another request's question to a store.

pub mod backends;
pub mod fault;
pub mod generation;
pub mod process;
pub mod state;
pub mod waits;
pub mod wakers;
