//! What the process is built from once, at start: listeners, threads, telemetry. Changing any of it needs a restart.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::policy::route::HostMatch;

mod connections;
mod http2;
mod listener;

pub use super::schema::{Connections, Drain, Http2, Log, Overload, RequestBody, RequestHead, Response, Sample};
pub use connections::{AtAccept, ProxyProtocol, RefusedNetworks};
pub use http2::Protocols;
pub use listener::{AccessLog, Listener, Settings, StateFiles};

/// Where a listener listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenOn {
    /// A TCP port. `:8080` in the file is `[::]:8080` here, dual stack.
    Ip(SocketAddr),
    /// A UNIX socket.
    Unix {
        /// Its file, from `/`.
        path: PathBuf,
        /// The file's permissions: 0 to 0o777.
        permissions: u32,
    },
    /// The socket that systemd passes under this name (`FileDescriptorName=` of a socket unit).
    Systemd(String),
}

impl ListenOn {
    /// The address and port, of a TCP port.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            ListenOn::Ip(address) => Some(*address),
            ListenOn::Unix { .. } | ListenOn::Systemd(_) => None,
        }
    }
}

/// As the policy file writes it.
impl fmt::Display for ListenOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenOn::Ip(address) => address.fmt(f),
            ListenOn::Unix { path, .. } => write!(f, "unix:{}", path.display()),
            ListenOn::Systemd(name) => write!(f, "systemd:{name}"),
        }
    }
}

/// How a listener does TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// At least one; the first is shown where none stands for the name asked for.
    pub certificates: Vec<CertificateFiles>,
    /// What clients have to show; `None`: nothing.
    pub client_certificates: Option<ClientCertificates>,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, leaf first.
    pub cert: FilePath,
    /// The private key.
    pub key: FilePath,
    /// The names that it is shown for, in lower case; empty: those that it holds.
    pub names: Vec<String>,
}

/// What is asked of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities.
    pub ca: FilePath,
    /// Whether they may come without.
    pub mode: ClientCertificateMode,
}

/// Whether clients may come without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificateMode {
    /// No.
    Required,
    /// Yes, but one that is shown must be good.
    Optional,
}

/// A file that the policy file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath {
    /// Where it is, seen from the process's directory.
    pub path: PathBuf,
    /// As it was written.
    pub written: String,
}

/// To the same address by TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirect {
    /// The port, which is left out of the address if it is 443.
    pub port: u16,
}

/// Where metrics are scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsPage {
    /// A listener of its own, never a public one.
    pub address: SocketAddr,
    /// The path, `/metrics` by default.
    pub path: String,
    /// Names that it answers to, beside IP addresses and `localhost`.
    pub hosts: Vec<HostMatch>,
}

/// Where the admin endpoints can be read over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminPage {
    /// A listener of its own, never a public one.
    pub address: SocketAddr,
    /// What whoever reads has to know; there always is one where others than this machine reach the address.
    pub token: Option<Secret>,
    /// Whether each user of this machine may read of clients and of the configuration, without a token.
    pub open: bool,
    /// Names that it answers to, beside IP addresses and `localhost`.
    pub hosts: Vec<HostMatch>,
}

/// The form of a line of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// One JSON object.
    Json,
    /// The combined format of Apache and nginx.
    Combined,
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

/// Whether requests that need nothing of the framework are served without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direct {
    /// They are.
    On,
    /// The framework serves all.
    Off,
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
