//! What simulations of a fair share stand on: clients, their keys, and limiters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tidegate_limits::limiter::kinds::fair_share::share::{Capacity, FairShare, FairShareSpec, NodeSpec, Parents};
use tidegate_limits::sketch::{KeyHash, KeyHasher, Seed};
use tidegate_limits::units::Timestamp;

/// Half a year after the origin, as a process that starts has it.
pub const START: u64 = 1 << 54;

/// The hash of a word under a fixed seed.
pub fn key(parts: &[&[u8]]) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes(*b"a seed for tests"));
    for part in parts {
        hasher.part(0, part);
    }
    hasher.finish()
}

/// Which family a simulated client belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    V4,
    V6,
}

/// A client: its number within the /24 (/48), that one's within the /16 (/32), and that one's.
pub fn client(family: Family, wide: u16, net: u16, host: u16) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(20 + (wide >> 8) as u8, wide as u8, net as u8, host as u8)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0x2a00, wide, net, host, 0, 0, 0, 1)),
    }
}

pub fn limiter(spec: &FairShareSpec) -> FairShare {
    FairShare::new(spec, &tidegate_limits::sketch::Seed::from_bytes(*b"a seed for tests")).unwrap()
}

/// Whether one request passes, as the engine asks and charges.
pub fn passes(limit: &FairShare, keys: &[Option<KeyHash>], now: Timestamp, dice: u64) -> bool {
    let offered = limit.offer(keys, now, dice);
    offered.admitted() && limit.admit(keys, &offered, now).is_ok()
}

/// 1/(2²⁷ ns).
pub const CODE: f64 = 7.45;

/// rakelimit's own configuration: one limit at every node, no total.
pub fn compatible(limit: f64, lambda: f64, levels: &[u8]) -> FairShareSpec {
    FairShareSpec {
        nodes: levels.iter().map(|level| NodeSpec { level: *level, multiplier: 1.0 }).collect(),
        half_life: Duration::from_secs_f64(std::f64::consts::LN_2 / lambda),
        alpha_fixed: Some(limit),
        parents: Parents::Spared,
        ..FairShareSpec::new(Capacity::Follows)
    }
}
