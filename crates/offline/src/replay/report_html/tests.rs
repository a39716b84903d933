use std::path::Path;

use super::*;
use crate::config::load_text;
use crate::engine::{Arrival, DecisionId, Engine, Outcome};
use crate::replay::outcome::Then;
use crate::request::{Peer, Request};
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::units::{Cost, Timestamp};

const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 10:00.
const START: u64 = 1_795_255_200 * SECOND;
const HOSTILE: &str = "/a\"></svg></style><script>alert(1)</script><img src=x onerror=alert(1)>&\u{1b}";

fn key(name: u32) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([7; 16]));
    hasher.part(1, &name.to_le_bytes());
    hasher.finish()
}

/// A policy with two limits, and twenty minutes of ten clients: each views a page of five files a minute, one hammers.
fn ledger() -> Ledger {
    let text = "listen: \":8080\"\n\
                limits:\n  \
                  per_client: { rate: 1/s, burst: 10 }\n  \
                  hourly: { type: quota, max: 600, window: 1h, mode: shadow }\n\
                routes:\n  - { limits: [per_client, hourly], origin: \"127.0.0.1:3000\" }\n";
    let loaded = load_text("test.yaml", text, &|_: &str| None, Path::new("."));
    let snapshot = Engine::new(loaded.outcome.unwrap().policy, &Seed::from_bytes([3; 16]), 0).unwrap();
    let mut ledger = Ledger::new(snapshot.policy());
    let headers = http::HeaderMap::new();
    for second in 0..1_200_u64 {
        for client in 0..10_u32 {
            let requests = match client {
                9 => u64::from((300..600).contains(&second)) * 3,
                _ => u64::from(second % 60 == u64::from(client)) * 5,
            };
            for _ in 0..requests {
                let at = Timestamp::from_nanos(START + second * SECOND);
                let peer = Peer::Ip(std::net::IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, client as u8)));
                let path = if client == 9 { HOSTILE } else { "/page" };
                let method = &http::Method::GET;
                let request =
                    Request { peer, method, host: "a", path: "/", query: None, headers: &headers, tls_sni: None };
                let arrival = Arrival { id: DecisionId(1), at, dice: 1 };
                let mut judged = snapshot.judge(&request, arrival);
                let keys: Vec<Option<KeyHash>> =
                    (0..judged.decision.readings.len()).map(|slot| judged.key(slot)).collect();
                snapshot.reserve_all(&mut judged);
                let goes_on = judged.decision.goes_on();
                drop(snapshot.admit(&mut judged, goes_on));
                let heard: Vec<Heard> = judged
                    .decision
                    .readings
                    .iter()
                    .zip(keys)
                    .map(|(reading, key)| Heard {
                        rule: reading.rule,
                        key,
                        own_numbers: reading.tier == 0,
                        limited: reading.outcome == Outcome::Refused,
                        cost: Cost::ONE,
                    })
                    .collect();
                let name = || format!("client-{client}<b>");
                ledger.count(&Asked { at, client: key(client), name: &name, path, heard: &heard });
            }
        }
    }
    ledger
}

fn about() -> About {
    About {
        source: "access<1>.log".into(),
        policy: "a&b.yaml".into(),
        only: None,
        left_out: vec![],
        alerts: vec![format!("one client {HOSTILE}")],
        then: Some(Then { admitted: [1_200, 9], refused: [8, 583], unfit: [0, 0], untold: 77 }),
        notes: vec![HOSTILE.into()],
    }
}

#[test]
fn the_numbers_are_those_of_the_engine() {
    let ledger = ledger();
    let [per_client, hourly] = &ledger.limits[..] else { panic!() };
    // nine send 5 a minute for 20 minutes; one 900 in 300 s, of which 10 + 299 fit
    assert_eq!((ledger.requests, per_client.judged, per_client.limited), (1_800, 1_800, 900 - 309));
    assert_eq!((per_client.touched.len(), hourly.limited), (1, 0));
    // after the first burst two of three are limited in every second
    assert_eq!(per_client.worst.limited, 120);
    let (_, burst, frontier) = per_client.frontier.as_ref().unwrap();
    let place = frontier.rates().iter().position(|rate| rate.to_string() == "1/s").unwrap();
    assert_eq!(frontier.column(place).unwrap().touched(*burst), 1, "the curve's point is what the engine did");
}

#[test]
fn the_page_tells_them_and_a_hostile_log_stays_text() {
    let page = html(&ledger(), &about());
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<b>"), "escaped");
    assert!(!page.contains("overload, a full origin"), "a row of nothing is left out");
    assert!(page.contains("&lt;script&gt;") && page.contains("client-9&lt;b&gt;"));
    assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (1 + 2, 1 + 2), "patterns and pictures");
    for text in [
        "591",
        "per_client",
        "hourly",
        "now: 1/s burst 10, 1 of 10",
        "2026-11-21 10:00",
        "access&lt;1&gt;.log",
        "admitted then",
        "583",
        "without a line: 77",
        "10:05",
        "UTC, 2026-11-21 10:00 to ",
    ] {
        assert!(page.contains(text), "{text}");
    }
    for element in ["svg", "g", "table", "tr", "td", "th", "div", "ul", "li", "p", "figure", "text", "title", "pattern"]
    {
        let (open, close) = (format!("<{element}"), format!("</{element}>"));
        let opened =
            page.match_indices(&open).filter(|(at, _)| page[at + open.len()..].starts_with([' ', '>'])).count();
        assert_eq!(opened, page.matches(&close).count(), "{element}");
    }
    assert_eq!(page, html(&ledger(), &about()), "the same text every time");
}

#[test]
fn every_picture_is_a_file_of_its_own() {
    let pictures = pictures(&ledger(), &About::default());
    let files: Vec<&str> = pictures.iter().map(|picture| picture.file.as_str()).collect();
    let expected = ["flow.svg", "per_client-trade-off.svg"];
    assert_eq!(files, expected);
    for picture in &pictures {
        assert!(picture.svg.starts_with("<svg xmlns=") && picture.svg.contains("<style>"), "{}", picture.file);
        assert!(!picture.svg.contains("<script"), "{}", picture.file);
    }
    assert_eq!(file_name("a/../b c"), "a____b_c");
}

#[test]
fn a_report_of_nothing_is_a_page_too() {
    let loaded = load_text(
        "test.yaml",
        "listen: \":8080\"\nroutes: [{ origin: \"127.0.0.1:3000\", limit: 1/s }]\n",
        &|_: &str| None,
        Path::new("."),
    );
    let ledger = Ledger::new(&loaded.outcome.unwrap().policy);
    assert!(html(&ledger, &About::default()).ends_with("</html>\n"));
}
