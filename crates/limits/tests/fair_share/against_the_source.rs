//! What rakelimit gets wrong, shown by its own rules, and what ours says instead.

use tidegate_limits::limiter::kinds::fair_share::share::{FairShareSpec, Refusal};
use tidegate_limits::sketch::KeyHash;
use tidegate_limits::units::{Bytes, Timestamp};

use crate::reference::Rakelimit;
use crate::simulation::*;

/// Two hundred sources of one /24, each at `each` per second, for twenty seconds: what passes in all.
fn two_hundred(each: f64, decide: impl FnMut(&[Option<KeyHash>], Timestamp, u64) -> bool) -> f64 {
    let sources: Vec<Source> = (0..200).map(|n| source("bots", each, chain(client(Family::V4, 1, 1, n)))).collect();
    drive(&sources, 20, 5, decide, || f64::NAN).passed("bots", 0, 20)
}

#[test]
fn the_source_rewards_two_hundred_hosts_of_a_net_for_sending_more() {
    let reference = |each| {
        let mut rakelimit = Rakelimit::new(25.0, &[0, 1, 2]);
        two_hundred(each, |keys, now, _| rakelimit.passes(keys, now))
    };
    let (meek, greedy) = (reference(20.0), reference(100.0));
    assert!((25.0..45.0).contains(&meek), "{meek}/s in all at 20/s each");
    assert!((4_700.0..5_300.0).contains(&greedy), "{greedy}/s in all at 100/s each");
}

#[test]
fn the_source_is_fooled_by_two_requests_at_once() {
    // two packets a microsecond apart read as a million a second: a browser that opens six connections is a flood
    let mut rakelimit = Rakelimit::new(25.0, &[0]);
    let keys = [Some(key(&[b"a browser"]))];
    let limit = limiter(&compatible(25.0, CODE, &[0]));
    let (mut theirs, mut ours) = (0, 0);
    for page in 0..100 {
        for n in 0..6 {
            let now = Timestamp::from_nanos(START + page * 2 * SECOND + n * 1_000);
            theirs += u32::from(rakelimit.passes(&keys, now));
            ours += u32::from(passes(&limit, &keys, now, 1 << 62));
        }
    }
    assert!(theirs < 350, "{theirs} of 600");
    assert!(ours >= 550, "{ours} of 600");
}

#[test]
fn a_refusal_says_at_which_node_and_level_and_how_heavy() {
    let limit = limiter(&FairShareSpec { memory: Bytes(1 << 20), ..compatible(25.0, 1.0, &[0, 1, 2]) });
    let mut last = None;
    // no host is over the limit, their net is
    let hosts: Vec<Source> = (0..100).map(|n| source("hosts", 10.0, chain(client(Family::V4, 1, 1, n)))).collect();
    let decide = |keys: &[Option<KeyHash>], now, dice| {
        let offered = limit.offer(keys, now, dice);
        last = Some(offered);
        offered.admitted() && limit.admit(keys, &offered, now).is_ok()
    };
    drive(&hosts, 5, 5, decide, || f64::NAN);
    let last = last.unwrap();
    assert_eq!((last.node, last.level, last.share), (Some(1), Some(1), 25.0));
    assert_eq!(last.refusal, Some(Refusal::Thinned));
    assert!((900.0..1_100.0).contains(&last.rate), "{last:?}");
    assert_eq!(last.judgement(2).retry_nanos, None, "nobody can promise when a thinned request passes");
}
