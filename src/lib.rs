//! # tidegate
//!
//! An edge reverse proxy whose rate limits, overload protection and fair sharing are actually correct. It finds the real
//! client behind trusted proxies, judges each request by the limits of its route in fixed memory, forwards it to an origin
//! or answers 429 and 503 truthfully.

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

pub mod units;
pub mod request;
pub mod sketch;
pub mod client;
pub mod limiter;
pub mod policy;
pub mod config;
pub mod engine;
pub mod answer;
pub mod serve;
