//! Data to standard output, talk to standard error.

use std::io::{self, Write};
use std::sync::OnceLock;

/// Why data could not be written, once it could not.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Writes data; [`failure`] says whether that worked.
pub fn print(data: &str) {
    let mut output = io::stdout().lock();
    keep_failure(output.write_all(data.as_bytes()).and_then(|()| output.flush()));
}

/// Writes talk.
pub fn say(talk: &str) {
    let _ = io::stderr().lock().write_all(talk.as_bytes());
}

/// Why data that was printed did not all arrive, if it did not: a full disk, for example.
pub fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// Remembers the first failure. A reader that has gone away, as `head` does, is none.
pub fn keep_failure(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = FAILURE.set(error);
    }
}
