//! Where requests are sent: addresses, how one is chosen, how long to wait, how many at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::client::key::KeySpec;

/// A group of equal servers behind one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// The operator's name for it, or the address when a route names one directly.
    pub name: String,
    /// At least one.
    pub addresses: Vec<OriginAddress>,
    /// How one of them is chosen.
    pub balance: Balance,
    /// How many requests may be with the origin at once; none means no cap.
    pub inflight: Option<InflightCap>,
    /// Deadlines, all set.
    pub timeouts: Timeouts,
    /// How often a request that never reached the origin is tried again: 0 to 5.
    pub retries: u32,
    /// What is spoken with it.
    pub protocol: Protocol,
    /// How the connection is secured; none means in clear.
    pub tls: Option<OriginTls>,
}

/// The protocols that origins are spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2: agreed in the handshake with TLS, taken for granted without.
    Http2,
}

/// TLS to an origin. Files are named here, and read where they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginTls {
    /// The name that its certificate must carry, never empty; none means the host of each address.
    pub sni: Option<String>,
    /// Files with the certificates to trust; none means those of the system.
    pub ca: Vec<PathBuf>,
    /// Whether the certificate is looked at. An origin that is not verified may be anybody.
    pub verify: bool,
    /// Who we are, for origins that ask.
    pub client_certificate: Option<CertificateFiles>,
}

impl OriginTls {
    /// All files that it rests on.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let own = self.client_certificate.iter().flat_map(|files| [&files.cert, &files.key]);
        self.ca.iter().chain(own)
    }
}

/// A certificate with those that vouch for it, and its key; PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate first, then its issuers.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// One server.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginAddress {
    /// A name or an IP address literal (IPv6 without brackets); for a UNIX socket `unix:` and its path.
    pub host: String,
    /// The TCP port; 0 for a UNIX socket.
    pub port: u16,
    /// Its part of the traffic relative to its siblings: 1 to 1,000.
    pub weight: u32,
    /// How often a name is looked up again; unused for literals.
    pub resolve: Duration,
}

impl OriginAddress {
    /// The path, if it is a UNIX socket.
    pub fn unix_path(&self) -> Option<&Path> {
        self.host.strip_prefix("unix:").map(Path::new)
    }
}

/// How an address is chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Balance {
    /// In turn, by weight, spread evenly.
    RoundRobin,
    /// The one with the fewest requests in flight per weight.
    LeastInflight,
    /// The same key goes to the same address while the address list stays the same.
    Hash(KeySpec),
}

/// The in-flight cap and what happens above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InflightCap {
    /// Requests at once, at least one.
    pub max: u32,
    /// How many may wait for a place; 0 means none.
    pub queue: u32,
    /// How long one may wait before it is refused.
    pub queue_timeout: Duration,
}

/// How long we wait for an origin. Every deadline is always set: a hung origin must never hold a place for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// Between two reads from the origin.
    pub read: Duration,
    /// For one write to the origin.
    pub write: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// From the request's head to the answer's head; 504 after it.
    pub request: Duration,
    /// From the answer's head to its last byte; none means for as long as it flows. The connection ends after it.
    pub body: Option<Duration>,
}

impl Default for Timeouts {
    /// Connect 2 s: a healthy neighbour answers in milliseconds, and one lost SYN (1 s) is still survived. Read, write
    /// 30 s: long enough for a slow report. Idle 60 s: below the 75 s of common origins, so that they never close under
    /// a request of ours. Request 60 s: what browsers' users have given up by. Body without end: downloads and streams of events
    /// may rightly take hours.
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(2),
            read: Duration::from_secs(30),
            write: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            request: Duration::from_secs(60),
            body: None,
        }
    }
}
