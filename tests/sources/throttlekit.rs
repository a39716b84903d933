//! throttlekit, overload and security: T1 to T14. Its sketch is asked of our tables, its helpers of our client, answer and
//! configuration floors.
//!
//! Its tables are ⌈e/ε⌉ × ⌈ln 1/δ⌉ counters; ours have four rows of a power of two of columns. By Markov's inequality a row
//! is over by ε·N with probability at most 1/(ε·w), so four of w columns do what (ε, δ) asks when (1/(ε·w))⁴ ≤ δ.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use bytes::BytesMut;
use hmac::Mac;
use http::{HeaderMap, Method, StatusCode};
use sfv::{ListEntry, Parser};
use tidegate::answer::headers::{RouteFields, retry_after_seconds};
use tidegate::answer::structured::{List, Unwritable};
use tidegate::answer::{Context, Form, refuse};
use tidegate::client::store_names::StoreNames;
use tidegate::client::subkey::keyed;
use tidegate::client::trust::parse_cidr;
use tidegate::client::{ClientRules, ForwardHeader, resolve};
use tidegate::engine::{Arrival, Base, DecisionId, Engine, Outcome, Refusal, SharedOutcome, Verdict};
use tidegate::limiter::sharing::deltas::Deltas;
use tidegate::limiter::sharing::deltas::message::{LimitId, Message, NodeId, Section};
use tidegate::limiter::sharing::{OnStoreError, StoreError, StoreKey};
use tidegate::observe::pseudonym::Pseudonyms;
use tidegate::policy::{FieldStyle, Policy, Responses, StoreId};
use tidegate::request::{Peer, Request};
use tidegate::sketch::hash::KeyInput;
use tidegate::sketch::{Accuracy, Admission, Heaviest, Meter, MonotoneTable, Seed, SummingTable, Window};
use tidegate::units::{Bytes, Cost, Share};

use crate::gate::{load, refused, with_limits};
use crate::sample::{SECOND, decision, lines, policy, rate};
use crate::shorthand::{at, cost, key};
use crate::support::{check, client_of};
use crate::vectors::{FORWARDED, X_FORWARDED_FOR};
use tidegate::units::Dice;

const SEED: Seed = Seed::from_bytes([1; 16]);

fn window(limit: u32, seconds: u64) -> Window {
    Window::new(limit, Duration::from_secs(seconds), Duration::ZERO).unwrap()
}

/// The columns that four rows need for (ε, δ).
/// What the product takes in a table of four rows.
fn columns(epsilon: f64, delta: f64) -> usize {
    let accuracy = Accuracy { error: Share::new(epsilon).unwrap(), confidence: Share::new(1.0 - delta).unwrap() };
    accuracy.columns(4).unwrap() as usize
}

fn table(epsilon: f64, delta: f64) -> MonotoneTable {
    MonotoneTable::with_shape(columns(epsilon, delta)).unwrap()
}

/// What a table of windows has counted for a key, in the first window.
fn counted(table: &MonotoneTable, window: &Window, number: u64) -> u32 {
    window.limit() - window.outlook(table.estimate(key(number)), at(0)).0
}

fn admits(table: &MonotoneTable, window: &Window, number: u64, millis: u64, units: u32) -> bool {
    matches!(table.admit(window, key(number), at(millis * 1_000_000), cost(units)), Admission::Admitted { .. })
}

