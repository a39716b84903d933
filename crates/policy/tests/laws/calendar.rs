//! Quotas by the calendar: windows are the days, weeks and months of a zone, one after the other without a gap, and a reload that
//! changes them gives no client its quota twice.
//!
//! `crates/policy/tests/calendar/beginnings.txt` was made by Python's `zoneinfo`, which walked through time and watched the date.

use std::collections::BTreeMap;

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;
use tidegate_limits::sketch::Seed;
use tidegate_limits::units::{Calendar, CalendarUnit, Timestamp, Zone};
use tidegate_policy::config::load_text;
use tidegate_policy::engine::{Decision, Engine, Verdict};
use tidegate_policy::policy::Policy;

use crate::book::{ask, head};

const SECOND: u64 = 1_000_000_000;
const DAY: u32 = 86_400;
const BEGINNINGS: &str = include_str!("../calendar/beginnings.txt");

fn policy(limit: &str) -> Policy {
    let text = format!(
        "listen: \":8080\"\ntrusted_proxies: [127.0.0.0/8]\nlimits:\n  one: {{ type: quota, memory: 64KiB, {limit} }}\nroutes:\n  - respond: {{ status: 200 }}\n    limits: [one]\n"
    );
    let loaded = load_text("t.yaml", &text, &|_: &str| None, std::path::Path::new("."));
    let told: Vec<String> = loaded.diagnostics.iter().map(|told| format!("{told:?}")).collect();
    loaded.outcome.unwrap_or_else(|_| panic!("{}\n{text}", told.join("\n"))).policy
}

/// A gate whose stamps are nanoseconds after this second.
fn gate(limit: &str, origin: i64) -> Engine {
    Engine::new(policy(limit), &Seed::from_bytes([5; 16]), origin as u64 * SECOND).unwrap()
}

fn reload(gate: &Engine, limit: &str, now: u64) -> Engine {
    let (next, _) = gate.followed_by(policy(limit), Timestamp::from_nanos(now)).unwrap();
    next.take_over();
    next
}

fn send(gate: &Engine, now: u64) -> Decision {
    ask(gate, &head("192.0.2.1"), now).0
}

fn admits(gate: &Engine, now: u64) -> bool {
    send(gate, now).verdict == Verdict::Admitted
}

fn calendar(unit: CalendarUnit, zone: &str) -> Calendar {
    Calendar { unit, zone: Zone::named(zone).unwrap() }
}

/// When a month begins, and which of its days are no 24 hours long, with their seconds.
type Month = (u32, BTreeMap<usize, u32>);

/// Of a line of the vectors: the zone, and of each month its beginning and the days that are no 24 hours long, with their seconds.
fn line(line: &str) -> (&str, Vec<Month>) {
    let mut words = line.split(' ');
    let zone = words.next().unwrap();
    let _year = words.next();
    let mut months: Vec<Month> = Vec::new();
    for word in words {
        match word.split_once(':') {
            None => months.push((word.parse().unwrap(), BTreeMap::new())),
            Some((day, hours)) => {
                let seconds = hours.parse::<f64>().unwrap() * 3_600.0;
                months.last_mut().unwrap().1.insert(day.parse().unwrap(), seconds as u32);
            }
        }
    }
    (zone, months)
}

#[test]
fn days_and_months_begin_when_an_independent_reading_of_the_database_says() {
    let (mut days_seen, mut odd_days) = (0, 0);
    for text in BEGINNINGS.lines() {
        let (zone, months) = line(text);
        let (first, last) = (months[0].0, months[11].0);
        let begins: Vec<u32> = months.iter().map(|(begins, _)| *begins).collect();
        assert_eq!(calendar(CalendarUnit::Month, zone).beginnings(first, last), begins, "{text}");
        let days = calendar(CalendarUnit::Day, zone).beginnings(first, last);
        for ((begins, odd), (ends, _)) in months.iter().zip(&months[1..]) {
            let mut day = *begins;
            let mut number = 1;
            while day < *ends {
                let at = days.binary_search(&day).unwrap_or_else(|_| panic!("day {number} after {begins} of {text}"));
                let length = odd.get(&number).copied().unwrap_or(DAY);
                assert_eq!(days[at + 1] - days[at], length, "day {number} after {begins} of {text}");
                (day, number, days_seen) = (day + length, number + 1, days_seen + 1);
                odd_days += usize::from(length != DAY);
            }
        }
    }
    assert!(days_seen > 30_000 && odd_days > 100, "{days_seen} {odd_days}");
}

#[test]
fn the_day_that_samoa_left_out_is_no_window() {
    // the 29th of December 2011 was followed by the 31st
    let days = calendar(CalendarUnit::Day, "Pacific/Apia").beginnings(1_325_066_400, 1_325_412_000);
    let lengths: Vec<u32> = days.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(lengths, vec![DAY; lengths.len()]);
    let zone = TimeZoneDatabase::bundled().get("Pacific/Apia").unwrap();
    let dates: Vec<i8> = days.iter().map(|begins| date(&zone, i64::from(*begins)).day()).collect();
    assert_eq!(dates[..4], [28, 29, 31, 1]);
}

