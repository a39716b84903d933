//! A million networks: their memory, the time to make them, and the time of one look for addresses that are listed and for others, each
//! of which waits for the one before it.
//!
//! `cargo bench -p tidegate-policy --bench networks`

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use tidegate_limits::units::Prefix;
use tidegate_policy::client::networks::NetworkSet;

const MANY: u32 = 1_000_000;
const BATCHES: usize = 21;
/// The kernel counts the time of a thread in steps of up to 4 ms.
const LOOKS: usize = 1_000_000;

/// An odd factor, whose multiples are spread over all numbers.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn ipv4(number: u64) -> IpAddr {
    Ipv4Addr::from((number.wrapping_mul(SPREAD) >> 32) as u32).into()
}

fn ipv6(number: u64) -> IpAddr {
    // all of them in 2000::/3
    let upper = number.wrapping_mul(SPREAD) >> 3 | 1 << 61;
    Ipv6Addr::from(u128::from(upper) << 64 | u128::from(number.wrapping_mul(SPREAD))).into()
}

/// Nanoseconds that this thread has been on a processor: other work of the machine does not count, though it empties caches.
fn on_processor() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with scheduler statistics");
    times.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds come first")
}

fn main() {
    measure("IPv4 addresses", 32, ipv4);
    measure("IPv4 /24", 24, ipv4);
    measure("IPv6 /64", 64, ipv6);
    measure("IPv6 addresses", 128, ipv6);
}

fn measure(what: &str, length: u8, address: fn(u64) -> IpAddr) {
    let networks: Vec<Prefix> = (0..u64::from(MANY)).map(|n| Prefix::around(address(n), length, length)).collect();
    let begun = Instant::now();
    let set = NetworkSet::new(networks.iter().map(|network| (*network, ())));
    let made = begun.elapsed();
    println!(
        "{what:<15} {:>9} networks  {:>5.1} MiB  made in {:>4} ms",
        set.count(),
        set.memory().0 as f64 / f64::from(1 << 20),
        made.as_millis(),
    );
    time("listed", &set, |at| address(at % u64::from(MANY)));
    time("not listed", &set, |at| address(u64::from(MANY) + at % u64::from(MANY)));
}

/// Times looks for these addresses, which are made on the way: a list of them would push the networks out of the processor's caches.
fn time(which: &str, set: &NetworkSet, asked: impl Fn(u64) -> IpAddr) {
    let (mut found, mut at) = (0, 0);
    let mut batches: Vec<f64> = Vec::new();
    for _ in 0..BATCHES {
        let begun = on_processor();
        for _ in 0..LOOKS {
            // in no order that the memory could guess
            let listed = u64::from(set.contains(black_box(asked(at))));
            found += listed;
            // the next address depends on the answer, so looks do not overlap
            at += 500_029 + listed;
        }
        batches.push((on_processor() - begun) as f64 / LOOKS as f64);
    }
    batches.sort_unstable_by(f64::total_cmp);
    let [low, middle, high] = [1, 2, 3].map(|quarter| batches[quarter * BATCHES / 4]);
    println!(
        "  {which:<12} {middle:>5.1} ns a look ({low:.1} to {high:.1}: half of all), {:.0} % found",
        100.0 * found as f64 / (BATCHES * LOOKS) as f64,
    );
}
