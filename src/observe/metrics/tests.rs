mod document;
mod limits;
mod modes;
mod read;
mod stores;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes as Body;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use self::read::{all_read, backend, full};
use super::labels::REFUSALS;
use super::page::Page;
use super::*;
use crate::client::key::{KeyPart, KeySpec};
use crate::client::{ClientRules, ProxySet, Trust};
use crate::config::settings::{
    CertificateFiles, ClientCertificateMode, ClientCertificates, Drain, FilePath, Listener, Log, LogFormat, LogLevel,
    Tls,
};
use crate::engine::{Arrival, DecisionId, Engine, Reading, Readings};
use crate::limiter::{Kind, Scope, kinds};
use crate::observe::state;
use crate::policy::{
    Action, FixedAnswer, HeaderEdits, InflightCap, Mode, Origin, OriginAddress, Responses, Route, RouteTable, Rule,
    Timeouts,
};
use crate::request::{Peer, Request};
use crate::sketch::Seed;
use crate::units::{Bytes, Prefix, Rate, Share, Timestamp};

fn settings() -> Settings {
    let listener = |name: &str| Listener::new(name, "127.0.0.1:0".parse().unwrap());
    let file = |name: &str| FilePath { path: name.into(), written: name.to_owned() };
    let tls = Tls {
        certificates: vec![CertificateFiles { cert: file("cert"), key: file("key"), names: Vec::new() }],
        client_certificates: Some(ClientCertificates { ca: file("ca"), mode: ClientCertificateMode::Required }),
    };
    Settings {
        listeners: vec![listener("main"), Listener { tls: Some(tls), ..listener("other") }],
        threads: None,
        max_buffered: crate::units::Bytes(256 << 20),
        overload: None,
        state: None,
        direct: crate::config::settings::Direct::On,
        drain: Drain { delay: Duration::ZERO, timeout: Duration::ZERO },
        metrics: None,
        admin: None,
        access_log: None,
        log: Log { level: LogLevel::Info, format: LogFormat::Text },
        client_hmac: None,
        previous_client_hmac: None,
        store_passwords: Vec::new(),
        watch: None,
    }
}

fn rule(name: &str, mode: Mode) -> Arc<Rule> {
    let client = KeyPart::ClientIp { ipv4_prefix: None, ipv6_prefix: None };
    let rate = Rate::new(1, Duration::from_secs(1)).unwrap();
    let kind = Kind::Rate(kinds::Rate { rate, burst: 1, memory: Bytes(1 << 16) });
    let key = KeySpec::new([client], None).unwrap();
    Arc::new(Rule::new(name, key, kind, mode))
}

fn inflight(name: &str) -> Arc<Rule> {
    let kind = Kind::Inflight(kinds::Inflight { max: 5, upgraded: 5, scope: Scope::Global });
    let key = KeySpec::new([KeyPart::Global], None).unwrap();
    Arc::new(Rule { key, kind, ..(*rule(name, Mode::Enforce)).clone() })
}

fn route(name: &str, rules: Vec<usize>) -> Route {
    Route {
        name: name.to_owned(),
        matches: Vec::new(),
        rules,
        action: match name {
            "shop" => Action::Forward(0),
            _ => Action::Respond(FixedAnswer { status: StatusCode::OK, body: Body::new(), headers: HeaderMap::new() }),
        },
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        cors: None,
        limited: Default::default(),
        overloaded: Default::default(),
        deny: Default::default(),
        body_limit: None,
        timeouts: Timeouts::default(),
        criticality: Default::default(),
    }
}

fn origin(name: &str) -> Arc<Origin> {
    let address = |port| OriginAddress { host: "127.0.0.1".into(), port, weight: 1, resolve: Duration::ZERO };
    let inflight = Some(InflightCap::of(1));
    Arc::new(Origin { inflight, ..Origin::of(name.to_owned(), vec![address(1), address(2)]) })
}

fn policy(rules: Vec<Arc<Rule>>, routes: Vec<Route>, origins: Vec<Arc<Origin>>) -> Policy {
    let proxies = ProxySet::new([Prefix::new("127.0.0.0".parse().unwrap(), 8).unwrap()], false);
    Policy {
        clients: ClientRules { trust: Trust::Proxies(proxies), ..ClientRules::default() },
        repeated_fields: Default::default(),
        tiers: Vec::new(),
        rules,
        origins,
        stores: vec![Arc::new(stores::spec())],
        routes: RouteTable::new(routes),
        responses: Responses::default(),
    }
}

