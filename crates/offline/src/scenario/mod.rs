//! Tests of a policy: requests are sent through the real limits under a clock of their own, and compared with what must come
//! of them.
//!
//! [`run`] builds a fresh [`crate::engine::Snapshot`], lets the time of one [`Case`] pass and judges every request of it as a
//! live gate would: the client is found by the trusted proxies, the route by its table, limits are asked, delayed requests go
//! on when their wait is over, places are held while the origin takes its time, and what is counted by answers is charged
//! when they come. The same case gives the same outcome every time: time is a number, dice and hash keys have fixed seeds.
//!
//! * `stage`: the time that passes, and what happens in it.
//! * `message`: the requests; `capacity`: the places at origins; `fitted`: sketches no larger than a case needs.
//! * `seen`: a request whose answer is known; `tally`: expected against found; `account`: how one decision came about, in words.
//! * `outcome`: what came of a case; [`report`]: outcomes for people and for machines.
//!
//! What stands before the gate's own judgement is not played: connections and their caps, TLS, PROXY headers, slow clients,
//! and an origin is one server that answers what the test says (no retries, checks or adaptive caps).

mod account;
mod capacity;
mod clock;
mod fitted;
mod message;
mod outcome;
pub mod report;
mod seen;
mod stage;
mod tally;
mod told;

use tidegate_http::path::EscapedSlash;

use crate::config::case::Case;
use crate::explain::Book;
use crate::policy::Policy;
use stage::Stage;

pub use outcome::{Difference, Outcome};

/// Lets a case happen under a policy. `book` is what accounts call its parts by.
///
/// # Errors
/// A limit whose numbers its limiter refuses, by name; a loaded policy has none.
pub fn run(policy: &Policy, book: &Book, case: &Case, escaped_slash: EscapedSlash) -> Result<Outcome, String> {
    Stage::set(policy, book, case, escaped_slash).map(Stage::play)
}

#[cfg(test)]
mod tests;
