//! Tests of a policy: requests are sent through the offline gate, and what becomes of them is compared with what is expected.
//!
//! [`run`] plays one [`Case`]: the client is found by the trusted proxies, the route by its table, limits are asked, delayed requests
//! go on when their wait is over, places are held while the origin takes its time, and limits that count answers are charged when
//! answers come. The same case gives the same outcome every time.
//!
//! * `runner`: sends the requests. `message`: the requests. `clock`: when a case begins. `case_policy`: smaller sketches.
//! * `seen`: a request whose answer is known. `text`: the fields of that answer. `counts`: expected against found. `failures`: how one
//!   decision came about.
//! * `outcome`: what became of a case; [`report`]: outcomes for people and for machines.
//!
//! Not played: connections and their caps, TLS, PROXY headers, slow clients. An origin is one server that answers what the test says:
//! no retries, checks or adaptive caps.

mod case_policy;
mod clock;
mod counts;
mod failures;
mod message;
mod outcome;
pub mod report;
mod runner;
mod seen;
mod text;

use tidegate_http::path::EscapedSlash;

use crate::config::case::Case;
use crate::explain::Book;
use crate::policy::Policy;
use message::Messages;
use runner::Runner;

pub use outcome::{Difference, Outcome};

/// Plays a case under a policy. `book`: the names of its parts, for accounts.
///
/// # Errors
/// A limit whose numbers its limiter refuses, by name; a loaded policy has none.
pub fn run(policy: &Policy, book: &Book, case: &Case, escaped_slash: EscapedSlash) -> Result<Outcome, String> {
    let messages: Vec<Messages<'_>> = case.steps.iter().map(|step| Messages::new(step, escaped_slash)).collect();
    Runner::new(policy, book, case, &messages).map(Runner::run)
}

#[cfg(test)]
mod tests;
