use super::super::view::{DecisionView, ShareView};
use super::*;
use crate::limiter::Gauges;
use crate::observe::history::{LimitPast, OriginPast, Past, RoutePast, SECONDS};
use crate::observe::notices::notice::{Kind, Notice};
use crate::observe::state::{
    Address, Answers, BanState, Condition, ConditionKind, Config, Limit, Load, Network, Offender, Offenders, Origin,
    Overload, Recent, Requests, Route, State, Word,
};
use crate::store::{BreakerState, StoreState};

/// Ten minutes of something that rises.
fn wave(height: f32) -> Vec<f32> {
    (0..SECONDS).map(|second| height * (1.0 + (second as f32 / 40.0).sin()) * second as f32 / SECONDS as f32).collect()
}

pub fn busy() -> View {
    let past =
        RoutePast { allowed: wave(80.0), delayed: wave(4.0), limited: wave(30.0), shed: wave(2.0), failed: wave(9.0) };
    let limit = |name: &str, kind: &'static str, mode: &'static str, counts: [u64; 3]| Limit {
        name: name.to_owned(),
        kind: kind.into(),
        mode: mode.into(),
        shared: (mode == "enforce").then_some((0, "lease")),
        decisions: ["allowed", "limited", "tagged"].map(Word::from).into_iter().zip(counts).collect(),
        fill: Some(0.31),
        error: Some(0.000_2),
        ..Limit::default()
    };
    let limit_past = |limited, shadow| LimitPast {
        allowed: wave(80.0),
        limited: wave(limited),
        shadow: wave(shadow),
        elsewhere: wave(20.0),
    };
    let answers = Answers { success: 300, server_error: 690, cut: 10, ..Answers::default() };
    let recent = Recent { seconds: 10, answers, p50_seconds: Some(0.05), p99_seconds: Some(0.6) };
    let route =
        |name: &str, limited| Route { name: name.to_owned(), limited, recent: recent.clone(), ..Route::default() };
    let origin = Origin {
        name: "shop".to_owned(),
        inflight: 301,
        limit: Some(400),
        queued: 4,
        errors: 12,
        shed: 77,
        recent: recent.clone(),
        addresses: [("10.1.0.10:8080", 1.0), ("10.1.0.11:8080", 0.0)]
            .map(|(address, healthy)| Address { address: address.to_owned(), healthy, ejections: 0 })
            .to_vec(),
        ..Origin::default()
    };
    let origin_past = OriginPast {
        inflight: wave(150.0),
        cap: vec![400.0; SECONDS],
        queue: wave(3.0),
        errors: wave(0.2),
        shed: wave(0.0),
        p50: wave(0.05),
        p95: wave(0.2),
        p99: wave(0.6),
        ended: wave(100.0),
        server_errors: wave(69.0),
        unanswered: wave(1.0),
        heat: vec![[100, 40, 20, 5, 1, 0]; 60],
    };
    let gauges =
        Gauges { capacity: Some(400.0), tokens: Some(61.2), kept: Some(50.0), waiting: Some(12), ..Gauges::default() };
    let tenants = Limit { gauges, shared: None, ..limit("tenants", "fair_share", "enforce", [0, 0, 0]) };
    let hostile = "<script>alert(1)</script>";
    let offender = |client: &str, count| Offender {
        client: client.to_owned(),
        network: "198.51.100.0/24".to_owned(),
        limit: "per_client".to_owned(),
        passed_share: Some(0.02),
        count,
        error: 3,
        share: 0.0,
        last_seen_seconds_ago: 2,
    };
    let state = State {
        condition: Condition {
            kind: ConditionKind::Flood,
            head: "A flood is being held off".to_owned(),
            text: "One network causes 95 % of the refusals; 5 % hit other clients.".to_owned(),
            since: 1_795_269_860,
            also: vec!["Origin `shop` fails: 70 % of its answers are errors".to_owned()],
            ..Condition::default()
        },
        overload: Some(Overload { pressure: 0.34, resource: "delay".into(), ..Overload::default() }),
        loads: vec![Load {
            at: 1_795_269_000,
            state: "refused".into(),
            text: "error[E0203]: `10/sec`".to_owned(),
            ..Load::default()
        }],
        instance: "edge-1".to_owned(),
        process: 4_711,
        version: "0.1.0".into(),
        uptime_seconds: 273_200,
        config: Config {
            fingerprint: "9f31c2e0aa4b17d2".to_owned(),
            generation: 2,
            in_force_seconds: 7_200,
            ..Config::default()
        },
        requests: Requests { unmatched: 12, ..Requests::default() },
        notices: vec![Notice {
            kind: Kind::ReloadRefused,
            urgent: true,
            subject: String::new(),
            text: "the last policy file was refused; the policy before it stays in force".to_owned(),
            hint: "mend what `tidegate check` tells".to_owned(),
            since: 1_795_270_000,
            details: "error[E0203]: invalid rate `10/sec`\n --> tidegate.yaml:4:11".to_owned(),
        }],
        routes: vec![route("shop", 1_733), route(hostile, 0)],
        limits: vec![
            limit("per_client", "rate", "enforce", [48_211, 1_733, 0]),
            limit("login", "quota", "shadow", [48_211, 912, 0]),
            tenants,
        ],
        origins: vec![origin],
        stores: vec![StoreState {
            name: "cluster".to_owned(),
            connected: true,
            breaker: BreakerState::Open,
            nodes: 3,
            questions: 4_321,
            answers: 4_300,
            waits: 97,
            fallbacks: 21,
            staleness_seconds: Some(0.42),
            last_fault: Some("no answer within 5ms".to_owned()),
            last_fault_seconds_ago: Some(65),
            ..StoreState::default()
        }],
        ..State::default()
    };
    View {
        state,
        routes_in_all: 2,
        now: 1_795_270_000,
        past: Past {
            second: Some(7_204),
            routes: [("shop".to_owned(), past.clone()), (hostile.to_owned(), past.clone())].into(),
            limits: [("per_client".to_owned(), limit_past(30.0, 0.0)), ("login".to_owned(), limit_past(0.0, 9.0))]
                .into(),
            origins: [("shop".to_owned(), origin_past)].into(),
            ..Past::default()
        },
        flow: past,
        offenders: Offenders {
            clients: vec![offender("mB3q_Xc0VZ1jz8zK2hHw4A", 1_200), offender("aaaaXc0VZ1jz8zK2hHw4Ag", 40)],
            networks: vec![Network {
                network: "198.51.100.0/24".to_owned(),
                count: 1_240,
                clients: 2,
                ..Network::default()
            }],
            total: 1_300,
            error_bound: 3,
        },
        bans: vec![BanState {
            number: 1,
            target: "mB3q_Xc0VZ1jz8zK2hHw4A".to_owned(),
            by: "alice (user 0)".to_owned(),
            why: hostile.to_owned(),
            ends_in_seconds: 7_000,
            refused: 77,
            ..BanState::default()
        }],
        decisions: vec![DecisionView {
            count: 1_204,
            outcome: "429 limited by `login`".to_owned(),
            routes: "shop".to_owned(),
            newest: "10:15:09".to_owned(),
            id: "7Q3M9F2KABCDE".to_owned(),
            explanation: "limits    login    LIMITED\n".to_owned(),
            ..DecisionView::default()
        }],
        shares: vec![ShareView {
            limit: "tenants".to_owned(),
            levels: vec!["/24".to_owned(), "client".to_owned()],
            clients: vec![
                (vec!["198.51.100.0/24".to_owned(), "mB3q_Xc0VZ1jz8zK2hHw4A".to_owned()], 700),
                (vec![hostile.to_owned(), hostile.to_owned()], 200),
            ],
            total: 1_000,
        }],
        ..View::default()
    }
}

