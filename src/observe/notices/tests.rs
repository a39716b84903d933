//! Each notice with a fixed past, and the list from one look to the next.

use std::time::Duration;

use super::judge::notices;
use super::seen::{ClientsSeen, CrowdedSeen, LackingSeen, PeerSeen, Recent, Seen};
use super::*;
use crate::config::settings::LogLevel;
use crate::observe::captured::Captured;
use crate::observe::history::Endings;
use crate::observe::lines::LogState;
use crate::observe::log::{Style, subscriber};
use crate::units::Bytes;
use sample::RangeSeen;

fn peer(network: &str, preset: Option<&'static str>, share: f64, ignored_header: bool) -> PeerSeen {
    PeerSeen { network: network.to_owned(), preset, share, ignored_header }
}

/// What is said of it, and the names of what it is about.
fn told(seen: &Seen, before: &[Notice]) -> Vec<(Kind, String, String)> {
    notices(seen, before).into_iter().map(|notice| (notice.kind, notice.subject, notice.text)).collect()
}

fn clients(asked: f64, ignored: f64, peers: Vec<PeerSeen>) -> Seen {
    let clients = ClientsSeen { asked, ignored, sampled: asked / 16.0, top_share: None, peers };
    Seen { sampled: clients.sampled, clients, ..Seen::default() }
}

#[test]
fn a_gate_in_order_has_nothing_to_tell() {
    assert_eq!(notices(&Seen::default(), &[]), []);
    let busy = clients(100_000.0, 900.0, vec![peer("192.0.2.0/24", None, 0.95, false)]);
    assert_eq!(notices(&busy, &[]), []);
}

#[test]
fn a_proxy_that_is_not_trusted_is_named() {
    let seen = clients(1_000.0, 930.0, vec![peer("127.0.0.1/32", Some("loopback"), 0.9, true)]);
    let [notice] = notices(&seen, &[]).try_into().unwrap();
    assert_eq!((notice.kind, notice.urgent, notice.subject.as_str()), (Kind::ClientsCollapsed, true, "127.0.0.1/32"));
    assert_eq!(
        notice.text,
        "93 % of all requests come with a forwarding header from a peer that is not trusted: everybody behind 127.0.0.1/32 is \
         one client"
    );
    assert!(notice.hint.contains("`trusted_proxies: [127.0.0.1/32]`"), "{}", notice.hint);
    let cdn = clients(
        1_000.0,
        930.0,
        vec![
            peer("173.245.48.9/32", Some("cloudflare"), 0.4, true),
            peer("173.245.48.10/32", Some("cloudflare"), 0.3, true),
            peer("203.0.113.0/24", None, 0.2, true),
            peer("198.51.100.0/24", None, 0.01, true),
        ],
    );
    assert_eq!(told(&cdn, &[])[0].1, "cloudflare, 203.0.113.0/24");
}

#[test]
fn few_requests_begin_no_notice_and_end_none() {
    let many = clients(100.0, 90.0, vec![peer("10.0.0.4/32", Some("private"), 0.9, true)]);
    let few = clients(99.0, 90.0, Vec::new());
    let held = notices(&many, &[]);
    assert_eq!(held.len(), 1);
    assert_eq!(notices(&few, &[]), []);
    assert_eq!(notices(&few, &held), held);
    // it wavers: 75 % begin nothing and end nothing
    let wavers = clients(1_000.0, 750.0, Vec::new());
    assert_eq!((notices(&wavers, &[]).len(), notices(&wavers, &held).len()), (0, 1));
    assert_eq!(notices(&clients(1_000.0, 690.0, Vec::new()), &held), []);
}

#[test]
fn one_private_client_that_says_for_nobody_is_asked_about_and_a_stranger_is_not() {
    let one = |preset, share| clients(1_000.0, 0.0, vec![peer("10.0.0.4/32", preset, share, false)]);
    let [(kind, subject, text)] = told(&one(Some("private"), 0.86), &[]).try_into().unwrap();
    assert_eq!((kind, subject.as_str()), (Kind::ClientsCollapsed, "10.0.0.4/32"));
    assert!(text.starts_with("86 % of all requests come from one client, 10.0.0.4/32"), "{text}");
    assert_eq!(notices(&one(None, 0.99), &[]), []);
    assert_eq!(notices(&one(Some("private"), 0.79), &[]), []);
}

