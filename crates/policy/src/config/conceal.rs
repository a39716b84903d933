//! What may be shown of a configuration whose texts hold variables.
//!
//! The value of a variable is never shown: it may be a secret, and what is shown goes to terminals, logs and pages. Two ways:
//!
//! * *The effective configuration* ([`shown`]). What a value becomes (a number, an address, a name, a default of something
//!   else) cannot be told from what it becomes. So the configuration is made twice more from the same tree, each time
//!   with other stand-ins (`stand_in`) in the place of every text with a variable: what is not the same in all of them depends on a
//!   variable. It is shown as it was written, `${NAME}`, where it stands at the same place as in the file, and as
//!   [`HIDDEN`] elsewhere.
//! * *Texts* ([`Concealed`](super::concealed::Concealed)): messages, and the names of files. A value in them is shown as
//!   `${NAME}`.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::node::{Entry, Node, Value};
use super::schema::json_schema;
use super::tree::Tree;

/// What is shown in the place of something that a variable made.
pub const HIDDEN: &str = "‹variable›";

/// Whether a text is a word of policy files, of which messages are made; no secret is one.
pub fn is_word(text: &str) -> bool {
    static WORDS: OnceLock<HashSet<String>> = OnceLock::new();
    fn gather(value: &serde_json::Value, words: &mut HashSet<String>) {
        match value {
            serde_json::Value::Object(fields) => fields.iter().for_each(|(name, field)| {
                words.insert(name.clone());
                gather(field, words);
            }),
            serde_json::Value::Array(items) => items.iter().for_each(|item| gather(item, words)),
            serde_json::Value::String(text) => {
                words.insert(text.clone());
            }
            _ => {}
        }
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    plain
        && WORDS
            .get_or_init(|| {
                let mut words = HashSet::new();
                gather(json_schema().as_value(), &mut words);
                words
            })
            .contains(text)
}

/// Whether a text below this node holds a variable.
pub fn has_variables(node: &Node) -> bool {
    match &node.value {
        Value::Text(text) => text.written.is_some(),
        Value::List(items) => items.iter().any(has_variables),
        Value::Map(entries) => entries.iter().any(|entry| has_variables(&entry.value)),
        Value::Nothing | Value::Unset => false,
    }
}

/// The tree with stand-ins number `which` in the place of every text that holds a variable.
pub fn stood_in(node: &Node, which: usize) -> Node {
    let value = match &node.value {
        Value::Text(text) if text.written.is_some() => {
            let mut text = text.clone();
            text.text.clear();
            text.stand_in = Some(which);
            Value::Text(text)
        }
        Value::List(items) => Value::List(items.iter().map(|item| stood_in(item, which)).collect()),
        Value::Map(entries) => {
            let entry = |entry: &Entry| Entry { value: stood_in(&entry.value, which), ..entry.clone() };
            Value::Map(entries.iter().map(entry).collect())
        }
        other => other.clone(),
    };
    Node { span: node.span, value }
}

/// What may be shown of `effective`, which was made of `root`. `others` were made of the same with stand-ins.
pub fn shown(root: &Node, effective: &Tree, others: &[Tree]) -> Tree {
    let mut keys = HashSet::new();
    keys_of_node(root, &mut keys);
    others.iter().for_each(|other| keys_of_tree(other, &mut keys));
    let others: Vec<&Tree> = others.iter().collect();
    Shown { keys }.tree(effective, &others, Some(root))
}

fn keys_of_node<'t>(node: &'t Node, keys: &mut HashSet<&'t str>) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| keys_of_node(item, keys)),
        Value::Map(entries) => entries.iter().for_each(|entry| {
            keys.insert(&entry.key);
            keys_of_node(&entry.value, keys);
        }),
        _ => {}
    }
}

