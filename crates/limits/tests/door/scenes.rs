//! Floods against bystanders, light and heavy.
//!
//! Light ones together ask for a fifth of what there is, a heavy one for three tenths. A client is owed its max-min share.

use std::time::Duration;

use tidegate_limits::door::{PlacesSpec, Reserve, Reserved, TokensSpec};

use tidegate_limits::units::Criticality;

use crate::fate::Fate;
use crate::world::{Client, Fair, How, MS, Rate, SECOND, World};

/// When the hostile ones begin, and from when on requests count.
const BEGIN: u64 = 3 * SECOND;

pub fn client(host: u32, asks: How, takes: u64) -> Client {
    Client { host, criticality: Criticality::Default, weight: 1.0, asks, takes, leaves: None, from: 0 }
}

/// So many light ones and one heavy one, each in a network of its own.
fn bystanders(per_second: f64, light: u32, takes: u64) -> Vec<Client> {
    let host = |at: u32| (0x0a00 + at) << 16 | 0x0101;
    let mut all: Vec<_> =
        (0..light).map(|at| client(host(at), How::Random(0.2 * per_second / f64::from(light)), takes)).collect();
    all.push(client(host(light), How::Random(0.3 * per_second), takes));
    all
}

fn hostile(hosts: impl Iterator<Item = u32>, asks: How, takes: u64) -> Vec<Client> {
    hosts.map(|host| Client { from: BEGIN, ..client(host, asks, takes) }).collect()
}

/// What became of the light and of the heavy bystanders.
struct Outcome {
    light: Fate,
    heavy: Fate,
    used: f64,
    most: u32,
}

/// Beside hostile clients for so many seconds.
fn places(max: u32, light: u32, hostile: Vec<Client>, seconds: u64) -> Outcome {
    let mut clients = bystanders(f64::from(max) * 10.0, light, 100 * MS);
    clients.extend(hostile);
    let mut world = World::new(Fair::new(PlacesSpec::new(max)), clients, BEGIN, 7);
    world.run(BEGIN + seconds * SECOND);
    let light = light as usize;
    let outcome = Outcome {
        light: world.fate(0..light),
        heavy: world.fate(light..light + 1),
        used: world.used(),
        most: world.most,
    };
    println!(
        "{max} places: light {:.4} p99 {:?}, heavy {:.3}, used {:.3}, reserve {:.2}",
        outcome.light.share(),
        outcome.light.p99(),
        outcome.heavy.share(),
        outcome.used,
        world.gate.door.reserve(),
    );
    outcome
}

fn one_host() -> std::ops::RangeInclusive<u32> {
    0xc000_0001..=0xc000_0001
}

fn of_one_24() -> std::ops::Range<u32> {
    0xc000_0001..0xc000_00c9
}

const LATER: u64 = 100 * MS;

#[test]
fn one_host_with_many_connections_leaves_the_others_theirs() {
    for (max, light, many) in [(8, 8, 24), (20, 8, 100), (400, 50, 1_200)] {
        let outcome = places(max, light, hostile(one_host(), How::Connections(many, LATER), 100 * MS), 12);
        assert!(outcome.light.share() >= 0.99);
        assert!(outcome.heavy.share() >= 0.95);
        assert!(outcome.light.p99() <= Duration::from_millis(200));
        assert!(outcome.used >= 0.98);
        assert_eq!(outcome.most, max, "the cap is reached, and never exceeded");
    }
}

#[test]
fn many_hosts_leave_the_others_theirs() {
    for max in [8, 20] {
        let eight = (0..8).map(|net| 0xc000_0001 + (net << 16));
        let outcome = places(max, 8, hostile(eight, How::Connections(24, LATER), 100 * MS), 30);
        assert!(outcome.light.share() >= 0.99);
        // nine heavy ones divide what the light leave
        let due = 0.8 * f64::from(max) * 10.0 / 9.0 * 30.0;
        assert!(outcome.heavy.served as f64 >= 0.95 * due, "{} of {due}", outcome.heavy.served);

        let outcome = places(max, 8, hostile(of_one_24(), How::Connections(6, LATER), 100 * MS), 12);
        assert!(outcome.light.share() >= 0.98, "{}", outcome.light.share());
        assert!(outcome.used >= 0.92);
    }
}

#[test]
fn slow_requests_leave_the_others_theirs() {
    for max in [8, 20] {
        let outcome = places(max, 8, hostile(one_host(), How::Connections(24, LATER), 2 * SECOND), 40);
        assert!(outcome.light.share() >= 0.97);
        assert!(outcome.heavy.share() >= 0.90);
    }
}

