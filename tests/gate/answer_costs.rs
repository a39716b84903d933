//! Budgets by what answers cost, with many requests at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Gate, Latch, Origin, Reply, wait_for};

const DEAR: &[u8] = b"HTTP/1.1 200 OK\r\nX-Cost: 40\r\nContent-Length: 2\r\n\r\nok";

/// An origin whose answers cost 40; `/held` only when the latch is open, and then the estimate.
fn origin(latch: &Latch) -> Origin {
    let latch = latch.clone();
    Origin::start(move |arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(latch.clone()),
        _ => Reply::Bytes(DEAR),
    })
}

fn gate_before(origin: &Origin, more: &str) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.1]
limits:
  units: {{ rate: 100/h, burst: 100, cost: 'response:x-cost', cost_estimate: 10{more} }}
routes:
  - {{ name: all, origin: \"{}\", limits: [units] }}
",
        origin.address()
    ))
}

/// Twenty requests of one client that are all under way before any is answered; how many reached the origin.
fn twenty_at_once(gate: &Gate, origin: &Origin, latch: &Latch, client: u8) -> usize {
    let before = origin.count();
    let (start, refused) = (Barrier::new(20), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                start.wait();
                let status = gate.fetch("/held", &format!("X-Forwarded-For: 203.0.113.{client}\r\n")).status;
                assert!(matches!(status, 200 | 429), "{status}");
                refused.fetch_add(usize::from(status == 429), Ordering::SeqCst);
            });
        }
        wait_for("each to be sent or refused", || {
            (origin.count() - before + refused.load(Ordering::SeqCst) == 20).then_some(())
        });
        latch.open();
    });
    origin.count() - before
}

#[test]
fn once_costs_are_learned_parallel_requests_hardly_exceed_the_budget() {
    let (latch, other) = (Latch::default(), Latch::default());
    let unlearned = origin(&latch);
    let gate = gate_before(&unlearned, "");
    assert_eq!(twenty_at_once(&gate, &unlearned, &latch, 9), 10, "what is written");
    let learned = origin(&other);
    let gate = gate_before(&learned, "");
    // one answer to another client, who knows what the route costs from then on
    assert_eq!(gate.fetch("/", "X-Forwarded-For: 203.0.113.8\r\n").status, 200);
    assert_eq!(twenty_at_once(&gate, &learned, &other, 9), 2, "80 of 100 units");
}

#[test]
fn a_written_most_holds_from_the_first_request_on() {
    let latch = Latch::default();
    let origin = origin(&latch);
    let gate = gate_before(&origin, ", cost_max: 40");
    assert_eq!(twenty_at_once(&gate, &origin, &latch, 9), 2);
}
