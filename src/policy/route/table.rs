//! The index that finds a request's route without looking at all of them.
//!
//! Every alternative of every route is filed under its host, then under its path; what is filed together is tried in
//! the order of the remaining precedence. A lookup walks the candidates from the most to the least specific and stops
//! at the first that asks for nothing the request lacks. It allocates nothing.
//!
//! A stranger chooses host, path and query, so their length must not multiply: the longest suffix or prefix is found by
//! trying the *lengths that the policy holds*, never by cutting the stranger's text at each of its dots or slashes. The
//! maps need no secret seed, because only the operator's text is ever put into them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::iter;

use http::HeaderMap;

use super::{HostMatch, Match, PathMatch, Route, TextMatch};
use crate::client::values::{Reading, Value, readings};
use crate::request::Request;

/// All routes of a policy and the index over them.
#[derive(Debug, Clone)]
pub struct RouteTable {
    routes: Vec<Route>,
    exact_hosts: Map<Paths>,
    /// Under texts such as `.example.com`.
    host_suffixes: ByLength<Paths>,
    any_host: Paths,
}

impl RouteTable {
    /// Files every route. A route without alternatives takes everything that no other route takes.
    pub fn new(routes: Vec<Route>) -> RouteTable {
        let mut table = RouteTable {
            routes: Vec::new(),
            exact_hosts: Map::default(),
            host_suffixes: ByLength::default(),
            any_host: Paths::default(),
        };
        let mut entries = entries(&routes);
        // stable, so that the order in the file is the last word
        entries.sort_by_key(|(entry, _)| std::cmp::Reverse(entry.rank));
        for (entry, found) in entries {
            let Some(Match { host, path, .. }) = found else {
                table.any_host.prefixes.entry("").push(entry);
                continue;
            };
            let paths = match host {
                HostMatch::Any => &mut table.any_host,
                HostMatch::Exact(host) => table.exact_hosts.entry(host.as_str().into()).or_default(),
                HostMatch::Suffix(suffix) => table.host_suffixes.entry(suffix),
            };
            match path {
                PathMatch::Exact(path) => paths.exact.entry(path.as_str().into()).or_default().push(entry),
                PathMatch::Prefix(prefix) => paths.prefixes.entry(prefix.trim_end_matches('/')).push(entry),
                PathMatch::Regex(_) => paths.regexes.push(entry),
            }
        }
        table.routes = routes;
        table
    }

    /// The most specific route that takes `request`, and its position in the file; `None` when no route does.
    ///
    /// # Errors
    /// The most specific route that may take it asks for a parameter of which the request has values that fit and values that
    /// do not: which of them an application reads, nobody knows.
    pub fn find(&self, request: &Request<'_>) -> Result<Option<(usize, &Route)>, Ambiguous> {
        // the first of `takers`, without the state of an iterator over all of them
        let Request { host, .. } = *request;
        let exact = self.exact_hosts.get(host).and_then(|paths| self.first_in(paths, request));
        exact
            .or_else(|| self.suffixes_of(host).find_map(|paths| self.first_in(paths, request)))
            .or_else(|| self.first_in(&self.any_host, request))
            .transpose()
    }