#[test]
fn requests_that_are_abandoned_hold_their_places_to_the_end() {
    for max in [8, 20] {
        let leavers = hostile(one_host(), How::Connections(24, LATER), 100 * MS)
            .into_iter()
            .map(|client| Client { leaves: Some(20 * MS), ..client })
            .collect();
        let outcome = places(max, 8, leavers, 12);
        assert!(outcome.light.share() >= 0.99);
        assert!(outcome.heavy.share() >= 0.95);
        assert!(outcome.most <= max);
    }
}

#[test]
fn light_ones_that_come_together_are_served() {
    for max in [20, 400] {
        let clients: Vec<_> = (0..20)
            .map(|at| client((0x0a00 + at) << 16 | 1, How::Burst(1, SECOND), 100 * MS))
            .chain(hostile(one_host(), How::Connections(3 * max, LATER), 100 * MS))
            .collect();
        let mut world = World::new(Fair::new(PlacesSpec::new(max)), clients, BEGIN, 11);
        world.run(BEGIN + 12 * SECOND);
        let light = world.fate(0..20);
        println!("{max} places, 20 together: {:.4} p99 {:?}", light.share(), light.p99());
        assert!(light.share() >= 0.99);
    }
}

#[test]
fn critical_requests_are_served_beside_any_background() {
    let mut clients = bystanders(200.0, 8, 100 * MS);
    for client in &mut clients {
        client.criticality = Criticality::Critical;
    }
    let eight = (0..8).map(|net| 0xc000_0001 + (net << 16));
    let background = hostile(eight, How::Connections(100, LATER), 100 * MS);
    clients.extend(background.into_iter().map(|client| Client { criticality: Criticality::Background, ..client }));
    let mut world = World::new(Fair::new(PlacesSpec::new(20)), clients, BEGIN, 13);
    world.run(BEGIN + 12 * SECOND);
    let critical = world.fate(0..9);
    assert!(critical.share() >= 0.999, "{}", critical.share());
    assert!(world.fates[9..].iter().all(|fate| fate.served > 0), "nobody starves");
}

/// Critical requests of 100 ms, one at a time, beside background ones of 2 s that always ask for three times the places.
fn beside_slow_background(reserved: Reserved) -> (Fate, f64) {
    let mut clients =
        vec![Client { criticality: Criticality::Critical, ..client(0x0a00_0001, How::Random(8.0), 100 * MS) }];
    let eight = (0..8).map(|net| 0xc000_0001 + (net << 16));
    let background = hostile(eight, How::Connections(8, LATER), 2 * SECOND);
    clients.extend(background.into_iter().map(|client| Client { criticality: Criticality::Background, ..client }));
    let spec = PlacesSpec { reserve: Reserve::None, reserved, ..PlacesSpec::new(20) };
    let mut world = World::new(Fair::new(spec), clients, BEGIN, 19);
    world.run(BEGIN + 60 * SECOND);
    (world.fate(0..1), world.used())
}

#[test]
fn places_that_are_kept_for_a_class_are_there_when_it_comes() {
    let (with, used) = beside_slow_background(Reserved::new([0.15, 0.0, 0.0, 0.0]));
    let (without, _) = beside_slow_background(Reserved::default());
    println!("critical waits {:?} with 3 places kept, {:?} without; {used:.3} used", with.p99(), without.p99());
    assert!(with.share() >= 0.999);
    assert!(with.p99() <= Duration::from_millis(60), "{:?}", with.p99());
    assert!(without.p99() > 2 * with.p99(), "{:?}", without.p99());
    // seventeen of the twenty are everybody's
    assert!(used >= 0.98 * 17.0 / 20.0, "{used}");
}

#[test]
fn many_users_behind_one_address_get_what_their_weight_says() {
    for (weight, least, most) in [(1.0, 0.0, 0.5), (100.0, 0.99, 1.0)] {
        let office = Client { weight, ..client(0x0a00_0001, How::Random(1_000.0), 100 * MS) };
        let mut clients = vec![office];
        clients.extend(hostile(of_one_24(), How::Connections(10, LATER), 100 * MS));
        let mut world = World::new(Fair::new(PlacesSpec::new(200)), clients, BEGIN, 17);
        world.run(BEGIN + 10 * SECOND);
        let office = world.fate(0..1).share();
        println!("weight {weight}: {office:.3}");
        assert!((least..=most).contains(&office), "{office}");
    }
}

/// Twenty light ones and one heavy one at a rate, beside hostile ones.
fn rate(per_second: f64, light: &dyn Fn(u32) -> How, heavy: f64, hostile: Vec<Client>) -> (Fate, Fate) {
    let mut clients: Vec<_> = (0..20).map(|at| client((0x0a00 + at) << 16 | 1, light(at), 0)).collect();
    clients.push(client(0x0b00_0001, How::Random(heavy * per_second), 0));
    clients.extend(hostile);
    let mut world = World::new(Rate::new(TokensSpec::new(per_second)), clients, BEGIN, 19);
    world.run(BEGIN + 60 * SECOND);
    let (light, heavy) = (world.fate(0..20), world.fate(20..21));
    println!("{per_second}/s: light {:.4} p99 {:?}, heavy {:.3}", light.share(), light.p99(), heavy.share());
    (light, heavy)
}

