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
use crate::request::Request;

/// How long a field's line or a parameter's value may be that an expression has to read. An engine in linear time still
/// multiplies each byte by the size of the expression, and the length is a stranger's; a longer one is refused, since one that
/// simply did not match would walk round the route.
pub const LONGEST_VALUE: usize = 4096;

/// A field or parameter that an expression would have to read is longer than [`LONGEST_VALUE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueTooLong;

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
    /// [`ValueTooLong`] where that cannot be told in bounded time.
    pub fn find(&self, request: &Request<'_>) -> Result<Option<(usize, &Route)>, ValueTooLong> {
        // the first of `takers`, without the state of an iterator over all of them
        let Request { host, .. } = *request;
        let exact = self.exact_hosts.get(host).and_then(|paths| self.first_in(paths, request));
        exact
            .or_else(|| self.suffixes_of(host).find_map(|paths| self.first_in(paths, request)))
            .or_else(|| self.first_in(&self.any_host, request))
            .transpose()
    }

    /// The first of one host that takes `request`, or that cannot tell.
    #[inline]
    fn first_in<'t>(
        &'t self,
        paths: &'t Paths,
        request: &Request<'_>,
    ) -> Option<Result<(usize, &'t Route), ValueTooLong>> {
        let first_of = |entries: &'t Vec<Entry>| {
            entries.iter().find_map(|entry| {
                let route = self.routes.get(entry.route)?;
                match entry.asks(route).map_or(Ok(true), |asked| holds(asked, request)) {
                    Ok(true) => Some(Ok((entry.route, route))),
                    Ok(false) => None,
                    Err(fault) => Some(Err(fault)),
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

    /// Every alternative that takes `request`, the most specific first, up to one that cannot tell.
    fn takers<'t>(&'t self, request: &Request<'_>) -> impl Iterator<Item = (&'t Entry, &'t Route)> {
        let Request { host, path, .. } = *request;
        let exact = self.exact_hosts.get(host).into_iter();
        exact
            .chain(self.suffixes_of(host))
            .chain(iter::once(&self.any_host))
            .flat_map(move |paths| paths.candidates(path))
            .filter_map(|entry| self.routes.get(entry.route).map(|route| (entry, route)))
            .map_while(|(entry, route)| {
                let holds = entry.asks(route).map_or(Ok(true), |asked| holds(asked, request)).ok()?;
                Some(holds.then_some((entry, route)))
            })
            .flatten()
    }
}

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

/// Whether everything holds that the index has not already looked at; the cheapest is asked first.
fn holds(asked: &Match, request: &Request<'_>) -> Result<bool, ValueTooLong> {
    if !(asked.methods.is_empty() || asked.methods.contains(request.method)) {
        return Ok(false);
    }
    for (name, value) in &asked.headers {
        if !header_holds(request.headers, name, value)? {
            return Ok(false);
        }
    }
    for (name, value) in &asked.query {
        if !query_holds(request.query.unwrap_or_default(), name, value)? {
            return Ok(false);
        }
    }
    Ok(match &asked.path {
        // no longer than a request line
        PathMatch::Regex(regex) => regex.is_match(request.path),
        PathMatch::Exact(_) | PathMatch::Prefix(_) => true,
    })
}

/// A field that came in several lines holds when one of its lines does.
fn header_holds(headers: &HeaderMap, name: &http::HeaderName, asked: &TextMatch) -> Result<bool, ValueTooLong> {
    for value in headers.get_all(name) {
        let holds = match asked {
            TextMatch::Exact(text) => value.as_bytes() == text.as_bytes(),
            TextMatch::Regex(_) if value.len() > LONGEST_VALUE => return Err(ValueTooLong),
            TextMatch::Regex(regex) => std::str::from_utf8(value.as_bytes()).is_ok_and(|value| regex.is_match(value)),
        };
        if holds {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The first parameter of that name decides, as it was sent; without `=` its value is empty.
fn query_holds(query: &str, name: &str, asked: &TextMatch) -> Result<bool, ValueTooLong> {
    let first = query.split('&').find_map(|pair| {
        let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
        (found == name).then_some(value)
    });
    let Some(value) = first else { return Ok(false) };
    match asked {
        TextMatch::Exact(text) => Ok(value == text),
        TextMatch::Regex(_) if value.len() > LONGEST_VALUE => Err(ValueTooLong),
        TextMatch::Regex(regex) => Ok(regex.is_match(value)),
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
