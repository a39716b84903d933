//! A lattice of client and path as a policy writes it: what gives way is as narrow as the flood is, in both directions.

use std::net::Ipv6Addr;

use http::HeaderMap;
use proptest::prelude::*;
use tidegate_limits::sketch::Seed;
use tidegate_limits::units::Dice;
use tidegate_policy::config::load_text;
use tidegate_policy::engine::{Arrival, Engine, Verdict};
use tidegate_policy::request::{Peer, Request};

use crate::book::{arrival, request};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000 * SECOND;
const CAPACITY: u64 = 400;
/// From then on who is thinned is settled.
const LEARNED: u64 = 3 * SECOND;

/// {/64, /48, /32, everybody} × {path, its first segment, any path}, each node as many steps from the narrowest as it is
/// generalised. The widest of all is the capacity itself.
const LATTICE: &str = "
      - { key: [client_ip, path], level: 0 }
      - { key: [client_ip, 'path:segments=1'], level: 1, multiplier: 2 }
      - { key: ['client_ip:ipv6_prefix=48', path], level: 1, multiplier: 8 }
      - { key: client_ip, level: 2, multiplier: 2 }
      - { key: ['client_ip:ipv6_prefix=48', 'path:segments=1'], level: 2, multiplier: 16 }
      - { key: ['client_ip:ipv6_prefix=32', path], level: 2, multiplier: 32 }
      - { key: 'client_ip:ipv6_prefix=48', level: 3, multiplier: 16 }
      - { key: ['client_ip:ipv6_prefix=32', 'path:segments=1'], level: 3, multiplier: 64 }
      - { key: path, level: 3, multiplier: 200 }
      - { key: 'client_ip:ipv6_prefix=32', level: 4, multiplier: 64 }
      - { key: 'path:segments=1', level: 4, multiplier: 400 }";

/// The same without paths.
const CHAIN: &str = "
      - { key: client_ip }
      - { key: 'client_ip:ipv6_prefix=48', multiplier: 16 }
      - { key: 'client_ip:ipv6_prefix=32', multiplier: 64 }";

fn gate(nodes: &str) -> Engine {
    let text = format!(
        "listen: \":8080\"\nlimits:\n  fair:\n    type: fair_share\n    capacity: {CAPACITY}/s\n    nodes:{nodes}\n\
         routes:\n  - respond: {{ status: 200 }}\n    limits: [fair]\n"
    );
    let loaded = load_text("lattice.yaml", &text, &|_: &str| None, std::path::Path::new("."));
    let told: Vec<String> = loaded.diagnostics.iter().map(|told| format!("{told:?}")).collect();
    let config = loaded.outcome.unwrap_or_else(|_| panic!("{}\n{text}", told.join("\n")));
    Engine::new(config.policy, &Seed::from_bytes([6; 16]), 0).unwrap()
}

/// Who sends, how often per second, and what.
struct Stream {
    group: &'static str,
    per_second: u64,
    /// The third part of the address: which /48 of the one /32.
    site: u16,
    /// The fourth: which /64 of that, by the number of the stream and a roll of the dice.
    network: fn(usize, u64) -> u16,
    path: &'static str,
}

struct Outcome {
    /// By group: how many were offered and how many passed, since [`LEARNED`].
    groups: Vec<(&'static str, u64, u64)>,
    /// Of all that passed.
    stamps: Vec<u64>,
}

impl Outcome {
    fn part(&self, group: &str) -> f64 {
        let (_, offered, passed) = self.groups.iter().find(|(name, ..)| *name == group).unwrap();
        *passed as f64 / *offered as f64
    }

    fn table(&self) -> String {
        self.groups.iter().map(|(name, offered, passed)| format!("{name}: {passed} of {offered}; ")).collect()
    }
}

fn run(gate: &Engine, streams: &[Stream], seconds: u64) -> Outcome {
    let mut events: Vec<(u64, usize)> = Vec::new();
    for (number, stream) in streams.iter().enumerate() {
        // each at a phase of its own
        let phase = number as u64 * 7_919_000 % (SECOND / stream.per_second);
        events.extend((0..stream.per_second * seconds).map(|n| (n * SECOND / stream.per_second + phase, number)));
    }
    events.sort_unstable();
    let (mut dice, headers) = (Dice(11), HeaderMap::new());
    let mut outcome = Outcome { groups: Vec::new(), stamps: Vec::new() };
    for (at, number) in events {
        let stream = &streams[number];
        let (roll, host) = (dice.roll(), dice.roll());
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (host >> shift) as u16);
        let address = Ipv6Addr::new(0x2001, 0xdb8, stream.site, (stream.network)(number, roll), a, b, c, d);
        let asked = Request { peer: Peer::Ip(address.into()), path: stream.path, ..request(&headers) };
        let when = Arrival { dice: dice.roll(), ..arrival(START + at) };
        let passed = gate.decide(&asked, when).0.verdict == Verdict::Admitted;
        if passed {
            outcome.stamps.push(at);
        }
        if at >= LEARNED {
            let known = outcome.groups.iter().position(|(name, ..)| *name == stream.group);
            let known = known.unwrap_or_else(|| {
                outcome.groups.push((stream.group, 0, 0));
                outcome.groups.len() - 1
            });
            let (_, offered, admitted) = &mut outcome.groups[known];
            *offered += 1;
            *admitted += u64::from(passed);
        }
    }
    outcome
}

