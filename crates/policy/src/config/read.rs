//! From [`Node`]s to typed values, gathering every fault on the way, and the JSON Schema of what is read.
//!
//! serde stops at its first type error; an operator wants all of them. So a value that cannot be read is reported and
//! left out, and its neighbours are read all the same. [`Field`] tells a field that is absent from one that is present
//! and bad, so that one fault never begets another ("missing" for what was merely misspelt).
//!
//! `section` declares a map's fields once: the struct, its reader and its JSON Schema all come from that declaration,
//! and the schema's descriptions from its doc comments. `shape` has lists, maps and the choice between two forms.

use schemars::Schema;
use schemars::generate::SchemaGenerator;

use super::fault::{Code, Diagnostic, Faults};
use super::node::{Entry, Node, Text, Value};
use super::span::Span;
use super::stand_in::stand_in;

/// Something that a node can be read as.
pub trait Read: Sized {
    /// What is expected, for messages: `a duration such as `10s``.
    fn expected() -> String;

    /// Whether a node of this shape can be one at all; decides between a short and a long form.
    fn takes(value: &Value) -> bool;

    /// Reads a node; `None` when it cannot be used, which `faults` then says.
    fn read(node: &Node, faults: &mut Faults) -> Option<Self>;

    /// What the JSON Schema says of it.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// A value that is written as one text, whatever YAML would make of that text.
pub trait Scalar: Sized {
    /// The noun for messages: `duration`.
    const NAME: &'static str;
    /// An example or two, for messages: `10s`; may be empty.
    const EXAMPLE: &'static str;
    /// The code of its fault.
    const CODE: Code;
    /// Whether names of this kind leave room for ignored `x-` fields when they are the keys of a map.
    const KEYS_EXCEPT_EXTENSIONS: bool = false;

    /// # Errors
    /// The text is not one.
    fn parse(text: &str) -> Result<Self, Wrong>;

    /// What the JSON Schema says of it.
    fn schema() -> Schema;
}

/// Why a text is not the value it should be. Must hold in `label` nothing of the text, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What is allowed, said at the place.
    pub label: String,
    /// A way out; not shown when it could reveal a variable's value.
    pub help: Option<String>,
    /// The text that was probably meant.
    pub replacement: Option<String>,
    /// A more fitting code than the value's own.
    pub code: Option<Code>,
}

impl Wrong {
    /// With what is allowed.
    pub fn new(label: impl Into<String>) -> Wrong {
        Wrong { label: label.into(), help: None, replacement: None, code: None }
    }

    /// Adds a way out.
    pub fn help(mut self, help: impl Into<String>) -> Wrong {
        self.help = Some(help.into());
        self
    }

    /// Adds the text that was probably meant, as help too.
    pub fn meant(mut self, text: impl Into<String>, why: &str) -> Wrong {
        let text = text.into();
        self.help = Some(if why.is_empty() { format!("write `{text}`") } else { format!("write `{text}` {why}") });
        self.replacement = Some(text);
        self
    }

    /// Sets a more fitting code.
    pub fn code(mut self, code: Code) -> Wrong {
        self.code = Some(code);
        self
    }

    /// Adds the nearest right word, if there is one.
    pub fn nearest(mut self, near: Option<&str>) -> Wrong {
        if let Some(near) = near {
            self.help = Some(format!("did you mean `{near}`?"));
            self.replacement = Some(near.to_owned());
        }
        self
    }
}

impl<T: Scalar> Read for T {
    fn expected() -> String {
        let article = if T::NAME.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        match T::EXAMPLE {
            "" => format!("{article} {}", T::NAME),
            example => format!("{article} {} such as {example}", T::NAME),
        }
    }

    fn takes(value: &Value) -> bool {
        matches!(value, Value::Text(_))
    }

