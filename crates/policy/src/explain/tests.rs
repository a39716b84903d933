//! Claims about what an explanation says, on policies as operators write them.

use std::path::Path;

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
use crate::client::trace;
use crate::config::load_text;
use crate::engine::Outcome;
use crate::engine::{Arrival, DecidedBy, Engine, Holds};
use crate::limiter::Owed;
use crate::limiter::sharing::StoreError;
use crate::policy::Mode;
use crate::request::{Peer, Request};
use crate::sketch::Seed;
use crate::units::Timestamp;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 400 * 86_400 * SECOND;

struct World {
    engine: Engine,
    book: Book,
    holds: Vec<Holds>,
}

fn world(policy: &str) -> World {
    let loaded = load_text("tidegate.yaml", policy, &|_| None, Path::new("."));
    let config = loaded.outcome.unwrap_or_else(|_| panic!("{:?}", loaded.diagnostics));
    let book = Book::new(&config.policy, &config.fingerprint, config.places, 0);
    World { engine: Engine::new(config.policy, &Seed::from_bytes([3; 16]), 0).unwrap(), book, holds: Vec::new() }
}

impl World {
    /// One request at so many nanoseconds, explained.
    fn asks(&mut self, at: u64, target: &str, peer: &str, fields: &[(&str, &str)]) -> Explanation {
        let (method, rest) = target.split_once(' ').unwrap();
        let (host, path) = rest.split_at(rest.find('/').unwrap());
        let method: Method = method.parse().unwrap();
        let headers: HeaderMap = fields
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect();
        let peer = Peer::Ip(peer.parse().unwrap());
        let request = Request { peer, method: &method, host, path, query: None, headers: &headers, tls_sni: None };
        let arrival = Arrival { id: DecisionId(at), at: Timestamp::from_nanos(START + at), dice: 0 };
        let mut evaluation = self.engine.judge(&request, arrival);
        self.engine.enter_rate_at_once(&mut evaluation, arrival.at);
        self.engine.reserve_all(&mut evaluation);
        let now = evaluation.decision.goes_on();
        let (holds, _) = self.engine.admit(&mut evaluation, now);
        self.holds.push(holds);
        let policy = self.engine.policy();
        let taken = policy.routes.taken(&request, evaluation.decision.client.as_ref());
        let beside = Beside { client: [7; 16], method: &method, taken, book: 0, retry_after: 0, store_error: None };
        let record = Record::of(&self.engine, &evaluation, &beside);
        // what is remembered is what is told
        assert_eq!(Record::unpack(&record.pack()).as_ref(), Some(&record));
        let trace = trace(&policy.clients, peer, &headers);
        let known = Known { trace: Some(&trace), status: Some(429), ..Known::default() };
        let told = Explanation::new(&record, &self.book, known);
        let again: Explanation = serde_json::from_str(&told.to_json()).unwrap();
        assert_eq!(again, told, "the document is read back");
        told
    }
}

fn shop(limits: &str, route: &str) -> String {
    format!(
        "listen: \":8080\"\ntrusted_proxies: [10.0.0.0/8]\nlimits:\n{limits}routes:\n  - {{ name: login, match: {{ path: =/login, method: POST }}, origin: \"127.0.0.1:3000\", limits: [{route}] }}\n  - {{ name: shop, match: {{ host: shop.example.com }}, origin: \"127.0.0.1:3000\" }}\n  - {{ name: rest, origin: \"127.0.0.1:3000\" }}\n"
    )
}

#[test]
fn a_refusal_is_told_from_the_peer_to_the_line_in_the_file() {
    let mut world = world(&shop("  login: { key: client_ip, rate: 5/m, burst: 5 }\n", "login"));
    let fields = [("x-forwarded-for", "192.0.2.1, 203.0.113.7, 10.1.1.1")];
    for _ in 0..5 {
        assert_eq!(world.asks(0, "POST a/login", "10.0.0.4", &fields).verdict, "admitted");
    }
    let told = world.asks(600_000_000, "POST a/login", "10.0.0.4", &fields);
    assert_eq!(told.limits[0].retry_ns, Some(11_400_000_000));
    assert_eq!(told.limits[0].needs.as_ref().unwrap().rate.as_deref(), Some("100/m"));
    let hash = &world.book.fingerprint;
    assert_eq!(
        told.to_text(),
        format!(
            "\
POST  →  429 limited by `login`

 client    203.0.113.7   (from x-forwarded-for, 2 hops)
             peer 10.0.0.4 trusted (10.0.0.0/8) → 10.1.1.1 trusted (10.0.0.0/8) → 203.0.113.7
 route     login         (exact path /login, method POST; next best: rest)
 limits    login  LIMITED  5 of 5 per minute used; the next one fits in 11.4 s; by client_ip
 estimate  exact: the key has a counter of its own
 store     none (local)
 change    burst ≥ 6 would have let it through
 config    {hash}, tidegate.yaml, line 4
"
        )
    );
}

