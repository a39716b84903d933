//! A restart on saved state is a reload, and a crash is a restart on what was saved last: for every kind, against the model of one client
//! that reloads are held to.

use proptest::prelude::*;
use tidegate_limits::saved::{Fault, Reader, Writer};
use tidegate_limits::sketch::Seed;
use tidegate_policy::engine::{Admitted, Asked, Base, Engine, Fate, Reset, Restored, Succession, UnderWay, Verdict};
use tidegate_policy::policy::Policy;

use crate::book::{arrival, ask, head, request};
use crate::reload::{Model, ROUNDING, START, admits, at, near, of, policy, policy_beside, reload};

pub const SEED: Seed = Seed::from_bytes([5; 16]);

pub fn saved(gate: &Engine, now: u64) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut writer = Writer::new(&mut stream, &SEED.saved_key()).unwrap();
    gate.save(&mut writer, at(now)).unwrap();
    writer.finish().unwrap();
    stream
}

fn read(mut stream: &[u8], policy: &Policy, now: u64) -> Result<Restored, Fault> {
    let mut reader = Reader::new(&mut stream, &SEED.saved_key())?;
    Restored::read(&mut reader, (policy, &SEED, 0), at(now), &mut |_, _| Ok(false))
}

pub fn start(stream: &[u8], policy: Policy, now: u64) -> (Engine, Succession) {
    let restored = read(stream, &policy, now).unwrap();
    let base = Base::Saved { seed: &SEED, unix_nanos_at_origin: 0, restored: &restored };
    let (gate, succession) = Engine::next(policy, None, base).unwrap();
    gate.take_over();
    (gate, succession)
}

fn first(limit: &str) -> Engine {
    Engine::new(of(limit), &SEED, 0).unwrap()
}

/// What happens to a gate between requests.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// Other numbers.
    Reload,
    /// What a crash goes back to from now on.
    Snapshot,
    /// An end with a last snapshot, and a start with other numbers after so many milliseconds.
    Restart(u64),
    /// A start on the latest snapshot after so many milliseconds.
    Crash(u64),
    /// Another process with other numbers: so many requests come to the old one while the state is on its way, and so many to each of both
    /// after that, in turns.
    Upgrade(usize, usize),
}

/// A request to the process that has handed its state over.
fn ask_old(old: &Engine, new: &Engine, under_way: &mut UnderWay, headers: &http::HeaderMap, now: u64) -> bool {
    let mut evaluation = old.judge(&request(headers), arrival(now));
    let (mut holds, _) = old.admit(&mut evaluation, at(now));
    if evaluation.decision.verdict == Verdict::Admitted {
        holds.clear();
        let asked = old.to_ask(&evaluation);
        let here = |asked: &Asked| {
            let (rule, place) = under_way.here(asked.rule, &asked.place).unwrap();
            Asked { rule, place: place.unwrap(), ..*asked }
        };
        let there: Vec<Asked> = asked.iter().map(here).collect();
        let answers = new.admit_for(&there, at(now)).into_iter();
        let answers = answers.map(|Admitted { judgement, charged, .. }| Admitted { judgement, charged, hold: None });
        old.admitted_elsewhere(&mut evaluation, &asked, answers, &mut holds, at(now));
    }
    old.take_journals(|limit, event| under_way.apply(limit, event)).unwrap();
    evaluation.decision.verdict == Verdict::Admitted
}

