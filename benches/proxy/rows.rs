//! What is measured: four rows, and in each the proxies that it means something for.

/// One question, asked of several proxies under the same load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// Everything passes, nothing is limited.
    Plain,
    /// One limit, keyed by a trusted X-Forwarded-For with 100,000 clients, that nobody reaches; nothing told, nothing written.
    Limited,
    /// The same with RateLimit fields, metrics and access log.
    Full,
    /// One client far over its limit, on keep-alive connections.
    Refused,
}

impl Row {
    /// All of them, in the order of the table.
    pub const ALL: [Row; 4] = [Row::Plain, Row::Limited, Row::Full, Row::Refused];

    /// The row's heading.
    pub fn title(self) -> &'static str {
        match self {
            Row::Plain => "plain: every request passed on, no limit",
            Row::Limited => {
                "limited: one limit by trusted X-Forwarded-For, 100,000 clients, nobody over it; no fields, metrics or log"
            }
            Row::Full => "full: the same with RateLimit fields, metrics listener and access log",
            Row::Refused => "refused: one client over its limit, every request refused on keep-alive",
        }
    }

    /// The only status there may be.
    pub fn status(self) -> u16 {
        if self == Row::Refused { 429 } else { 200 }
    }

    /// Of how many clients the requests are.
    pub fn clients(self) -> usize {
        if self == Row::Refused { 1 } else { 100_000 }
    }

    /// What ratios are to: a proxy that adds nothing, and one that refuses everything where pingora's users do.
    pub fn baseline(self) -> Subject {
        let kind = if self == Row::Refused { Kind::Filter { body: 0 } } else { Kind::Bare };
        Subject { row: if self == Row::Refused { self } else { Row::Plain }, kind, allocator: Allocator::Mimalloc }
    }
}

/// A proxy in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The row.
    pub row: Row,
    /// Which proxy.
    pub kind: Kind,
    /// Its allocator, where we choose.
    pub allocator: Allocator,
}

/// Which proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// pingora, passing everything through.
    Bare,
    /// pingora, refusing everything in `request_filter` with a head prepared once and a body of so many bytes.
    Filter {
        /// Bytes.
        body: usize,
    },
    /// The binary of this package.
    Tidegate,
    /// nginx as installed.
    Nginx,
    /// haproxy as installed.
    Haproxy,
}

/// What allocates memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allocator {
    /// As in tidegate's binary.
    Mimalloc,
    /// The C library's.
    Default,
}

/// As long as tidegate's answer to a limited client without `Accept`, so that one of the filters writes as much as it does.
const REFUSAL_BODY: usize = 256;

impl Subject {
    /// All that mean something in `row`.
    pub fn all(row: Row) -> Vec<Subject> {
        use Allocator::{Default, Mimalloc};
        let ours = |kind| Subject { row, kind, allocator: Mimalloc };
        let default = |kind| Subject { row, kind, allocator: Default };
        let mut subjects = match row {
            Row::Plain => vec![ours(Kind::Bare), default(Kind::Bare)],
            Row::Limited | Row::Full => vec![],
            Row::Refused => vec![
                ours(Kind::Filter { body: 0 }),
                ours(Kind::Filter { body: REFUSAL_BODY }),
                default(Kind::Filter { body: 0 }),
            ],
        };
        subjects.extend([Kind::Tidegate, Kind::Nginx, Kind::Haproxy].map(ours));
        subjects
    }

    /// Its name in the table.
    pub fn name(self) -> String {
        let allocator = match self.allocator {
            Allocator::Mimalloc => "mimalloc",
            Allocator::Default => "default allocator",
        };
        match self.kind {
            Kind::Bare => format!("bare pingora, {allocator}"),
            Kind::Filter { body: 0 } => format!("pingora's filter, {allocator}"),
            Kind::Filter { body } => format!("the same, body of {body} B"),
            Kind::Tidegate => "tidegate".to_owned(),
            Kind::Nginx => "nginx".to_owned(),
            Kind::Haproxy => "haproxy".to_owned(),
        }
    }
}