#[test]
fn a_rate_is_shared_at_every_capacity() {
    for per_second in [5.0, 10.0, 30.0, 100.0, 1_000.0] {
        let steady = |_: u32| How::Random(0.01 * per_second);
        let together = |_: u32| How::Burst(1, (100.0 / per_second * SECOND as f64) as u64);
        let one = || hostile(one_host(), How::Random(10.0 * per_second), 0);
        let many = || hostile(of_one_24(), How::Random(0.05 * per_second), 0);
        for attack in [one(), many()] {
            let (light, _) = rate(per_second, &steady, 0.3, attack.clone());
            assert!(light.share() >= 0.99);
            let (light, _) = rate(per_second, &together, 0.3, attack);
            assert!(light.share() >= 0.99);
        }
        let (light, heavy) = rate(per_second, &steady, 0.3, one());
        assert!(light.share() >= 0.99 && heavy.share() >= 0.95);
        // no flood, nine tenths of the capacity
        let (light, heavy) = rate(per_second, &steady, 0.7, Vec::new());
        assert!(light.share() >= 0.999 && heavy.share() >= 0.999);
    }
}

#[test]
fn many_users_behind_one_address_get_what_their_weight_says_of_a_rate() {
    for (weight, least, most) in [(1.0, 0.0, 0.4), (100.0, 0.99, 1.0)] {
        let office = Client { weight, ..client(0x0a00_0001, How::Random(50.0), 0) };
        let mut clients = vec![office];
        clients.extend((0..20).map(|net| client((0xc000 + net) << 16 | 1, How::Random(50.0), 0)));
        let mut world = World::new(Rate::new(TokensSpec::new(100.0)), clients, BEGIN, 37);
        world.run(BEGIN + 30 * SECOND);
        let office = world.fate(0..1).share();
        println!("weight {weight}: {office:.3}");
        assert!((least..=most).contains(&office), "{office}");
    }
}

#[test]
fn critical_requests_get_their_units_of_any_rate_beside_background_of_twelve_times() {
    for (per_second, seconds) in [(5.0, 600), (10.0, 300), (30.0, 100), (100.0, 60), (1_000.0, 10)] {
        let attacks = [
            hostile(one_host(), How::Random(12.0 * per_second), 0),
            hostile((0..8).map(|net| 0xc000_0001 + (net << 16)), How::Random(1.5 * per_second), 0),
            hostile(of_one_24(), How::Random(0.06 * per_second), 0),
            hostile((0..200).map(|net| 0xc000_0001 + (net << 16)), How::Random(0.06 * per_second), 0),
            // as much as there is, so that sometimes nobody waits
            hostile((0..200).map(|net| 0xc000_0001 + (net << 16)), How::Random(0.004 * per_second), 0),
        ];
        for (critical, background) in
            [1_u32, 20].into_iter().flat_map(|one| attacks.clone().map(|attack| (one, attack)))
        {
            let asks = How::Random(0.2 * per_second / f64::from(critical));
            let important = (0..critical).map(|at| client((0x0a00 + at) << 16 | 1, asks, 0));
            let mut clients: Vec<_> =
                important.map(|client| Client { criticality: Criticality::Critical, ..client }).collect();
            let background = background.into_iter();
            clients.extend(background.map(|client| Client { criticality: Criticality::Background, ..client }));
            let mut world = World::new(Rate::new(TokensSpec::new(per_second)), clients, BEGIN, 23);
            world.run(BEGIN + seconds * SECOND);
            let fate = world.fate(0..critical as usize);
            assert!(fate.share() >= 0.999, "{}", fate.share());
            println!("{per_second}/s, {critical} critical: {:.4} p99 {:?}", fate.share(), fate.p99());
            assert!(world.fates[critical as usize..].iter().any(|fate| fate.served > 0), "nobody starves");
        }
    }
}

#[test]
fn background_gets_its_turn_of_a_rate_that_critical_requests_alone_exceed() {
    for per_second in [10.0, 100.0] {
        let important = (0..20).map(|at| client((0x0a00 + at) << 16 | 1, How::Random(0.1 * per_second), 0));
        let mut clients: Vec<_> =
            important.map(|client| Client { criticality: Criticality::Critical, ..client }).collect();
        let background = client(0xc000_0001, How::Random(per_second), 0);
        clients.push(Client { criticality: Criticality::Background, ..background });
        let mut world = World::new(Rate::new(TokensSpec::new(per_second)), clients, BEGIN, 29);
        world.run(BEGIN + 120 * SECOND);
        let share = world.fate(20..21).share();
        assert!((0.04..0.09).contains(&share), "{share}: one unit in sixteen");
    }
}
