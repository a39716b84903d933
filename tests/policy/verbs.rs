//! The built binary: exit codes, what goes where, formats.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::path;

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .current_dir(path("tests/policy/faults"))
        .env_clear()
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn check_tells_every_fault_and_exits_78() {
    let output = tidegate(&["check", "everything_at_once.yaml"]);
    assert_eq!(output.status.code(), Some(78));
    let expected = fs::read_to_string(path("tests/policy/faults/everything_at_once.txt")).unwrap();
    assert_eq!(out(&output), expected);
    assert!(err(&output).starts_with("everything_at_once.yaml: invalid: "), "{}", err(&output));
}

#[test]
fn check_speaks_to_editors_machines_and_workflows() {
    let short = tidegate(&["check", "unknown_limit.yaml", "--format", "short", "-q"]);
    assert_eq!(short.status.code(), Some(78));
    assert!(
        out(&short).starts_with(
            "unknown_limit.yaml:6:14: error[E0301]: route refers to an unknown limit `apii`; no limit has this name; did you mean `api`?\n"
        ),
        "{}",
        out(&short)
    );
    assert_eq!(err(&short), "");
    let github = tidegate(&["check", "-c", "unknown_limit.yaml", "--format", "github", "-q"]);
    assert!(
        out(&github).starts_with(
            "::error file=unknown_limit.yaml,line=6,col=14,endLine=6,endColumn=18,title=E0301::route refers"
        ),
        "{}",
        out(&github)
    );
    let json = tidegate(&["check", "unknown_limit.yaml", "--format", "json"]);
    let document: Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(document["schema"], "tidegate.check/1");
    assert_eq!((&document["valid"], &document["errors"]), (&Value::Bool(false), &Value::from(2)));
    let first = &document["diagnostics"][0];
    assert_eq!((&first["code"], &first["replacement"]), (&Value::from("E0301"), &Value::from("api")));
    assert_eq!((&first["at"]["line"], &first["at"]["end_column"]), (&Value::from(6), &Value::from(18)));
}

