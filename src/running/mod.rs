//! What runs: the [`process`] and the [`generation`] of the policy that is in force in it; [`state`] gathers what of both is shown.
//!
//! [`in_force`] is the text of that policy, [`waits`] are the requests that limits delay, and by the [`wakers`] go on those that wait for
//! what another one asks a store.

pub mod generation;
pub mod in_force;
pub mod process;
pub mod state;
pub mod waits;
pub mod wakers;