pub fn t1_a_table_is_sized_by_its_error() {
    let theirs = |epsilon: f64, delta: f64| (std::f64::consts::E / epsilon).ceil() * (1.0 / delta).ln().ceil();
    assert_eq!(theirs(0.01, 0.001), 272.0 * 7.0);
    assert_eq!((columns(0.01, 0.001), columns(0.05, 0.01)), (1_024, 64));
    let ours = MonotoneTable::with_memory(MonotoneTable::DEFAULT_MEMORY).unwrap();
    assert_eq!((ours.columns(), ours.memory()), (131_072, MonotoneTable::DEFAULT_MEMORY));
    assert!((1.0 / (0.01 * ours.columns() as f64)).powi(4) < 1e-12, "the default, where 0.001 is asked for");
    for bytes in [0, 1, 2 << 10, 5_000, 3 << 20, 1 << 30, u64::MAX] {
        assert!(MonotoneTable::with_memory(Bytes(bytes)).is_err(), "{bytes}");
        assert!(SummingTable::with_memory(Bytes(bytes), &SEED).is_err(), "{bytes}");
    }
    for columns in [0, 3, 272, (1 << 24) + 1, 1 << 25, usize::MAX] {
        assert!(MonotoneTable::<AtomicU64, 4>::with_shape(columns).is_err(), "{columns}");
    }
}

pub fn t2_a_count_is_never_below_the_truth() {
    let window = window(u32::MAX - 1, 60);
    // as asked for, and so crowded that most counts are too high
    for columns in [columns(0.01, 0.001), 256] {
        let monotone = || MonotoneTable::with_shape(columns).unwrap();
        let (tables, summing) =
            ([monotone(), monotone()], SummingTable::<AtomicU32>::with_shape(columns, &SEED).unwrap());
        let (mut dice, mut truth) = (Dice(7), vec![0_u32; 4_000]);
        for _ in 0..20_000 {
            let number = dice.below(4_000);
            truth[number as usize] += 1;
            summing.add(key(number), 1).unwrap();
            assert!(tables.iter().all(|table| admits(table, &window, number, 0, 1)));
        }
        let mut over = 0;
        for (number, truth) in (0..).zip(truth) {
            let found = counted(&tables[0], &window, number);
            assert!(found >= truth && summing.estimate(key(number)) >= truth, "key {number}");
            assert_eq!(found, counted(&tables[1], &window, number), "the same seed, the same counts");
            over += u32::from(found > truth);
        }
        assert!(columns > 256 || over > 2_000, "only {over} of 4,000 counts are too high in the crowded table");
    }
}

pub fn t3_raising_to_the_least_is_never_above_plain_adding() {
    let (table, window) = (table(0.05, 0.01), window(u32::MAX - 1, 60));
    // plain adding, in the very same columns
    let mut plain = vec![[0_u32; 4]; table.columns()];
    let mut dice = Dice(99);
    for _ in 0..30_000 {
        let number = dice.below(500);
        assert!(admits(&table, &window, number, 0, 1));
        for (row, column) in table.columns_of(key(number)).into_iter().enumerate() {
            plain[column][row] += 1;
        }
    }
    let (mut ours, mut theirs) = (0_u64, 0_u64);
    for number in 0..500 {
        let columns = table.columns_of(key(number));
        let added = (0..4).map(|row| plain[columns[row]][row]).min().unwrap();
        let raised = counted(&table, &window, number);
        assert!(raised <= added, "key {number}: {raised} above {added}");
        (ours, theirs) = (ours + u64::from(raised), theirs + u64::from(added));
    }
    println!("30,000 adds of 500 keys read as {ours} when raised, {theirs} when added");
    assert!(ours < theirs * 9 / 10, "{ours} of {theirs}");
}

pub fn t4_no_key_of_a_crowded_table_passes_its_limit() {
    let (table, window) = (table(0.05, 0.01), window(50, 60));
    let (mut dice, mut admitted) = (Dice(4), vec![0_u32; 2_000]);
    for _ in 0..300_000 {
        let number = dice.below(2_000);
        admitted[number as usize] += u32::from(admits(&table, &window, number, 0, 1));
    }
    assert!(admitted.iter().all(|count| *count <= 50));
    assert!(admitted.iter().any(|count| *count > 0));
}

pub fn t5_memory_does_not_depend_on_the_number_of_keys() {
    let window = window(10, 1);
    let after = |keys: u64| {
        let table = table(0.01, 0.001);
        let used =
            allocation_counter::measure(|| (0..keys).for_each(|number| _ = admits(&table, &window, number, 0, 1)));
        (table.memory(), used.count_total)
    };
    assert_eq!((after(10), after(100_000)), ((Bytes(1_024 * 4 * 8), 0), (Bytes(1_024 * 4 * 8), 0)));
}

