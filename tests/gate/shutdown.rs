//! The end: requests on their way are finished, new ones are not taken, and nothing waits for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::harness::client::{is_cut, request};
use crate::harness::{Connection, Gate, Latch, Origin, Reply, wait_for};

fn gate_before(origin: &Origin, drain_timeout: &str) -> Gate {
    Gate::start(&format!(
        "origins:
  app: {{ addresses: [\"{}\"], timeouts: {{ read: 120s, request: 120s }} }}
routes:
  - name: site
    origin: app
server:
  overload: off
  threads: 2
  drain: {{ delay: 0s, timeout: {drain_timeout} }}
",
        origin.address()
    ))
}

fn send_held(gate: &Gate, origin: &Origin) -> Connection {
    let come = origin.count();
    let mut connection = gate.connect();
    connection.send(&request("GET", "/held", "", b"")).unwrap();
    origin.wait_for(come + 1);
    connection
}

#[test]
fn an_idle_gate_goes_at_once() {
    let origin = Origin::that(Reply::Ok);
    for signal in ["TERM", "INT"] {
        let mut gate = gate_before(&origin, "60s");
        let mut kept = gate.connect();
        assert_eq!(kept.ask("GET", "/", "", b"").status, 200);
        gate.signal(signal);
        let status = gate.exit_within(Duration::from_secs(20));
        assert_eq!(status.code(), Some(0), "{signal}: {status}");
    }
}

#[test]
fn a_request_on_its_way_is_finished_before_the_gate_goes() {
    let latch = Latch::default();
    let origin = Origin::that(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, "60s");
    let address = gate.address("main");
    let mut inside = send_held(&gate, &origin);
    gate.signal("TERM");
    wait_for("new connections to be refused", || match Connection::try_open(address) {
        Err(_) => Some(()),
        // one that the kernel had queued before the listener closed ends without an answer, or with one that says no
        Ok(mut late) => {
            let _ = late.send(&request("GET", "/late", "", b""));
            late.be_patient_for(Duration::from_secs(1));
            let _ = late.rest();
            None
        }
    });
    assert!(gate.is_alive(), "the gate waits for its request");
    latch.open();
    let answer = inside.answer_to("GET").expect("the answer comes");
    assert_eq!((answer.status, answer.text().as_str(), answer.complete), (200, "ok", true));
    let status = gate.exit_within(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{status}");
}

#[test]
fn an_origin_that_never_answers_does_not_keep_the_gate_beyond_its_deadline() {
    let origin = Origin::that(Reply::ThenStall(b""));
    let mut gate = gate_before(&origin, "1s");
    let mut inside = send_held(&gate, &origin);
    gate.signal("TERM");
    let status = gate.exit_within(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{status}");
    // the client is not left hanging: told off or cut off
    match inside.answer_to("GET") {
        Ok(answer) => assert!(answer.status >= 500, "{answer:?}"),
        Err(fault) => assert!(is_cut(&fault), "{fault}"),
    }
    origin.wait_until_left();
}

#[test]
fn a_second_signal_ends_the_wait() {
    let latch = Latch::default();
    let origin = Origin::that(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, "300s");
    let address = gate.address("main");
    let _inside = send_held(&gate, &origin);
    gate.signal("TERM");
    wait_for("the drain to begin", || Connection::try_open(address).is_err().then_some(()));
    assert!(gate.is_alive());
    let start = Instant::now();
    gate.signal("TERM");
    gate.exit_within(Duration::from_secs(20));
    println!("gone {:?} after the second signal", start.elapsed());
    latch.open();
}

#[test]
fn a_download_in_the_middle_is_finished_before_the_gate_goes() {
    let body: &'static [u8] = Box::leak(
        [b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n".to_vec(), vec![b'x'; 8_000_000]].concat().into(),
    );
    let origin = Origin::that(Reply::Bytes(body));
    let mut gate = gate_before(&origin, "60s");
    let mut inside = gate.connect();
    inside.send(&request("GET", "/large", "", b"")).unwrap();
    inside.head().expect("the head comes");
    gate.signal("TERM");
    inside.skip(8_000_000).expect("every byte of the body comes");
    let status = gate.exit_within(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{status}");
}

#[test]
fn connections_that_the_kernel_had_taken_are_served_before_the_gate_goes() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate_before(&origin, "60s");
    let address = gate.address("main");
    assert_eq!(gate.fetch("/", "").status, 200);
    // the process sleeps while clients connect and send: all of it waits in the kernel when it wakes up to be told to go
    gate.signal("STOP");
    let mut clients: Vec<Connection> = (0..20).map(|_| Connection::open(address)).collect();
    clients.iter_mut().for_each(|client| client.send(&request("GET", "/", "", b"")).unwrap());
    gate.signal("TERM");
    gate.signal("CONT");
    for client in &mut clients {
        assert_eq!(client.answer_to("GET").expect("an answer comes").status, 200);
    }
    drop(clients);
    assert_eq!(gate.exit_status().code(), Some(0));
}

#[test]
fn no_request_of_a_busy_client_is_lost() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate_before(&origin, "60s");
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connection = gate.connect();
                loop {
                    let answer = connection.ask("GET", "/", "", b"");
                    assert_eq!((answer.status, answer.complete), (200, true));
                    answered.fetch_add(1, Ordering::Relaxed);
                    if !answer.keeps_connection() {
                        break;
                    }
                }
            });
        }
        wait_for("some traffic", || (answered.load(Ordering::Relaxed) >= 500).then_some(()));
        gate.signal("TERM");
    });
    assert_eq!(gate.exit_status().code(), Some(0));
    assert_eq!(origin.count(), answered.load(Ordering::Relaxed), "every request went to the origin once");
}
