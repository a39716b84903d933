//! `type: distinct`: a count of different values per key.

mod counter;
pub mod state;

use std::time::Duration;

use super::form::{
    Allowance, Bound, Counts, Form, FromWords, LimitKind, Part, Shareable, ceil_seconds, compared, max_penalty,
};
use super::words::{At, Fault, Takes, Value, Word, Words};
use super::{Kind, MAX, MAX_PENALTY, SLIDING, WINDOW};
use crate::limiter::kind::{RefusedCount, Sketch};
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::sharing::Promise;
use crate::limiter::{Spec, State};
use crate::sketch::Seed;
use crate::units::{Bytes, OutOfRange, Period, Rate};

/// At most `max` different values of one thing per key and period.
#[derive(Debug, Clone, PartialEq)]
pub struct Distinct {
    /// How many different values.
    pub max: u32,
    /// In what time.
    pub window: Duration,
    /// Whether the period is aligned (`false`) or moves along.
    pub sliding: bool,
    /// Whether a refused value counts as well, which only has a meaning where the period moves along.
    pub refused: RefusedCount,
    /// Size of the set of values that were seen.
    pub memory: Bytes,
}

const OF: Word = Word::new(
    "of",
    Takes::Key,
    "The thing whose different values are counted: any key or list of keys, such as `header:x-login-name-hash` or `path`. For `distinct`; \
     must be given.",
);

impl Distinct {
    /// The longest window that slides: it is kept as a rate, whose period is a day at most.
    const LONGEST_SLIDING: Duration = Duration::from_secs(86_400);

    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["unique"],
        words: &[&OF, &MAX, &WINDOW, &SLIDING, &MAX_PENALTY],
        tier_words: &[&MAX],
        common: &["key", "missing", "count", "tiers"],
        counts_refused: true,
        counts_answers: true,
        warns_of_small_sketch: false,
        // half of it holds values, a quarter each of two tables of counters: by default 8·10⁻⁷ of innocents are refused early
        // beside 1,000 keys at their limit
        least_memory: Bytes(16 << 10),
        sharing: Shareable::ByAsking,
        ..Form::new::<Distinct>(
            "distinct",
            "at most `max` different values of `of` per key and `window`.",
            "{ type: distinct, of: \"header:x-name\", missing: allow, max: 5, window: 2s, sliding: true }",
        )
    };
}

impl FromWords for Distinct {
    fn from_words(words: &mut Words) -> Option<Distinct> {
        words.require(&[&MAX, &WINDOW]);
        let memory = words.sketch(Sketch::QUARTER);
        let sliding = words.flag(&SLIDING);
        let max = words.number(&MAX);
        let window = words.duration(&WINDOW);
        let refused = refused(words, sliding, window);
        if let (true, Some((_, shown))) =
            (sliding && window.is_some_and(|window| window > Distinct::LONGEST_SLIDING), words.value(&WINDOW))
        {
            let message = format!("{shown} is too long to slide");
            words.report(Fault::OutOfRange, At::Value("window"), message, "must be 1s to 24h beside `sliding: true`");
            return None;
        }
        let (max, window) = (max?, window?);
        fits(words, max, window, sliding)?;
        Some(Distinct { max, window, sliding, refused, memory })
    }
}

/// Whether refused values count, and how long they can keep a key out: no longer than a used-up quota does, unless said otherwise.
fn refused(words: &mut Words, sliding: bool, window: Option<Duration>) -> RefusedCount {
    if words.counts_refused != Some(true) {
        if words.has("max_penalty") {
            words.report(Fault::Conflict, At::Name("max_penalty"), "`max_penalty` without `count: all`", "");
            words.help("without it, refused values are not held against anybody");
        }
        return RefusedCount::Admitted;
    }
    if !sliding {
        let message = "`count: all` beside windows that follow the clock";
        let label = "a window ends when it ends, however many are refused in it";
        words.report(Fault::Conflict, At::Value("count"), message, label);
        words.help("say `sliding: true`, with which a client that goes on stays out");
    }
    let default = window.unwrap_or(Duration::from_secs(1));
    RefusedCount::All { max_penalty: words.duration(&MAX_PENALTY).unwrap_or(default) }
}

/// What slides is kept as a rate, which has a fastest.
fn fits(words: &mut Words, max: u32, window: Duration, sliding: bool) -> Option<()> {
    if !sliding || Rate::new(max, window).is_ok() {
        return Some(());
    }
    let (_, shown) = words.value(&MAX)?;
    words.out_of_range(&MAX, &shown, "must be at most 10000000 per second beside `sliding: true`");
    None
}

impl LimitKind for Distinct {
    fn form(&self) -> &'static Form {
        &Distinct::FORM
    }

    fn state(&self, spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
        Ok(Box::new(state::Distinct::new(spec, seed)?))
    }

    fn bound(&self) -> Option<Bound> {
        let (max, length) = (self.max, self.window);
        Some(match self.sliding {
            true => Bound::Interval { burst: max.into(), per_second: f64::from(max) / length.as_secs_f64() },
            false => Bound::Window { max, length, sliding: false },
        })
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((Sketch::QUARTER, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = vec![
            ("max", Value::Number(self.max.into())),
            ("window", Value::Duration(self.window)),
            ("sliding", Value::Flag(self.sliding)),
        ];
        settings.extend(max_penalty(self.refused));
        settings
    }

    fn needs(&self, owed: Owed) -> Needs {
        Needs { units: owed.parts().0, ..Needs::default() }
    }

    fn standing(&self) -> Vec<Part> {
        let (position, max) = (Part::Position(self.max), Part::Amount(self.max));
        let window = Part::Duration(self.window);
        vec![position, Part::Text(" of "), max, Part::Text(" values"), Part::Values, Part::Text(" in "), window]
    }

    fn summary(&self) -> String {
        "{max} of {of} per {window}".to_owned()
    }

    fn tier(&self, words: &mut Words) -> Option<Kind> {
        let max = words.number(&MAX)?;
        fits(words, max, self.window, self.sliding)?;
        Some(Distinct { max, ..self.clone() }.into())
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Distinct| self == other)
    }

    fn most(&self) -> Option<(&'static str, u32)> {
        Some(("max", self.max))
    }

    fn refused(&self) -> Option<RefusedCount> {
        Some(self.refused)
    }

    /// Repeats are free and every new value counts as one, whatever a request costs elsewhere.
    fn allowance(&self) -> Option<Allowance> {
        let window = (self.window >= Duration::from_secs(1)).then(|| ceil_seconds(self.window));
        Some(Allowance { quota: u64::from(self.max), counts: Counts::Requests, window })
    }

    fn windows(&self) -> Option<Period> {
        Some(Period::Length(self.window))
    }

    fn fixed_windows(&self) -> (Option<Duration>, bool) {
        (Some(self.window), self.sliding)
    }

    /// What is refused is not kept, so no store counts it.
    fn store_promise(&self) -> Option<Promise> {
        let &Distinct { max, window, sliding, refused, .. } = self;
        (refused == RefusedCount::Admitted).then_some(Promise::Values { max, window, sliding })
    }

    fn has_table_per_tier(&self) -> bool {
        self.sliding
    }

    /// Two fingerprints of different values are equal so often, whatever the size of the set.
    fn falsely_seen(&self) -> Option<f64> {
        Some(1.2e-7)
    }
}