#[test]
fn the_route_is_told_with_what_it_matched_and_the_next_best() {
    let mut world = world(&shop("  login: { key: client_ip, rate: 5/m, burst: 5 }\n", "login"));
    let told = world.asks(0, "POST shop.example.com/login", "203.0.113.7", &[]);
    let route = told.route.unwrap();
    // a host is more than a path
    assert_eq!((route.name.as_str(), route.why.as_str()), ("shop", "host shop.example.com"));
    assert_eq!(route.runner_up.as_deref(), Some("login"));
    let told = world.asks(0, "GET other.example.com/x", "203.0.113.7", &[]);
    let route = told.route.unwrap();
    assert_eq!((route.name.as_str(), route.why.as_str(), route.runner_up), ("rest", "takes everything", None));
    assert!(told.limits.is_empty());
}

#[test]
fn every_kind_says_where_the_request_stood_and_what_it_would_have_taken() {
    let cases = [
        (
            "{ key: client_ip, rate: 10/s, burst: 3 }",
            4,
            "3 of a burst of 3 used, 10/s",
            "burst ≥ 4 would have let it through",
        ),
        (
            "{ type: quota, key: client_ip, max: 3, window: 1h }",
            4,
            "3 of 3 per hour used",
            "max ≥ 4 would have let it through",
        ),
        (
            "{ type: quota, key: client_ip, max: 3, window: 1h, sliding: true }",
            4,
            "3 of 3 per hour used, sliding",
            "max ≥ 4 would have let it through",
        ),
        (
            "{ type: distinct, key: client_ip, of: header:x-name, missing: deny, max: 2, window: 10m }",
            3,
            "2 of 2 values of header:x-name in 10m used",
            "max ≥ 3 would have let it through",
        ),
        ("{ type: inflight, key: client_ip, max: 2 }", 3, "2 of 2 at once used", "max ≥ 3 would have let it through"),
        ("{ type: inflight, key: global, max: 2 }", 3, "2 of 2 at once used", "max ≥ 3 would have let it through"),
    ];
    for (limit, times, level, change) in cases {
        let mut world = world(&shop(&format!("  tried: {limit}\n"), "tried"));
        let mut told = None;
        for nth in 0..times {
            told = Some(world.asks(0, "POST a/login", "203.0.113.7", &[("x-name", &format!("n{nth}"))]));
        }
        let told = told.unwrap();
        assert_eq!(told.verdict, "refused", "{limit}");
        assert_eq!(told.limits[0].level.as_deref(), Some(level), "{limit}");
        assert_eq!(told.change, [change], "{limit}");
        assert!(told.limits[0].estimate.is_some(), "{limit}");
    }
}

#[test]
fn a_recent_average_that_counts_refusals_is_explained_by_what_stood_before_them() {
    let limit =
        "  tried: { type: recent_average, key: client_ip, rate: 1/s, half_life: 3s, count: all, max_penalty: 1m }\n";
    let mut world = world(&shop(limit, "tried"));
    for _ in 0..4 {
        assert_eq!(world.asks(0, "POST a/login", "203.0.113.7", &[]).verdict, "admitted");
    }
    // a budget of 3/ln 2 = 4.3: the fifth makes a sum of five, and each that is refused one more
    let fifth = world.asks(0, "POST a/login", "203.0.113.7", &[]);
    assert_eq!(fifth.limits[0].level.as_deref(), Some("4 of 4 used, 1/s with a half-life of 3s"));
    assert_eq!(fifth.change, ["rate ≥ 2/s would have let it through"]);
    let sixth = world.asks(0, "POST a/login", "203.0.113.7", &[]);
    assert_eq!(sixth.limits[0].level.as_deref(), Some("5 of 4 used, 1/s with a half-life of 3s"));
}

#[test]
fn a_shadow_limit_is_told_and_forbids_nothing() {
    let limits = "  tried: { key: client_ip, rate: 1/s, burst: 1, mode: shadow }\n";
    let mut world = world(&shop(limits, "tried"));
    world.asks(0, "POST a/login", "203.0.113.7", &[]);
    let told = world.asks(0, "POST a/login", "203.0.113.7", &[]);
    assert_eq!((told.verdict.as_str(), told.limits[0].state.as_str()), ("admitted", "shadow, over"));
    assert!(told.change.is_empty());
    assert_eq!(told.limits[0].change.as_deref(), Some("burst ≥ 2 would have let it through"));
    assert!(told.to_text().contains("admitted, over `tried`"), "{}", told.to_text());
}

