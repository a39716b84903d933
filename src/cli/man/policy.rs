//! tidegate.yaml(5), from the JSON Schema: every section with its words, as the schema describes them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::page::Page;

/// The page.
pub fn page(schema: &Value) -> String {
    let mut page = Page::new("tidegate.yaml", 5, "policy file of the tidegate edge proxy");
    page.section("DESCRIPTION");
    page.text(
        "A YAML file with the sections below; `tidegate check` tells all that is wrong with one, `tidegate show` what is in \
         force, `tidegate schema` prints its JSON Schema. Fields whose name begins with `x-` are ignored. In plain scalars \
         `${NAME}`, `${NAME:-default}` and `${NAME:?message}` are replaced by variables of the environment.",
    );
    page.text("The smallest file:");
    page.verbatim("    listen: \":8080\"\n    routes:\n      - origin: 127.0.0.1:3000\n        limit: 10/s");
    let mut told = BTreeSet::from(["File".to_owned()]);
    let mut next = vec![("the file".to_owned(), "File".to_owned())];
    while let Some((place, name)) = next.pop() {
        let Some(definition) = schema.pointer(&format!("/$defs/{name}")) else { continue };
        match name.as_str() {
            "File" => page.section("SECTIONS"),
            _ => page.section(&place),
        }
        page.text(&told_of(definition));
        let required: Vec<&str> =
            definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut below = Vec::new();
        for (word, field) in definition["properties"].as_object().into_iter().flatten() {
            let must = if required.contains(&word.as_str()) { " Required." } else { "" };
            page.item(word, &format!("{}{must}{}", told_of(field), words(field)));
            for reference in references(field) {
                if told.insert(reference.clone()) {
                    let place = if name == "File" { word.clone() } else { format!("{place}.{word}") };
                    below.push((place, reference));
                }
            }
        }
        // the first one next
        next.extend(below.into_iter().rev());
    }
    page.section("SEE ALSO");
    page.line("\\fBtidegate\\fR(1)");
    page.finish()
}

fn told_of(value: &Value) -> String {
    value["description"].as_str().unwrap_or_default().to_owned()
}

/// The words of a choice, where the description does not name them all.
fn words(field: &Value) -> String {
    let told = told_of(field);
    let words = field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let untold: Vec<String> = words.filter(|word| !told.contains(word)).map(|word| format!("`{word}`")).collect();
    if untold.is_empty() { String::new() } else { format!(" One of {}.", untold.join(", ")) }
}

/// The definitions that a field refers to, in whatever form.
fn references(field: &Value) -> Vec<String> {
    match field {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value.as_str()) {
                ("$ref", Some(path)) => path.rsplit('/').next().map(str::to_owned).into_iter().collect(),
                _ => references(value),
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