/// Two routes, three limits, one origin, one store.
fn shop() -> Policy {
    policy(
        vec![rule("per_client", Mode::Enforce), rule("probe", Mode::Shadow), inflight("at_once")],
        vec![route("shop", vec![0, 1, 2]), route("api", vec![0])],
        vec![origin("backend")],
    )
}

/// A limit by two nodes.
fn fair_share(name: &str) -> Arc<Rule> {
    let kind = Kind::FairShare(kinds::FairShare::of(Rate::new(1_000, Duration::from_secs(1)).unwrap()));
    let node = |part: &str| KeySpec::new([part.parse().unwrap()], None).unwrap();
    let nodes = vec![node("client_ip"), node("client_ip:ipv4_prefix=24,ipv6_prefix=48")];
    Arc::new(Rule { kind, nodes, ..(*rule(name, Mode::Enforce)).clone() })
}

/// [`shop`] with a limit more on each route.
fn fair_shop() -> Policy {
    let mut by_key = (*rule("by_key", Mode::Enforce)).clone();
    by_key.instead = Some(0);
    policy(
        vec![rule("per_client", Mode::Enforce), rule("probe", Mode::Shadow), fair_share("fair"), Arc::new(by_key)],
        vec![route("shop", vec![0, 1, 2]), route("api", vec![3])],
        vec![origin("backend")],
    )
}

fn complete(policy: &Policy) -> Metrics {
    Metrics::new(policy, &settings(), "9f31c2e0aa4b")
}

fn page(metrics: &Metrics) -> Page {
    Page::read(&metrics.render(&all_read()))
}

fn reading(rule: usize, mode: Mode, outcome: Outcome) -> Reading {
    Reading { rule, mode, outcome, ..template() }
}

/// A reading of the engine's own, for the fields that metrics do not look at.
fn template() -> Reading {
    let engine = Engine::new(shop(), &Seed::from_bytes([1; 16]), 0).unwrap();
    decide(&engine, "127.0.0.1", None, 0).readings[0]
}

fn decide(engine: &Engine, peer: &str, forwarded: Option<&str>, number: u64) -> Decision {
    let mut headers = HeaderMap::new();
    if let Some(forwarded) = forwarded {
        headers.insert("x-forwarded-for", HeaderValue::from_str(forwarded).unwrap());
    }
    let peer = Peer::Ip(peer.parse().unwrap());
    let request =
        Request { peer, method: &Method::GET, host: "a", path: "/", query: None, headers: &headers, tls_sni: None };
    let arrival = Arrival { id: DecisionId(number), at: Timestamp::from_nanos(number), dice: number };
    engine.decide(&request, arrival).0
}

fn decision(route: Option<usize>, verdict: Verdict, readings: &[Reading]) -> Decision {
    let readings: Readings = readings.iter().copied().collect();
    let at = Timestamp::ZERO;
    Decision {
        id: DecisionId(0),
        at,
        dice: 0,
        client: None,
        route,
        class: Default::default(),
        answers_preflight: false,
        readings,
        delay_nanos: 0,
        no_place: None,
        ban: None,
        verdict,
    }
}

#[test]
fn the_page_shows_the_catalogue_and_nothing_else() {
    let page = page(&complete(&fair_shop()));
    let mut expected: Vec<&str> = all::ALL.iter().map(|family| family.name).collect();
    expected.sort_unstable();
    assert_eq!(page.families.keys().collect::<Vec<_>>(), expected);
    for family in all::ALL {
        let shown = &page.families[family.name];
        assert_eq!(shown.kind, family.kind.word(), "{}", family.name);
        assert_eq!(shown.help, family.help, "{}", family.name);
        let labels: std::collections::BTreeSet<String> =
            family.labels.iter().map(|label| (*label).to_owned()).collect();
        assert_eq!(shown.labels, labels, "{}", family.name);
    }
}

