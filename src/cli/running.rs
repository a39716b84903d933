//! The running process, for verbs that ask it something.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::de::DeserializeOwned;

use super::exit;
use super::global::Global;
use super::output::say;
use crate::admin::client::Reply;
use crate::process::control;

/// Asks the process at `--admin`, or the first that answers at the usual places.
///
/// # Errors
/// The exit code, after the fault was printed: no process answers.
pub fn ask<T>(global: &Global, question: impl Fn(&Path) -> io::Result<T>) -> Result<T, ExitCode> {
    reach(global, question).map_err(|why| {
        say(&format!("tidegate: {why}"));
        ExitCode::from(exit::UNAVAILABLE)
    })
}

/// Asks the running process without printing.
///
/// # Errors
/// No process answers: the places that were tried, in lines.
pub fn reach<T>(global: &Global, question: impl Fn(&Path) -> io::Result<T>) -> Result<T, String> {
    let places = global.admin.clone().map_or_else(control::places, |path| vec![path]);
    let mut refusals = Vec::new();
    for place in &places {
        match question(place) {
            Ok(answer) => return Ok(answer),
            Err(error) => refusals.push((place, cause(&error))),
        }
    }
    Err(absent(global, &refusals))
}

/// Says that no process answers: where it was looked for, why not there, and what to try next.
fn absent(global: &Global, refusals: &[(&PathBuf, String)]) -> String {
    let mut talk = "no running tidegate found\n".to_owned();
    for (at, (place, why)) in refusals.iter().enumerate() {
        let head = if at == 0 { "looked at" } else { "" };
        let _ = writeln!(talk, "  {head:<9} {}: {why}", place.display());
    }
    talk += "  is it running?          systemctl status tidegate\n";
    if !rustix::process::geteuid().is_root() {
        talk += "  another user's?         sudo tidegate status\n";
    }
    if global.admin.is_none() {
        talk += "  elsewhere?              tidegate --admin PATH status\n";
    }
    if global.admin.is_none() && control::default_path().is_none() {
        // as in most containers
        talk += "  neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set: give `run --admin PATH` (or TIDEGATE_ADMIN=PATH), and the same to this verb\n";
    }
    talk
}

/// Asks for JSON; returns it as it came and as it reads.
///
/// # Errors
/// No process answers, or its answer is no, which has been printed; the exit code to end with.
pub fn told<T: DeserializeOwned>(
    global: &Global,
    question: impl Fn(&Path) -> io::Result<Reply>,
) -> Result<(String, T), ExitCode> {
    let reply = ask(global, question)?;
    match read(&reply) {
        Ok(told) => Ok((reply.body, told)),
        Err(why) => {
            say(&format!("tidegate: {why}\n"));
            Err(ExitCode::from(exit::NO))
        }
    }
}

/// Reads an answer.
///
/// # Errors
/// The process says no, in its own words, or speaks another version.
pub fn read<T: DeserializeOwned>(reply: &Reply) -> Result<T, String> {
    if !reply.is_good() {
        return Err(reply.error());
    }
    serde_json::from_str(&reply.body)
        .map_err(|error| format!("the running process speaks another version of this: {error}"))
}

fn cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::ConnectionRefused => "no process listens".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied: use sudo".to_owned(),
        _ => error.to_string(),
    }
}
