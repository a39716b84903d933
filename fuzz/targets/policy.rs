//! The policy file (`config::load_text`). The input is its text.
//!
//! - It is refused exactly when there is an error, and everything said about it points into the text and can be drawn.
//! - What is in force is a policy file again: loading it gives the same policy, and showing that the same text.

use std::path::Path;

use tidegate::config::fault::Severity;
use tidegate::config::render::{Format, render};
use tidegate::config::{Config, Loaded, load_text};

use super::cost::{self, Bound, Work};

/// Texts longer than this only take time; the bounds of size and depth have tests of their own.
const MOST_BYTES: usize = 16 << 10;

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    let text = readable(data)?;
    Some(Box::new(|| drop(load(text))))
}

/// The text, if it may be loaded.
fn readable(data: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(data).ok()?;
    // a policy file may name other files; a fuzzer that writes `/dev/tty` must not wait for somebody to type
    (text.len() <= MOST_BYTES && !text.contains("dev") && !text.contains("proc")).then_some(text)
}

/// The target.
pub fn policy(data: &[u8]) {
    cost::is_bounded(data, Bound { once_micros: 200_000, loops: 2_000 }, work);
    let Some(text) = readable(data) else { return };
    let loaded = load(text);
    is_coherent(&loaded, text);
    let Ok(config) = &loaded.outcome else { return };
    let shown = config.effective.to_yaml();
    let again = load(&shown);
    is_coherent(&again, &shown);
    let diagnostics = &again.diagnostics;
    let again = again.outcome.as_ref().unwrap_or_else(|_| panic!("does not load again:\n{shown}\n{diagnostics:#?}"));
    assert_eq!(again.effective.to_yaml(), shown);
    same_policy(again, config);
}

fn load(text: &str) -> Loaded {
    let environment = |name: &str| match name {
        "FAST" => Some("100/s".to_owned()),
        "KEY" => Some("0123456789abcdef".to_owned()),
        "PORT" => Some("8080".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    load_text("fuzzed.yaml", text, &environment, Path::new("/no/such/directory"))
}

fn is_coherent(loaded: &Loaded, text: &str) {
    let errors = loaded.diagnostics.iter().filter(|fault| fault.severity() == Severity::Error).count();
    match &loaded.outcome {
        Ok(_) => assert_eq!(errors, 0),
        Err(refused) => assert!(refused.errors >= errors && refused.errors > 0),
    }
    assert_eq!(loaded.warnings() + errors, loaded.diagnostics.len());
    for fault in &loaded.diagnostics {
        if fault.at.source() == 0 {
            let place = text.get(fault.at.range());
            assert!(place.is_some(), "{fault:?} points past the text, or into a character");
        }
        let position = loaded.sources.position(fault.at);
        assert!(position.line >= 1 && position.column >= 1);
        assert!((position.line, position.column) <= (position.end_line, position.end_column));
    }
    for format in [Format::Text, Format::Short, Format::Json, Format::Github] {
        let told = render(loaded, format, false);
        assert_eq!(told.is_empty(), loaded.diagnostics.is_empty() && format != Format::Json, "{told:?}");
    }
}

fn same_policy(one: &Config, other: &Config) {
    assert_eq!(one.fingerprint, other.fingerprint);
    assert_eq!(one.policy.rules, other.policy.rules);
    assert_eq!(one.policy.origins, other.policy.origins);
    assert_eq!(one.policy.responses, other.policy.responses);
    let routes = |config: &Config| format!("{:?}", config.policy.routes.iter().collect::<Vec<_>>());
    assert_eq!(routes(one), routes(other));
    assert_eq!(format!("{:?}", one.policy.clients), format!("{:?}", other.policy.clients));
}
