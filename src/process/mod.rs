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

pub mod control;
pub mod given;
pub mod handover;
pub mod housekeeping;
pub mod lifecycle;
pub mod notify;
pub mod reload;
pub mod server;
pub mod sockets;
pub mod start_error;
pub mod upgrade;
pub mod watchdog;

pub use server::{Start, run};
pub use start_error::StartError;
