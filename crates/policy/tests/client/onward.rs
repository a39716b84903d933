//! What the origin is told, and that neither strangers nor malformed headers can put words into it.

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use tidegate_policy::client::onward::MAX_ONWARD_BYTES;
use tidegate_policy::client::{ClientRules, Field, ForwardHeader, Mark, Onward, Proto, Source, onward, resolve};

use crate::support::{headers, peer, rules};

/// The values of both headers and the header to be removed, for a request with these fields.
fn told(rules: &ClientRules, from: &str, headers: &HeaderMap) -> (String, Option<String>, Option<String>) {
    let client = resolve(rules, peer(from), headers).unwrap();
    let Onward { x_forwarded_for, forwarded, remove } =
        onward(rules, peer(from), &client, headers, Proto::Http, &mut BytesMut::new());
    let text = |field| match field {
        Field::Set(value) => Some(String::from_utf8_lossy(value.as_bytes()).into_owned()),
        Field::Remove => None,
    };
    (text(x_forwarded_for).expect("always set"), text(forwarded), remove.map(ToString::to_string))
}

fn both(x_forwarded_for: &[&str], forwarded: &[&str]) -> HeaderMap {
    let mut both = headers(ForwardHeader::XForwardedFor.name(), x_forwarded_for);
    both.extend(headers(ForwardHeader::Forwarded.name(), forwarded));
    both
}

fn with(trust: &str, header: &str) -> ClientRules {
    ClientRules { header: header.parse().unwrap(), ..rules(trust) }
}

#[test]
fn a_strangers_headers_are_replaced_by_his_address() {
    let forged = both(&["6.6.6.6", "10.0.0.9"], &["for=6.6.6.6"]);
    for trust in ["off", "proxies 10.0.0.0/8", "hops 2 from 10.0.0.0/8"] {
        let told = |header, from| told(&with(trust, header), from, &forged);
        assert_eq!(told("x-forwarded-for", "203.0.113.9"), ("203.0.113.9".into(), None, None));
        assert_eq!(told("x-forwarded-for", "::ffff:203.0.113.9"), ("203.0.113.9".into(), None, None));
        let forwarded = Some("for=203.0.113.9;proto=http".into());
        assert_eq!(told("forwarded", "203.0.113.9"), ("203.0.113.9".into(), forwarded, None));
        let forwarded = Some("for=\"[2001:db8::7]\";proto=http".into());
        assert_eq!(told("forwarded", "2001:db8::7"), ("2001:db8::7".into(), forwarded, None));
        let forwarded = Some("for=unknown;proto=http".into());
        assert_eq!(told("forwarded", "unix"), ("unknown".into(), forwarded, None));
        assert_eq!(
            told("cf-connecting-ip", "203.0.113.9"),
            ("203.0.113.9".into(), None, Some("cf-connecting-ip".into()))
        );
    }
}

#[test]
fn a_trusted_list_is_appended_to_in_one_line_and_the_other_header_goes() {
    let rules = rules("proxies 10.0.0.0/8 unix");
    let told = |x_forwarded_for: &[&str], from| told(&rules, from, &both(x_forwarded_for, &["for=6.6.6.6"]));
    assert_eq!(told(&["1.2.3.4", "10.0.0.9 ,, 10.0.0.8"], "10.0.0.1").0, "1.2.3.4, 10.0.0.9, 10.0.0.8, 10.0.0.1");
    assert_eq!(told(&["6.6.6.6, garbage, 10.0.0.9"], "10.0.0.1").0, "6.6.6.6, garbage, 10.0.0.9, 10.0.0.1");
    assert_eq!(told(&[], "10.0.0.1").0, "10.0.0.1");
    assert_eq!(told(&[" ,"], "10.0.0.1").0, "10.0.0.1");
    assert_eq!(told(&["1.2.3.4"], "unix").0, "1.2.3.4, unknown");
    assert_eq!(told(&["1.2.3.4"], "10.0.0.1").1, None);
}

