//! Clients that go away in the middle. Whenever they do, the origin's place is given back and the gate goes on: when the
//! origin's work should be over, or at once where the policy says `release`. How many are at work meanwhile: [`crate::abandoned`].

use std::time::{Duration, Instant};

use crate::harness::{Gate, Latch, Origin, PATIENCE, Reply, wait_for};

fn gate_before(origin: &Origin) -> Gate {
    gate_with(origin, "")
}

fn gate_with(origin: &Origin, word: &str) -> Gate {
    Gate::start(&format!(
        "origins:
  app:
    addresses: [\"{}\"]
    timeouts: {{ connect: 2s, read: 60s, write: 60s, request: 60s }}
    inflight: {{ max: 4 }}
{word}routes:
  - name: site
    origin: app
",
        origin.address()
    ))
}

/// Whatever happened before, the origin takes as many requests at once as it may: no place is lost.
fn all_places_are_free(gate: &mut Gate) {
    gate.comes_to_rest();
    for _ in 0..8 {
        assert_eq!(gate.fetch("/fine", "").status, 200);
        gate.comes_to_rest();
    }
}

fn fine_or(reply: Reply) -> Origin {
    Origin::start(move |arrival| if arrival.target == "/fine" { Reply::Ok } else { reply.clone() })
}

#[test]
fn a_client_that_leaves_before_its_head_is_complete_costs_nothing() {
    let origin = fine_or(Reply::Ok);
    let mut gate = gate_before(&origin);
    for end in ["polite", "crash"] {
        for _ in 0..8 {
            let mut connection = gate.connect();
            connection.send(b"GET /never HTTP/1.1\r\nHost: a\r\nX-Half").unwrap();
            if end == "crash" {
                connection.reset();
            }
        }
    }
    all_places_are_free(&mut gate);
    assert!(origin.arrivals().iter().all(|arrival| arrival.target == "/fine"));
}

#[test]
fn a_client_that_leaves_in_the_middle_of_its_upload_gives_its_place_back() {
    let origin = fine_or(Reply::Echo);
    let mut gate = gate_before(&origin);
    // how long the origin takes is known from here on, and a place is kept no longer
    assert_eq!(gate.fetch("/fine", "").status, 200);
    for round in 0..4 {
        for framing in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
            let come = origin.count();
            let mut connection = gate.connect();
            let start = if framing.starts_with('T') { "2800\r\n" } else { "" };
            connection.send(format!("POST /up HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{start}").as_bytes()).unwrap();
            connection.send(&[b'x'; 10_000]).unwrap();
            origin.wait_for(come + 1);
            if round % 2 == 0 {
                connection.reset();
            } else {
                drop(connection);
            }
            gate.comes_to_rest();
        }
    }
    all_places_are_free(&mut gate);
    assert!(origin.arrivals().iter().all(|arrival| arrival.target == "/fine" || !arrival.complete));
}

