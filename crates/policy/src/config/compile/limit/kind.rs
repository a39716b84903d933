//! What a limit promises: the numbers of its type, checked against each other.

use std::time::Duration;

use super::belongs::{check_calendar, check_sliding};
use super::cost::{counts_bytes, is_deferred, largest};
use super::key::Node;
use super::rate::{levels_memory, memory, rate_and_burst, requests, unit};
use super::written::{Written, missing_field};
use crate::config::compile::checks::{checked32, number32, out_of_place, span};
use crate::config::compile::origins::Origins;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_value::{CapacityText, CountText, LimitRate};
use crate::config::read::{At, Field};
use crate::config::scalar::{self, Count};
use crate::config::schema;
use crate::config::span::Span;
use crate::config::word::CalendarWord;
use crate::limiter::Sketch;
use crate::policy::{Capacity, CostRule, Kind, RefusedCount, Scope, kinds};
use crate::units::{Calendar, CalendarUnit, Cost, Period, Rate, Weekday, Zone};

/// The promise, and for a rate of bytes what a request takes.
pub struct Numbers {
    /// The promise.
    pub kind: Kind,
    /// `CostRule::Bytes`, if the rate is one of bytes.
    pub bytes: Option<CostRule>,
}

/// The numbers of a limit. `scope` is that of an `inflight` limit that is counted exactly.
pub fn numbers(
    written: &Written<'_>,
    scope: Option<Scope>,
    cost: Option<&CostRule>,
    nodes: Option<&Vec<Node>>,
    origins: &mut Origins,
    faults: &mut Faults,
) -> Option<Numbers> {
    let cost = largest(cost);
    let kind = match written.form.word {
        "rate" => return rate(written, cost, faults),
        "quota" => quota(written, cost, faults),
        "recent_average" => recent_average(written, cost, faults),
        "distinct" => distinct(written, faults),
        "fair_share" => fair_share(written, nodes, origins, faults),
        "inflight" => inflight(written, scope, faults),
        _ => None,
    };
    kind.map(|kind| Numbers { kind, bytes: None })
}

fn rate(written: &Written<'_>, cost: Cost, faults: &mut Faults) -> Option<Numbers> {
    let limit = written.limit;
    if !limit.rate.is_present() && !limit.max.is_present() {
        missing_field(written, "rate", faults);
    }
    let memory = levels_memory(written, Sketch::WHOLE, faults);
    let rate = limit.rate.get()?;
    let unit = unit(written, faults)?;
    let (rate, burst) = rate_and_burst(rate, &limit.burst, cost, unit, faults)?;
    Some(Numbers {
        kind: Kind::Rate(kinds::Rate { rate, burst, memory }),
        bytes: unit.map(|unit| CostRule::Bytes { unit }),
    })
}

fn quota(written: &Written<'_>, cost: Cost, faults: &mut Faults) -> Option<Kind> {
    let limit = written.limit;
    check_calendar(written, faults);
    check_sliding(written, is_deferred(written), faults);
    let sliding = limit.sliding.value().copied().unwrap_or(false);
    let sketch = if sliding { Sketch::QUARTER } else { Sketch::WHOLE };
    let memory = levels_memory(written, sketch, faults);
    let (max, window, at) = match &limit.rate {
        Field::Absent if limit.per.is_present() => {
            if !limit.max.is_present() {
                missing_field(written, "max", faults);
            }
            let calendar = calendar(written);
            let max = checked32(&limit.max, 1..=kinds::Quota::MOST, faults)?;
            (max, Period::Calendar(calendar?), limit.max.get()?.span)
        }
        Field::Absent => {
            for (field, present) in [("max", limit.max.is_present()), ("window", limit.window.is_present())] {
                if !present {
                    missing_field(written, field, faults);
                }
            }
            let window = window(&limit.window, faults);
            if let Some(at) = limit.window.get() {
                warn_if_calendar(at.span, at.value, faults);
            }
            let max = checked32(&limit.max, 1..=kinds::Quota::MOST, faults)?;
            (max, Period::Length(window?), limit.max.get()?.span)
        }
        Field::Bad { .. } => return None,
        Field::Set { key, at } => {
            if let Some((other, word)) =
                limit.max.key().map(|at| (at, "max")).or_else(|| limit.window.key().map(|at| (at, "window")))
            {
                faults.push(
                    Diagnostic::error(Code::CONFLICT, other, format!("`{word}` beside `rate`"))
                        .label("a quota is either a `rate`, or `max` and `window`")
                        .related(*key, "says both already"),
                );
            }
            let (max, window) = per_window(at, faults)?;
            (max, Period::Length(window), at.span)
        }
    };
    holds_one(max, cost, at, faults)?;
    Some(Kind::Quota(kinds::Quota { max, window, sliding, memory }))
}

