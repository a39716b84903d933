//! The process from its start to its end. Begin with [`server`].
//!
//! * [`server`] builds everything and starts it, or says why not ([`start_error`]). [`lifecycle`] handles signals and the clean
//!   end.
//! * [`reload`] puts another policy in force; [`certificates`] are renewed beside it.
//! * [`sockets`] holds each listening socket: bound, [`given`] by systemd, or taken over from the previous process by
//!   [`handover`]. [`upgrade`] is the old process's part of that. [`charges`] and [`places`] keep both processes of one mind until
//!   the old one ends.
//! * [`snapshots`] keep the state of limits over the end of the process, in the form of [`saved`]; a start is [`going_on`] from them. What was [`observed`] goes to the next
//!   process of an upgrade only.
//! * [`control`] brings the operator's orders. [`notify`] and [`watchdog`] speak to systemd.
//! * [`housekeeping`] runs about once a second.

pub mod certificates;
pub mod charges;
pub mod control;
pub mod given;
pub mod going_on;
pub mod handover;
pub mod housekeeping;
pub mod lifecycle;
pub mod notify;
pub mod observed;
pub mod places;
pub mod reload;
pub mod saved;
pub mod server;
pub mod snapshots;
pub mod sockets;
pub mod start_error;
pub mod upgrade;
pub mod watchdog;

pub use server::{Start, run};
pub use start_error::StartError;