#[test]
fn a_client_that_leaves_in_the_middle_of_its_download_gives_its_place_back() {
    let origin = fine_or(Reply::Endless);
    let mut gate = gate_before(&origin);
    for round in 0..8 {
        let mut connection = gate.connect();
        connection.send(b"GET /down HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        connection.head().expect("the head comes");
        connection.skip(100_000).expect("some of the body comes");
        if round % 2 == 0 {
            connection.reset();
        } else {
            drop(connection);
        }
        gate.comes_to_rest();
    }
    all_places_are_free(&mut gate);
}

#[test]
fn a_client_that_leaves_while_the_origin_thinks_gives_its_place_back_at_once_where_the_policy_says_so() {
    let latch = Latch::default();
    let origin = fine_or(Reply::Held(latch.clone()));
    let mut gate = gate_with(&origin, "    on_client_abort: release\n");
    for round in 0..4 {
        let mut connection = gate.connect();
        connection.send(b"GET /think HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        origin.wait_for(round + 1);
        if round % 2 == 0 {
            connection.reset();
        }
    }
    // the latch is still shut: only the clients' leaving can have ended these requests
    all_places_are_free(&mut gate);
    latch.open();
}

#[test]
fn a_client_that_reads_nothing_does_not_keep_the_gate_from_others() {
    let origin = fine_or(Reply::Endless);
    let mut gate = gate_before(&origin);
    let mut deaf: Vec<_> = (0..3).map(|_| gate.connect()).collect();
    for connection in &mut deaf {
        connection.send(b"GET /down HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    origin.wait_for(3);
    for _ in 0..20 {
        // one place is left, and it is free again a moment after its answer has been read
        wait_for("a free place", || (gate.fetch("/fine", "").status == 200).then_some(()));
    }
    drop(deaf);
    all_places_are_free(&mut gate);
}

#[test]
fn heads_that_drip_do_not_keep_the_gate_from_others() {
    let origin = fine_or(Reply::Ok);
    let mut gate = gate_before(&origin);
    let mut slow: Vec<_> = (0..200).map(|_| gate.connect()).collect();
    for byte in "GET /slow HTTP/1.1\r\n".as_bytes().chunks(1) {
        for connection in &mut slow {
            connection.send(byte).unwrap();
        }
    }
    for _ in 0..20 {
        assert_eq!(gate.fetch("/fine", "").status, 200);
        gate.comes_to_rest();
    }
    // a slow client that gets there after all is served
    let last = slow.last_mut().unwrap();
    last.send(b"Host: a\r\n\r\n").unwrap();
    assert_eq!(last.answer_to("GET").expect("an answer comes").status, 200);
    drop(slow);
    all_places_are_free(&mut gate);
}

#[test]
fn a_client_that_announces_a_body_and_sends_none_is_told_408() {
    let origin = fine_or(Reply::Echo);
    let mut gate = Gate::start(&format!(
        "origins:
  app:
    addresses: [\"{}\"]
    timeouts: {{ connect: 1s, read: 1s, write: 1s, request: 2s }}
    inflight: {{ max: 1 }}
routes:
  - name: site
    origin: app
",
        origin.address()
    ));
    let mut connection = gate.connect();
    connection.send(b"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n").unwrap();
    connection.be_patient_for(Duration::from_secs(90));
    let answer = connection.answer_to("POST").expect("an answer comes");
    assert_eq!(answer.status, 408, "{answer:?}");
    gate.comes_to_rest();
    assert_eq!(gate.fetch("/fine", "").status, 200);
}

#[test]
fn a_head_that_never_ends_is_given_up() {
    let origin = fine_or(Reply::Ok);
    let mut gate = gate_before(&origin);
    let mut slow: Vec<_> = (0..20).map(|_| gate.connect()).collect();
    slow.iter_mut().for_each(|connection| connection.send(b"GET /slow HTTP/1.1\r\nHost: a\r\nX: ").unwrap());
    let start = Instant::now();
    let mut open: Vec<usize> = (0..slow.len()).collect();
    while !open.is_empty() {
        assert!(start.elapsed() < 2 * PATIENCE, "{} of 20 dripping heads are still open", open.len());
        // writing to a connection that the gate has closed fails, at the latest with the second byte
        open.retain(|place| slow[*place].send(b"x").is_ok());
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("dripping heads were given up after {:?}", start.elapsed());
    all_places_are_free(&mut gate);
}

#[test]
fn a_gate_that_has_run_out_of_descriptors_recovers() {
    let origin = Origin::that(Reply::Ok);
    let policy = format!("routes:\n  - {{ name: site, origin: \"{}\" }}\n", origin.address());
    let mut gate = Gate::start_with_files(80, &policy);
    for _ in 0..3 {
        let mut crowd: Vec<_> = (0..200).map(|_| gate.connect()).collect();
        for connection in &mut crowd {
            let _ = connection.send(b"GET / HTTP/1.1\r\nHost: a\r\n");
        }
        // those that were accepted are served as far as there are descriptors for the origin, the others wait or end
        for connection in crowd.iter_mut().take(12) {
            let _ = connection.send(b"\r\n");
            let answer = connection.answer_to("GET").expect("an answer comes");
            assert!(matches!(answer.status, 200 | 502 | 503), "{answer:?}");
        }
        drop(crowd);
        wait_for("the gate to serve again", || (gate.fetch("/", "").status == 200).then_some(()));
    }
    gate.comes_to_rest();
}