/// The part of the calendar that a quota is for; `None` if a word of it is bad, which has been told.
fn calendar(written: &Written<'_>) -> Option<Calendar> {
    let limit = written.limit;
    let unit = match limit.per.value()? {
        CalendarWord::Day => CalendarUnit::Day,
        CalendarWord::Week => match (limit.week_starts.value(), limit.week_starts.is_present()) {
            (None, true) => return None,
            (starts, _) => CalendarUnit::Week { starts: starts.copied().unwrap_or(Weekday::Monday) },
        },
        CalendarWord::Month => CalendarUnit::Month,
    };
    match (limit.time_zone.value(), limit.time_zone.is_present()) {
        (None, true) => None,
        (zone, _) => Some(Calendar { unit, zone: zone.cloned().unwrap_or_else(Zone::utc) }),
    }
}

/// Windows of 30 days are no months: they begin every 30 days since 1970.
fn warn_if_calendar(at: Span, window: Duration, faults: &mut Faults) {
    let (days, rest) = (window.as_secs() / 86_400, window.as_secs() % 86_400);
    let (what, per) = match (days, rest) {
        (7, 0) => ("begin on Thursdays", "week"),
        (28..=31, 0) => ("follow no month: they are counted from 1970", "month"),
        _ => return,
    };
    faults.push(
        Diagnostic::new(Code::NO_MONTH, at, format!("windows of {days} days {what}"))
            .label("always as long, whatever the calendar says")
            .help(format!("write `per: {per}` instead if the calendar's are meant")),
    );
}

/// `5000/h` as a quota.
fn per_window(at: &At<LimitRate>, faults: &mut Faults) -> Option<(u32, Duration)> {
    let (max, window) = match at.value {
        LimitRate::Requests(rate) => (rate.events(), rate.period()),
        LimitRate::Long { max, window } => (max, window),
        LimitRate::Bytes { .. } => {
            requests(at, false, faults);
            return None;
        }
    };
    if kinds::Quota::WINDOWS.contains(&window) && max <= kinds::Quota::MOST {
        warn_if_calendar(at.span, window, faults);
        return Some((max, window));
    }
    faults.push(
        Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("the quota {} is out of range", at.shown))
            .label("must be up to 4294967294 in 1s to 31d"),
    );
    None
}

/// A window that must be there; the caller has told when it is not.
fn window(field: &Field<Duration>, faults: &mut Faults) -> Option<Duration> {
    let at = field.get()?;
    span(field, kinds::Quota::WINDOWS, Duration::ZERO, faults);
    kinds::Quota::WINDOWS.contains(&at.value).then_some(at.value)
}

/// Whether one request fits the quota at all.
fn holds_one(max: u32, cost: Cost, at: Span, faults: &mut Faults) -> Option<()> {
    if max >= cost.get() {
        return Some(());
    }
    faults.push(
        Diagnostic::error(
            Code::BURST_BELOW_COST,
            at,
            format!("a quota of {max} cannot hold one request of cost {}", cost.get()),
        )
        .label(format!("must be {} or more", cost.get())),
    );
    None
}

