//! Claims about the access log's line.

use crate::engine::Refusal;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::sample::rate;
use super::*;
use crate::client::KeyPart;
use crate::policy::{Kind, kinds};
use std::time::Duration;

use crate::units::Rate;

fn entry() -> Entry<'static> {
    Entry {
        time_unix_nanos: 1_000_000_000_000_000_005,
        at: Timestamp::from_nanos(77),
        at_zero: Some(999_999_999),
        id: DecisionId(42),
        listener: "main".into(),
        protocol: Some("h2".into()),
        client: Some("c7f1".into()),
        client_source: Some("forwarded".into()),
        client_mark: Some("verified".into()),
        method: "POST".into(),
        host: b"shop.example.com"[..].into(),
        path: b"/login"[..].into(),
        route: Some("login".into()),
        criticality: Some("critical".into()),
        status: 429,
        verdict: Some(Verdict::Refused(Refusal::Limit)),
        limits: [LimitEntry {
            name: "login".into(),
            mode: Mode::Enforce,
            tier: 0,
            outcome: Outcome::Refused,
            remaining: 0,
            retry_nanos: Some(11_400_000_000),
            node: None,
            prefix: None,
        }]
        .into_iter()
        .collect(),
        origin: None,
        origin_address: None,
        delay_nanos: 0,
        attempts: 0,
        duration_nanos: 81_000,
        origin_nanos: None,
        bytes_in: 12,
        bytes_out: 345,
        error: None,
        sampled: None,
    }
}

fn line(entry: &Entry<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    entry.write(&mut out);
    out
}

#[test]
fn a_line_is_one_flat_object_without_what_is_absent() {
    assert_eq!(
        String::from_utf8(line(&entry())).unwrap(),
        concat!(
            r#"{"schema":"tidegate.access/1","time":"2001-09-09T01:46:40.000000005Z","at":77,"at_zero":999999999,"id":"000000000001A","#,
            r#""listener":"main","protocol":"h2","client":"c7f1","client_source":"forwarded","client_mark":"verified","method":"POST","#,
            r#""host":"shop.example.com","path":"/login","route":"login","criticality":"critical","status":429,"verdict":"refused","#,
            r#""reason":"limit","limits":[{"name":"login","mode":"enforce","outcome":"limited","remaining":0,"#,
            r#""retry_ns":11400000000}],"attempts":0,"duration_ns":81000,"bytes_in":12,"bytes_out":345}"#,
            "\n"
        )
    );
}

/// `docs/access_log.md` lists the fields of a line that has all of them, in their order.
#[test]
fn the_document_has_every_field_of_a_line() {
    let whole = Entry {
        origin: Some("shop".into()),
        origin_address: Some("192.0.2.1:80".into()),
        delay_nanos: 1,
        origin_nanos: Some(1),
        error: Some("reset".into()),
        sampled: Some(2),
        ..entry()
    };
    let text = String::from_utf8(line(&whole)).unwrap();
    let document = include_str!("../../../../../docs/access_log.md");
    let rows = document.lines().filter_map(|row| row.strip_prefix("| `")?.split_once(" | "));
    let documented: Vec<&str> =
        rows.flat_map(|(names, _)| names.split(", ").map(|name| name.trim_matches('`'))).collect();
    let without_limits =
        text.split_once("[{").map(|(before, rest)| [before, rest.split_once("}]").unwrap().1].concat()).unwrap();
    let names = without_limits.split('"').skip(1).step_by(2).collect::<Vec<_>>();
    let fields = without_limits.match_indices("\":").count();
    let written: Vec<&str> = names.into_iter().filter(|name| documented.contains(name)).collect();
    assert_eq!((written.len(), fields), (documented.len(), documented.len()), "{text}");
    assert_eq!(written, documented);
}

#[test]
fn a_line_says_how_many_refused_requests_it_stands_for() {
    let sampled = Entry { sampled: Some(51), ..entry() };
    let text = String::from_utf8(line(&sampled)).unwrap();
    assert!(text.ends_with(",\"bytes_out\":345,\"sampled\":51}\n"), "{text}");
    assert_eq!(Entry::read(text.as_bytes()).unwrap(), sampled);
}

fn combined(entry: &Entry<'_>) -> String {
    let mut out = Vec::new();
    assert_eq!(allocation_counter::measure(|| entry.write_combined(&mut out)).count_current, 1, "the line itself");
    String::from_utf8(out).unwrap()
}

#[test]
fn a_combined_line_is_that_of_apache_and_nginx() {
    let start = "c7f1 - - [09/Sep/2001:01:46:40 +0000] ";
    assert_eq!(combined(&entry()), format!("{start}\"POST /login HTTP/2.0\" 429 345 \"-\" \"-\"\n"));
    let sampled = Entry { sampled: Some(51), protocol: Some("h1".into()), ..entry() };
    assert_eq!(combined(&sampled), format!("{start}\"POST /login HTTP/1.1\" 429 345 \"-\" \"-\" sampled=51\n"));
    let faulty = Entry { client: None, method: "".into(), path: b""[..].into(), status: 400, ..entry() };
    assert_eq!(combined(&faulty), format!("-{} \"-\" 400 345 \"-\" \"-\"\n", &start[4..start.len() - 1]));
}

