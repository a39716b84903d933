//! The control channel: a UNIX socket in a private folder, on which the operator's verbs reach the running process.
//!
//! Only the process's own user and root are heard. A request and its answer are one line of JSON each.

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The file's name in its folder.
const SOCKET: &str = "control.sock";

/// Where the package's unit has its runtime folder.
const SYSTEM: &str = "/run/tidegate";

/// How long a verb may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer may take: the longest thing asked for is an upgrade, which has its own deadline below this.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);

/// No request is longer.
const LONGEST_REQUEST: u64 = 4096;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Put a new process in this one's place.
    Upgrade,
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    verb: Verb,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub done: bool,
    /// What was done, or why it was not.
    pub text: String,
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
            "the folder {} is not private to this user (found owner {} and mode {:04o}); choose another by `--control`, or \
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
    stream: tokio::net::UnixStream,
}

impl Order {
    /// Answers it. Whoever asked may have gone; the act is done all the same.
    pub async fn answer(mut self, done: bool, text: &str) {
        let Ok(mut line) = serde_json::to_vec(&Answer { done, text: text.to_owned() }) else { return };
        line.push(b'\n');
        let _ = timeout(PATIENCE, self.stream.write_all(&line)).await;
    }
}

/// Takes orders until nobody wants them any more.
pub async fn listen(socket: std::os::unix::net::UnixListener, orders: mpsc::Sender<Order>) {
    let listener = match tokio::net::UnixListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "no control socket"),
    };
    loop {
        let accepted = tokio::select! {
            () = orders.closed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let orders = orders.clone();
                tokio::spawn(async move {
                    if let Ok(Some(order)) = timeout(PATIENCE, read(stream)).await {
                        // a process that is about to end takes no orders, and its asker sees the connection close
                        let _ = orders.send(order).await;
                    }
                });
            }
            // out of descriptors, mostly: trying again at once would take a core
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn read(mut stream: tokio::net::UnixStream) -> Option<Order> {
    let peer = stream.peer_cred().ok()?;
    if peer.uid() != 0 && peer.uid() != rustix::process::geteuid().as_raw() {
        tracing::warn!(uid = peer.uid(), "the control socket: another user asks for something");
        return None;
    }
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let room = LONGEST_REQUEST.saturating_sub(line.len() as u64);
        if (&mut stream).take(room).read_buf(&mut line).await.ok()? == 0 {
            return None;
        }
    }
    match serde_json::from_slice::<Request>(&line) {
        Ok(request) => Some(Order { verb: request.verb, stream }),
        Err(error) => {
            Order { verb: Verb::Upgrade, stream }.answer(false, &format!("not understood: {error}")).await;
            None
        }
    }
}

/// Asks the process that listens at `path`, and waits for its answer.
///
/// # Errors
/// Nobody answers.
pub fn ask(path: &Path, verb: Verb) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(LONGEST_ANSWER))?;
    let mut line = serde_json::to_vec(&Request { verb })?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(1 << 20)).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection without an answer"));
    }
    Ok(serde_json::from_str(&answer)?)
}
