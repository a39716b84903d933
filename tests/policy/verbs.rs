//! The built binary: exit codes, what goes where, formats.

use std::fs;
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
        out(&detailed).contains("route_0_limit  10/s burst 10  client_ip  4MiB    131072   3.3e-9"),
        "{}",
        out(&detailed)
    );
    assert!(out(&detailed).contains("metric series: at most "));

    let complete = path("conf/complete.yaml");
    let detailed = tidegate(&["check", complete.to_str().unwrap(), "-v"]);
    let squeezed: Vec<String> =
        out(&detailed).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in [
        "egress 20MiB/s burst 64MiB client_ip 4MiB 131072 3.3e-9",
        "monthly 100000 per 744h header:x-api-key 4MiB 131072 3.3e-9",
        "crawlers 10/s by half-life 30s client_ip 4MiB 131072 3.3e-9",
        "stuffing 20 of header:x-login-name-hash per 10m client_ip 4MiB - 1.2e-7 (seen)",
        "fair origin:shop in all 4 nodes 4MiB - -",
        "uploads 20 at once route - - 0 (exact)",
        "tenants 50 at once header:x-tenant + origin 2MiB 65536 2.8e-15",
    ] {
        assert!(squeezed.iter().any(|line| line == row), "{row}\n{}", out(&detailed));
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

#[test]
fn show_prints_the_whole_or_a_part_as_yaml_or_json() {
    let complete = path("conf/complete.yaml");
    let complete = complete.to_str().unwrap();
    let login = tidegate(&["show", "-c", complete, "limits.login"]);
    assert_eq!(login.status.code(), Some(0));
    let expected = "type: rate\nkey:\n  - client_ip\nrate: 5/m\nburst: 5\nmemory: 4MiB\ncost: 1\n\
                    count: \"responses 401,403\"\nmode: enforce\nenforce: 100%\naction: close\n";
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