    /// The first of one host that takes `request`, or of which nobody knows whether it does.
    #[inline]
    fn first_in<'t>(
        &'t self,
        paths: &'t Paths,
        request: &Request<'_>,
    ) -> Option<Result<(usize, &'t Route), Ambiguous>> {
        let first_of = |entries: &'t Vec<Entry>| {
            entries.iter().find_map(|entry| {
                let route = self.routes.get(entry.route)?;
                match entry.asks(route).map_or(Some(true), |asked| holds(asked, request)) {
                    Some(true) => Some(Ok((entry.route, route))),
                    Some(false) => None,
                    None => Some(Err(Ambiguous)),
                }
            })
        };
        let exact = paths.exact.get(request.path).and_then(first_of);
        exact.or_else(|| first_of(&paths.regexes)).or_else(|| paths.prefixes_of(request.path).find_map(first_of))
    }

    /// The longest suffix first.
    fn suffixes_of<'t>(&'t self, host: &str) -> impl Iterator<Item = &'t Paths> {
        // one label or more must be left in front of the suffix
        self.host_suffixes.longest_first(move |length| {
            let labels = host.len().checked_sub(length).filter(|labels| *labels > 0)?;
            host.get(labels..)
        })
    }

    /// What [`RouteTable::find`] finds, and the route that would have taken the request if the first were not there.
    pub fn find_with_runner_up(&self, request: &Request<'_>) -> [Option<(usize, &Route)>; 2] {
        self.taken(request).map(|taken| Some((taken?.index, taken?.route)))
    }

    /// The same two, each with the alternative of it that takes the request.
    pub fn taken(&self, request: &Request<'_>) -> [Option<Taken<'_>>; 2] {
        let mut takers = self.takers(request);
        let Some(winner) = takers.next() else { return [None, None] };
        // the winner's other alternatives are no competition
        let second = takers.find(|(entry, _)| entry.route != winner.0.route);
        [Some(winner), second].map(|found| {
            let (entry, route) = found?;
            Some(Taken { index: entry.route, route, alternative: entry.alternative })
        })
    }

    /// The route at this position in the file.
    pub fn route(&self, index: usize) -> Option<&Route> {
        self.routes.get(index)
    }

    /// All routes in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Route> {
        self.routes.iter()
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route at all.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Every alternative that takes `request`, the most specific first.
    fn takers<'t>(&'t self, request: &Request<'_>) -> impl Iterator<Item = (&'t Entry, &'t Route)> {
        let Request { host, path, .. } = *request;
        let exact = self.exact_hosts.get(host).into_iter();
        exact
            .chain(self.suffixes_of(host))
            .chain(iter::once(&self.any_host))
            .flat_map(move |paths| paths.candidates(path))
            .filter_map(|entry| self.routes.get(entry.route).map(|route| (entry, route)))
            .filter(|(entry, route)| entry.asks(route).is_none_or(|asked| holds(asked, request) == Some(true)))
    }
}

/// Nobody knows whether a route takes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ambiguous;

/// A route that takes a request.
#[derive(Debug, Clone, Copy)]
pub struct Taken<'t> {
    /// Its position in the file.
    pub index: usize,
    /// The route.
    pub route: &'t Route,
    /// Which of its alternatives; `None` when it takes everything.
    pub alternative: Option<usize>,
}

/// The alternatives for one host, by path.
#[derive(Debug, Clone, Default)]
struct Paths {
    exact: Map<Vec<Entry>>,
    regexes: Vec<Entry>,
    prefixes: ByLength<Vec<Entry>>,
}

impl Paths {
    /// All whose exact path or prefix fits, and all expressions, the most specific first.
    fn candidates<'t>(&'t self, path: &str) -> impl Iterator<Item = &'t Entry> {
        self.exact.get(path).into_iter().flatten().chain(&self.regexes).chain(self.prefixes_of(path).flatten())
    }

    /// The longest prefix first.
    fn prefixes_of<'t>(&'t self, path: &str) -> impl Iterator<Item = &'t Vec<Entry>> {
        self.prefixes.longest_first(move |length| {
            // whole segments: the prefix ends where the path does or where a slash stands
            let ends = matches!(path.as_bytes().get(length), None | Some(b'/'));
            ends.then(|| path.get(..length))?
        })
    }
}

/// One alternative of one route.
#[derive(Debug, Clone, Copy)]
struct Entry {
    route: usize,
    /// `None` for a route without alternatives.
    alternative: Option<usize>,
    rank: Rank,
}

/// What decides between alternatives of equal host and path: a named method, header matches, query matches; more is
/// first.
type Rank = (bool, usize, usize);

impl Entry {
    fn asks<'t>(&self, route: &'t Route) -> Option<&'t Match> {
        route.matches.get(self.alternative?)
    }
}

/// All alternatives in the order of the file.
fn entries(routes: &[Route]) -> Vec<(Entry, Option<&Match>)> {
    let mut entries = Vec::with_capacity(routes.len());
    for (route, found) in routes.iter().enumerate() {
        if found.matches.is_empty() {
            entries.push((Entry { route, alternative: None, rank: (false, 0, 0) }, None));
        }
        for (alternative, found) in found.matches.iter().enumerate() {
            let rank = (!found.methods.is_empty(), found.headers.len(), found.query.len());
            entries.push((Entry { route, alternative: Some(alternative), rank }, Some(found)));
        }
    }
    entries
}

