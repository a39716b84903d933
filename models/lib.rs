//! The files of `sketch` and `limiter` once more, on words whose interleavings loom explores; without the feature `loom` on the
//! machine's, for Miri and ThreadSanitizer. See `README.md`.

#![allow(
    dead_code,
    unused_imports,
    reason = "it is the product that must use all of these files; here the models use some"
)]

#[path = "../crates/limits/src/limiter/mod.rs"]
pub mod limiter;
#[path = "../crates/limits/src/sketch/mod.rs"]
pub mod sketch;
#[path = "../crates/limits/src/units/mod.rs"]
pub mod units;

#[cfg(not(feature = "loom"))]
#[path = "../crates/limits/src/sync.rs"]
pub mod sync;

#[cfg(feature = "loom")]
pub mod sync;