#[test]
fn a_limit_whose_key_is_missing_says_so() {
    let limits = "  tried: { key: header:x-api-key, missing: deny, rate: 1/s, burst: 1 }\n";
    let mut world = world(&shop(limits, "tried"));
    let told = world.asks(0, "POST a/login", "203.0.113.7", &[]);
    assert_eq!(told.reason.as_deref(), Some("key_missing"));
    assert_eq!(told.limits[0].level.as_deref(), Some("without the key"));
    assert_eq!(told.change, ["a request with header:x-api-key, or `missing: allow`"]);
}

#[test]
fn a_limit_that_delays_tells_the_wait_that_it_would_have_needed() {
    let limits = "  tried: { key: client_ip, rate: 1/s, burst: 1, action: { delay: { max: 1500ms } } }\n";
    let mut world = world(&shop(limits, "tried"));
    world.asks(0, "POST a/login", "203.0.113.7", &[]);
    let told = world.asks(0, "POST a/login", "203.0.113.7", &[]);
    assert_eq!((told.verdict.as_str(), told.limits[0].state.as_str()), ("admitted", "delayed"));
    let told = world.asks(0, "POST a/login", "203.0.113.7", &[]);
    assert_eq!(told.change, ["burst ≥ 3, or delay of up to 2s, would have let it through"]);
}

#[test]
fn a_fair_share_tells_the_queue_and_what_weighed_most() {
    let limits = "  tried: { type: fair_share, capacity: 10/s }\n";
    let mut world = world(&shop(limits, "tried"));
    let asked = (0..200_u64).map(|nth| world.asks(nth * SECOND / 1_000, "POST a/login", "203.0.113.7", &[]));
    let told = asked.filter(|told| told.verdict == "refused").last().expect("a flood is refused");
    assert_eq!(told.limits[0].node.as_deref(), Some("client_ip"));
    assert_eq!(told.change, ["more `capacity`, or less traffic of the same client_ip"]);
    let queue = told.queue.unwrap();
    assert_eq!((queue.reason.as_str(), queue.limit.as_deref()), ("rate_timeout", Some("tried")));
    assert_eq!((queue.capacity, queue.kept, queue.waiting), (Some(10.0), Some(20.0), 1));
    let lines = queue.lines();
    assert!(lines[0].starts_with("tried: 10/s, "), "{lines:?}");
    assert!(lines[0].ends_with(" 20 kept for light clients, 1 waited; its time was over"), "{lines:?}");
    assert!(lines[1].starts_with("  its client_ip had 1 waiting, and used "), "{lines:?}");
}

#[test]
fn a_closed_limit_whose_store_was_silent_says_so_and_blames_no_client() {
    let policy = "listen: \":8080\"\nsecrets: { client_hmac: \"one secret of all gates\" }\nstores: { s: { url: \"redis://127.0.0.1:1\" } }\n\
                  limits:\n  c: { key: client_ip, rate: 2/s, burst: 2, store: s, on_store_error: closed }\n  \
                  l: { key: client_ip, rate: 2/s, burst: 2, store: s }\n\
                  routes: [{ name: all, origin: \"127.0.0.1:3000\", limits: [c, l] }]\n";
    let world = world(policy);
    let told = |rule: u16, store_error| {
        let said = Said {
            rule,
            tier: 0,
            mode: Mode::Enforce,
            outcome: Outcome::Refused,
            node: None,
            by: DecidedBy::Fallback,
            exact: false,
            remaining: 0,
            wait_nanos: None,
            owed: Owed::default(),
        };
        let record = Record {
            at: Timestamp::ZERO,
            client: [7; 16],
            found: None,
            method: Some(Method::GET),
            route: Some(0),
            alternative: None,
            runner_up: None,
            book: 0,
            criticality: Default::default(),
            verdict: Verdict::Refused(Refusal::StoreSilent),
            retry_after: 1,
            delay_millis: 0,
            store_error,
            limits: [said].into_iter().collect(),
            no_place: None,
            ban: None,
        };
        assert_eq!(Record::unpack(&record.pack()).as_ref(), Some(&record));
        let sent = vec!["Retry-After: 1".to_owned()];
        Explanation::new(&record, &world.book, Known { status: Some(503), sent, ..Known::default() }).to_text()
    };
    let text = told(0, Some(StoreError::Unreachable));
    for expected in [
        "→  503 refused: the store of `c` was silent\n",
        " limits    c  CLOSED  not counted: its store was silent; by client_ip\n",
        " store     c without store `s`, which could not be reached (unreachable): on_store_error closed\n",
        " sent      Retry-After: 1\n",
        " note      not the client's doing: ",
        "it was told to come again in 1 s, ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("no wait helps") && !text.contains("2 of 2") && !text.contains("LIMITED"), "{text}");
    // a fault closes every limit
    let text = told(1, Some(StoreError::Faulty));
    assert!(text.contains("what is no answer (faulty): on_store_error local, which a fault makes closed\n"), "{text}");
    assert!(text.contains("CLOSED") && told(1, None).contains("which said nothing: on_store_error local\n"), "{text}");
}
