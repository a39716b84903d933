//! `tidegate suggest` as its users meet it, and the page about it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::console::{self, err, out, shell};
use crate::path;

/// A folder of its own with a log in it, under the name that the page gives it.
fn home(name: &str) -> PathBuf {
    let home = console::home(&format!("suggest-{name}"));
    fs::copy(path("tests/data/apache-combined-elastic.log.gz"), home.join("access.log.gz")).unwrap();
    home
}

#[test]
fn the_page_about_it_shows_what_the_commands_print() {
    let home = home("page");
    let ran = console::page("docs/suggest.md", &home, &[0]);
    assert!(home.join("report.html").exists());
    let pictures = shell(&home, "tidegate replay -c suggested.yaml --limit site --svg . access.log.gz");
    assert!(pictures.status.success(), "{}", err(&pictures));
    let drawn = fs::read_to_string(home.join("site-trade-off.svg")).unwrap();
    fs::remove_dir_all(&home).unwrap();
    assert!(ran >= 4, "{ran} commands");
    let picture = path("docs/suggest-trade-off.svg");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&picture, &drawn).unwrap();
    }
    assert!(
        fs::read_to_string(&picture).unwrap_or_default() == drawn,
        "its picture is not what is drawn now; UPDATE_EXPECTED=1 rewrites it"
    );
}

#[test]
fn a_replay_of_what_was_proposed_touches_exactly_as_many_clients() {
    let home = home("exact");
    let mut limits = 0;
    for share in ["5%", "1%", "0.1%"] {
        limits += compare(&home, share);
    }
    fs::remove_dir_all(&home).unwrap();
    assert!(limits >= 3);
}

/// Compares what is recommended for a share with its replay. Returns how many limits there were.
fn compare(home: &Path, share: &str) -> usize {
    let asked = shell(home, &format!("tidegate suggest --format json --touch {share} access.log.gz"));
    assert!(asked.status.success(), "{}", err(&asked));
    let document: Value = serde_json::from_str(&out(&asked)).unwrap();
    assert_eq!(document["schema"], "tidegate.suggest/1");
    fs::write(home.join("suggested.yaml"), document["policy"].as_str().unwrap()).unwrap();
    let checked = shell(home, "tidegate check --deny-warnings suggested.yaml");
    assert!(checked.status.success(), "{}{}", out(&checked), err(&checked));
    let replayed = shell(home, "tidegate replay -q --format json -c suggested.yaml access.log.gz");
    assert!(replayed.status.success(), "{}", err(&replayed));
    let replayed: Value = serde_json::from_str(&out(&replayed)).unwrap();
    let limits = replayed["limits"].as_array().unwrap();
    let mut compared = 0;
    for proposal in
        document["groups"].as_array().unwrap().iter().flat_map(|group| group["proposals"].as_array().unwrap())
    {
        assert_eq!(proposal["recommended"], true, "{proposal}");
        let limit = limits.iter().find(|limit| limit["name"] == proposal["limit"]).unwrap();
        assert_eq!(limit["clients"], proposal["clients_touched"], "{limit}\n{proposal}");
        assert_eq!(limit["limited"], proposal["requests_limited"], "{limit}\n{proposal}");
        compared += 1;
    }
    compared
}