fn events() -> impl Strategy<Value = Event> {
    let down = || prop_oneof![Just(0), 0..5_000_u64, 0..100_000_u64];
    prop_oneof![
        2 => Just(Event::Reload),
        2 => Just(Event::Snapshot),
        2 => down().prop_map(Event::Restart),
        2 => down().prop_map(Event::Crash),
        2 => (0..20_usize, 0..20_usize).prop_map(|(late, more)| Event::Upgrade(late, more)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// After a crash the gate knows what it knew at the snapshot, no more and no less: so a client gains what it was admitted since, and
    /// another loses nothing. Time while down counts.
    #[test]
    fn whatever_happens_to_the_gate_budgets_are_those_of_the_last_snapshot(
        numbers in near(),
        steps in prop::collection::vec((events(), 0..4_000_u64, 1..30_usize), 2..10),
    ) {
        let mut model = None;
        numbers[0].into_model(&mut model);
        let (mut gate, mut now, mut value) = (first(&numbers[0].yaml()), START, 0);
        let mut current = numbers[0];
        let mut snapshot = (saved(&gate, now), model, now, current);
        for (next, (event, pause, requests)) in numbers.iter().cycle().skip(1).zip(&steps) {
            pass(&mut model, now, now + pause * 1_000_000);
            now += pause * 1_000_000;
            for _ in 0..*requests {
                value += 1;
                let mut headers = head("192.0.2.1");
                headers.insert("x-name", value.to_string().parse().unwrap());
                let admitted = ask(&gate, &headers, now).0.verdict == Verdict::Admitted;
                let room = model.unwrap().room();
                prop_assert!(!admitted || room >= 1.0 - ROUNDING, "budget was given: {event:?} {room}");
                prop_assert!(admitted || room < 1.0 + ROUNDING, "budget was taken: {event:?} {room}");
                if admitted {
                    model.as_mut().unwrap().charge();
                }
            }
            match event {
                Event::Reload => {
                    current = *next;
                    gate = reload(&gate, of(&next.yaml()), now).0;
                    next.into_model(&mut model);
                }
                Event::Snapshot => snapshot = (saved(&gate, now), model, now, current),
                Event::Restart(down) => {
                    let stream = saved(&gate, now);
                    pass(&mut model, now, now + down * 1_000_000);
                    now += down * 1_000_000;
                    let (after, told) = start(&stream, of(&next.yaml()), now);
                    prop_assert!(matches!(told.limits[0].fate, Fate::Kept { .. } | Fate::Rerated { .. }), "{told:?}");
                    gate = after;
                    next.into_model(&mut model);
                    current = *next;
                    // as the program does before it serves
                    snapshot = (saved(&gate, now), model, now, current);
                }
                Event::Upgrade(late, more) => {
                    let mut headers = || {
                        value += 1;
                        let mut headers = head("192.0.2.1");
                        headers.insert("x-name", value.to_string().parse().unwrap());
                        headers
                    };
                    let mut stream = Vec::new();
                    let mut writer = Writer::new(&mut stream, &SEED.saved_key()).unwrap();
                    gate.hand_over(&mut writer, at(now)).unwrap();
                    writer.finish().unwrap();
                    for _ in 0..*late {
                        if ask(&gate, &headers(), now).0.verdict == Verdict::Admitted {
                            model.as_mut().unwrap().charge();
                        }
                    }
                    // what is told of the moment counts up to the debt that the new numbers know, so they are the same where there is some
                    let next = if *late == 0 { *next } else { current };
                    let policy = of(&next.yaml());
                    let mut restored = read(&stream, &policy, now).unwrap();
                    let base = Base::Saved { seed: &SEED, unix_nanos_at_origin: 0, restored: &restored };
                    let (new, _) = Engine::next(policy, None, base).unwrap();
                    new.take_over();
                    let mut under_way = restored.take_under_way();
                    gate.take_journals(|limit, event| under_way.apply(limit, event)).unwrap();
                    gate.move_admissions();
                    next.into_model(&mut model);
                    for number in 0..2 * *more {
                        let room = model.unwrap().room();
                        let admitted = match number % 2 {
                            0 => ask_old(&gate, &new, &mut under_way, &headers(), now),
                            _ => {
                                let admitted = ask(&new, &headers(), now).0.verdict == Verdict::Admitted;
                                prop_assert!(admitted || room < 1.0 + ROUNDING, "budget was taken: {event:?} {room}");
                                admitted
                            }
                        };
                        prop_assert!(!admitted || room >= 1.0 - ROUNDING, "budget was given: {event:?} {number} {room}");
                        if admitted {
                            model.as_mut().unwrap().charge();
                        }
                    }
                    gate.end_journals();
                    gate = new;
                    current = next;
                    snapshot = (saved(&gate, now), model, now, current);
                }
                Event::Crash(down) => {
                    let (stream, then, since, numbers) = &snapshot;
                    model = *then;
                    now += down * 1_000_000;
                    pass(&mut model, *since, now);
                    gate = start(stream, of(&numbers.yaml()), now).0;
                    current = *numbers;
                }
            }
        }
    }
}

fn pass(model: &mut Option<Model>, from: u64, to: u64) {
    model.as_mut().unwrap().pass(from, to);
}

#[test]
fn what_is_told_of_each_limit_is_what_a_reload_would_tell() {
    let told = |before: Policy, after: Policy| {
        let gate = Engine::new(before, &SEED, 0).unwrap();
        let (_, reloaded) = reload(&gate, after.clone(), START);
        let (_, started) = start(&saved(&gate, START), after, START);
        assert_eq!(started, reloaded);
        started.limits[0].fate.clone()
    };
    let rate = "rate: 5/s, burst: 5";
    let kept = Fate::Kept { from: None };
    for (after, fate) in [
        (rate, kept.clone()),
        ("rate: 5/s, burst: 5, mode: shadow", kept.clone()),
        ("rate: 5/s, burst: 5, tiers: [{ when: { cidr: 10.0.0.0/8 }, rate: 9/s }]", kept),
        ("rate: 6/s, burst: 5", Fate::Rerated { from: None }),
        ("rate: 5/s, burst: 5, key: [client_ip, path]", Fate::Reset(Reset::Key)),
        ("type: quota, max: 5, window: 60s", Fate::Reset(Reset::Type)),
    ] {
        assert_eq!(told(of(rate), of(after)), fate, "{after}");
    }
    let tiers =
        |rate: &str| of(&format!("rate: 5/s, burst: 5, tiers: [{{ when: {{ cidr: 10.0.0.0/8 }}, rate: {rate} }}]"));
    assert_eq!(told(tiers("9/s"), tiers("9/s")), Fate::Kept { from: None });
    assert_eq!(told(tiers("9/s"), tiers("8/s")), Fate::Rerated { from: None });
    let renamed = policy("  two: { memory: 1MiB, rate: 5/s, burst: 5, renamed_from: one }", "two");
    assert_eq!(told(of(rate), renamed), Fate::Kept { from: Some("one".into()) });
    let other = policy("  two: { memory: 1MiB, rate: 5/s, burst: 5 }", "two");
    assert_eq!(told(of(rate), other), Fate::New);
    let smaller = policy("  one: { memory: 2MiB, rate: 5/s, burst: 5 }", "one");
    assert_eq!(told(of(rate), smaller), Fate::Reset(Reset::Memory));
}

/// A limit's hash of keys follows from the name that it began with, and from when that was.
#[test]
fn limits_that_were_renamed_or_begun_later_keep_their_counts() {
    let spent = |gate: &Engine| !admits(gate, "192.0.2.1", START);
    let gate = first("rate: 1/h, burst: 1");
    assert!(admits(&gate, "192.0.2.1", START));
    let two = || policy("  two: { memory: 1MiB, rate: 1/h, burst: 1, renamed_from: one }", "two");
    let (gate, _) = reload(&gate, two(), START);
    let (gate, told) = start(&saved(&gate, START), two(), START);
    assert!(spent(&gate), "{told:?}");
    // begun by a reload, after a restart that counts on the generations
    let (gate, _) = reload(&gate, of("type: quota, max: 1, window: 24h"), START);
    assert!(admits(&gate, "192.0.2.1", START));
    let stream = saved(&gate, START);
    let (gate, _) = start(&stream, of("type: quota, max: 1, window: 24h"), START);
    assert!(spent(&gate));
    let (again, _) = start(&saved(&gate, START), of("type: quota, max: 1, window: 24h"), START);
    assert!(spent(&again));
}

#[test]
fn limits_that_are_gone_new_or_in_another_order_do_not_disturb_the_others() {
    let limit = |name: &str| format!("  {name}: {{ memory: 1MiB, rate: 1/h, burst: 1 }}\n");
    let both = |one: &str, other: &str| policy(&(limit(one) + &limit(other)), &format!("{one}, {other}"));
    let gate = Engine::new(both("a", "b"), &SEED, 0).unwrap();
    assert!(admits(&gate, "192.0.2.1", START));
    let (gate, told) = start(&saved(&gate, START), both("c", "a"), START);
    let fates: Vec<&Fate> = told.limits.iter().map(|carried| &carried.fate).collect();
    assert_eq!((fates, told.removed), (vec![&Fate::New, &Fate::Kept { from: None }], vec!["b".to_owned()]));
    assert!(!admits(&gate, "192.0.2.1", START));
    assert!(admits(&gate, "192.0.2.2", START));
}

/// The words that saved state is compared by: if this fails, every limit begins empty after the upgrade to the binary that changed them.
#[test]
fn the_description_of_a_limit_says_what_it_did_in_the_version_before() {
    let gate = Engine::new(
        policy_beside(
            "client_ip: { ipv6_prefix: 56 }",
            "  one: { memory: 1MiB, rate: 5/s, burst: 5, key: [client_ip, header:x-key], missing: deny, tiers: [{ when: { cidr: 10.0.0.0/8 }, rate: 9/s }] }",
            "one",
        ),
        &SEED,
        0,
    )
    .unwrap();
    let stream = saved(&gate, START);
    let mut from = &*stream;
    let mut reader = Reader::new(&mut from, &SEED.saved_key()).unwrap();
    assert_eq!(reader.begin().unwrap().as_deref(), Some("limits"));
    let text = reader.text(1 << 20).unwrap();
    assert_eq!(text, DESCRIBED);
}

const DESCRIBED: &str = r#"{"generation":1,"limits":[{"name":"one","identity":{"type":"rate","key":"(None, [[ClientIp { ipv4_prefix: Some(32), ipv6_prefix: Some(56) }, Header(\"x-key\")]], false)","of":"(None, false)","window":"(None, false)","memory":1048576,"store":"None"},"numbers":["Some(Rate(Rate { rate: Rate { events: 5, period_nanos: 1000000000 }, burst: 5, memory: Bytes(1048576) }))","Some(Rate(Rate { rate: Rate { events: 9, period_nanos: 1000000000 }, burst: 9, memory: Bytes(1048576) }))"],"tiers":["Condition { networks: [Prefix { address: 10.0.0.0, length: 8 }], headers: [] }"],"drawn":{"name":"one","generation":null}}],"routes":["all"],"origins":[]}"#;

#[test]
fn a_stream_without_its_limits_is_refused() {
    let gate = first("rate: 1/h, burst: 1");
    let stream = saved(&gate, START);
    let policy = of("rate: 1/h, burst: 1");
    assert!(read(&stream, &policy, START).is_ok());
    for cut in [0, 10, 51, 60, stream.len() / 2, stream.len() - 1] {
        assert!(matches!(read(&stream[..cut], &policy, START), Err(Fault::Cut)), "{cut}");
    }
    let mut empty = Vec::new();
    Writer::new(&mut empty, &SEED.saved_key()).unwrap().finish().unwrap();
    assert!(matches!(read(&empty, &policy, START), Err(Fault::Unfit(_))));
}

/// Sections that this version does not know are left out.
#[test]
fn sections_of_others_are_read_by_them_or_left_out() {
    let gate = first("rate: 1/h, burst: 1");
    let mut stream = Vec::new();
    let mut writer = Writer::new(&mut stream, &SEED.saved_key()).unwrap();
    for name in ["theirs", "unknown"] {
        writer.begin(name).unwrap();
        writer.text("text").unwrap();
        writer.end().unwrap();
    }
    gate.save(&mut writer, at(START)).unwrap();
    writer.finish().unwrap();
    let mut from = &*stream;
    let mut reader = Reader::new(&mut from, &SEED.saved_key()).unwrap();
    let mut found = Vec::new();
    let mut other = |name: &str, from: &mut Reader<'_>| {
        let mine = name == "theirs";
        if mine {
            found.push(from.text(10)?);
        }
        Ok(mine)
    };
    let policy = of("rate: 1/h, burst: 1");
    Restored::read(&mut reader, (&policy, &SEED, 0), at(START), &mut other).unwrap();
    assert_eq!(found, ["text"]);
}
