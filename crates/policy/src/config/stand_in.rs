//! What is read in the place of a text that holds a variable.

use schemars::Schema;

/// So many other configurations are made.
pub const STAND_INS: usize = 2;

/// Texts of which some can be read as almost any scalar there is; neighbours mean different things.
const TEXTS: [&str; 32] = [
    "24",
    "25",
    "24s",
    "25s",
    "24/s",
    "25/s",
    "24%",
    "25%",
    "64KiB",
    "128KiB",
    "127.0.0.1:0",
    "127.0.0.2:0",
    "10.24.0.0/16",
    "10.25.0.0/16",
    "a.example:24",
    "b.example:25",
    "a.example",
    "b.example",
    "/a",
    "/b",
    "=/a",
    "=/b",
    "GET",
    "HEAD",
    "a",
    "b",
    "unix:/a",
    "unix:/b",
    "0600",
    "0640",
    "2026-01-24",
    "2026-01-25",
];

/// The stand-in number `which` for a text with this schema and example that is `fit`; `None` if nothing is known that could be one.
pub fn stand_in(which: usize, schema: &Schema, example: &str, fit: &dyn Fn(&str) -> bool) -> Option<String> {
    let words = schema.get("enum").and_then(|words| words.as_array()).into_iter().flatten();
    let words = words.filter_map(|word| word.as_str());
    let examples = example.split('`').skip(1).step_by(2);
    let all = words.chain(TEXTS).chain(examples).chain(["true", "false"]);
    let known: Vec<&str> = all.filter(|text| fit(text)).take(STAND_INS).collect();
    known.get(which).or(known.last()).map(|text| (*text).to_owned())
}
