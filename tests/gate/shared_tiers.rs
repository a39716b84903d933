//! Tiers of limits that gates share through a real store, and gates that go on by their parts when it is gone.

use std::time::{Duration, Instant};

use crate::harness::gate::{binary, end};
use crate::harness::redis::Server;
use crate::harness::shared::{gate, know_one_another};
use crate::harness::{Gate, undisturbed, wait_for};
use crate::shared_limits::{LONG, policy, without_store};

/// A limit with a tier for requests that say so.
fn tiered(own: &str, tier: &str, sharing: &str) -> String {
    format!("{own}, sharing: {sharing}, tiers: [{{ when: {{ header: {{ x-tier: other }} }}, {tier} }}]")
}

fn status(gate: &Gate, tier: &str) -> u16 {
    gate.fetch("/", &format!("X-Forwarded-For: 203.0.113.7\r\nX-Tier: {tier}\r\n")).status
}

/// How many of so many requests pass, at one gate after the other.
fn passed(gates: &[Gate], tier: &str, requests: usize) -> usize {
    (0..requests).filter(|nth| status(&gates[nth % gates.len()], tier) == 200).count()
}

fn two(store: &Server, words: &str) -> Vec<Gate> {
    let gates: Vec<Gate> = (0..2).map(|_| gate(&policy(store, LONG, words))).collect();
    know_one_another(&gates);
    gates
}

