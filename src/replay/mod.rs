//! The offline face: past requests, in their own time, through the same engine.
//!
//! * [`read()`] gives every request of one or several access logs, in the order in which they began.
//! * [`formats`]: one file per format of such logs.
//!
//! No policy and no limit is known to what reads; it is for whoever wants to look at past traffic.

pub mod formats;
pub mod json;
pub mod line;
mod order;
mod prefix;
mod read;
pub mod record;
mod source;
pub mod stamp;

pub use formats::{Format, FormatFault};
pub use read::{Fault, Options, Tally, read};
pub use record::{LoggedClient, Record, Told};
pub use source::{Place, Sources};