pub fn t6_a_heavy_key_is_over_by_epsilon_and_light_ones_pass() {
    let hits = |table: &MonotoneTable, limit: u32| {
        let window = window(limit, 1_000_000);
        let (mut dice, mut heavy, mut light, mut denied) = (Dice(2_024), 0_u32, 0_u32, 0_u32);
        for n in 0..200_000 {
            if n % 5 == 0 {
                heavy += u32::from(admits(table, &window, 0, 0, 1));
            } else {
                light += 1;
                denied += u32::from(!admits(table, &window, 1 + dice.below(50_000), 0, 1));
            }
        }
        (heavy, counted(table, &window, 0), f64::from(denied) / f64::from(light))
    };
    let (heavy, found, denied) = hits(&table(0.01, 0.001), 100_000);
    assert_eq!(heavy, 40_000);
    assert!((heavy..=heavy + 2_000).contains(&found), "ε·N is 2,000: {found}");
    assert!(denied < 0.01, "{denied}");
    // adapted: a limit that the heavy key meets, in the table that is used unless something else is asked for
    let default = MonotoneTable::with_memory(MonotoneTable::DEFAULT_MEMORY).unwrap();
    assert_eq!(hits(&default, 50), (50, 50, 0.0));
}

pub fn t7_the_window_rolls_at_its_end_and_says_so() {
    let (table, window) = (MonotoneTable::<AtomicU64, 4>::with_shape(16).unwrap(), window(2, 1));
    let ask = |millis: u64| table.admit(&window, key(0), at(millis * 1_000_000), cost(1));
    assert!(matches!((ask(0), ask(0)), (Admission::Admitted { .. }, Admission::Admitted { .. })));
    let Admission::Refused { level } = ask(0) else { panic!("the third was admitted") };
    assert_eq!(window.retry_nanos(level, at(0), cost(1)), Some(1_000_000_000));
    assert!(matches!(ask(999), Admission::Refused { .. }));
    let Admission::Admitted { level } = ask(1_000) else { panic!("refused in the next window") };
    assert_eq!(window.outlook(level, at(1_000_000_000)).0, 1);
    let Admission::Admitted { level } = ask(2_500) else { panic!("the first of its window was refused") };
    assert_eq!(window.outlook(level, at(2_500_000_000)).1.nanos(), Some(500_000_000), "resets at 3,000 ms");
}

pub fn t8_a_refusal_consumes_nothing_and_costs_are_whole() {
    let (table, three) = (MonotoneTable::<AtomicU64, 4>::with_shape(16).unwrap(), window(3, 1));
    assert_eq!(table.admit(&three, key(0), at(0), cost(4)), Admission::Refused { level: 0 });
    assert_eq!((three.outlook(table.estimate(key(0)), at(0)).0, three.retry_nanos(0, at(0), cost(4))), (3, None));
    assert!(matches!(table.admit(&three, key(0), at(0), cost(3)), Admission::Admitted { .. }));
    let spent = table.estimate(key(0));
    for _ in 0..10 {
        assert_eq!(table.admit(&three, key(0), at(1), cost(1)), Admission::Refused { level: spent });
    }
    assert_eq!(table.estimate(key(0)), spent);
    // three and two of five fill it
    let five = window(5, 1);
    assert_eq!([3, 2, 1].map(|units| admits(&table, &five, 9, 0, units)), [true, true, false]);
    assert!(Cost::new(0).is_err());
    let costing = |written: &str| with_limits(&format!("a: {{ rate: 5/s, burst: 5, cost: {written} }}"));
    load(&costing("3")).unwrap();
    for written in ["1.5", "0", "-1", ".inf", ".nan", "1e400"] {
        let told = refused(&costing(written));
        assert!(told.contains(written), "{written}: {told}");
    }
}

