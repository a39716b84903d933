//! Why logs give no result, and the exit code of that.

use std::io;
use std::path::Path;

use crate::cli::exit;
use crate::replay::{Failed, Tally};

/// Why there is no result, and the exit code of that.
pub struct Stop(pub u8, pub String);

/// The system's fault with a file.
pub fn system(what: &Path) -> impl FnOnce(io::Error) -> Stop + use<'_> {
    move |error| Stop(exit::SYSTEM, format!("{}: {error}", what.display()))
}

/// A replay's failure with its exit code.
pub fn stop(failed: Failed) -> Stop {
    match failed {
        Failed::Read(fault) => Stop(exit::SYSTEM, fault.to_string()),
        Failed::Limit(limit, why) => Stop(exit::INVALID, format!("limit `{limit}`: {why}")),
        Failed::Unreadable(tally) => Stop(exit::NO, unreadable(&tally)),
    }
}

fn unreadable(tally: &Tally) -> String {
    let mut text = format!(
        "{} of {} lines cannot be read, which is more than 5 %; the first of them:",
        tally.unreadable, tally.lines
    );
    for shown in &tally.shown {
        text.push_str(&format!("\n    {}:{}: {}", shown.log, shown.line, shown.text));
    }
    text
}