#[test]
fn a_hundred_thousand_clients_do_not_move_the_number_of_series() {
    let engine = Engine::new(shop(), &Seed::from_bytes([1; 16]), 0).unwrap();
    let metrics = complete(engine.policy());
    let before = page(&metrics).samples.len();
    let mut random = 7_u64;
    for number in 0..100_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let client = IpAddr::V4(Ipv4Addr::from_bits((random >> 32) as u32)).to_string();
        metrics.decision(&decide(&engine, "127.0.0.1", Some(&client), number), None);
        metrics.request_done(number as usize % 3, Some(number as usize % 3), (random >> 20) as u16, Duration::ZERO);
    }
    let page = page(&metrics);
    assert_eq!(page.samples.len(), before);
    let verdicts = ["allowed", "limited", "exempt"].map(|verdict| {
        page.value(&format!(
            "tidegate_limit_decisions_total{{limit=\"per_client\",mode=\"enforce\",route=\"shop\",verdict=\"{verdict}\"}}"
        ))
    });
    assert_eq!(verdicts.iter().sum::<f64>(), 100_000.0, "{verdicts:?}");
}

#[test]
fn every_reading_counts_for_its_route_limit_mode_and_verdict() {
    let metrics = complete(&shop());
    let refused = Verdict::Refused(Refusal::Limit);
    let readings = [
        reading(0, Mode::Enforce, Outcome::Refused),
        reading(1, Mode::Shadow, Outcome::Refused),
        reading(2, Mode::Enforce, Outcome::Exempt),
    ];
    metrics.decision(&decision(Some(0), refused, &readings), Some(0));
    metrics.decision(&decision(Some(1), Verdict::Admitted, &[reading(0, Mode::Enforce, Outcome::Admitted)]), None);
    let page = page(&metrics);
    let verdicts = |route, limit, mode, verdict| {
        page.value(&format!(
            "tidegate_limit_decisions_total{{limit=\"{limit}\",mode=\"{mode}\",route=\"{route}\",verdict=\"{verdict}\"}}"
        ))
    };
    assert_eq!(verdicts("shop", "per_client", "enforce", "limited"), 1.0);
    assert_eq!(verdicts("shop", "probe", "shadow", "limited"), 1.0);
    assert_eq!(verdicts("shop", "at_once", "enforce", "exempt"), 1.0);
    assert_eq!(verdicts("api", "per_client", "enforce", "allowed"), 1.0);
    assert_eq!(verdicts("api", "per_client", "enforce", "limited"), 0.0);
    assert_eq!(page.value("tidegate_refused_requests_total{reason=\"limit\",route=\"shop\"}"), 1.0);
    assert_eq!(page.value("tidegate_limit_contended_total{limit=\"per_client\"}"), 1.0);
    assert_eq!(page.value("tidegate_limit_contended_total{limit=\"probe\"}"), 0.0);
}

#[test]
fn a_reading_out_of_its_order_still_counts_for_its_own_limit() {
    let metrics = complete(&shop());
    metrics.decision(&decision(Some(0), Verdict::Admitted, &[reading(2, Mode::Enforce, Outcome::Admitted)]), None);
    let series =
        "tidegate_limit_decisions_total{limit=\"at_once\",mode=\"enforce\",route=\"shop\",verdict=\"allowed\"}";
    assert_eq!(page(&metrics).value(series), 1.0);
}

#[test]
fn every_refusal_has_its_own_word() {
    let metrics = complete(&shop());
    for refusal in REFUSALS {
        metrics.decision(&decision(None, Verdict::Refused(refusal), &[]), None);
    }
    let page = page(&metrics);
    for word in Refusal::ALL.iter().map(|refusal| refusal.word()) {
        let series = format!("tidegate_refused_requests_total{{reason=\"{word}\",route=\"_none\"}}");
        assert_eq!(page.value(&series), 1.0, "{word}");
    }
}

