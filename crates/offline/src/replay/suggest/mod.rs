//! Limits proposed from a log: the rate and burst that would have refused a given share of its clients, exactly. No file, clock
//! or dice.
//!
//! 1. [`plan`] writes a policy whose routes tell the kinds of requests apart ([`class`]). The verb loads it and judges the log by
//!    it.
//! 2. [`study`] sends each request to the [`frontier`] of its group: the burst that each client would have needed at each rate of
//!    the [`grid`].
//! 3. [`proposal`] picks a rate and a burst for each share of clients.
//! 4. [`trial`] goes over the log again and counts the requests that those clients would lose. [`findings`] holds all results.
//! 5. [`text`] writes them for people; [`plan`] writes the policy with the numbers.

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
