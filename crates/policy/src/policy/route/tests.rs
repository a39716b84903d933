//! Claims about the route index, the last of them against a reference that sorts everything.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};

use http::HeaderValue;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::request::{Peer, Request};

mod clients;
mod long_values;

/// One alternative out of the short forms used below: `host path`, where a host may be `*` or `*.suffix`, a path
/// `=exact`, `~expression` or a prefix, and `!` before it ignores all spellings.
fn alternative(text: &str) -> Match {
    let (host, path) = text.split_once(' ').unwrap();
    let host = match host.strip_prefix('*') {
        Some("") => HostMatch::Any,
        Some(suffix) => HostMatch::Suffix(suffix.to_owned()),
        None => HostMatch::Exact(host.to_owned()),
    };
    let (ignore, path) = match path.strip_prefix('!') {
        Some(path) => (Some(Ignore::ALL), path),
        None => (None, path),
    };
    let path = match path.split_at(1) {
        ("=", exact) => PathMatch::Exact(exact.to_owned()),
        ("~", pattern) => PathMatch::Regex(whole(pattern).unwrap()),
        _ => PathMatch::Prefix(path.trim_end_matches('/').to_owned()),
    };
    Match { host, path, ignore, methods: Vec::new(), headers: Vec::new(), query: Vec::new(), client: None }
}

fn route(matches: Vec<Match>) -> Route {
    Route {
        name: String::new(),
        matches,
        rules: Vec::new(),
        action: Action::Forward(0),
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        cors: None,
        limited: Default::default(),
        overloaded: Default::default(),
        deny: Default::default(),
        body_limit: None,
        timeouts: Timeouts::default(),
        criticality: Default::default(),
    }
}

fn table(routes: &[&str]) -> RouteTable {
    RouteTable::new(routes.iter().map(|text| route(vec![alternative(text)])).collect())
}

/// What a test varies of a request.
#[derive(Debug, Clone)]
struct Asked {
    method: Method,
    host: String,
    path: String,
    query: Option<String>,
    headers: HeaderMap,
}

impl Asked {
    fn new(host: &str, path: &str) -> Asked {
        Asked { method: Method::GET, host: host.into(), path: path.into(), query: None, headers: HeaderMap::new() }
    }

    fn request(&self) -> Request<'_> {
        Request {
            peer: Peer::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            method: &self.method,
            host: &self.host,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &self.headers,
            tls_sni: None,
        }
    }

    fn finds(&self, table: &RouteTable) -> Option<usize> {
        self.finds_surely(table).expect("no parameter with several values")
    }

    fn finds_surely(&self, table: &RouteTable) -> Result<Option<usize>, Undecided> {
        Ok(table.find(&self.request(), None)?.map(|(index, _)| index))
    }

    fn finds_two(&self, table: &RouteTable) -> (Option<usize>, Option<usize>) {
        let [winner, runner_up] = table.find_with_runner_up(&self.request(), None);
        (winner.map(|(index, _)| index), runner_up.map(|(index, _)| index))
    }
}

fn finds(table: &RouteTable, host: &str, path: &str) -> Option<usize> {
    Asked::new(host, path).finds(table)
}

#[test]
fn hosts_go_from_exact_over_the_longest_suffix_to_any() {
    let table = table(&["* /", "*.example.com /", "*.shop.example.com /", "a.shop.example.com /"]);
    assert_eq!(finds(&table, "a.shop.example.com", "/"), Some(3));
    assert_eq!(finds(&table, "b.shop.example.com", "/"), Some(2));
    assert_eq!(finds(&table, "shop.example.com", "/"), Some(1));
    assert_eq!(finds(&table, "example.com", "/"), Some(0));
    assert_eq!(finds(&table, "", "/"), Some(0));
}

#[test]
fn a_wildcard_takes_one_label_or_more_and_never_part_of_one() {
    let table = table(&["*.example.com /"]);
    assert_eq!(finds(&table, "a.example.com", "/"), Some(0));
    assert_eq!(finds(&table, "a.b.c.example.com", "/"), Some(0));
    assert_eq!(finds(&table, "example.com", "/"), None);
    assert_eq!(finds(&table, ".example.com", "/"), None);
    assert_eq!(finds(&table, "anexample.com", "/"), None);
    assert_eq!(finds(&table, "a.example.com.evil.org", "/"), None);
}

