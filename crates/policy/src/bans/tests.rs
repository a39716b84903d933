use std::sync::Arc;

use http::HeaderMap;

use super::*;
use crate::client::{Client, ClientNetwork, ClientRules, KeySpec, Mark, resolve};
use crate::request::Peer;
use crate::sketch::Seed;
use crate::units::{Prefix, Timestamp};

const ORIGIN: u64 = 1_000_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

fn bans() -> Bans {
    Bans::new(KeySecret([3; 16]))
}

fn client(address: &str) -> Client {
    resolve(&ClientRules::default(), Peer::Ip(address.parse().unwrap()), &HeaderMap::new()).unwrap()
}

fn network(address: &str, length: u8) -> Target {
    Target::Network(Prefix::new(address.parse().unwrap(), length).unwrap())
}

fn order(target: Target, until: u64) -> Order {
    Order {
        target,
        given: 5,
        until: at(until),
        by: "alice".to_owned(),
        why: "because".to_owned(),
        automatic: false,
        in_row: None,
        elsewhere: false,
    }
}

/// The number of the ban that the client is under.
fn of(bans: &Bans, client: &Client, now: u64) -> Option<u32> {
    bans.table().of_client(client, at(now)).map(|ban| ban.number)
}

#[test]
fn of_two_bans_the_one_that_ends_later_holds() {
    let bans = bans();
    bans.give(order(network("192.0.2.0", 24), 100), at(0)).unwrap();
    bans.give(order(network("192.0.2.7", 32), 50), at(0)).unwrap();
    bans.give(order(network("192.0.2.8", 32), 200), at(0)).unwrap();
    let (seven, eight) = (client("192.0.2.7"), client("192.0.2.8"));
    assert_eq!((of(&bans, &seven, 10), of(&bans, &seven, 99), of(&bans, &seven, 100)), (Some(1), Some(1), None));
    assert_eq!((of(&bans, &eight, 10), of(&bans, &eight, 199), of(&bans, &eight, 200)), (Some(3), Some(3), None));
    assert_eq!(of(&bans, &client("192.0.3.7"), 10), None);
    let ended = bans.clear_ended(at(150));
    assert_eq!(ended.iter().map(|ban| ban.number).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(bans.list(at(150)).len(), 1);
}

#[test]
fn the_same_target_keeps_its_number_and_its_count() {
    let bans = bans();
    bans.give(order(network("192.0.2.7", 32), 100), at(0)).unwrap();
    BanTable::refuse(bans.table().of_client(&client("192.0.2.7"), at(1)).unwrap());
    let again = bans.give(order(network("192.0.2.7", 32), 40), at(1)).unwrap();
    assert_eq!((again.number, again.refused(), bans.list(at(1)).len()), (1, 1, 1));
    assert_eq!(of(&bans, &client("192.0.2.7"), 40), None, "a shorter one in its place");
    let lifted = bans.lift(|ban| ban.number == 1, at(2), 5);
    assert_eq!((lifted.len(), bans.lift(|_| true, at(2), 5).len()), (1, 0));
    assert_eq!(bans.give(order(network("192.0.2.7", 32), 40), at(3)).unwrap().number, 2);
}

#[test]
fn a_client_that_is_counted_apart_is_banned_apart() {
    let bans = bans();
    let proxy = client("192.0.2.1");
    let mut degraded = proxy;
    degraded.mark = Mark::Degraded;
    let target = Target::Client { network: degraded.network, mark: degraded.mark };
    bans.give(order(target, 100), at(0)).unwrap();
    assert_eq!((of(&bans, &degraded, 1), of(&bans, &proxy, 1)), (Some(1), None));
    // a network takes every client in it, however sure its address is
    bans.give(order(network("192.0.2.0", 24), 200), at(0)).unwrap();
    assert_eq!((of(&bans, &degraded, 1), of(&bans, &proxy, 1)), (Some(2), Some(2)));
    let unix = resolve(&ClientRules::default(), Peer::Unix, &HeaderMap::new()).unwrap();
    assert_eq!(of(&bans, &unix, 1), None);
    let target = Target::Client { network: ClientNetwork::Unix, mark: Mark::Verified };
    bans.give(order(target, 100), at(0)).unwrap();
    assert_eq!(of(&bans, &unix, 1), Some(3));
}

#[test]
fn a_client_behind_a_translator_is_banned_by_what_it_is_counted_by() {
    let bans = bans();
    // it has no address of its own inside, and counts as its /64, in which the others' addresses are written
    let (nobody, other) = (client("64:ff9b::10.0.0.1"), client("64:ff9b::7.7.7.7"));
    let automatic = Order { automatic: true, ..order(network("64:ff9b::", 64), 100) };
    bans.give(automatic, at(0)).unwrap();
    assert_eq!((of(&bans, &nobody, 1), of(&bans, &other, 1)), (Some(1), None));
    bans.give(order(network("7.7.7.7", 32), 100), at(0)).unwrap();
    assert_eq!((of(&bans, &other, 1), of(&bans, &client("7.7.7.7"), 1)), (Some(2), Some(2)));
    // who orders it means all of them
    bans.give(order(network("64:ff9b::", 96), 100), at(0)).unwrap();
    assert_eq!((of(&bans, &client("64:ff9b::9.9.9.9"), 1), of(&bans, &client("9.9.9.9"), 1)), (Some(3), None));
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let bans = bans();
    for number in 0..MOST_BANS as u32 {
        bans.give(order(network(&std::net::Ipv4Addr::from(number << 1).to_string(), 32), 100), at(0)).unwrap();
    }
    assert_eq!(bans.give(order(network("2001:db8::", 32), 100), at(0)).unwrap_err(), Full);
    assert!(bans.give(order(network("0.0.0.0", 32), 200), at(0)).is_ok(), "one that is there already");
    assert!(bans.give(order(network("2001:db8::", 32), 300), at(150)).is_ok(), "the others have ended");
}

#[test]
fn what_is_saved_is_restored_with_its_keys_counts_and_numbers() {
    let (before, after) = (bans(), Bans::new(KeySecret([4; 16])));
    let key = KeySpec::new(["header:x-api-key".parse().unwrap()], Some(crate::client::key::Missing::Allow)).unwrap();
    let made = key_request(&key, &ClientRules::default(), "stolen, with a comma").unwrap();
    let hashes = |bans: &Bans| bans.table().hashes(("by_key", &key), &made.request(), &made.client, "").unwrap();
    let (secret, hash) = hashes(&before);
    let target = Target::Key { limit: "by_key".to_owned(), secret, hash: hash[0] };
    let unix = Target::Client { network: ClientNetwork::Unix, mark: Mark::Short };
    for target in [network("192.0.2.7", 32), target.clone(), network("2001:db8::", 48), unix] {
        before.give(order(target, 100), at(0)).unwrap();
    }
    before.give(order(network("198.51.100.0", 24), 20), at(0)).unwrap();
    assert_ne!(hashes(&before).1[0], hashes(&after).1[0], "each has its own secret");
    let text = serde_json::to_string(&Saved::of(&before, at(10), ORIGIN)).unwrap();
    let saved: Saved = serde_json::from_str(&text).unwrap();
    // the other process began 30 s later, so that one of them has ended by its time
    let origin = ORIGIN + 30_000_000_000;
    assert_eq!(saved.restore(&after, at(0), origin), Ok(4));
    let list = |bans: &Bans, now| {
        let told = |ban: &Arc<Ban>| (ban.number, ban.target.clone(), ban.by.clone(), ban.why.clone(), ban.given);
        bans.list(now).iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(list(&after, at(0)), list(&before, at(30)));
    assert_eq!(of(&after, &client("192.0.2.7"), 69), Some(1));
    assert_eq!(of(&after, &client("192.0.2.7"), 70), None);
    let found = after.table().of_key(("by_key", &key), &made.request(), &made.client, "", at(1)).map(|ban| ban.number);
    assert_eq!(found, Some(2));
    assert!(after.table().has_keys_of("by_key") && !after.table().has_keys_of("by_ke"));
    assert_eq!(after.give(order(network("203.0.113.0", 24), 100), at(1)).unwrap().number, 6);
}

#[test]
fn a_key_is_written_as_its_values() {
    let parse = |parts: &[&str], text: &str| {
        let parts = parts.iter().map(|part| part.parse().unwrap());
        let key = KeySpec::new(parts, Some(crate::client::key::Missing::Allow)).unwrap();
        key_request(&key, &ClientRules::default(), text).map(|made| {
            let seed = Seed::from_bytes([0; 16]);
            key.hash(&made.request(), &made.client, &made.route, &seed).unwrap()
        })
    };
    for (parts, one, other) in [
        (&["client_ip"][..], "192.0.2.1", "192.0.2.2"),
        (&["cookie:sid"], "a;b=c", "a"),
        (&["query:token"], "a&token=b", "a"),
        (&["cookie:a", "cookie:b"], "1,2", "2,1"),
        (&["query:a", "query:b"], "1,2", "1,1"),
        (&["host"], "a.example", "b.example"),
        (&["path"], "/a", "/b"),
        (&["path:segments=1"], "/a", "/b"),
        (&["method"], "POST", "PUT"),
        (&["method_class"], "read", "write"),
        (&["route"], "login", "page"),
        (&["tls_sni"], "a.example", "b.example"),
        (&["client_ip", "header:x-tenant"], "192.0.2.1, a", "192.0.2.1, b"),
    ] {
        assert_ne!(parse(parts, one).unwrap(), parse(parts, other).unwrap(), "{parts:?}");
        assert_eq!(parse(parts, one).unwrap(), parse(parts, one).unwrap(), "{parts:?}");
    }
    assert_eq!(parse(&["global"], "x"), Err(KeyValueFault::ForAll));
    for (parts, text, why) in [
        (&["client_ip"][..], "example", "no client_ip"),
        (&["client_ip", "path"], "192.0.2.1", "found 1 values; this limit counts by client_ip, path: write 2"),
        (&["path"], "a", "no path"),
        (&["method_class"], "GET", "no method_class"),
        (&["header:x-a"], "a\nb", "no header:x-a"),
    ] {
        let said = parse(parts, text).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}
