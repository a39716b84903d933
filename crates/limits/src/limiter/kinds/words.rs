//! What a kind of limit is read from: the words of one limit, and the problems that are found in them.
//!
//! A kind declares each [`Word`] once: its name, what stands behind it with its range, and its text in the manual. The file's reader,
//! its JSON Schema and the manual use that declaration. The kind then reads itself from [`Words`]; where a [`Problem`] stands in the
//! file is the caller's business.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::door::Reserved;
use crate::limiter::kind::{Scope, Sketch};
use crate::units::time::written;
use crate::units::{Bytes, CalendarUnit, Cost, Rate, Share, Weekday, Zone};

/// A word of the policy file that belongs to some kinds of limit.
#[derive(Debug)]
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// What stands behind it.
    pub takes: Takes,
    /// Its text in the manual; `{range}` stands for the range.
    pub manual: &'static str,
    /// Its text in the manual of tiers; `None` for one that no tier has.
    pub in_tier: Option<&'static str>,
}

impl Word {
    /// A word that no tier has.
    pub const fn new(name: &'static str, takes: Takes, manual: &'static str) -> Word {
        Word { name, takes, manual, in_tier: None }
    }

    /// The text in the manual, with the range.
    pub fn manual(&self) -> String {
        match &self.takes {
            Takes::Duration(range) => {
                let [low, high] = [range.start(), range.end()].map(|end| written(*end));
                self.manual.replace("{range}", &format!("`{low}` to `{high}`"))
            }
            _ => self.manual.to_owned(),
        }
    }
}

/// What stands behind a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Takes {
    /// A rate of requests or of bytes.
    Rate,
    /// An amount of requests or of bytes.
    Amount,
    /// A number in this range.
    Number(RangeInclusive<u32>),
    /// A length of time in this range.
    Duration(RangeInclusive<Duration>),
    /// `true` or `false`.
    Flag,
    /// A part of the calendar.
    Calendar,
    /// A day of the week.
    Weekday,
    /// A time zone.
    Zone,
    /// A rate of requests; or an origin that does the work instead, of which no kind reads.
    Capacity,
    /// A part of something.
    Share,
    /// What requests are told apart by; the policy has it, no kind reads it.
    Key,
    /// Networks around the key, by their length, each with a number.
    Networks,
    /// A part for each class of requests.
    Classes,
}

/// A value of the policy file.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A rate of requests, or of the limit's unit of bytes.
    Rate(Rate),
    /// A rate of requests per more than a day.
    LongRate {
        /// How many.
        max: u32,
        /// In what time.
        window: Duration,
    },
    /// A rate of bytes; neither is zero.
    ByteRate {
        /// How many.
        bytes: u64,
        /// In what time.
        period: Duration,
    },
    /// An amount of requests, or of the limit's unit of bytes.
    Amount(u64),
    /// An amount of bytes.
    Size(Bytes),
    /// A number of things.
    Number(u64),
    /// A length of time.
    Duration(Duration),
    /// `true` or `false`.
    Flag(bool),
    /// A part of the calendar; the first day of a week is a word of its own.
    Calendar(CalendarUnit),
    /// A day of the week.
    Weekday(Weekday),
    /// A time zone.
    Zone(Zone),
    /// A part of something.
    Share(Share),
    /// The lengths of networks, and for how many clients each stands.
    Networks(Vec<(u8, u32)>),
    /// The parts that are kept for classes of requests.
    Classes(Reserved),
}

/// A word of one limit as it was found.
#[derive(Debug, Clone)]
pub enum Entry {
    /// It is there, and its value was reported as faulty.
    Bad,
    /// Its value.
    Set {
        /// What it is.
        value: Value,
        /// As messages show it.
        shown: String,
    },
}

/// The words of one map that are there, by name.
pub type Entries = Vec<(&'static str, Entry)>;

/// What was found wrong with the words of a limit.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What sort of problem.
    pub fault: Fault,
    /// Where it is shown.
    pub at: At,
    /// What was found.
    pub message: String,
    /// What is allowed.
    pub label: String,
    /// Another place that matters; not shown where both are one.
    pub related: Option<(At, &'static str)>,
    /// What to write instead.
    pub help: Option<String>,
}

/// A sort of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A word is missing.
    Missing,
    /// A number is out of its range.
    OutOfRange,
    /// Words contradict each other.
    Conflict,
    /// Not even one request fits.
    BelowCost,
    /// A warning: a burst below a second of its rate.
    SmallBurst,
    /// A warning: windows that look like months or weeks of the calendar.
    NoMonth,
}

/// A place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The name of the limit.
    Limit,
    /// The name of a word: of the tier if it has the word, else of the limit.
    Name(&'static str),
    /// The value of a word, likewise.
    Value(&'static str),
}

/// The words of a limit, or of a tier, and what was found in them.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// The words of kinds that the limit has.
    pub limit: Entries,
    /// Those of each tier.
    pub tiers: Vec<Entries>,
    /// Those of the tier that is read.
    pub tier: Option<Entries>,
    /// All words that the limit has, of kinds or not.
    pub present: Vec<&'static str>,
    /// The most that one request costs; `None` is one.
    pub cost: Option<Cost>,
    /// Whether the charge waits for the answer.
    pub deferred: bool,
    /// What `count` says of refused requests.
    pub counts_refused: Option<bool>,
    /// What is counted exactly, of a kind whose requests give back what they took.
    pub scope: Option<Scope>,
    /// The default size of the kind's sketch.
    pub memory: Bytes,
    /// How the sketch lies in memory, once [`Words::sketch`] has said it.
    pub sketch: Option<Sketch>,
    /// Bytes per unit of the limit's numbers, if it counts bytes.
    pub unit: Option<u32>,
    /// What was found.
    pub problems: Vec<Problem>,
}

