//! A tree that is written as YAML: the way back from what is in force to a text that loads again.

use super::nearest::nearest;

/// What `show` prints: maps in order, lists, texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// A scalar, unquoted.
    Text(String),
    /// A scalar as the operator wrote it, with its variables: plain.
    Written(String),
    /// A list.
    List(Vec<Tree>),
    /// A map, in this order.
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// A scalar from anything that prints.
    pub fn text(value: impl std::fmt::Display) -> Tree {
        Tree::Text(value.to_string())
    }

    /// A list of scalars.
    pub fn texts<T: std::fmt::Display>(values: impl IntoIterator<Item = T>) -> Tree {
        Tree::List(values.into_iter().map(Tree::text).collect())
    }

    /// A map from its fields.
    pub fn map<K: Into<String>>(fields: impl IntoIterator<Item = (K, Tree)>) -> Tree {
        Tree::Map(fields.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// Whether it is a map or list of nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Tree::Text(_) | Tree::Written(_) => false,
            Tree::List(items) => items.is_empty(),
            Tree::Map(fields) => fields.is_empty(),
        }
    }

    /// The part at a path such as `limits.login` or `routes.0.match`; list items go by position or by their `name`.
    pub fn at(&self, path: &str) -> Option<&Tree> {
        if path.is_empty() {
            return Some(self);
        }
        // an origin's name may hold dots: the longest key that fits goes first
        match self {
            Tree::Text(_) | Tree::Written(_) => None,
            Tree::List(items) => {
                let (step, rest) = path.split_once('.').unwrap_or((path, ""));
                let named = |item: &&Tree| item.field("name") == Some(&Tree::Text(step.to_owned()));
                step.parse::<usize>().ok().and_then(|at| items.get(at)).or_else(|| items.iter().find(named))?.at(rest)
            }
            Tree::Map(fields) => fields
                .iter()
                .filter_map(|(key, value)| Some((key, value, path.strip_prefix(key.as_str())?)))
                .filter(|(_, _, rest)| rest.is_empty() || rest.starts_with('.'))
                .max_by_key(|(key, _, _)| key.len())
                .and_then(|(_, value, rest)| value.at(rest.strip_prefix('.').unwrap_or(rest))),
        }
    }

    /// The field of a map.
    pub fn field(&self, key: &str) -> Option<&Tree> {
        let Tree::Map(fields) = self else { return None };
        fields.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// What can follow here in a path: keys, or positions and names.
    pub fn steps(&self) -> Vec<String> {
        match self {
            Tree::Text(_) | Tree::Written(_) => Vec::new(),
            Tree::Map(fields) => fields.iter().map(|(key, _)| key.clone()).collect(),
            Tree::List(items) => items
                .iter()
                .enumerate()
                .map(|(at, item)| match item.field("name") {
                    Some(Tree::Text(name)) => name.clone(),
                    _ => at.to_string(),
                })
                .collect(),
        }
    }

    /// The tree as JSON; every scalar is a text there.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Tree::Text(text) | Tree::Written(text) => text.as_str().into(),
            Tree::List(items) => items.iter().map(Tree::to_json).collect(),
            Tree::Map(fields) => fields.iter().map(|(key, value)| (key.clone(), value.to_json())).collect(),
        }
    }

    /// What to say of a path at which there is nothing: the nearest one, or what there is instead.
    pub fn missing(&self, path: &str) -> String {
        let (parent, step) = path.rsplit_once('.').unwrap_or(("", path));
        let steps = self.at(parent).map(Tree::steps).unwrap_or_default();
        let dot = if parent.is_empty() { "" } else { "." };
        let way_out = match nearest(step, steps.iter().map(String::as_str)) {
            Some(near) => format!("; did you mean `{parent}{dot}{near}`?"),
            None if steps.is_empty() => String::new(),
            None => format!("; there are: {}", steps.join(", ")),
        };
        format!("there is no `{path}` in the configuration{way_out}")
    }

    /// The tree as a YAML document in block style.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        match self {
            Tree::Text(_) | Tree::Written(_) => self.write(0, false, &mut text),
            tree => tree.write(0, false, &mut text),
        }
        text
    }

    /// Writes a map or list at this depth; `inline` when the first line has been begun by a `- `.
    fn write(&self, depth: usize, inline: bool, text: &mut String) {
        let indent = "  ".repeat(depth);
        match self {
            Tree::Text(value) => {
                text.push_str(&scalar(value));
                text.push('\n');
            }
            Tree::Written(value) => {
                // one that went over several lines cannot be plain at any depth
                text.push_str(&if value.contains('\n') { scalar(value) } else { value.clone() });
                text.push('\n');
            }
            Tree::List(items) if items.is_empty() => text.push_str("[]\n"),
            Tree::Map(fields) if fields.is_empty() => text.push_str("{}\n"),
            Tree::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    if !(inline && at == 0) {
                        text.push_str(&indent);
                    }
                    text.push_str("- ");
                    item.write(depth + 1, true, text);
                }
            }
            Tree::Map(fields) => {
                for (at, (key, value)) in fields.iter().enumerate() {
                    if !(inline && at == 0) {
                        text.push_str(&indent);
                    }
                    text.push_str(&scalar(key));
                    text.push(':');
                    match value {
                        value if matches!(value, Tree::Text(_) | Tree::Written(_)) || value.is_empty() => {
                            text.push(' ');
                            value.write(depth + 1, false, text);
                        }
                        value => {
                            text.push('\n');
                            value.write(depth + 1, false, text);
                        }
                    }
                }
            }
        }
    }
}

/// A scalar as YAML: plain where nothing about it could be taken for anything else, in double quotes otherwise.
fn scalar(text: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '+' | '%' | ':' | ';' | '=' | ' ');
    let first = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '=' | '_');
    let nothing = ["null", "Null", "NULL", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(first)
        && text.chars().all(plain)
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && (!nothing.contains(&text) || matches!(text, "true" | "false" | "off"));
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if u32::from(c) < 0x20 || u32::from(c) == 0x7f => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if matches!(u32::from(c), 0x80..=0xa0 | 0x2028 | 0x2029 | 0xfeff) => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_become_block_yaml() {
        let tree = Tree::map([
            ("a", Tree::text("x")),
            ("b", Tree::List(vec![Tree::map([("c", Tree::text("1: 2")), ("d", Tree::texts(["*", "[::1]:80"]))])])),
            ("e", Tree::List(vec![])),
        ]);
        assert_eq!(tree.to_yaml(), "a: x\nb:\n  - c: \"1: 2\"\n    d:\n      - \"*\"\n      - \"[::1]:80\"\ne: []\n");
    }

    #[test]
    fn a_path_finds_names_with_dots_and_list_items_by_name() {
        let route = Tree::map([("name", Tree::text("shop"))]);
        let tree = Tree::map([
            ("origins", Tree::map([("127.0.0.1:80", Tree::map([("x", Tree::text(1))])), ("127", Tree::text(2))])),
            ("routes", Tree::List(vec![route.clone()])),
        ]);
        assert_eq!(tree.at("origins.127.0.0.1:80.x"), Some(&Tree::text(1)));
        assert_eq!(tree.at("origins.127"), Some(&Tree::text(2)));
        assert_eq!(tree.at("routes.shop"), Some(&route));
        assert_eq!(tree.at("routes.0"), Some(&route));
        assert_eq!(tree.at("routes.1"), None);
        assert_eq!(tree.at("route"), None);
    }
}
