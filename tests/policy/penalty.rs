//! How long a limit would keep a client out, asked before there is a request.

use std::net::IpAddr;
use std::path::Path;

use http::{HeaderMap, Method};
use tidegate::config::load_text;
use tidegate::engine::{Arrival, DecisionId, Engine};
use tidegate::request::{Peer, Request};
use tidegate::sketch::Seed;
use tidegate::units::Timestamp;

const SECOND: u64 = 1_000_000_000;

fn engine(limits: &str) -> Engine {
    let text = format!(
        "listen: \":8080\"
limits: {{ abusers: {limits} }}
routes: [{{ respond: {{ status: 200 }}, limits: [abusers] }}]
"
    );
    let loaded = load_text("test.yaml", &text, &|_| None, Path::new("."));
    Engine::new(loaded.outcome.unwrap().policy, &Seed::from_bytes([9; 16]), 0).unwrap()
}

fn peer(text: &str) -> Peer {
    Peer::Ip(text.parse::<IpAddr>().unwrap())
}

/// Asks so often at one instant.
fn ask(engine: &Engine, from: &str, times: usize, at: Timestamp) {
    let headers = HeaderMap::new();
    for number in 0..times {
        let request = Request {
            peer: peer(from),
            method: &Method::GET,
            host: "a",
            path: "/",
            query: None,
            headers: &headers,
            tls_sni: None,
        };
        let _ = engine.decide(&request, Arrival { id: DecisionId(number as u64), at, dice: 0 });
    }
}

#[test]
fn tells_the_penalty_of_whoever_went_on_and_charges_nobody() {
    let kept = "{ type: recent_average, rate: 10/s, half_life: 30s, count: all, max_penalty: 10m, key: client_ip }";
    let (engine, now) = (engine(kept), Timestamp::from_nanos(1 << 44));
    assert_eq!(engine.penalty_nanos("abusers", peer("192.0.2.1"), now), 0);
    ask(&engine, "192.0.2.1", 5_000, now);
    let penalty = engine.penalty_nanos("abusers", peer("192.0.2.1"), now);
    assert!((60 * SECOND..=700 * SECOND).contains(&penalty), "{penalty}");
    for _ in 0..1_000 {
        assert_eq!(engine.penalty_nanos("abusers", peer("192.0.2.1"), now), penalty, "asking is a read");
    }
    assert_eq!(engine.penalty_nanos("abusers", peer("::ffff:192.0.2.1"), now), penalty, "the same client");
    assert_eq!(engine.penalty_nanos("abusers", peer("192.0.2.2"), now), 0);
    assert_eq!(engine.penalty_nanos("another", peer("192.0.2.1"), now), 0);
    // and it passes
    let later = now.after(std::time::Duration::from_nanos(penalty / 2));
    let left = engine.penalty_nanos("abusers", peer("192.0.2.1"), later);
    assert!(left < penalty && left > 0, "{left}");
    let over = now.after(std::time::Duration::from_nanos(penalty));
    assert_eq!(engine.penalty_nanos("abusers", peer("192.0.2.1"), over), 0);
}

#[test]
fn limits_that_do_not_refuse_every_request_alike_are_not_asked() {
    let average = "type: recent_average, rate: 1/s, half_life: 30s, count: all, max_penalty: 10m";
    for limit in [
        format!("{{ {average}, key: client_ip, mode: shadow }}"),
        format!("{{ {average}, key: [client_ip, path] }}"),
        format!("{{ {average}, key: client_ip, exempt: [10.0.0.0/8] }}"),
        format!("{{ {average}, key: client_ip, action: {{ tag: {{ header: x-limited }} }} }}"),
        "{ type: rate, rate: 1/h, key: client_ip }".to_owned(),
    ] {
        let (engine, now) = (engine(&limit), Timestamp::from_nanos(1 << 44));
        ask(&engine, "192.0.2.1", 100, now);
        assert_eq!(engine.penalty_nanos("abusers", peer("192.0.2.1"), now), 0, "{limit}");
    }
}
