//! What one connection may cost, whatever its client sends.

use super::gate_before;
use super::raw::{Raw, block, frame, get, head};
use crate::harness::{Latch, Origin, Reply};

const CONNECTIONS: usize = 20;
/// What a connection may cost at most, in KiB: 512 for heads by their own measure, which pass through three forms on the way
/// to the origin, and what 17 requests under way cost anyway, above all the buffers of as many connections to it.
const PER_CONNECTION_KIB: u64 = 3_072;

#[test]
fn a_hundred_large_heads_on_one_connection_cost_no_more_than_their_budget() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin =
        Origin::start(move |arrival| if arrival.target == "/" { Reply::Ok } else { Reply::Held(held.clone()) });
    let mut gate = gate_before(&origin, "");
    assert_eq!(gate.fetch("/", "").status, 200);
    let before = gate.resident_kib();
    let value = [b'v'; 300];
    let names: Vec<String> = (0..90).map(|number| format!("x-{number}")).collect();
    let large = |stream: u32| {
        let mut fields: Vec<(&[u8], &[u8])> =
            vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/held")];
        fields.extend(names.iter().map(|name| (name.as_bytes(), &value[..])));
        let whole = block(&fields);
        let (front, rear) = whole.split_at(16_000);
        [frame(1, 1, stream, front), frame(9, 4, stream, rear)].concat()
    };
    let mut crowd: Vec<Raw> = (0..CONNECTIONS).map(|_| Raw::open(gate.address("main"), &[])).collect();
    for raw in &mut crowd {
        for number in 0..100 {
            raw.send(&large(2 * number + 1)).unwrap();
        }
    }
    // 512 KiB hold 17 of 30 KiB; the others are answered 431
    origin.wait_for(1 + CONNECTIONS * 10);
    gate.counts("tidegate_malformed_requests_total", &[("reason", "too_large")], (CONNECTIONS * 83) as f64);
    let used = gate.resident_peak_kib().saturating_sub(before);
    println!(
        "{CONNECTIONS} connections with 100 heads of 30 KiB each: {used} KiB, {} a connection",
        used / CONNECTIONS as u64
    );
    assert!(used < PER_CONNECTION_KIB * CONNECTIONS as u64, "{used} KiB");
    latch.open();
    drop(crowd);
    gate.comes_to_rest();
}

#[test]
fn a_hundred_heads_of_many_tiny_fields_cost_next_to_nothing() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate_before(&origin, "");
    let mut fields: Vec<(&[u8], &[u8])> =
        vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")];
    fields.extend(vec![(&b"a"[..], &b""[..]); 1_500]);
    let heads: Vec<u8> = (0..100).flat_map(|number| head(2 * number + 1, &fields, true)).collect();
    let mut crowd: Vec<Raw> = Vec::new();
    let mut peaks = Vec::new();
    // the first ones warm the allocator up; they stay, so that the next must have memory of their own
    for round in 1..=2 {
        crowd.extend((0..CONNECTIONS / 2).map(|_| Raw::open(gate.address("main"), &[])));
        for raw in crowd.iter_mut().skip((round - 1) * CONNECTIONS / 2) {
            raw.send(&heads).unwrap();
        }
        let all = (round * CONNECTIONS / 2 * 100) as f64;
        gate.counts("tidegate_malformed_requests_total", &[("reason", "too_many_fields")], all);
        peaks.push(gate.resident_peak_kib());
    }
    let each = peaks[1].saturating_sub(peaks[0]) / (CONNECTIONS as u64 / 2);
    println!("100 heads of 1,500 fields: {each} KiB a connection");
    assert!(each < 512, "{each} KiB a connection");
    // none of them was one too many: a hundred refusals are forgiven
    crowd[0].send(&get(201, "/")).unwrap();
    gate.counts("tidegate_requests_total", &[("code", "2xx")], 1.0);
    drop(crowd);
    gate.comes_to_rest();
}
