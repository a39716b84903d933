//! What the process is built from once, at start: listeners, threads, telemetry. Changing any of it needs a restart.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::policy::route::HostMatch;
use crate::units::{Bytes, Rate, Share};

mod connections;
mod http2;

pub use connections::{AtAccept, Connections, HeadSize, Pace, ProxyProtocol, RefusedNetworks};
pub use http2::{Http2, Protocols};

/// The part of the file that is not the [`Policy`](crate::policy::Policy).
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// At least one, each with its name (a metric label).
    pub listeners: Vec<Listener>,
    /// Worker threads; `None` means one per core.
    pub threads: Option<usize>,
    /// How many bytes of bodies the process holds at most.
    pub max_buffered: Bytes,
    /// How the process stops.
    pub drain: Drain,
    /// The metrics page; `None`: not served.
    pub metrics: Option<MetricsPage>,
    /// Where the admin endpoints can be read over TCP; `None`: nowhere, and the admin socket is all there is.
    pub admin: Option<AdminPage>,
    /// The access log; `None`: not written.
    pub access_log: Option<AccessLog>,
    /// The process's own log.
    pub log: Log,
    /// The key that turns client addresses into pseudonyms; `None`: one made at start, so pseudonyms do not outlive the process.
    pub client_hmac: Option<Secret>,
    /// The key before it, while gates that share limits are given a new one; another than that.
    pub previous_client_hmac: Option<Secret>,
    /// The passwords of the stores, in the order of [`Policy::stores`](crate::policy::Policy::stores); `None` for one without.
    /// They change while the process runs, as the stores do.
    pub store_passwords: Vec<Option<Secret>>,
    /// How often to look whether the files have changed; `None`: never.
    pub watch: Option<Duration>,
}

impl Settings {
    /// What the keys of shared limits are named under, and were while the key is being replaced; `None`: nothing can be shared.
    pub fn naming(&self) -> Option<(&[u8], Option<&[u8]>)> {
        let previous = self.previous_client_hmac.as_ref();
        Some((&self.client_hmac.as_ref()?.0, previous.map(|previous| previous.0.as_slice())))
    }
}

/// A socket to listen on.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The operator's name, `main` for the short form.
    pub name: String,
    /// Where.
    pub address: ListenOn,
    /// Whose connections it takes, how many, and what each may take.
    pub connections: Connections,
    /// How it does TLS; `None`: it speaks without.
    pub tls: Option<Tls>,
    /// Where its requests are sent instead of being served.
    pub redirect: Option<Redirect>,
    /// What is spoken there.
    pub protocols: Protocols,
    /// What a client may ask for that speaks HTTP/2.
    pub h2: Http2,
}

impl Listener {
    /// One without TLS that serves what it takes, with the default of everything else.
    pub fn new(name: impl Into<String>, address: ListenOn) -> Listener {
        Listener {
            name: name.into(),
            address,
            connections: Connections::default(),
            tls: None,
            redirect: None,
            protocols: Protocols::by_default(false),
            h2: Http2::default(),
        }
    }
}

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

/// The access log.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// Where its lines go.
    pub to: LogTarget,
    /// How a line looks.
    pub format: LineFormat,
    /// How clients appear.
    pub client: ClientInLog,
    /// The share of limited (refused or would-be-refused) requests that are logged.
    pub sample_limited: Share,
    /// The share of all others.
    pub sample_other: Share,
    /// The most lines of refused requests; `None`: no bound.
    pub most_refused: Option<Rate>,
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
