//! The files of `sketch`, `limiter` and `door` once more, on words whose interleavings loom explores; without the feature `loom` on the
//! machine's, for Miri and ThreadSanitizer. See `README.md`.

#![allow(
    dead_code,
    unused_imports,
    reason = "it is the product that must use all of these files; here the models use some"
)]

#[path = "../src/door/mod.rs"]
pub mod door;
#[path = "../src/limiter/mod.rs"]
pub mod limiter;
#[path = "../src/saved/mod.rs"]
pub mod saved;
#[path = "../src/sketch/mod.rs"]
pub mod sketch;
#[path = "../src/units/mod.rs"]
pub mod units;

#[cfg(not(feature = "loom"))]
#[path = "../src/sync.rs"]
pub mod sync;

#[cfg(feature = "loom")]
pub mod sync;
