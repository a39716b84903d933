//! A test as the effective configuration writes it.

use std::time::Duration;

use http::{HeaderName, StatusCode};

use crate::config::case::{By, Case, Expected, Range, Reply, Step, written};
use crate::config::case_text::span_range;
use crate::config::scalar::duration;
use crate::config::tree::Tree;
use crate::policy::Policy;
use crate::policy::route::TextMatch;
use crate::units::Bytes;

/// The long form of a test.
pub fn case(case: &Case, policy: &Policy) -> Tree {
    let mut tree = vec![
        ("name", Tree::text(&case.name)),
        ("send", Tree::List(case.steps.iter().map(|step| self::step(step, policy)).collect())),
    ];
    tree.extend(expected(&case.expected, policy).map(|expect| ("expect", expect)));
    Tree::map(tree)
}

fn step(step: &Step, policy: &Policy) -> Tree {
    let mut tree =
        vec![("url", Tree::text(&step.url)), ("from", Tree::texts(&step.from)), ("method", Tree::text(&step.method))];
    if !step.headers.is_empty() {
        let values = step.headers.iter().map(|(name, value)| (name, value.clone()));
        tree.push(("headers", lines(values)));
    }
    if step.body > 0 {
        tree.push(("body", Tree::text(Bytes(step.body))));
    }
    tree.push(("n", Tree::text(step.count)));
    if !step.every.is_zero() {
        tree.push(("every", Tree::text(duration(step.every))));
    }
    tree.push(("at", Tree::text(duration(step.begins))));
    tree.push(("answer", reply(&step.reply)));
    tree.extend(expected(&step.expected, policy).map(|expect| ("expect", expect)));
    Tree::map(tree)
}

fn reply(reply: &Reply) -> Tree {
    let mut tree = vec![("status", Tree::text(StatusCode::as_u16(&reply.status)))];
    if !reply.headers.is_empty() {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        tree.push(("headers", lines(reply.headers.iter().map(|(name, value)| (name, text(value))))));
    }
    if reply.body > 0 {
        tree.push(("body", Tree::text(Bytes(reply.body))));
    }
    if !reply.takes.is_zero() {
        tree.push(("takes", Tree::text(duration(reply.takes))));
    }
    Tree::map(tree)
}

/// Fields, each with the list of its lines.
fn lines<'a>(fields: impl Iterator<Item = (&'a HeaderName, String)>) -> Tree {
    let mut tree: Vec<(String, Vec<Tree>)> = Vec::new();
    for (name, value) in fields {
        match tree.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, lines)) => lines.push(Tree::Text(value)),
            None => tree.push((name.to_string(), vec![Tree::Text(value)])),
        }
    }
    Tree::map(tree.into_iter().map(|(name, lines)| (name, Tree::List(lines))))
}

fn expected(expected: &Expected, policy: &Policy) -> Option<Tree> {
    let mut tree = Vec::new();
    let count = |of: Option<Range<u64>>| of.map(|of| Tree::text(written(of, |number| number)));
    let span = |of: Option<Range<Duration>>| of.map(|of| Tree::text(span_range(of)));
    let names = |of: &[By]| (!of.is_empty()).then(|| Tree::texts(of.iter().map(|by| name(*by, policy))));
    let mut add = |word: &'static str, value: Option<Tree>| tree.extend(value.map(|value| (word, value)));
    add("allowed", count(expected.allowed));
    add("limited", count(expected.limited));
    add("by", names(&expected.by));
    add("shadowed", count(expected.shadowed));
    add("shadowed_by", names(&expected.shadowed_by));
    add("delayed", count(expected.delayed));
    add("delay", span(expected.delay));
    add("tagged", count(expected.tagged));
    add("status", (!expected.status.is_empty()).then(|| Tree::texts(&expected.status)));
    add("route", expected.route.as_ref().map(Tree::text));
    add("client", expected.client.as_ref().map(Tree::text));
    add("retry_after", span(expected.retry_after));
    let fields = expected.headers.iter().map(|(name, value)| {
        let form = match value {
            TextMatch::Exact(text) => Tree::map([("exact", Tree::text(text))]),
            TextMatch::Regex(regex) => Tree::map([("regex", Tree::text(inner(regex.as_str())))]),
        };
        (name.as_str(), form)
    });
    add("headers", (!expected.headers.is_empty()).then(|| Tree::map(fields)));
    (!tree.is_empty()).then(|| Tree::map(tree))
}

/// The name that a test calls a limit or an origin by.
fn name(by: By, policy: &Policy) -> String {
    match by {
        By::Limit(limit) => policy.rules.get(limit).map(|rule| rule.name.clone()).unwrap_or_default(),
        By::Origin(origin) => {
            policy.origins.get(origin).map(|origin| format!("origin:{}", origin.name)).unwrap_or_default()
        }
    }
}

/// The expression as it was written, out of the one that meets whole texts only.
fn inner(whole: &str) -> &str {
    let inside = whole.strip_prefix(r"\A(?:").and_then(|rest| rest.strip_suffix(r")\z"));
    inside.map_or(whole, |inside| inside.strip_suffix('\n').unwrap_or(inside))
}