#[test]
fn a_key_that_most_requests_lack_is_told_with_its_limit() {
    let with = |asked, lacking| {
        let key = LackingSeen { limit: "api".to_owned(), key: "header:x-api-key".to_owned(), asked, lacking };
        Seen { lacking: vec![key], ..Seen::default() }
    };
    let held = notices(&with(100.0, 71.0), &[]);
    assert_eq!(held[0].text, "71 % of the requests under the limit `api` lack its key, header:x-api-key");
    assert_eq!(notices(&with(100.0, 49.0), &[]), []);
    assert_eq!(notices(&with(31.0, 31.0), &[]), []);
    assert_eq!(notices(&with(31.0, 0.0), &held), held);
    assert_eq!(notices(&with(100.0, 45.0), &held).len(), 1);
    assert_eq!(notices(&with(100.0, 39.0), &held), []);
}

#[test]
fn a_sketch_is_told_of_above_its_bound_and_given_four_times_as_much() {
    let with = |error| {
        let sketch = CrowdedSeen { limit: "per_client".to_owned(), error, memory: Bytes(1 << 20) };
        Seen { crowded: vec![sketch], ..Seen::default() }
    };
    let held = notices(&with(0.023), &[]);
    assert_eq!((held[0].kind, held[0].subject.as_str()), (Kind::SketchCrowded, "per_client"));
    assert!(held[0].text.contains("refuses 2.3 % of newcomers") && held[0].hint.contains("`memory: 4MiB`"), "{held:?}");
    assert_eq!(notices(&with(0.001), &[]), []);
    assert_eq!((notices(&with(0.0006), &held).len(), notices(&with(0.0005), &held).len()), (1, 0));
}

#[test]
fn a_shadow_is_told_of_after_thirty_days_in_the_words_of_check() {
    let with = |days| Seen { shadows: vec![("probe".to_owned(), days)], ..Seen::default() };
    assert_eq!(notices(&with(30), &[]), []);
    let [(kind, subject, text)] = told(&with(31), &[]).try_into().unwrap();
    assert_eq!((kind, subject.as_str()), (Kind::ShadowOld, "probe"));
    assert_eq!(text, crate::config::old_shadow("probe", 31));
}

#[test]
fn a_trusted_network_is_told_of_when_nobody_came_from_it_although_others_did() {
    let with = |since, seen, now, sampled| {
        let range = RangeSeen { written: "10.0.0.0/8".into(), since, seen };
        Seen { ranges: vec![range], now, sampled, ..Seen::default() }
    };
    let never = |now, sampled| told(&with(100, None, now, sampled), &[]);
    assert_eq!(never(3_699, 50.0), []);
    assert_eq!(never(3_700, 31.0), [], "nobody asks at all");
    assert_eq!(never(7_400, 50.0)[0].2, "nobody has come from 10.0.0.0/8 of `trusted_proxies` in 2 h");
    let last = |now| told(&with(100, Some(5_000), now, 50.0), &[]);
    assert_eq!(last(91_399), []);
    assert_eq!(last(91_400)[0].2, "nobody has come from 10.0.0.0/8 of `trusted_proxies` for 24 h");
}

#[test]
fn a_refused_file_an_origin_that_is_out_and_many_series_are_told() {
    let seen = Seen {
        refusal: Some("error[E0203]: invalid rate\n".to_owned()),
        origins_down: vec!["shop".to_owned()],
        series: 5_001,
        ..Seen::default()
    };
    let found = notices(&seen, &[]);
    let kinds: Vec<Kind> = found.iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [Kind::ReloadRefused, Kind::OriginDown, Kind::ManySeries]);
    assert_eq!(found[0].details, "error[E0203]: invalid rate");
    assert_eq!(found[2].text, crate::config::many_series(5_001));
    assert_eq!(notices(&Seen { series: 5_000, ..Seen::default() }, &[]), []);
}

#[test]
fn an_origin_that_answers_5xx_is_told_of_until_it_mends_and_not_when_it_is_down() {
    let with = |ended, server_errors, unanswered| {
        let origin = "shop".to_owned();
        let endings = Endings { origin, seconds: 10, ended, server_errors, unanswered, ..Endings::default() };
        Seen { answers: vec![endings], ..Seen::default() }
    };
    let held = notices(&with(200.0, 200.0, 0.0), &[]);
    assert_eq!((held[0].kind, held[0].urgent, held[0].subject.as_str()), (Kind::OriginFails, true, "shop"));
    assert_eq!(held[0].text, "the origin `shop` answers 5xx to 100 % of its requests (last 10 s)");
    let cut = notices(&with(200.0, 8.0, 6.0), &[]);
    let text = "the origin `shop` answers 5xx to 4 % of its requests and gives 3 % no whole answer (last 10 s)";
    assert_eq!(cut[0].text, text);
    // few begin nothing and end nothing; none at all end it
    assert_eq!(notices(&with(19.0, 19.0, 0.0), &[]), []);
    assert_eq!(notices(&with(19.0, 0.0, 0.0), &held), held);
    assert_eq!(notices(&with(0.0, 0.0, 0.0), &held), []);
    // it wavers
    assert_eq!((notices(&with(200.0, 8.0, 0.0), &[]).len(), notices(&with(200.0, 8.0, 0.0), &held).len()), (0, 1));
    assert_eq!(notices(&with(200.0, 4.0, 0.0), &held), []);
    let down = Seen { origins_down: vec!["shop".to_owned()], ..with(200.0, 0.0, 200.0) };
    assert_eq!(notices(&down, &held).iter().map(|notice| notice.kind).collect::<Vec<_>>(), [Kind::OriginDown]);
}

