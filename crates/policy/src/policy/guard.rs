//! Ways round a guarded path: another spelling or method that reaches the same origin by a route that guards less.
//!
//! A route *guards* its path when it refuses it with a fixed answer of 400 or above, denies it to somebody, or asks a limit that can refuse. Its
//! neighbours are found by asking the table of routes for them, so that what is told is what would happen.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, Method};

use super::route::reach::{Reach, reach};
use super::route::{Action, HostMatch, Ignore, Match, PathMatch, Route, Taken};
use super::{Mode, OnLimit, Policy, Rule};
use crate::request::{Peer, Request};

/// How a neighbour differs from the path that is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// In its spelling, which one of these would ignore.
    Spelling(Ignore),
    /// In its method.
    Method,
}

/// A request that gets past a route.
#[derive(Debug, Clone, PartialEq)]
pub struct WayRound {
    /// The position of the route that guards, and of its alternative.
    pub guard: (usize, usize),
    /// What the request differs in.
    pub difference: Difference,
    /// The request's method; `None` when it does not matter.
    pub method: Option<Method>,
    /// Its canonical path.
    pub path: String,
    /// The position of the route that takes it.
    pub taken_by: usize,
    /// The name of the limit that it is not asked for; `None`: the route that guards refuses, all requests or those of `deny`.
    pub escapes: Option<String>,
}

impl Policy {
    /// The first way round each route that guards a path, in the order of the file. Spellings are tried for an exact path or a
    /// prefix of which the file does not say what it ignores, and for one path of an expression whose requests are refused; escaped
    /// slashes only where a listener keeps them.
    pub fn ways_round(&self, keeps_escaped_slashes: bool) -> Vec<WayRound> {
        let alternatives = |route: &Route| 0..route.matches.len();
        let routes = self.routes.iter().enumerate();
        routes
            .filter_map(|(index, route)| {
                alternatives(route).find_map(|at| self.way_round((index, at), keeps_escaped_slashes))
            })
            .collect()
    }

    /// Whether a path with an escaped slash or backslash would get past a route that guards a prefix or a path of several
    /// segments. A route that says `ignore: none` is left out: its origin reads such a path as another one.
    pub fn escaped_slash_walks_round(&self) -> bool {
        self.routes.iter().enumerate().any(|(index, route)| {
            let mut alternatives = route.matches.iter().enumerate();
            alternatives.any(|(at, asked)| self.past_by_escaped_slash((index, at), asked).is_some())
        })
    }

    fn way_round(&self, guard: (usize, usize), keeps_escaped_slashes: bool) -> Option<WayRound> {
        let asked = self.routes.route(guard.0)?.matches.get(guard.1)?;
        let witness;
        let (path, exact) = match &asked.path {
            PathMatch::Exact(path) | PathMatch::Prefix(path) if !path.is_empty() => {
                (path, matches!(asked.path, PathMatch::Exact(_)))
            }
            // of an expression one path stands for all; for limits it says itself which spellings it takes
            PathMatch::Regex(regex) if refuses(self.routes.route(guard.0)?) => {
                let Reach::Path(path) = reach(regex.as_str()) else { return None };
                witness = path;
                (&witness, true)
            }
            _ => return None,
        };
        let spelt = asked.ignore.is_none().then(|| spellings(path, exact)).into_iter().flatten();
        let mut spelt = spelt.map(|(ignore, path)| (Difference::Spelling(ignore), None, Cow::Owned(path)));
        let methods = OTHER_METHODS.into_iter().filter(|method| !asked.methods.contains(method));
        let methods = methods.filter(|_| !asked.methods.is_empty());
        let mut methods = methods.map(|method| (Difference::Method, Some(method), Cow::Borrowed(path.as_str())));
        let try_one = |(difference, method, path): (Difference, Option<Method>, Cow<'_, str>)| {
            self.gets_past(guard, asked, difference, method, &path)
        };
        spelt
            .find_map(try_one)
            .or_else(|| self.past_by_escaped_slash(guard, asked).filter(|_| keeps_escaped_slashes))
            .or_else(|| methods.find_map(try_one))
    }