#[test]
fn a_line_of_before_there_was_a_protocol_is_read() {
    let text = String::from_utf8(line(&entry())).unwrap().replace(r#""protocol":"h2","#, "");
    assert_eq!(Entry::read(text.as_bytes()).unwrap(), Entry { protocol: None, ..entry() });
}

#[test]
fn a_line_says_who_was_held_back_and_which_network_gave_way() {
    let mut flooded = entry();
    flooded.verdict = Some(Verdict::Refused(Refusal::FairShare));
    flooded.delay_nanos = 250_000_000;
    flooded.limits = [LimitEntry {
        name: "fair".into(),
        mode: Mode::Enforce,
        tier: 2,
        outcome: Outcome::Refused,
        remaining: 0,
        retry_nanos: None,
        node: Some("client_ip:ipv4_prefix=24,ipv6_prefix=48".into()),
        prefix: Some("192.0.2.0/24".into()),
    }]
    .into_iter()
    .collect();
    let text = String::from_utf8(line(&flooded)).unwrap();
    let limit = concat!(
        r#""reason":"fair_share","limits":[{"name":"fair","mode":"enforce","tier":2,"outcome":"limited","remaining":0,"#,
        r#""node":"client_ip:ipv4_prefix=24,ipv6_prefix=48","prefix":"192.0.2.0/24"}],"delay_ns":250000000,"attempts":0"#,
    );
    assert!(text.contains(limit), "{text}");
    assert_eq!(Entry::read(text.as_bytes()).unwrap(), flooded);
}

#[test]
fn nodes_are_named_by_their_keys() {
    let key = |parts: &[&str]| KeySpec::new(parts.iter().map(|part| part.parse::<KeyPart>().unwrap()), None).unwrap();
    let plain = Rule {
        nodes: vec![key(&["client_ip", "route"]), key(&["client_ip:ipv4_prefix=24,ipv6_prefix=48"])],
        ..rate("fair", 1, 1_000, 1)
    };
    assert!(node_names(&plain).is_empty());
    let kind = Kind::FairShare(kinds::FairShare::of(Rate::new(10, Duration::from_secs(1)).unwrap()));
    let names = node_names(&Rule { kind, ..plain });
    assert_eq!(names, ["client_ip, route", "client_ip:ipv4_prefix=24,ipv6_prefix=48"]);
}

#[test]
fn lines_are_appended() {
    let mut out = b"before\n".to_vec();
    entry().write(&mut out);
    entry().write(&mut out);
    assert_eq!(out, [b"before\n".to_vec(), line(&entry()), line(&entry())].concat());
}

#[test]
fn writing_allocates_nothing_but_the_line() {
    let (entry, mut out) = (entry(), Vec::with_capacity(4_096));
    assert_eq!(allocation_counter::measure(|| entry.write(&mut out)).count_total, 0);
}

#[test]
fn a_line_of_another_kind_is_named() {
    assert!(matches!(Entry::read(b"GET / HTTP/1.1"), Err(Unreadable::Json(_))));
    assert!(matches!(Entry::read(b"{}"), Err(Unreadable::Json(_))));
    let replaced = |from: &str, to: &str| {
        let text = String::from_utf8(line(&entry())).unwrap();
        assert!(text.contains(from));
        Entry::read(text.replace(from, to).as_bytes())
    };
    let fault = replaced("access/1", "access/2").unwrap_err();
    assert_eq!(fault.to_string(), r#"schema: found "tidegate.access/2"; allowed "tidegate.access/1""#);
    assert_eq!(replaced("POST\"", "POST\",\"later\":[1]").unwrap(), entry());
    for (from, to, name) in [
        ("000000000001A", "000000000001a", "id"),
        ("01:46:40", "01:46:60", "time"),
        ("\"refused\"", "\"perhaps\"", "verdict"),
        ("\"limit\"", "\"whim\"", "reason"),
        (",\"reason\":\"limit\"", "", "reason"),
        ("enforce", "pretend", "mode"),
        ("limited", "postponed", "outcome"),
    ] {
        assert!(matches!(replaced(from, to), Err(Unreadable::Word(found, _)) if found == name), "{name}");
    }
    let limit = r#"{"name":"a","mode":"enforce","outcome":"allowed","remaining":0},"#.repeat(8);
    assert!(matches!(replaced("[{", &format!("[{limit}{{")), Err(Unreadable::Limits(9))));
}

#[test]
fn every_reason_is_read_back() {
    // a new reason fails to compile here, until it is in the list
    let listed = |refusal| match refusal {
        Refusal::Limit => 0,
        Refusal::Penalty => 1,
        Refusal::Concurrency => 2,
        Refusal::Inflight => 3,
        Refusal::FairShare => 4,
        Refusal::KeyMissing => 5,
        Refusal::AmbiguousValue => 6,
        Refusal::RepeatedField => 7,
        Refusal::NominatedField => 8,
        Refusal::OriginFull => 9,
        Refusal::StoreSilent => 10,
        Refusal::Overload => 11,
        Refusal::NoRoute => 12,
        Refusal::ClientUnresolved => 13,
        Refusal::ValueTooLong => 14,
        Refusal::Banned => 15,
        Refusal::Denied => 16,
    };
    for (at, refusal) in Refusal::ALL.iter().copied().enumerate() {
        assert_eq!(listed(refusal), at);
        let written = Entry { verdict: Some(Verdict::Refused(refusal)), ..entry() };
        assert_eq!(Entry::read(&line(&written)).unwrap(), written);
    }
}

fn word() -> impl Strategy<Value = Cow<'static, str>> {
    any::<String>().prop_map(Cow::Owned)
}

fn stranger() -> impl Strategy<Value = Text<'static>> {
    any::<String>().prop_map(|text| Cow::Owned(text.into_bytes()))
}

