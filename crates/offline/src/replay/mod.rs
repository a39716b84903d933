//! The offline face: past requests, in their own time, through the same engine.
//!
//! * [`read()`] gives every request of one or several access logs, in the order in which they began; [`formats`] has one file per
//!   format of such logs. No policy is known there: it is for whoever wants to look at past traffic.
//! * [`simulate()`] runs policies over them: [`plan`] says what of a policy the logs can judge, [`gate`] judges under a virtual
//!   clock, one for each process that wrote the log, [`ledger`] counts, [`outcome`] is what is told, [`diff`] compares two policies, [`condition`] says when that is too
//!   much. Three threads share it, in the order of the log.
//! * [`suggest`] proposes limits from what was read; [`drawn`] makes pictures of what a policy decided.

mod ahead;
mod belt;
mod clients;
pub mod condition;
pub mod diff;
pub mod drawn;
mod exact;
mod fault;
mod folded;
pub mod formats;
pub mod gate;
pub mod json;
pub mod ledger;
pub mod line;
mod order;
pub mod outcome;
pub mod plan;
mod prefix;
mod process;
mod read;
mod ready;
pub mod record;
pub mod report;
pub mod simulate;
mod source;
pub mod stamp;
pub mod suggest;

#[cfg(test)]
mod tests;

pub use belt::Logged;
pub use fault::Fault;
pub use formats::{Format, FormatFault};
pub use outcome::Outcome;
pub use read::{Options, Progress, Shown, Tally, read};
pub use record::{LoggedClient, Record, Told};
pub use simulate::{Failed, Question, Replayed, simulate};
pub use source::{Place, Sources};
