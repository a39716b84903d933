//! Where requests are sent: addresses, how one is chosen, how long to wait, how many at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::statuses::StatusSet;
use crate::client::key::KeySpec;
use crate::door::{PlacesSpec, Reserve, Reserved};
use crate::limiter::adaptive::AdaptiveSpec;
use crate::units::Share;

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
    /// Which requests are tried again, and how often.
    pub retries: Retries,
    /// How addresses are asked whether they are well; none means that they are not.
    pub health: Option<HealthCheck>,
    /// When addresses are left out because requests to them fail; none means never.
    pub ejection: Option<Ejection>,
    /// For how long an address that comes back gets a growing part of its weight; zero means its whole weight at once.
    pub slow_start: Duration,
    /// How the in-flight cap moves; none means that it stays. Only beside [`Origin::inflight`], whose cap is its most.
    pub adaptive: Option<AdaptiveSpec>,
    /// What becomes of requests whose client leaves while they are at work.
    pub on_client_abort: OnClientAbort,
    /// What is spoken with it.
    pub protocol: Protocol,
    /// How the connection is secured; none means in clear.
    pub tls: Option<OriginTls>,
}

impl Origin {
    /// These addresses, and everything else as it is when nothing is said about it.
    pub fn of(name: String, addresses: Vec<OriginAddress>) -> Origin {
        Origin {
            name,
            addresses,
            balance: Balance::RoundRobin,
            inflight: None,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            health: None,
            ejection: None,
            slow_start: Duration::ZERO,
            adaptive: None,
            on_client_abort: OnClientAbort::Await,
            protocol: Protocol::Http1,
            tls: None,
        }
    }
}

/// What becomes of a request that its client has left while it is with the origin, and of the places that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnClientAbort {
    /// The answer is awaited and thrown away; the places come back with its end.
    #[default]
    Await,
    /// The connection to the origin is closed; the places come back when the origin's usual duration is over.
    Close,
    /// The connection to the origin is closed, and the places come back at once.
    Release,
}

/// Which requests are tried again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retries {
    /// How often one request: 0 to 5.
    pub max: u32,
    /// No connection came to stand. Nothing was sent, so this is safe for every request.
    pub on_connect_error: bool,
    /// The connection ended before the answer began. Only of idempotent requests whose body is still at hand.
    pub on_reset_before_answer: bool,
    /// The answer did not begin in time. Only of idempotent requests whose body is still at hand.
    pub on_timeout: bool,
    /// The part of all requests that may be tried again; none means no bound but `max`.
    pub budget: Option<Share>,
}

/// How an address is asked whether it is well.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthCheck {
    /// What is asked.
    pub probe: Probe,
    /// From one check to the next: 100 ms to 1 h.
    pub every: Duration,
    /// How long one may take, connection included: at most [`HealthCheck::every`].
    pub timeout: Duration,
    /// How many in a row bring an address back: 1 to 100.
    pub healthy_after: u32,
    /// How many in a row take it out: 1 to 100.
    pub unhealthy_after: u32,
}

/// What a check asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// That a connection stands.
    Tcp,
    /// That a GET is answered with one of these statuses.
    Http {
        /// The path.
        path: String,
        /// The `Host` field; none means the address.
        host: Option<String>,
        /// The statuses of one that is well.
        statuses: StatusSet,
    },
}

/// When an address is left out because requests to it fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ejection {
    /// Failures in a row: 1 to 1,000.
    pub consecutive_failures: u32,
    /// The part of the requests in a window that fail: above 0.
    pub error_share: Share,
    /// The window, aligned to the clock: 1 s to 1 h.
    pub window: Duration,
    /// The fewest requests in a window of which a share means anything: 1 to 1,000,000.
    pub min_requests: u32,
    /// How long the first ejection lasts: 100 ms to 1 h.
    pub base: Duration,
    /// How long one lasts at most: `base` to 24 h.
    pub max: Duration,
    /// The part of an origin's addresses that may be out at once: above 0.
    pub most: Share,
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
    /// `HOST:PORT` as the policy has it, an IPv6 address in brackets: what a `Host` field or a label calls it.
    /// A UNIX socket stays as it is written.
    pub fn authority(&self) -> String {
        if self.unix_path().is_some() {
            self.host.clone()
        } else if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

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
#[derive(Debug, Clone, PartialEq)]
pub struct InflightCap {
    /// Requests at once, at least one.
    pub max: u32,
    /// How many may wait for a place; 0 means none.
    pub queue: u32,
    /// How long one may wait before it is refused.
    pub queue_timeout: Duration,
    /// Who goes next.
    pub order: QueueOrder,
    /// Places that the heaviest leave to lighter ones.
    pub reserve: Reserve,
    /// Places that less important requests leave to more important ones.
    pub reserved: Reserved,
    /// Places of their own for connections that are switched to another protocol.
    pub upgraded: u32,
}

/// Which of the requests that wait goes next.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueOrder {
    /// The one that came first.
    Arrival,
    /// The one whose key and networks hold and lately used least. The key first, then the networks around it from the narrow to the wide, at
    /// most two; each with the number of single clients that it stands for.
    Fair(Vec<(KeySpec, u32)>),
}

impl InflightCap {
    /// This many at once, and everything else as it is when nothing is said about it.
    pub fn of(max: u32) -> InflightCap {
        InflightCap {
            max,
            queue: PlacesSpec::usual_queue(max),
            queue_timeout: InflightCap::QUEUE_TIMEOUT,
            order: QueueOrder::Arrival,
            reserve: Reserve::Learned,
            reserved: Reserved::default(),
            upgraded: max,
        }
    }

    /// How long one may wait where nothing is said about it: long enough for a crowd that comes together at a small origin.
    pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(1);

    /// The nodes of its order.
    pub fn nodes(&self) -> &[(KeySpec, u32)] {
        match &self.order {
            QueueOrder::Arrival => &[],
            QueueOrder::Fair(nodes) => nodes,
        }
    }

    /// The numbers of its door.
    pub fn places(&self) -> PlacesSpec {
        let share = |level: usize| self.nodes().get(level).map_or(1.0, |(_, share)| *share as f32);
        let (queue, reserve, reserved) = (self.queue, self.reserve, self.reserved);
        PlacesSpec { queue, reserve, reserved, shares: std::array::from_fn(share), ..PlacesSpec::new(self.max) }
    }
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
    /// From an attempt's head to the answer's head; none means all that is left of the request's time.
    pub r#try: Option<Duration>,
    /// From the answer's head to its last byte; none means for as long as it flows. The connection ends after it.
    pub body: Option<Duration>,
}
