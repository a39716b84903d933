//! Ways round a guarded path, and expressions that protect nothing.

use std::fs;
use std::process::Command;

use proptest::prelude::*;
use tidegate::config::Loaded;
use tidegate::config::load_text;
use tidegate::config::render::{Format, render};
use tidegate::policy::route::reach::{Reach, reach};
use tidegate::policy::route::whole;
use tidegate_http::path::EscapedSlash;
use tidegate_http::path::canonical_path;

use crate::{environment, good, path, text};

fn warned(loaded: &Loaded) -> Vec<String> {
    let of_guards = loaded.diagnostics.iter().filter(|fault| fault.code.text() == "W0440");
    of_guards.map(|fault| fault.message.clone()).collect()
}

/// `guards.yaml` beside `guards.txt`, as `tidegate check` prints it.
#[test]
fn a_way_round_is_told_with_its_place_and_what_to_write() {
    let file = path("tests/policy/guards.yaml");
    let loaded = load_text("guards.yaml", &fs::read_to_string(&file).unwrap(), &environment, &path("tests/policy"));
    assert!(loaded.outcome.is_ok());
    let found = render(&loaded, Format::Text, false);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(file.with_extension("txt"), &found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(file.with_extension("txt")).unwrap());
    let told = [
        "`/login/` walks round the route `exact`",
        "`/admin` walks round the route `prefix`",
        "`PUT /token` walks round the route `one_method`",
        "`/user@home/` walks round the route `one_of_two`",
        "`/Hidden` walks round the route `expression`",
    ];
    assert_eq!(warned(&loaded), told);
}

/// What is told is what would happen: the request that is named gets the looser route, and with what is proposed the warning
/// goes and the request is limited.
#[test]
fn what_is_proposed_closes_the_way_round() {
    let with = |path: &str| {
        format!(
            "listen: ':8080'\nroutes:\n  - {{ name: login, match: {{ path: {path} }}, limit: 1/m burst 1, origin: 'a:1' }}\n  \
             - {{ name: site, origin: 'a:1' }}\n"
        )
    };
    for path in ["=/login", "/admin", "=/a@b/", "=/caf%C3%A9"] {
        let open = text(&with(path));
        let [told] = &warned(&open)[..] else { panic!("{path}: {:?}", warned(&open)) };
        let found = told.split('`').nth(1).unwrap();
        let help = &open.diagnostics[0].help[0];
        let proposed = help.split('`').nth(1).unwrap().strip_prefix("path: ").unwrap();
        let closed = text(&with(proposed));
        assert_eq!(warned(&closed), [""; 0], "{proposed}");
        assert_eq!(route(&with(path), found), "site", "{path}");
        assert_eq!(route(&with(proposed), found), "login", "{path}");
    }
}

/// The route that takes a GET.
fn route(policy: &str, path: &str) -> String {
    let config = good(policy);
    let request = tidegate::request::Request {
        peer: tidegate::request::Peer::Unix,
        method: &http::Method::GET,
        host: "a",
        path,
        query: None,
        headers: &http::HeaderMap::new(),
        tls_sni: None,
    };
    config.policy.routes.find(&request, None).unwrap().map_or_else(String::new, |(_, route)| route.name.clone())
}

