//! Which route takes a request: the Gateway API's precedence.
//!
//! Host first (exact, then the longest wildcard suffix, then any), then the path (exact, then regex, then the longest prefix
//! by whole segments), then a named method, then the number of header matches, then of query matches, then a named
//! client, then the order in the file. The first that matches everything it asks for wins. (Gateway API v1, `HTTPRouteRule.matches`; where that
//! leaves regular expressions to the implementation, ours stand between exact and prefix.)
//!
//! A host without a fitting path is no dead end: the search goes on with the next less specific host.
//!
//! A path that ignores spellings ([`Ignore`]) is exact or a prefix like any other.

pub mod fold;
mod holds;
pub mod reach;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes as Body;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use regex::{Regex, RegexBuilder};

use super::client_list::ClientList;
use super::cors::Cors;
use super::edit::HeaderEdits;
use super::origin::Timeouts;
use super::response::OwnAnswer;
use crate::request::Request;
use crate::units::{Bytes, Criticality};
pub use fold::{Ignore, KeyRoom};
pub use holds::{LONGEST_VALUE, Undecided};
pub use table::{RouteTable, Taken};

/// One route of the policy file.
#[derive(Debug, Clone)]
pub struct Route {
    /// The operator's name, or `route_N` by its place in the file (from 0). A metric label.
    pub name: String,
    /// What it takes: any of these. Empty means everything.
    pub matches: Vec<Match>,
    /// Positions in [`super::Policy::rules`], in file order; at most [`Route::MAX_RULES`].
    pub rules: Vec<usize>,
    /// What is done with an admitted request.
    pub action: Action,
    /// Edits of the request on its way to the origin.
    pub request_headers: HeaderEdits,
    /// Edits of the origin's answer on its way to the client.
    pub response_headers: HeaderEdits,
    /// Which pages of other sites may read its answers; `None`: the gate says nothing about that.
    pub cors: Option<Cors>,
    /// What it says itself of answers to clients that are over a limit, over what the policy says for all.
    pub limited: OwnAnswer,
    /// The same where there is no capacity.
    pub overloaded: OwnAnswer,
    /// The largest request body, 413 above it; `None` for no limit.
    pub body_limit: Option<Bytes>,
    /// The origin's deadlines with this route's own put over them.
    pub timeouts: Timeouts,
    /// How much its requests matter where not all can be served.
    pub criticality: Criticality,
    /// Whose requests it refuses.
    pub deny: Arc<ClientList>,
}

impl Route {
    /// More limits than this on one route are a load error: a decision's record has a fixed size.
    pub const MAX_RULES: usize = 8;

    /// Returns whether the gate answers this request itself, as it is a preflight and the route has a `cors:` section.
    #[inline]
    pub fn answers_preflight(&self, request: &Request<'_>) -> bool {
        self.cors.is_some() && request.preflight().is_some()
    }

    /// A request as keys of this route count it: with its path as each spelling of it counts that one of the matches ignores.
    pub fn counted<'r>(&self, request: &Request<'r>, room: &'r mut KeyRoom) -> Request<'r> {
        let ignore = self.matches.iter().filter_map(|asked| asked.ignore).fold(Ignore::NONE, Ignore::and);
        let path = if ignore == Ignore::NONE { request.path } else { fold::counted(request.path, ignore, room) };
        Request { path, ..*request }
    }
}

/// What is done with an admitted request.
#[derive(Debug, Clone)]
pub enum Action {
    /// Sent to the origin at this position in [`super::Policy::origins`].
    Forward(usize),
    /// Answered by us.
    Respond(FixedAnswer),
}

/// An answer written in the policy file.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedAnswer {
    /// 200 to 599.
    pub status: StatusCode,
    /// Sent as it stands; `Content-Length` is ours.
    pub body: Body,
    /// Further fields, `Content-Type` among them.
    pub headers: HeaderMap,
}

/// What one alternative of a route asks for; every part that is present must hold.
#[derive(Debug, Clone)]
pub struct Match {
    /// The host.
    pub host: HostMatch,
    /// The path.
    pub path: PathMatch,
    /// Which spellings of an exact path or a prefix count as that path; `None`: the file does not say, and none do.
    pub ignore: Option<Ignore>,
    /// The methods; empty means any.
    pub methods: Vec<Method>,
    /// Header fields, each by name.
    pub headers: Vec<(HeaderName, TextMatch)>,
    /// Query parameters, each by name, decoded.
    pub query: Vec<(String, TextMatch)>,
    /// The resolved client; `None` means any.
    pub client: Option<Arc<ClientList>>,
}

/// A host, without port, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostMatch {
    /// Any.
    Any,
    /// This one.
    Exact(String),
    /// One or more labels before this suffix; holds `.example.com` for `*.example.com`.
    Suffix(String),
}

/// A path. Make its expression with [`whole`].
#[derive(Debug, Clone)]
pub enum PathMatch {
    /// This one, byte for byte.
    Exact(String),
    /// This one and everything below it by whole segments: `/a` takes `/a` and `/a/b`, never `/ab`. Stored without a trailing slash, `/` as empty text.
    Prefix(String),
    /// Anything the expression matches as a whole; linear time.
    Regex(Regex),
}

/// A header's or query parameter's value. Make its expression with [`whole`].
///
/// A header that came in several lines matches when one of its lines does. A query parameter is compared decoded; one that has values
/// that match and values that do not is [`Undecided::Ambiguous`].
#[derive(Debug, Clone)]
pub enum TextMatch {
    /// Exactly this.
    Exact(String),
    /// Anything the expression matches as a whole.
    Regex(Regex),
}

/// An expression that matches a text as a whole or not at all, which the engine itself would leave to the pattern. A `.` stands for a
/// line break too: a parameter may hold one (`%0A`), and `.*` means whatever comes.
///
/// # Errors
/// The pattern itself is faulty, or too large for the engine's default limits.
pub fn whole(pattern: &str) -> Result<Regex, regex::Error> {
    // by itself first: its own faults are told about its own text, and `a)|(b` cannot break out of the group below
    Regex::new(pattern)?;
    // a comment of the `x` flag at the pattern's end would swallow the closing bracket; a line break ends it
    let build = |whole: &str| RegexBuilder::new(whole).dot_matches_new_line(true).build();
    build(&format!(r"\A(?:{pattern})\z")).or_else(|_| build(&format!("\\A(?:{pattern}\n)\\z")))
}
