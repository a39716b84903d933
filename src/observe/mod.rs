//! What others see of the gate.
//!
//! [`metrics`] and [`scrape`], the page they are read from; [`access_log`], one line per request, with clients as [`pseudonym`]s;
//! [`log`], the process's own lines on [`standard_error`], both written by a thread behind [`lines`], where [`flood`] tells of the heaviest and [`noise`] of who misbehaves; [`refused`], the clients refused most;
//! [`notices`], what the gate notices of its own misuse; [`history`], the last ten minutes; [`decisions`], what was decided lately, and why.

pub mod access_log;
#[cfg(test)]
mod captured;
pub mod decisions;
pub mod flood;
pub mod history;
pub mod lines;
pub mod log;
pub mod metrics;
pub mod noise;
pub mod notices;
pub mod pseudonym;
pub mod refused;
pub mod scrape;
pub mod standard_error;
pub mod state;