#[test]
fn row_86_x_forwarded_for_is_rewritten_from_a_believed_forwarded() {
    let rules = with("proxies 10.0.0.0/8 unix fd00::/8", "forwarded");
    let told = |forwarded: &[&str], from| told(&rules, from, &both(&["6.6.6.6, 7.7.7.7"], forwarded));
    let (x_forwarded_for, forwarded, _) = told(&["for=6.6.6.6, for=8.8.8.8;by=_a", "for=10.0.0.5"], "10.0.0.1");
    assert_eq!(x_forwarded_for, "8.8.8.8, 10.0.0.5, 10.0.0.1");
    assert_eq!(forwarded.unwrap(), "for=6.6.6.6, for=8.8.8.8;by=_a, for=10.0.0.5, for=10.0.0.1;proto=http");
    let (x_forwarded_for, forwarded, _) = told(&["for=\"[2001:db8::7]:80\""], "fd00::1");
    assert_eq!(x_forwarded_for, "2001:db8::7, fd00::1");
    assert_eq!(forwarded.unwrap(), "for=\"[2001:db8::7]:80\", for=\"[fd00::1]\";proto=http");
    let (x_forwarded_for, forwarded, _) = told(&["for=8.8.8.8, for=_a, for=10.0.0.5"], "unix");
    assert_eq!(x_forwarded_for, "10.0.0.5, unknown", "no further than what is believed");
    assert_eq!(forwarded.unwrap(), "for=8.8.8.8, for=_a, for=10.0.0.5, for=unknown;proto=http");
    assert_eq!(told(&[], "10.0.0.1").0, "10.0.0.1");
    // a hop that was counted and not read keeps its place
    let (x_forwarded_for, ..) = self::told(
        &with("hops 2 from 10.0.0.0/8", "forwarded"),
        "10.0.0.1",
        &both(&["6.6.6.6"], &["for=8.8.8.8, for=_a"]),
    );
    assert_eq!(x_forwarded_for, "8.8.8.8, unknown, 10.0.0.1");
}

#[test]
fn a_malformed_forwarded_is_replaced_because_its_open_quote_would_swallow_our_element() {
    let rules = with("proxies 10.0.0.0/8", "forwarded");
    for line in ["for=\"6.6.6.6", "for=6.6.6.6;host=\"", "host=\"\\", "6.6.6.6"] {
        let (x_forwarded_for, forwarded, _) = told(&rules, "10.0.0.1", &both(&["6.6.6.6"], &["for=8.8.8.8", line]));
        assert_eq!(x_forwarded_for, "10.0.0.1", "{line}");
        assert_eq!(forwarded.as_deref(), Some("for=10.0.0.1;proto=http"), "{line}");
    }
}

#[test]
fn a_single_header_is_kept_only_while_it_is_believed() {
    let rules = with("proxies 10.0.0.0/8", "cf-connecting-ip");
    let told = |lines: &[&str]| {
        let mut headers = headers(rules.header.name(), lines);
        headers.extend(both(&["6.6.6.6"], &["for=6.6.6.6"]));
        told(&rules, "10.0.0.1", &headers)
    };
    let removed = Some("cf-connecting-ip".to_owned());
    assert_eq!(told(&["1.2.3.4"]), ("1.2.3.4, 10.0.0.1".into(), None, None));
    assert_eq!(told(&[]), ("10.0.0.1".into(), None, None));
    assert_eq!(told(&["1.2.3.4", "6.6.6.6"]), ("10.0.0.1".into(), None, removed.clone()));
    assert_eq!(told(&["1.2.3.4\", 6.6.6.6"]), ("10.0.0.1".into(), None, removed));
}

#[test]
fn the_protocol_towards_us_is_told() {
    let rules = with("off", "forwarded");
    let headers = HeaderMap::new();
    let client = resolve(&rules, peer("203.0.113.9"), &headers).unwrap();
    let told = onward(&rules, peer("203.0.113.9"), &client, &headers, Proto::Https, &mut BytesMut::new());
    assert_eq!(told.forwarded, Field::Set(HeaderValue::from_static("for=203.0.113.9;proto=https")));
    // the longest element of ours is written in full
    let longest = "1111:2222:3333:4444:5555:6666:7777:8888";
    let client = resolve(&rules, peer(longest), &headers).unwrap();
    let told = onward(&rules, peer(longest), &client, &headers, Proto::Https, &mut BytesMut::new());
    let written = format!("for=\"[{longest}]\";proto=https");
    assert_eq!(told.forwarded, Field::Set(HeaderValue::try_from(written).unwrap()));
}

