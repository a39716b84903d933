//! `type: distinct` of three gates on one store: what they let pass together, what the store gets to see, and what an outage changes.

use crate::harness::redis::Server;
use crate::harness::{Gate, undisturbed, wait_for};
use crate::shared_limits::{LONG, gates, policy, told, without_store};

const KEYS: &str = "*:per_client:*values*";

fn status(gate: &Gate, name: &str) -> u16 {
    gate.fetch("/", &format!("X-Forwarded-For: 203.0.113.7\r\nX-Name: {name}\r\n")).status
}

fn name(nth: usize) -> String {
    format!("login-name-{nth}")
}

fn words(max: usize, more: &str) -> String {
    format!("type: distinct, key: client_ip, of: 'header:x-name', missing: deny, max: {max}, window: 744h{more}")
}

/// How many of these names pass, asked in turns at all gates.
fn passing(gates: &[Gate], names: std::ops::Range<usize>) -> usize {
    names.filter(|nth| status(&gates[nth % gates.len()], &name(*nth)) == 200).count()
}

#[test]
fn three_gates_let_as_many_different_values_pass_as_one_and_the_store_reads_none() {
    for words in [
        words(5, ", on_store_error: closed"),
        words(5, ", on_store_error: closed, sharing: exact"),
        words(5, ", on_store_error: closed").replace("744h", "24h, sliding: true"),
    ] {
        undisturbed(&words, || {
            let store = Server::start(&[]);
            let gates = gates(&policy(&store, LONG, &words));
            assert_eq!(passing(&gates, 0..12), 5, "{words}");
            // those that passed pass at every gate, and no other does at any
            for gate in &gates {
                for nth in 0..12 {
                    assert_eq!(status(gate, &name(nth)), if nth < 5 { 200 } else { 429 }, "{words}: {nth}");
                }
            }
            let answer = gates[1].fetch("/", "X-Forwarded-For: 203.0.113.7\r\nX-Name: another\r\n");
            assert!(answer.status == 429 && answer.field("retry-after").is_some(), "{answer:?}");
            let key = store.cli(&["KEYS", KEYS]);
            assert_eq!(store.cli(&["ZCARD", &key]), "5", "{words}: {key}");
            let ends: i64 = store.cli(&["PTTL", &key]).parse().unwrap();
            assert!((1..=744 * 3_600_000).contains(&ends), "{words}: {ends}");
            let kept = store.cli(&["ZRANGE", &key, "0", "-1"]);
            assert!(!kept.contains("login") && !key.contains("203.0.113"), "{words}: {key}: {kept}");
            if words.contains("exact") {
                return (without_store(&gates) == 0.0).then_some(());
            }
            // what a gate knows it does not ask about
            let before = told(&gates, "tidegate_store_questions_total", &[]);
            for nth in 0..60 {
                assert_eq!(status(&gates[0], &name(nth % 5)), 200);
            }
            let asked = told(&gates, "tidegate_store_questions_total", &[]) - before;
            assert!(asked <= 20.0, "{words}: {asked} questions about five values in a moment");
            (without_store(&gates) == 0.0).then_some(())
        });
    }
}

#[test]
fn clients_and_tiers_have_values_of_their_own_numbers() {
    undisturbed("tiers", || {
        let store = Server::start(&[]);
        let tiers = ", tiers: [{ when: { cidr: 198.51.100.0/24 }, max: 8 }], on_store_error: closed";
        let gates = gates(&policy(&store, LONG, &words(3, tiers)));
        for (client, most) in [("203.0.113.7", 3), ("203.0.113.8", 3), ("198.51.100.7", 8)] {
            let passes = |nth: &usize| {
                let head = format!("X-Forwarded-For: {client}\r\nX-Name: {}\r\n", name(*nth));
                gates[nth % 3].fetch("/", &head).status == 200
            };
            assert_eq!((0..12).filter(passes).count(), most, "{client}");
        }
        (without_store(&gates) == 0.0).then_some(())
    });
}

#[test]
fn a_store_that_is_emptied_counts_as_many_again_at_most() {
    undisturbed("an emptied store", || {
        let store = Server::start(&[]);
        let gates = gates(&policy(&store, LONG, &words(6, ", on_store_error: closed")));
        assert_eq!(passing(&gates, 0..10), 6);
        store.cli(&["FLUSHALL"]);
        // a refusal is remembered: of other names as many pass as before
        assert_eq!(passing(&gates, 10..30), 6);
        // a gate that knows a value asks about it again within four seconds, and no more are counted for that
        wait_for("the gates to forget", || (passing(&gates, 0..6) == 0).then_some(()));
        assert_eq!(store.cli(&["ZCARD", &store.cli(&["KEYS", KEYS])]), "6");
        (without_store(&gates) == 0.0).then_some(())
    });
}

#[test]
fn without_its_store_each_gate_lets_its_part_of_new_values_pass() {
    let mut store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, &words(6, "")));
    assert_eq!(passing(&gates, 0..1), 1);
    store.kill();
    for (at, gate) in gates.iter().enumerate() {
        wait_for("the gate to notice", || {
            let _ = status(gate, "any");
            (gate.metrics().sum("tidegate_store_fallback_decisions_total", &[]) > 0.0).then_some(())
        });
        let names = 100 * (at + 1)..100 * (at + 1) + 10;
        let passed: Vec<usize> = names.filter(|nth| status(gate, &name(*nth)) == 200).collect();
        // two of six, one of which was `any`
        assert_eq!(passed.len(), 1, "{passed:?}");
        assert_eq!(status(gate, &name(passed[0])), 200, "it passes again");
    }
    let mut closed = Server::start(&[]);
    let gates = self::gates(&policy(&closed, LONG, &words(6, ", on_store_error: closed")));
    closed.kill();
    assert!(gates.iter().all(|gate| status(gate, "new") == 503));
}
