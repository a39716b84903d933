//! Floods of every shape against honest clients, swept over multipliers, families and arrivals: who gives way, how
//! soon, how much passes in all, and how soon it is over.

use std::net::IpAddr;

use tidegate_limits::limiter::kinds::fair_share::share::{FairShareSpec, NodeSpec, Parents};
use tidegate_limits::sketch::KeyHash;

use crate::simulation::*;

const MULTIPLIERS: [[f64; 3]; 3] = [[1.0, 8.0, 32.0], [1.0, 16.0, 64.0], [1.0, 32.0, 128.0]];

/// When floods begin and end, and when the world does.
const FROM: usize = 3;
const UNTIL: usize = 15;
const END: usize = 26;

fn honest(family: Family, arrivals: Arrivals, keys: impl Fn(IpAddr) -> Vec<Option<KeyHash>>) -> Vec<Source> {
    let one = |n: u16| Source { arrivals, ..source("honest", 5.0, keys(client(family, 100 + n, 1, 7))) };
    (0..50).map(one).collect()
}

fn flood(per_second: f64, keys: Vec<Option<KeyHash>>) -> Source {
    Source { from: FROM as f64, until: UNTIL as f64, arrivals: Arrivals::Poisson, ..source("flood", per_second, keys) }
}

/// What holds in every flood: the total, the bystanders' goodput before, during and after, and the way back.
fn judge(name: &str, spec: &FairShareSpec, sources: &[Source], capacity: f64, during: f64) {
    let outcome = run(&limiter(spec), sources, END, 1);
    let table = || format!("{name}: {}", outcome.table());
    assert_eq!(outcome.part("honest", 0, FROM), 1.0, "refused below capacity; {}", table());
    assert!(outcome.part("honest", FROM, UNTIL) >= during, "{}", table());
    for second in FROM + 5..UNTIL {
        let total = outcome.total(second, second + 1);
        assert!(total <= 1.05 * capacity, "{total}/s in second {second}; {}", table());
        assert!(total >= 0.9 * capacity, "{total}/s in second {second}: capacity lies idle; {}", table());
    }
    assert_eq!(outcome.part("honest", UNTIL + 1, END), 1.0, "not recovered; {}", table());
    let idle = outcome.alphas[0];
    assert!(outcome.alphas[UNTIL + 10] >= idle, "the share has not recovered in ten seconds; {}", table());
}

#[test]
fn bystanders_of_a_single_host_keep_what_they_had() {
    for family in [Family::V4, Family::V6] {
        for multipliers in MULTIPLIERS {
            for arrivals in [Arrivals::Poisson, Arrivals::Bursts(6)] {
                let mut sources = honest(family, arrivals, chain);
                sources.push(flood(10_000.0, chain(client(family, 1, 1, 1))));
                let name = format!("{family:?} {multipliers:?} {arrivals:?}");
                judge(&name, &steered(2_000, &multipliers), &sources, 2_000.0, 0.99);
            }
        }
    }
}

#[test]
fn bystanders_of_a_spread_24_or_48_keep_what_they_had() {
    for family in [Family::V4, Family::V6] {
        for multipliers in MULTIPLIERS {
            for arrivals in [Arrivals::Poisson, Arrivals::Bursts(6)] {
                let mut sources = honest(family, arrivals, chain);
                sources.extend((0..250).map(|host| flood(40.0, chain(client(family, 1, 1, host)))));
                let name = format!("{family:?} {multipliers:?} {arrivals:?}");
                judge(&name, &steered(2_000, &multipliers), &sources, 2_000.0, 0.99);
            }
        }
    }
}

#[test]
fn bystanders_of_a_spread_16_or_32_keep_what_they_had() {
    for family in [Family::V4, Family::V6] {
        for multipliers in MULTIPLIERS {
            let mut sources = honest(family, Arrivals::Poisson, chain);
            sources.extend((0..5_000).map(|n| flood(2.0, chain(client(family, 1, n % 250, n / 250)))));
            // the wider the multiplier, the longer the flood is below it while its rate is being learned
            judge(&format!("{family:?} {multipliers:?}"), &steered(2_000, &multipliers), &sources, 2_000.0, 0.98);
        }
    }
}

#[test]
fn with_the_isolation_of_the_source_the_same_flood_shuts_bystanders_out() {
    // Once the share has fallen below what each of the 5,000 hosts sends, they are limited one by one, and nobody sees
    // the network any more: the total fits only at a share far below what an honest client asks. It never comes up
    // again.
    let mut sources = honest(Family::V4, Arrivals::Poisson, chain);
    sources.extend((0..5_000).map(|n| flood(2.0, chain(client(Family::V4, 1, n % 250, n / 250)))));
    let spec = FairShareSpec { parents: Parents::Spared, ..steered(2_000, &[1.0, 16.0, 64.0]) };
    let outcome = run(&limiter(&spec), &sources, UNTIL, 1);
    assert!(outcome.part("honest", FROM + 5, UNTIL) < 0.5, "{}", outcome.table());
}

#[test]
fn bystanders_of_ten_thousand_hosts_on_one_path_keep_what_they_had() {
    for family in [Family::V4, Family::V6] {
        for path in [16.0, 64.0] {
            let node = |(level, multiplier)| NodeSpec { level, multiplier };
            let nodes = [(0, 1.0), (1, 1.0), (2, 16.0), (3, 64.0), (3, path)].map(node).to_vec();
            let spec = FairShareSpec { nodes, ..steered(2_000, &[1.0]) };
            let mut sources = honest(family, Arrivals::Poisson, |address| chain_with_path(address, "/"));
            let bot = |n| flood(1.0, chain_with_path(client(family, 1_000 + n % 5_000, n, n), "/search"));
            sources.extend((0..10_000).map(bot));
            judge(&format!("{family:?} path ×{path}"), &spec, &sources, 2_000.0, 0.99);
        }
    }
}

#[test]
fn a_flood_that_comes_and_goes_gains_nothing_by_it() {
    for period in [0.5, 1.0, 2.0, 4.0] {
        let mut sources = honest(Family::V4, Arrivals::Poisson, chain);
        let mut from = 3.0;
        while from < 20.0 {
            let on = |host| Source {
                from,
                until: from + period / 2.0,
                ..flood(80.0, chain(client(Family::V4, 1, 1, host)))
            };
            sources.extend((0..250).map(on));
            from += period;
        }
        let outcome = run(&limiter(&steered(2_000, &[1.0, 16.0, 64.0])), &sources, 20, 1);
        assert!(outcome.part("honest", 3, 20) >= 0.98, "every {period} s: {}", outcome.table());
    }
}
