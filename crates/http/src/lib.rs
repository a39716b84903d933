//! # tidegate-http
//!
//! The rules of HTTP: bytes in, meaning or a fault out. No socket, no clock, no policy. A request with two readings is refused,
//! so that no server behind the gate reads it otherwise than the gate. Begin with [`head`].
//!
//! | module | what it reads |
//! |---|---|
//! | [`head`] | the head of a request in HTTP/1 |
//! | [`path`], [`query`], [`authority`] | the parts of a target, in the one spelling that is judged and forwarded |
//! | [`chunk`] | a chunked body |
//! | [`answer_head`] | the head of an origin's answer |
//! | [`h2`] | frames, heads and trailers of HTTP/2 |
//! | [`glimpse`] | the parts of a refused head that the log may show |
//! | [`lines`], [`ranges`] | the fields of a head as ranges over its bytes, to be edited and written |
//! | [`hearsay`] | fields that say who the client is |
//! | [`proxy_protocol`] | the header of a proxy below HTTP |
//! | [`web_origin`] | the `Origin` of a page |
//! | [`fault`] | the faults, with their words |

#![forbid(unsafe_code)]
// A hostile request gets a status, never a panic; places are given back by drop. Tests may panic.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::indexing_slicing,
        clippy::mem_forget
    )
)]

pub mod answer_head;
pub mod authority;
pub mod chunk;
pub mod fault;
pub mod glimpse;
pub mod h2;
pub mod head;
pub mod hearsay;
pub mod lines;
pub mod path;
pub mod proxy_protocol;
pub mod query;
pub mod ranges;
pub mod web_origin;
