//! The pages of `docs/limits/`: their pictures are drawn from the real engine under a virtual clock, and say what they
//! show.
//!
//! Each picture comes from a policy in YAML, a scripted crowd and seeded dice. Its numbers are asserted, so that a
//! picture whose story is no longer true fails before anybody looks at it; then its text is compared with the committed
//! file. After a deliberate change, `UPDATE_EXPECTED=1 cargo test --test pictures` rewrites the files; the difference
//! is then for review.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test's helpers fail the test; clippy knows only its functions"
)]

mod crowd;
mod distinct;
mod draw;
mod fair_share;
mod inflight;
mod pages;
mod quota;
mod rate;
mod recent_average;
mod world;

use std::path::{Path, PathBuf};

/// A path in this package.
pub fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}
