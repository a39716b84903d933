//! # tidegate-limits
//!
//! Limits that keep their promise: rates, quotas, distinct counts, recent averages, fair shares and in-flight caps, in memory whose size is
//! stated when they are made. No limit admits more than it promises under any interleaving of threads or any flood of keys.
//!
//! The crate has no clock, no dice, no socket and no runtime. Each call takes the time as an argument, so a test and a live request run the
//! same code.
//!
//! | floor | module | what it is |
//! |---|---|---|
//! | 1 | [`units`] | numbers that know what they mean |
//! | 1 | `sync` | what threads share: atomics, fences, lists that are replaced whole |
//! | 2 | [`sketch`] | published algorithms in fixed memory: meters, monotone and summing tables, sets, lists of the heaviest |
//! | 3 | [`limiter`] | one kind of limit per file |

#![forbid(unsafe_code)]
// Whoever asks gets an answer, never a panic. Tests may panic.
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

mod sync;
pub mod units;

pub mod sketch;

pub mod limiter;
