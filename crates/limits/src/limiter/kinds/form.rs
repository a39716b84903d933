//! What a kind of limit says about itself.
//!
//! [`Form`] is known before there are numbers: the word in `type:`, and the other words that belong to it. [`LimitKind`] answers
//! all questions about a limit of the kind with its numbers. A method without a body must be answered by each kind; one with a body
//! has the answer of most.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use super::Kind;
use super::words::{Value, Word, Words};
use crate::limiter::kind::{MIXED, RefusedCount, Scope, Sketch};
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::sharing::Promise;
use crate::limiter::{Spec, State};
use crate::sketch::{Meter, MonotoneTable, Seed};
use crate::units::{self, Bytes, Calendar, CalendarUnit, Cost, OutOfRange, Period, Timestamp};

/// A kind of limit before it has numbers.
#[derive(Debug)]
pub struct Form {
    /// The word in `type:`.
    pub word: &'static str,
    /// Names of the kind elsewhere, for a hint.
    pub synonyms: &'static [&'static str],
    /// What it promises, in the manual.
    pub promise: &'static str,
    /// A limit of the kind as the policy file has it, in small numbers: spent by fewer than a hundred requests, and whole again within a
    /// minute.
    pub example: &'static str,
    /// The words that it reads.
    pub words: &'static [&'static Word],
    /// The words that it reads in a tier.
    pub tier_words: &'static [&'static Word],
    /// The words that belong to most kinds and to this one.
    pub common: &'static [&'static str],
    /// Reads a limit of the kind; `None` when there are problems.
    pub read: fn(&mut Words) -> Option<Kind>,
    /// `count: all` and `count: admitted` are possible.
    pub counts_refused: bool,
    /// `count: responses LIST` is possible.
    pub counts_answers: bool,
    /// Its rate may be one of bytes.
    pub may_count_bytes: bool,
    /// A request gives back at its end what it took; `global`, `route` and `origin` are then counted exactly.
    pub gives_back: bool,
    /// It counts in a sketch, whose size the file may say.
    pub has_sketch: bool,
    /// A sketch so small that keys refuse each other early is worth a warning.
    pub warns_of_small_sketch: bool,
    /// The size of its sketch if the file says none.
    pub memory: Bytes,
    /// The smallest size of its sketch.
    pub least_memory: Bytes,
    /// How gates can share it.
    pub sharing: Shareable,
    /// Why no request can wait for it.
    pub no_delay: Option<&'static str>,
    /// Why it cannot be asked instead of another limit.
    pub no_stand_in: Option<&'static str>,
}

impl Form {
    /// The largest size of a sketch.
    pub const MOST_MEMORY: Bytes = Bytes(512 << 20);

    /// The [`Form::common`] words of kinds that charge requests by key.
    pub const CHARGED: &'static [&'static str] =
        &["key", "missing", "cost", "cost_estimate", "cost_max", "count", "tiers"];

    /// A form with a word, a promise, an example, and what reads limits of the kind.
    pub const fn new<K: FromWords>(word: &'static str, promise: &'static str, example: &'static str) -> Form {
        Form {
            word,
            synonyms: &[],
            promise,
            example,
            words: &[],
            tier_words: &[],
            common: &[],
            read: |words| K::from_words(words).map(Into::into),
            counts_refused: false,
            counts_answers: false,
            may_count_bytes: false,
            gives_back: false,
            has_sketch: true,
            warns_of_small_sketch: true,
            memory: MonotoneTable::DEFAULT_MEMORY,
            least_memory: Bytes(4 << 10),
            sharing: Shareable::Never,
            no_delay: None,
            no_stand_in: None,
        }
    }

    /// Tells whether a word of a limit belongs to this kind. Words that belong to all kinds are not asked here.
    pub fn takes(&self, word: &str) -> bool {
        self.common.contains(&word) || self.words.iter().any(|own| own.name == word)
    }

    /// Tells whether a word of a tier belongs to this kind.
    pub fn takes_in_tier(&self, word: &str) -> bool {
        self.tier_words.iter().any(|own| own.name == word)
    }
}

