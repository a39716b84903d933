//! A policy, a virtual clock and seeded dice around the real engine.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use http::{HeaderMap, HeaderValue, Method};
use tidegate::config::load_text;
use tidegate::config::render::{Format, render};
use tidegate::engine::{Arrival, Decision, DecisionId, Engine, Holds, Refusal, Verdict};
use tidegate::request::{Peer, Request};
use tidegate::sketch::Seed;
use tidegate::units::{Dice, Timestamp};

pub const SECOND: f64 = 1e9;

/// Two hundred days after the origin, at a midnight, where every aligned window begins.
const START: u64 = 200 * 86_400 * 1_000_000_000;

/// What one request was told.
#[derive(Debug)]
pub struct Told {
    pub admitted: bool,
    /// Seconds until it would fit, as exact as the limit knows it.
    pub retry: Option<f64>,
    /// Of `fair_share`: which node refused.
    pub node: Option<u8>,
    pub refusal: Option<Refusal>,
    /// To be dropped at the answer's end.
    pub holds: Holds,
}

/// The engine with one limit on one route.
pub struct World {
    engine: Engine,
    dice: Dice,
    asked: u64,
}

impl World {
    /// A gate whose only route has this limit; `limit` is the inside of one, in YAML's flow style.
    pub fn new(limit: &str) -> World {
        let policy = format!(
            "listen: \":8080\"\nlimits:\n  it: {{ {limit} }}\n\
             routes:\n  - {{ name: all, limits: [it], origin: \"127.0.0.1:3000\" }}\n"
        );
        let loaded = load_text("picture.yaml", &policy, &|_: &str| None, Path::new("."));
        let told = render(&loaded, Format::Short, false);
        let config = loaded.outcome.unwrap_or_else(|_| panic!("{policy}\n{told}"));
        let engine = Engine::new(config.policy, &Seed::from_bytes([3; 16]), 0).unwrap();
        World { engine, dice: Dice(7), asked: 0 }
    }

    /// One request of a client, so many seconds after the start.
    pub fn ask(&mut self, seconds: f64, client: Ipv4Addr, login: Option<&str>) -> Told {
        let mut headers = HeaderMap::new();
        if let Some(login) = login {
            headers.insert("x-login-name", HeaderValue::from_str(login).unwrap());
        }
        let request = Request {
            peer: Peer::Ip(IpAddr::V4(client)),
            method: &Method::POST,
            host: "shop.example.com",
            path: "/login",
            query: None,
            headers: &headers,
            tls_sni: None,
        };
        self.asked += 1;
        let at = Timestamp::from_nanos(START + (seconds * SECOND) as u64);
        let arrival = Arrival { id: DecisionId(self.asked), at, dice: self.dice.roll() };
        let (decision, holds) = self.engine.decide(&request, arrival);
        told(&decision, holds)
    }
}

fn told(decision: &Decision, holds: Holds) -> Told {
    let reading = decision.readings.first().unwrap();
    let refusal = match decision.verdict {
        Verdict::Admitted => None,
        Verdict::Refused(refusal) => Some(refusal),
    };
    let retry = reading.retry_nanos.map(|nanos| nanos as f64 / SECOND);
    Told { admitted: refusal.is_none(), retry, node: reading.node, refusal, holds }
}
