//! `type: quota`: at most `max` per key and aligned window.
//!
//! Windows of a length begin at whole multiples of it since 1970, so that those of an hour or a day end with it; others are the days,
//! weeks or months of a time zone. The phase is taken from the wall clock once, when the limiter is made, and counted on by the
//! monotonic clock, so that a stepped wall clock never opens a window again. Saved state keeps that phase
//! over a restart.
//!
//! A reload may change the windows: what a key spent in the one that is open counts in the one that is open then.
//!
//! **Promise.** At most `max` per window; across one boundary, in any time however short, up to twice that. `sliding: true`
//! smooths the boundary.

mod sliding;

use std::io;
use std::time::Duration;

use super::form::{
    Allowance, Bound, Counts, Form, FromWords, Levels, LimitKind, Part, Shareable, calendar, ceil_seconds, compared,
    numbers, own,
};
use super::words::{At, Fault, Takes, Value, Word, Words};
use super::{Kind, MAX, RATE, SLIDING, WINDOW};
use crate::limiter::by_level::ByLevel;
use crate::limiter::kind::{MIXED, Sketch};
use crate::limiter::leveled::Leveled;
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::sharing::Promise;
use crate::limiter::tiered::Tiered;
use crate::limiter::{Moved, Spec, State};
use crate::saved::{self, Reader, Writer};
use crate::sketch::{Ratio, Seed, Window, Windows};
use crate::units::dice::mixed;
use crate::units::{Bytes, Calendar, CalendarUnit, Cost, OutOfRange, Period, Timestamp, Weekday, Zone};

/// At most `max` per aligned window, per key.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// How much per window: at least the rule's cost.
    pub max: u32,
    /// What a window is. Windows of whole fractions of a day begin at midnight UTC.
    pub window: Period,
    /// Whether the window before counts in part, which smooths the boundary; not for windows of the calendar.
    pub sliding: bool,
    /// Size of the sketch.
    pub memory: Bytes,
}

const PER: Word = Word::new(
    "per",
    Takes::Calendar,
    "In which part of the calendar: `month`, `week` or `day`, of `time_zone`. For `quota` beside `max`, instead of `window`.",
);

const TIME_ZONE: Word = Word::new(
    "time_zone",
    Takes::Zone,
    "The time zone of `per`, by its IANA name such as `Europe/Berlin`: days begin at its midnight, and are 23 or 25 hours long when its \
     clocks change. Default `UTC`. With `per`.",
);

const WEEK_STARTS: Word = Word::new(
    "week_starts",
    Takes::Weekday,
    "The first day of a week: `monday` (default) to `sunday`. With `per: week`.",
);

impl Quota {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["window", "fixed_window", "sliding_window"],
        words: &[&RATE, &MAX, &WINDOW, &PER, &TIME_ZONE, &WEEK_STARTS, &SLIDING],
        tier_words: &[&MAX],
        common: Form::CHARGED,
        counts_answers: true,
        sharing: Shareable::Always,
        ..Form::new::<Quota>(
            "quota",
            "at most `max` per window of the clock, per key.",
            "{ type: quota, max: 5, window: 2s }",
        )
    };
}

impl FromWords for Quota {
    fn from_words(words: &mut Words) -> Option<Quota> {
        check_calendar(words);
        check_sliding(words);
        let sliding = words.flag(&SLIDING);
        let memory = words.sketch(if sliding { Sketch::QUARTER } else { Sketch::WHOLE });
        let (max, window, word) = if words.has("rate") {
            let (value, shown) = words.value(&RATE)?;
            if let Some(word) = ["max", "window"].into_iter().find(|word| words.has(word)) {
                let message = format!("`{word}` beside `rate`");
                words.report(
                    Fault::Conflict,
                    At::Name(word),
                    message,
                    "a quota is either a `rate`, or `max` and `window`",
                );
                words.related(At::Name("rate"), "says both already");
            }
            let (max, window) = per_window(words, &value, &shown)?;
            (max, Period::Length(window), &RATE)
        } else if words.has("per") {
            words.require(&[&MAX]);
            let calendar = calendar_of(words);
            let max = words.number(&MAX)?;
            (max, Period::Calendar(calendar?), &MAX)
        } else {
            words.require(&[&MAX, &WINDOW]);
            if let Some((Value::Duration(written), _)) = words.value(&WINDOW) {
                warn_if_calendar(words, &WINDOW, written);
            }
            let window = words.duration(&WINDOW);
            let max = words.number(&MAX)?;
            (max, Period::Length(window?), &MAX)
        };
        holds_one(words, max, word)?;
        Some(Quota { max, window, sliding, memory })
    }
}

