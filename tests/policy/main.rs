//! The policy file from outside: every fault with its text, every example file, the schema, and the way back.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test's helpers fail the test; clippy knows only its functions"
)]

mod bounds;
mod cases;
mod changes;
mod console;
mod decided;
mod documents;
mod examples;
mod faults;
mod forms;
mod guards;
mod listeners;
mod names;
mod penalty;
mod replay;
mod schema;
mod show;
mod sources;
mod stores;
mod suggest;
mod thousand;
mod variables;
mod verbs;

use std::path::{Path, PathBuf};

use tidegate::config::render::{Format, render};
use tidegate::config::{Config, Loaded, load_text};

/// The variables that tests know.
pub fn environment(name: &str) -> Option<String> {
    let value = match name {
        "FAST" => "100/s",
        "HIDDEN" => "hunter2",
        "KEY" => "0123456789abcdef",
        "OLD_KEY" => "0123456789fedcba",
        "PORT" => "8080",
        "EMPTY" => "",
        _ => return None,
    };
    Some(value.to_owned())
}

/// A path in this package.
pub fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

/// Loads a text whose relative paths start from `conf/`.
pub fn text(policy: &str) -> Loaded {
    load_text("test.yaml", policy, &environment, &path("conf"))
}

/// The configuration of a text that must have no errors.
#[track_caller]
pub fn good(policy: &str) -> Config {
    let loaded = text(policy);
    let told = render(&loaded, Format::Short, false);
    loaded.outcome.unwrap_or_else(|_| panic!("{policy}\n{told}"))
}

/// The codes of everything that is said about a text, in order.
pub fn codes(policy: &str) -> Vec<&'static str> {
    text(policy).diagnostics.iter().map(|fault| fault.code.text()).collect()
}