#[test]
fn a_slow_tier_takes_only_its_own_and_leaves_the_others_theirs() {
    for (sharing, most) in [("exact", 2), ("lease", 2), ("estimate", 4)] {
        let store = Server::start(&[]);
        let gates = two(&store, &tiered("rate: 200/s, burst: 100", "rate: 2/h, burst: 2", sharing));
        let (mut slow, mut normal) = (0, 0);
        for _ in 0..100 {
            slow += passed(&gates, "other", 2);
            normal += passed(&gates, "own", 2);
            // below the rate, whatever the machine does
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("{sharing}: {slow} of the slow tier, {normal} of 200 others");
        assert!(slow <= most, "{sharing}: {slow} by a tier of 2/h, burst 2");
        assert!(normal >= 198, "{sharing}: {normal} of 200");
    }
}

#[test]
fn whoever_spent_the_free_plan_has_the_gold_one_and_no_second_free_one() {
    // a lease lives for a second, and what is left of it then is lost: only faster runs show that nothing else is
    let alive = Duration::from_millis(950);
    let run = |sharing: &str| {
        let store = Server::start(&[]);
        let gates = two(&store, &tiered("rate: 20/h, burst: 20", "rate: 1000/s, burst: 200", sharing));
        let gates = &gates[..1];
        let began = Instant::now();
        let own = passed(gates, "own", 30);
        let slow = sharing == "lease" && began.elapsed() > alive;
        let other = passed(gates, "other", 100);
        std::thread::sleep(Duration::from_millis(300));
        let passed = [own, other, passed(gates, "other", 50), passed(gates, "own", 10)];
        if slow || without_store(gates) > 0.0 {
            return None;
        }
        assert_eq!(passed, [20, 100, 50, 0], "{sharing}");
        Some(())
    };
    for sharing in ["exact", "lease", "estimate"] {
        undisturbed(sharing, || run(sharing));
    }
}

#[test]
fn a_change_of_tier_brings_no_fresh_budget() {
    for sharing in ["exact", "lease", "estimate"] {
        for (first, second) in [("own", "other"), ("other", "own")] {
            let store = Server::start(&[]);
            let gate = gate(&policy(&store, LONG, &tiered("rate: 1/h, burst: 20", "rate: 1/h, burst: 30", sharing)));
            wait_for("a connection", || (gate.metrics().sum("tidegate_store_connected", &[]) == 1.0).then_some(()));
            let gates = [gate];
            let spent = passed(&gates, first, 40);
            let more = passed(&gates, second, 40);
            // the rest of a lease ends with it
            let all = if sharing == "lease" { 26..=30 } else { 30..=30 };
            println!("{sharing}: {spent} as {first}, {more} as {second}");
            assert_eq!(passed(&gates, first, 10), 0, "{sharing}: {spent} as {first}, {more} as {second}");
            assert!(
                spent <= if first == "own" { 20 } else { 30 } && all.contains(&(spent + more)),
                "{sharing}: {spent}, {more}"
            );
        }
    }
}

#[test]
fn the_wait_that_a_refused_client_is_told_comes_true_however_gates_share() {
    std::thread::scope(|scope| {
        for sharing in ["exact", "lease", "estimate"] {
            scope.spawn(move || {
                let store = Server::start(&[]);
                let words = format!("rate: 2/s, burst: 6, sharing: {sharing}, cost: {{ POST: 4, other: 1 }}");
                let gate = gate(&policy(&store, LONG, &words));
                wait_for("a connection", || (gate.metrics().sum("tidegate_store_connected", &[]) == 1.0).then_some(()));
                let mut connection = gate.connect();
                let mut ask = |method| {
                    let answer = connection.ask(method, "/", "X-Forwarded-For: 203.0.113.7\r\n", b"");
                    if !answer.keeps_connection() {
                        connection = gate.connect();
                    }
                    let wait = answer.field("retry-after").map(|wait| wait.parse::<u64>().unwrap());
                    assert_eq!(answer.status == 429, wait.is_some(), "{sharing} {method}: a refusal says when");
                    wait
                };
                for method in ["GET", "POST", "GET", "POST"] {
                    let wait = (0..100).find_map(|_| ask(method)).expect("six are allowed");
                    assert!((1..=4).contains(&wait), "{sharing} {method}: {wait}");
                    std::thread::sleep(Duration::from_secs(wait));
                    // with leases, what one too small for it holds is lost to a dear request
                    let may_be_short = sharing == "lease" && method == "POST";
                    let last = ask(method).and_then(|wait| {
                        if !may_be_short {
                            return Some(wait);
                        }
                        std::thread::sleep(Duration::from_secs(wait));
                        ask(method)
                    });
                    assert_eq!(last, None, "{sharing} {method}: after {wait} s");
                }
            });
        }
    });
}

#[test]
fn what_a_refused_client_is_told_allows_for_what_others_of_its_key_were_granted_since() {
    let dear = "rate: 1/s, burst: 5, cost: { PUT: 5, other: 1 }";
    let slow = tiered("rate: 100/s, burst: 100", "rate: 20/m, burst: 2", "SHARING");
    std::thread::scope(|scope| {
        for sharing in ["exact", "lease"] {
            // which requests are refused, and which pass in spite of that
            for (words, refused, granted) in [
                (format!("{dear}, sharing: {sharing}"), ("PUT", "own"), ("GET", "own")),
                (slow.replace("SHARING", sharing), ("GET", "other"), ("GET", "own")),
            ] {
                scope.spawn(move || {
                    let run = || {
                        let store = Server::start(&[]);
                        let gate = gate(&policy(&store, LONG, &words));
                        wait_for("a connection", || {
                            (gate.metrics().sum("tidegate_store_connected", &[]) == 1.0).then_some(())
                        });
                        let ask = |(method, tier): (&str, &str)| {
                            let fields = format!("X-Forwarded-For: 203.0.113.7\r\nX-Tier: {tier}\r\n");
                            let answer = gate.connect().ask(method, "/", &fields, b"");
                            (answer.status == 429)
                                .then(|| answer.field("retry-after").expect("a time").parse::<u64>().unwrap())
                        };
                        let _ = [granted, granted, refused].map(ask);
                        let first = (0..10).find_map(|_| ask(refused)).expect("few are allowed");
                        std::thread::sleep(Duration::from_secs(first) / 2);
                        let _ = [granted, granted, granted].map(ask);
                        // a lease that is being filled up has its units by then, and none of them counts later
                        std::thread::sleep(Duration::from_millis(300));
                        let Some(told) = ask(refused) else { return Some(()) };
                        std::thread::sleep(Duration::from_secs(told) + Duration::from_millis(200));
                        let after = ask(refused);
                        // on a slow machine a lease is filled up later than that, or lost with its units
                        let disturbed = sharing == "lease" || without_store(std::slice::from_ref(&gate)) > 0.0;
                        assert!(after.is_none() || disturbed, "{words}: told {told} s, after {first} s before");
                        after.is_none().then_some(())
                    };
                    undisturbed(&words, run);
                });
            }
        }
    });
}

#[test]
fn a_reload_of_a_tiers_rate_neither_gives_it_budget_nor_locks_it_out() {
    for sharing in ["exact", "lease", "estimate"] {
        for (from, to, longest) in [("30/h", "1800/h", 3), ("1800/h", "30/h", 120)] {
            let store = Server::start(&[]);
            let words = |rate: &str| tiered("rate: 1000/s, burst: 100", &format!("rate: {rate}, burst: 20"), sharing);
            let gates = two(&store, &words(from));
            let began = Instant::now();
            // half a unit a second comes back at the faster of the two
            let back = || 1 + began.elapsed().as_secs() as usize / 2;
            let spent = passed(&gates[..1], "other", 30);
            assert!((20..=20 + back()).contains(&spent), "{sharing} {from}: {spent}");
            let file = gates[0].folder().join("tidegate.yaml");
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, text.replace(&format!("rate: {from}, burst: 20"), &format!("rate: {to}, burst: 20")))
                .unwrap();
            let ended = end(binary().arg("reload").arg("--admin").arg(gates[0].admin_socket()));
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            let again = passed(&gates[..1], "other", 20);
            assert!(spent + again <= 20 + back(), "{sharing} {from} to {to}: {again} more");
            let answer = gates[0].fetch("/", "X-Forwarded-For: 203.0.113.7\r\nX-Tier: other\r\n");
            if answer.status == 429 {
                let wait: u64 = answer.field("retry-after").expect("a time").parse().unwrap();
                assert!(wait <= longest + longest / 4 + 1, "{sharing} {from} to {to}: {wait}");
            }
            assert!(passed(&gates[..1], "own", 50) >= 50, "{sharing} {from} to {to}: the others have theirs");
        }
    }
}

