//! # tidegate-policy
//!
//! From the text of a policy file to a decision about a request, and to the words in which it is told. No clock, no dice, no socket.

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

use tidegate_limits::{door, limiter, saved, sketch, units};

pub mod human;
pub mod request;

pub mod client;

pub mod bans;
pub mod policy;

pub mod config;
pub mod engine;

pub mod answer;
pub mod explain;
