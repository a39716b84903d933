//! The policy that a suggestion is about, as text: what is proposed can be loaded, replayed and pasted as it stands.
//!
//! It is also how requests are told apart while the log is read: the same text, with numbers that mean nothing yet, is
//! loaded first and its own routes say what a request is. So a proposal is judged on exactly the requests that its limit
//! will see.

use std::fmt::Write;

use super::class::Class;
use crate::units::{Bytes, Rate};

/// What the operator narrowed the question to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// What is counted by, as in `key:`.
    pub key: String,
    /// Only requests below this path.
    pub path: Option<String>,
    /// Only requests with this method.
    pub method: Option<String>,
    /// Whether static files are left out.
    pub skip_static: bool,
}

impl Scope {
    /// Whether path or method narrow it.
    pub fn is_narrowed(&self) -> bool {
        self.path.is_some() || self.method.is_some()
    }

    /// The classes of requests that the policy's routes tell apart, in the order of these.
    pub fn classes(&self) -> &'static [Class] {
        if self.is_narrowed() {
            &[Class::Static, Class::Chosen, Class::Rest]
        } else {
            &[Class::Login, Class::Static, Class::Api, Class::Pages]
        }
    }

    /// Whether requests of a class are counted at all.
    pub fn counts(&self, class: Class) -> bool {
        match class {
            Class::Static => !self.skip_static && !self.is_narrowed(),
            Class::Rest => false,
            Class::All | Class::Login | Class::Api | Class::Pages | Class::Chosen => true,
        }
    }

    /// The route of a class is one of the policy's.
    fn has(&self, class: Class) -> bool {
        // without it, a chosen path's static files belong to what was chosen
        class != Class::Static || self.skip_static || !self.is_narrowed()
    }
}

/// A limit of the policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// The class whose requests it counts; [`Class::All`] for all that are counted.
    pub class: Class,
    /// Its rate.
    pub rate: Rate,
    /// Its burst.
    pub burst: u32,
    /// The size of its sketch, where the default is too small.
    pub memory: Option<Bytes>,
    /// What is said above it, a line each.
    pub remarks: Vec<String>,
}

/// The whole policy, such as `tidegate check` accepts it. The origin is a place where one may be put in. `without`: classes
/// that need no route of their own, as no request is among them or no limit is theirs alone.
pub fn policy(scope: &Scope, limits: &[Limit], without: &[Class]) -> String {
    let mut text = String::from("listen: \":8080\"\n");
    text.push_str(&limits_text(scope, limits));
    text.push_str(&routes_text(scope, limits, without));
    text
}

/// The section `limits:` alone.
pub fn limits_text(scope: &Scope, limits: &[Limit]) -> String {
    let mut text = String::from("limits:\n");
    for limit in limits {
        for remark in &limit.remarks {
            _ = writeln!(text, "  # {remark}");
        }
        let Limit { name, rate, burst, .. } = limit;
        let memory = limit.memory.map_or_else(String::new, |memory| format!(", memory: {memory}"));
        let key = quoted_key(&scope.key);
        let missing = if can_be_missing(&scope.key) { ", missing: allow" } else { "" };
        _ = writeln!(text, "  {name}: {{ rate: {rate}, burst: {burst}, key: {key}{missing}{memory}, mode: shadow }}");
    }
    text
}

/// The section `routes:` alone: which limits stand where.
pub fn routes_text(scope: &Scope, limits: &[Limit], without: &[Class]) -> String {
    let mut text = String::from("routes:\n");
    for class in scope.classes().iter().filter(|class| scope.has(**class) && !without.contains(class)) {
        _ = writeln!(text, "  - name: {}", class.name());
        let mut matched: Vec<String> = Vec::new();
        if *class == Class::Chosen {
            matched.extend(scope.path.as_ref().map(|path| format!("path: {{ prefix: {} }}", quoted(path))));
            matched.extend(scope.method.as_ref().map(|method| format!("method: {}", quoted(method))));
        } else {
            matched.extend(class.pattern().map(|regex| format!("path: {{ regex: {} }}", quoted(regex))));
            matched.extend((*class == Class::Login).then(|| "method: POST".to_owned()));
        }
        if !matched.is_empty() {
            _ = writeln!(text, "    match: {{ {} }}", matched.join(", "));
        }
        let named: Vec<&str> = limits
            .iter()
            .filter(|limit| scope.counts(*class) && (limit.class == Class::All || limit.class == *class))
            .map(|limit| limit.name.as_str())
            .collect();
        if !named.is_empty() {
            _ = writeln!(text, "    limits: [{}]", named.join(", "));
        }
        text.push_str("    origin: \"127.0.0.1:3000\"\n");
    }
    text
}

/// Whether a request may come without it, so that the limit must say what then.
fn can_be_missing(key: &str) -> bool {
    ["header:", "cookie:", "query:", "tls_sni"].iter().any(|kind| key.contains(kind))
}

/// A key, or several with commas between.
fn quoted_key(key: &str) -> String {
    if key.starts_with("client_ip:") || !key.contains(',') {
        return quoted(key);
    }
    format!("[{}]", key.split(',').map(|part| quoted(part.trim())).collect::<Vec<_>>().join(", "))
}

/// A YAML text: as it stands where it can be nothing else, in single quotes otherwise.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    if starts && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}
