//! Names in documents are names of the program: metrics and their labels, verbs and options, words of the policy, codes of
//! diagnostics, defaults, files of the repository and of the package.
//!
//! Read are the README files, everything below `docs`, `conf`, `packaging` and `systemd`. Blocks of YAML are loaded by
//! [`documents`](crate::documents), and most blocks of commands are run.

mod defaults;
mod program;
mod text;

use std::fs;
use std::path::PathBuf;

use crate::path;
use program::Program;
use text::faults;

/// The documents, by their paths from the root.
fn documents() -> Vec<String> {
    let mut found = vec!["README.md".to_owned(), "SECURITY.md".to_owned(), "crates/limits/README.md".to_owned()];
    let mut folders: Vec<PathBuf> = ["docs", "conf", "packaging", "systemd"].map(path).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path_of = entry.unwrap().path();
            if path_of.is_dir() {
                folders.push(path_of);
            } else if !path_of.extension().is_some_and(|kind| kind == "svg" || kind == "png") {
                found.push(path_of.strip_prefix(path("")).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_name_in_the_documents_is_one_of_the_program() {
    let program = Program::read();
    let documents = documents();
    assert!(documents.len() > 60, "{documents:?}");
    let mut wrong = Vec::new();
    let mut checked = text::Checked::default();
    for name in documents {
        let text = fs::read_to_string(path(&name)).unwrap();
        wrong.extend(faults(&program, &name, &text, &mut checked));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{checked:?}");
    // a pattern that finds nothing would hold nothing
    let text::Checked { metrics, labels, verbs, options, words, codes, defaults, files } = checked;
    assert!(metrics > 150 && labels > 10 && verbs > 100 && options > 60, "{checked:?}");
    assert!(words > 150 && codes > 10 && defaults > 80 && files > 300, "{checked:?}");
}

#[test]
fn a_wrong_name_of_each_kind_is_found() {
    let program = Program::read();
    let of = |name: &str, text: &str| faults(&program, name, text, &mut text::Checked::default());
    for (right, wrong) in [
        ("`tidegate_requests_total`", "`tidegate_request_total`"),
        ("the `tidegate_origin_*` metrics", "the `tidegate_orgin_*` metrics"),
        (
            "`tidegate_limit_decisions_total{verdict=\"limited\"}`",
            "`tidegate_limit_decisions_total{decision=\"limited\"}`",
        ),
        ("`tidegate_limit_decisions_total{limit,verdict}`", "`tidegate_limit_decisions_total{limit,decision}`"),
        ("`tidegate_limit_decisions_total` with `verdict=`", "`tidegate_limit_decisions_total` with `decision=`"),
        (
            "`tidegate_limit_decisions_total{verdict=\"limited\"}`",
            "`tidegate_limit_decisions_total{verdict=\"blocked\"}`",
        ),
        ("`sudo tidegate reload --dry-run`", "`sudo tidegate relaod --dry-run`"),
        ("```console\n$ tidegate check x.yaml\n```", "```console\n$ tidegate validate x.yaml\n```"),
        ("`tidegate reload --dry-run`", "`tidegate reload --dryrun`"),
        ("with `--fail-if`", "with `--fail-when`"),
        ("`telemetry.access_log.sample`", "`telemetry.access_log.samples`"),
        ("`server.drain.timeout: 5s`", "`server.drain.time: 5s`"),
        ("`drain.timeout`", "`drain.time`"),
        ("`max_penalty: 5m`", "`penalty_max: 5m`"),
        ("see E0203", "see E0299"),
        ("W0403", "W0499"),
        ("`per_client` (default 5,000)", "`per_client` (default 4,000)"),
        (
            "| word | default |\n|---|---|\n| `queue_timeout` | 1s |",
            "| word | default |\n|---|---|\n| `queue_timeout` | 200ms |",
        ),
        ("`time_zone` (default `UTC`)", "`time_zone` (default `GMT`)"),
        ("`lease` (default)", "`leese` (default)"),
        ("[a](docs/metrics.md)", "[a](docs/metric.md)"),
        ("[a](docs/metrics.md#alerts-and-a-dashboard)", "[a](docs/metrics.md#alarms)"),
        ("`conf/minimal.yaml`", "`conf/smallest.yaml`"),
        ("`/usr/share/tidegate/prometheus/alerts.yml`", "`/usr/share/tidegate/alerts.yml`"),
    ] {
        assert_eq!(of("README.md", right), [""; 0]);
        assert_eq!(of("README.md", wrong).len(), 1, "{wrong}: {:?}", of("README.md", wrong));
    }
    let [right, wrong] = ["4MiB", "2MiB"].map(|size| format!("| memory | `memory`, at the default of {size} |"));
    assert_eq!(of("docs/limits/distinct.md", &right), [""; 0]);
    assert_eq!(of("docs/limits/distinct.md", &wrong).len(), 1);
    let [right, wrong] = ["500", "50"].map(|number| {
        format!("## Http2\n\n| word | value | |\n| `x` | | x |\n| `max_pending_resets` | number | Default {number}. |")
            .replace("500", "20")
    });
    assert_eq!(of("docs/reference.md", &right), [""; 0]);
    assert_eq!(of("docs/reference.md", &wrong).len(), 1);
}
