//! What the process is built from once, at start: listeners, threads, telemetry. Changing any of it needs a restart.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::units::Share;

mod http2;

pub use http2::{Http2, Protocol, Protocols};

/// The part of the file that is not the [`Policy`](crate::policy::Policy).
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// At least one, each with its name (a metric label).
    pub listeners: Vec<Listener>,
    /// Worker threads; `None` means one per core.
    pub threads: Option<usize>,
    /// How the process stops.
    pub drain: Drain,
    /// The metrics page; `None`: not served.
    pub metrics: Option<MetricsPage>,
    /// The access log; `None`: not written.
    pub access_log: Option<AccessLog>,
    /// The process's own log.
    pub log: Log,
    /// The key that turns client addresses into pseudonyms; `None`: one made at start, so pseudonyms do not outlive the process.
    pub client_hmac: Option<Secret>,
}

/// A socket to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The operator's name, `main` for the short form.
    pub name: String,
    /// Where. `:8080` in the file is `[::]:8080` here, dual stack.
    pub address: SocketAddr,
    /// What is spoken there.
    pub protocols: Protocols,
    /// What a client may ask for that speaks HTTP/2.
    pub h2: Http2,
}

impl Listener {
    /// A listener with the default of everything else.
    pub fn new(name: impl Into<String>, address: SocketAddr) -> Listener {
        Listener { name: name.into(), address, protocols: Protocols::by_default(false), h2: Http2::default() }
    }
}

/// How the process stops on SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long readiness is refused while requests are still taken.
    pub delay: Duration,
    /// How long requests in flight may take after that.
    pub timeout: Duration,
}

/// Where metrics are scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsPage {
    /// A listener of its own, never a public one.
    pub address: SocketAddr,
    /// The path, `/metrics` by default.
    pub path: String,
}

/// The access log.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// Where its lines go.
    pub to: LogTarget,
    /// How clients appear.
    pub client: ClientInLog,
    /// The share of limited (refused or would-be-refused) requests that are logged.
    pub sample_limited: Share,
    /// The share of all others.
    pub sample_other: Share,
}

/// A place for lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Appended to this file.
    File(PathBuf),
}

/// How clients appear in the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientInLog {
    /// HMAC-SHA-256 pseudonyms.
    Pseudonym,
    /// Plain addresses, because the operator asked for them.
    Address,
}

/// The process's own log, on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// The least important level that is written.
    pub level: LogLevel,
    /// How lines look.
    pub format: LogFormat,
}

/// Levels, least important last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what an operator must act on.
    Error,
    /// And what may need a look.
    Warn,
    /// And starts, stops and changes of state.
    Info,
    /// And single connections and requests.
    Debug,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal or under journald, JSON elsewhere.
    Auto,
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Key material. Not printed by `Debug`, never written anywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("‹secret›")
    }
}
