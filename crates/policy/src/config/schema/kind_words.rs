//! The words that kinds of limit declare: read and described by what stands behind each.

use std::time::Duration;

use schemars::Schema;
use schemars::generate::SchemaGenerator;

use super::Reserved;
use crate::config::fault::Faults;
use crate::config::limit_text::LimitKey;
use crate::config::limit_value::{Burst, CapacityText, LimitRate};
use crate::config::node;
use crate::config::queue_text::NetworkLength;
use crate::config::read::{At, Field, Read};
use crate::config::scalar::Count;
use crate::config::section::{Flat, property};
use crate::config::setting::Rule;
use crate::config::shape::{Keyed, OneOrMany};
use crate::config::span::Span;
use crate::config::word::CalendarWord;
use crate::limiter::kinds::words::{Entries, Entry};
use crate::limiter::kinds::{Takes, Value, Word};
use crate::limiter::{FORMS, Form};
use crate::units::{CalendarUnit, Share, Weekday, Zone};

/// The words of kinds in a limit.
pub type LimitWords = KindWords<false>;
/// The words of kinds in a tier.
pub type TierWords = KindWords<true>;

/// The words of kinds in a limit or a tier, each once.
#[derive(Debug, Clone, Default)]
pub struct KindWords<const TIER: bool>(Vec<(&'static Word, Field<Given>)>);

/// What stands behind a word.
#[derive(Debug, Clone)]
pub enum Given {
    /// A value that means the same whatever else the policy says.
    Plain(Value),
    /// What is shared out, an origin by its name.
    Capacity(CapacityText),
    /// A key.
    Key(OneOrMany<LimitKey>),
    /// Networks around a key, by their length, and for how many clients each stands.
    Networks(Keyed<NetworkLength, Count>),
}

type ReadField = dyn Fn(Option<&node::Entry>, &mut Faults) -> Field<Given>;

/// How the value of a word is read and described.
struct Reader {
    read: Box<ReadField>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

fn reader(takes: &Takes) -> Reader {
    match takes {
        Takes::Rate => plain::<LimitRate>(|rate| match rate {
            LimitRate::Requests(rate) => Value::Rate(rate),
            LimitRate::Long { max, window } => Value::LongRate { max, window },
            LimitRate::Bytes { bytes, period } => Value::ByteRate { bytes, period },
        }),
        Takes::Amount => plain::<Burst>(|burst| match burst {
            Burst::Requests(number) => Value::Amount(number),
            Burst::Bytes(bytes) => Value::Size(bytes),
        }),
        Takes::Number(_) => plain::<Count>(|count| Value::Number(count.0)),
        Takes::Duration(_) => plain::<Duration>(Value::Duration),
        Takes::Flag => plain::<bool>(Value::Flag),
        Takes::Calendar => plain::<CalendarWord>(|part| {
            Value::Calendar(match part {
                CalendarWord::Day => CalendarUnit::Day,
                CalendarWord::Week => CalendarUnit::Week { starts: Weekday::Monday },
                CalendarWord::Month => CalendarUnit::Month,
            })
        }),
        Takes::Weekday => plain::<Weekday>(Value::Weekday),
        Takes::Zone => plain::<Zone>(Value::Zone),
        Takes::Capacity => given::<CapacityText>(Given::Capacity),
        Takes::Key => given::<OneOrMany<LimitKey>>(Given::Key),
        Takes::Share => plain::<Share>(Value::Share),
        Takes::Networks => given::<Keyed<NetworkLength, Count>>(Given::Networks),
        Takes::Classes => plain::<Reserved>(|classes| Value::Classes(classes.parts())),
    }
}

fn given<T: Read + 'static>(into: impl Fn(T) -> Given + 'static) -> Reader {
    Reader { read: Box::new(move |entry, faults| Field::<T>::read(entry, faults).map(&into)), schema: T::schema }
}

fn plain<T: Read + 'static>(into: fn(T) -> Value) -> Reader {
    given(move |value| Given::Plain(into(value)))
}

/// The declared words, each once, in the order of the kinds.
fn declared(in_tier: bool) -> Vec<&'static Word> {
    let mut words: Vec<&'static Word> = Vec::new();
    let own = |form: &&'static Form| if in_tier { form.tier_words } else { form.words };
    for word in FORMS.iter().flat_map(own) {
        if !words.iter().any(|other| other.name == word.name) {
            words.push(word);
        }
    }
    words
}

