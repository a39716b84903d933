//! Sends [orders](crate::admin::order) to the running process, and makes the private folder of its admin socket.
//!
//! An order travels as `POST /api/v1/VERB` to the [admin socket](crate::admin), with the verb's fields as a JSON object.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;
use serde_json::Value;

use crate::admin::client;
use crate::admin::order::{Answer, Verb};

/// The file's name in its folder.
const SOCKET: &str = "admin.sock";

/// The runtime folder of the package's unit, and of root.
const SYSTEM: &str = "/run/tidegate";

/// The folder in a runtime folder that only its owner may enter.
const PRIVATE: &str = "private";

/// Returns the private folder of the admin socket: in systemd's runtime folder for the service, in the user's own, or for root in
/// [`SYSTEM`].
fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folders) = variable("RUNTIME_DIRECTORY") {
        // others may enter that one
        return std::env::split_paths(&folders).next().map(|folder| folder.join(PRIVATE));
    }
    if let Some(folder) = variable("XDG_RUNTIME_DIR") {
        return Some(PathBuf::from(folder).join("tidegate"));
    }
    rustix::process::geteuid().is_root().then(|| Path::new(SYSTEM).join(PRIVATE))
}

/// Returns where a process without `--admin` listens; `None`: it has no place for an admin socket.
pub fn default_path() -> Option<PathBuf> {
    folder().map(|folder| folder.join(SOCKET))
}

/// Returns where a verb without `--admin` looks: the first of these that answers. A demonstration comes last.
pub fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = default_path().into_iter().collect();
    let system = Path::new(SYSTEM).join(PRIVATE).join(SOCKET);
    if !places.contains(&system) {
        places.push(system);
    }
    let demo = demo_path();
    // whoever can make folders there could answer in its name
    if demo.parent().is_some_and(|folder| is_private(folder).is_ok()) {
        places.push(demo);
    }
    places
}

/// Returns where the user's demonstration listens: not where a service would, for which it must not be taken.
pub fn demo_path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty());
    let folder = runtime.map_or_else(
        || std::env::temp_dir().join(format!("tidegate-demo-{}", rustix::process::geteuid().as_raw())),
        |runtime| PathBuf::from(runtime).join("tidegate-demo"),
    );
    folder.join(SOCKET)
}

/// Makes the folder private, or finds it so.
///
/// # Errors
/// Others may enter it, or it cannot be made; the text says what to do.
pub fn prepare(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if let Some(system) = folder.parent().filter(|system| *system == Path::new(SYSTEM)) {
        // root has no manager that makes its runtime folder; what keeps this from being made keeps the next one, too
        let _ = DirBuilder::new().mode(0o755).create(system);
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    }
    is_private(folder)
}

/// Says whether [`prepare`] would find or make the folder private, and changes nothing.
///
/// # Errors
/// As those of [`prepare`].
pub fn examine(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if folder.exists() {
        return is_private(folder);
    }
    // root's system folder is made with it
    let above = folder
        .parent()
        .map(|above| if above == Path::new(SYSTEM) && !above.exists() { Path::new("/run") } else { above });
    let above = above.unwrap_or(Path::new("/"));
    rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| format!("{} cannot be made: {}: {error}", folder.display(), above.display()))
}

fn is_private(folder: &Path) -> Result<(), String> {
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
