//! The live face: the only part of the gate that knows sockets, Pingora, the clock and the dice.
//!
//! * [`server`] builds everything and starts it, or says why not ([`start_error`]); [`lifecycle`] is signals and the way to a clean end.
//! * [`edge`]: connections, below HTTP.
//! * [`proxy`]: a request, from the facts to its answer.
//! * [`origins`]: what is protected, and how it is reached.
//! * [`store`]: where limits are asked about that several gates share.
//! * [`telling`]: what others see of it: metrics, logs, pages. [`admin`]: what operators ask it and tell it, and the [`page`] that
//!   they look at; both on the [`small_server`].
//! * [`socket`] is a connection as the system gives it, to clients and origins alike.
//! * What requests share: [`shared`], and in it the [`installed`] policy, and its text that is [`in_force`]; [`clock`] is the time, [`descriptors`] shares out what may be open, and [`housekeeping`] what is done every second.

pub mod admin;
pub mod buffers;
mod cause;
pub mod clock;
pub mod descriptors;
pub mod edge;
pub mod housekeeping;
pub mod in_force;
pub mod installed;
pub mod lifecycle;
pub mod origins;
pub mod page;
pub mod proxy;
pub mod reload;
pub mod server;
pub mod shared;
pub mod small_server;
pub mod socket;
pub mod start_error;
pub mod store;
pub mod telling;

pub use server::{Start, run};
pub use start_error::StartError;
