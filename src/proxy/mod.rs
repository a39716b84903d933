//! One request, from its head to its log line: judge, admission, forward, answer. Begin with [`gate`].
//!
//! * Before a request: [`accept`] decides which connections come in, [`events`] hears what the edge reports.
//! * The head: [`request_view`] is what decisions read, [`settled`] makes it what the origin gets, [`judge`] decides.
//!   [`redirect`] answers where a listener serves nothing itself.
//! * The way to the origin: [`admission`] takes places and charges limits, [`shared_limits`] asks stores, [`store_holds`] tells them how it ended, [`forward`] hands the
//!   request over, [`attempts`] tries again, [`abandoned`] keeps places whose client has left, [`room`] bounds what is buffered.
//! * [`outcome`] takes these steps in a row.
//! * The answer: [`response`] is the origin's, [`reply`] the gate's own, [`serialize`] the gate's own as
//!   bytes, [`blame`] finds the cause of a failure.
//! * [`edits`] changes fields on both ways, whoever holds them ([`fields`]). [`timing`] measures the origin, [`observe`] reports to metrics and log.
//! * [`context`] is shared by the phases, [`downstream`] is the client's side of a request, [`framework`] Pingora's proxy, [`direct`] the way
//!   without it.

pub mod abandoned;
pub mod accept;
pub mod admission;
pub mod attempts;
pub mod blame;
pub mod context;
pub mod direct;
pub mod downstream;
pub mod edits;
pub mod events;
pub mod fields;
pub mod forward;
pub mod framework;
pub mod gate;
pub mod judge;
pub mod observe;
pub mod outcome;
pub mod redirect;
pub mod reply;
pub mod request_view;
pub mod response;
pub mod room;
pub mod serialize;
pub mod settled;
pub mod shared_limits;
pub mod store_holds;
pub mod timing;