#[test]
fn clients_count_by_where_their_address_came_from() {
    let engine = Engine::new(shop(), &Seed::from_bytes([1; 16]), 0).unwrap();
    let metrics = complete(engine.policy());
    let ask = |peer, forwarded| metrics.decision(&decide(&engine, peer, forwarded, 1), None);
    ask("192.0.2.1", None);
    ask("192.0.2.1", Some("6.6.6.6"));
    ask("127.0.0.1", Some("6.6.6.6"));
    ask("127.0.0.1", Some("nonsense"));
    ask("127.0.0.1", Some("nonsense, 127.0.0.2"));
    ask("127.0.0.1", Some("127.0.0.3, 127.0.0.2"));
    metrics.decision(&decision(None, Verdict::Refused(Refusal::ClientUnresolved), &[]), None);
    let page = page(&metrics);
    let count = |result, source| {
        page.value(&format!("tidegate_client_address_total{{result=\"{result}\",source=\"{source}\"}}"))
    };
    assert_eq!(count("verified", "peer"), 1.0);
    assert_eq!(count("ignored_header", "peer"), 1.0);
    assert_eq!(count("verified", "forwarded"), 1.0);
    assert_eq!(count("degraded", "peer"), 1.0);
    assert_eq!(count("degraded", "forwarded"), 1.0);
    assert_eq!(count("all_trusted", "forwarded"), 1.0);
    assert_eq!(count("rejected", "forwarded"), 1.0);
    assert_eq!(count("short", "peer"), 0.0);
}

#[test]
fn ended_requests_count_by_class_and_the_clients_that_left_apart() {
    let metrics = complete(&shop());
    for status in [101, 200, 204, 304, 404, 429, 499, 0, 502, 999] {
        metrics.request_done(0, Some(0), status, Duration::from_millis(3));
    }
    metrics.request_done(1, None, 404, Duration::from_millis(3));
    metrics.request_done(9, Some(9), 200, Duration::from_millis(3));
    let page = page(&metrics);
    let counts = ["1xx", "2xx", "3xx", "4xx", "5xx", "aborted"].map(|code| {
        page.value(&format!("tidegate_requests_total{{code=\"{code}\",listener=\"main\",route=\"shop\"}}"))
    });
    assert_eq!(counts, [1.0, 2.0, 1.0, 2.0, 2.0, 2.0]);
    assert_eq!(page.value("tidegate_requests_total{code=\"4xx\",listener=\"other\",route=\"_none\"}"), 1.0);
    assert_eq!(page.value("tidegate_request_duration_seconds_count{route=\"shop\"}"), 10.0);
    assert_eq!(page.value("tidegate_request_duration_seconds_bucket{route=\"shop\",le=\"0.0025\"}"), 0.0);
    assert_eq!(page.value("tidegate_request_duration_seconds_bucket{route=\"shop\",le=\"0.005\"}"), 10.0);
    assert_eq!(page.value("tidegate_request_duration_seconds_count{route=\"_none\"}"), 2.0);
}

#[test]
fn what_happens_at_the_edge_and_at_origins_is_counted() {
    let metrics = complete(&shop());
    metrics.connection_opened(0);
    metrics.connection_opened(0);
    metrics.connection_closed(0);
    metrics.connection_refused(0, "accept_failed");
    metrics.malformed("folding");
    metrics.malformed("a word that nobody told us");
    metrics.origin_shed(0, "queue_timeout", Criticality::Sheddable);
    metrics.origin_connection(0, true);
    metrics.origin_error(0, OriginError::Timeout);
    metrics.origin_retry(0);
    metrics.origin_retry_refused(0);
    metrics.origin_retry_refused(0);
    metrics.origin_done(0, Some(Ending::Failed), Duration::from_secs(3));
    // positions that no policy has are nobody's
    metrics.connection_opened(7);
    metrics.origin_retry(7);
    let page = page(&metrics);
    assert_eq!(page.value("tidegate_connections{listener=\"main\"}"), 1.0);
    assert_eq!(page.value("tidegate_connections_accepted_total{listener=\"main\"}"), 2.0);
    assert_eq!(page.value("tidegate_connections_refused_total{listener=\"main\",reason=\"accept_failed\"}"), 1.0);
    assert_eq!(page.value("tidegate_malformed_requests_total{reason=\"folding\"}"), 1.0);
    assert_eq!(page.value("tidegate_malformed_requests_total{reason=\"other\"}"), 1.0);
    assert_eq!(
        page.value(
            "tidegate_origin_shed_requests_total{criticality=\"sheddable\",origin=\"backend\",reason=\"queue_timeout\"}"
        ),
        1.0
    );
    assert_eq!(page.value("tidegate_origin_connections_total{origin=\"backend\",reused=\"true\"}"), 1.0);
    assert_eq!(page.value("tidegate_origin_errors_total{origin=\"backend\",reason=\"timeout\"}"), 1.0);
    assert_eq!(page.value("tidegate_origin_retries_total{origin=\"backend\"}"), 1.0);
    assert_eq!(page.value("tidegate_origin_retries_refused_total{origin=\"backend\"}"), 2.0);
    assert_eq!(page.value("tidegate_origin_request_duration_seconds_sum{origin=\"backend\",route=\"shop\"}"), 3.0);
    let failed = "tidegate_origin_answers_total{code=\"failed\",origin=\"backend\",route=\"shop\"}";
    assert_eq!(page.value(failed), 1.0);
}

