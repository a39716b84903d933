//! A store that answers every question, but far away: nobody is refused for want of a word from it, with leases as without.

use std::time::Duration;

use crate::harness::redis::Server;
use crate::harness::relay::Relay;
use crate::harness::{Gate, undisturbed};

/// A gate with a lease of one key, and a store at 0.2 seconds that may take one. A request that asks by itself, and one that waits for
/// another's question first, have time for theirs, but not for question after question.
fn far(limit: &str) -> (Server, Relay, Gate) {
    let store = Server::start(&[]);
    let relay = Relay::to(store.port);
    relay.delay(Duration::from_millis(100));
    let policy = format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
stores: {{ shared: {{ url: \"redis://127.0.0.1:{}\", timeout: 1s, ready_within: 15s }} }}
limits: {{ all: {{ {limit}, store: shared, on_store_error: closed }} }}
routes: [{{ name: page, limits: [all], respond: {{ status: 200, body: ok }} }}]
listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }}, access_log: {{ to: ACCESS_LOG, sample: {{ refused: none }} }} }}
server: {{ overload: off, threads: 2 }}
",
        relay.port
    );
    let gate = Gate::start(&policy);
    (store, relay, gate)
}

/// The statuses of so many requests of one client at once, sorted.
fn at_once(gate: &Gate, requests: usize) -> Vec<u16> {
    let mut statuses: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..requests).map(|_| scope.spawn(|| gate.fetch("/", "").status)).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    statuses
}

/// How many questions the store was asked.
fn questions(relay: &Relay) -> usize {
    relay.heard()[0].windows(7).filter(|bytes| bytes == b"EVALSHA").count()
}

/// On a machine that has too much to do the store is now and then later than its second for a few of sixty: then somebody is refused
/// for want of a word, as should be, and the run proves nothing. A gate at fault refuses some in every run.
fn in_time(statuses: Vec<u16>) -> Option<Vec<u16>> {
    println!("{statuses:?}");
    (!statuses.contains(&503)).then_some(statuses)
}

#[test]
fn requests_that_wait_for_anothers_question_are_not_refused_for_its_smallness() {
    for limit in ["rate: 1000/m, burst: 1000", "rate: 600/h, burst: 600", "type: quota, max: 1000, window: 1h"] {
        undisturbed(limit, || {
            let (_store, _relay, gate) = far(limit);
            assert_eq!(in_time(at_once(&gate, 60))?, [200; 60], "{limit}: a fresh key");
            assert_eq!(in_time(at_once(&gate, 60))?, [200; 60], "{limit}: one that is known");
            Some(())
        });
    }
}

#[test]
fn who_waits_for_more_than_there_is_is_refused_by_the_store_and_a_flood_asks_it_nothing() {
    undisturbed("20/h", || {
        let (_store, relay, gate) = far("rate: 20/h, burst: 20");
        let first = in_time(at_once(&gate, 60))?;
        // some of what there was may be held for the next, and is lost a second later
        let admitted = first.iter().filter(|status| **status == 200).count();
        assert!((16..=20).contains(&admitted), "{first:?}");
        assert_eq!(first[admitted..], [429].repeat(60 - admitted), "nobody for want of a word");
        while in_time(at_once(&gate, 1))? == [200] {}
        let before = questions(&relay);
        assert!(before <= 60 + 8, "one question each at most: {before}");
        for _ in 0..5 {
            assert_eq!(at_once(&gate, 40), [429; 40]);
        }
        // now and then it is time to ask whether the refusal still stands, once for all
        let more = questions(&relay) - before;
        assert!(more <= 5, "the refusal is remembered: {more} questions for 200 requests");
        Some(())
    });
}
