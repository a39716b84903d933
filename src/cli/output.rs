//! Data to standard output, talk to standard error.

use std::io::Write;

/// Writes data. A reader that has gone away, as `head` does, is no fault.
pub fn print(data: &str) {
    let _ = std::io::stdout().lock().write_all(data.as_bytes());
}

/// Writes talk.
pub fn say(talk: &str) {
    let _ = std::io::stderr().lock().write_all(talk.as_bytes());
}