    fn past_by_escaped_slash(&self, guard: (usize, usize), asked: &Match) -> Option<WayRound> {
        let escaped = Ignore::ESCAPED_SLASH;
        if asked.ignore.is_some_and(|ignore| ignore == Ignore::NONE || ignore.has(escaped)) || !self.can_refuse(guard.0)
        {
            return None;
        }
        // any slash but the first
        let inner = |path: &str| {
            let (above, below) = path.rsplit_once('/')?;
            (!above.is_empty()).then(|| format!("{above}%2F{below}"))
        };
        let paths = match &asked.path {
            PathMatch::Prefix(prefix) if prefix.is_empty() => return None,
            PathMatch::Prefix(prefix) => [Some(format!("{prefix}%2Fx")), inner(prefix)],
            PathMatch::Exact(path) => [None, inner(path.trim_end_matches('/'))],
            PathMatch::Regex(regex) => match reach(regex.as_str()) {
                Reach::Path(path) => {
                    let below = regex.is_match(&format!("{path}/x")).then(|| format!("{path}%2Fx"));
                    [below, inner(&path)]
                }
                Reach::Never | Reach::Unknown => return None,
            },
        };
        let mut paths = paths.into_iter().flatten();
        paths.find_map(|path| self.gets_past(guard, asked, Difference::Spelling(escaped), None, &path))
    }

    /// Asks for a neighbour, and judges where it comes.
    fn gets_past(
        &self,
        guard: (usize, usize),
        asked: &Match,
        difference: Difference,
        method: Option<Method>,
        path: &str,
    ) -> Option<WayRound> {
        // what is chosen by a field or a parameter is left by leaving that out, and what is chosen by the client is left to others: there it is
        // no guard
        if !asked.headers.is_empty() || !asked.query.is_empty() || asked.client.is_some() {
            return None;
        }
        let sent = method.as_ref().or(asked.methods.first()).unwrap_or(&Method::GET);
        let host = match &asked.host {
            HostMatch::Any => Cow::Borrowed(""),
            HostMatch::Exact(host) => Cow::Borrowed(host.as_str()),
            HostMatch::Suffix(suffix) => Cow::Owned(format!("x{suffix}")),
        };
        let request = Request {
            peer: Peer::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            method: sent,
            host: &host,
            path,
            query: None,
            headers: &HeaderMap::new(),
            tls_sni: None,
        };
        let [taken, _] = self.routes.taken(&request, None);
        let taken = taken.filter(|taken| taken.index != guard.0 && !is_meant(taken, asked, difference, path))?;
        let escapes = self.escaped_by(self.routes.route(guard.0)?, taken.route)?;
        let method = method.or_else(|| asked.methods.first().cloned());
        Some(WayRound { guard, difference, method, path: path.to_owned(), taken_by: taken.index, escapes })
    }

    fn can_refuse(&self, route: usize) -> bool {
        let can_refuse =
            |route: &Route| refuses(route) || !route.deny.is_empty() || self.limits(route).next().is_some();
        self.routes.route(route).is_some_and(can_refuse)
    }

    /// The limits of a route that can refuse.
    fn limits<'p>(&'p self, route: &'p Route) -> impl Iterator<Item = (usize, &'p Rule)> {
        let rules = route.rules.iter().filter_map(|index| Some((*index, &**self.rules.get(*index)?)));
        rules.filter(|(_, rule)| rule.mode == Mode::Enforce && !matches!(rule.action, OnLimit::Tag { .. }))
    }

    /// What a request escapes that `taken` takes in place of `guard`: a limit by its name, or a refusal; `None`: nothing.
    fn escaped_by(&self, guard: &Route, taken: &Route) -> Option<Option<String>> {
        let Action::Forward(to) = taken.action else { return None };
        let Action::Forward(from) = guard.action else { return refuses(guard).then_some(None) };
        let [from, to] = [self.origins.get(from)?, self.origins.get(to)?];
        if !from.addresses.iter().any(|address| to.addresses.contains(address)) {
            return None;
        }
        if !guard.deny.is_empty() && guard.deny != taken.deny {
            return Some(None);
        }
        let mut escaped = self.limits(guard).filter(|(index, limit)| {
            !self.limits(taken).any(|(other, instead)| other == *index || is_no_looser(instead, limit))
        });
        escaped.next().map(|(_, limit)| Some(limit.name.clone()))
    }
}

