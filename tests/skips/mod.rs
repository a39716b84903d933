//! A test that cannot run on this machine says so in a file, whose lines `./dev test` prints at its end: output of tests that
//! pass is seen by nobody.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Tells what was not checked and why, for `./dev test` to print. The caller leaves its test after it.
pub fn skip(what: &str, why: impl Display) {
    let line = format!("{what}: {why}");
    println!("skipped: {line}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    let file = OpenOptions::new().append(true).create(true).open(&path);
    // one write each, as several processes may append
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("target/tmp can be written to");
}
