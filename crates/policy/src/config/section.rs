//! Maps with fixed fields, each declared once.

use schemars::Schema;
use schemars::generate::SchemaGenerator;

use super::fault::{Code, Diagnostic, Faults};
use super::nearest::nearest;
use super::node::{Entry, Node, Value};
use super::quoted::quoted;
use super::read::{Read, wrong_shape};
use super::shape::is_extension;
use super::span::Span;

/// Declares a map with fixed fields: a struct of [`Field`]s, its [`Read`] and its JSON Schema.
///
/// `required` fields are missed when absent. `later` are words of the format that this version does not know yet; whoever
/// copies them from elsewhere is told so. The fields of an `and` part are declared elsewhere, by a [`Flat`].
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        $name:ident ($noun:literal) {
            $($(#[doc = $field_doc:literal])* $need:ident $field:ident: $type:ty,)*
        }
        $(and $flat:ident: $flat_type:ident)?
        later: [$($later:literal),*]
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            $($(#[doc = $field_doc])* pub $field: $crate::config::read::Field<$type>,)*
            $(/// Fields that are declared elsewhere.
            pub $flat: $flat_type,)?
        }

        impl $name {
            /// The YAML words of its fields.
            pub const FIELDS: &'static [&'static str] = &[$($crate::config::section::section!(@word $field),)*];
        }

        impl $crate::config::section::Section for $name {
            fn present(&self) -> Vec<(&'static str, $crate::config::span::Span)> {
                let words = [$(($crate::config::section::section!(@word $field), self.$field.key()),)*];
                let present = words.into_iter().filter_map(|(word, key)| Some((word, key?)));
                present$(.chain($crate::config::section::Flat::present(&self.$flat)))?.collect()
            }
        }

        impl $crate::config::read::Read for $name {
            fn expected() -> String {
                $noun.into()
            }

            fn takes(value: &$crate::config::node::Value) -> bool {
                matches!(value, $crate::config::node::Value::Map(_))
            }

            fn read(
                node: &$crate::config::node::Node,
                faults: &mut $crate::config::fault::Faults,
            ) -> Option<Self> {
                use $crate::config::{read::Field, section};
                let known = [Self::FIELDS$(, &<$flat_type as section::Flat>::words())?].concat();
                let entries = section::open::<Self>(node, &known, &[$($later),*], faults)?;
                let find = |word: &str| entries.iter().find(|entry| entry.key == word);
                let read = $name {
                    $($field: Field::read(find($crate::config::section::section!(@word $field)), faults),)*
                    $($flat: section::Flat::read(entries, faults),)?
                };
                $($crate::config::section::section!(@need $need read.$field, $crate::config::section::section!(@word $field), node, faults);)*
                Some(read)
            }

            fn schema(generator: &mut schemars::generate::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<Self>()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::generate::SchemaGenerator) -> schemars::Schema {
                use $crate::config::section::{description, property};
                let mut properties = serde_json::Map::new();
                let mut required: Vec<&str> = Vec::new();
                $(
                    let schema = <$type as $crate::config::read::Read>::schema(generator);
                    let schema = property(schema, &[$($field_doc),*]);
                    properties.insert($crate::config::section::section!(@word $field).into(), schema.into());
                    if stringify!($need) == "required" {
                        required.push($crate::config::section::section!(@word $field));
                    }
                )*
                $(for (word, schema) in <$flat_type as $crate::config::section::Flat>::properties(generator) {
                    properties.insert(word.into(), schema.into());
                })?
                let mut schema = schemars::json_schema!({
                    "type": "object",
                    "description": description(&[$($doc),*]),
                    "properties": properties,
                    "patternProperties": { "^x-": true },
                    "additionalProperties": false
                });
                if !required.is_empty() {
                    schema.insert("required".into(), required.into());
                }
                schema
            }
        }
    };
    (@word $field:ident) => { $crate::config::section::word(stringify!($field)) };
    (@need required $read:ident.$field:ident, $word:expr, $node:ident, $faults:ident) => {
        $crate::config::section::need($read.$field.is_present(), $word, $node, $faults)
    };
    (@need optional $read:ident.$field:ident, $word:expr, $node:ident, $faults:ident) => {};
}

pub(crate) use section;

/// A map with fixed fields.
pub trait Section {
    /// The words that are there, each with the place where it stands.
    fn present(&self) -> Vec<(&'static str, Span)>;
}

/// Fields of a section that are declared elsewhere.
pub trait Flat: Sized {
    /// Their words.
    fn words() -> Vec<&'static str>;

    /// Reads those that are there.
    fn read(entries: &[Entry], faults: &mut Faults) -> Self;

    /// The words that are there, each with the place where it stands.
    fn present(&self) -> Vec<(&'static str, Span)>;

    /// What the JSON Schema says of each, its description included.
    fn properties(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)>;
}

/// The entries of a section's node; reports anything that is no map, and every field that does not exist.
pub fn open<'a, T: Read>(
    node: &'a Node,
    known: &[&'static str],
    later: &[&'static str],
    faults: &mut Faults,
) -> Option<&'a [Entry]> {
    let Value::Map(entries) = &node.value else {
        wrong_shape::<T>(node, faults);
        return None;
    };
    for entry in entries.iter().filter(|entry| !known.contains(&&*entry.key) && !is_extension(&entry.key)) {
        let fault =
            Diagnostic::error(Code::UNKNOWN_FIELD, entry.key_span, format!("unknown field {}", quoted(&entry.key)))
                .label("not a field here");
        faults.push(if later.contains(&&*entry.key) {
            fault.help("not available in this version")
        } else {
            match nearest(&entry.key, known.iter().copied()) {
                Some(near) => fault.nearest(Some(near)),
                None => fault.help(format!("fields here: {}", known.join(", "))),
            }
        });
    }
    Some(entries)
}

/// Reports a required field that is not there.
pub fn need(present: bool, field: &str, node: &Node, faults: &mut Faults) {
    if !present {
        faults.push(
            Diagnostic::error(Code::MISSING_FIELD, node.span, format!("`{field}` is missing"))
                .label(format!("needs `{field}`")),
        );
    }
}

/// The schema of one field, with its description unless it has its own.
pub fn property(mut schema: Schema, docs: &[&str]) -> Schema {
    if !docs.is_empty() {
        schema.insert("description".into(), description(docs).into());
    }
    schema
}

/// Doc comment lines as one text: lines are joined, empty ones part paragraphs.
pub fn description(docs: &[&str]) -> String {
    let mut text = String::new();
    for line in docs.iter().map(|line| line.trim()) {
        match line {
            "" => text.push_str("\n\n"),
            _ if text.is_empty() || text.ends_with('\n') => text.push_str(line),
            _ => {
                text.push(' ');
                text.push_str(line);
            }
        }
    }
    text
}

/// The YAML word of a field, which Rust may have to write as `r#match`.
pub const fn word(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', word @ ..] => match std::str::from_utf8(word) {
            Ok(word) => word,
            Err(_) => field,
        },
        _ => field,
    }
}
