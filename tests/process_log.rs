//! The process's own log with the framework's lines in it. One test, because there is one log per process.

use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pingora::server::Server;
use pingora::server::configuration::{Opt, ServerConf};
use tidegate::config::settings::LogLevel;
use tidegate::observe::log::{self, LINES, PERIOD, Style};
use tracing_subscriber::util::SubscriberInitExt;

use captured::Captured;

#[path = "../src/observe/captured.rs"]
mod captured;

static SECONDS: AtomicU64 = AtomicU64::new(0);

fn now() -> Duration {
    Duration::from_secs(SECONDS.load(Ordering::Relaxed))
}

/// Makes the framework write one warning, through the `log` crate.
fn warn() {
    let options = Opt { conf: Some("ignored".to_owned()), ..Opt::default() };
    let _ = Server::new_with_opt_and_conf(options, ServerConf::default());
}

#[test]
fn the_framework_is_heard_within_its_budget_and_panics_are_counted() {
    let written = Captured::default();
    let writer = written.clone();
    log::subscriber(LogLevel::Info, Style::Json, move || writer.clone(), now).try_init().unwrap();

    for _ in 0..LINES + 7 {
        warn();
    }
    let lines = written.lines();
    assert_eq!(lines.len() as u64, LINES, "{lines:?}");
    assert!(lines.iter().all(|line| line["level"] == "WARN" && line["target"] == "pingora_core::server"), "{lines:?}");
    // nothing of the machine that built the program, whose paths the `log` crate brings
    let names = |line: &serde_json::Value| line.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(lines.iter().all(|line| names(line) == ["level", "message", "target", "timestamp"]), "{lines:?}");
    assert_eq!(log::state().dropped, 7);

    tracing::info!(target: "tidegate::serve", "ours are written all the same");
    assert_eq!(written.lines().len(), 1);

    SECONDS.store(PERIOD.as_secs(), Ordering::Relaxed);
    warn();
    let lines = written.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["target"], &lines[0]["source"]), (&"tidegate::log".into(), &"pingora".into()));
    assert_eq!(lines[0]["left_out"], 7);
    assert_eq!(lines[1]["target"], "pingora_core::server");

    log::hook_panics();
    let panicked = panic::catch_unwind(|| panic!("on purpose, number {}", 1));
    // so that a failure below is printed
    let _ = panic::take_hook();
    assert!(panicked.is_err());
    assert_eq!(log::panics(), 1);
    let lines = written.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["message"], "panic: on purpose, number 1");
    assert!(lines[0]["location"].as_str().unwrap().starts_with("tests/process_log.rs:"), "{lines:?}");
}
