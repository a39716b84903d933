//! Past requests, sent in their own time through the offline gate. Begin with [`simulate()`].
//!
//! * [`read()`] gives the requests of one or several access logs in the order in which they began. It knows no policy;
//!   [`formats`] has the formats.
//! * [`simulate()`] runs policies over them. [`plan`] finds the limits that the logs can judge, `prepare` makes a request of a
//!   line, `processes` has a gate for each process that wrote the log, [`ledger`] counts into an [`outcome`], [`diff`] compares
//!   two policies, [`condition`] decides whether an outcome fails.
//! * [`suggest`] proposes limits. [`report`] writes an outcome as text, [`report_html`] draws it.

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