fn recent_average(written: &Written<'_>, cost: Cost, faults: &mut Faults) -> Option<Kind> {
    let limit = written.limit;
    for (field, present) in [("rate", limit.rate.is_present()), ("half_life", limit.half_life.is_present())] {
        if !present {
            missing_field(written, field, faults);
        }
    }
    let memory = levels_memory(written, Sketch::WHOLE, faults);
    let half_life = span(&limit.half_life, kinds::RecentAverage::HALF_LIVES, Duration::from_secs(60), faults);
    let rate = limit.rate.get().and_then(|at| average(at, half_life, cost, limit.half_life.get().is_some(), faults));
    let penalty = span(
        &limit.max_penalty,
        kinds::RecentAverage::PENALTIES,
        kinds::RecentAverage::default_penalty(half_life),
        faults,
    );
    let refused = match limit.count.get() {
        Some(count) if count.value == CountText::Admitted => {
            if let Some(at) = limit.max_penalty.key() {
                faults.push(
                    Diagnostic::error(Code::CONFLICT, at, "`max_penalty` beside `count: admitted`")
                        .label("belongs to `count: all`: without it, refused requests are not held against anybody")
                        .related(count.span, "refused requests do not count"),
                );
            }
            RefusedCount::Admitted
        }
        _ => RefusedCount::All { max_penalty: penalty },
    };
    limit.half_life.get()?;
    Some(Kind::RecentAverage(kinds::RecentAverage { rate: rate?, half_life, refused, memory }))
}

/// The rate of an average, if its first request fits: alone, it makes an average of cost · ln 2 / half-life. `known`: the
/// half-life is not a stand-in.
pub fn average(at: &At<LimitRate>, half_life: Duration, cost: Cost, known: bool, faults: &mut Faults) -> Option<Rate> {
    let rate = requests(at, false, faults)?;
    let room = rate.per_second() * half_life.as_secs_f64() / std::f64::consts::LN_2;
    if !known || room >= f64::from(cost.get()) {
        return Some(rate);
    }
    let enough = f64::from(cost.get()) * std::f64::consts::LN_2 / rate.per_second();
    let fault = Diagnostic::error(
        Code::BURST_BELOW_COST,
        at.span,
        format!("an average of {rate} by a half-life of {} refuses its first request", scalar::duration(half_life)),
    )
    .label(format!("has room for {room:.2} at once, and a request takes {}", cost.get()));
    // whole seconds are what people write
    faults.push(if enough.ceil() <= kinds::RecentAverage::HALF_LIVES.end().as_secs_f64() {
        let enough = Duration::from_secs(enough.ceil().max(1.0) as u64);
        fault.help(format!("a half-life of {} would do", scalar::duration(enough)))
    } else {
        fault.help("no half-life would do; `type: quota` counts so slow a rate")
    });
    None
}

fn distinct(written: &Written<'_>, faults: &mut Faults) -> Option<Kind> {
    let limit = written.limit;
    for (field, present) in [("max", limit.max.is_present()), ("window", limit.window.is_present())] {
        if !present {
            missing_field(written, field, faults);
        }
    }
    let memory = memory(written, Sketch::QUARTER, faults);
    let sliding = limit.sliding.value().copied().unwrap_or(false);
    let max = checked32(&limit.max, 1..=kinds::Distinct::MOST, faults);
    let window = window(&limit.window, faults);
    let refused = refused_values(written, sliding, window, faults);
    if let (true, Some(at)) = (
        sliding,
        limit
            .window
            .get()
            .filter(|at| at.value > kinds::Distinct::LONGEST_SLIDING && kinds::Distinct::WINDOWS.contains(&at.value)),
    ) {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is too long to slide", at.shown))
                .label("must be 1s to 24h beside `sliding: true`"),
        );
        return None;
    }
    Some(Kind::Distinct(kinds::Distinct {
        max: sliding_max(max?, window?, sliding, &limit.max, faults)?,
        window: window?,
        sliding,
        refused,
        memory,
    }))
}

/// Whether refused values count, and how long they can keep a key out: no longer than a used-up quota does, unless said otherwise.
fn refused_values(written: &Written<'_>, sliding: bool, window: Option<Duration>, faults: &mut Faults) -> RefusedCount {
    let limit = written.limit;
    let Some(count) = limit.count.get().filter(|count| count.value == CountText::All) else {
        out_of_place(
            &limit.max_penalty,
            "`max_penalty` without `count: all`",
            "without it, refused values are not held against anybody",
            faults,
        );
        return RefusedCount::Admitted;
    };
    if !sliding {
        faults.push(
            Diagnostic::error(Code::CONFLICT, count.span, "`count: all` beside windows that follow the clock")
                .label("a window ends when it ends, however many are refused in it")
                .help("say `sliding: true`, with which a client that goes on stays out"),
        );
    }
    let max_penalty =
        span(&limit.max_penalty, kinds::Distinct::WINDOWS, window.unwrap_or(*kinds::Distinct::WINDOWS.start()), faults);
    RefusedCount::All { max_penalty }
}

