//! Floods of frames that cost the gate more than the client. Each ends with the connection, within its bound, while honest
//! clients notice nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::gate_before;
use super::raw::{
    ACK, CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RESET, Raw, SETTINGS,
    WINDOW_UPDATE, block, frame, get, head,
};
use super::talker::{Talker, request, talk};
use crate::harness::{Gate, Latch, Origin, Reply, wait_for};

/// Sends up to `most` units, which must be enough to end the connection, and tells what that took.
fn flood(gate: &mut Gate, name: &str, first: &[u8], most: u32, unit: impl Fn(u32) -> Vec<u8>, reason: &str) {
    let honest = Honest::start(gate);
    let cpu = gate.metrics().sum("process_cpu_seconds_total", &[]);
    let before = gate.metrics().sum("tidegate_h2_abuse_total", &[("reason", reason)]);
    let start = Instant::now();
    let mut raw = Raw::open(gate.address("main"), &[]);
    raw.send(first).expect("the connection is open");
    for number in 0..most {
        // a gate that has seen enough closes while a client is still sending
        if raw.send(&unit(number)).is_err() {
            break;
        }
    }
    let said = raw.farewell().unwrap_or_else(|fault| panic!("{name}: still open after {most}: {fault}"));
    let took = start.elapsed();
    gate.comes_to_rest();
    let cpu = gate.metrics().sum("process_cpu_seconds_total", &[]) - cpu;
    let served = honest.stop();
    println!("{name}: closed after {took:?} with {said:?}; {cpu:.2} s of CPU, {served} honest requests meanwhile");
    // a client that goes on sending may lose our last words to the reset
    assert!(said.is_none_or(|code| code == CALM || reason == "protocol"), "{name}: said {said:?}");
    let counted = gate.metrics().sum("tidegate_h2_abuse_total", &[("reason", reason)]) - before;
    assert_eq!(counted, 1.0, "{name} is counted as {reason}: {:?}", gate.metrics().every("tidegate_h2_abuse_total"));
}

/// Clients that ask one thing after the other, on connections of their own, and count on an answer.
struct Honest {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Honest {
    fn start(gate: &Gate) -> Honest {
        let address = gate.address("main");
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, count) = (Arc::clone(&stop), Arc::clone(&served));
        let task = std::thread::spawn(move || {
            talk(async {
                let (mut talker, _) = Talker::open(address).await;
                while !told.load(Ordering::Relaxed) || count.load(Ordering::Relaxed) == 0 {
                    assert_eq!(talker.get("/fine").await.expect("an answer comes").status, 200);
                    count.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
            });
        });
        Honest { stop, served, task }
    }

    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.task.join().expect("honest clients see no error");
        self.served.load(Ordering::Relaxed)
    }
}

fn fine_or(reply: Reply) -> Origin {
    Origin::start(move |arrival| if arrival.target == "/fine" { Reply::Ok } else { reply.clone() })
}

/// The stream of the nth request.
fn nth(number: u32) -> u32 {
    2 * number + 1
}

#[test]
fn requests_that_are_cancelled_at_once_end_the_connection() {
    let latch = Latch::default();
    let origin = fine_or(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, "");
    let cancel = |number| [get(nth(number), "/x"), frame(RESET, 0, nth(number), &[0, 0, 0, 8])].concat();
    flood(&mut gate, "rapid reset", b"", 400, cancel, "resets");
    // all in one packet, so that they are cancelled before they were looked at
    let many = |_| (0..400).flat_map(cancel).collect::<Vec<u8>>();
    flood(&mut gate, "rapid reset in one packet", b"", 1, many, "resets");
    latch.open();
}

#[test]
fn requests_that_make_us_reset_them_end_the_connection() {
    let latch = Latch::default();
    let origin = fine_or(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, "");
    let with = |number, bad: Vec<u8>| [get(nth(number), "/x"), bad].concat();
    let nothing = |number| with(number, frame(WINDOW_UPDATE, 0, nth(number), &[0; 4]));
    flood(&mut gate, "window updates of nothing", b"", 400, nothing, "protocol");
    let overflow = |number| with(number, frame(WINDOW_UPDATE, 0, nth(number), &[0x7f, 0xff, 0xff, 0xff]));
    flood(&mut gate, "windows beyond their limit", b"", 400, overflow, "refusals");
    let behind = |number| with(number, frame(DATA, 0, nth(number), b"x"));
    flood(&mut gate, "data behind the end", b"", 400, behind, "protocol");
    let post: [(&[u8], &[u8]); 5] = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":authority", b"a"),
        (b":path", b"/x"),
        (b"content-length", b"1"),
    ];
    let more = |number| [head(nth(number), &post, false), frame(DATA, 0, nth(number), b"xx")].concat();
    flood(&mut gate, "more than the length", b"", 400, more, "refusals");
    let malformed = |number| head(nth(number), &[(b":method", b"GET"), (b":path", b"/")], true);
    flood(&mut gate, "heads without a scheme", b"", 400, malformed, "refusals");
    let refused = |number| get(nth(number), "/../x");
    flood(&mut gate, "heads with two readings", b"", 400, refused, "refusals");
    latch.open();
}

