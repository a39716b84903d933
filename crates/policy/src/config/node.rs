//! The tree of a YAML text: every node with its place, aliases and merges unfolded, variables replaced.
//!
//! Scalars stay text: what a text means is decided by the field that it stands in, so `host: no` is the text "no" and
//! `1_000` is whatever a count makes of it. `parse` builds the tree.

use super::quoted::quoted;
use super::span::Span;

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it stands. For an alias: where the aliased node stands.
    pub span: Span,
    /// What it is.
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing at all, `~` or `null`.
    Nothing,
    /// A scalar whose variable could not be replaced: reported where it stands, and skipped by every reader.
    Unset,
    /// A scalar.
    Text(Text),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file, without duplicate keys.
    Map(Vec<Entry>),
}

/// A scalar.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// The text with its variables replaced.
    pub text: String,
    /// The text as written, if it held a variable: messages show this, never the variable's value.
    pub written: Option<String>,
    /// Which stand-in is read in its place, if one is; see [`conceal`](super::conceal).
    pub stand_in: Option<usize>,
}

/// One field of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The field's name.
    pub key: String,
    /// Where the name stands.
    pub key_span: Span,
    /// What it is set to.
    pub value: Node,
}

impl Text {
    /// The text as messages may show it, in backticks.
    pub fn shown(&self) -> String {
        quoted(self.written.as_deref().unwrap_or(&self.text))
    }
}

impl Node {
    /// The scalar, if it is one.
    pub fn as_text(&self) -> Option<&Text> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The fields, if it is a map.
    pub fn as_map(&self) -> Option<&[Entry]> {
        if let Value::Map(entries) = &self.value { Some(entries) } else { None }
    }

    /// The value of a field, if it is a map that has it.
    pub fn field(&self, key: &str) -> Option<&Node> {
        self.as_map()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// What it is, as a message says it: `found a list`.
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Nothing | Value::Unset => "nothing".into(),
            Value::Text(text) => text.shown(),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
        }
    }
}