#[test]
fn the_page_is_filled_before_any_script_has_run() {
    let page = page(&busy());
    for told in [
        "edge-1",
        "9f31c2e",
        "<rect class=\"failed\"",
        "A flood is being held off",
        "Also: Origin <code>shop</code>",
        " For 2 min 20 s.",
        "low, 0.34",
        "sudo tidegate ban mB3q_Xc0VZ1jz8zK2hHw4A --for 1h --why flood",
        "If you do nothing: the gate goes on refusing them; its pressure is 0.34.",
        "<b>× 1,204</b>",
        "198.51.100.0/24 70 %",
        "over ten minutes: 60 % within",
        "2xx 30 %, 5xx 69 %, cut 1 %",
        "✕ fails 70 %",
        "in use; its origin fails",
        "Requests: mean of the last 10 s; pictures: up to 10 min</caption>",
        "Refused elsewhere",
        "<data class=\"inflight-now\" value=\"301\">301</data>",
        "mB3q_Xc0VZ1jz8zK2hHw4A",
        "198.51.100.0/24",
        "invalid rate `10/sec`",
        "<rect class=\"limited\"",
        "tenants",
        "shared, lease",
        "◐ left alone (breaker open); knows other gates as of 0.4 s ago; 1 min 5 s ago: no answer within 5ms",
        "<data class=\"waits-total\" value=\"97\">97</data>",
        "<data class=\"fallbacks-total\" value=\"21\">21</data>",
        "429 limited by <code>login</code>",
        "LIMITED",
    ] {
        assert!(page.contains(told), "{told} is missing");
    }
    assert!(!page.contains("{{") && !page.contains("}}"), "a section was left out");
    assert!(!page.contains("NaN") && !page.contains("inf/"), "no number is none");
}