impl Words {
    /// Returns whether the limit, or the tier that is read, has the word.
    pub fn has(&self, word: &str) -> bool {
        match &self.tier {
            None => self.present.contains(&word),
            Some(tier) => found(tier, word).is_some(),
        }
    }

    /// The value of a word, of the tier that is read or of the limit; `None` if it is absent or faulty.
    pub fn value(&self, word: &Word) -> Option<(Value, String)> {
        match found(self.tier.as_ref().unwrap_or(&self.limit), word.name)? {
            Entry::Bad => None,
            Entry::Set { value, shown } => Some((value.clone(), shown.clone())),
        }
    }

    /// The value of a word of the tier that is read, or of the limit where the tier has no such word.
    pub fn value_or_limits(&self, word: &Word) -> Option<(Value, String)> {
        match found(self.tier.as_ref().filter(|_| self.has(word.name)).unwrap_or(&self.limit), word.name)? {
            Entry::Bad => None,
            Entry::Set { value, shown } => Some((value.clone(), shown.clone())),
        }
    }

    /// Every value of a word, of the limit and of its tiers.
    pub fn all(&self, word: &Word) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.limit).chain(&self.tiers).filter_map(|map| match found(map, word.name)? {
            Entry::Bad => None,
            Entry::Set { value, .. } => Some(value),
        })
    }

    /// Reports a problem; the caller may add a related place and a help.
    pub fn report(&mut self, fault: Fault, at: At, message: impl Into<String>, label: impl Into<String>) {
        let (message, label) = (message.into(), label.into());
        self.problems.push(Problem { fault, at, message, label, related: None, help: None });
    }

    /// Adds another place to the problem that was reported last.
    pub fn related(&mut self, at: At, what: &'static str) {
        if let Some(problem) = self.problems.last_mut() {
            problem.related = Some((at, what));
        }
    }

    /// Adds a way out to the problem that was reported last.
    pub fn help(&mut self, help: impl Into<String>) {
        if let Some(problem) = self.problems.last_mut() {
            problem.help = Some(help.into());
        }
    }

    /// Reports those of the words that are absent.
    pub fn require(&mut self, words: &[&Word]) {
        for word in words {
            if !self.has(word.name) {
                self.report(
                    Fault::Missing,
                    At::Limit,
                    format!("has no `{}`", word.name),
                    format!("needs `{}`", word.name),
                );
            }
        }
    }

    /// Says how the sketch lies in memory; returns a size in place of the one that the caller reads.
    pub fn sketch(&mut self, sketch: Sketch) -> Bytes {
        self.sketch = Some(sketch);
        self.memory
    }

    /// A flag; `false` when absent or faulty.
    pub fn flag(&self, word: &Word) -> bool {
        matches!(self.value(word), Some((Value::Flag(true), _)))
    }

    /// A number in the word's range; `None` when it is absent or reported.
    pub fn number(&mut self, word: &Word) -> Option<u32> {
        let (value, shown) = self.value(word)?;
        let (Value::Number(number), Takes::Number(range)) = (value, &word.takes) else { return None };
        let inside = u32::try_from(number).ok().filter(|number| range.contains(number));
        if inside.is_none() {
            self.out_of_range(word, &shown, format!("must be {} to {}", range.start(), range.end()));
        }
        inside
    }

    /// A length of time in the word's range; `None` when it is absent or reported.
    pub fn duration(&mut self, word: &Word) -> Option<Duration> {
        let (value, shown) = self.value(word)?;
        let (Value::Duration(span), Takes::Duration(range)) = (value, &word.takes) else { return None };
        if range.contains(&span) {
            return Some(span);
        }
        self.out_of_range(word, &shown, format!("must be {} to {}", written(*range.start()), written(*range.end())));
        None
    }

    /// Reports a value that is out of its range.
    pub fn out_of_range(&mut self, word: &Word, shown: &str, label: impl Into<String>) {
        self.report(Fault::OutOfRange, At::Value(word.name), format!("{shown} is out of range"), label);
    }

    /// A value as a rate of requests; `None` for any other, which is reported. `in_bytes`: the limit counts bytes.
    pub fn requests(&mut self, word: &Word, value: &Value, in_bytes: bool) -> Option<Rate> {
        let at = At::Value(word.name);
        match value {
            Value::Rate(rate) if !in_bytes => return Some(*rate),
            Value::Rate(_) => self.report(
                Fault::Conflict,
                at,
                "a rate of requests in a limit of bytes",
                "must be of bytes, such as 1MiB/s",
            ),
            Value::ByteRate { .. } => self.report(
                Fault::Conflict,
                at,
                "a rate of bytes out of place",
                "belongs to limits of type `rate`, and there to all their tiers or none",
            ),
            Value::LongRate { .. } => {
                self.report(Fault::OutOfRange, at, "a rate per more than a day", "belongs to type `quota`");
                self.help("say `type: quota`, or give the rate per day");
            }
            _ => {}
        }
        None
    }
}

fn found<'a>(map: &'a Entries, word: &str) -> Option<&'a Entry> {
    map.iter().find(|(name, _)| *name == word).map(|(_, entry)| entry)
}