impl<const TIER: bool> Flat for KindWords<TIER> {
    fn words() -> Vec<&'static str> {
        declared(TIER).into_iter().map(|word| word.name).collect()
    }

    fn read(entries: &[node::Entry], faults: &mut Faults) -> KindWords<TIER> {
        let field = |word: &'static Word| {
            let entry = entries.iter().find(|entry| entry.key == word.name)?;
            Some((word, (reader(&word.takes).read)(Some(entry), faults)))
        };
        KindWords(declared(TIER).into_iter().filter_map(field).collect())
    }

    fn present(&self) -> Vec<(&'static str, Span)> {
        self.0.iter().filter_map(|(word, field)| Some((word.name, field.key()?))).collect()
    }

    fn properties(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        let property = |word: &'static Word| {
            let manual = if TIER { word.in_tier.unwrap_or_default().to_owned() } else { word.manual() };
            (
                word.name,
                property((reader(&word.takes).schema)(generator), &[&manual], Rule { range: None, default: None }),
            )
        };
        declared(TIER).into_iter().map(property).collect()
    }
}

impl<const TIER: bool> KindWords<TIER> {
    /// The field of a word.
    pub fn field(&self, word: &str) -> &Field<Given> {
        self.0.iter().find(|(own, _)| own.name == word).map_or(&Field::Absent, |(_, field)| field)
    }

    /// What stands behind a word, if it could be read.
    pub fn plain(&self, word: &str) -> Option<&Value> {
        match self.field(word).value()? {
            Given::Plain(value) => Some(value),
            _ => None,
        }
    }

    /// The key behind a word.
    pub fn key(&self, word: &str) -> Field<OneOrMany<LimitKey>> {
        match self.field(word).clone() {
            Field::Set { key, at } => match &at.value {
                Given::Key(parts) => Field::Set { key, at: at.with(parts.clone()) },
                _ => Field::Absent,
            },
            Field::Bad { key } => Field::Bad { key },
            Field::Absent => Field::Absent,
        }
    }

    /// The networks behind a word.
    pub fn networks(&self, word: &str) -> Field<Keyed<NetworkLength, Count>> {
        match self.field(word).clone() {
            Field::Set { key, at } => match &at.value {
                Given::Networks(networks) => Field::Set { key, at: at.with(networks.clone()) },
                _ => Field::Absent,
            },
            Field::Bad { key } => Field::Bad { key },
            Field::Absent => Field::Absent,
        }
    }

    /// Whether the limit counts bytes.
    pub fn counts_bytes(&self) -> bool {
        self.0.iter().any(|(_, field)| matches!(field.value(), Some(Given::Plain(Value::ByteRate { .. }))))
    }

    /// The words that are there, for a kind to read; `resolve` says what stands behind those that are not plain.
    pub fn entries(&self, mut resolve: impl FnMut(&Word, &At<Given>) -> Option<Value>) -> Entries {
        let entry = |(word, field): &(&'static Word, Field<Given>)| {
            let value = field.get().and_then(|at| match &at.value {
                Given::Plain(value) => Some((value.clone(), at)),
                _ => Some((resolve(word, at)?, at)),
            });
            let entry = value.map(|(value, at)| Entry::Set { value, shown: at.shown.clone() });
            (word.name, entry.unwrap_or(Entry::Bad))
        };
        self.0.iter().map(entry).collect()
    }
}