pub fn t9_what_adds_up_adds_up_counter_for_counter() {
    // a summing table is linear: what two of one seed have counted apart is what one counts of both
    let table = || SummingTable::<AtomicU32>::with_shape(64, &SEED).unwrap();
    let (a, b, both) = (table(), table(), table());
    let mut dice = Dice(9);
    for n in 0..20_000 {
        let number = dice.below(1_000);
        (if n % 3 == 0 { &a } else { &b }).add(key(number), 1).unwrap();
        both.add(key(number), 1).unwrap();
    }
    let mut met = false;
    for number in 0..1_000 {
        let (a, b, both) = (a.counts(key(number)), b.counts(key(number)), both.counts(key(number)));
        assert!(a.iter().zip(b).zip(both).all(|((a, b), both)| a + b == both), "key {number}");
        met |= a != both;
    }
    assert!(met, "one part was empty");
    // adapted: the tables of the most refused keys are what is merged in this version; exact while all keys have a place
    let mut parts = [Heaviest::with_capacity(64), Heaviest::with_capacity(64)];
    for n in 0..3_000_u32 {
        let number = dice.below(40);
        parts[n as usize % 2].offer(at(1), 0, key(number), number, 1 + n % 4);
    }
    let merged = Heaviest::merge(at(1), &[&parts[0], &parts[1]]);
    assert_eq!(merged.total(), parts[0].total() + parts[1].total());
    let count = |part: &Heaviest<u64>, number| {
        part.entries().iter().filter(|entry| entry.payload == number).map(|entry| entry.count).sum::<u64>()
    };
    for number in 0..40 {
        assert_eq!(count(&merged, number), count(&parts[0], number) + count(&parts[1], number), "key {number}");
    }
    // adapted: gates that share a limit by estimates tell each other sums by key, not tables. They go through bytes and add up key for key
    let (name, gates) = (|number: u64| StoreKey([number as u8; 16]), [Deltas::new(), Deltas::new()]);
    let (mut admitted, mut told) = ([0_u64; 40], [0_u64; 40]);
    for n in 0..3_000_u32 {
        let number = dice.below(40);
        gates[n as usize % 2].count(name(number), 0, cost(1 + n % 4));
        admitted[number as usize] += u64::from(1 + n % 4);
    }
    for (gate, deltas) in gates.iter().enumerate() {
        let mut sums = Vec::new();
        deltas.take(|delta| sums.push(delta));
        let limit = LimitId { name: 1, shape: 2 };
        let sections = vec![Section { limit, deltas: sums }];
        let message = Message { secret: 3, node: NodeId([gate as u8; 16]), sequence: 1, age_millis: 0, sections };
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message), "bytes round-trip");
        for length in 0..bytes.len() {
            assert!(Message::decode(&bytes[..length]).is_err(), "short bytes are refused: {length}");
        }
        for delta in &message.sections[0].deltas {
            told[usize::from(delta.name.0[0])] += delta.units;
        }
    }
    assert_eq!(told, admitted);
    // other dimensions: what is not counted alike is refused when it is loaded, not ignored
    let values = "type: distinct, of: path, max: 5, window: 1m, sharing: estimate";
    let told = refused(&with_store(values).replace("rate: 5/m, ", ""));
    assert!(told.contains("distinct"), "{told}");
}

pub fn t10_every_vector_resolves_to_its_key() {
    check(X_FORWARDED_FOR, ForwardHeader::XForwardedFor);
    check(FORWARDED, ForwardHeader::Forwarded);
    // a rotating attacker of one /64 has one key, and an entry that cannot be read is refused when it is loaded
    for host in ["1", "dead:beef", "ffff:ffff:ffff:ffff"] {
        let address = format!("2001:db8:1:1:{}{host}", if host.len() > 9 { "" } else { ":" });
        assert_eq!(client_of("hops 1", "10.0.0.1", &[&address]), "2001:db8:1:1::/64");
    }
    for entry in ["10.0.0.0/33", "10.0.0.1/internet", "::1/129", "blargh", "10.0.300.1", "fe80::1%eth0/64"] {
        assert!(parse_cidr(entry).is_err(), "{entry}");
    }
}

