//! A gate with one limit, in the words of the policy file: what a row asks of the product it asks here.

use std::net::Ipv4Addr;
use std::path::Path;

use http::{HeaderMap, Method};
use tidegate::config::load_text;
use tidegate::config::render::{Format, render};
use tidegate::engine::{Arrival, DecisionId, Engine, Outcome, Reading};
use tidegate::policy::Policy;
use tidegate::request::{Peer, Request};
use tidegate::sketch::Seed;
use tidegate::units::Timestamp;

/// A policy with these entries under `limits:`, and a store that they may name.
pub fn with_limits(entries: &str) -> String {
    format!(
        "listen: \":8080\"\nsecrets: {{ client_hmac: \"a secret of all gates\" }}\n\
         stores: {{ shared: {{ url: \"redis://127.0.0.1:6379\" }} }}\n\
         limits:\n  {entries}\nroutes:\n  - {{ origin: \"127.0.0.1:3000\" }}\n"
    )
}

/// The policy of a text, or everything that is said about one that does not load.
pub fn load(text: &str) -> Result<Policy, String> {
    let loaded = load_text("test.yaml", text, &|_| None, Path::new("."));
    let told = render(&loaded, Format::Text, false);
    loaded.outcome.map(|config| config.policy).map_err(|_| told)
}

/// Everything that is said about a policy that must not load.
pub fn refused(text: &str) -> String {
    load(text).expect_err("a policy that does not load")
}

/// One route with one limit, and the requests of its clients.
pub struct Gate(Engine);

impl Gate {
    /// The limit has these words.
    pub fn new(limit: &str) -> Gate {
        let text =
            with_limits(&format!("a: {{ {limit} }}")).replace("127.0.0.1:3000\"", "127.0.0.1:3000\", limits: [a]");
        let policy = load(&text).unwrap_or_else(|told| panic!("{told}"));
        Gate(Engine::new(policy, &Seed::from_bytes([9; 16]), 0).unwrap())
    }

    /// What the limit says of one request of the client with this number, which is charged if it passes.
    pub fn ask(&self, client: u32, now: u64) -> Reading {
        let headers = HeaderMap::new();
        self.0.decide(&request(client, &headers), arrival(now)).0.readings[0]
    }

    /// What it would say, of a kind that charges nothing for the question.
    pub fn probe(&self, client: u32, now: u64) -> Reading {
        let headers = HeaderMap::new();
        self.0.judge(&request(client, &headers), arrival(now)).decision.readings[0]
    }

    /// The memory that the limit says it takes.
    pub fn memory(&self) -> u64 {
        self.0.limiters()[0].memory().0
    }
}

/// Whether a reading is that of a request that passed.
pub fn passed(reading: &Reading) -> bool {
    reading.outcome == Outcome::Admitted
}

fn request(client: u32, headers: &HeaderMap) -> Request<'_> {
    Request {
        peer: Peer::Ip(Ipv4Addr::from(0x1400_0000 + client).into()),
        method: &Method::GET,
        host: "shop.example",
        path: "/",
        query: None,
        headers,
        tls_sni: None,
    }
}

fn arrival(now: u64) -> Arrival {
    Arrival { id: DecisionId(now), at: Timestamp::from_nanos(now), dice: 7 }
}