/// Whether everything holds that the index has not already looked at; the cheapest is asked first. `None`: it depends on
/// which value of a parameter is read.
fn holds(asked: &Match, request: &Request<'_>) -> Option<bool> {
    let rest = (asked.methods.is_empty() || asked.methods.contains(request.method))
        && asked.headers.iter().all(|(name, value)| header_holds(request.headers, name, value))
        && match &asked.path {
            PathMatch::Regex(regex) => regex.is_match(request.path),
            PathMatch::Exact(_) | PathMatch::Prefix(_) => true,
        };
    if !rest || asked.query.is_empty() {
        return Some(rest);
    }
    let query = request.query.unwrap_or_default();
    let mut all = Some(true);
    for (name, value) in &asked.query {
        match query_holds(query, name, value) {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}

/// A field that came in several lines holds when one of its lines does.
fn header_holds(headers: &HeaderMap, name: &http::HeaderName, asked: &TextMatch) -> bool {
    headers.get_all(name).iter().any(|value| match asked {
        TextMatch::Exact(text) => value.as_bytes() == text.as_bytes(),
        TextMatch::Regex(regex) => std::str::from_utf8(value.as_bytes()).is_ok_and(|value| regex.is_match(value)),
    })
}

/// Whether the parameter's values fit, decoded; without `=` a value is empty. `None` when some do and some do not, or when
/// one reading of the query has none.
fn query_holds(query: &str, name: &str, asked: &TextMatch) -> Option<bool> {
    let fits = |reading: Reading<'_>| {
        let mut all = None;
        for value in reading.values(name) {
            let fits = match asked {
                TextMatch::Exact(text) => value.is(text),
                TextMatch::Regex(regex) => matches_decoded(regex, &value),
            };
            match all {
                None => all = Some(fits),
                Some(before) if before != fits => return None,
                Some(_) => {}
            }
        }
        Some(all.unwrap_or(false))
    };
    let [ampersands, semicolons] = readings(query);
    let first = fits(ampersands?)?;
    match semicolons {
        Some(reading) if fits(reading)? != first => None,
        _ => Some(first),
    }
}

fn matches_decoded(regex: &regex::Regex, value: &Value<'_>) -> bool {
    match value.as_sent() {
        Some(bytes) => std::str::from_utf8(bytes).is_ok_and(|value| regex.is_match(value)),
        None => String::from_utf8(value.decoded()).is_ok_and(|value| regex.is_match(&value)),
    }
}

type Map<T> = HashMap<Box<str>, T, BuildHasherDefault<DefaultHasher>>;

/// A map that can be asked for the longest of its texts that fits.
#[derive(Debug, Clone)]
struct ByLength<T> {
    /// The lengths that occur, longest first, each once.
    lengths: Vec<usize>,
    texts: Map<T>,
    /// Under the empty text, which needs no looking up: most requests end at the route for all paths.
    empty: Option<T>,
}

// not derived, because that would ask for `T: Default`
impl<T> Default for ByLength<T> {
    fn default() -> ByLength<T> {
        ByLength { lengths: Vec::new(), texts: Map::default(), empty: None }
    }
}

impl<T: Default> ByLength<T> {
    fn entry(&mut self, text: &str) -> &mut T {
        if text.is_empty() {
            return self.empty.get_or_insert_default();
        }
        if let Err(at) = self.lengths.binary_search_by(|length| text.len().cmp(length)) {
            self.lengths.insert(at, text.len());
        }
        self.texts.entry(text.into()).or_default()
    }
}

impl<T> ByLength<T> {
    /// All that is filed under one of the texts that `cut` makes of the lengths, the longest first.
    fn longest_first<'t, 'r>(&'t self, cut: impl Fn(usize) -> Option<&'r str>) -> impl Iterator<Item = &'t T> {
        let empty = self.empty.as_ref().filter(|_| cut(0).is_some());
        self.lengths.iter().filter_map(move |length| self.texts.get(cut(*length)?)).chain(empty)
    }
}