/// A kind that reads itself from the words of a limit.
pub trait FromWords: LimitKind + Into<Kind> {
    /// Reads a limit; `None` when there are problems, which were reported.
    fn from_words(words: &mut Words) -> Option<Self>
    where
        Self: Sized;
}

/// How gates can share a kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shareable {
    /// Not at all.
    Never,
    /// By an estimate.
    AsEstimate,
    /// By asking the store.
    ByAsking,
    /// In every way.
    Always,
}

/// What a kind promises of the costs that it admits: of one key, or of all where it tells no keys apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// At most `burst` + `per_second`·τ in every interval of τ seconds.
    Interval {
        /// How much at once.
        burst: f64,
        /// How fast more appears.
        per_second: f64,
    },
    /// At most `max` in every aligned window.
    Window {
        /// How much.
        max: u32,
        /// In how long a window.
        length: Duration,
        /// Across one boundary at most `max` + `max` times the part of the window after it.
        sliding: bool,
    },
}

/// What the header fields of an answer promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// How much.
    pub quota: u64,
    /// Of what.
    pub counts: Counts,
    /// In how many seconds; `None` below one second, and of limits that are not about time.
    pub window: Option<u64>,
}

/// What an allowance counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Units of cost.
    Cost,
    /// Requests, whatever they cost.
    Requests,
    /// Requests under way.
    Concurrent,
}

/// A part of the sentence that says where a request stood.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Words as they stand.
    Text(&'static str),
    /// The request's position in the limit's count, of this many.
    Position(u32),
    /// An amount.
    Amount(u32),
    /// A rate.
    Rate(units::Rate),
    /// A length of time.
    Duration(Duration),
    /// A window, after "per".
    Window(Period),
    /// The thing whose values are counted.
    Values,
}

/// The levels of keys as numbers, for a caller that keeps them by itself.
pub trait Levels: Debug + Send + Sync {
    /// Tells whether a request fits, its key's level after it, and how many units are left then.
    fn weigh(&self, level: u64, at: Timestamp, cost: Cost) -> (bool, u64, u32);
}

impl<M: Meter + Debug + Send + Sync> Levels for M {
    fn weigh(&self, level: u64, at: Timestamp, cost: Cost) -> (bool, u64, u32) {
        match self.admit(level, at, cost) {
            Some(charged) => (true, charged.to, charged.remaining),
            None => (false, self.charge(level, at, cost), 0),
        }
    }
}

/// A limit's numbers, and what follows from them.
pub trait LimitKind: Any + Debug + Send + Sync {
    /// The kind before it had numbers.
    fn form(&self) -> &'static Form;

