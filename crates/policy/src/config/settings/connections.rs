//! Whose connections a listener takes, how many, and how much time and space each may take: the words and their defaults, each
//! with its because.

use std::time::Duration;

use tidegate_http::head::UnderscoreTwins;
use tidegate_http::path::EscapedSlash;

use crate::units::{Bytes, Prefix, Rate};

/// All of it, for one listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Connections {
    /// Whether connections begin with a PROXY header.
    pub proxy_protocol: ProxyProtocol,
    /// The most at once.
    pub max: u32,
    /// The most at once of one client prefix; `None`: any number.
    pub per_client: Option<u32>,
    /// New ones of one client prefix: as many at once as the rate says per period; `None`: any number.
    pub handshakes: Option<Rate>,
    /// Of TLS: from its first moment to the end of the handshake.
    pub handshake_deadline: Duration,
    /// Requests on one connection.
    pub requests: u32,
    /// After this long an answer says that it is the connection's last; `None`: never.
    pub lifetime: Option<Duration>,
    /// From the end of an answer to the first byte of the next request.
    pub idle: Duration,
    /// After the last answer: how long the client may take to read it before the connection goes.
    pub linger: Duration,
    /// Whose connections are closed at once.
    pub refuse: RefusedNetworks,
    /// Whether a limit's long penalties close connections at once.
    pub refuse_at_accept: Option<AtAccept>,
    /// From the first byte of a head to its end; for the first head of a connection, from its start.
    pub head_timeout: Duration,
    /// How large a head may be.
    pub head: HeadSize,
    /// How slowly a request's body may come.
    pub request_body: Pace,
    /// How slowly an answer may be taken.
    pub response: Pace,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            proxy_protocol: ProxyProtocol::Off,
            // some 100 MiB when all of them are idle; a process that may have fewer files open than this refuses earlier
            max: 20_000,
            // a quarter of the whole, so that no single network fills it; a carrier's address can have thousands of people behind it
            per_client: Some(5_000),
            // no number is right for both one person and a carrier's address
            handshakes: None,
            // two round trips and a slow phone's arithmetic take less than a second; the rest is for lost packets
            handshake_deadline: Duration::from_secs(10),
            // bounds what a connection can accumulate, far from where reconnecting costs anything
            requests: 10_000,
            // so that clients spread again over gates that came later
            lifetime: Some(Duration::from_secs(3_600)),
            // as Pingora's own loop; browsers keep theirs for longer and cope with a close
            idle: Duration::from_secs(60),
            // a round trip to the far side of the world, twice
            linger: Duration::from_secs(2),
            refuse: RefusedNetworks::default(),
            refuse_at_accept: None,
            // a mobile client that lost two packets needs about 4 s
            head_timeout: Duration::from_secs(10),
            head: HeadSize {
                // four times what nginx and Apache take by default; room for the largest cookies browsers keep
                bytes: Bytes(32 << 10),
                // RFC 9112 section 3 asks for 8,000 at least
                line: Bytes(8 << 10),
                // Apache's default
                fields: 100,
                twins: UnderscoreTwins::Refuse,
                escaped_slash: EscapedSlash::Auto,
            },
            request_body: Pace {
                // Apache's mod_reqtimeout has shipped these two as its default since 2.4
                least_rate: 500,
                grace: Duration::from_secs(20),
                // the default body limit at 3 KiB/s; what takes longer is an upload that its operator knows of
                timeout: Some(Duration::from_secs(3_600)),
            },
            // streams of events and large files are read for as long as they last
            response: Pace { least_rate: 500, grace: Duration::from_secs(20), timeout: None },
        }
    }
}

/// Whether connections begin with a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Never: such bytes are a malformed request.
    Off,
    /// Those of trusted peers may; those of others never do.
    Optional,
    /// All do, and all come from trusted peers.
    Required,
}

/// Networks whose connections are closed at once: sorted, none inside another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefusedNetworks {
    /// The networks.
    pub networks: Vec<Prefix>,
    /// And peers on UNIX sockets.
    pub unix: bool,
}

/// Long penalties of a limit close connections before they cost anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtAccept {
    /// The limit's name.
    pub limit: String,
    /// How much longer a penalty must last for that.
    pub above: Duration,
}

impl AtAccept {
    /// A minute: a client that stops now is let in again within it, so whoever is refused at accept has gone on against refusals.
    pub const ABOVE: Duration = Duration::from_secs(60);
}

/// How large a head may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadSize {
    /// From the request line to the empty line.
    pub bytes: Bytes,
    /// The method and target together.
    pub line: Bytes,
    /// Header fields.
    pub fields: u32,
    /// Fields that imitate trusted ones.
    pub twins: UnderscoreTwins,
    /// Paths with `%2F` or `%5C`.
    pub escaped_slash: EscapedSlash,
}

/// How slowly a transfer may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes per second, above zero.
    pub least_rate: u32,
    /// The longest wait, and the most credit of time.
    pub grace: Duration,
    /// How long the whole may take, however fast it goes; `None`: any time.
    pub timeout: Option<Duration>,
}
