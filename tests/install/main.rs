//! The ways in which tidegate is installed: a container, Kubernetes and a release, each built from this tree and tried as far as this
//! machine can; what it cannot is skipped, and `./dev test` says so at its end.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test's helpers fail the test; clippy knows only its functions"
)]

mod container;
mod manifests;
mod release;

#[path = "../skips/mod.rs"]
mod skips;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Nothing here takes so long on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn read(below: &str) -> String {
    fs::read_to_string(path(below)).unwrap_or_else(|fault| panic!("{below}: {fault}"))
}

/// The program of this tree, with the variables that the policies here may name.
fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_clear().env("TIDEGATE_CLIENT_HMAC", "c2l4dGVlbiBieXRlcyBvciBtb3Jl");
    command
}

/// What a command printed and said.
fn all_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command that must succeed.
#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|fault| panic!("{command:?}: {fault}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, all_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A folder of its own, gone when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("tidegate-install-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The status of the answer to a GET, and its body.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
