//! The scripts compute what `limiter::sharing::promise` says, number by number, whatever the clock does.

use std::time::Duration;

use tidegate::limiter::sharing::amend::amend;
use tidegate::limiter::sharing::places::{LIFE_MICROS, Lend, Places, lend};
use tidegate::limiter::sharing::promise::{Outcome, RateTerms, State, Terms, grant};
use tidegate::limiter::sharing::values::{Values, ValuesTerms, count};
use tidegate::limiter::sharing::{Change, Promise, StoreKey};
use tidegate::units::Dice;

use super::{Server, rate};

const RATE: &str = include_str!("../../../src/store/rate.lua");
const QUOTA: &str = include_str!("../../../src/store/quota.lua");
const SLIDING: &str = include_str!("../../../src/store/sliding.lua");
const VALUES: &str = include_str!("../../../src/store/values.lua");
const PLACES: &str = include_str!("../../../src/store/places.lua");
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// The script with a clock that is given, and with its expiry beside the value instead of in force.
fn under_our_clock(script: &str) -> redis::Script {
    let time = "local time = redis.call('TIME')";
    let set = "redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', px))";
    assert!(script.contains(time) && script.contains(set), "the script has changed");
    let script = script.replace(time, "local time = { ARGV[#ARGV - 1], ARGV[#ARGV] }");
    let kept = "redis.call('SET', KEYS[1], value) redis.call('SET', KEYS[1] .. ':px', string.format('%.0f', px))";
    redis::Script::new(&script.replace(set, kept))
}

/// The numbers of a limit and of its tiers, each with what it is known by.
type Numbers = Vec<(u32, Promise)>;

/// Asks both the same random questions under the same clock, by any tier, while the limit's numbers change among `numbers`.
fn compare(script: &str, numbers: &[Numbers], seed: u64, questions: u32) {
    compare_with(script, numbers, seed, questions, false);
}