#[test]
fn frames_that_move_nothing_along_end_the_connection() {
    let latch = Latch::default();
    let origin = fine_or(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, "");
    let always = |bytes: Vec<u8>| move |_| bytes.clone();
    flood(&mut gate, "PING", b"", 3_000, always(frame(PING, 0, 0, &[0; 8])), "ping");
    flood(&mut gate, "PING answers", b"", 3_000, always(frame(PING, ACK, 0, &[0; 8])), "other_frames");
    flood(&mut gate, "SETTINGS", b"", 300, always(frame(SETTINGS, 0, 0, &[])), "settings");
    let windows = |number: u32| {
        let size = (1_000 + number % 2).to_be_bytes();
        frame(SETTINGS, 0, 0, &[&[0, 4][..], &size].concat())
    };
    flood(&mut gate, "SETTINGS that change windows", b"", 300, windows, "settings");
    flood(&mut gate, "PRIORITY", b"", 3_000, |number| frame(PRIORITY, 0, nth(number), &[0, 0, 0, 0, 16]), "priority");
    flood(&mut gate, "WINDOW_UPDATE", b"", 3_000, always(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])), "window_update");
    flood(&mut gate, "frames of no known type", b"", 3_000, always(frame(0xbe, 0, 0, b"x")), "other_frames");
    let post: [(&[u8], &[u8]); 4] =
        [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/x")];
    let empty = always(frame(DATA, 0, 1, b""));
    flood(&mut gate, "empty DATA", &head(1, &post, false), 3_000, empty, "empty_data");
    latch.open();
}

#[test]
fn heads_without_an_end_end_the_connection() {
    let origin = fine_or(Reply::Ok);
    let mut gate = gate_before(&origin, "");
    let begun = frame(HEADERS, END_STREAM, 1, &block(&[(b":method", b"GET")]));
    let more = frame(CONTINUATION, 0, 1, &block(&[(b"a", b"b")]));
    flood(&mut gate, "CONTINUATION", &begun, 2_000, |_| more.clone(), "continuation");
    let empty = frame(CONTINUATION, 0, 1, &[]);
    flood(&mut gate, "empty CONTINUATION", &begun, 3_000, |_| empty.clone(), "continuation");
    let large = frame(CONTINUATION, 0, 1, &block(&[(b"a", &[b'x'; 16_000])]));
    flood(&mut gate, "large CONTINUATION", &begun, 20, |_| large.clone(), "continuation");
}

#[test]
fn heads_that_unpack_to_megabytes_end_the_connection() {
    let origin = fine_or(Reply::Ok);
    let mut gate = gate_before(&origin, "");
    // an entry of the table with 3,900 bytes, and then one byte for each time that it is meant
    let mut bomb = block(&[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")]);
    bomb.extend([0x40, 1, b'a', 0x7f, 0xbd, 0x1d]);
    bomb.extend([b'x'; 3_900]);
    bomb.extend([0xbe; 12_000]);
    let bomb = |number: u32| frame(HEADERS, END_HEADERS | END_STREAM, nth(number), &bomb);
    flood(&mut gate, "a head of 47 MB", b"", 300, bomb, "header_bomb");
}

#[test]
fn more_requests_at_once_than_allowed_are_turned_away_and_harm_nobody() {
    let latch = Latch::default();
    let origin = fine_or(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, "");
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let mut under_way = Vec::new();
        for _ in 0..100 {
            under_way.push(talker.begin(request("GET", "/held", &[]), true).await);
        }
        while origin.count() < 100 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    let mut raw = Raw::open(gate.address("main"), &[]);
    for number in 0..150 {
        raw.send(&get(nth(number), "/held")).unwrap();
    }
    let mut refused = 0;
    while refused < 50 {
        let frame = raw.next().unwrap().expect("the connection goes on");
        if frame.kind == RESET {
            assert_eq!(frame.payload, [0, 0, 0, 7], "REFUSED_STREAM");
            refused += 1;
        }
    }
    latch.open();
    drop(raw);
    gate.comes_to_rest();
    gate.counts("tidegate_h2_abuse_total", &[], 0.0);
}

#[test]
fn a_client_that_takes_nothing_is_given_up_and_the_places_are_free_again() {
    let origin = fine_or(Reply::Endless);
    let mut gate = gate_before(&origin, "    inflight: { max: 50 }\n");
    // no window at all: not a byte of any answer can be sent
    let mut raw = Raw::open(gate.address("main"), &[(4, 0)]);
    for number in 0..30 {
        raw.send(&get(nth(number), "/endless")).unwrap();
    }
    origin.wait_for(30);
    let honest = Honest::start(&gate);
    let start = Instant::now();
    gate.comes_to_rest();
    println!("30 stalled answers were given up after {:?}", start.elapsed());
    gate.counts("tidegate_malformed_requests_total", &[("reason", "slow_download")], 30.0);
    honest.stop();
    // the connection takes no more requests, and ends
    raw.farewell().expect("the connection ends");
}

#[test]
fn what_clients_of_http2_do_wrong_is_told_in_a_line_a_minute() {
    const EACH: usize = 20;
    let gate = gate_before(&Origin::that(Reply::Ok), "");
    let before = gate.talk().lines().count();
    for _ in 0..EACH {
        // data on the stream that has none
        let mut raw = Raw::open(gate.address("main"), &[]);
        raw.send(&frame(DATA, 0, 0, b"x")).unwrap();
        raw.farewell().unwrap();
    }
    gate.counts("tidegate_h2_abuse_total", &[("reason", "protocol")], EACH as f64);
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        assert_eq!(talker.get("/a/%00").await.unwrap().status, 400);
    });
    let said = wait_for("the line", || Some(gate.talk()).filter(|said| said.contains("clients misbehaved")));
    assert!(said.contains("h2/protocol "), "{said}");
    // a second one only if all this took a minute
    assert!(said.lines().count() - before <= 2, "{said}");
}
