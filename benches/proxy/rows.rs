//! What is measured: one row for each kind of work, and in each the same subjects.

use std::path::Path;

use crate::plan::{Plan, Shape};

/// One kind of work, given to several proxies under the same load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// Every request is forwarded, nothing is limited.
    Plain,
    /// One limit, keyed by a trusted X-Forwarded-For with 100,000 clients, that no client reaches.
    Limited,
    /// The same with RateLimit fields, metrics and a JSON access log.
    Full,
    /// One client far over its limit, on connections that stay.
    Refused,
    /// The same, a connection each.
    RefusedEach,
    /// As plain, over TLS.
    Tls,
    /// As plain, over HTTP/2.
    Http2,
    /// As plain, with answers of 64 KiB.
    Body64K,
    /// As plain, with answers of 1 MiB.
    Body1M,
}

impl Row {
    /// All of them, in the order of the table.
    pub const ALL: [Row; 9] = [
        Row::Plain,
        Row::Limited,
        Row::Full,
        Row::Refused,
        Row::RefusedEach,
        Row::Tls,
        Row::Http2,
        Row::Body64K,
        Row::Body1M,
    ];

    /// The word that chooses it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Row::Plain => "plain",
            Row::Limited => "limited",
            Row::Full => "full",
            Row::Refused => "refused",
            Row::RefusedEach => "refused_each",
            Row::Tls => "tls",
            Row::Http2 => "http2",
            Row::Body64K => "body_64k",
            Row::Body1M => "body_1m",
        }
    }

    /// The row's heading.
    pub fn title(self) -> &'static str {
        match self {
            Row::Plain => "plain: every request is forwarded",
            Row::Limited => "limited: one limit by trusted X-Forwarded-For, 100,000 clients, none over it",
            Row::Full => "full: the same with RateLimit fields, metrics and a JSON access log",
            Row::Refused => "refused: one client over its limit, connections kept open",
            Row::RefusedEach => "refused_each: the same, a connection for each request",
            Row::Tls => "tls: as plain, HTTP/1.1 over TLS 1.3, connections kept open",
            Row::Http2 => "http2: as plain, HTTP/2 over TLS 1.3, sixteen streams at once on each connection",
            Row::Body64K => "body_64k: as plain, answers of 64 KiB",
            Row::Body1M => "body_1m: as plain, answers of 1 MiB",
        }
    }

    /// What the clients do. `authority`: of the certificate, in DER.
    pub fn plan(self, authority: &Path) -> Plan {
        let plan = |shape, connections, clients| Plan { shape, connections, ..Plan::kept(clients) };
        let tls = |shape, connections| Plan { authority: Some(authority.to_owned()), ..plan(shape, connections, 1) };
        let body = |bytes| Plan { path: format!("/bytes/{bytes}"), ..plan(Shape::Kept, 16, 1) };
        match self {
            Row::Plain | Row::Limited | Row::Full => Plan::kept(100_000),
            Row::Refused => Plan::kept(1),
            Row::RefusedEach => plan(Shape::Each, 64, 1),
            Row::Tls => tls(Shape::Tls, 64),
            Row::Http2 => tls(Shape::Http2 { streams: 16 }, 8),
            Row::Body64K => body(64 << 10),
            Row::Body1M => body(1 << 20),
        }
    }

    /// The only status there may be.
    pub fn status(self) -> u16 {
        if self.refuses() { 429 } else { 200 }
    }

    /// Whether every request is refused.
    pub fn refuses(self) -> bool {
        matches!(self, Row::Refused | Row::RefusedEach)
    }

    /// Whether there is a limit.
    pub fn limits(self) -> bool {
        self.refuses() || matches!(self, Row::Limited | Row::Full)
    }

    /// Whether clients come by TLS.
    pub fn is_secure(self) -> bool {
        matches!(self, Row::Tls | Row::Http2)
    }

    /// The most that tidegate may take, as a multiple of another.
    pub fn bar(self) -> (f64, Kind) {
        match self {
            Row::Plain => (0.85, Kind::Nginx),
            Row::Limited | Row::Full => (0.80, Kind::Nginx),
            Row::Refused => (0.90, Kind::Nginx),
            Row::RefusedEach | Row::Tls => (1.05, Kind::Nginx),
            Row::Http2 => (1.0, Kind::Nginx),
            Row::Body64K | Row::Body1M => (1.0, Kind::Haproxy),
        }
    }
}

/// A proxy in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The row.
    pub row: Row,
    /// Which proxy.
    pub kind: Kind,
}

/// Which proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The binary of this package, with `server.direct` on or off.
    Tidegate {
        /// `server.direct`.
        direct: bool,
    },
    /// nginx as installed.
    Nginx,
    /// HAProxy as installed.
    Haproxy,
    /// Bare Pingora on mimalloc, as in tidegate's binary.
    Pingora,
}

/// tidegate at its best.
pub const OURS: Kind = Kind::Tidegate { direct: true };

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [OURS, Kind::Tidegate { direct: false }, Kind::Nginx, Kind::Haproxy, Kind::Pingora];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tidegate { direct: true } => "tidegate",
            Kind::Tidegate { direct: false } => "tidegate, direct: off",
            Kind::Nginx => "nginx",
            Kind::Haproxy => "haproxy",
            Kind::Pingora => "bare pingora",
        }
    }

    /// Whether it can do the row's work: bare Pingora limits nothing and writes no log. It refuses everything where its users
    /// refuse, in `request_filter`.
    pub fn does(self, row: Row) -> bool {
        self != Kind::Pingora || !matches!(row, Row::Limited | Row::Full)
    }
}

/// As long as tidegate's answer to a limited client without `Accept`, so that bare Pingora writes as much.
pub const REFUSAL_BODY: usize = 280;
