//! Spellings of a protected path (`policy::route::fold`) and escaped slashes (`tidegate_http::path::path_of`), for a path in
//! canonical form.
//!
//! - Whatever an origin of any kind takes the path for, a match that names that and ignores all spellings takes the path: as an
//!   exact path, and as a prefix at its first segment.
//! - And no more: what such a match takes, the most lenient origin takes for the same, unless parameters have two ends.
//! - A match that ignores nothing takes the path itself only.
//! - A refused path has an escaped slash or backslash, a kept one is as it was, and a decoded one is the canonical form of the
//!   path with slashes in their place.

use http::{HeaderMap, Method};
use tidegate::policy::HeaderEdits;
use tidegate::policy::Timeouts;
use tidegate::policy::route::{Action, HostMatch, Ignore, Match, PathMatch, Route, RouteTable, fold};
use tidegate::request::{Peer, Request};
use tidegate_http::fault::HeadFault;
use tidegate_http::path::EscapedSlash;
use tidegate_http::path::path_of;

use super::path_readers::{READERS, canonical};

/// Holds a canonical path to the promises above. `other` is a second one, which it is compared with.
pub fn spelling(path: &str, other: &str) {
    for reader in READERS {
        for lenient in [false, true] {
            let segments = |path: &str| named(reader.segments(path.as_bytes()), lenient);
            let mine = segments(path);
            for length in [mine.len().min(1), mine.len()] {
                let pattern = written(&mine[..length]);
                let matched = if length == mine.len() { PathMatch::Exact(pattern.clone()) } else { prefix(&pattern) };
                if fold::pattern(&pattern, Ignore::ALL).is_some() {
                    assert!(takes(&matched, Ignore::ALL, path), "{reader:?} reads {path} as below {pattern}");
                }
            }
        }
    }
    let [mine, theirs] = [path, other].map(|path| named(READERS[READERS.len() - 1].segments(path.as_bytes()), true));
    if fold::pattern(other, Ignore::ALL).is_some() && ![path, other].into_iter().any(is_cut_in_two_ways) {
        assert_eq!(takes(&PathMatch::Exact(other.to_owned()), Ignore::ALL, path), mine == theirs, "{path} and {other}");
        assert_eq!(takes(&prefix(other), Ignore::ALL, path), mine.starts_with(&theirs), "{path} below {other}");
    }
    assert_eq!(takes(&PathMatch::Exact(other.to_owned()), Ignore::NONE, path), path == other);
    escaped_slashes(path);
}

fn escaped_slashes(path: &str) {
    let has = path.contains("%2F") || path.contains("%5C");
    let refused = path_of(path.as_bytes(), EscapedSlash::Refuse);
    assert_eq!(
        refused.map_err(|fault| fault == HeadFault::EscapedSlash),
        if has { Err(true) } else { Ok(path.into()) }
    );
    assert_eq!(path_of(path.as_bytes(), EscapedSlash::Keep).as_deref(), Ok(path));
    let decoded = path_of(path.as_bytes(), EscapedSlash::Decode).map(String::from);
    assert_eq!(decoded, canonical(path.replace("%2F", "/").replace("%5C", "/").as_bytes()));
    assert!(decoded.is_ok_and(|decoded| !decoded.contains("%2F") && !decoded.contains("%5C")), "{path}");
}

/// Whether origins differ in where parameters of this path end.
fn is_cut_in_two_ways(path: &str) -> bool {
    path.split('/').any(|segment| {
        let parameters = [";", "%3B"].into_iter().filter_map(|word| segment.find(word)).min();
        parameters.is_some_and(|at| segment[at..].contains("%2F") || segment[at..].contains("%5C"))
    })
}

/// The names of the segments, as an origin compares them: without blanks and dots at the end and in small letters if it is
/// lenient.
fn named(segments: Vec<Vec<u8>>, lenient: bool) -> Vec<Vec<u8>> {
    if !lenient {
        return segments;
    }
    let names = segments.into_iter().map(|segment| {
        let end = segment.iter().rposition(|byte| !matches!(byte, b' ' | b'.')).map_or(0, |last| last + 1);
        small(&segment[..end])
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// Small letters of ASCII, also for the letters beyond it that have one of these as their other case.
fn small(mut text: &[u8]) -> Vec<u8> {
    let far = [("ſ", b's'), ("\u{212a}", b'k'), ("İ", b'i'), ("ı", b'i')];
    let mut out = Vec::new();
    while let [first, rest @ ..] = text {
        match far.iter().find_map(|(letter, near)| Some((*near, text.strip_prefix(letter.as_bytes())?))) {
            Some((near, behind)) => {
                out.push(near);
                text = behind;
            }
            None => {
                out.push(first.to_ascii_lowercase());
                text = rest;
            }
        }
    }
    out
}

/// Segments as a canonical path.
fn written(segments: &[Vec<u8>]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let segment = |segment: &Vec<u8>| -> String {
        let byte = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
        format!("/{}", segment.iter().map(byte).collect::<String>())
    };
    if segments.is_empty() { "/".to_owned() } else { segments.iter().map(segment).collect() }
}

fn prefix(path: &str) -> PathMatch {
    PathMatch::Prefix(path.trim_end_matches('/').to_owned())
}

/// Whether a route with this match alone takes the path.
fn takes(path: &PathMatch, ignore: Ignore, asked: &str) -> bool {
    let matches = vec![Match {
        host: HostMatch::Any,
        path: path.clone(),
        ignore: Some(ignore),
        methods: Vec::new(),
        headers: Vec::new(),
        query: Vec::new(),
        client: None,
    }];
    let table = RouteTable::new(vec![Route {
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
    }]);
    let request = Request {
        peer: Peer::Unix,
        method: &Method::GET,
        host: "a",
        path: asked,
        query: None,
        headers: &HeaderMap::new(),
        tls_sni: None,
    };
    table.find(&request, None).is_ok_and(|found| found.is_some())
}