#[test]
fn an_origin_without_places_is_told_of_with_the_time_it_takes() {
    let with = |ended, shed| {
        let origin = "shop".to_owned();
        let endings = Endings { origin, seconds: 10, ended, shed, p50_seconds: 4.0, ..Endings::default() };
        Seen { answers: vec![endings], ..Seen::default() }
    };
    let held = notices(&with(24.0, 126.0), &[]);
    assert_eq!((held[0].kind, held[0].urgent), (Kind::OriginFull, true));
    assert_eq!(
        held[0].text,
        "the origin `shop` has no place for 84 % of its requests; half of the others wait up to 4.0 s for their answer (last \
         10 s)"
    );
    assert_eq!(notices(&with(100.0, 4.0), &[]), []);
    assert_eq!((notices(&with(100.0, 4.0), &held).len(), notices(&with(100.0, 1.0), &held).len()), (1, 0));
    assert_eq!(notices(&with(0.0, 0.0), &held), []);
}

#[test]
fn a_log_that_cannot_be_written_is_told_of() {
    let log = LogState { dropped: 512, errors: Some(9) };
    let [(kind, subject, text)] = told(&Seen { log_failing: Some(log), ..Seen::default() }, &[]).try_into().unwrap();
    assert_eq!((kind, subject.as_str()), (Kind::LogFails, "access"));
    assert_eq!(text, "the access log cannot be written: 9 failed attempts and 512 lost lines since the start");
}

#[test]
fn a_counter_weighs_half_after_a_minute_and_its_past_nothing() {
    let mut recent = Recent::default();
    assert_eq!(recent.look(1_000_000, 2.0), 0.0);
    assert_eq!(recent.look(1_000_100, 2.0), 100.0);
    assert_eq!(recent.look(1_000_100, 60.0), 50.0);
    // one that begins anew
    assert_eq!(recent.look(7, 60.0), 25.0);
}

#[test]
fn the_log_has_a_line_when_a_notice_begins_and_one_when_it_is_over() {
    let (written, list) = (Captured::default(), Notices::default());
    let writer = written.clone();
    let subscriber = subscriber(LogLevel::Info, Style::Json, move || writer.clone(), || Duration::ZERO);
    tracing::subscriber::with_default(subscriber, || {
        let refused = |text: &str| vec![Notice::new(Kind::OriginDown, "shop", text.to_owned(), "look")];
        list.replace(&[], refused("one"), 1_000);
        list.replace(&list.list(), refused("another number"), 1_002);
        assert_eq!((list.list()[0].since, list.list()[0].text.as_str()), (1_000, "another number"));
        list.replace(&list.list(), Vec::new(), 1_004);
        assert!(list.list().is_empty());
        for step in 0..100 {
            let now = if step % 2 == 0 { refused("on and off") } else { Vec::new() };
            list.replace(&list.list(), now, 1_005);
        }
    });
    let lines = written.lines();
    assert_eq!(lines.len(), 30, "and no more in a minute");
    assert_eq!((&lines[0]["level"], &lines[0]["notice"]), (&"WARN".into(), &"origin_down".into()));
    assert_eq!((&lines[1]["level"], &lines[1]["subject"]), (&"INFO".into(), &"shop".into()));
}

#[test]
fn of_very_many_alike_twenty_are_listed_and_the_rest_is_counted() {
    let down = |n: usize| Notice::new(Kind::OriginDown, format!("o{n}"), String::new(), "");
    let listed = shortened(&(0..1_000).map(down).collect::<Vec<_>>());
    assert_eq!((listed.len(), listed[19].details.as_str()), (20, "and 980 more like this"));
    assert_eq!(shortened(&[down(1)])[0].details, "");
}