    /// Makes the empty state of a limit: every key has its whole budget.
    ///
    /// # Errors
    /// Numbers that the kind does not take, of the limit or of a tier.
    fn state(&self, spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange>;

    /// What it promises of what it admits; `None` for a kind that promises nothing of stamps.
    fn bound(&self) -> Option<Bound>;

    /// The size of its sketch, and how a table lies in it; `None` for one that counts exactly.
    fn sketch(&self) -> Option<(Sketch, Bytes)>;

    /// The size of its sketch, to be changed.
    fn memory_mut(&mut self) -> Option<&mut Bytes>;

    /// Its numbers in the words of the policy file, without the size of the sketch.
    fn settings(&self) -> Vec<(&'static str, Value)>;

    /// Returns the numbers that would have let a refused request through. Takes some ten microseconds for an average.
    fn needs(&self, owed: Owed) -> Needs;

    /// Where a request stood, as a sentence.
    fn standing(&self) -> Vec<Part>;

    /// The promise in a few words, with settings in braces.
    fn summary(&self) -> String;

    /// Returns whether a request that passes this limit passes the other at least as often; `None` where only equal limits compare.
    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool>;

    /// Reads the numbers of a tier, on top of the limit's own; `None` when there are problems, and of kinds without tiers.
    fn tier(&self, _words: &mut Words) -> Option<Kind> {
        None
    }

    /// The word in `type:`.
    fn word(&self) -> &'static str {
        self.form().word
    }

    /// Tells whether requests are weighed by their key and the networks around it, rather than counted by one key.
    fn has_nodes(&self) -> bool {
        self.form().takes("networks")
    }

    /// How many units one key may spend at once, of kinds that are charged in units.
    fn at_once(&self) -> Option<u32> {
        None
    }

    /// The word that says how many units fit, and its number.
    fn most(&self) -> Option<(&'static str, u32)> {
        None
    }

    /// Tells whether refused requests count too, of kinds that have the choice.
    fn refused(&self) -> Option<RefusedCount> {
        None
    }

    /// Tells whether a client that goes on after a refusal stays out.
    fn keeps_out(&self) -> bool {
        false
    }

    /// What header fields promise; `None` for a limit that clients are not told of.
    fn allowance(&self) -> Option<Allowance> {
        None
    }

    /// What is counted together; `None` for kinds that count by key.
    fn scope(&self) -> Option<Scope> {
        None
    }

    /// Its windows.
    fn windows(&self) -> Option<Period> {
        None
    }

    /// What of its windows cannot change without a new count: their length, and whether they slide.
    fn fixed_windows(&self) -> (Option<Duration>, bool) {
        (None, false)
    }

    /// What a store promises for it; `None` for one that no store keeps.
    fn store_promise(&self) -> Option<Promise> {
        None
    }

    /// What its units mean to other gates; `None` for one of which gates cannot add up what others counted.
    fn unit_shape(&self) -> Option<u64> {
        None
    }

    /// The rate at which what was spent comes back; `None` where it comes back all at once.
    fn refill(&self) -> Option<units::Rate> {
        None
    }

    /// The rate and the burst of a token bucket.
    fn bucket(&self) -> Option<(units::Rate, u32)> {
        None
    }

    /// The arithmetic on levels, of kinds whose count of a key is one level; `zero`: nanoseconds since 1970 at the origin of stamps.
    fn levels(&self, _zero: u64) -> Option<Box<dyn Levels>> {
        None
    }

    /// Tells whether each tier has a table of its own.
    fn has_table_per_tier(&self) -> bool {
        false
    }

    /// The probability that a new value is taken for one that was seen, of kinds that count values.
    fn falsely_seen(&self) -> Option<f64> {
        None
    }

    /// Its nodes in a few words, of a kind that has nodes.
    fn nodes_summary(&self) -> Option<String> {
        None
    }

    /// Tells whether it can be replayed only from a log with durations of requests.
    fn needs_durations(&self) -> bool {
        self.form().gives_back
    }
}

/// The numbers of a limit of this kind.
///
/// # Errors
/// Another kind.
pub(super) fn numbers<K: LimitKind>(kind: &Kind) -> Result<&K, OutOfRange> {
    let kind: &dyn Any = &**kind;
    kind.downcast_ref().ok_or(MIXED)
}

/// The numbers of the limit itself.
///
/// # Errors
/// No kind, or another one.
pub(super) fn own<'a, K: LimitKind>(spec: &Spec<'a>) -> Result<&'a K, OutOfRange> {
    numbers(spec.kinds.first().ok_or(MIXED)?)
}

/// Seconds, rounded up, at least one.
pub(super) fn ceil_seconds(span: Duration) -> u64 {
    saturating(span.as_nanos().div_ceil(NANOS)).max(1)
}

pub(super) fn saturating(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(super) const NANOS: u128 = 1_000_000_000;

/// How long refused requests can keep a key out, as a setting.
pub(super) fn max_penalty(refused: RefusedCount) -> Option<(&'static str, Value)> {
    match refused {
        RefusedCount::All { max_penalty } => Some(("max_penalty", Value::Duration(max_penalty))),
        RefusedCount::Admitted => None,
    }
}

/// The windows of a calendar as settings.
pub(super) fn calendar(calendar: &Calendar) -> Vec<(&'static str, Value)> {
    let mut settings = vec![("per", Value::Calendar(calendar.unit))];
    if let CalendarUnit::Week { starts } = calendar.unit {
        settings.push(("week_starts", Value::Weekday(starts)));
    }
    settings.push(("time_zone", Value::Zone(calendar.zone.clone())));
    settings
}

/// Compares two limits of one kind; `None` if they are not.
pub(super) fn compared<K: LimitKind>(other: &dyn LimitKind, compare: impl FnOnce(&K) -> bool) -> Option<bool> {
    (other as &dyn Any).downcast_ref().map(compare)
}