fn keys_of_tree<'t>(tree: &'t Tree, keys: &mut HashSet<&'t str>) {
    match tree {
        Tree::Text(_) | Tree::Written(_) => {}
        Tree::List(items) => items.iter().for_each(|item| keys_of_tree(item, keys)),
        Tree::Map(fields) => fields.iter().for_each(|(key, value)| {
            keys.insert(key);
            keys_of_tree(value, keys);
        }),
    }
}

/// A part of what may be shown, in one line, if a variable has any part in it; `None` where all of it is plain.
pub fn redacted(shown: &Tree) -> Option<String> {
    fn gather<'t>(tree: &'t Tree, texts: &mut Vec<&'t str>) -> bool {
        match tree {
            Tree::Text(text) => {
                texts.push(text);
                text == HIDDEN
            }
            Tree::Written(text) => {
                texts.push(text);
                true
            }
            Tree::List(items) => items.iter().fold(false, |redacted, item| gather(item, texts) | redacted),
            Tree::Map(fields) => fields.iter().fold(false, |redacted, (_, value)| gather(value, texts) | redacted),
        }
    }
    let mut texts = Vec::new();
    gather(shown, &mut texts).then(|| texts.join(", "))
}

struct Shown<'t> {
    /// Keys that no variable has a part in.
    keys: HashSet<&'t str>,
}

impl Shown<'_> {
    /// `others`: what stands at the same place there; none, if there is no such place in one of them.
    fn tree(&self, tree: &Tree, others: &[&Tree], node: Option<&Node>) -> Tree {
        let written = node.and_then(Node::as_text).and_then(|text| text.written.as_deref());
        if let Some(written) = written {
            return Tree::Written(written.to_owned());
        }
        match tree {
            Tree::Text(_) | Tree::Written(_) => {
                let same = !others.is_empty() && others.iter().all(|other| *other == tree);
                if same { tree.clone() } else { Tree::text(HIDDEN) }
            }
            Tree::List(items) => Tree::List(self.items(items, others, node)),
            Tree::Map(fields) => {
                let mut hidden = 0;
                let field = |(key, value): &(String, Tree)| {
                    let there: Vec<&Tree> = others.iter().filter_map(|other| other.field(key)).collect();
                    let there = if there.len() == others.len() { there } else { Vec::new() };
                    let value = self.tree(value, &there, node.and_then(|node| node.field(key)));
                    let key = if self.keys.contains(key.as_str()) {
                        key.clone()
                    } else {
                        hidden += 1;
                        if hidden == 1 { HIDDEN.to_owned() } else { format!("{HIDDEN} {hidden}") }
                    };
                    (key, value)
                };
                Tree::Map(fields.iter().map(field).collect())
            }
        }
    }

    /// Items go with those of the same name; where they have none, by their places, if there are as many.
    fn items(&self, items: &[Tree], others: &[&Tree], node: Option<&Node>) -> Vec<Tree> {
        let lists: Vec<&[Tree]> =
            others.iter().map(|other| if let Tree::List(items) = other { items } else { &[][..] }).collect();
        let nodes = match node.map(|node| (&node.value, node)) {
            Some((Value::List(nodes), _)) => nodes.as_slice(),
            // the only item stands there without a list
            Some((_, node)) => std::slice::from_ref(node),
            None => &[],
        };
        let nodes = Some(nodes).filter(|nodes| nodes.len() == items.len());
        let alike = lists.iter().all(|list| list.len() == items.len());
        let item = |(at, item): (usize, &Tree)| {
            let there: Vec<&Tree> = match item.field("name") {
                Some(name) => lists
                    .iter()
                    .filter_map(|list| list.iter().find(|other| other.field("name") == Some(name)))
                    .collect(),
                None if alike => lists.iter().filter_map(|list| list.get(at)).collect(),
                None => Vec::new(),
            };
            let there = if there.len() == others.len() { there } else { Vec::new() };
            self.tree(item, &there, nodes.and_then(|nodes| nodes.get(at)))
        };
        items.iter().enumerate().map(item).collect()
    }
}
