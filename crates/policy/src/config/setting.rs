//! A setting whose value is plain: its text becomes a value that is used as it is, and the value the same text again.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

use super::fault::{Code, Diagnostic, Faults};
use super::health_text::HealthyStatuses;
use super::pattern::ExactPath;
use super::read::{Field, Read, Scalar};
use super::scalar::{Count, duration, percent};
use super::schema::RefusalStatus;
use super::span::Span;
use super::store_text::{KeyPrefix, NameInStore};
use super::text::ListenAddress;
use super::tree::Tree;
use crate::policy::StatusSet;
use crate::units::{Bytes, Rate, Share};

/// How a plain value is written.
pub trait Setting: Scalar + Clone {
    /// The value that is used.
    type Value: Clone + PartialEq + Debug;

    /// The value of this text.
    fn used(&self) -> Self::Value;

    /// The text of a value.
    fn tree(value: &Self::Value) -> Tree;

    /// Whether it lies in a range.
    fn within(&self, _low: &Self, _high: &Self) -> bool {
        true
    }
}

/// A map of plain values, read as its [`Words`].
pub trait Values: Clone + Default {
    /// What of it is written, each with its place.
    type Words: Read + Default + Clone + Debug;

    /// What is written, else what stands `above`.
    fn over(words: &Self::Words, above: &Self) -> Self;

    /// Its fields in the effective configuration.
    fn fields(&self) -> Vec<(&'static str, Tree)>;

    /// All of it in the effective configuration.
    fn tree(&self) -> Tree {
        Tree::map(self.fields())
    }
}

/// What of some values is written, each with its place.
pub type Words<V> = <V as Values>::Words;

/// The values of a section, with the default of each that is not written.
pub fn values<V: Values>(field: &Field<Words<V>>) -> V {
    over(field, &V::default())
}

/// The values of a section, with what stands `above` for each that is not written.
pub fn over<V: Values>(field: &Field<Words<V>>, above: &V) -> V {
    field.value().map_or_else(|| above.clone(), |words| V::over(words, above))
}

/// What a line of `section!` says of its value.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The least and the most, both allowed.
    pub range: Option<(&'static str, &'static str)>,
    /// What an absent field means.
    pub default: Option<&'static str>,
}

impl Rule {
    /// The default.
    #[inline(never)]
    pub fn first<T: Setting>(self) -> T::Value {
        match T::parse(self.default.unwrap_or_default()) {
            Ok(default) => default.used(),
            Err(_) => unreachable!("the JSON Schema is made from defaults that hold"),
        }
    }

    /// Whether the range can be read, and the default lies in it.
    pub fn holds_for<T: Setting>(self) -> bool {
        let range = self.range.map(|(low, high)| T::parse(low).ok().zip(T::parse(high).ok()));
        match (range, self.default.map(T::parse)) {
            (Some(None), _) | (_, Some(Err(_))) => false,
            (Some(Some((low, high))), default) => {
                default.is_none_or(|one| one.is_ok_and(|one| one.within(&low, &high)))
            }
            (None, _) => true,
        }
    }
}

impl<T: Setting> Field<T> {
    /// The value, if it could be read.
    pub fn used(&self) -> Option<T::Value> {
        self.value().map(T::used)
    }

    /// The value, else the default.
    pub fn used_or(&self, rule: Rule) -> T::Value {
        self.used().unwrap_or_else(|| rule.first::<T>())
    }

    /// Reports a value that is out of the range.
    #[inline(never)]
    pub fn within(self, rule: Rule, faults: &mut Faults) -> Field<T> {
        let (Field::Set { key, at }, Some((low, high))) = (&self, rule.range) else { return self };
        if matches!((T::parse(low), T::parse(high)), (Ok(low), Ok(high)) if at.value.within(&low, &high)) {
            return self;
        }
        faults.push(out_of_range(at.span, &at.shown, low, high));
        Field::Bad { key: *key }
    }
}

fn out_of_range(at: Span, shown: &str, low: &str, high: &str) -> Diagnostic {
    Diagnostic::error(Code::OUT_OF_RANGE, at, format!("{shown} is out of range"))
        .label(format!("must be {low} to {high}"))
}

/// Values of which all are used as they are read.
macro_rules! as_read {
    ($($type:ty, $tree:expr;)*) => {
        $(impl Setting for $type {
            type Value = $type;

            fn used(&self) -> $type {
                *self
            }

            fn tree(value: &$type) -> Tree {
                Tree::text($tree(*value))
            }

            fn within(&self, low: &$type, high: &$type) -> bool {
                low <= self && self <= high
            }
        })*
    };
}

as_read! {
    Duration, duration;
    Bytes, |bytes: Bytes| bytes;
    Share, |share: Share| percent(share.get());
    bool, |switch: bool| switch;
}

impl Setting for Rate {
    type Value = Rate;

    fn used(&self) -> Rate {
        *self
    }

    fn tree(value: &Rate) -> Tree {
        Tree::text(value)
    }
}

impl Setting for Count {
    type Value = u32;

    /// Ranges end within 32 bits.
    fn used(&self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    fn tree(value: &u32) -> Tree {
        Tree::text(value)
    }

    fn within(&self, low: &Count, high: &Count) -> bool {
        low <= self && self <= high
    }
}

/// Texts that are used without what says how they are written.
macro_rules! inner {
    ($($type:ty => $value:ty;)*) => {
        $(impl Setting for $type {
            type Value = $value;

            fn used(&self) -> $value {
                self.0.clone()
            }

            fn tree(value: &$value) -> Tree {
                Tree::text(value)
            }
        })*
    };
}

inner! {
    RefusalStatus => u16;
    ListenAddress => SocketAddr;
    ExactPath => String;
    HealthyStatuses => StatusSet;
    KeyPrefix => String;
    NameInStore => String;
}
