//! Maps with fixed fields, each declared once.
//!
//! A line of [`section!`] says all that there is to say of a setting: its word, how it is written, its range, its default and its
//! sentence in the manual. Reader, range fault, default, JSON Schema, manual and effective text come from that line.

use schemars::generate::SchemaGenerator;
use schemars::{Schema, json_schema};
use serde_json::{Map, Value as Json};

use super::fault::{Code, Diagnostic, Faults};
use super::nearest::nearest;
use super::node::{Entry, Node, Value};
use super::quoted::quoted;
use super::read::wrong_shape;
use super::setting::Rule;
use super::shape::is_extension;
use super::span::Span;

/// Declares a map with fixed fields.
///
/// ```text
/// section! {
///     /// How the process stops on SIGTERM.
///     struct Drain ("a map of durations") {
///         /// How long requests in flight may take.
///         optional timeout: Duration [0s to 1h, default 30s],
///     }
///     later: []
/// }
/// ```
///
/// `NAME (…)` alone makes a struct of [`Field`](super::read::Field)s with their places, its reader and its JSON Schema. `struct NAME`
/// makes a struct of plain values, read as [`Words`](super::setting::Words) of it; `values NAME` does so for a struct that stands
/// elsewhere. Both have the effective text and `Default` too.
///
/// Behind the type, in brackets: the range, and the default as a policy file would write it. A line with a range and no default is
/// an `Option`; one without brackets is no plain value and is compiled by hand. `required` fields are missed when absent. `later`
/// are words of the format that this version does not know yet; whoever copies them from elsewhere is told so. The fields of an `and`
/// part are declared elsewhere, by a [`Flat`].
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        struct $name:ident ($noun:literal) {
            $($(#[doc = $field_doc:literal])* $need:ident $field:ident: $type:ty $([$($rule:tt)*])?,)*
        }
        later: [$($later:literal),*]
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name {
            $($(
                #[doc = concat!("`", stringify!($field), "` of the policy file.")]
                pub $field: $crate::config::section::section!(@type $type; $($rule)*),
            )?)*
        }

        $crate::config::section::section! {
            $(#[doc = $doc])*
            values $name ($noun) {
                $($(#[doc = $field_doc])* $need $field: $type $([$($rule)*])?,)*
            }
            later: [$($later),*]
        }
    };
    (
        $(#[doc = $doc:literal])*
        values $name:ident ($noun:literal) {
            $($(#[doc = $field_doc:literal])* $need:ident $field:ident: $type:ty $([$($rule:tt)*])?,)*
        }
        later: [$($later:literal),*]
    ) => {
        impl Default for $name {
            fn default() -> $name {
                $name { $($($field: $crate::config::section::section!(@first $type; $($rule)*),)?)* }
            }
        }

        const _: () = {
            $crate::config::section::section! {
                @words Words $name
                $(#[doc = $doc])*
                ($noun) { $($(#[doc = $field_doc])* $need $field: $type $([$($rule)*])?,)* }
                later: [$($later),*]
            }

            impl $crate::config::setting::Values for $name {
                type Words = Words;

                fn over(words: &Words, above: &$name) -> $name {
                    $name { $($($field: $crate::config::section::section!(@over words.$field, above.$field; $($rule)*),)?)* }
                }

                fn fields(&self) -> Vec<(&'static str, $crate::config::tree::Tree)> {
                    let fields = [$($((
                        $crate::config::section::section!(@word $field),
                        $crate::config::section::section!(@tree self.$field, $type; $($rule)*),
                    ),)?)*];
                    fields.into_iter().filter_map(|(word, tree)| Some((word, tree?))).collect()
                }
            }
        };
    };
    (
        $(#[doc = $doc:literal])*
        $name:ident ($noun:literal) { $($lines:tt)* }
        $(and $flat:ident: $flat_type:ident)?
        later: [$($later:literal),*]
    ) => {
        $crate::config::section::section! {
            @words $name $name $(#[doc = $doc])* ($noun) { $($lines)* } $(and $flat: $flat_type)? later: [$($later),*]
        }
    };
    (
        @words $words:ident $name:ident
        $(#[doc = $doc:literal])*
        ($noun:literal) {
            $($(#[doc = $field_doc:literal])* $need:ident $field:ident: $type:ty $([$($rule:tt)*])?,)*
        }
        $(and $flat:ident: $flat_type:ident)?
        later: [$($later:literal),*]
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Default)]
        pub struct $words {
            $($(#[doc = $field_doc])* pub $field: $crate::config::read::Field<$type>,)*
            $(/// Fields that are declared elsewhere.
            pub $flat: $flat_type,)?
        }

        impl $words {
            /// The YAML words of its fields.
            pub const FIELDS: &'static [&'static str] = &[$($crate::config::section::section!(@word $field),)*];

            $($(
                /// The value that is used: what is written, else the default.
                pub fn $field(&self) -> $crate::config::section::section!(@type $type; $($rule)*) {
                    $crate::config::section::section!(@used self.$field; $($rule)*)
                }
            )?)*
        }

        impl $crate::config::section::Section for $words {
            fn present(&self) -> Vec<(&'static str, $crate::config::span::Span)> {
                let words = [$(($crate::config::section::section!(@word $field), self.$field.key()),)*];
                let present = words.into_iter().filter_map(|(word, key)| Some((word, key?)));
                present$(.chain($crate::config::section::Flat::present(&self.$flat)))?.collect()
            }
        }

        impl $crate::config::read::Read for $words {
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
                let entries = section::open(node, Self::expected, &known, &[$($later),*], faults)?;
                let find = |word: &str| entries.iter().find(|entry| entry.key == word);
                let read = $words {
                    $($field: Field::<$type>::read(find($crate::config::section::section!(@word $field)), faults)
                        $(.within($crate::config::section::section!(@rule $($rule)*), faults))?,)*
                    $($flat: section::Flat::read(entries, faults),)?
                };
                $($crate::config::section::section!(@need $need read.$field, $crate::config::section::section!(@word $field), node, faults);)*
                Some(read)
            }

            fn schema(generator: &mut schemars::generate::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<Self>()
            }
        }

        impl schemars::JsonSchema for $words {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::generate::SchemaGenerator) -> schemars::Schema {
                use $crate::config::section::{add, object, property};
                let mut properties = serde_json::Map::new();
                let mut required: Vec<&str> = Vec::new();
                $(
                    let rule = $crate::config::section::section!(@rule $($($rule)*)?);
                    $(debug_assert!($crate::config::section::section!(@rule $($rule)*).holds_for::<$type>(), "{rule:?}");)?
                    let schema = <$type as $crate::config::read::Read>::schema(generator);
                    let word = $crate::config::section::section!(@word $field);
                    add(&mut properties, word, property(schema, &[$($field_doc),*], rule));
                    if stringify!($need) == "required" {
                        required.push($crate::config::section::section!(@word $field));
                    }
                )*
                $(for (word, schema) in <$flat_type as $crate::config::section::Flat>::properties(generator) {
                    properties.insert(word.into(), schema.into());
                })?
                object(&[$($doc),*], properties, required)
            }
        }
    };
    (@word $field:ident) => { $crate::config::section::word(stringify!($field)) };
    (@need required $read:ident.$field:ident, $word:expr, $node:ident, $faults:ident) => {
        $crate::config::section::need($read.$field.is_present(), $word, $node, $faults)
    };
    (@need optional $read:ident.$field:ident, $word:expr, $node:ident, $faults:ident) => {};
    (@rule) => { $crate::config::setting::Rule { range: None, default: None } };
    (@rule default $($default:tt)+) => {
        $crate::config::setting::Rule { range: None, default: Some(concat!($(stringify!($default)),+)) }
    };
    (@rule $low:tt to $high:tt) => {
        $crate::config::setting::Rule { range: Some((stringify!($low), stringify!($high))), default: None }
    };
    (@rule $low:tt to $high:tt, default $($default:tt)+) => {
        $crate::config::setting::Rule {
            range: Some((stringify!($low), stringify!($high))),
            default: Some(concat!($(stringify!($default)),+)),
        }
    };
    (@rule $low:tt % to $high:tt %, default $($default:tt)+) => {
        $crate::config::setting::Rule {
            range: Some((concat!(stringify!($low), "%"), concat!(stringify!($high), "%"))),
            default: Some(concat!($(stringify!($default)),+)),
        }
    };
    (@type $type:ty; $low:tt to $high:tt) => { Option<<$type as $crate::config::setting::Setting>::Value> };
    (@type $type:ty; $($rule:tt)+) => { <$type as $crate::config::setting::Setting>::Value };
    (@first $type:ty; $low:tt to $high:tt) => { None };
    (@first $type:ty; $($rule:tt)+) => { $crate::config::section::section!(@rule $($rule)+).first::<$type>() };
    (@used $field:expr; $low:tt to $high:tt) => { $field.used() };
    (@used $field:expr; $($rule:tt)+) => { $field.used_or($crate::config::section::section!(@rule $($rule)+)) };
    (@over $field:expr, $above:expr; $low:tt to $high:tt) => { $field.used().or_else(|| $above.clone()) };
    (@over $field:expr, $above:expr; $($rule:tt)+) => { $field.used().unwrap_or_else(|| $above.clone()) };
    (@tree $value:expr, $type:ty; $low:tt to $high:tt) => {
        $value.as_ref().map(|value| <$type as $crate::config::setting::Setting>::tree(value))
    };
    (@tree $value:expr, $type:ty; $($rule:tt)+) => {
        Some(<$type as $crate::config::setting::Setting>::tree(&$value))
    };
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
pub fn open<'a>(
    node: &'a Node,
    expected: fn() -> String,
    known: &[&'static str],
    later: &[&'static str],
    faults: &mut Faults,
) -> Option<&'a [Entry]> {
    let Value::Map(entries) = &node.value else {
        wrong_shape(node, expected, faults);
        return None;
    };
    for entry in entries.iter().filter(|entry| !known.contains(&&*entry.key) && !is_extension(&entry.key)) {
        let fault =
            Diagnostic::error(Code::UNKNOWN_FIELD, entry.key_span, format!("unknown field {}", quoted(&entry.key)))
                .label("not a field here");
        faults.push(if later.contains(&&*entry.key) {
            fault.help("not available in this version")
        } else if let Some(way_out) = gone(&entry.key) {
            fault.help(way_out)
        } else {
            match nearest(&entry.key, known.iter().copied()) {
                Some(near) => fault.nearest(Some(near)),
                None => fault.help(format!("fields here: {}", known.join(", "))),
            }
        });
    }
    Some(entries)
}

/// What to write in the place of a word that an earlier version had.
fn gone(word: &str) -> Option<&'static str> {
    Some(match word {
        "methods" => "write `method`, which takes a list too",
        "on_invalid" => "write `short: reject` and `degraded: reject`; `peer` was their default",
        "on_full" => "leave it out: a request that finds no place is refused",
        "nodes" => "a `fair_share` holds requests together by `key` and the `networks` around it",
        "charge_parents" => "leave it out: what a client uses counts for its networks too",
        "ipv4_mapped" => "leave it out: an address such as ::ffff:192.0.2.1 counts as 192.0.2.1",
        _ => return None,
    })
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

/// The schema of a section.
pub fn object(docs: &[&str], properties: Map<String, Json>, required: Vec<&str>) -> Schema {
    let mut schema = json_schema!({
        "type": "object",
        "description": description(docs),
        "properties": properties,
        "patternProperties": { "^x-": true },
        "additionalProperties": false
    });
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    schema
}

/// Adds a field to the properties of a section's schema.
pub fn add(properties: &mut Map<String, Json>, word: &str, schema: Schema) {
    properties.insert(word.into(), schema.into());
}

/// The schema of one field, with its description unless it has its own, its range and its default.
pub fn property(mut schema: Schema, docs: &[&str], rule: Rule) -> Schema {
    let mut text = description(docs);
    if let Some((low, high)) = rule.range {
        text.push_str(&format!(" {low} to {high}."));
        if let (Some(Json::Object(whole)), Ok(low), Ok(high)) =
            (schema.pointer_mut("/anyOf/0"), low.parse::<u64>(), high.parse::<u64>())
        {
            whole.extend([("minimum".to_owned(), low.into()), ("maximum".to_owned(), high.into())]);
        }
    }
    if let Some(default) = rule.default {
        text.push_str(&format!(" Default `{default}`."));
        let typed = default.parse::<u64>().map(Json::from).or_else(|_| default.parse::<bool>().map(Json::from));
        schema.insert("default".into(), typed.unwrap_or_else(|_| default.into()));
    }
    if !text.is_empty() {
        schema.insert("description".into(), text.into());
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