#[test]
fn check_accepts_what_is_valid_and_warnings_unless_denied() {
    let minimal = path("conf/minimal.yaml");
    let minimal = minimal.to_str().unwrap();
    let output = tidegate(&["check", minimal, "--deny-warnings"]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    assert_eq!(out(&output), "");
    let detailed = tidegate(&["check", minimal, "-v"]);
    assert!(
        out(&detailed)
            .contains("all_limit  10/s burst 10  client_ip  4MiB    131072   3.3e-9            0.0021 % at 98.1684 %"),
        "{}",
        out(&detailed)
    );
    assert!(out(&detailed).contains("metric series: at most "));
    let production = path("conf/production.yaml");
    let capped = tidegate(&["check", production.to_str().unwrap(), "-v"]);
    assert!(out(&capped).contains("origin app: 400 at once, 800 wait; 1291 KiB of memory\n"), "{}", out(&capped));
    assert!(out(&detailed).contains("overload: refuses from a delay of 50ms, 85% of the memory "));

    let complete = path("conf/complete.yaml");
    let detailed = tidegate(&["check", complete.to_str().unwrap(), "-v"]);
    let squeezed: Vec<String> =
        out(&detailed).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in [
        "egress 20MiB/s burst 64MiB client_ip 4MiB 131072 3.3e-9 0.0021 % at 98.1684 %",
        "monthly 100000 per month in Europe/Berlin header:x-api-key 2MiB 65536 5.3e-8 0.0086 % at 99.9 %",
        "weekly 40000 per week from Sunday in UTC header:x-api-key 4MiB 131072 3.3e-9 0.0021 % at 98.1684 %",
        "crawlers 10/s by half-life 30s client_ip 4MiB 131072 3.3e-9 0.0021 % at 98.1684 %",
        "stuffing 20 of header:x-login-name-hash per 10m client_ip 4MiB 32768 8.2e-7, 1.2e-7 (seen) 0.0083 % at 98.1684 %",
        "fair 2000/s in all a key and 2 networks 2238KiB - - -",
        "uploads 20 at once route - - 0 (exact) -",
        "graphql: answers exceed it by at most 19000 units: 100 requests at once, 190 units each above `cost_estimate`; paid back by \
         later requests, less once costs are learned",
        "tenants 50 at once header:x-tenant + origin 2MiB 65536 2.8e-15 0.0041 % at 99.9665 %",
    ] {
        assert!(squeezed.iter().any(|line| line == row), "{row}\n{}", out(&detailed));
    }

    // by how much a limit can be exceeded is said unasked, as it has to be known
    let bound = "graphql: answers exceed it by at most 19000 units: 100 requests at once";
    let plain = tidegate(&["check", complete.to_str().unwrap()]);
    assert!(out(&plain).lines().any(|line| line.starts_with(bound)), "{}", out(&plain));
    for others in [&["-q"][..], &["--format", "json"]] {
        let said = tidegate(&[&["check", complete.to_str().unwrap()], others].concat());
        assert!(!out(&said).contains("answers exceed"), "{}", out(&said));
    }

    let warned = std::env::temp_dir().join(format!("tidegate-warned-{}.yaml", std::process::id()));
    let text = fs::read_to_string(minimal).unwrap() + "limits: { spare: { rate: 1/s } }\n";
    fs::write(&warned, text).unwrap();
    let name = warned.to_str().unwrap();
    let (lenient, strict) = (tidegate(&["check", name]), tidegate(&["check", name, "--deny-warnings"]));
    fs::remove_file(&warned).unwrap();
    assert_eq!((lenient.status.code(), strict.status.code()), (Some(0), Some(1)));
    assert!(out(&lenient).starts_with("warning[W0401]: no route uses the limit `spare`"), "{}", out(&lenient));
}

/// A policy with a limit that gates share, and one that they do not.
fn shared_policy() -> PathBuf {
    let file = std::env::temp_dir().join(format!("tidegate-shared-{}.yaml", std::process::id()));
    let text = "listen: \":8080\"\nsecrets: { client_hmac: 0123456789abcdef }\nstores: { s: { url: \"redis://127.0.0.1:6379\" } }\n\
        limits:\n  one: { rate: 5/s, store: s, sharing: exact, on_store_error: open }\n  own: { rate: 5/s }\n  \
        priced: { rate: 5/s, burst: 90, cost: 'response:x-cost', cost_max: 4, store: s, sharing: estimate }\n\
        routes: [{ origin: \"127.0.0.1:3000\", limits: [one, own, priced] }]\n";
    fs::write(&file, text).unwrap();
    file
}

#[cfg(feature = "store")]
#[test]
fn check_tells_the_store_of_each_limit() {
    let shared = shared_policy();
    let detailed = tidegate(&["check", shared.to_str().unwrap(), "-v"]);
    fs::remove_file(&shared).unwrap();
    let lines: Vec<String> = out(&detailed).lines().map(|line| line.trim_end().to_owned()).collect();
    for (limit, store) in [("one ", "  s, exact, else open"), ("own ", "  -"), ("priced ", "  s, estimate")] {
        let found = lines.iter().any(|line| line.starts_with(limit) && line.ends_with(store));
        assert!(found, "{limit}{store}\n{}", out(&detailed));
    }
    let bound = "priced: answers exceed it by at most 270 units: 90 requests at once, 3 units each above `cost_estimate` at each gate";
    assert!(out(&detailed).contains(bound), "{}", out(&detailed));
}

#[cfg(not(feature = "store"))]
#[test]
fn a_program_without_stores_refuses_a_policy_with_them_and_tests_it_all_the_same() {
    let shared = shared_policy();
    let [checked, run, shown] = ["check", "run", "show"].map(|verb| tidegate(&[verb, "-c", shared.to_str().unwrap()]));
    fs::remove_file(&shared).unwrap();
    assert_eq!([&checked, &run, &shown].map(|output| output.status.code()), [Some(78), Some(78), Some(0)]);
    let told = [out(&checked), String::from_utf8_lossy(&run.stderr).into_owned()];
    for told in told {
        assert!(told.contains("error[E0325]: this tidegate was built without stores\n"), "{told}");
        assert!(told.contains(":3:9") && told.contains("--features store"), "{told}");
    }
}

#[cfg(not(feature = "tui"))]
#[test]
fn a_program_without_a_live_view_says_what_stands_in() {
    for arguments in [&["top"][..], &["top", "--once", "--format", "json"]] {
        let output = tidegate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("`tui`") && told.contains("tidegate status"), "{told}");
    }
}