#[test]
fn a_table_has_one_window_and_says_it() {
    let page = page(&busy());
    for (at, _) in page.match_indices("<table") {
        let table = page[at..].split_once("</table>").expect("a table ends").0;
        let caption = table.split_once("<caption>").expect("a caption").1.split_once("</caption>").expect("it ends").0;
        let told = ["mean of the last 10 s", "halved every minute", "since the process started", "at this moment"];
        assert_eq!(told.iter().filter(|window| caption.to_lowercase().contains(*window)).count(), 1, "{caption}");
        assert!(!table.contains("in all"), "totals beside means: {caption}");
    }
}

#[test]
fn an_origin_that_answers_500_to_everything_is_nowhere_green() {
    let mut view = busy();
    let answers = Answers { server_error: 1_000, ..Answers::default() };
    let recent = Recent { seconds: 10, answers, ..Recent::default() };
    view.state.routes.iter_mut().for_each(|route| route.recent = recent.clone());
    view.state.origins.iter_mut().for_each(|origin| origin.recent = recent.clone());
    let sections: std::collections::HashMap<_, _> = sections(&view).collect();
    assert!(sections["origins"].contains("✕ fails 100 %") && !sections["origins"].contains("class=\"up\""));
    assert!(sections["routes"].contains("✕ 100 %"));
}

#[test]
fn a_name_cannot_become_markup() {
    let page = page(&busy());
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script>"), "escaped");
}

#[test]
fn a_process_that_did_nothing_yet_has_a_page_too() {
    let page = page(&View::default());
    for told in
        ["The policy has no routes.", "The policy has no limits.", "no origins", "No client was refused", "No policy"]
    {
        assert!(page.contains(told), "{told} is missing");
    }
    assert!(!page.contains("NaN"));
}

#[test]
fn the_three_questions_come_first_and_the_sections_in_their_order() {
    let page = page(&busy());
    let words = [
        ">Is it well?<",
        ">Who is it?<",
        ">What now?<",
        "id=\"h-flow",
        "id=\"h-who",
        "id=\"h-limits",
        "id=\"h-routes",
        "id=\"h-origins",
        "id=\"h-stores",
        "id=\"h-decisions",
        "id=\"h-policy",
    ];
    let places: Vec<usize> = words.iter().map(|word| page.find(word).expect(word)).collect();
    assert!(places.is_sorted(), "{places:?}");
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
    let different: std::collections::HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len(), "each id once: {ids:?}");
}

#[test]
fn without_a_token_no_client_no_address_and_no_notice_is_shown() {
    let mut view = busy();
    view.state.condition.kind = ConditionKind::Trouble;
    view.state.condition.head = "everybody behind 203.0.113.0/24 is one client".to_owned();
    let page = page(&view.without_names());
    for secret in ["198.51.100", "203.0.113", "mB3q_Xc0", "10.1.0.10", "10/sec", "alice", "7Q3M9F2KABCDE"] {
        assert!(!page.contains(secret), "{secret}");
    }
    assert!(page.contains("Something needs a look"));
}

#[test]
fn every_section_has_its_place_and_only_there() {
    for (name, _) in SECTIONS {
        let place = format!("id=\"{name}\"");
        assert_eq!(TEMPLATE.matches(&place).count(), 1, "{name}");
        assert_eq!(TEMPLATE.matches(&format!("{{{{{name}}}}}")).count(), 1, "{name}");
    }
}

#[test]
fn what_is_embedded_stays_small_and_asks_nobody_else() {
    let files = [TEMPLATE, include_str!("../page.css"), &super::super::SCRIPT];
    let bytes: usize = files.iter().map(|file| file.len()).sum();
    assert!(bytes <= 60 << 10, "{bytes} bytes");
    for file in files {
        assert!(!file.contains("://") && !file.contains("@import") && !file.contains("\"//"), "asks another server");
        // the content security policy allows neither
        assert!(!file.contains(" style=") && !file.contains(" onclick="), "inline style or script");
    }
    let page = page(&busy());
    assert!(bytes + page.len() <= 60 << 10, "{bytes} bytes and {} of a page", page.len());
    assert!(
        !page.contains(" style=") && !page.contains("onclick=") && !page.contains("onload="),
        "inline style or script"
    );
}
