//! The thresholds against replayed traffic: minutes of a real shop and a real day as they are, then with floods and a crowd upon them,
//! through the engine in virtual time.

use std::collections::VecDeque;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use http::{HeaderMap, Method};
use tidegate_offline::gate::{Course, HEAD_START, OfflineGate, PlaceAt, Step as GateStep, Submission, What};

use super::*;
use crate::config::load_text;
use crate::engine::{Arrival, DecisionId};
use crate::observe::notices::notice::{Kind as NoticeKind, Notice};
use crate::observe::offenders::MostRefused;
use crate::observe::state::{Config, Limit, Listener, Network, Offender, Offenders, Overload, State};
use crate::request::{Peer, Request};
use crate::sketch::Seed;

const BEGINS: u64 = HEAD_START.as_nanos() as u64;
const SECOND: f64 = 1e9;

/// A request: when, in seconds, and from where.
type Asks = (f64, Ipv4Addr);

/// What was seen in one second.
#[derive(Debug, Clone)]
struct Told {
    second: usize,
    kind: ConditionKind,
    text: String,
    /// Refused per second and of all, and the worst network's share of it.
    refused: f64,
    share: f64,
    worst: f64,
}

/// Plays requests in their order through a policy, and tells the condition at the end of each second.
fn played(limits: &str, mut requests: Vec<Asks>) -> Vec<Told> {
    requests.sort_by(|one, other| one.0.total_cmp(&other.0));
    let names: Vec<&str> = limits.lines().filter_map(|line| Some(line.trim().split_once(':')?.0)).collect();
    let text = format!(
        "listen: \":8080\"\nlimits:\n{limits}\nroutes:\n  - {{ name: site, limits: [{}], respond: {{ status: 200, body: ok }} }}\n",
        names.join(", ")
    );
    let loaded = load_text("test.yaml", &text, &|_| None, Path::new("."));
    let policy = loaded.outcome.unwrap_or_else(|faults| panic!("{faults:?}\n{text}")).policy;
    let mut gate = OfflineGate::new(policy, 0, Duration::from_secs(1)).unwrap();
    let most_refused = MostRefused::new(1, Seed::from_bytes([7; 16]));
    let (watch, mut told, mut window) = (Watch::default(), Vec::new(), VecDeque::from([[0.0; 2]; 10]));
    let (headers, mut next) = (HeaderMap::new(), 0);
    let last = requests.last().map_or(0.0, |request| request.0) as usize + 1;
    for second in 0..last + 90 {
        let mut counts = [0.0; 2];
        let mut report = |step: GateStep<'_, ()>| match step.what {
            What::Refused => {
                counts[0] += 1.0;
                counts[1] += 1.0;
                most_refused.note(step.engine, step.evaluation);
            }
            What::Admitted => counts[0] += 1.0,
            _ => {}
        };
        while let Some((at, from)) = requests.get(next).filter(|(at, _)| *at < second as f64 + 1.0) {
            let peer = Peer::Ip(IpAddr::V4(*from));
            let request = Request {
                peer,
                method: &Method::GET,
                host: "a",
                path: "/",
                query: None,
                headers: &headers,
                tls_sni: None,
            };
            let at = Timestamp::from_nanos(BEGINS + (at * SECOND) as u64);
            let arrival = Arrival { id: DecisionId(next as u64), at, dice: next as u64 };
            let course = Course::Known { takes: Duration::ZERO, status: None, bytes: 0, place: PlaceAt::Found };
            gate.submit(Submission { request: &request, client: None, arrival, course, of: () }, &mut report);
            next += 1;
        }
        let now = Timestamp::from_nanos(BEGINS + (second as u64 + 1) * 1_000_000_000);
        gate.advance(now, &mut report);
        window.pop_front();
        window.push_back(counts);
        let mean = |which: usize| window.iter().map(|counts| counts[which]).sum::<f64>() / 10.0;
        let (requests, refused) = (mean(0), mean(1));
        let much = is_much_refused(requests, refused);
        let refusals = much.then(|| Refusals { networks: most_refused.list(now).shares() });
        let worst = refusals.as_ref().and_then(|refusals| refusals.networks.first().copied()).unwrap_or(0.0);
        let sight = Sight { requests, refused, refusals, any_request: next > 0, ..Sight::default() };
        watch.look(&sight, now, second as u64);
        let Condition { kind, head, text, .. } = Condition::clone(&watch.condition());
        let text = format!("{head}. {text}");
        told.push(Told { second, kind, text, refused, share: refused / requests.max(1e-9), worst });
    }
    told
}

