//! The course of an admitted request: its body, the time until its answer, the answer.

use std::time::Duration;

use http::StatusCode;

use crate::config::case::Reply;

/// The course of a request, should it be admitted.
#[derive(Debug, Clone, Copy)]
pub enum Course<'r> {
    /// The end is known: nothing moves it, neither a limit that slows bodies down nor a route that answers by itself.
    Known {
        /// From the admission to the last byte of the answer.
        takes: Duration,
        /// The status, if it is known.
        status: Option<StatusCode>,
        /// The answer's bytes.
        bytes: u64,
        /// How the place at the origin is found.
        place: PlaceAt,
    },
    /// The request is played through: bodies pass in pieces, and routes may answer by themselves.
    Played {
        /// The request's body, in bytes.
        body: u64,
        /// The origin's answer.
        reply: &'r Reply,
    },
}

/// How a request whose end is known finds its place at the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceAt {
    /// The gate counts places and queues.
    Counted,
    /// It had one, as its log says.
    Found,
    /// It had none, as its log says.
    NotFound,
}
