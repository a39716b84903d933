//! The access log, read back: one JSON object per line.

use serde_json::Value;

/// One line.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The identifier that the answer and the origin saw too.
    pub id: String,
    /// The stamp that every limit was judged by, in nanoseconds.
    pub at: u64,
    /// What it came by.
    pub protocol: String,
    /// Who asked: a pseudonym by default.
    pub client: String,
    /// The status that the client got.
    pub status: u64,
    /// `admitted` or `refused`.
    pub verdict: String,
    /// The route's name.
    pub route: String,
    /// How much it mattered; empty for `default`.
    pub criticality: String,
    /// Every limit that was asked: name, mode, outcome.
    pub limits: Vec<(String, String, String)>,
}

/// Reads a line.
///
/// # Panics
/// When it is no JSON object, or a field is missing or of another type.
pub fn read(line: &str) -> Entry {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|fault| panic!("no JSON ({fault}): {line}"));
    let text = |value: &Value, name: &str| match &value[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => panic!("`{name}` is no text but {other}: {line}"),
    };
    let number = |name: &str| value[name].as_u64().unwrap_or_else(|| panic!("`{name}` is no number: {line}"));
    let limits = value["limits"].as_array().unwrap_or_else(|| panic!("`limits` is no list: {line}"));
    Entry {
        id: text(&value, "id"),
        at: number("at"),
        protocol: text(&value, "protocol"),
        client: text(&value, "client"),
        status: number("status"),
        verdict: text(&value, "verdict"),
        route: text(&value, "route"),
        criticality: text(&value, "criticality"),
        limits: limits.iter().map(|one| (text(one, "name"), text(one, "mode"), text(one, "outcome"))).collect(),
    }
}