/// The part of the calendar that a quota is for; `None` if a word of it is faulty.
fn calendar_of(words: &Words) -> Option<Calendar> {
    let starts = match words.value(&WEEK_STARTS) {
        Some((Value::Weekday(day), _)) => Some(day),
        _ => (!words.has("week_starts")).then_some(Weekday::Monday),
    };
    let unit = match words.value(&PER)?.0 {
        Value::Calendar(CalendarUnit::Week { .. }) => CalendarUnit::Week { starts: starts? },
        Value::Calendar(unit) => unit,
        _ => return None,
    };
    match words.value(&TIME_ZONE) {
        Some((Value::Zone(zone), _)) => Some(Calendar { unit, zone }),
        _ => (!words.has("time_zone")).then(|| Calendar { unit, zone: Zone::utc() }),
    }
}

/// Windows of 30 days are no months: they begin every 30 days since 1970.
fn warn_if_calendar(words: &mut Words, word: &Word, window: Duration) {
    let (days, rest) = (window.as_secs() / 86_400, window.as_secs() % 86_400);
    let (what, per) = match (days, rest) {
        (7, 0) => ("begin on Thursdays", "week"),
        (28..=31, 0) => ("follow no month: they are counted from 1970", "month"),
        _ => return,
    };
    let message = format!("windows of {days} days {what}");
    words.report(Fault::NoMonth, At::Value(word.name), message, "always as long, whatever the calendar says");
    words.help(format!("write `per: {per}` instead if the calendar's are meant"));
}

/// `5000/h` as a quota.
fn per_window(words: &mut Words, value: &Value, shown: &str) -> Option<(u32, Duration)> {
    let (max, window) = match value {
        Value::LongRate { max, window } => (*max, *window),
        value => {
            let rate = words.requests(&RATE, value, false)?;
            (rate.events(), rate.period())
        }
    };
    if let (Takes::Number(most), Takes::Duration(windows)) = (MAX.takes, WINDOW.takes)
        && windows.contains(&window)
        && most.contains(&max)
    {
        warn_if_calendar(words, &RATE, window);
        return Some((max, window));
    }
    let message = format!("the quota {shown} is out of range");
    words.report(Fault::OutOfRange, At::Value("rate"), message, "must be up to 4294967294 in 1s to 31d");
    None
}

/// Reports a quota that not even one request fits.
fn holds_one(words: &mut Words, max: u32, word: &Word) -> Option<()> {
    let cost = words.cost.unwrap_or(Cost::ONE).get();
    if max >= cost {
        return Some(());
    }
    let message = format!("a quota of {max} cannot hold one request of cost {cost}");
    words.report(Fault::BelowCost, At::Value(word.name), message, format!("must be {cost} or more"));
    None
}

/// Reports words of the calendar that another word leaves without a meaning.
fn check_calendar(words: &mut Words) {
    if words.has("per") {
        let others = [
            ("window", "a quota has one kind of window"),
            ("rate", "`per` stands beside `max`"),
            ("sliding", "months differ in length, so no part of the last one can be counted"),
        ];
        for (word, label) in others {
            if words.has(word) && (word != "sliding" || words.flag(&SLIDING)) {
                words.report(Fault::Conflict, At::Name(word), format!("`{word}` beside `per`"), label);
                words.related(At::Name("per"), "windows of the calendar");
            }
        }
    } else if words.has("time_zone") {
        let label = "needs `per: month`, `week` or `day`";
        words.report(Fault::Conflict, At::Name("time_zone"), "`time_zone` without `per`", label);
    }
    let weeks = matches!(words.value(&PER), Some((Value::Calendar(CalendarUnit::Week { .. }), _)));
    if words.has("week_starts") && !weeks {
        let message = "`week_starts` without `per: week`";
        words.report(Fault::Conflict, At::Name("week_starts"), message, "belongs to weeks");
    }
}

