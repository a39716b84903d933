//! Lists, maps with the operator's own keys, and the choice between a short form and a long one.

use schemars::generate::SchemaGenerator;
use schemars::{Schema, json_schema};

use super::fault::Faults;
use super::node::{Node, Value};
use super::quoted::quoted;
use super::read::{At, Field, Read, Scalar, invalid, wrong_shape};
use super::span::Span;

/// A list. Items that cannot be read are reported and left out.
#[derive(Debug, Clone)]
pub struct List<T> {
    /// Those that could be read.
    pub items: Vec<At<T>>,
    /// Whether others were left out.
    pub bad: bool,
}

impl<T: Read> Read for List<T> {
    fn expected() -> String {
        "a list".into()
    }

    fn takes(value: &Value) -> bool {
        matches!(value, Value::List(_))
    }

    fn read(node: &Node, faults: &mut Faults) -> Option<List<T>> {
        let Value::List(nodes) = &node.value else {
            wrong_shape(node, Self::expected, faults);
            return None;
        };
        let mut list = List { items: Vec::with_capacity(nodes.len()), bad: false };
        for node in nodes {
            match T::read(node, faults) {
                Some(value) => list.items.push(At::of(value, node)),
                None => list.bad = true,
            }
        }
        Some(list)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let items = T::schema(generator);
        json_schema!({ "type": "array", "items": items })
    }
}

/// One value, or a list of them.
#[derive(Debug, Clone)]
pub struct OneOrMany<T>(pub List<T>);

impl<T: Read> Read for OneOrMany<T> {
    fn expected() -> String {
        format!("{}, or a list of them", T::expected())
    }

    fn takes(value: &Value) -> bool {
        T::takes(value) || List::<T>::takes(value)
    }

    fn read(node: &Node, faults: &mut Faults) -> Option<OneOrMany<T>> {
        if let Value::List(_) = node.value {
            return List::read(node, faults).map(OneOrMany);
        }
        let value = T::read(node, faults)?;
        Some(OneOrMany(List { items: vec![At::of(value, node)], bad: false }))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = T::schema(generator);
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

/// A short form or a long one, told apart by shape.
#[derive(Debug, Clone)]
pub enum Either<S, L> {
    /// The short form.
    Short(S),
    /// The long form.
    Long(L),
}

impl<S: Read, L: Read> Read for Either<S, L> {
    fn expected() -> String {
        format!("{}, or {}", S::expected(), L::expected())
    }

    fn takes(value: &Value) -> bool {
        S::takes(value) || L::takes(value)
    }

    fn read(node: &Node, faults: &mut Faults) -> Option<Either<S, L>> {
        if S::takes(&node.value) {
            S::read(node, faults).map(Either::Short)
        } else if L::takes(&node.value) {
            L::read(node, faults).map(Either::Long)
        } else {
            wrong_shape(node, Self::expected, faults);
            None
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let short = S::schema(generator);
        let long = L::schema(generator);
        json_schema!({ "anyOf": [short, long] })
    }
}

/// A map whose keys are the operator's own, in file order.
#[derive(Debug, Clone)]
pub struct Keyed<K, V>(pub Vec<KeyedEntry<K, V>>);

/// One entry of a [`Keyed`] map.
#[derive(Debug, Clone)]
pub struct KeyedEntry<K, V> {
    /// The key, if it is one.
    pub key: Option<K>,
    /// The key as it was written.
    pub name: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value, if it could be read: a broken limit still has its name, so that routes that use it are not blamed.
    pub value: Option<At<V>>,
}

impl<K: Scalar, V: Read> Read for Keyed<K, V> {
    fn expected() -> String {
        format!("a map of {}s", K::NAME)
    }

    fn takes(value: &Value) -> bool {
        matches!(value, Value::Map(_))
    }

    fn read(node: &Node, faults: &mut Faults) -> Option<Keyed<K, V>> {
        let Value::Map(entries) = &node.value else {
            wrong_shape(node, Self::expected, faults);
            return None;
        };
        let mut map = Vec::with_capacity(entries.len());
        for entry in entries {
            if K::KEYS_EXCEPT_EXTENSIONS && is_extension(&entry.key) {
                continue;
            }
            let key = match K::parse(&entry.key) {
                Ok(key) => Some(key),
                Err(wrong) => {
                    faults.push(invalid::<K>(wrong, entry.key_span, &quoted(&entry.key), false));
                    None
                }
            };
            let value = match Field::<V>::read(Some(entry), faults) {
                Field::Set { at, .. } => Some(at),
                _ => None,
            };
            map.push(KeyedEntry { key, name: entry.key.clone(), key_span: entry.key_span, value });
        }
        Some(Keyed(map))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let values = V::schema(generator);
        let keys = K::schema();
        if K::KEYS_EXCEPT_EXTENSIONS {
            let keys = json_schema!({ "anyOf": [keys, { "pattern": "^x-" }] });
            return json_schema!({
                "type": "object", "propertyNames": keys, "patternProperties": { "^x-": true },
                "additionalProperties": values
            });
        }
        json_schema!({ "type": "object", "propertyNames": keys, "additionalProperties": values })
    }
}

/// Fields that begin with `x-` are the operator's own: a home for anchors.
pub fn is_extension(key: &str) -> bool {
    key.starts_with("x-")
}