/// The same; `told`: tells both what became of grants, too.
fn compare_with(script: &str, numbers: &[Numbers], seed: u64, questions: u32, told: bool) {
    let server = Server::start(&[]);
    let script = under_our_clock(script);
    let mut connection =
        redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap().get_connection().unwrap();
    let mut dice = Dice(seed);
    let mut now: u64 = 1_790_000_000_000_000;
    let mut kept: Option<(State, u64)> = None;
    let mut tiers = &numbers[0];
    let (mut granted, mut refused) = (0, 0);
    // when the last grant ends
    let mut ended = 0;
    for number in 0..questions {
        let span = 1 << dice.below(42);
        let step = dice.below(span);
        now = if dice.below(16) == 0 { now - step.min(100_000_000_000) } else { now + step };
        if dice.below(12) == 0 {
            tiers = &numbers[usize::try_from(dice.below(numbers.len() as u64)).unwrap()];
        }
        // a gate names the windows around its own time, which may be a window and a half from the store's
        let its_time = now / 1_000_000 + dice.below(12 * 86_400);
        let begins = Some(weeks_around(its_time - 6 * 86_400));
        let terms: Vec<(u32, Terms)> =
            tiers.iter().map(|(id, promise)| (*id, promise.while_windows_begin(begins).terms().unwrap())).collect();
        let terms: Vec<(u32, Terms)> =
            terms.into_iter().map(|(id, terms)| (id, if told { terms.told() } else { terms })).collect();
        let asked = usize::try_from(dice.below(tiers.len() as u64)).unwrap();
        let most = u64::from(tiers[asked].1.most());
        // small and great ones
        let ceiling = if dice.below(2) == 0 { 1 + most / 8 } else { most + 2 };
        let wanted = 1 + dice.below(ceiling.min(u64::from(u32::MAX)));
        let least = 1 + dice.below(wanted);
        let (wanted, least) = (u32::try_from(wanted).unwrap(), u32::try_from(least).unwrap());
        if kept.as_ref().is_some_and(|(_, ends)| now >= *ends) {
            redis::cmd("DEL").arg("key").arg("key:px").exec(&mut connection).unwrap();
            kept = None;
        }

        let state = kept.as_ref().map(|(state, _)| state);
        let change = match dice.below(if told { 4 } else { 1 }) {
            1 => Some(Change::More(wanted)),
            2 => Some(Change::Less(wanted, ended)),
            3 => Some(Change::Less(wanted, ended + dice.below(2))),
            _ => None,
        };
        let Outcome { answer, written } = match change {
            None => grant(state, &terms, asked, (wanted, least), now),
            Some(change) => Outcome {
                written: amend(state, &terms, asked, change, now),
                ..grant(None, &terms, usize::MAX, (1, 1), now)
            },
        };
        let (wanted, least, ends) = match change {
            None => (i64::from(wanted), least, 0),
            Some(Change::Less(units, ends)) => (-i64::from(units), 0, ends),
            Some(_) => (i64::from(wanted), 0, 0),
        };
        let mut call = script.key("key");
        match terms[asked].1 {
            Terms::Rate(_) => {
                call.arg(wanted).arg(least).arg(asked + 1).arg(if told { RateTerms::TOLD } else { 1 });
                for (id, terms) in &terms {
                    let Terms::Rate(rate) = terms else { panic!("a rate") };
                    call.arg(*id).arg(rate.cost).arg(rate.drain).arg(rate.tick_micros).arg(rate.burst);
                }
            }
            Terms::Quota(quota) | Terms::Sliding(quota) => {
                _ = call.arg(quota.window_micros).arg(quota.max).arg(wanted).arg(least).arg(ends)
            }
            Terms::Calendar(quota) => {
                call.arg(0).arg(quota.max).arg(wanted).arg(least).arg(ends);
                quota.begins.iter().for_each(|begins| _ = call.arg(*begins));
            }
            Terms::Places(_) | Terms::Values(_) => panic!("they are compared by themselves"),
        }
        call.arg(now / 1_000_000).arg(now % 1_000_000);
        let said = call.invoke::<Vec<i64>>(&mut connection);
        if let Terms::Calendar(quota) = terms[asked].1
            && !(quota.begins[0]..quota.begins[3]).contains(&now)
        {
            assert!(said.is_err() && answer.granted == 0 && written.is_none(), "no window is named for {now}");
            continue;
        }
        let said = said.unwrap();

        let micros = |nanos: Option<u64>| nanos.map_or(-1, |nanos| i64::try_from(nanos / 1_000).unwrap());
        let rest = Some(answer.ends_nanos).filter(|&nanos| nanos != u64::MAX);
        let ours = [
            i64::from(answer.granted),
            i64::from(answer.left),
            micros(answer.retry_nanos),
            micros(rest),
            i64::try_from(now).unwrap(),
        ];
        if change.is_none() {
            assert_eq!(
                said, ours,
                "question {number}: {wanted} or {least} by {asked} of {terms:?} at {now}, kept {kept:?}"
            );
        }
        if answer.granted > 0 && answer.ends_nanos != u64::MAX {
            ended = now + answer.ends_nanos / 1_000;
        }
        let value: (Option<String>, Option<u64>) =
            redis::cmd("MGET").arg("key").arg("key:px").query(&mut connection).unwrap();
        if written.is_none() {
            let same = kept.as_ref().map(|(state, _)| state.to_string());
            assert_eq!(value.0, same, "question {number} {change:?}: written");
        }
        if let Some((state, millis)) = written {
            assert_eq!(value, (Some(state.to_string()), Some(millis)), "question {number}: {change:?}, kept {kept:?}");
            kept = Some((state, now + millis * 1_000));
        }
        if change.is_some() {
            continue;
        }
        *if answer.granted > 0 { &mut granted } else { &mut refused } += 1;
    }
    // a debt of sixteen bursts is seldom paid
    let few = if told { 1_000 } else { 50 };
    assert!(granted > questions / few && refused > questions / few, "both happen: {granted} and {refused}");
}

/// Weeks of 5 to 9 days around this second: some beginnings are moved, always the same.
fn weeks_around(second: u64) -> [u32; 4] {
    let week = second / 604_800;
    let begins = |week: u64| u32::try_from(week * 604_800 + week % 3 * 86_400).unwrap();
    let present = if u64::from(begins(week)) <= second { week } else { week - 1 };
    [present - 1, present, present + 1, present + 2].map(begins)
}

#[test]
fn the_script_of_a_quota_finds_the_windows_of_a_calendar() {
    let calendar = |max| Promise::Calendar { max, nominal: 7 * DAY, begins: [0; 4] };
    compare(QUOTA, &[vec![(0, calendar(50))]], 3, 2_000);
    // and where the policy changes from one kind of window to the other
    let fixed = |max, window| Promise::Quota { max, window };
    let changing = [calendar(50), fixed(30, DAY), calendar(u32::MAX), fixed(60, 10 * DAY)];
    compare(QUOTA, &changing.map(|promise| vec![(0, promise)]), 4, 4_000);
}