/// Methods under which frameworks commonly run one and the same handler.
const OTHER_METHODS: [Method; 6] =
    [Method::PUT, Method::GET, Method::POST, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// The file has a route for just this request, so that is what its operator wants.
fn is_meant(taken: &Taken<'_>, asked: &Match, difference: Difference, path: &str) -> bool {
    let Some(found) = taken.alternative.and_then(|at| taken.route.matches.get(at)) else { return false };
    match (&found.path, &asked.path) {
        (PathMatch::Exact(found), _) if difference != Difference::Method => found == path,
        (PathMatch::Exact(found), PathMatch::Exact(asked)) | (PathMatch::Prefix(found), PathMatch::Prefix(asked)) => {
            difference == Difference::Method && found == asked
        }
        _ => false,
    }
}

fn refuses(route: &Route) -> bool {
    matches!(&route.action, Action::Respond(answer) if answer.status.as_u16() >= 400)
}

/// Whether a request that passes `instead` would pass `limit` at least as often.
fn is_no_looser(instead: &Rule, limit: &Rule) -> bool {
    let numbers = instead.kind.is_no_looser(&*limit.kind).unwrap_or(false);
    let same_requests = instead.key == limit.key
        && instead.by_origin == limit.by_origin
        && instead.of == limit.of
        && instead.nodes == limit.nodes
        && instead.counted == limit.counted
        && instead.cost == limit.cost;
    let no_exceptions = instead.exempt == limit.exempt && instead.tiers == limit.tiers;
    numbers && same_requests && no_exceptions && instead.enforced.get() >= limit.enforced.get()
}

/// Neighbours of a path in canonical form, each with what would have to be ignored for it.
fn spellings(path: &str, exact: bool) -> Vec<(Ignore, String)> {
    let bare = path.trim_end_matches('/');
    let mut found = Vec::new();
    if exact {
        let other = if bare == path { format!("{path}/") } else { bare.to_owned() };
        found.push((Ignore::TRAILING_SLASH, other));
    }
    found.extend(with_other_case(path).map(|path| (Ignore::CASE, path)));
    let end = if bare.is_empty() { "/" } else { bare };
    found.push((Ignore::PARAMETERS, format!("{end};a=1")));
    found.push((Ignore::TRAILING_BLANKS, format!("{end}%20")));
    if !bare.is_empty() {
        found.push((Ignore::TRAILING_BLANKS, format!("{bare}.")));
    }
    if let Some((at, plain)) = path.char_indices().find(|(_, letter)| "!$&'()*+,;=:@".contains(*letter)) {
        let (before, behind) = path.split_at_checked(at).unwrap_or_default();
        let behind = behind.strip_prefix(plain).unwrap_or(behind);
        found.push((Ignore::ESCAPES, format!("{before}%{:02X}{behind}", u32::from(plain))));
    }
    // the path `/` has no other spelling without a segment
    found.retain(|(_, path)| !path.is_empty());
    found
}

/// The path with its first letter in the other case, which is none of an escape.
fn with_other_case(path: &str) -> Option<String> {
    let mut digits = 0;
    let at = path.bytes().position(|byte| {
        let of_escape = digits > 0;
        digits = if byte == b'%' { 2 } else { u8::saturating_sub(digits, 1) };
        !of_escape && byte.is_ascii_alphabetic()
    })?;
    let (before, rest) = path.split_at_checked(at)?;
    let mut letters = rest.chars();
    let letter = letters.next()?;
    let other = if letter.is_ascii_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
    Some(format!("{before}{other}{}", letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_differ_in_one_thing_each() {
        let of = |path: &str, exact: bool| -> Vec<String> {
            spellings(path, exact).into_iter().map(|(_, path)| path).collect()
        };
        assert_eq!(of("/login", true), ["/login/", "/Login", "/login;a=1", "/login%20", "/login."]);
        assert_eq!(of("/a/b@c", false), ["/A/b@c", "/a/b@c;a=1", "/a/b@c%20", "/a/b@c.", "/a/b%40c"]);
        assert_eq!(of("/%C3%A9X/", true), ["/%C3%A9X", "/%C3%A9x/", "/%C3%A9X;a=1", "/%C3%A9X%20", "/%C3%A9X."]);
        assert_eq!(of("/", true), ["/;a=1", "/%20"]);
    }

    /// What a neighbour is said to differ in is what makes the two one.
    #[test]
    fn each_neighbour_is_the_path_under_what_it_differs_in() {
        for path in ["/login", "/a/b@c", "/%C3%A9X/", "/a.b/", "/x/y;z"] {
            for (ignore, other) in spellings(path, true) {
                let folded = |path: &str| super::super::route::fold::pattern(path, ignore.and(Ignore::TRAILING_SLASH));
                assert_eq!(folded(path), folded(&other), "{path} and {other}");
            }
        }
    }
}
