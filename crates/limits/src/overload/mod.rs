//! Overload of the server itself: how near it is to what it can serve, and who is refused then.
//!
//! * [`pressure`]: one number, 0 to 1, out of scheduling delay, memory, descriptors and accept queue.
//! * [`delay`]: the scheduling delay.
//! * [`controller`]: how much each client may still ask for while the pressure is too high.
//! * [`shares`]: recent rates of all clients in fixed memory, and the verdict about the next connection or request.
//!
//! Measurements, times and random numbers are arguments. One thread calls [`Controller::tick`](controller::Controller::tick) some
//! fifty times a second; any number of threads ask [`Shares::admit`](shares::Shares::admit), without a lock.

pub mod controller;
pub mod delay;
pub mod pressure;
pub mod shares;

#[cfg(test)]
mod simulated;

pub use controller::{Controller, Refusing};
pub use pressure::{Bounds, Pressure, Readings, Resource};
pub use shares::Shares;