#[test]
fn the_script_of_a_rate_computes_what_is_written_down() {
    let promises = [
        rate(10, SECOND, 20),
        rate(7, SECOND, 3),
        rate(7, SECOND, 2),
        rate(7, DAY, 12),
        rate(11, Duration::from_millis(86_399_999), 40),
        rate(1_000_000, SECOND, 4_000_000_000),
        rate(9_999_991, DAY, 3_999_996_400),
    ];
    let alone = promises.map(|promise| vec![(0, promise)]);
    for (seed, numbers) in alone.iter().enumerate() {
        compare(RATE, std::slice::from_ref(numbers), seed as u64, 600);
    }
    compare(RATE, &alone, 99, 6_000);
    // tiers that come, go, change their places and their numbers
    let [a, b, c, d, e, f, g] = promises;
    let tiered = [
        vec![(0, a), (7, d), (4_000_000_000, f)],
        vec![(0, a), (7, d)],
        vec![(0, a)],
        vec![(0, c), (9, b), (7, e)],
        vec![(0, f), (4_000_000_000, g), (9, c)],
    ];
    compare(RATE, &tiered[..1], 5, 4_000);
    compare(RATE, &tiered, 6, 8_000);
}

#[test]
fn the_script_of_a_quota_computes_what_is_written_down() {
    let promises = [(5, SECOND), (100, Duration::from_millis(1)), (7, DAY), (u32::MAX, Duration::from_millis(90_001))]
        .map(|(max, window)| Promise::Quota { max, window });
    let alone = promises.map(|promise| vec![(0, promise)]);
    compare(QUOTA, &alone[..1], 1, 2_000);
    compare(QUOTA, &alone, 2, 4_000);
}

#[test]
fn the_script_of_a_sliding_quota_computes_what_is_written_down() {
    let promises = [
        (5, SECOND),
        (100, Duration::from_millis(1)),
        (7, DAY),
        (u32::MAX, Duration::from_millis(90_001)),
        (u32::MAX, 31 * DAY),
    ]
    .map(|(max, window)| Promise::Sliding { max, window });
    let alone = promises.map(|promise| vec![(0, promise)]);
    for (seed, numbers) in alone.iter().enumerate() {
        compare(SLIDING, std::slice::from_ref(numbers), seed as u64, 1_000);
    }
    compare(SLIDING, &alone, 7, 4_000);
}

#[test]
fn what_the_scripts_are_told_they_do_as_it_is_written_down() {
    let rates = [rate(10, SECOND, 20), rate(7, SECOND, 3), rate(7, DAY, 12), rate(1_000_000, SECOND, 4_000_000_000)];
    let alone = rates.map(|promise| vec![(0, promise)]);
    for (seed, numbers) in alone.iter().enumerate() {
        compare_with(RATE, std::slice::from_ref(numbers), seed as u64, 1_500, true);
    }
    let [a, b, c, d] = rates;
    let tiered = [vec![(0, a), (7, d), (4_000_000_000, b)], vec![(0, a), (7, d)], vec![(0, c), (9, b), (7, a)]];
    compare_with(RATE, &tiered, 5, 6_000, true);
    let windows = [(5, SECOND), (100, Duration::from_millis(50)), (7, DAY), (u32::MAX, Duration::from_millis(90_001))];
    let quotas = windows.map(|(max, window)| vec![(0, Promise::Quota { max, window })]);
    let sliding = windows.map(|(max, window)| vec![(0, Promise::Sliding { max, window })]);
    for (script, numbers) in [(QUOTA, &quotas), (SLIDING, &sliding)] {
        for (seed, numbers) in numbers.iter().enumerate() {
            compare_with(script, std::slice::from_ref(numbers), seed as u64, 1_500, true);
        }
        compare_with(script, numbers, 7, 4_000, true);
    }
    let calendar = |max| Promise::Calendar { max, nominal: 7 * DAY, begins: [0; 4] };
    compare_with(QUOTA, &[vec![(0, calendar(50))], vec![(0, calendar(u32::MAX))]], 3, 3_000, true);
}