/// Reports what a sliding quota cannot do: it keeps two counts of a key, which one set of numbers judges on entry.
fn check_sliding(words: &mut Words) {
    if !words.flag(&SLIDING) {
        return;
    }
    let late = ["count", "cost"].into_iter().find(|word| words.deferred && words.has(word));
    let tiers = words.has("tiers").then_some("tiers");
    for (what, word) in [("`tiers`", tiers), ("a charge that waits for the answer", late)] {
        if let Some(word) = word {
            let label = "a sliding quota is charged on entry, by one set of numbers";
            words.report(Fault::Conflict, At::Name(word), format!("{what} beside `sliding: true`"), label);
            words.related(At::Name("sliding"), "slides because of this");
        }
    }
}

impl LimitKind for Quota {
    fn form(&self) -> &'static Form {
        &Quota::FORM
    }

    fn state(&self, spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
        match self.sliding {
            true => sliding::state(spec, seed),
            false => Ok(Box::new(AlignedState::new(spec, seed)?)),
        }
    }

    fn bound(&self) -> Option<Bound> {
        Some(Bound::Window { max: self.max, length: self.window.nominal(), sliding: self.sliding })
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((if self.sliding { Sketch::QUARTER } else { Sketch::WHOLE }, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = vec![("max", Value::Number(self.max.into()))];
        match &self.window {
            Period::Calendar(windows) => settings.extend(calendar(windows)),
            Period::Length(length) => {
                settings.extend([("window", Value::Duration(*length)), ("sliding", Value::Flag(self.sliding))]);
            }
        }
        settings
    }

    fn needs(&self, owed: Owed) -> Needs {
        Needs { units: owed.parts().0, ..Needs::default() }
    }

    fn standing(&self) -> Vec<Part> {
        let window = Part::Window(self.window.clone());
        let sliding = Part::Text(if self.sliding { ", sliding" } else { "" });
        vec![Part::Position(self.max), Part::Text(" of "), Part::Amount(self.max), Part::Text(" per "), window, sliding]
    }

    fn summary(&self) -> String {
        match &self.window {
            Period::Calendar(calendar) => format!("{{max}} per {calendar}"),
            Period::Length(_) => format!("{{max}} per {{window}}{}", if self.sliding { ", sliding" } else { "" }),
        }
    }

    fn tier(&self, words: &mut Words) -> Option<Kind> {
        let max = words.number(&MAX)?;
        holds_one(words, max, &MAX)?;
        Some(Quota { max, ..self.clone() }.into())
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Quota| {
            self.max <= other.max && self.window == other.window && self.sliding == other.sliding
        })
    }

    fn at_once(&self) -> Option<u32> {
        Some(self.max)
    }

    fn most(&self) -> Option<(&'static str, u32)> {
        Some(("max", self.max))
    }

    fn allowance(&self) -> Option<Allowance> {
        let window = Some(ceil_seconds(self.window.nominal()));
        Some(Allowance { quota: u64::from(self.max), counts: Counts::Cost, window })
    }

    fn windows(&self) -> Option<Period> {
        Some(self.window.clone())
    }

    /// Windows that do not slide can change: the open one goes on as the open one of the new windows.
    fn fixed_windows(&self) -> (Option<Duration>, bool) {
        (self.sliding.then(|| self.window.nominal()), self.sliding)
    }

    fn store_promise(&self) -> Option<Promise> {
        let max = self.max;
        match &self.window {
            Period::Length(window) if self.sliding => Some(Promise::Sliding { max, window: *window }),
            Period::Length(window) => Some(Promise::Quota { max, window: *window }),
            Period::Calendar(calendar) => {
                Some(Promise::Calendar { max, nominal: calendar.unit.nominal(), begins: [0; 4] })
            }
        }
    }

    fn unit_shape(&self) -> Option<u64> {
        // units of the same windows add up, whether these slide or not
        match &self.window {
            Period::Length(window) => Some(u64::try_from(window.as_millis()).unwrap_or(u64::MAX) << 8 | 2),
            // the same on every gate: a word for each calendar, as there is a number for each length
            Period::Calendar(calendar) => {
                let word = calendar.to_string();
                Some(word.bytes().fold(0, |all, byte| mixed(all ^ u64::from(byte))) << 8 | 4)
            }
        }
    }

    fn levels(&self, zero: u64) -> Option<Box<dyn Levels>> {
        if self.sliding {
            return None;
        }
        Some(Box::new(Window::on(self.max, Windows::of(&self.window, zero).ok()?).ok()?))
    }
}

