//! The index that finds a request's route without looking at all of them.
//!
//! Every alternative of every route is filed under its host, then under its path; what is filed together is tried in
//! the order of the remaining precedence. A lookup walks the candidates from the most to the least specific and stops
//! at the first that asks for nothing the request lacks. It allocates nothing. Paths that ignore spellings are filed in
//! their folded form, apart for each set of what is ignored, and the path of a request is folded once for each set.
//!
//! A stranger chooses host, path and query, so their length must not multiply: the longest suffix or prefix is found by
//! trying the *lengths that the policy holds*, never by cutting the stranger's text at each of its dots or slashes. The
//! maps need no secret seed, because only the operator's text is ever put into them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::fold::{self, Ignore, Room, Within, fold};
use super::holds::{Undecided, holds};
use super::{HostMatch, Match, PathMatch, Route};
use crate::client::Client;
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
        entries.sort_by_key(|(entry, _)| Reverse(entry.rank));
        for (entry, found) in entries {
            let Some(Match { host, path, ignore, .. }) = found else {
                table.any_host.prefixes.entry("").push(entry);
                continue;
            };
            let paths = match host {
                HostMatch::Any => &mut table.any_host,
                HostMatch::Exact(host) => table.exact_hosts.entry(host.as_str().into()).or_default(),
                HostMatch::Suffix(suffix) => table.host_suffixes.entry(suffix),
            };
            let ignore = ignore.unwrap_or_default();
            match path {
                PathMatch::Regex(_) => paths.regexes.push(entry),
                PathMatch::Exact(path) => paths.file_exact(path, ignore, entry),
                PathMatch::Prefix(prefix) => paths.file_prefix(prefix.trim_end_matches('/'), ignore, entry),
            }
        }
        table.routes = routes;
        table
    }

    /// The most specific route that takes `request`, and its position in the file; `None` when no route does. Without a client no
    /// match that names clients holds.
    ///
    /// # Errors
    /// [`Undecided`] where the most specific route that may take it cannot be told.
    pub fn find(&self, request: &Request<'_>, client: Option<&Client>) -> Result<Option<(usize, &Route)>, Undecided> {
        let Some((entry, route)) = self.best((request, client), None) else { return Ok(None) };
        route.map(|route| Some((entry.route, route)))
    }

    /// The most specific alternative that takes `request`, or that cannot tell, among those of all routes but one.
    fn best(&self, (request, client): Asked<'_>, but: Option<usize>) -> Option<Found<'_>> {
        let search = Search { routes: &self.routes, request, client, but };
        let exact = self.exact_hosts.get(request.host).and_then(|paths| search.in_paths(paths));
        exact
            .or_else(|| self.suffixes_of(request.host).find_map(|paths| search.in_paths(paths)))
            .or_else(|| search.in_paths(&self.any_host))
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
    pub fn find_with_runner_up(&self, request: &Request<'_>, client: Option<&Client>) -> [Option<(usize, &Route)>; 2] {
        self.taken(request, client).map(|taken| Some((taken?.index, taken?.route)))
    }

    /// The same two, each with the alternative of it that takes the request.
    pub fn taken(&self, request: &Request<'_>, client: Option<&Client>) -> [Option<Taken<'_>>; 2] {
        let Some(winner) = self.best((request, client), None) else { return [None, None] };
        // the winner's other alternatives are no competition
        let second = self.best((request, client), Some(winner.0.route));
        [Some(winner), second].map(|found| {
            let (entry, route) = found?;
            let route = route.ok()?;
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
    /// Those that ignore spellings, apart for each set of them.
    folded: Vec<Folded>,
}

/// The alternatives that ignore the same spellings, by their folded paths.
#[derive(Debug, Clone)]
struct Folded {
    ignore: Ignore,
    /// The length of the longest path of all.
    longest: usize,
    exact: Map<Vec<Entry>>,
    prefixes: ByLength<Vec<Entry>>,
}

impl Paths {
    fn file_exact(&mut self, path: &str, ignore: Ignore, entry: Entry) {
        let (exact, key) = match self.folded(path, ignore) {
            Some((folded, key)) => (&mut folded.exact, key),
            None => (&mut self.exact, path.into()),
        };
        exact.entry(key).or_default().push(entry);
    }

    fn file_prefix(&mut self, prefix: &str, ignore: Ignore, entry: Entry) {
        // a prefix has no slash at its end
        let ignore = if ignore == Ignore::NONE { ignore } else { ignore.and(Ignore::TRAILING_SLASH) };
        let (prefixes, key) = match self.folded(prefix, ignore) {
            Some((folded, key)) => (&mut folded.prefixes, key),
            None => (&mut self.prefixes, prefix.into()),
        };
        prefixes.entry(&key).push(Entry { length: key.len(), ..entry });
    }

    /// Where a path is filed that ignores some spellings, and as what; `None` when it is filed as it is.
    fn folded(&mut self, path: &str, ignore: Ignore) -> Option<(&mut Folded, Box<str>)> {
        let key = fold::pattern(path, ignore).filter(|_| ignore != Ignore::NONE)?;
        let at = self.folded.iter().position(|folded| folded.ignore == ignore).unwrap_or_else(|| {
            let (exact, prefixes) = (Map::default(), ByLength::default());
            self.folded.push(Folded { ignore, longest: 0, exact, prefixes });
            self.folded.len() - 1
        });
        let folded = self.folded.get_mut(at)?;
        folded.longest = folded.longest.max(key.len());
        Some((folded, key))
    }
}

impl ByLength<Vec<Entry>> {
    /// The longest prefix of `path` first, each with its length.
    fn prefixes_of<'t>(&'t self, path: &str) -> impl Iterator<Item = &'t Vec<Entry>> {
        self.longest_first(move |length| {
            // whole segments: the prefix ends where the path does or where a slash stands
            let ends = matches!(path.as_bytes().get(length), None | Some(b'/'));
            ends.then(|| path.get(..length))?
        })
    }
}

/// A request, and whose it is if that can be told.
type Asked<'r> = (&'r Request<'r>, Option<&'r Client>);

/// The question which alternative takes a request.
struct Search<'t, 'r> {
    routes: &'t [Route],
    request: &'r Request<'r>,
    client: Option<&'r Client>,
    /// Not this route.
    but: Option<usize>,
}

impl<'t> Search<'t, '_> {
    /// The most specific one for one host.
    #[inline]
    fn in_paths(&self, paths: &'t Paths) -> Option<Found<'t>> {
        if !paths.folded.is_empty() {
            return self.among_folded(paths);
        }
        let path = self.request.path;
        let exact = paths.exact.get(path).and_then(|entries| self.first_of(entries));
        exact
            .or_else(|| self.first_of(&paths.regexes))
            .or_else(|| paths.prefixes.prefixes_of(path).find_map(|entries| self.first_of(entries)))
    }

    /// The same where some ignore spellings: of several that match the path alike, the further precedence decides.
    fn among_folded(&self, paths: &'t Paths) -> Option<Found<'t>> {
        let path = self.request.path;
        let mut exact = paths.exact.get(path).and_then(|entries| self.first_of(entries));
        let mut prefix = self.longest_of(&paths.prefixes, path);
        let mut room = Room::new();
        for folded in &paths.folded {
            for within in Within::WAYS {
                let (path, ambiguous) = fold(path, folded.ignore, within, folded.longest, &mut room);
                let found = folded.exact.get(path).and_then(|entries| self.first_of(entries));
                exact = [exact, found].into_iter().flatten().max_by_key(|(entry, _)| entry.precedence());
                let found = self.longest_of(&folded.prefixes, path);
                let both = [prefix, found].into_iter().flatten();
                prefix = both.max_by_key(|(length, (entry, _))| (*length, entry.precedence()));
                if !ambiguous {
                    break;
                }
            }
        }
        exact.or_else(|| self.first_of(&paths.regexes)).or(prefix.map(|(_, found)| found))
    }

    /// The longest prefix that takes the request, with its length.
    fn longest_of(&self, prefixes: &'t ByLength<Vec<Entry>>, path: &str) -> Option<(usize, Found<'t>)> {
        let found = prefixes.prefixes_of(path).find_map(|entries| self.first_of(entries))?;
        let (entry, _) = &found;
        Some((entry.length, found))
    }

    /// The first of those filed together; they are in the order of the remaining precedence.
    fn first_of(&self, entries: &'t [Entry]) -> Option<Found<'t>> {
        entries.iter().filter(|entry| Some(entry.route) != self.but).find_map(|entry| {
            let route = self.routes.get(entry.route)?;
            match entry.asks(route).map_or(Ok(true), |asked| holds(asked, self.request, self.client)) {
                Ok(true) => Some((*entry, Ok(route))),
                Ok(false) => None,
                Err(fault) => Some((*entry, Err(fault))),
            }
        })
    }
}

/// An alternative that takes a request, or that cannot tell.
type Found<'t> = (Entry, Result<&'t Route, Undecided>);

/// One alternative of one route.
#[derive(Debug, Clone, Copy)]
struct Entry {
    route: usize,
    /// `None` for a route without alternatives.
    alternative: Option<usize>,
    /// Of the prefix under which it is filed.
    length: usize,
    rank: Rank,
}

/// What decides between alternatives of equal host and path: a named method, header matches, query matches, a named client; more is
/// first.
type Rank = (bool, usize, usize, bool);

impl Entry {
    fn asks<'t>(&self, route: &'t Route) -> Option<&'t Match> {
        route.matches.get(self.alternative?)
    }

    /// What is greater comes first, among those that match the path alike.
    fn precedence(&self) -> (Rank, Reverse<(usize, Option<usize>)>) {
        (self.rank, Reverse((self.route, self.alternative)))
    }
}

/// All alternatives in the order of the file.
fn entries(routes: &[Route]) -> Vec<(Entry, Option<&Match>)> {
    let mut entries = Vec::with_capacity(routes.len());
    for (route, found) in routes.iter().enumerate() {
        if found.matches.is_empty() {
            entries.push((Entry { route, alternative: None, length: 0, rank: (false, 0, 0, false) }, None));
        }
        for (alternative, found) in found.matches.iter().enumerate() {
            let rank = (!found.methods.is_empty(), found.headers.len(), found.query.len(), found.client.is_some());
            entries.push((Entry { route, alternative: Some(alternative), length: 0, rank }, Some(found)));
        }
    }
    entries
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
