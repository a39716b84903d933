//! `tidegate replay` as its users meet it: the page about it, and every flag on logs small enough to count by hand.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::console::{self, err, out, shell};
use crate::path;

const POLICY: &str = "listen: \":8080\"
limits:
  login: { rate: 1/h, burst: 2 }
  site: { rate: 1/h, burst: 3, mode: shadow }
routes:
  - { name: login, match: { host: shop.example.com, path: =/login }, origin: \"127.0.0.1:3000\", limits: [login, site] }
  - { name: rest, match: { host: shop.example.com }, origin: \"127.0.0.1:3000\", limits: [site] }
";

/// A page and a login of one client each ten minutes from 10:00 on, six times.
fn home(name: &str) -> PathBuf {
    let home = console::home(&format!("replay-{name}"));
    let line = |minute: u32, path: &str| {
        format!("203.0.113.7 - - [21/Nov/2026:10:{minute:02}:00 +0000] \"GET {path} HTTP/1.1\" 200 5 \"-\" \"-\"\n")
    };
    let log: String = (0..6).flat_map(|nth| [line(nth * 10, "/"), line(nth * 10, "/login")]).collect();
    fs::write(home.join("access.log"), log).unwrap();
    fs::write(home.join("policy.yaml"), POLICY).unwrap();
    home
}

/// The document of a replay with these arguments.
#[track_caller]
fn replay(home: &std::path::Path, arguments: &str) -> Value {
    let line = format!("tidegate replay -q -c policy.yaml --format json {arguments} access.log");
    let output = shell(home, &line);
    assert!(output.status.success(), "{line}\n{}", err(&output));
    serde_json::from_str(&out(&output)).unwrap()
}

fn evaluation(document: &Value) -> [u64; 3] {
    let of = |index: usize| document["limits"][index]["judged"].as_u64().unwrap();
    [document["judged"].as_u64().unwrap(), of(0), of(1)]
}

#[test]
fn the_page_about_it_shows_what_the_command_prints() {
    let home = console::home("replay-page");
    fs::copy(path("tests/data/shop-2019-combined.log.gz"), home.join("shop-2019-combined.log.gz")).unwrap();
    fs::write(home.join("new.yaml"), console::policy_of("docs/replay.md")).unwrap();
    let ran = console::page("docs/replay.md", &home, &[0]);
    fs::remove_dir_all(&home).unwrap();
    assert_eq!(ran, 1);
}

#[test]
fn every_minute_and_limit_goes_into_a_table() {
    let home = home("csv");
    replay(&home, "--host shop.example.com --csv minutes.csv");
    let table = fs::read_to_string(home.join("minutes.csv")).unwrap();
    fs::remove_dir_all(&home).unwrap();
    // an hour's budget comes back in an hour: login lets two pass, site one and a half times that in six requests
    assert_eq!(
        table,
        "minute,limit,judged,limited\n\
         2026-11-21T10:00:00Z,login,1,0\n2026-11-21T10:00:00Z,site,2,0\n\
         2026-11-21T10:10:00Z,login,1,0\n2026-11-21T10:10:00Z,site,2,1\n\
         2026-11-21T10:20:00Z,login,1,1\n2026-11-21T10:20:00Z,site,2,2\n\
         2026-11-21T10:30:00Z,login,1,1\n2026-11-21T10:30:00Z,site,2,2\n\
         2026-11-21T10:40:00Z,login,1,1\n2026-11-21T10:40:00Z,site,2,2\n\
         2026-11-21T10:50:00Z,login,1,1\n2026-11-21T10:50:00Z,site,2,2\n"
    );
}

#[test]
fn a_log_without_hosts_is_given_one() {
    let home = home("host");
    let without = replay(&home, "");
    assert_eq!(evaluation(&without), [12, 0, 0], "routes of a host take nothing");
    let told = without["notes"].to_string();
    assert!(told.contains("give one with --host"), "{told}");
    let with = replay(&home, "--host SHOP.example.com:443");
    assert_eq!(evaluation(&with), [12, 6, 12]);
    assert!(!with["notes"].to_string().contains("--host"), "{}", with["notes"]);
    fs::remove_dir_all(&home).unwrap();
}

#[test]
fn only_what_a_route_takes_is_counted_and_all_is_judged() {
    let home = home("route");
    let rest = replay(&home, "--host shop.example.com --route rest");
    assert_eq!(evaluation(&rest), [6, 0, 6]);
    // logins have taken from the same budget
    assert_eq!(rest["limits"][1]["limited"], 4);
    let wrong = shell(&home, "tidegate replay -c policy.yaml --route rset access.log");
    fs::remove_dir_all(&home).unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("did you mean `rest`?"), "{}", err(&wrong));
}

#[test]
fn times_cut_a_part_out_of_the_log() {
    let home = home("times");
    for (times, expected) in [
        ("--since 2026-11-21T10:20:00Z", 8),
        ("--until 2026-11-21T10:20:00Z", 4),
        ("--since 2026-11-21T10:10:00Z --until 2026-11-21T10:30:00Z", 4),
        ("--since 20m", 6),
        ("--until 20m", 6),
        ("--since 2026-11-21 --until 2026-11-21", 12),
        ("--since 2026-11-22", 0),
    ] {
        assert_eq!(replay(&home, &format!("--host shop.example.com {times}"))["judged"], expected, "{times}");
    }
    // what lies before is not charged
    let late = replay(&home, "--host shop.example.com --since 2026-11-21T10:40:00Z");
    assert_eq!(late["limits"][0]["limited"], 0);
    let piped = shell(&home, "tidegate replay -c policy.yaml --since 20m - < access.log");
    assert_eq!(piped.status.code(), Some(2), "{}", err(&piped));
    let wrong = shell(&home, "tidegate replay -c policy.yaml --since soon access.log");
    fs::remove_dir_all(&home).unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", err(&wrong));
}

#[test]
fn words_of_the_other_question_are_wrong_usage() {
    let home = home("usage");
    for asked in ["--touch 1%", "--key client_ip", "--path /login", "--method GET", "--no-skip-static", "--per-route"] {
        let output = shell(&home, &format!("tidegate replay -c policy.yaml {asked} access.log"));
        assert_eq!(output.status.code(), Some(2), "{asked}: {}", err(&output));
        assert!(err(&output).contains("--suggest"), "{asked}: {}", err(&output));
        let output = shell(&home, &format!("tidegate replay -c policy.yaml --suggest {asked} access.log"));
        assert_eq!(output.status.code(), Some(0), "{asked}: {}", err(&output));
    }
    for judging in ["--exact", "--csv a.csv", "--route rest", "--fail-if 'login.limited > 1'", "--html a.html"] {
        let output = shell(&home, &format!("tidegate replay -c policy.yaml --suggest {judging} access.log"));
        assert_eq!(output.status.code(), Some(2), "{judging}: {}", err(&output));
    }
    let unread = shell(&home, "tidegate suggest --key header:x-api-key access.log");
    fs::remove_dir_all(&home).unwrap();
    assert_eq!(unread.status.code(), Some(2), "{}", err(&unread));
    assert!(err(&unread).contains("needs header x-api-key"), "{}", err(&unread));
}
