//! Paths that a policy protects, asked for in every spelling that some origin takes for them.

use crate::harness::talker::{Talker, request, talk};
use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

/// What the most lenient of all origins takes a target for: it decodes first, as Go and gunicorn do, takes a backslash for a
/// slash and ignores blanks and dots at the end as Windows does, cuts parameters as Java does, ignores case as Express and IIS
/// do, and empty segments as nearly all do.
fn as_a_lenient_origin_reads(target: &str) -> Vec<String> {
    let path = target.split('?').next().unwrap();
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().to_lowercase();
    let path = path.replace('\u{17f}', "s").replace('\u{131}', "i").replace("i\u{307}", "i");
    let segments = path
        .split(['/', '\\'])
        .map(|segment| segment.split(';').next().unwrap_or_default().trim_end_matches([' ', '.']).to_owned());
    segments.filter(|segment| !segment.is_empty()).collect()
}

/// The recipe: `ignore all`, and no method.
fn recipe(origin: &Origin) -> String {
    format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
origins:
  app: {{ addresses: [\"{}\"] }}
limits:
  login: {{ rate: 5/h, burst: 5, key: global }}
routes:
  - {{ name: login, match: {{ path: =/login ignore all }}, limits: [login], origin: app }}
  - {{ name: admin, match: {{ path: /admin ignore all }}, respond: {{ status: 403 }} }}
  - {{ name: site, origin: app }}
",
        origin.address()
    )
}

const LOGIN: [&str; 26] = [
    "/login",
    "/Login",
    "/LOGIN",
    "/login/",
    "/login//",
    "//login",
    "/%6cogin",
    "/login;a=1",
    "/login;",
    "/login%3Ba=1",
    "/login/;a=1",
    "/;a=1/login",
    "/login%20",
    "/login%20%20/",
    "/login.",
    "/login..",
    "/login.%20",
    "/login%20;a=1",
    "/%2Flogin",
    "/login%2f",
    "/%5clogin",
    "/login%5C",
    "/%20/login",
    "/LOGIN.;a=1/",
    "/log%C4%B1n",
    "/login?next=/",
];

const ADMIN: [&str; 12] = [
    "/admin",
    "/Admin/x",
    "/admin/",
    "/admin%2fx",
    "/admin%2Fx%2Fy",
    "/admin%5Cx",
    "/ADMIN%2fx",
    "/admin;a=1/x",
    "/admin%3Ba/x",
    "/admin%20/x",
    "/admin./x",
    "/%2Fadmin/x",
];

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

#[test]
fn no_spelling_and_no_method_reaches_a_protected_handler_past_its_limit() {
    for path in LOGIN {
        assert_eq!(as_a_lenient_origin_reads(path), ["login"], "{path}");
    }
    for path in ADMIN {
        assert_eq!(as_a_lenient_origin_reads(path)[0], "admin", "{path}");
    }
    let origin = Origin::that(Reply::Ok);
    let mut gate = Gate::start(&recipe(&origin));
    let mut refused = 0;
    for path in LOGIN.iter().chain(&ADMIN) {
        for method in METHODS {
            let status = asked(&gate, "main", method, path);
            assert!(matches!(status, 200 | 403 | 429), "{method} {path}: {status}");
            refused += usize::from(status != 200);
        }
        assert_ne!(asked_by_h2(&gate, "main", path), 0);
    }
    assert_eq!(refused, METHODS.len() * (LOGIN.len() + ADMIN.len()) - 5);
    // what only resembles them is not held back
    for path in ["/logins", "/login/x", "/x/login", "/administrator", "/log%2Fin", "/adm;in", "/a.dmin"] {
        assert_eq!(asked(&gate, "main", "POST", path), 200, "{path}");
    }
    gate.comes_to_rest();
    let arrivals = origin.arrivals();
    let at = |name: &str| {
        let of_handler = |target: &str| match &as_a_lenient_origin_reads(target)[..] {
            [one] => one == name,
            [first, ..] => first == name && name == "admin",
            [] => false,
        };
        arrivals.iter().filter(|arrival| of_handler(&arrival.target)).count()
    };
    assert_eq!((at("login"), at("admin"), arrivals.len()), (5, 0, 12));
}

/// The status of the answer by HTTP/1.
fn asked(gate: &Gate, listener: &str, method: &str, path: &str) -> u16 {
    Connection::open(gate.address(listener)).ask(method, path, "", b"").status
}

/// The same by HTTP/2.
fn asked_by_h2(gate: &Gate, listener: &str, path: &str) -> u16 {
    talk(async {
        let (mut talker, _) = Talker::open(gate.address(listener)).await;
        talker.ask(request("GET", path, &[]), b"").await.unwrap().status
    })
}

#[test]
fn escaped_slashes_are_refused_kept_or_decoded_alike_in_both_protocols() {
    let origin = Origin::that(Reply::Ok);
    let listener = |name: &str, word: &str| {
        format!("  {name}: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1], request_head: {{ {word} }} }}\n")
    };
    let mut gate = Gate::start(&format!(
        "listeners:\n{}{}{}{}routes:\n  - {{ name: admin, match: {{ path: /admin }}, respond: {{ status: 403 }} }}\n  - {{ name: \
         site, origin: \"{}\" }}\n",
        listener("main", ""),
        listener("refuses", "escaped_slash: refuse"),
        listener("keeps", "escaped_slash: keep"),
        listener("decodes", "escaped_slash: decode"),
        origin.address()
    ));
    let mut refused = 0;
    for (listener, path, wanted) in [
        ("main", "/admin%2Fx", Err(400)),
        ("main", "/admin%2fx", Err(400)),
        ("main", "/admin%5cx", Err(400)),
        ("main", "/a%2Fb", Err(400)),
        ("main", "/a%252Fb", Ok("/a%252Fb")),
        ("main", "/a?b=%2F", Ok("/a?b=%2F")),
        ("refuses", "/a%5Cb", Err(400)),
        ("refuses", "/a", Ok("/a")),
        ("keeps", "/admin%2Fx", Ok("/admin%2Fx")),
        ("keeps", "/a%5cb", Ok("/a%5Cb")),
        ("decodes", "/admin%2Fx", Err(403)),
        ("decodes", "/%2fadmin", Err(403)),
        ("decodes", "/admin%5Cx", Err(403)),
        ("decodes", "/a%2Fb%2f%5Cc?d=%2F", Ok("/a/b/c?d=%2F")),
        ("decodes", "/a%252Fb", Ok("/a%252Fb")),
        ("decodes", "/x%2F..%2Fadmin", Err(400)),
        ("decodes", "/x%5c.%5cadmin", Err(400)),
    ] {
        let before = origin.count();
        for status in [asked(&gate, listener, "GET", path), asked_by_h2(&gate, listener, path)] {
            assert_eq!(status, wanted.err().unwrap_or(200), "{listener} {path}");
        }
        let arrived: Vec<String> = origin.arrivals()[before..].iter().map(|arrival| arrival.target.clone()).collect();
        assert_eq!(arrived, wanted.map_or(vec![], |target| vec![target; 2]), "{listener} {path}");
        refused += if wanted == Err(400) && listener != "decodes" { 2 } else { 0 };
    }
    gate.comes_to_rest();
    gate.counts("tidegate_malformed_requests_total", &[("reason", "escaped_slash")], f64::from(refused));
    gate.counts("tidegate_malformed_requests_total", &[("reason", "dot_segment")], 4.0);
}

#[test]
fn a_reload_that_guards_a_prefix_refuses_escaped_slashes_from_then_on() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!("routes:\n  - {{ name: site, origin: \"{}\" }}\n", origin.address()));
    let file = gate.folder().join("tidegate.yaml");
    let open = std::fs::read_to_string(&file).unwrap();
    let admin = "routes:\n  - { name: admin, match: { path: /admin }, respond: { status: 403 } }\n";
    let guarded = open.replacen("routes:\n", admin, 1);
    let reload = |policy: &str, wanted: u16| {
        std::fs::write(&file, policy).unwrap();
        gate.signal("HUP");
        wait_for("the policy to be in force", || (asked(&gate, "main", "GET", "/admin%2Fx") == wanted).then_some(()));
    };
    // a connection that stands sees it as well
    let mut standing = gate.connect();
    assert_eq!(standing.ask("GET", "/admin%2Fx", "", b"").status, 200);
    reload(&guarded, 400);
    assert_eq!(standing.ask("GET", "/admin%2Fx", "", b"").status, 400);
    reload(&open, 200);
}

#[test]
fn an_expression_that_guards_is_no_reason_to_pass_escaped_slashes() {
    let origin = Origin::that(Reply::Ok);
    for (expression, refused) in
        [("/admin(/.*)?", true), ("(?i)/admin/.*", true), ("/admin/x", true), ("(?i)/admin([/%;. ].*)?", false)]
    {
        let gate = Gate::start(&format!(
            "listeners: {{ main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }} }}
routes:
  - {{ name: closed, match: {{ path: {{ regex: \"{expression}\" }} }}, respond: {{ status: 403 }} }}
  - {{ name: site, origin: \"{}\" }}
",
            origin.address()
        ));
        assert_eq!(asked(&gate, "main", "GET", "/admin/x"), 403, "{expression}");
        for path in ["/admin%2fx", "/admin%5Cx"] {
            let status = if refused { 400 } else { 403 };
            assert_eq!(asked(&gate, "main", "GET", path), status, "{expression} {path}");
            assert_eq!(asked_by_h2(&gate, "main", path), status, "{expression} {path}");
        }
    }
    assert_eq!(origin.count(), 0);
}
