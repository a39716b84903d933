//! Ten thousand bad requests are ten thousand in the metrics and a line or two in the process's log.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

const BAD: usize = 10_000;

#[test]
fn a_flood_of_bad_requests_is_told_in_a_line_a_minute() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = Gate::start(&format!(
        "origins:
  app: {{ addresses: [\"{}\"] }}
routes:
  - {{ name: site, origin: app }}
",
        origin.address()
    ));
    let quiet = gate.talk().lines().count();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let request = match next.fetch_add(1, Ordering::Relaxed) {
                        done if done >= BAD => return,
                        odd if odd % 2 == 1 => b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n".as_slice(),
                        _ => b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                    };
                    let mut connection = Connection::open(gate.address("main"));
                    connection.send(request).unwrap();
                    assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 400);
                }
            });
        }
    });
    gate.counts("tidegate_malformed_requests_total", &[], BAD as f64);
    let line = wait_for("the line", || {
        gate.talk().lines().find(|line| line.contains("clients misbehaved")).map(str::to_owned)
    });
    assert!(line.contains("\"listener\":\"main\"") || line.contains("listener=\"main\""), "{line}");
    assert!(line.contains("target ") || line.contains("content_length "), "by reason: {line}");
    assert!(!line.contains("127.0.0.1"), "the client stays a pseudonym: {line}");
    let said = gate.talk();
    let lines = said.lines().count() - quiet;
    println!("{lines} lines for {BAD} bad requests; the first: {line}");
    assert!(lines <= 5, "{lines} lines:\n{said}");
}

/// Two workers share the connections to an origin; what the library says of one that they both want is no fault of the gate's. No line
/// names a file of the machine that built the program.
#[test]
fn an_ordinary_run_says_nothing_of_the_library_and_no_line_names_a_file_of_the_build() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = Gate::start(&format!("routes:\n  - {{ name: site, origin: \"{}\" }}\n", origin.address()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connection = gate.connect();
                for _ in 0..500 {
                    assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
                }
            });
        }
    });
    gate.counts("tidegate_requests_total", &[("route", "site")], 4_000.0);
    let said = gate.talk();
    assert!(!said.contains("ERROR") && !said.contains("reusable stream"), "{said}");
    assert!(!said.contains("/registry/") && !said.contains("log.file") && !said.contains("/rustc/"), "{said}");
}
