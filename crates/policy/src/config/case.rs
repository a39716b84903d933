//! One test of a policy, compiled: what is sent, and what must come of it. `scenario` runs it.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, StatusCode};

use super::span::Span;
use crate::policy::route::TextMatch;
use crate::units::Prefix;

/// A test.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is claimed.
    pub name: String,
    /// Where its name stands.
    pub at: Span,
    /// What is sent.
    pub steps: Vec<Step>,
    /// What must come of all of it.
    pub expected: Expected,
}

/// Requests that are alike.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where to.
    pub url: Url,
    /// Whose connections they come on, in turn; never empty.
    pub from: Vec<From>,
    /// Their method.
    pub method: Method,
    /// Their fields; in values, `{n}` stands for the request's number.
    pub headers: Vec<(HeaderName, String)>,
    /// The size of each one's body.
    pub body: u64,
    /// How many: 1 to [`Case::MOST`].
    pub count: u32,
    /// From one to the next.
    pub every: Duration,
    /// When the first is sent, from the beginning of the test.
    pub begins: Duration,
    /// What the origin answers.
    pub reply: Reply,
    /// What must come of them.
    pub expected: Expected,
}

impl Case {
    /// More requests than this in one test are refused; it would take some seconds.
    pub const MOST: u32 = 10_000_000;
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether by TLS.
    pub secure: bool,
    /// The host in lower case, without port; none stands for any.
    pub host: Option<String>,
    /// Path and query as they are sent; `{n}` stands for the request's number.
    pub target: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Url { secure, host, target } = self;
        match host {
            Some(host) => write!(f, "http{}://{host}{target}", if *secure { "s" } else { "" }),
            None => f.write_str(target),
        }
    }
}

/// Whose connection a request comes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// This address's.
    Address(IpAddr),
    /// Those of the addresses of a network, in turn.
    Network(Prefix),
    /// One over a UNIX socket.
    Unix,
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            From::Address(address) => address.fmt(f),
            From::Network(network) => network.fmt(f),
            From::Unix => f.write_str("unix"),
        }
    }
}

/// What an origin answers.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The fields.
    pub headers: HeaderMap,
    /// The size of the body.
    pub body: u64,
    /// How long it takes.
    pub takes: Duration,
}

/// From one value to another, both included; an end that is missing is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range<T> {
    /// The least.
    pub low: Option<T>,
    /// The most.
    pub high: Option<T>,
}

impl<T: PartialOrd> Range<T> {
    /// Whether the value lies in it.
    pub fn holds(&self, value: T) -> bool {
        self.low.as_ref().is_none_or(|low| value >= *low) && self.high.as_ref().is_none_or(|high| value <= *high)
    }
}

/// A range as it is written: `5`, `90..110`, `3..`, `..3`.
pub fn written<T: Copy + PartialEq, D: fmt::Display>(range: Range<T>, show: impl Fn(T) -> D) -> String {
    let end = |end: Option<T>| end.map_or_else(String::new, |end| show(end).to_string());
    match (range.low, range.high) {
        (Some(low), Some(high)) if low == high => show(low).to_string(),
        (low, high) => format!("{}..{}", end(low), end(high)),
    }
}

/// What must come of requests; what is not said may be anything.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// How many are let through.
    pub allowed: Option<Range<u64>>,
    /// How many are refused by a limit or a cap.
    pub limited: Option<Range<u64>>,
    /// By whom, each of them.
    pub by: Vec<By>,
    /// How many a shadow limit would have refused.
    pub shadowed: Option<Range<u64>>,
    /// By whom, each of them.
    pub shadowed_by: Vec<By>,
    /// How many are held back.
    pub delayed: Option<Range<u64>>,
    /// For how long, each of them.
    pub delay: Option<Range<Duration>>,
    /// How many pass marked.
    pub tagged: Option<Range<u64>>,
    /// The status, of each.
    pub status: Vec<u16>,
    /// The route, of each: its name.
    pub route: Option<String>,
    /// The client, of each: address or network, as they are shown.
    pub client: Option<String>,
    /// `Retry-After`, of each that is refused.
    pub retry_after: Option<Range<Duration>>,
    /// Fields of the answer to the last request.
    pub headers: Vec<(HeaderName, TextMatch)>,
}

impl Expected {
    /// Whether anything at all is expected.
    pub fn says_something(&self) -> bool {
        let counts = [&self.allowed, &self.limited, &self.shadowed, &self.delayed, &self.tagged];
        let names = [&self.by, &self.shadowed_by];
        counts.iter().any(|count| count.is_some())
            || names.iter().any(|names| !names.is_empty())
            || self.delay.is_some()
            || self.retry_after.is_some()
            || self.route.is_some()
            || self.client.is_some()
            || !self.status.is_empty()
            || !self.headers.is_empty()
    }
}

/// Who refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The limit at this position in the policy.
    Limit(usize),
    /// The cap of the origin at this position in the policy.
    Origin(usize),
}