#[test]
fn paths_go_from_exact_over_expressions_to_the_longest_prefix() {
    let table = table(&["* /", "* /a/b", "* /a", "* =/a/b/c", "* ~/a/[a-z]/d"]);
    assert_eq!(finds(&table, "h", "/a/b/c"), Some(3));
    assert_eq!(finds(&table, "h", "/a/b/d"), Some(4));
    assert_eq!(finds(&table, "h", "/a/b/e"), Some(1));
    assert_eq!(finds(&table, "h", "/a/c"), Some(2));
    assert_eq!(finds(&table, "h", "/b"), Some(0));
}

#[test]
fn a_prefix_ends_where_a_segment_ends() {
    let table = table(&["* /a/"]);
    for taken in ["/a", "/a/", "/a/b", "/a//"] {
        assert_eq!(finds(&table, "h", taken), Some(0), "{taken}");
    }
    for left in ["/", "/ab", "/A", "/b/a", "*", ""] {
        assert_eq!(finds(&table, "h", left), None, "{left}");
    }
}

#[test]
fn an_expression_matches_all_of_a_path_or_nothing() {
    let table = table(&["* ~/a|/ab", "* ~(?x) /c # comment"]);
    assert_eq!(finds(&table, "h", "/ab"), Some(0));
    assert_eq!(finds(&table, "h", "/abc"), None);
    assert_eq!(finds(&table, "h", "/x/a"), None);
    assert_eq!(finds(&table, "h", "/a\n"), None);
    assert_eq!(finds(&table, "h", "/c"), Some(1));
    assert!(whole("a)|(b").is_err());
}

#[test]
fn a_path_that_ignores_spellings_is_exact_or_a_prefix_like_any_other() {
    let table = table(&["* !=/login", "* =/login/", "* !/Admin", "* /admin/open", "* ~/admin/.*", "* /"]);
    for (path, wanted) in [
        ("/login", 0),
        ("/Login;a=1", 0),
        // as exact, and first in the file
        ("/login/", 0),
        ("/login/x", 5),
        ("/logins", 5),
        ("/ADMIN", 2),
        ("/ADMIN/open", 2),
        ("/admin%2Fopen", 2),
        // an expression goes before prefixes, in any spelling
        ("/admin/open", 4),
        ("/administrator", 5),
        ("/log;in", 5),
        ("/login;%2Fx", 0),
    ] {
        assert_eq!(finds(&table, "h", path), Some(wanted), "{path}");
    }
    // a method decides between exact paths before the file's order does
    let posted = Match { methods: vec![Method::GET], ..alternative("* !=/a") };
    let table = RouteTable::new(vec![route(vec![alternative("* =/a")]), route(vec![posted])]);
    assert_eq!(finds(&table, "h", "/a"), Some(1));
}

#[test]
fn the_search_goes_on_where_a_more_specific_host_has_no_fitting_path() {
    let table = table(&["shop.example.com /api", "*.example.com /"]);
    assert_eq!(finds(&table, "shop.example.com", "/other"), Some(1));
}

#[test]
fn method_then_headers_then_query_then_the_files_order_decide() {
    let with = |edit: fn(&mut Match)| {
        let mut found = alternative("* /");
        edit(&mut found);
        route(vec![found])
    };
    let json = || (http::header::ACCEPT, TextMatch::Exact("json".into()));
    let table = RouteTable::new(vec![
        route(Vec::new()),
        with(|_| ()),
        with(|found| found.query = vec![("v".into(), TextMatch::Exact("2".into()))]),
        with(|found| found.headers = vec![(http::header::ACCEPT, TextMatch::Exact("json".into()))]),
        with(|found| found.methods = vec![Method::POST, Method::PUT]),
    ]);
    let mut asked = Asked::new("h", "/");
    assert_eq!(asked.finds(&table), Some(0));
    asked.query = Some("a&v=2&v=%32".into());
    assert_eq!(asked.finds(&table), Some(2));
    let (name, _) = json();
    asked.headers.append(&name, HeaderValue::from_static("text"));
    assert_eq!(asked.finds(&table), Some(2));
    asked.headers.append(&name, HeaderValue::from_static("json"));
    assert_eq!(asked.finds(&table), Some(3));
    asked.method = Method::PUT;
    assert_eq!(asked.finds(&table), Some(4));
}