/// The requests of a log in the combined format, from its first second on; names of hosts become addresses.
fn logged(file: &str) -> Vec<Asks> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text);
    let line = |line: &str| {
        let (from, rest) = line.split_once(' ')?;
        let clock = rest.split_once('[')?.1.get(12..20)?;
        let parts: Vec<f64> = clock.split(':').filter_map(|part| part.parse().ok()).collect();
        let [hours, minutes, seconds] = parts.try_into().ok()?;
        let address = from.parse().unwrap_or_else(|_| {
            let hash =
                from.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
            Ipv4Addr::from(hash)
        });
        Some((hours * 3_600.0 + minutes * 60.0 + seconds, address))
    };
    let requests: Vec<Asks> = text.lines().filter_map(line).collect();
    let first = requests.first().map_or(0.0, |request| request.0);
    requests.into_iter().map(|(at, from)| (at - first, from)).collect()
}

/// Three minutes of a real shop, twenty of them at once: each at its own pace, from clients of its own.
fn shops() -> Vec<Asks> {
    let shop = logged("shop-2019-combined.log.gz");
    let of = |copy: u8| {
        shop.iter().map(move |(at, from)| {
            let [a, b, c, d] = from.octets();
            (at + f64::from(copy) / 20.0, Ipv4Addr::new(a.wrapping_add(copy * 7), b ^ copy, c, d))
        })
    };
    (0..20).flat_map(of).collect()
}

/// Requests from `from` to `to`, so many a second and evenly, from the address of each number.
fn stream(from: f64, to: f64, a_second: f64, address: impl Fn(u32) -> Ipv4Addr) -> Vec<Asks> {
    let all = ((to - from) * a_second) as u32;
    (0..all).map(|number| (from + f64::from(number) / a_second, address(number))).collect()
}

/// What fits the shop: `tidegate suggest` proposes about this for it.
const FITS: &str = "  per_client: { key: client_ip, rate: 2/s, burst: 60 }";

fn kinds(told: &[Told]) -> Vec<ConditionKind> {
    let mut kinds: Vec<ConditionKind> = told.iter().map(|told| told.kind).collect();
    kinds.dedup();
    kinds
}

fn shown(name: &str, told: &[Told]) {
    let most = |of: fn(&Told) -> f64| told.iter().map(of).fold(0.0, f64::max);
    println!(
        "{name:32} {:?}: most refused {:.1}/s, {:.1} % of all, worst network {:.0} %",
        kinds(told),
        most(|told| told.refused),
        100.0 * most(|told| told.share),
        100.0 * most(|told| told.worst)
    );
}

#[test]
fn real_traffic_under_limits_that_fit_is_well_all_the_time() {
    for (name, requests) in [("shop", shops()), ("nasa", logged("nasa-1995-08-01.clf.gz"))] {
        let told = played(FITS, requests);
        shown(name, &told);
        assert!(told.len() > 150, "{name} is no empty log");
        assert_eq!(kinds(&told), [ConditionKind::Well], "{name}");
    }
}