#[test]
fn what_lives_elsewhere_is_shown_where_it_applies() {
    let metrics = complete(&shop());
    assert_eq!(page(&metrics).value("tidegate_origin_inflight_requests{origin=\"backend\"}"), 3.0);
    let read = State { origins: vec![state::Origin { limit: None, ..backend() }], ..all_read() };
    let page = Page::read(&metrics.render(&read));
    assert!(!page.has("tidegate_origin_inflight_limit{origin=\"backend\"}"));
    for (labels, held) in [("by=\"client\"", 2.0), ("by=\"network\"", 3.0)] {
        assert_eq!(page.value(&format!("tidegate_origin_most_held_requests{{origin=\"backend\",{labels}}}")), held);
    }
    assert_eq!(page.value("tidegate_origin_reserve_places{origin=\"backend\"}"), 1.5);
    assert_eq!(page.value("tidegate_limit_inflight_requests{limit=\"at_once\"}"), 2.0);
    assert_eq!(page.value("tidegate_limit_memory_bytes{limit=\"per_client\"}"), 4096.0);
    assert!(!page.has("tidegate_limit_inflight_requests{limit=\"per_client\"}"));
    for (series, value) in [
        ("upgraded_connections", 3.0),
        ("exact_keys", 5.0),
        ("load_ratio", 0.25),
        ("displaced_total", 6.0),
        ("pending_units", 7.0),
        ("token_requests", 3.75),
        ("capacity_requests_per_second", 1_000.0),
        ("waiting_requests", 9.0),
    ] {
        assert_eq!(page.value(&format!("tidegate_limit_{series}{{limit=\"at_once\"}}")), value, "{series}");
        assert!(!page.has(&format!("tidegate_limit_{series}{{limit=\"per_client\"}}")), "{series}");
    }
    assert_eq!(page.value("tidegate_log_dropped_total{stream=\"access\"}"), 5.0);
}

#[test]
fn a_new_policy_goes_on_counting_what_stays_and_ends_what_goes() {
    let first = complete(&shop());
    first.request_done(0, Some(0), 200, Duration::ZERO);
    first.request_done(0, Some(1), 200, Duration::ZERO);
    let routes = vec![route("new", vec![0]), route("shop", vec![0])];
    let second = first.next(&policy(vec![rule("per_client", Mode::Enforce)], routes, Vec::new()), "41ab770c0ffe");
    second.request_done(0, Some(1), 200, Duration::ZERO);
    second.reload_succeeded(2);
    // a request that was still under way when its route went
    first.request_done(0, Some(1), 200, Duration::ZERO);
    let page = Page::read(&second.render(&State::default()));
    assert_eq!(page.value("tidegate_requests_total{code=\"2xx\",listener=\"main\",route=\"shop\"}"), 2.0);
    assert_eq!(page.value("tidegate_requests_total{code=\"2xx\",listener=\"main\",route=\"new\"}"), 0.0);
    let gone = ["route=\"api\"", "origin=", "limit=\"at_once\"", "mode=\"shadow\"", "9f31c2e0aa4b"];
    for series in page.samples.keys() {
        assert!(!gone.iter().any(|gone| series.contains(gone)), "{series}");
    }
    assert_eq!(page.value("tidegate_policy_generation"), 2.0);
    assert_eq!(page.value("tidegate_policy_info{fingerprint=\"41ab770c0ffe\"}"), 1.0);
}

