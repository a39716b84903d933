//! The manual of the policy file: every section and word in Markdown, from the declarations that the reader itself uses.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::Schema;
use serde_json::{Map, Value};

use super::limit_text::LimitKey;
use super::read::Scalar;
use super::scalar::Count;
use super::schema::json_schema;
use super::text::{FieldValue, HostPort, Name};
use crate::client::KeyPart;
use crate::units::{Bytes, Rate, Share};

/// The whole manual.
pub fn markdown() -> String {
    let schema = json_schema().to_value();
    let mut out = String::from(
        "# Reference of the policy file\n\n\
         Written by `tidegate schema --format markdown` from the declarations that the reader itself uses; do not edit it. Every file may \
         hold fields that begin with `x-`, which are ignored.\n",
    );
    let sections = schema.get("$defs").and_then(Value::as_object);
    let root = schema.get("$ref").and_then(name_of);
    let Some((sections, root)) = sections.zip(root) else { return out };
    for name in in_order(root, sections) {
        if let Some(definition) = sections.get(name) {
            section(name, definition, &mut out);
        }
    }
    out
}

/// The sections, each before those that it is the first to name.
fn in_order<'a>(root: &'a str, sections: &'a Map<String, Value>) -> Vec<&'a str> {
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    let mut stack = vec![root];
    while let Some(name) = stack.pop() {
        if !seen.insert(name) {
            continue;
        }
        order.push(name);
        let mut below = Vec::new();
        if let Some(definition) = sections.get(name) {
            references(definition, &mut below);
        }
        stack.extend(below.into_iter().rev());
    }
    order
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(name_of));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

fn name_of(reference: &Value) -> Option<&str> {
    reference.as_str()?.strip_prefix("#/$defs/")
}

fn section(name: &str, definition: &Value, out: &mut String) {
    out.push_str(&format!("\n## {name}\n\n{}\n", text(definition)));
    let Some(properties) = definition.get("properties").and_then(Value::as_object) else { return };
    let required: Vec<&str> =
        definition.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    out.push_str("\n| word | value | |\n| --- | --- | --- |\n");
    for (word, property) in properties {
        let must = if required.contains(&word.as_str()) { "**Required.** " } else { "" };
        let said = text(property).replace("\n\n", "<br>").replace('|', "\\|");
        out.push_str(&format!("| `{word}` | {} | {must}{said} |\n", kind(property).replace('|', "\\|")));
    }
}

fn text(value: &Value) -> &str {
    value.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// What may stand there, in words.
fn kind(schema: &Value) -> String {
    if let Some(known) = scalar(schema) {
        return known.to_owned();
    }
    if let Some(name) = schema.get("$ref").and_then(name_of) {
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return format!("`{word}`");
    }
    if let Some(items) = schema.get("items") {
        return format!("list of {}", kind(items));
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        return format!("map of {}", kind(values));
    }
    if let Some(ways) = schema.get("anyOf").and_then(Value::as_array) {
        let mut kinds: Vec<String> = Vec::new();
        for way in ways {
            let kind = kind(way);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if kinds.len() > 1 {
            // what has no better name is text, and so is most
            kinds.retain(|kind| kind != "text" || !ways.iter().any(|way| way.get("type").is_none()));
        }
        return kinds.join(" or ");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer") => "number".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        _ => "text".to_owned(),
    }
}

/// The name of a value that many words have, known by its schema.
fn scalar(schema: &Value) -> Option<&'static str> {
    fn named<T: Scalar>() -> (Schema, &'static str) {
        (T::schema(), T::NAME)
    }
    let known = [
        named::<Duration>(),
        named::<Rate>(),
        named::<Bytes>(),
        named::<Share>(),
        named::<Count>(),
        named::<bool>(),
        named::<Name>(),
        named::<HostPort>(),
        named::<KeyPart>(),
        named::<LimitKey>(),
        named::<FieldValue>(),
        named::<String>(),
    ];
    let mut bare = schema.clone();
    if let Some(map) = bare.as_object_mut() {
        map.remove("description");
    }
    let found = known.iter().find(|(known, _)| *known.as_value() == bare)?.1;
    Some(match found {
        "switch" => "`true`, `false`",
        "header value" => "text",
        name => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_every_word() {
        let text = markdown();
        for section in ["File", "Limit", "Route", "Test", "Expect"] {
            assert!(text.contains(&format!("\n## {section}\n")), "{section}");
        }
        assert!(text.contains("| `rate` |") && text.contains("| `read` | duration |"), "{text}");
        assert!(!text.contains("| `` |"));
        assert!(text.contains("| `key` | key or list of key |"), "a limit may count by more than `origin`");
    }
}