/// The function is asked where the gate takes it from, and what is made with it is held against values that another
/// implementation (Python's `hmac` and `hashlib`) made from the written definitions.
pub fn t11_pseudonyms_are_keyed_by_the_published_function() {
    let hmac = |key: &[u8], text: &[u8]| {
        let mut mac = keyed(key);
        mac.update(text);
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    const FOX: &[u8] = b"The quick brown fox jumps over the lazy dog";
    assert_eq!(hmac(b"key", FOX), "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8");
    let pseudonym = |secret: &[u8], address: &str| {
        let peer = Peer::Ip(address.parse().unwrap());
        let client = resolve(&ClientRules::default(), peer, &HeaderMap::new()).unwrap();
        Pseudonyms::new(Some(secret), [0; 32]).of(&client).to_string()
    };
    let here = pseudonym(b"secret", "192.0.2.1");
    assert_eq!(here, "E_XdXI15WYysUllzw70g3g");
    assert_eq!(here, pseudonym(b"secret", "192.0.2.1"));
    assert_eq!(pseudonym(b"secret", "192.0.2.2"), "C2rGw-QUtT-NGi1tQWdjvw");
    assert_eq!(pseudonym(b"another secret", "192.0.2.1"), "FoVbOECNS04RYNMjdgUqiw");
    // and what a shared store holds of a key
    let mut name = StoreNames::new(b"secret", "per_client").begin();
    name.part(1, b"alice");
    assert_eq!(name.finish().0, STORE_NAME);
}

/// Of the key `alice` of the limit `per_client` under the secret `secret`.
const STORE_NAME: [u8; 16] =
    [0x0a, 0x05, 0x6b, 0x21, 0x9c, 0x7d, 0xf5, 0x34, 0xb2, 0x33, 0xd7, 0x24, 0xc7, 0x75, 0x9f, 0x40];

pub fn t12_fields_tell_a_delay_or_an_epoch_and_never_come_back_now() {
    let told = |fields: FieldStyle, now: u64| {
        let policy = policy(vec![rate("api", 100, 60_000, 100)], Responses { fields, ..Responses::default() });
        let reset = (30 * SECOND).saturating_sub(now);
        let admitted = decision(&policy, Verdict::Admitted, &[(Outcome::Admitted, 50, Some(reset))]);
        let fields = RouteFields::new(&policy, policy.routes.route(0).unwrap());
        lines(&fields.on_answer(&admitted, &policy, StatusCode::OK, &HeaderMap::new(), (now, &mut BytesMut::new())))
    };
    for (now, reset) in [(0, 30), (10 * SECOND, 20), (25 * SECOND, 5), (57 * SECOND / 2, 2), (40 * SECOND, 0)] {
        let expected = ["ratelimit-limit: 100", "ratelimit-remaining: 50", &format!("ratelimit-reset: {reset}")];
        assert_eq!(told(FieldStyle::Triple, now), expected);
    }
    let legacy = ["x-ratelimit-limit: 100", "x-ratelimit-remaining: 50", "x-ratelimit-reset: 30"];
    for now in [0, 10 * SECOND, 25 * SECOND] {
        assert_eq!(told(FieldStyle::Legacy, now), legacy, "an epoch is the same whenever it is told");
    }
    assert_eq!(told(FieldStyle::Draft, 0), ["ratelimit-policy: \"api\";q=100;w=60", "ratelimit: \"api\";r=50;t=30"]);
    assert!(told(FieldStyle::Off, 0).is_empty());

    let off =
        policy(vec![rate("api", 100, 60_000, 100)], Responses { fields: FieldStyle::Off, ..Responses::default() });
    for (millis, seconds) in [(2_400, 3), (1, 1), (0, 1)] {
        let refused = refusal(&off, millis * 1_000_000);
        assert_eq!(retry_after_seconds(Refusal::Limit, &refused, &off), Some(seconds), "{millis} ms");
        let fields = RouteFields::new(&off, off.routes.route(0).unwrap());
        let context = Context {
            policy: &off,
            decision: Some(&refused),
            fields: Some(&fields),
            form: Form::UNKNOWN,
            origin: None,
            wall_unix_nanos: 0,
        };
        let answer = lines(&refuse(Refusal::Limit, &context).headers);
        assert!(answer.contains(&format!("retry-after: {seconds}")), "{answer:?}");
        assert!(!answer.iter().any(|line| line.contains("ratelimit")), "{answer:?}");
    }
}

fn refusal(policy: &Policy, wait_nanos: u64) -> tidegate::engine::Decision {
    decision(policy, Verdict::Refused(Refusal::Limit), &[(Outcome::Refused, 0, Some(wait_nanos))])
}

pub fn t13_a_policy_name_cannot_break_out_of_its_field() {
    for name in ["a\\r\\nx-evil: 1", "a\\u007f", "a\\\"b", "a\\\\b", "caf\\u00e9", "a\\u0085", ""] {
        let told = refused(&with_limits(&format!("\"{name}\": {{ rate: 5/s }}")));
        assert!(told.contains("E0201") && told.contains("a-z, 0-9 and _"), "{name}: {told}");
    }
    // the writer relies on no such check
    let written = |name: &str| {
        let mut list = List::new();
        list.string("", name).map(|()| list.finish(&mut BytesMut::new()).unwrap().to_str().unwrap().to_owned())
    };
    for name in ["a\r\nx-evil: 1", "a\u{7f}", "\u{0}", "caf\u{e9}", "a\u{85}"] {
        assert_eq!(written(name), Err(Unwritable::Character), "{name:?}");
    }
    for (name, field) in [(r#"a"b"#, r#""a\"b""#), (r"a\b", r#""a\\b""#), (r#"";q=9,"x"#, r#""\";q=9,\"x""#)] {
        assert_eq!(written(name).unwrap(), field);
        let read = Parser::parse_list(field.as_bytes()).unwrap();
        assert!(matches!(&read[..], [ListEntry::Item(item)] if item.bare_item.as_str() == Some(name)), "{field}");
    }
}

pub fn t14_a_silent_store_is_met_as_the_limit_says() {
    let headers = HeaderMap::new();
    let request = Request {
        peer: Peer::Ip(Ipv4Addr::new(203, 0, 113, 7).into()),
        method: &Method::GET,
        host: "shop.example",
        path: "/",
        query: None,
        headers: &headers,
        tls_sni: None,
    };
    for (word, direction, verdict) in [
        ("open", OnStoreError::Open, Verdict::Admitted),
        ("closed", OnStoreError::Closed, Verdict::Refused(Refusal::StoreSilent)),
        // ours beside the two of the source: what this gate's part allows
        ("local", OnStoreError::Local, Verdict::Admitted),
    ] {
        let policy = load(&with_store(&format!("on_store_error: {word}"))).unwrap();
        let base = Base::Nothing { seed: &SEED, unix_nanos_at_origin: 0 };
        let (gate, _) = Engine::next(policy, Some((b"the gates' secret", None)), base).unwrap();
        let mut evaluation = gate.judge(&request, Arrival { id: DecisionId(1), at: at(1), dice: 0 });
        for slot in gate.to_settle(&evaluation) {
            let outcome = SharedOutcome::Unanswered { store_error: StoreError::Unreachable, nodes: 1 };
            gate.settle(&mut evaluation, slot, outcome);
        }
        let _ = gate.admit(&mut evaluation, at(1));
        assert_eq!(evaluation.decision.verdict, verdict, "{word}");
        // and the error is reported either way
        assert_eq!(gate.fallbacks(&evaluation).collect::<Vec<_>>(), [(StoreId(0), StoreError::Unreachable, direction)]);
    }
    assert!(refused(&with_store("on_store_error: maybe")).contains("maybe"));
}

/// A policy whose limit is shared through a store, with these words more.
fn with_store(words: &str) -> String {
    with_limits(&format!("a: {{ rate: 5/m, store: shared, {words} }}")).replace("3000\"", "3000\", limits: [a]")
}
