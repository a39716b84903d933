//! What requests share: the [`process`], and in it the [`generation`] of the policy that is in force.
//!
//! A generation holds its [`backends`] and tells the metrics where to read its gauges; a [`fault`] is why one cannot be made. [`waits`]
//! are the requests that limits delay; [`wakers`] wake requests that wait for another request's question to a store.

pub mod backends;
pub mod fault;
mod gauges;
pub mod generation;
pub mod process;
pub mod waits;
pub mod wakers;
