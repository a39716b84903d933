//! `tests:` in a policy file, and `tidegate test` from outside.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{console, good, path};

const POLICY: &str = r#"
listen: ":8080"
limits:
  login: { rate: 5/m, burst: 5, count: "responses 401" }
routes:
  - { name: login, match: { path: =/login ignore all }, limits: [login], origin: "127.0.0.1:3000" }
  - { name: site, origin: "127.0.0.1:3000" }
tests:
  - name: the sixth wrong password is limited
    send: { n: 6, every: 1s, method: POST, url: /login, answer: 401 }
    expect: { allowed: 5, limited: 1, by: login }
  - name: right passwords are free
    send: { n: 50, method: POST, url: /login }
    expect: { allowed: 50 }
"#;

fn file(name: &str, text: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("policy_tests");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    file
}

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("test").args(arguments).env_clear().output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_policy_that_does_what_it_claims_passes() {
    let policy = file("good.yaml", POLICY);
    let output = tidegate(&[policy.to_str().unwrap()]);
    assert_eq!(
        out(&output),
        "running 2 tests\ntest the sixth wrong password is limited ... ok\ntest right passwords are free ... ok\n\n\
         test result: ok. 2 passed; 0 failed; 0 left out; 56 requests in 5s\n"
    );
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
}

#[test]
fn a_failing_test_shows_the_first_request_that_differs_and_exits_1() {
    let policy = file("bad.yaml", &POLICY.replace("allowed: 5, limited: 1", "allowed: 6, limited: 0"));
    let output = tidegate(&[policy.to_str().unwrap(), "--only", "sixth"]);
    let told = out(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for text in [
        "the sixth wrong password is limited ... FAILED",
        "bad.yaml:9)",
        "expected allowed 6, found 5",
        "expected limited 0, found 1",
        "at 5s: POST /login from 192.0.2.1 (6 of 6): answered 429",
        "    POST localhost/login  →  429 limited by `login`",
        "(exact path /login in any spelling; next best: site)",
        "login  LIMITED  5 of 5 per minute used; the next one fits in 7 s",
        "sent      Retry-After: ",
        "change    burst ≥ 6, or rate ≥ ",
        "bad.yaml, line 4",
        "1 left out",
    ] {
        assert!(told.contains(text), "{text}: {told}");
    }
    let again = tidegate(&[policy.to_str().unwrap(), "--only", "sixth"]);
    assert_eq!(out(&again), told, "the same every time");
    let json = tidegate(&[policy.to_str().unwrap(), "--format", "json"]);
    let document: Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!((&document["schema"], &document["failed"]), (&"tidegate.test/1".into(), &1.into()));
    let account = document["tests"][0]["account"].as_array().unwrap();
    let told_in = |text: &str| account.iter().any(|line| line.as_str().unwrap().contains(text));
    assert!(told_in("next best: site") && told_in("would have let it through"), "{document:#}");
    let junit = out(&tidegate(&[policy.to_str().unwrap(), "--format", "junit"]));
    assert!(junit.contains("<testsuites tests=\"2\" failures=\"1\""), "{junit}");
    assert!(junit.contains("next best: site") && junit.contains("would have let it through"), "{junit}");
}

#[test]
fn the_page_about_it_shows_what_the_commands_print() {
    let home = console::home("testing");
    fs::write(home.join("tidegate.yaml"), console::policy_of("docs/testing.md")).unwrap();
    let ran = console::page("docs/testing.md", &home, &[0, 1]);
    fs::remove_dir_all(&home).unwrap();
    assert_eq!(ran, 3);
}

#[test]
fn tests_may_stand_in_files_of_their_own() {
    let policy = file("alone.yaml", POLICY.split("tests:").next().unwrap());
    let none = tidegate(&[policy.to_str().unwrap()]);
    assert_eq!((none.status.code(), out(&none).as_str()), (Some(1), ""), "no tests are no proof");
    let tests = file("claims.yaml", &format!("tests:{}", POLICY.split("tests:").nth(1).unwrap()));
    let both = tidegate(&[policy.to_str().unwrap(), "-t", tests.to_str().unwrap()]);
    assert_eq!(both.status.code(), Some(0), "{}", out(&both));
    let broken = file("broken.yaml", "tests:\n  - { name: a, send: { url: / }, expect: { by: logn } }\n");
    let refused = tidegate(&[policy.to_str().unwrap(), "-t", broken.to_str().unwrap()]);
    let told = String::from_utf8(refused.stderr.clone()).unwrap();
    assert_eq!(refused.status.code(), Some(78), "{told}");
    assert!(
        told.contains("E0301") && told.contains("broken.yaml:2:") && told.contains("did you mean `login`?"),
        "{told}"
    );
}

#[test]
fn the_complete_example_keeps_its_claims() {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["test", "-q", path("conf/complete.yaml").to_str().unwrap()])
        .env_clear()
        .env("KEY", "0123456789abcdef")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tests_are_part_of_the_configuration_and_of_its_fingerprint() {
    let without = good(POLICY.split("tests:").next().unwrap());
    let with = good(POLICY);
    assert_ne!(without.fingerprint, with.fingerprint);
    assert_eq!((without.cases.len(), with.cases.len()), (0, 2));
    assert!(with.effective.at("tests.0.expect.by").is_some());
}