#[test]
fn a_query_parameter_is_compared_decoded() {
    let mut found = alternative("* /");
    found.query = vec![("v".into(), TextMatch::Exact("a b".into())), ("flag".into(), TextMatch::Exact(String::new()))];
    let table = RouteTable::new(vec![route(vec![found])]);
    for (query, takes) in [
        ("v=a b&flag", true),
        ("flag=&v=a b", true),
        ("v=a%20b&flag", true),
        ("%76=a+b&fla%67=", true),
        ("v=a b&flag&v=a+b", true),
        ("v=a b", false),
        ("v=a%2520b&flag", false),
        ("v=a b=&flag", false),
        ("", false),
    ] {
        let asked = Asked { query: Some(query.into()), ..Asked::new("h", "/") };
        assert_eq!(asked.finds(&table).is_some(), takes, "{query}");
    }
    assert_eq!(finds(&table, "h", "/"), None);
}

#[test]
fn a_parameter_of_which_some_values_fit_is_ambiguous() {
    let with = |asked: TextMatch| {
        let mut found = alternative("* /");
        found.query = vec![("v".into(), asked), ("w".into(), TextMatch::Exact("1".into()))];
        found.methods = vec![Method::GET];
        RouteTable::new(vec![route(Vec::new()), route(vec![found])])
    };
    let exact = with(TextMatch::Exact("a".into()));
    let regex = with(TextMatch::Regex(whole("a|a[+]b").unwrap()));
    for (query, taken) in [
        ("v=a&w=1", Ok(Some(1))),
        ("v=%61&w=1&v=a", Ok(Some(1))),
        ("v=b&w=1", Ok(Some(0))),
        ("v=a&v=b&w=1", Err(Undecided::Ambiguous)),
        ("v=b&v=a&w=1", Err(Undecided::Ambiguous)),
        ("v=a;x=2&w=1", Err(Undecided::Ambiguous)),
        ("x=2;v=a&w=1", Err(Undecided::Ambiguous)),
        ("v=a&v=b&w=2", Ok(Some(0))),
        ("v=a&v=b&w=1;2", Err(Undecided::Ambiguous)),
    ] {
        let asked = Asked { query: Some(query.into()), ..Asked::new("h", "/") };
        assert_eq!(asked.finds_surely(&exact), taken, "{query}");
        assert_eq!(asked.finds_surely(&regex), taken, "{query}");
        let posted = Asked { method: Method::POST, query: Some(query.into()), ..Asked::new("h", "/") };
        assert_eq!(posted.finds_surely(&exact), Ok(Some(0)), "{query}");
    }
    let plus = Asked { query: Some("v=a%2Bb&w=1".into()), ..Asked::new("h", "/") };
    assert_eq!(plus.finds(&regex), Some(1), "an escaped plus is one");
}

#[test]
fn the_runner_up_is_another_route() {
    let table = RouteTable::new(vec![
        route(vec![alternative("* /a"), alternative("* =/a"), alternative("* ~/a")]),
        route(vec![alternative("* /")]),
    ]);
    let asked = Asked::new("h", "/a");
    assert_eq!(asked.finds_two(&table), (Some(0), Some(1)));
    let asked = Asked::new("h", "/b");
    assert_eq!(asked.finds_two(&table), (Some(1), None));
}

#[test]
fn routes_are_listed_in_the_order_of_the_file() {
    let table = table(&["b /", "a /"]);
    assert_eq!((table.len(), table.is_empty(), table.iter().len()), (2, false, 2));
    assert!(matches!(&table.route(1).unwrap().matches[0].host, HostMatch::Exact(host) if host == "a"));
    assert!(table.route(2).is_none());
    assert_eq!(finds(&RouteTable::new(Vec::new()), "a", "/"), None);
}

