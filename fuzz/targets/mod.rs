//! What the fuzzers run: one ordinary function per place where a stranger's bytes are read, or ours are written for one.
//!
//! Each takes any bytes and *asserts what the place promises*; that it does not panic is the least of it. The promises are
//! held against second readings that share nothing with the code under test but the texts they were written from: slow,
//! plain, the standard library where it knows the answer.
//!
//! Two drivers share this list: libFuzzer (`fuzz/bins/`, hours) and the test command (`tests/fuzz/`, seconds). What each
//! target asserts, and how long it was run, is in `docs/fuzzing.md`.

pub mod access_log;
pub mod address;
mod behind;
pub mod chunks;
pub mod cost;
mod cursor;
pub mod deltas;
pub mod forwarding;
pub mod h2_frames;
pub mod h2_head;
pub mod head;
mod lenient;
pub mod limits;
pub mod lines;
pub mod origin_answer;
pub mod path;
mod path_readers;
pub mod policy;
pub mod proxy_protocol;
pub mod spelling;
mod strict;
pub mod structured;