    fn read(node: &Node, faults: &mut Faults) -> Option<T> {
        let Value::Text(text) = &node.value else {
            wrong_shape(node, T::expected, faults);
            return None;
        };
        if let Some(which) = text.stand_in {
            let chosen = stand_in(which, &<T as Scalar>::schema(), T::EXAMPLE, &|text| T::parse(text).is_ok())?;
            return T::parse(&chosen).ok();
        }
        match T::parse(&text.text) {
            Ok(value) => Some(value),
            Err(wrong) => {
                faults.push(invalid::<T>(wrong, node.span, &text.shown(), text.written.is_some()));
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        <T as Scalar>::schema()
    }
}

/// The fault of a text that is not what it should be. What is `masked` gives no hints about itself.
pub(super) fn invalid<T: Scalar>(wrong: Wrong, span: Span, shown: &str, masked: bool) -> Diagnostic {
    invalid_as(T::NAME, T::CODE, wrong, span, shown, masked)
}

// apart, as are its neighbours without a type: three hundred types are read, and each would have a copy
fn invalid_as(name: &str, code: Code, wrong: Wrong, span: Span, shown: &str, masked: bool) -> Diagnostic {
    let message = format!("invalid {name} {shown}");
    let mut fault = Diagnostic::error(wrong.code.unwrap_or(code), span, message).label(wrong.label);
    if !masked {
        fault.help.extend(wrong.help);
        fault.replacement = wrong.replacement;
    }
    fault
}

/// Reports a node of the wrong shape. `expected` is that of [`Read`].
pub(super) fn wrong_shape(node: &Node, expected: fn() -> String, faults: &mut Faults) {
    match &node.value {
        Value::Unset => {}
        Value::Nothing => faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, node.span, format!("expected {}, found nothing", expected()))
                .label("nothing here"),
        ),
        value => {
            let message = format!("expected {}, found {}", expected(), node.kind());
            let fault = Diagnostic::error(Code::SHAPE, node.span, message);
            faults.push(match value {
                Value::Map(_) => fault.label("a map").help("a text that starts with `{` needs quotes"),
                Value::List(_) => fault.label("a list"),
                _ => fault.label("a single value"),
            });
        }
    }
}

/// A value with its place.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Span,
    /// As messages show it: the text in backticks, or `a list`.
    pub shown: String,
    /// Whether it came from a variable, so that nothing of it may be shown or compared.
    pub masked: bool,
}

impl<T> At<T> {
    /// A value read from a node.
    pub fn of(value: T, node: &Node) -> At<T> {
        let masked = node.as_text().is_some_and(|text| text.written.is_some());
        At { value, span: node.span, shown: node.kind(), masked }
    }

    /// Another value at the same place.
    pub fn with<U>(&self, value: U) -> At<U> {
        At { value, span: self.span, shown: self.shown.clone(), masked: self.masked }
    }
}

/// A field of a section.
#[derive(Debug, Clone, Default)]
pub enum Field<T> {
    /// Not written.
    #[default]
    Absent,
    /// Written, and reported as faulty.
    Bad {
        /// Where its name stands.
        key: Span,
    },
    /// Written and read.
    Set {
        /// Where its name stands.
        key: Span,
        /// What it is.
        at: At<T>,
    },
}

impl<T> Field<T> {
    /// The value with its place, if it could be read.
    pub fn get(&self) -> Option<&At<T>> {
        if let Field::Set { at, .. } = self { Some(at) } else { None }
    }

    /// The value, if it could be read.
    pub fn value(&self) -> Option<&T> {
        self.get().map(|at| &at.value)
    }

    /// Whether it was written, readable or not.
    pub fn is_present(&self) -> bool {
        !matches!(self, Field::Absent)
    }

    /// The field with another value.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Field::Absent => Field::Absent,
            Field::Bad { key } => Field::Bad { key },
            Field::Set { key, at: At { value, span, shown, masked } } => {
                Field::Set { key, at: At { value: with(value), span, shown, masked } }
            }
        }
    }

    /// Where its name stands, if it was written.
    pub fn key(&self) -> Option<Span> {
        match self {
            Field::Absent => None,
            Field::Bad { key } | Field::Set { key, .. } => Some(*key),
        }
    }
}

impl<T: Read> Field<T> {
    /// Reads the field from its entry, if there is one.
    pub fn read(entry: Option<&Entry>, faults: &mut Faults) -> Field<T> {
        let Some(entry) = entry else { return Field::Absent };
        let key = entry.key_span;
        if entry.value.value == Value::Nothing {
            // a map whose fields all have defaults may be meant
            let map = T::takes(&Value::Map(Vec::new())) && !T::takes(&Value::Text(Text::default()));
            faults.push(no_value(entry, &T::expected(), map));
            return Field::Bad { key };
        }
        match T::read(&entry.value, faults) {
            Some(value) => Field::Set { key, at: At::of(value, &entry.value) },
            None => Field::Bad { key },
        }
    }
}

/// The fault of a field without a value. `map`: only a map would do.
fn no_value(entry: &Entry, expected: &str, map: bool) -> Diagnostic {
    Diagnostic::error(Code::EMPTY_VALUE, entry.key_span, format!("`{}` has no value", entry.key))
        .label(format!("expected {expected}"))
        .help(if map { "write `{}` for an empty map, or remove the line" } else { "give it one, or remove the line" })
}