/// What slides is kept as a rate, which has a fastest.
pub fn sliding_max(
    max: u32,
    window: Duration,
    sliding: bool,
    field: &Field<Count>,
    faults: &mut Faults,
) -> Option<u32> {
    if !sliding || Rate::new(max, window).is_ok() {
        return Some(max);
    }
    if let Some(at) = field.get() {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is out of range", at.shown))
                .label("must be at most 10000000 per second beside `sliding: true`"),
        );
    }
    None
}

fn fair_share(
    written: &Written<'_>,
    nodes: Option<&Vec<Node>>,
    origins: &mut Origins,
    faults: &mut Faults,
) -> Option<Kind> {
    let limit = written.limit;
    if !limit.capacity.is_present() {
        missing_field(written, "capacity", faults);
    }
    let memory = memory(written, Sketch::HALF, faults);
    let charge_parents = limit.charge_parents.value().copied().unwrap_or(false);
    let capacity = limit.capacity.get()?;
    let capacity = match &capacity.value {
        CapacityText::Rate(rate) => Capacity::Rate(*rate),
        CapacityText::Origin(name) => Capacity::Origin(origins.capped(&capacity.with(name.clone()), faults)?),
    };
    let nodes = nodes?;
    let multipliers = nodes.iter().map(|node| node.multiplier).collect();
    let levels = nodes.iter().map(|node| node.level).collect();
    Some(Kind::FairShare(kinds::FairShare { capacity, multipliers, levels, charge_parents, memory }))
}

fn inflight(written: &Written<'_>, scope: Option<Scope>, faults: &mut Faults) -> Option<Kind> {
    let limit = written.limit;
    if !limit.max.is_present() {
        missing_field(written, "max", faults);
    }
    let memory = memory(written, Sketch::PLACES, faults);
    let max = checked32(&limit.max, 1..=u32::MAX, faults);
    let upgraded = number32(&limit.upgraded, 0..=u32::MAX, max.unwrap_or_default(), faults);
    Some(Kind::Inflight(kinds::Inflight { max: max?, upgraded, scope: scope.unwrap_or(Scope::Key { memory }) }))
}

/// The numbers of a tier: the limit's own, but for those that the tier says.
pub fn tier_numbers(
    written: &Written<'_>,
    base: &Numbers,
    own: &schema::Tier,
    cost: Cost,
    faults: &mut Faults,
) -> Option<Kind> {
    let mut kind = base.kind.clone();
    match &mut kind {
        Kind::Rate(kind) => {
            let unit = match base.bytes {
                Some(CostRule::Bytes { unit }) if counts_bytes(written) => Some(unit),
                _ => None,
            };
            let rate = if own.rate.is_present() { &own.rate } else { &written.limit.rate };
            (kind.rate, kind.burst) = rate_and_burst(rate.get()?, &own.burst, cost, unit, faults)?;
        }
        Kind::RecentAverage(kind) => {
            kind.rate = average(own.rate.get()?, kind.half_life, cost, true, faults)?;
        }
        Kind::Quota(kind) => {
            let max = checked32(&own.max, 1..=kinds::Quota::MOST, faults)?;
            holds_one(max, cost, own.max.get()?.span, faults)?;
            kind.max = max;
        }
        Kind::Distinct(kind) => {
            let max = checked32(&own.max, 1..=kinds::Distinct::MOST, faults)?;
            kind.max = sliding_max(max, kind.window, kind.sliding, &own.max, faults)?;
        }
        Kind::Inflight(kind) if kind.is_keyed() => {
            kind.max = checked32(&own.max, 1..=u32::MAX, faults)?;
            if !written.limit.upgraded.is_present() {
                kind.upgraded = kind.max;
            }
        }
        // told with the words that do not belong there
        Kind::FairShare(_) | Kind::Inflight(_) => return None,
    }
    Some(kind)
}
