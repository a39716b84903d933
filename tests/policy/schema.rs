//! The JSON Schema: generated from the reader's own declarations, committed, and true of every example.
//!
//! After a deliberate change, `UPDATE_EXPECTED=1 cargo test --test policy schema` rewrites the committed file.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;
use serde_json::Value;
use tidegate::config::schema::json_schema;

use crate::{codes, path};

fn schema() -> Value {
    json_schema().to_value()
}

/// An example as JSON, read by the YAML library itself and not by our reader.
fn example(name: &str) -> Value {
    let text = fs::read_to_string(path(&format!("conf/{name}"))).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

#[test]
fn the_committed_schema_is_the_generated_one() {
    let generated = format!("{:#}\n", schema());
    let file = path("conf/tidegate.schema.json");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&file, &generated).unwrap();
    }
    assert!(
        fs::read_to_string(file).unwrap() == generated,
        "conf/tidegate.schema.json is not what `tidegate schema` prints"
    );
}

#[test]
fn the_committed_reference_is_the_generated_one() {
    let generated = tidegate::config::reference::markdown();
    let file = path("docs/reference.md");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&file, &generated).unwrap();
    }
    assert!(
        fs::read_to_string(file).unwrap_or_default() == generated,
        "docs/reference.md is not what `tidegate schema --format markdown` prints"
    );
}

#[test]
fn every_example_is_valid_by_the_schema() {
    let schema = schema();
    for name in ["minimal.yaml", "production.yaml", "complete.yaml", "routes.d/health.yaml"] {
        let mut faults = Vec::new();
        validate(&schema, &schema, &example(name), "", &mut faults);
        assert!(faults.is_empty(), "{name}: {faults:#?}");
    }
}

#[test]
fn what_the_reader_refuses_for_its_shape_is_invalid_by_the_schema() {
    let schema = schema();
    for (policy, code) in [
        ("{listen: ':8080', routes: [{origin: 'a:1', limitt: 1/s}]}", "E0102"),
        ("{listen: ':8080', routes: [{origin: 'a:1', limit: fast}]}", "E0203"),
        ("{listen: 'nowhere', routes: [{origin: 'a:1'}]}", "E0209"),
        ("{listeners: {A-B: {address: ':8080'}}, routes: [{origin: 'a:1'}]}", "E0201"),
        ("{listeners: {a: {}}, routes: [{origin: 'a:1'}]}", "E0104"),
        ("{listen: ':8080', routes: {}}", "E0101"),
        ("{listen: ':8080', routes: [{origin: 'a:1', timeouts: {read: 5}}]}", "E0202"),
        ("{listen: ':8080', defaults: {mode: off}, routes: [{origin: 'a:1'}]}", "E0207"),
    ] {
        assert!(codes(policy).contains(&code), "{policy}: {:?}", codes(policy));
        let value: Value = serde_yaml::from_str(policy).unwrap();
        let mut faults = Vec::new();
        validate(&schema, &schema, &value, "", &mut faults);
        assert!(!faults.is_empty(), "{policy} is valid by the schema");
    }
}

/// The complete example is what operators copy from: a word that is missing there does not exist for them. Words that
/// exclude one that is used stand there in a comment.
#[test]
fn the_complete_example_uses_every_word() {
    let text = fs::read_to_string(path("conf/complete.yaml")).unwrap()
        + &fs::read_to_string(path("conf/routes.d/health.yaml")).unwrap()
        + &tidegate::limiter::FORMS.iter().map(|form| form.example).collect::<String>();
    let words: BTreeSet<&str> = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    let mut missing = Vec::new();
    for (section, definition) in schema()["$defs"].as_object().unwrap() {
        for word in definition["properties"].as_object().unwrap().keys() {
            if !words.contains(word.as_str()) {
                missing.push(format!("{section}.{word}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_word_is_described() {
    for (section, definition) in schema()["$defs"].as_object().unwrap() {
        assert!(definition["description"].as_str().is_some_and(|text| !text.is_empty()), "{section}");
        for (word, property) in definition["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{section}.{word}");
        }
    }
}

#[test]
fn every_default_is_valid_by_its_own_schema() {
    let schema = schema();
    for (section, definition) in schema["$defs"].as_object().unwrap() {
        for (word, property) in definition["properties"].as_object().unwrap() {
            if let Some(default) = property.get("default") {
                let mut faults = Vec::new();
                validate(&schema, property, default, &format!("{section}.{word}"), &mut faults);
                assert!(faults.is_empty(), "{faults:#?}");
            }
        }
    }
}

/// As much of JSON Schema as ours uses; an unknown keyword is a fault, so that nothing goes unchecked.
fn validate(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Value::Object(keywords) = schema else {
        if *schema == Value::Bool(false) {
            faults.push(format!("{at}: nothing may stand here"));
        }
        return;
    };
    for (keyword, rule) in keywords {
        let fine = match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" | "format" | "default" | "propertyNames"
            | "patternProperties" => true,
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                validate(root, &root["$defs"][name], value, at, faults);
                true
            }
            "type" => is_a(rule, value),
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "minimum" => value.as_u64().is_none_or(|number| number >= rule.as_u64().unwrap()),
            "maximum" => value.as_u64().is_none_or(|number| number <= rule.as_u64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
            "anyOf" => rule.as_array().unwrap().iter().any(|one| {
                let mut inner = Vec::new();
                validate(root, one, value, at, &mut inner);
                inner.is_empty()
            }),
            "items" => {
                for (nth, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(root, rule, item, &format!("{at}.{nth}"), faults);
                }
                true
            }
            "required" => {
                let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                !value.is_object() || rule.as_array().unwrap().iter().all(has)
            }
            "properties" | "additionalProperties" => {
                if keyword == "properties" || !keywords.contains_key("properties") {
                    object(root, keywords, value, at, faults);
                }
                true
            }
            unknown => panic!("the schema uses `{unknown}`, which this test does not know"),
        };
        if !fine {
            faults.push(format!("{at}: {value} against {keyword}: {rule}"));
        }
    }
}

fn object(root: &Value, schema: &serde_json::Map<String, Value>, value: &Value, at: &str, faults: &mut Vec<String>) {
    let extensions = schema.contains_key("patternProperties");
    for (key, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        if extensions && key.starts_with("x-") {
            continue;
        }
        if let Some(names) = schema.get("propertyNames") {
            validate(root, names, &Value::from(key.as_str()), &at, faults);
        }
        match schema.get("properties").and_then(|properties| properties.get(key)) {
            Some(property) => validate(root, property, value, &at, faults),
            None => validate(root, &schema["additionalProperties"], value, &at, faults),
        }
    }
}

fn is_a(kind: &Value, value: &Value) -> bool {
    match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| is_a(kind, value)),
        kind => match kind.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            other => panic!("unknown type {other}"),
        },
    }
}
