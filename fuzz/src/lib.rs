//! The targets for libFuzzer's driver. Each file of `bins/` is one of them and nothing else.

#[path = "../targets/mod.rs"]
pub mod targets;