#[test]
fn texts_of_any_length_and_script_are_harmless() {
    let routes: Vec<String> =
        (0..200).map(|n| format!("*.{}example.com /{}", "a.".repeat(n), "b/".repeat(n))).collect();
    let table = table(&routes.iter().map(String::as_str).collect::<Vec<_>>());
    for unit in [".", "/", "a.", "b/", "ü", "\u{0}", "example.com.", "&="] {
        let long = unit.repeat(30_000);
        for host in [long.as_str(), "ü.example.com", "\u{fffd}.example.com"] {
            let asked = Asked { query: Some(long.clone()), ..Asked::new(host, &format!("/{long}")) };
            let _ = asked.finds(&table);
        }
    }
    assert_eq!(finds(&table, "ü.example.com", "/ü"), Some(0));
}

#[test]
fn a_lookup_allocates_nothing() {
    let table = table(&["a.b.c /", "*.b.c /a/b", "* =/a", "* ~/x/.*", "* /", "* !=/Login", "* !/admin/"]);
    let asked =
        ["/a/b/c", "/a", "/x/y", "/", "/LOGIN;a=1/", "/admin%2Fx", "/login;%2Fx"].map(|path| Asked::new("z.b.c", path));
    let look = || asked.iter().for_each(|asked| assert!(asked.finds(&table).is_some()));
    // the expression's engine makes its scratch memory on its first use in a thread
    look();
    assert_eq!(allocation_counter::measure(look).count_total, 0);
}

/// Where an alternative stands among all that take the request; the greatest wins. Written from the specification, not
/// from the index.
type Standing = ((u8, usize), (u8, usize), bool, usize, usize, Reverse<(usize, usize)>);

fn standing(asked: &Asked, found: &Match, place: (usize, usize)) -> Option<Standing> {
    let host = match &found.host {
        HostMatch::Any => (0, 0),
        HostMatch::Suffix(suffix) if asked.host.len() > suffix.len() && asked.host.ends_with(suffix) => {
            (1, suffix.len())
        }
        HostMatch::Exact(host) if *host == asked.host => (2, 0),
        _ => return None,
    };
    // how spellings are folded is held to other readers elsewhere
    let folded = |path: &str| match found.ignore {
        Some(ignore) => fold::pattern(path, ignore).unwrap().into_string(),
        None => path.to_owned(),
    };
    let below = |prefix: &str| format!("{}/", folded(&asked.path)).starts_with(&format!("{}/", folded(prefix)));
    let path = match &found.path {
        PathMatch::Prefix(prefix) if below(prefix) => (0, folded(prefix).len()),
        PathMatch::Regex(regex) if regex.is_match(&asked.path) => (1, 0),
        PathMatch::Exact(path) if folded(path) == folded(&asked.path) => (2, 0),
        _ => return None,
    };
    let method = found.methods.is_empty() || found.methods.contains(&asked.method);
    let text = |asked: &TextMatch, value: &str| match asked {
        TextMatch::Exact(text) => text == value,
        TextMatch::Regex(regex) => regex.is_match(value),
    };
    let headers = found
        .headers
        .iter()
        .all(|(name, value)| asked.headers.get_all(name).iter().any(|line| text(value, line.to_str().unwrap())));
    let pairs: Vec<(&str, &str)> = match &asked.query {
        Some(query) => query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect(),
        None => Vec::new(),
    };
    let query = found
        .query
        .iter()
        .all(|(name, value)| pairs.iter().find(|(key, _)| key == name).is_some_and(|(_, found)| text(value, found)));
    (method && headers && query).then_some((
        host,
        path,
        !found.methods.is_empty(),
        found.headers.len(),
        found.query.len(),
        Reverse(place),
    ))
}

/// Sorts everything that takes the request, as the specification is worded.
fn reference(asked: &Asked, routes: &[Vec<Match>]) -> (Option<usize>, Option<usize>) {
    let mut takers = Vec::new();
    for (index, matches) in routes.iter().enumerate() {
        let any = [alternative("* /")];
        let matches = if matches.is_empty() { &any[..] } else { matches };
        for (at, found) in matches.iter().enumerate() {
            takers.extend(standing(asked, found, (index, at)).map(|standing| (standing, index)));
        }
    }
    takers.sort_by_key(|(standing, _)| Reverse(*standing));
    let winner = takers.first().map(|(_, index)| *index);
    let runner_up = takers.iter().map(|(_, index)| *index).find(|index| Some(*index) != winner);
    (winner, runner_up)
}