fn limit() -> impl Strategy<Value = LimitEntry<'static>> {
    let mode = select(&[Mode::Enforce, Mode::Shadow][..]);
    let outcome = select(&Outcome::ALL[..]);
    let option = || prop::option::of(word());
    (word(), mode, outcome, any::<(u8, u32)>(), any::<Option<u64>>(), option(), option()).prop_map(
        |(name, mode, outcome, (tier, remaining), retry_nanos, node, prefix)| LimitEntry {
            name,
            mode,
            tier,
            outcome,
            remaining,
            retry_nanos,
            node,
            prefix,
        },
    )
}

fn any_entry() -> impl Strategy<Value = Entry<'static>> {
    let option = || prop::option::of(word());
    let verdict =
        prop::option::of(prop_oneof![Just(Verdict::Admitted), select(Refusal::ALL).prop_map(Verdict::Refused),]);
    let names = (word(), option(), option(), option(), option(), word(), option(), option(), option(), option());
    let numbers = (any::<[u64; 6]>(), any::<(u16, u32)>(), any::<[Option<u64>; 3]>());
    let limits = prop::collection::vec(limit(), 0..=Route::MAX_RULES);
    (names, option(), numbers, stranger(), stranger(), verdict, limits, any::<u64>()).prop_map(
        |(names, criticality, numbers, host, path, verdict, limits, id)| {
            let (listener, protocol, client, client_source, client_mark, method, route, origin, origin_address, error) =
                names;
            let (
                [time_unix_nanos, at, duration_nanos, bytes_in, bytes_out, delay_nanos],
                (status, attempts),
                [origin_nanos, at_zero, sampled],
            ) = numbers;
            Entry {
                time_unix_nanos,
                at: Timestamp::from_nanos(at),
                at_zero,
                id: DecisionId(id),
                listener,
                protocol,
                client,
                client_source,
                client_mark,
                method,
                host,
                path,
                route,
                criticality,
                status,
                verdict,
                limits: limits.into_iter().collect(),
                origin,
                origin_address,
                delay_nanos,
                attempts,
                duration_nanos,
                origin_nanos,
                bytes_in,
                bytes_out,
                error,
                sampled,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_entry_is_read_back_as_it_was_written(written in any_entry()) {
        let line = line(&written);
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        prop_assert_eq!(line.last(), Some(&b'\n'));
        prop_assert_eq!(Entry::read(&line).unwrap(), written);
    }

    #[test]
    fn no_stranger_can_forge_a_word_of_a_combined_line(
        method in any::<String>(),
        path in prop::collection::vec(any::<u8>(), 0..5_000),
    ) {
        let line = combined(&Entry { method: method.into(), path: path.into(), ..entry() });
        prop_assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')), "{}", line);
        let words = line.split_terminator('\n').collect::<Vec<_>>();
        prop_assert_eq!(words.len(), 1);
        // method, path and protocol, or a dash
        prop_assert!(matches!(words[0].split(' ').count(), 10 | 12), "{}", line);
        prop_assert_eq!(words[0].matches('"').count(), 6);
        prop_assert!(line.len() < 4 * 2 * MAX_TEXT_BYTES + 200);
    }

    #[test]
    fn no_stranger_can_end_the_line_or_fill_the_disk(
        host in prop::collection::vec(any::<u8>(), 0..5_000),
        path in prop::collection::vec(select(&b"\"\\\n\r\x00\x7f\xff\xc2\x85/a"[..]), 0..5_000),
    ) {
        let written = Entry { host: host.clone().into(), path: path.clone().into(), ..entry() };
        let line = line(&written);
        prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        prop_assert!(line.len() < 2 * 6 * MAX_TEXT_BYTES + 1_000);
        let read = Entry::read(&line).unwrap();
        for (read, sent) in [(read.path, path), (read.host, host)] {
            if sent.len() <= MAX_TEXT_BYTES {
                let lenient = String::from_utf8_lossy(&sent);
                prop_assert_eq!(&read[..], lenient.as_bytes());
            } else {
                prop_assert!(read.ends_with("…".as_bytes()));
            }
        }
    }
}