/// Clients of three requests a second, each in a /64 of its own.
fn honest(group: &'static str, site: u16, path: &'static str) -> impl Iterator<Item = Stream> {
    let one = move |_| Stream { group, per_second: 3, site, network: |number, _| 1_000 + number as u16, path };
    (0..10).map(one)
}

#[test]
fn a_flood_from_one_64_costs_its_neighbours_nothing_on_any_path() {
    let flood = Stream { group: "flood", per_second: 1_500, site: 1, network: |_, _| 7, path: "/shop/cart" };
    let mut streams: Vec<Stream> = honest("same 48, same path", 1, "/shop/cart").collect();
    streams.extend(honest("same 48, other path", 1, "/news"));
    streams.extend(honest("same 32", 2, "/shop/cart"));
    streams.push(flood);
    let outcome = run(&gate(LATTICE), &streams, 8);
    for group in ["same 48, same path", "same 48, other path", "same 32"] {
        assert!(outcome.part(group) >= 0.97, "{group}: {}", outcome.table());
    }
    assert!(outcome.part("flood") < 0.3, "{}", outcome.table());
    keeps_the_total(&outcome.stamps).unwrap();
}

/// What a chain of networks cannot do: the rest of the network goes on elsewhere.
#[test]
fn a_flood_of_a_whole_48_on_one_path_leaves_its_network_all_other_paths() {
    let streams = || {
        let flood =
            |_| Stream { group: "flood", per_second: 750, site: 1, network: |_, roll| roll as u16, path: "/login" };
        let mut streams: Vec<Stream> = honest("same 48, other path", 1, "/news/today").collect();
        streams.extend(honest("same 32, same path", 2, "/login"));
        streams.extend((0..2).map(flood));
        streams
    };
    let [lattice, chain] = [LATTICE, CHAIN].map(|nodes| run(&gate(nodes), &streams(), 8));
    for group in ["same 48, other path", "same 32, same path"] {
        assert!(lattice.part(group) >= 0.97, "{group}: {}", lattice.table());
    }
    assert!(lattice.part("flood") < 0.3, "{}", lattice.table());
    keeps_the_total(&lattice.stamps).unwrap();
    assert!(chain.part("same 48, other path") < 0.6, "nothing is shown by this; {}", chain.table());
}

/// In no interval more than C·(τ + ¼ s).
fn keeps_the_total(stamps: &[u64]) -> Result<(), String> {
    let worth = |nanos: u64| nanos as f64 / 1e9 * CAPACITY as f64;
    // of all intervals that end here the one that began with the least behind it
    let mut least = f64::INFINITY;
    for (before, stamp) in stamps.iter().enumerate() {
        least = least.min(before as f64 - worth(*stamp));
        let over = before as f64 + 1.0 - worth(*stamp) - least - 0.25 * CAPACITY as f64;
        if over > 1e-3 {
            return Err(format!("{over} too many up to {stamp}"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn no_interval_has_more_than_the_capacity_whatever_floods_and_whence(
        floods in prop::collection::vec((100_u64..900, 0_u16..3, any::<bool>(), 0_usize..3), 1..5),
    ) {
        let paths = ["/", "/shop/cart", "/shop/cart/items/7"];
        let flood = |(per_second, site, spread, path): (u64, u16, bool, usize)| {
            let network: fn(usize, u64) -> u16 = if spread { |_, roll| roll as u16 } else { |number, _| number as u16 };
            Stream { group: "flood", per_second, site, network, path: paths[path] }
        };
        let streams: Vec<Stream> = floods.into_iter().map(flood).chain(honest("honest", 1, "/shop/cart")).collect();
        let outcome = run(&gate(LATTICE), &streams, 3);
        let kept = keeps_the_total(&outcome.stamps);
        prop_assert!(kept.is_ok(), "{}", kept.unwrap_err());
    }
}
