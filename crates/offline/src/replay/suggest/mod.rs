//! Limits proposed from a log: which rate and burst would have touched so many of its clients, exactly.
//!
//! 1. [`plan`] writes a policy whose routes tell the kinds of requests apart ([`class`]); it is loaded.
//! 2. [`study`] sends every request of the log to the [`frontier`]s of its groups: what every client would have needed at
//!    every rate of the [`grid`].
//! 3. [`proposal`] picks a rate and a burst for each share of clients that may be touched.
//! 4. [`trial`] goes over the log again for what the touched would lose. [`findings`] is all of it together.
//! 5. [`text`] writes it, with what it is worth, and [`plan`] writes the policy again, with the numbers.
//!
//! No file, clock or dice: the verb brings the requests, as the engine judged them by the policy of step 1.

pub mod class;
pub mod findings;
pub mod frontier;
pub mod grid;
pub mod plan;
pub mod proposal;
pub mod study;
pub mod text;
pub mod trial;

pub use class::Class;
pub use findings::{Findings, Found};
pub use frontier::{Column, Frontier};
pub use plan::{Limit, Scope};
pub use proposal::{Level, Proposal, Row};
pub use study::{Group, Study, Uncounted};
pub use trial::{Touched, Trial};

#[cfg(test)]
mod tests;