#[test]
fn six_gates_each_let_one_of_a_burst_of_three_in_while_the_store_is_gone_and_say_when_the_next_passes() {
    for sharing in ["exact", "lease"] {
        let mut store = Server::start(&[]);
        let words = format!("rate: 3/s, burst: 3, sharing: {sharing}, on_store_error: local");
        let gates: Vec<Gate> = (0..6).map(|_| gate(&policy(&store, LONG, &words))).collect();
        know_one_another(&gates);
        store.kill();
        for gate in &gates {
            wait_for("the end of the connection", || {
                (gate.metrics().sum("tidegate_store_connected", &[]) == 0.0).then_some(())
            });
        }
        for (number, gate) in gates.iter().enumerate() {
            let ask = || gate.fetch("/", "X-Forwarded-For: 203.0.113.7\r\n");
            assert_eq!(ask().status, 200, "{sharing}: the first request at gate {number}");
            let refused = ask();
            // six units at three a second take two seconds; the machine may have let that pass
            if refused.status == 429 {
                let wait: u64 = refused.field("retry-after").expect("a time").parse().unwrap();
                assert!((1..=3).contains(&wait), "{sharing}: {wait}");
                if number == 0 {
                    std::thread::sleep(Duration::from_secs(wait));
                    assert_eq!(ask().status, 200, "{sharing}: as it was told");
                }
            }
        }
    }
}