#[test]
fn escaped_slashes_are_refused_where_one_gets_past_a_guard() {
    let word = |listener: &str, guard: &str| {
        let text = format!(
            "listeners: {{ main: {{ address: ':8080'{listener} }} }}\nroutes: [{{ {guard} }}, {{ origin: 'a:1' }}]\n"
        );
        good(&text).escaped_slash()
    };
    let limit = "limit: 1/m burst 1, origin: 'a:1'";
    for (guard, wanted) in [
        (format!("match: {{ path: /admin }}, {limit}"), EscapedSlash::Refuse),
        ("match: { path: /admin }, respond: { status: 403 }".to_owned(), EscapedSlash::Refuse),
        (format!("match: {{ path: =/api/login }}, {limit}"), EscapedSlash::Refuse),
        (format!("match: {{ path: {{ regex: '/api/.*' }} }}, {limit}"), EscapedSlash::Refuse),
        (format!("match: {{ path: {{ prefix: /admin, ignore: [case] }} }}, {limit}"), EscapedSlash::Refuse),
        (format!("match: {{ path: =/login }}, {limit}"), EscapedSlash::Keep),
        (format!("match: {{ path: /admin ignore all }}, {limit}"), EscapedSlash::Keep),
        (format!("match: {{ path: /admin ignore none }}, {limit}"), EscapedSlash::Keep),
        ("match: { path: /admin }, origin: 'a:1'".to_owned(), EscapedSlash::Keep),
        ("match: { path: /other }, limit: 1/m burst 1, origin: 'b:1'".to_owned(), EscapedSlash::Keep),
    ] {
        assert_eq!(word("", &guard), wanted, "{guard}");
    }
    let guard = format!("match: {{ path: /admin }}, {limit}");
    for (said, wanted) in
        [("keep", EscapedSlash::Keep), ("decode", EscapedSlash::Decode), ("auto", EscapedSlash::Refuse)]
    {
        assert_eq!(word(&format!(", request_head: {{ escaped_slash: {said} }}"), &guard), wanted);
    }
    let kept = "listeners: { main: { address: ':8080', request_head: { escaped_slash: keep } } }\nroutes: [{ match: { path: \
                { prefix: /admin, ignore: [case] } }, limit: 1/m burst 1, origin: 'a:1' }, { origin: 'a:1' }]";
    assert_eq!(warned(&text(kept)), ["`/admin%2Fx` walks round the route `admin`"]);
}

#[test]
fn check_refuses_an_expression_that_never_matches() {
    let folder = path("target/tmp/never");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("policy.yaml");
    let policy = |regex: &str| {
        format!(
            "listen: ':8080'\nroutes: [{{ match: {{ path: {{ regex: '{regex}' }} }}, limit: 1/m burst 1, origin: 'a:1' }}]\n"
        )
    };
    for (regex, code, said) in [
        ("login", 78, "`/login` meets that path alone, `.*login.*` every path that holds it"),
        ("/login|signin", 0, "W0441"),
        ("/login", 0, ""),
    ] {
        fs::write(&file, policy(regex)).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("check").arg(&file).env_clear().output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{regex}: {told}");
        assert!(told.contains(said), "{regex}: {told}");
    }
}

/// Pieces that make expressions of every kind: with and without anchors, bytes that no path has, escapes of both cases.
const PIECES: [&str; 27] = [
    "/", "/", "a", "login", ".", ".*", "\\.", "[a-z]+", "[^/]*", "%2F", "%2f", "%", "2", "F", "?", "\\?", " ", "^",
    "$", "|", "(?:/)?", "\\b", ";", "é", "//", "\\.\\.", "%20",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// "Can" is shown by a canonical path that the expression meets. "Never" is held against many canonical paths, which are
    /// made of the same pieces, so that they would be met if the verdict were wrong.
    #[test]
    fn an_expression_never_matches_exactly_when_no_path_meets_it(
        pieces in proptest::collection::vec(0..PIECES.len(), 1..7),
        paths in proptest::collection::vec(
            proptest::collection::vec(proptest::sample::select(vec!["/", "a", "login", ".", "%2F", "2", "F", ";", "%C3%A9", "x", "%20"]), 0..7),
            64,
        ),
    ) {
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        let Ok(expression) = whole(&text) else { return Ok(()) };
        match reach(expression.as_str()) {
            Reach::Path(path) => {
                prop_assert!(expression.is_match(&path), "{text}: {path}");
                let canonical = canonical_path(path.as_bytes());
                prop_assert_eq!(canonical.as_deref(), Ok(path.as_str()));
            }
            Reach::Never => {
                for path in paths {
                    let path = format!("/{}", path.concat());
                    if canonical_path(path.as_bytes()).as_deref() == Ok(path.as_str()) {
                        prop_assert!(!expression.is_match(&path), "{text}: {path}");
                    }
                }
            }
            Reach::Unknown => {}
        }
    }
}
