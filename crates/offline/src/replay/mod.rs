//! Past requests, in their own time, through the offline gate.
//!
//! * [`read()`] gives every request of one or several access logs, in the order in which they began; [`formats`] has one file per
//!   format. No policy is known there.
//! * [`simulate()`] runs policies over them: [`plan`] finds what of a policy the logs can judge, `prepare` makes a line a request,
//!   `processes` has a gate for each process that wrote the log, [`ledger`] counts into an [`outcome`], [`diff`] compares two
//!   policies, [`condition`] makes an outcome fail.
//! * [`suggest`] proposes limits; [`report`] writes an outcome, [`report_html`] draws it.

mod channel;
mod clients;
pub mod condition;
pub mod diff;
mod exact;
mod fault;
pub mod formats;
pub mod json;
pub mod ledger;
pub mod line;
mod order;
pub mod outcome;
pub mod plan;
mod prefix;
mod prepare;
mod processes;
mod read;
pub mod record;
pub mod report;
pub mod report_html;
pub mod simulate;
mod source;
pub mod stamp;
pub mod suggest;

#[cfg(test)]
mod tests;

pub use fault::Fault;
pub use formats::{Format, FormatFault};
pub use outcome::Outcome;
pub use read::{Options, Progress, Shown, Tally, read};
pub use record::{LoggedClient, Record, Told};
pub use simulate::{Failed, Question, Replayed, simulate};
pub use source::{Place, Sources};