#[test]
fn the_script_of_places_computes_what_is_written_down() {
    let server = Server::start(&[]);
    let script = under_our_clock(PLACES);
    let mut connection =
        redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap().get_connection().unwrap();
    let mut dice = Dice(1);
    let mut now: u64 = 1_790_000_000_000_000;
    let mut kept: Option<(Places, u64)> = None;
    let (mut held, mut refused) = (Vec::new(), 0);
    for number in 0..6_000 {
        let span = 1 << dice.below(24);
        let step = dice.below(span);
        now = if dice.below(16) == 0 { now - step } else { now + step };
        if kept.is_some_and(|(_, ends)| now >= ends) {
            redis::cmd("DEL").arg("key").arg("key:px").exec(&mut connection).unwrap();
            kept = None;
        }
        let ends = (!held.is_empty() && dice.below(2) == 0)
            .then(|| held.swap_remove(usize::try_from(dice.below(held.len() as u64)).unwrap()));
        let how = [Lend::Nothing, Lend::IfFree, Lend::Anew][usize::try_from(dice.below(3)).unwrap()];
        let max = 1 + u32::try_from(dice.below(6)).unwrap();
        let (answer, written) = lend(kept.as_ref().map(|(places, _)| places), max, how, ends, now);
        let mut call = script.key("key");
        call.arg(LIFE_MICROS).arg(max).arg(how.number()).arg(ends.unwrap_or(0));
        let said: Vec<i64> = call.arg(now / 1_000_000).arg(now % 1_000_000).invoke(&mut connection).unwrap();
        let rest = answer.ends_nanos / 1_000;
        let retry = if answer.retry_nanos.is_some() { 0 } else { -1 };
        let ours = [answer.granted.into(), answer.left.into(), retry, rest.cast_signed(), now.cast_signed()];
        assert_eq!(said, ours, "{number}: {how:?} of {max}, {ends:?} at {now}, kept {kept:?}");
        if let Some((places, millis)) = written {
            let value: (String, u64) = redis::cmd("MGET").arg("key").arg("key:px").query(&mut connection).unwrap();
            assert_eq!(value, (places.to_string(), millis), "{number}");
            kept = Some((places, now + millis * 1_000));
        }
        if answer.granted > 0 {
            held.push(now + rest);
        }
        refused += u32::from(how == Lend::IfFree && answer.granted == 0);
    }
    assert!(refused > 200, "{refused}");
}

/// What the server keeps of a key, as [`Values`] are spelled.
fn kept_values(connection: &mut redis::Connection) -> String {
    let kept: Vec<(Vec<u8>, f64)> =
        redis::cmd("ZRANGE").arg("key").arg("0").arg("-1").arg("WITHSCORES").query(connection).unwrap();
    let name = |name: &[u8]| name.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    kept.iter().map(|(value, ends)| format!("{ends:.0} {} ", name(value))).collect()
}

#[test]
fn the_script_of_values_computes_what_is_written_down() {
    let server = Server::start(&[]);
    let time = "local time = redis.call('TIME')";
    let expire = "redis.call('PEXPIRE', KEYS[1], string.format('%.0f', px))";
    assert!(VALUES.contains(time) && VALUES.contains(expire), "the script has changed");
    let script = VALUES.replace(time, "local time = { ARGV[#ARGV - 1], ARGV[#ARGV] }");
    let script = redis::Script::new(&script.replace(expire, "redis.call('SET', KEYS[1] .. ':px', px)"));
    let mut connection =
        redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap().get_connection().unwrap();
    let mut dice = Dice(1);
    let mut now: u64 = 1_790_000_000_000_000;
    let mut kept = Values::default();
    let mut seen = [0; 3];
    for number in 0..8_000 {
        let step = 1 << dice.below(26);
        let step = dice.below(step);
        now = if dice.below(16) == 0 { now - step } else { now + step };
        if dice.below(200) == 0 {
            // other windows, which have another key
            redis::cmd("DEL").arg("key").exec(&mut connection).unwrap();
            kept = Values::default();
        }
        let (window, sliding) = if number / 1_000 % 2 == 0 { (60_000_000, false) } else { (90_001_000, true) };
        let terms = ValuesTerms { window_micros: window, max: 1 + u32::try_from(dice.below(6)).unwrap(), sliding };
        let value = StoreKey([u8::try_from(dice.below(9) * 31).unwrap(); 16]);
        let wanted = 1 + u32::try_from(dice.below(1 << 28)).unwrap();
        let before = kept.count();
        let (answer, written) = count(&mut kept, &terms, value, wanted, now);
        let mut call = script.key("key");
        call.arg(window).arg(terms.max).arg(u8::from(sliding)).arg(wanted).arg(&value.0[..]);
        redis::cmd("DEL").arg("key:px").exec(&mut connection).unwrap();
        let said: Vec<i64> = call.arg(now / 1_000_000).arg(now % 1_000_000).invoke(&mut connection).unwrap();
        let micros = |nanos: u64| i64::try_from(nanos / 1_000).unwrap();
        let retry = micros(answer.retry_nanos.unwrap());
        let ours = [answer.granted.into(), answer.left.into(), retry, micros(answer.ends_nanos), now.cast_signed()];
        assert_eq!(said, ours, "{number}: {terms:?} at {now}, {before} kept");
        assert_eq!(kept_values(&mut connection), kept.to_string(), "{number}");
        let px: Option<u64> = redis::cmd("GET").arg("key:px").query(&mut connection).unwrap();
        assert_eq!(px, written, "{number}");
        seen[if answer.granted == 0 { 0 } else { 1 + usize::from(written.is_some()) }] += 1;
    }
    assert!(seen.iter().all(|count| *count > 500), "refused, known and new: {seen:?}");
}
