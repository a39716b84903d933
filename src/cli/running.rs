//! The running process, for verbs that ask it something.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use super::exit;
use super::global::Global;
use super::output::say;
use crate::admin::client::Reply;
use crate::process::control;

/// Asks the process at `--admin`, or the first that answers at the usual places.
///
/// # Errors
/// Nobody answers, which has been said; the exit code to end with.
pub fn ask<T>(global: &Global, question: impl Fn(&Path) -> io::Result<T>) -> Result<T, ExitCode> {
    reach(global, question).map_err(|why| {
        say(&format!("tidegate: {why}"));
        ExitCode::from(exit::UNAVAILABLE)
    })
}

/// The same for whoever has the terminal and says it there.
///
/// # Errors
/// Nobody answers; where it was tried, in lines.
pub fn reach<T>(global: &Global, question: impl Fn(&Path) -> io::Result<T>) -> Result<T, String> {
    let places = global.admin.clone().map_or_else(control::places, |path| vec![path]);
    let mut refusals = Vec::new();
    for place in &places {
        match question(place) {
            Ok(answer) => return Ok(answer),
            Err(error) => refusals.push(format!("  {}: {}\n", place.display(), cause(&error))),
        }
    }
    let mut talk = format!("no running server answers\n{}", refusals.concat());
    if global.admin.is_none() && control::default_path().is_none() {
        // as in most containers, and for root
        talk += "  where neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set, `run --admin PATH` makes the socket and verbs need it, too\n";
    }
    Err(talk)
}

/// Asks for JSON; gives it as it came and as it reads.
///
/// # Errors
/// Nobody answers, or the answer is no, which has been said; the exit code to end with.
pub fn told(global: &Global, question: impl Fn(&Path) -> io::Result<Reply>) -> Result<(String, Value), ExitCode> {
    let reply = ask(global, question)?;
    match reply.json() {
        Ok(told) if reply.is_good() => Ok((reply.body, told)),
        _ => {
            say(&format!("tidegate: {}\n", reply.error()));
            Err(ExitCode::from(exit::NO))
        }
    }
}

fn cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
        io::ErrorKind::PermissionDenied => "only its owner and root may ask".to_owned(),
        _ => error.to_string(),
    }
}
