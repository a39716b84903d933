//! A limit by client address in a plain loop, without runtime or framework: `cargo run --example bare_loop`.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_limits::limiter::{Kind, Limiter, Place, Spec, kinds};
use tidegate_limits::sketch::{KeyHasher, Seed};
use tidegate_limits::units::{Bytes, Cost, OutOfRange, Rate, Timestamp};

/// Sends a request every 50 ms for a second and returns, for each, whether it fits 5/s with a burst of 3.
pub fn decisions() -> Result<Vec<bool>, OutOfRange> {
    // a server draws the 16 bytes at random, so that no client can compute which keys collide
    let seed = Seed::from_bytes([7; 16]);
    let kinds =
        [Kind::Rate(kinds::Rate { rate: Rate::new(5, Duration::from_secs(1))?, burst: 3, memory: Bytes(64 << 10) })];
    let limiter = Arc::new(Limiter::new(&Spec::new("per client", &kinds), &seed)?);

    let mut hasher = KeyHasher::new(&seed);
    hasher.part(4, &Ipv4Addr::new(203, 0, 113, 7).octets());
    let place = Place { key: limiter.own_hash().of(hasher.finish()), ..Place::default() };

    // the loop's own clock: a server passes nanoseconds since 1970 that never step back
    let times = (0..20).map(|step| Timestamp::from_nanos(step * 50_000_000));
    Ok(times.map(|now| limiter.commit(&limiter.probe(&place, now, Cost::ONE), now).is_ok()).collect())
}

pub fn main() -> Result<(), OutOfRange> {
    let decisions = decisions()?;
    for (step, admitted) in decisions.iter().enumerate() {
        println!("{:>4} ms  {}", step * 50, if *admitted { "admitted" } else { "refused" });
    }
    let admitted = decisions.iter().filter(|admitted| **admitted).count();
    println!("{admitted} of {} admitted: 3 at once, then 5 a second", decisions.len());
    Ok(())
}
