//! Nothing: this crate is its tests, which read the sources of all others.
