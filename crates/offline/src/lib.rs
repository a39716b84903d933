//! # tidegate-offline
//!
//! Tidegate without sockets. [`gate`] judges requests under a clock of its own; [`replay`] sends it the requests of past logs,
//! [`scenario`] those of a policy's tests. [`picture`] draws charts.

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

use tidegate_limits::{door, limiter, sketch, units};
use tidegate_policy::{answer, client, config, engine, explain, human, policy, request};

pub mod gate;
pub mod picture;

pub mod replay;
pub mod scenario;
