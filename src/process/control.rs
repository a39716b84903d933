//! Sends [orders](crate::admin::order) to the running process, and makes the private folder of its admin socket.
//!
//! An order travels as `POST /api/v1/VERB` to the [admin socket](crate::admin), with the verb's fields as a JSON object.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::admin::client;
use crate::admin::order::{Answer, Verb};

/// The file's name in its folder.
const SOCKET: &str = "admin.sock";

/// The runtime folder of the package's unit.
const SYSTEM: &str = "/run/tidegate";

/// The folder in which a process listens that is not told where: systemd's runtime folder for the service, or the user's own.
fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folders) = variable("RUNTIME_DIRECTORY") {
        // others may enter that one; a folder of our own in it is private
        return std::env::split_paths(&folders).next().map(|folder| folder.join("private"));
    }
    variable("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("tidegate"))
}

/// Where a process listens that is not told where.
pub fn default_path() -> Option<PathBuf> {
    folder().map(|folder| folder.join(SOCKET))
}

/// Where a verb looks that is not told where: the first of these that is there.
pub fn places() -> Vec<PathBuf> {
    default_path().into_iter().chain([Path::new(SYSTEM).join("private").join(SOCKET)]).collect()
}

/// Makes the folder private, or finds it so.
///
/// # Errors
/// Others may enter it, or it cannot be made; the text says what to do.
pub fn prepare(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    }
    let metadata = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if !ours || metadata.mode() & 0o077 != 0 {
        return Err(format!(
            "the folder {} is not private to this user (found owner {} and mode {:04o}); choose another by `--admin`, or \
             `chmod 0700` it",
            folder.display(),
            metadata.uid(),
            metadata.mode() & 0o7777
        ));
    }
    Ok(())
}

/// Sends an order to the process that listens at `path` and waits for its answer.
///
/// # Errors
/// No process answers, or one of another version.
pub fn ask(path: &Path, verb: &Verb) -> io::Result<Answer> {
    ask_within(path, verb, client::LONGEST_ANSWER)
}

/// Sends an order and waits at most `patience` for its answer.
///
/// # Errors
/// As [`ask`]; also when the time is over.
pub fn ask_within(path: &Path, verb: &Verb, patience: Duration) -> io::Result<Answer> {
    let mut fields = serde_json::to_value(verb)?;
    let name = fields.as_object_mut().and_then(|fields| fields.remove(Verb::TAG));
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    let reply = client::post_within(path, &format!("/api/v1/{name}"), &fields, patience)?;
    // one that was not even tried is no answer of this form
    Ok(serde_json::from_str(&reply.body).unwrap_or_else(|_| Answer { done: false, text: reply.error(), report: None }))
}