/// Logs of every kind at hand: one recommendation for each kind of request with its reason, no two alike, no slow one for a whole site,
/// and of a small log that it is small.
#[test]
fn every_log_has_one_recommendation_and_a_small_one_says_so() {
    let home = home("every");
    let (mut logs, mut small) = (0, 0);
    let mut folders = vec![path("tests/data")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let output = shell(&home, &format!("tidegate suggest --format json {}", entry.display()));
            // licences and policies are no logs
            let Ok(document) = serde_json::from_str::<Value>(&out(&output)) else { continue };
            let groups = document["groups"].as_array().unwrap();
            logs += usize::from(!groups.is_empty());
            let name = entry.display();
            let mut limits = Vec::new();
            for group in groups {
                let proposals = group["proposals"].as_array().unwrap();
                let recommended = proposals.iter().filter(|proposal| proposal["recommended"] == true);
                let recommended: Vec<&Value> = recommended.collect();
                assert_eq!(recommended.len(), 1, "{name}: {group}");
                let reason = group["reason"].as_str().unwrap();
                let is_small = group["clients"].as_u64() < Some(100) || document["seconds"].as_f64() < Some(3_600.0);
                assert_eq!(group["too_small"], is_small, "{name}: {group}");
                assert_eq!(reason.starts_with("too s"), is_small, "{name}: {reason}");
                small += usize::from(is_small);
                let pairs: Vec<_> = proposals.iter().map(|one| (&one["rate"], &one["burst"])).collect();
                assert!((1..pairs.len()).all(|at| !pairs[at..].contains(&pairs[at - 1])), "{name}: {pairs:?}");
                let rate = recommended[0]["rate"].as_str().unwrap();
                assert!(group["name"] == "login" || rate.ends_with("/s"), "{name}: {group}");
                limits.extend(
                    recommended[0]["limit"].as_str().map(|_| (rate.to_owned(), recommended[0]["burst"].clone())),
                );
            }
            let policy = document["policy"].as_str().unwrap();
            assert_eq!(policy.matches("mode: shadow").count(), limits.len(), "{name}: {policy}");
            assert!((1..limits.len()).all(|at| !limits[at..].contains(&limits[at - 1])), "{name}: {limits:?}");
        }
    }
    fs::remove_dir_all(&home).unwrap();
    println!("{logs} logs, {small} groups too small");
    assert!(logs >= 10 && small >= 5, "{logs} logs, {small} groups too small");
}

#[test]
fn replay_suggests_the_same() {
    let home = home("same");
    let [alone, beside] = ["tidegate suggest access.log.gz", "tidegate replay --suggest access.log.gz"].map(|line| {
        let output = shell(&home, line);
        assert!(output.status.success(), "{}", err(&output));
        out(&output)
    });
    fs::remove_dir_all(&home).unwrap();
    assert_eq!(alone, beside);
}

#[test]
fn standard_input_is_read_once_and_routes_of_a_policy_have_proposals_of_their_own() {
    let home = home("ways");
    let piped = shell(&home, "gzip -dc access.log.gz | tidegate suggest --path /presentations --method GET -");
    assert!(piped.status.success(), "{}", err(&piped));
    assert!(out(&piped).contains("chosen: { rate: "), "{}", out(&piped));
    let policy = "listen: \":8080\"\nroutes:\n  - { name: blog, match: { path: /blog }, origin: \"127.0.0.1:3000\" }\n  \
                  - { name: rest, origin: \"127.0.0.1:3000\" }\n";
    fs::write(home.join("own.yaml"), policy).unwrap();
    let routes = shell(&home, "tidegate suggest --per-route -c own.yaml access.log.gz");
    fs::remove_dir_all(&home).unwrap();
    assert!(routes.status.success(), "{}", err(&routes));
    assert!(out(&routes).contains("# route blog: limits: [blog]"), "{}", out(&routes));
}

#[test]
fn what_cannot_be_asked_is_wrong_usage() {
    let home = home("usage");
    for (line, told) in [
        ("tidegate suggest --touch 200% access.log.gz", "allowed a share such as 1% or 0.01%"),
        ("tidegate suggest --key header: access.log.gz", "--key, --path or --method: "),
        ("tidegate suggest --per-route --path /x access.log.gz", "cannot be used with"),
        ("tidegate suggest --log-format nonsense access.log.gz", "unknown log format"),
    ] {
        let output = shell(&home, line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", err(&output));
        assert!(err(&output).contains(told), "{line}: {}", err(&output));
    }
    let missing = shell(&home, "tidegate suggest nowhere.log");
    fs::remove_dir_all(&home).unwrap();
    assert_eq!(missing.status.code(), Some(71), "{}", err(&missing));
}