#[test]
fn a_refused_reload_shows_until_one_succeeds() {
    let metrics = complete(&shop());
    let state =
        |page: Page| (page.value("tidegate_policy_generation"), page.value("tidegate_config_last_reload_successful"));
    assert_eq!(state(page(&metrics)), (1.0, 1.0));
    metrics.reload_failed();
    assert_eq!(state(page(&metrics)), (1.0, 0.0));
    metrics.reload_succeeded(2);
    assert_eq!(state(page(&metrics)), (2.0, 1.0));
    let page = page(&metrics);
    assert_eq!(page.value("tidegate_config_reloads_total{result=\"success\"}"), 1.0);
    assert_eq!(page.value("tidegate_config_reloads_total{result=\"failure\"}"), 1.0);
    assert!(page.value("tidegate_config_last_reload_success_timestamp_seconds") > 1.7e9);
}

#[test]
fn names_cannot_break_the_page() {
    let name = "a\"b\\c\nd";
    let metrics = Metrics::new(&policy(Vec::new(), vec![route(name, Vec::new())], Vec::new()), &settings(), "");
    assert!(page(&metrics).has("tidegate_requests_total{code=\"2xx\",listener=\"main\",route=\"a\\\"b\\\\c\\nd\"}"));
}

#[test]
fn totals_are_what_the_page_says_added_up() {
    let metrics = complete(&shop());
    let refused = Verdict::Refused(Refusal::Limit);
    let readings = [reading(0, Mode::Enforce, Outcome::Refused), reading(1, Mode::Shadow, Outcome::Refused)];
    metrics.decision(&decision(Some(0), refused, &readings), None);
    metrics.decision(&decision(Some(1), Verdict::Admitted, &[reading(0, Mode::Enforce, Outcome::Admitted)]), None);
    metrics.decision(&decision(Some(0), Verdict::Refused(Refusal::OriginFull), &[]), None);
    for (route, status) in [(Some(0), 429), (Some(1), 200), (Some(0), 503), (None, 404)] {
        metrics.request_done(0, route, status, Duration::ZERO);
    }
    metrics.origin_done(0, Some(Ending::Status(200)), Duration::from_millis(3));
    metrics.origin_done(0, Some(Ending::Status(500)), Duration::from_secs(100));
    metrics.origin_done(0, None, Duration::ZERO);
    metrics.origin_error(0, OriginError::Reset);
    let totals = metrics.state();
    let route = |index: usize| (totals.routes[index].ended, totals.routes[index].limited, totals.routes[index].shed);
    assert_eq!((route(0), route(1), totals.requests.unmatched), ((2, 1, 1), (1, 0, 0), 1));
    let limit = |index: usize| {
        (totals.limits[index].allowed(), totals.limits[index].limited(), totals.limits[index].shadowed())
    };
    assert_eq!((limit(0), limit(1)), ((1, 1, 0), (0, 0, 1)), "one limit of two routes; a shadow");
    let (route, origin) = (&totals.routes[0], &totals.origins[0]);
    assert_eq!((origin.errors, route.durations.iter().sum::<u64>()), (1, 3));
    assert_eq!((route.durations[3], route.durations.last()), (1, Some(&1)), "{:?}", route.durations);
    assert_eq!(route.durations.len(), totals.bounds.len() + 1);
    assert_eq!((origin.answers, route.origin), (route.answers, Some(0)));
    assert_eq!((origin.answers.success, origin.answers.server_error, origin.answers.total()), (1, 1, 2));
}

#[test]
fn what_a_limit_allows_and_a_full_origin_refuses_is_told_apart() {
    let metrics = complete(&shop());
    let allowed = [reading(0, Mode::Enforce, Outcome::Admitted)];
    metrics.decision(&decision(Some(0), Verdict::Admitted, &allowed), None);
    metrics.decision(&decision(Some(0), Verdict::Refused(Refusal::OriginFull), &allowed), None);
    metrics.decision(&decision(Some(0), Verdict::Refused(Refusal::OriginFull), &allowed), None);
    let limit = &metrics.state().limits[0];
    assert_eq!((limit.allowed(), limit.refused_elsewhere, limit.admitted()), (3, 2, 1));
    let series = "tidegate_limit_refused_elsewhere_total{limit=\"per_client\",mode=\"enforce\",route=\"shop\"}";
    assert_eq!(page(&metrics).value(series), 2.0);
}