/// The state of one `quota` limit without `sliding`.
#[derive(Debug)]
struct AlignedState(Tiered<Window>);

impl AlignedState {
    fn new(spec: &Spec<'_>, seed: &Seed) -> Result<AlignedState, OutOfRange> {
        let Quota { memory, .. } = own(spec)?;
        let windows = windows(spec)?;
        let meters = spec.kinds.iter().map(|kind| Window::on(numbers::<Quota>(kind)?.max, windows.clone()));
        let table = |meter| Leveled::new(meter, *memory, seed.clone(), spec.indebts);
        Ok(AlignedState(Tiered::empty(meters, Window::has_windows_of, table)?.with_longest_wait(spec.longest_wait)))
    }
}

/// The windows of the limit.
fn windows(spec: &Spec<'_>) -> Result<Windows, OutOfRange> {
    let windows = Windows::of(&own::<Quota>(spec)?.window, spec.unix_nanos_at_origin)?;
    Ok(if spec.longest_wait > 0 { windows.apart() } else { windows })
}

impl ByLevel for AlignedState {
    type Meter = Window;

    fn tiered(&self) -> &Tiered<Window> {
        &self.0
    }

    fn tiered_mut(&mut self) -> &mut Tiered<Window> {
        &mut self.0
    }

    /// Counts bear the numbers of their windows, so it is told which window had which number when.
    fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        to.number(now.nanos())?;
        self.0.at(0).meter().windows().mark(now).into_iter().try_for_each(|number| to.number(number.into()))?;
        self.0.save(to, now)
    }

    /// The window that was open goes on as the open one of these windows.
    fn restore(&mut self, from: &mut Reader<'_>, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<(), saved::Fault> {
        const UNFIT: saved::Fault = saved::Fault::Unfit("windows cannot be numbered");
        let at = Timestamp::from_nanos(from.number()?);
        let mut number = || Ok::<u32, saved::Fault>(u32::try_from(from.number()?).unwrap_or(u32::MAX));
        let mark = [number()?, number()?];
        let windows = windows(spec).and_then(|windows| windows.marked(at, mark)).map_err(|_| UNFIT)?;
        self.0.change_meters(|meter| Window::on(meter.limit(), windows.clone())).map_err(|_| UNFIT)?;
        self.0.restore(from, (moved.tiers, moved.now), (1, 1))
    }

    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<AlignedState, OutOfRange> {
        let Quota { window, sliding: false, .. } = own(spec)? else { return Err(MIXED) };
        let own = self.0.at(0);
        let ahead = own.longest_wait().max(spec.longest_wait);
        let windows = own.meter().windows().followed_by(
            (window, spec.unix_nanos_at_origin),
            (moved.now, ahead),
            spec.longest_wait > 0,
        )?;
        let follow = |before: &Leveled<Window>, kind: &Kind| {
            let window = Window::on(numbers::<Quota>(kind)?.max, windows.clone())?;
            // counts need no axis but time
            let timeline = before.timeline().followed_by(Timestamp::ZERO, Ratio::EVEN);
            Ok(timeline.map(|timeline| before.followed_by(window, timeline, spec.indebts)))
        };
        // counts of the same windows mean the same, so none is ever apart
        let apart = |_: &Leveled<Window>, _: &Kind| Err(MIXED);
        let after = self.0.follow((spec.kinds, moved.tiers), Window::has_windows_of, follow, apart)?;
        Ok(AlignedState(after.with_longest_wait(spec.longest_wait)))
    }

    /// A straggler does not fit any number: that is more than 32 bits hold.
    fn owed(&self, _: &Kind, _: u8, standing: u64, cost: Cost) -> Owed {
        Owed::units(standing.saturating_add(u64::from(cost.get())), 0)
    }

    const HAS_WINDOWS: bool = true;

    fn windows_begin(&self, now: Timestamp) -> Option<[u32; 4]> {
        self.0.at(0).meter().windows().begins_around(now)
    }
}
