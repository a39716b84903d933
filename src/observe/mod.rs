//! What operators see of the gate. Begin with [`state`].
//!
//! * [`state`]: the state of the process, the one model that every view shows. [`metrics`] counts and renders the metrics page,
//!   which [`scrape`] serves; [`history`] keeps the last ten minutes; [`notices`] lists signs of misuse; [`condition`] puts all
//!   of it into one sentence.
//! * [`access_log`] writes one line per request, with clients as [`pseudonym`]s. [`log`] writes the process's own lines to
//!   [`standard_error`]: among them refusals of fair shares ([`fair_share_log`]) and faults of clients ([`client_errors`]). A
//!   thread behind [`lines`] writes both.
//! * [`offenders`] counts the clients refused most. [`decisions`] keeps the latest decisions and explains them.

pub mod access_log;
#[cfg(test)]
mod captured;
pub mod client_errors;
pub mod condition;
pub mod decisions;
pub mod fair_share_log;
pub mod history;
pub mod lines;
pub mod log;
pub mod metrics;
pub mod notices;
pub mod offenders;
pub mod pseudonym;
pub mod scrape;
pub mod standard_error;
pub mod state;