#[test]
fn what_is_told_is_bounded_from_the_left() {
    let rules = rules("proxies 10.0.0.0/8");
    let told_of = |rules: &ClientRules, line: &str| told(rules, "10.0.0.1", &both(&[line], &[line]));
    let many = told_of(&rules, &("6.6.6.6,".repeat(5_000) + "1.2.3.4")).0;
    assert_eq!(many.split(", ").count(), 33);
    assert!(many.starts_with("6.6.6.6, ") && many.ends_with(", 1.2.3.4, 10.0.0.1"));
    let huge = "x".repeat(60_000);
    assert_eq!(told_of(&rules, &format!("6.6.6.6, {huge}, 1.2.3.4")).0, "1.2.3.4, 10.0.0.1");
    assert_eq!(told_of(&rules, &format!("6.6.6.6, {huge}")).0, "10.0.0.1", "nothing moves to the right");
    // exactly full, and one byte more
    let room = MAX_ONWARD_BYTES - ", 10.0.0.1".len();
    assert_eq!(told_of(&rules, &"x".repeat(room)).0.len(), MAX_ONWARD_BYTES);
    assert_eq!(told_of(&rules, &"x".repeat(room + 1)).0, "10.0.0.1");
    let forwarded = with("proxies 10.0.0.0/8", "forwarded");
    let long_host = format!("for=6.6.6.6, for=1.2.3.4;host=\"{huge}\", for=10.0.0.2");
    let (x_forwarded_for, forwarded, _) = told_of(&forwarded, &long_host);
    assert_eq!(x_forwarded_for, "1.2.3.4, 10.0.0.2, 10.0.0.1");
    assert_eq!(forwarded.as_deref(), Some("for=10.0.0.2, for=10.0.0.1;proto=http"));
}

/// Bytes that a header value may have, with those that have a meaning in lists much more often than others.
fn injection() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(&b"\",;=\\ \tfor[]:._1"[..]),
        1 => any::<u8>().prop_filter("no header value", |byte| *byte == b'\t' || (*byte >= 32 && *byte != 127)),
    ];
    prop::collection::vec(byte, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// An origin that trusts the gate and the same proxies sees the client that the gate saw, whatever was sent.
    #[test]
    fn an_origin_that_trusts_the_gate_sees_the_same_client(
        sent in injection(),
        chain in prop::collection::vec(prop::sample::select(&["10.0.0.2", "fd00::2", "8.8.8.8", "2001:db8::9"][..]), 0..5),
        from in prop::sample::select(&["10.0.0.1", "fd00::1", "203.0.113.9"][..]),
        header in prop::sample::select(&["x-forwarded-for", "forwarded"][..]),
    ) {
        let element = |address: &&str| match (header, address.contains(':')) {
            ("forwarded", true) => format!("for=\"[{address}]\""),
            ("forwarded", false) => format!("for={address}"),
            _ => (*address).to_owned(),
        };
        let appended: Vec<String> = chain.iter().map(element).collect();
        let line = [sent, b", ".to_vec(), appended.join(", ").into_bytes()].concat();
        let gate = with("proxies 10.0.0.0/8 fd00::/8", header);
        let received = headers(gate.header.name(), &[line]);
        let client = resolve(&gate, peer(from), &received).unwrap();
        let told = onward(&gate, peer(from), &client, &received, Proto::Http, &mut BytesMut::new());

        // by X-Forwarded-For, which every origin gets
        let Field::Set(value) = told.x_forwarded_for else { panic!("always set") };
        let origin = with("proxies 10.0.0.0/8 fd00::/8 198.51.100.1", "x-forwarded-for");
        let seen = resolve(&origin, peer("198.51.100.1"), &headers(origin.header.name(), &[value.as_bytes()])).unwrap();
        prop_assert_eq!(seen.network, client.network);
        if client.mark == Mark::Verified && (client.source == Source::Forwarded || !client.peer_trusted) {
            prop_assert_eq!(seen.mark, Mark::Verified);
        }

        // by Forwarded, which those get that were promised it
        prop_assert_eq!(matches!(told.forwarded, Field::Set(_)), header == "forwarded");
        if let Field::Set(value) = told.forwarded {
            let origin = ClientRules { header: ForwardHeader::Forwarded, ..origin };
            let told = headers(origin.header.name(), &[value.as_bytes()]);
            let seen = resolve(&origin, peer("198.51.100.1"), &told).unwrap();
            prop_assert_eq!(seen.network, client.network);
        }
    }
}