fn date(zone: &TimeZone, second: i64) -> jiff::civil::Date {
    zone.to_datetime(jiff::Timestamp::from_second(second).unwrap()).date()
}

const ZONES: [&str; 16] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Havana",
    "America/Santiago",
    "America/Nuuk",
    "America/St_Johns",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Antarctica/Troll",
];

fn limits() -> impl Strategy<Value = (String, &'static str, CalendarUnit)> {
    let units = prop::sample::select(vec![
        ("day".to_owned(), CalendarUnit::Day),
        ("month".to_owned(), CalendarUnit::Month),
        ("week".to_owned(), CalendarUnit::Week { starts: Weekday::Monday }),
        ("week, week_starts: sunday".to_owned(), CalendarUnit::Week { starts: Weekday::Sunday }),
        ("week, week_starts: saturday".to_owned(), CalendarUnit::Week { starts: Weekday::Saturday }),
    ]);
    let zones = prop::sample::select(ZONES.to_vec());
    (units, zones).prop_map(|((words, unit), zone)| (format!("per: {words}, time_zone: {zone}"), zone, unit))
}

/// Names the window of an instant; instants of one window have one name.
fn named(unit: CalendarUnit, zone: &TimeZone, second: i64) -> (i16, i32) {
    let day = date(zone, second);
    match unit {
        CalendarUnit::Day => (day.year(), i32::from(day.day_of_year())),
        CalendarUnit::Month => (day.year(), i32::from(day.month())),
        CalendarUnit::Week { starts } => {
            let first = day.checked_sub(jiff::Span::new().days(day.weekday().since(starts))).unwrap();
            (first.year(), i32::from(first.day_of_year()))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// From 2012 on no zone's clock was set back over midnight by less than to midnight, so a window is what the dates say.
    #[test]
    fn a_window_is_a_day_week_or_month_and_ends_when_it_was_told(
        (words, name, unit) in limits(),
        origin in 1_330_000_000_i64..2_300_000_000,
        ahead in 0_u64..40_000_000,
    ) {
        let zone = TimeZoneDatabase::bundled().get(name).unwrap();
        let gate = gate(&format!("max: 1, {words}"), origin);
        let mut now = ahead * SECOND + 1;
        for _ in 0..4 {
            let at = |now: u64| origin + (now / SECOND) as i64;
            prop_assert!(admits(&gate, now));
            let refused = send(&gate, now);
            prop_assert!(refused.verdict != Verdict::Admitted);
            let wait = refused.readings[0].retry_nanos.unwrap();
            prop_assert_eq!(named(unit, &zone, at(now)), named(unit, &zone, at(now + wait - 1)));
            prop_assert_ne!(named(unit, &zone, at(now)), named(unit, &zone, at(now + wait)));
            prop_assert!(!admits(&gate, now + wait - 1), "a window ends when it was told");
            now += wait;
        }
    }

    /// Windows of a length and of calendars follow each other at reloads. What a key spent in the open window counts in the next.
    #[test]
    fn a_change_of_windows_gives_no_quota_twice(
        changes in prop::collection::vec((prop_oneof![
            limits().prop_map(|(words, ..)| words),
            (1_u64..700).prop_map(|hours| format!("window: {hours}h")),
        ], prop::option::of(1_u64..30), 0_u64..200), 2..6),
        origin in 1_330_000_000_i64..2_300_000_000,
        straggles: bool,
    ) {
        const MAX: usize = 3;
        let words = |(words, delay, _): &(String, Option<u64>, u64)| {
            let delay = delay.map_or(String::new(), |delay| format!(", action: {{ delay: {{ max: {delay}s }} }}"));
            format!("max: {MAX}, {words}{delay}")
        };
        let mut now = SECOND;
        let mut gate = gate(&words(&changes[0]), origin);
        for change in &changes[1..] {
            let goes = |gate: &Engine, now: u64| {
                let decision = send(gate, now);
                decision.verdict == Verdict::Admitted && decision.delay_nanos == 0
            };
            let spent = (0..2 * MAX).filter(|_| goes(&gate, now)).count();
            prop_assert!(spent <= MAX);
            let next = reload(&gate, &words(change), now);
            prop_assert!(!goes(&next, now), "after {} came {}", words(&changes[0]), words(change));
            // a request that began before the reload goes by the new windows as well
            now += change.2 * 3_600 * SECOND;
            let old = if straggles { usize::from(goes(&gate, now)) } else { 0 };
            let new = (0..2 * MAX).filter(|_| goes(&next, now)).count();
            prop_assert!(old + new <= MAX, "{} and {}", old, new);
            gate = next;
        }
    }
}

#[test]
fn a_leap_year_has_its_29th_of_february_and_a_month_no_31_days() {
    // 2028-02-12 12:00 in Berlin
    let gate = gate("max: 1, per: month, time_zone: Europe/Berlin", 1_833_966_000);
    assert!(admits(&gate, 0));
    let wait = send(&gate, 0).readings[0].retry_nanos.unwrap();
    assert_eq!(wait, (17 * 86_400 + 12 * 3_600) * SECOND);
}
