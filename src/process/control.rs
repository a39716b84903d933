//! Orders to the running process, and the private folder with the socket on which they arrive.
//!
//! An order travels as `POST /api/v1/VERB` to the [admin socket](crate::admin), with the verb's fields as a JSON object.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::admin::client;

/// The file's name in its folder.
const SOCKET: &str = "admin.sock";

/// Where the package's unit has its runtime folder.
const SYSTEM: &str = "/run/tidegate";

/// How long whoever asked may take to read the answer before the process goes on.
const PATIENCE: Duration = Duration::from_secs(5);

/// What can be ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    /// Put a new process in this one's place.
    Upgrade,
    /// Put the policy file's present content in force.
    Reload {
        /// Only say what would come of it.
        #[serde(default)]
        dry_run: bool,
    },
}

impl Verb {
    /// The member of its JSON object that holds its name.
    pub const TAG: &str = "verb";
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub done: bool,
    /// What was done, or why it was not.
    pub text: String,
    /// The same for programs, where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Value>,
}

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

/// A verb that waits for its answer.
#[derive(Debug)]
pub struct Order {
    /// What is wanted.
    pub verb: Verb,
    answer: oneshot::Sender<(Answer, oneshot::Sender<()>)>,
}

/// An order that was given.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<(Answer, oneshot::Sender<()>)>);

impl Order {
    /// An order, and what tells of its outcome.
    pub fn new(verb: Verb) -> (Order, Pending) {
        let (answer, pending) = oneshot::channel();
        (Order { verb, answer }, Pending(pending))
    }

    /// Answers it; returns when the answer has been written, so that the process may end. Whoever asked may have gone; the
    /// act is done all the same.
    pub async fn answer(self, done: bool, text: &str) {
        self.answer_with(Answer { done, text: text.to_owned(), report: None }).await;
    }

    /// The same with more to say.
    pub async fn answer_with(self, answer: Answer) {
        let (witness, written) = oneshot::channel();
        if self.answer.send((answer, witness)).is_ok() {
            let _ = timeout(PATIENCE, written).await;
        }
    }
}

impl Pending {
    /// The answer, and what is to be dropped when it has been written; `None` if nobody carries the order out.
    pub async fn answer(self) -> Option<(Answer, oneshot::Sender<()>)> {
        self.0.await.ok()
    }
}

/// Gives an order to the process that listens at `path`, and waits for its answer.
///
/// # Errors
/// Nobody answers, or not as a tidegate of this version does.
pub fn ask(path: &Path, verb: &Verb) -> io::Result<Answer> {
    ask_within(path, verb, client::LONGEST_ANSWER)
}

/// The same, and waits for so long.
///
/// # Errors
/// Nobody answers by then, or not as a tidegate of this version does.
pub fn ask_within(path: &Path, verb: &Verb, patience: Duration) -> io::Result<Answer> {
    let mut fields = serde_json::to_value(verb)?;
    let name = fields.as_object_mut().and_then(|fields| fields.remove(Verb::TAG));
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    let reply = client::post_within(path, &format!("/api/v1/{name}"), &fields, patience)?;
    // one that was not even tried is no answer of this form
    Ok(serde_json::from_str(&reply.body).unwrap_or_else(|_| Answer { done: false, text: reply.error(), report: None }))
}