#[test]
fn the_version_tells_the_features() {
    let told = out(&tidegate(&["--version"]));
    let (version, features) = told.trim_end().split_once('\n').expect("two lines");
    assert_eq!(version, out(&tidegate(&["-V"])).trim_end());
    let (built, not_built) = features.split_once("; not built: ").unwrap_or((features, ""));
    for (feature, on) in [("store", cfg!(feature = "store")), ("tui", cfg!(feature = "tui"))] {
        assert_eq!((built.contains(feature), not_built.contains(feature)), (on, !on), "{told}");
    }
}

#[test]
fn show_prints_the_whole_or_a_part_as_yaml_or_json() {
    let complete = path("conf/complete.yaml");
    let complete = complete.to_str().unwrap();
    let login = tidegate(&["show", "-c", complete, "limits.login"]);
    assert_eq!(login.status.code(), Some(0));
    let expected = "type: rate\nkey:\n  - client_ip\nrate: 5/m\nburst: 5\nmemory: 4MiB\ncost: 1\n\
                    count: \"responses 401,403\"\npreflights: count\nmode: enforce\nenforce: 100%\naction: close\n\
                    response:\n  status: 429\n  format: html\n  headers:\n    x-help:\n      - https://shop.example.com/locked-out\n\
                    renamed_from: logins\n";
    assert_eq!(out(&login), expected);
    let json = tidegate(&["show", "-c", complete, "routes.shop.limits", "--format", "json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&out(&json)).unwrap(),
        serde_json::json!(["per_client", "crawlers", "fair"])
    );
    let unknown = tidegate(&["show", "-c", complete, "limits.logn"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(err(&unknown).contains("did you mean `limits.login`?"), "{}", err(&unknown));
    let broken = tidegate(&["show", "-c", "unknown_limit.yaml"]);
    assert_eq!(broken.status.code(), Some(78));
    assert_eq!(out(&broken), "");
    assert!(err(&broken).contains("error[E0301]"));
}

#[test]
fn schema_prints_the_committed_file() {
    let output = tidegate(&["schema"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(out(&output) == fs::read_to_string(path("conf/tidegate.schema.json")).unwrap(), "another schema");
}

#[test]
fn run_refuses_a_broken_file_with_78() {
    let output = tidegate(&["run", "-c", "unknown_limit.yaml"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(err(&output).contains("error[E0301]"), "{}", err(&output));
}

#[test]
fn wrong_usage_is_2_and_colour_only_where_wanted() {
    assert_eq!(tidegate(&["chekc"]).status.code(), Some(2));
    assert_eq!(tidegate(&[]).status.code(), Some(2));
    let plain = tidegate(&["check", "unknown_limit.yaml"]);
    let colored = tidegate(&["check", "unknown_limit.yaml", "--color", "always"]);
    assert!(!out(&plain).contains('\x1b') && out(&colored).contains('\x1b'));
}

/// `explain --request` of a policy that has some of everything.
fn explain(arguments: &[&str]) -> Output {
    tidegate(&[&["explain", "-c", "../explained.yaml", "--request"], arguments].concat())
}

#[test]
fn explain_tells_what_would_become_of_a_request_that_nobody_sent() {
    let forwarded = ["-H", "x-forwarded-for: 192.0.2.1, 203.0.113.7, 173.245.48.9", "-H", "x-login-name: ada"];
    let asked = ["POST https://Login.example.com:443/login?x=1", "--from", "10.0.0.4", "--times", "6"];
    let output = explain(&[&asked[..], &forwarded[..]].concat());
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
    let fingerprint =
        |text: &str| text.split("config    ").nth(1).map_or_else(String::new, |rest| rest[..12].to_owned());
    let expected = "\
POST login.example.com/login  →  429 limited by `login`

 client    203.0.113.7   (from x-forwarded-for, 2 hops)
             peer 10.0.0.4 trusted (10.0.0.0/8) → 173.245.48.9 trusted (preset cloudflare) → 203.0.113.7
 route     login         (host *.example.com, exact path /login, method POST; next best: rest)
 limits    login     LIMITED  5 of 5 per minute used; the next one fits in 12 s; by client_ip
           stuffing  shadow   1 of 20 values of header:x-login-name in 10m; one more in 10 min; by client_ip
 estimate  exact: the key has a counter of its own
 store     none (local)
 sent      Retry-After: 12
           RateLimit-Policy: \"login\";q=5;w=60
           RateLimit: \"login\";r=0;t=12
 change    burst ≥ 6 would have let it through
 config    HASH, ../explained.yaml, line 5
 note      of 6 at one instant the first 5 pass; then `login` refuses
";
    assert_eq!(out(&output).replace(&fingerprint(&out(&output)), "HASH"), expected);

    let gold = explain(&[&asked[..], &forwarded[..], &["-H", "x-plan: gold"]].concat());
    assert!(
        out(&gold).contains("login     allowed  6 of 10 per minute; one more in 6 s; tier 1; by client_ip\n"),
        "{}",
        out(&gold)
    );
    assert!(out(&gold).contains(" note      all 6 at one instant pass\n"), "{}", out(&gold));

    let third = explain(&["/t/x", "--from", "2001:db8::7", "-H", "x-tenant: a", "--times", "3", "--format", "json"]);
    let document: Value = serde_json::from_str(&out(&third)).unwrap();
    assert_eq!(
        (&document["schema"], &document["reason"]),
        (&Value::from("tidegate.explain/1"), &Value::from("concurrency"))
    );
    assert_eq!(document["client"]["network"], "2001:db8::/64");
    assert_eq!(document["limits"][0]["needs"]["max"], 3);
    let without = explain(&["/t/x", "--from", "2001:db8::7"]);
    assert!(out(&without).contains("tenants  LIMITED  without the key; by header:x-tenant\n"), "{}", out(&without));
    assert!(out(&without).starts_with("GET /t/x  →  400 limited by `tenants`\n"), "{}", out(&without));
    let nowhere = explain(&["GET http://elsewhere/", "--from", "unix"]);
    assert!(out(&nowhere).starts_with("GET elsewhere/  →  404 refused: no route\n"), "{}", out(&nowhere));
}

#[test]
fn explain_knows_every_diagnostic_and_says_what_it_does_not_know() {
    let known = tidegate(&["explain", "e0301"]);
    assert_eq!(known.status.code(), Some(0));
    assert!(
        out(&known).starts_with("E0301: a limit that is not defined\n\nA route, or another limit, names"),
        "{}",
        out(&known)
    );
    let json: Value = serde_json::from_str(&out(&tidegate(&["explain", "W0407", "--format", "json"]))).unwrap();
    assert_eq!(
        (&json["schema"], &json["severity"]),
        (&Value::from("tidegate.explain.code/1"), &Value::from("warning"))
    );
    let unknown = tidegate(&["explain", "E030"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(err(&unknown).contains("no error code `E030`; did you mean E0"), "{}", err(&unknown));
    for wrong in [
        &["GET http://a/../x", "--from", "192.0.2.1"][..],
        &["GET /x"],
        &["GET /x", "--from", "somewhere"],
        &["GET /x", "--from", "192.0.2.1", "-H", "no colon"],
        &["GET /x", "--from", "192.0.2.1", "--times", "0"],
        &["GET /x", "--decision", "0000000000000"],
    ] {
        let output = explain(wrong);
        assert_eq!((output.status.code(), out(&output)), (Some(2), String::new()), "{wrong:?}");
    }
    let broken = tidegate(&["explain", "-c", "unknown_limit.yaml", "--request", "GET /", "--from", "192.0.2.1"]);
    assert_eq!(broken.status.code(), Some(78));
    assert!(err(&broken).contains("error[E0301]"), "{}", err(&broken));
}

/// A full disk must not look like success, in no verb and no format.
#[test]
fn output_that_cannot_be_written_fails_every_verb() {
    let verbs: [&[&str]; 14] = [
        &["check", "../../../conf/complete.yaml"],
        &["check", "../../../conf/complete.yaml", "--format", "json"],
        &["test", "-c", "../../../conf/complete.yaml"],
        &["test", "-c", "../../../conf/complete.yaml", "--format", "json"],
        &["show", "-c", "../../../conf/complete.yaml"],
        &["schema"],
        &["explain", "E0101"],
        &["man"],
        &["completions", "bash"],
        &["replay", "../../data/apache-combined-elastic.log.gz", "-c", "../../../conf/production.yaml"],
        &[
            "replay",
            "../../data/apache-combined-elastic.log.gz",
            "-c",
            "../../../conf/production.yaml",
            "--format",
            "json",
        ],
        &["suggest", "../../data/apache-combined-elastic.log.gz"],
        &["--help"],
        &["check", "--help"],
    ];
    for verb in verbs {
        let told = tidegate(verb);
        assert!(!told.stdout.is_empty(), "{verb:?} prints nothing: {}", err(&told));
        let full = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(verb)
            .current_dir(path("tests/policy/faults"))
            .env_clear()
            .stdout(fs::File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        assert_eq!(full.status.code(), Some(71), "{verb:?}: {}", err(&full));
        assert!(err(&full).contains("standard output: No space left on device"), "{verb:?}: {}", err(&full));
    }
}

#[test]
fn a_certificate_that_covers_no_routes_host_is_a_warning() {
    let output = tidegate(&["check", "../idle_certificates.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let told = out(&output);
    assert!(told.contains("warning[W0422]: the certificate `faults/tls/other.pem` covers no route's host\n"), "{told}");
    assert!(told.contains("is for a.test\n"), "{told}");
    assert!(told.contains("help: routes take shop.wild.test: "), "{told}");
    assert!(!told.contains("`faults/tls/site.pem` covers no"), "its wildcard covers it: {told}");
    let strict = tidegate(&["check", "--deny-warnings", "../idle_certificates.yaml"]);
    assert_eq!(strict.status.code(), Some(1));
}

#[test]
fn help_names_the_global_options_of_a_verb_in_one_line() {
    const BOTH: &str = "-c FILE, --admin SOCKET, --color WHEN, -q, -v";
    const POLICY: &str = "-c FILE, --color WHEN, -q, -v";
    const PROCESS: &str = "--admin SOCKET, --color WHEN, -q, -v";
    for (options, verbs) in [
        (Some(BOTH), &["run", "doctor", "reload", "upgrade", "explain", "show"][..]),
        (Some(POLICY), &["check", "test", "suggest", "replay"]),
        (Some(PROCESS), &["status", "top", "pardon", "ban", "unban", "bans"]),
        (Some("--color WHEN, -q, -v"), &["demo", "init"]),
        (None, &["completions", "man", "schema"]),
    ] {
        let line = options.map(|options| format!("Global options: {options} (see tidegate --help)"));
        for verb in verbs {
            for help in ["-h", "--help"] {
                let told = out(&tidegate(&[verb, help]));
                let found = told.lines().find(|line| line.starts_with("Global options"));
                assert_eq!(found, line.as_deref(), "{verb}: {told}");
                for option in ["--config", "--color", "--quiet", "--verbose"] {
                    let listed = |line: &str| line.starts_with("  ") && line.contains(&format!(" {option} "));
                    assert!(!told.lines().any(listed), "{verb}: {told}");
                }
            }
        }
    }
    let told = out(&tidegate(&["--help"]));
    for words in [
        "Start:\n  demo  ",
        "Change:\n  reload  ",
        "Understand:\n  status  ",
        "Choose limits:\n  suggest  ",
        "-q, --quiet\n",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let script = out(&tidegate(&["completions", "bash"]));
    let of_man = script.split("tidegate__subcmd__man)").last().unwrap();
    let options = of_man.lines().find(|line| line.trim_start().starts_with("opts=")).unwrap_or_default();
    assert!(!options.contains("--admin") && !options.contains("--config"), "{options}");
    let told = out(&tidegate(&["replay", "-h"]));
    let groups = [
        ("What is read", &["--log-format", "--since", "--until", "--host", "--reorder"][..]),
        ("What is asked", &["--against", "--limit", "--route", "--fail-if", "--exact"]),
        ("What is written", &["--format", "--show-clients", "--csv", "--decisions", "--html", "--svg"]),
        ("With --suggest", &["--suggest", "--touch", "--key"]),
    ];
    for (heading, options) in groups {
        let group = told.split(&format!("\n{heading}:\n")).nth(1).unwrap_or_else(|| panic!("{heading}: {told}"));
        let group = group.split("\n\n").next().unwrap();
        for option in options {
            assert!(group.lines().any(|line| line.trim_start().starts_with(option)), "{heading}: {option}\n{group}");
        }
    }
}