#[test]
fn a_flood_is_told_within_seconds_and_ends_half_a_minute_after_it() {
    let host = |_| Ipv4Addr::new(198, 51, 100, 66);
    let hosts = |number: u32| Ipv4Addr::new(198, 51, 100, (number % 200) as u8);
    let three = |number: u32| Ipv4Addr::new(198, 51, (number % 3) as u8, (number / 3 % 200) as u8);
    // beside the usual shop, which makes a tenth to a half of the requests
    type From<'a> = &'a dyn Fn(u32) -> Ipv4Addr;
    let scenes: [(&str, f64, From<'_>); 4] = [
        ("one host, 20/s", 20.0, &host),
        ("one host, 1,000/s", 1_000.0, &host),
        ("200 hosts of a /24, 1,000/s", 1_000.0, &hosts),
        ("three /24, 3,000/s", 3_000.0, &three),
    ];
    for (name, a_second, address) in scenes {
        let requests = shops().into_iter().chain(stream(60.0, 120.0, a_second, address)).collect();
        let told = played(FITS, requests);
        shown(name, &told);
        assert_eq!(kinds(&told), [ConditionKind::Well, ConditionKind::Flood, ConditionKind::Well], "{name}");
        let of_flood: Vec<usize> =
            told.iter().filter(|told| told.kind == ConditionKind::Flood).map(|told| told.second).collect();
        let (first, last) = (of_flood[0], of_flood[of_flood.len() - 1]);
        // a burst passes first, and rates are means of ten seconds
        assert!((60..85).contains(&first), "{name}: told from second {first} on");
        assert!((148..165).contains(&last), "{name}: told up to second {last}");
        let text = &told[100].text;
        let networks = if name.starts_with("three") { "3 networks cause" } else { "One network causes" };
        assert!(text.contains(networks) && text.contains("hit other clients"), "{name}: {text}");
    }
}

#[test]
fn many_clients_of_many_networks_are_a_crowd() {
    let bots = |number: u32| Ipv4Addr::from(0x0b00_0000 + (number % 2_000) * 65_537);
    let crowd = "  crowd: { type: fair_share, capacity: 200/s }";
    // each somewhat above its own limit, and each within it but all together too many
    for (name, limit, a_second) in [("bots", FITS, 8_000.0), ("a sale", crowd, 1_500.0)] {
        let requests = shops().into_iter().chain(stream(60.0, 120.0, a_second, bots)).collect();
        let told = played(limit, requests);
        shown(name, &told);
        assert_eq!(kinds(&told), [ConditionKind::Well, ConditionKind::Crowd, ConditionKind::Well], "{name}");
        assert!(told[100].text.contains("No network stands out"), "{}", told[100].text);
    }
}

#[test]
fn one_who_guesses_passwords_is_an_offender_and_no_flood() {
    let guesses = stream(20.0, 150.0, 1.5, |_| Ipv4Addr::new(198, 51, 100, 66));
    let told = played("  login: { key: client_ip, rate: 5/m, burst: 5 }", guesses);
    shown("guesses", &told);
    assert!(told.iter().any(|told| told.refused > 1.0), "most of them are refused");
    assert_eq!(kinds(&told), [ConditionKind::NoRequest, ConditionKind::Well]);
}

#[test]
fn pressure_has_to_last_and_goes_before_everything_but_a_stop() {
    let watch = Watch::default();
    let overload = |pressure: f64| {
        let overload = Overload { pressure, resource: "delay".into(), refusing: true, ..Overload::default() };
        Sight { overload: Some(overload), any_request: true, ..Sight::default() }
    };
    let mut kinds = Vec::new();
    let at = |second: u64| Timestamp::from_nanos(BEGINS + second * 1_000_000_000);
    for (second, pressure) in
        [(0, 0.9), (3, 0.9), (4, 0.5), (5, 0.9), (9, 0.9), (10, 0.9), (11, 0.1), (39, 0.1), (40, 0.1)]
    {
        watch.look(&overload(pressure), at(second), second);
        kinds.push(watch.condition().kind);
    }
    use ConditionKind::{Overloaded, Well};
    assert_eq!(kinds, [Well, Well, Well, Well, Well, Overloaded, Overloaded, Overloaded, Well]);
    watch.look(&Sight { stopping: true, ..overload(0.1) }, at(41), 41);
    assert_eq!((watch.condition().kind, watch.condition().since), (ConditionKind::Stopping, 41));
}

#[test]
fn an_origin_that_fails_is_named_and_what_else_holds_is_told_beside() {
    let origin = |usable, ended, server_errors| OriginSight {
        name: "shop".to_owned(),
        addresses: 2,
        usable,
        ended,
        server_errors,
        unanswered: 0.0,
    };
    let of = |origin: OriginSight| {
        let refusals = Some(Refusals { networks: vec![0.74, 0.24, 0.01] });
        let sight = Sight {
            origins: vec![origin],
            requests: 100.0,
            refused: 50.0,
            refusals,
            any_request: true,
            ..Sight::default()
        };
        let watch = Watch::default();
        watch.look(&sight, Timestamp::from_nanos(BEGINS), 7);
        Condition::clone(&watch.condition())
    };
    let failing = of(origin(1, 100.0, 38.0));
    assert_eq!(failing.head, "Origin `shop` fails: 38 % of its answers are errors");
    assert_eq!(
        failing.text,
        "In the last 10 s it answered 5xx to 38 % of its requests. 1 of its 2 addresses is out of use."
    );
    assert_eq!(failing.also, ["A flood is being held off"]);
    assert_eq!(of(origin(0, 0.0, 0.0)).head, "Origin `shop` is down: no address of it is in use");
    let few = of(origin(2, 19.0, 19.0));
    assert_eq!(
        few.text,
        "2 networks cause 98 % of the refusals; 2 % hit other clients. 50 % of all requests are refused."
    );
}

#[test]
fn a_store_and_an_urgent_notice_are_trouble() {
    let notice = Notice {
        kind: NoticeKind::ReloadRefused,
        urgent: true,
        text: "the last policy file was refused".to_owned(),
        hint: "mend it".to_owned(),
        ..Notice::default()
    };
    let shadow = Notice { kind: NoticeKind::ShadowOld, ..Notice::default() };
    let sight = Sight {
        notices: vec![shadow.clone(), notice],
        silent_stores: vec!["redis".to_owned()],
        any_request: true,
        ..Sight::default()
    };
    let heads: Vec<String> = judge(&sight, false).into_iter().map(|finding| finding.head).collect();
    assert_eq!(heads, ["The store `redis` does not answer", "The last policy file was refused"]);
    assert_eq!(judge(&Sight { notices: vec![shadow], ..Sight::default() }, false), []);
}

/// A state of this condition.
fn state(kind: ConditionKind) -> State {
    State {
        condition: Condition { kind, ..Condition::default() },
        config: Config { file: Some("/etc/tidegate/tidegate.yaml".into()), ..Config::default() },
        access_log: Some("/var/log/tidegate/access.log".to_owned()),
        listeners: vec![Listener { address: "0.0.0.0:8080".to_owned(), ..Listener::default() }],
        limits: vec![Limit { name: "breadth".to_owned(), mode: "shadow".into(), not_obeyed: 3, ..Limit::default() }],
        ..State::default()
    }
}

#[test]
fn every_condition_has_at_most_three_commands_and_says_what_comes_without() {
    use ConditionKind::*;
    for kind in [Stopping, Overloaded, OriginFails, Flood, Crowd, Trouble, NoRequest, Well] {
        let Next { steps, otherwise } = next(&state(kind), &Offenders::default());
        assert!(steps.len() <= 3 && (kind == Stopping || steps.len() >= 2), "{kind:?}: {steps:?}");
        assert!(!otherwise.is_empty() || kind == NoRequest, "{kind:?}");
        for Step { why, command } in steps {
            assert!(why.ends_with(['.', '?']) && !command.is_empty(), "{kind:?}: {why} {command}");
        }
    }
    assert_eq!(next(&state(NoRequest), &Offenders::default()).steps[0].command, "curl -i http://127.0.0.1:8080/");
}

#[test]
fn a_network_is_banned_where_it_is_several_clients_and_what_passes_of_it_is_told() {
    let client = |client: &str, count| Offender {
        client: client.to_owned(),
        count,
        passed_share: Some(0.62),
        ..Offender::default()
    };
    let network =
        Network { network: "NET".to_owned(), clients: 3, count: 290, passed_share: Some(0.004), ..Network::default() };
    let both = Offenders {
        clients: vec![client("ONE", 100), client("TWO", 99)],
        networks: vec![network],
        ..Offenders::default()
    };
    let steps = next(&state(ConditionKind::Flood), &both).steps;
    assert_eq!(steps[0].command, "sudo tidegate ban NET --for 1h --why flood");
    assert_eq!(
        steps[0].why,
        "Block this network of 3 clients for an hour. Of its requests less than 5 % passed in the last minutes."
    );
    assert_eq!(steps[1].command, "sudo tidegate explain --client ONE");
    let alone = Offenders { clients: vec![client("ONE", 200)], ..both };
    let steps = next(&state(ConditionKind::Flood), &alone).steps;
    assert_eq!(steps[0].command, "sudo tidegate ban ONE --for 1h --why flood");
    assert!(
        steps[0].why.ends_with("Careful: about 60 % of its requests pass, and a ban refuses these, too."),
        "{}",
        steps[0].why
    );
}