const HOSTS: [&str; 7] = ["*", "a.b.c", "b.c", "x.b.c", "*.b.c", "*.c", "*.a.b.c"];
const PATHS: [&str; 14] = [
    "/",
    "/a",
    "/a/b",
    "/a/b/c",
    "=/a",
    "=/a/b",
    "=/",
    "~/a(/.*)?",
    "~/a/./c",
    "!/",
    "!/A",
    "!/a/B/",
    "!=/A/",
    "!=/a/b",
];

/// Expressions are compiled once and cloned, which is what takes the time.
fn text_match() -> impl Strategy<Value = TextMatch> {
    let exact = ["1", "2", ""].map(|text| TextMatch::Exact(text.into()));
    let regex = ["[12]", ".*", "1"].map(|pattern| TextMatch::Regex(whole(pattern).unwrap()));
    select([exact, regex].concat())
}

fn any_match() -> impl Strategy<Value = Match> {
    let names = || subsequence(vec!["x-a", "x-b"], 0..=2);
    let pairs = move || (names(), prop::collection::vec(text_match(), 2));
    let methods = subsequence(vec![Method::GET, Method::POST], 0..=2);
    let places = HOSTS.iter().flat_map(|host| PATHS.map(|path| alternative(&format!("{host} {path}"))));
    let place = select(places.collect::<Vec<_>>());
    (place, methods, pairs(), pairs()).prop_map(|(place, methods, headers, query)| {
        let headers = headers.0.into_iter().map(HeaderName::from_static).zip(headers.1).collect();
        let query = query.0.into_iter().map(str::to_owned).zip(query.1).collect();
        Match { methods, headers, query, ..place }
    })
}

fn any_request() -> impl Strategy<Value = Asked> {
    let lines = prop::collection::vec((select(&["x-a", "x-b"][..]), select(&["1", "2", "3"][..])), 0..4);
    let query = prop::option::of(prop::collection::vec(select(&["x-a=1", "x-b=2", "x-a", "x-b=1", "x-c"][..]), 0..4));
    (
        select(&[Method::GET, Method::POST, Method::HEAD][..]),
        select(&["a.b.c", "b.c", "c", "x.b.c", "y.x.b.c", "z.a.b.c", ".b.c"][..]),
        select(
            &[
                "/",
                "/a",
                "/a/",
                "/a/b",
                "/ab",
                "/a/b/c",
                "/a/x/c",
                "/a/b/c/d",
                "/b",
                "/A",
                "/a;x/B/",
                "/a%2Fb%20",
                "/A/b/C",
            ][..],
        ),
        query,
        lines,
    )
        .prop_map(|(method, host, path, query, lines)| {
            let headers =
                lines.into_iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let mut map = HeaderMap::new();
            headers.for_each(|(name, value)| {
                map.append(name, value);
            });
            // a parameter with several values is no question of precedence
            let once = |pairs: Vec<&str>| {
                let mut names = Vec::new();
                let first = |pair: &&str| {
                    let name = pair.split('=').next().unwrap().to_owned();
                    let fresh = !names.contains(&name);
                    names.push(name);
                    fresh
                };
                pairs.into_iter().filter(first).collect::<Vec<_>>().join("&")
            };
            Asked { method, query: query.map(once), headers: map, ..Asked::new(host, path) }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn finds_what_sorting_all_takers_by_precedence_finds(
        routes in prop::collection::vec(prop::collection::vec(any_match(), 0..3), 0..30),
        requests in prop::collection::vec(any_request(), 8),
    ) {
        let table = RouteTable::new(routes.iter().cloned().map(route).collect());
        for asked in requests {
            let expected = reference(&asked, &routes);
            prop_assert_eq!(asked.finds_two(&table), expected, "{:?}", asked);
            prop_assert_eq!(asked.finds(&table), expected.0);
        }
    }
}
