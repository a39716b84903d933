//! Origins behind TLS, HTTP/2 and UNIX sockets: who is believed, who is not, and what reaches them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::UnixListener;

use crate::harness::gate::run_to_end;
use crate::harness::secure::{Authority, Seen, Server, acceptor, http1, runtime};
use crate::harness::{Gate, wait_for};

fn gate(addresses: &str, origin: &str) -> Gate {
    Gate::start(&policy(addresses, origin))
}

fn policy(addresses: &str, origin: &str) -> String {
    format!(
        "origins:
  app:
    addresses: [\"{addresses}\"]
    timeouts: {{ connect: 5s, read: 5s, request: 10s }}
    inflight: {{ max: 20 }}
{origin}
routes:
  - {{ name: site, origin: app }}
"
    )
}

fn trusting(authority: &Authority, more: &str) -> String {
    format!("    tls: {{ ca: \"{}\"{more} }}", authority.ca().display())
}

/// The answer is the server's own.
fn is_served(gate: &Gate) {
    let answer = gate.fetch("/", "");
    assert_eq!((answer.status, answer.text().as_str()), (200, "secret"), "{answer:?}; {}", gate.talk());
}

/// The server is not believed: 502, nothing of the request reaches it, and the reason is told to the operator alone.
fn is_not_believed(gate: &mut Gate, server: &Server, reason: &str) {
    for _ in 0..3 {
        let answer = gate.fetch("/", "");
        assert_eq!(answer.status, 502, "{answer:?}");
        assert!(!answer.text().to_lowercase().contains("certificate"), "{answer:?}");
    }
    gate.comes_to_rest();
    assert!(server.seen.heads.lock().unwrap().is_empty());
    assert!(gate.metrics().sum("tidegate_origin_errors_total", &[("reason", "tls")]) >= 3.0);
    wait_for("the reason in the log", || gate.talk().contains(reason).then_some(()));
}

#[test]
fn a_trusted_certificate_of_the_right_name_is_believed_and_its_connection_kept() {
    let authority = Authority::new();
    let server = Server::start(Some(acceptor(&authority.issue("app", &["localhost"], 2090), None, &[])), false);
    let mut gate = gate(&format!("localhost:{}", server.address.port()), &trusting(&authority, ""));
    for _ in 0..10 {
        is_served(&gate);
        gate.comes_to_rest();
    }
    assert_eq!(server.connections(), 1, "one connection serves them all");
    assert_eq!(server.seen.names.lock().unwrap()[0].as_deref(), Some("localhost"));
    assert!(server.seen.heads.lock().unwrap()[0].contains("Host: "), "the client's own host");
}

#[test]
fn the_name_may_be_said() {
    let authority = Authority::new();
    let server = Server::start(Some(acceptor(&authority.issue("app", &["app.internal"], 2090), None, &[])), false);
    let gate = gate(&server.address.to_string(), &trusting(&authority, ", sni: app.internal"));
    is_served(&gate);
    assert_eq!(server.seen.names.lock().unwrap()[0].as_deref(), Some("app.internal"));
}

#[test]
fn an_address_is_believed_when_the_certificate_carries_it() {
    let authority = Authority::new();
    let server = Server::start(Some(acceptor(&authority.issue("app", &["127.0.0.1"], 2090), None, &[])), false);
    is_served(&gate(&server.address.to_string(), &trusting(&authority, "")));
    assert_eq!(server.seen.names.lock().unwrap()[0], None, "an address is no name to ask for");
}

#[test]
fn another_name_another_authority_and_an_expired_certificate_are_not_believed() {
    let (authority, other) = (Authority::new(), Authority::new());
    let files = [
        (authority.issue("name", &["other.internal"], 2090), "not valid for name"),
        (other.issue("authority", &["app.internal"], 2090), "UnknownIssuer"),
        (authority.issue("expired", &["app.internal"], 2020), "expired"),
    ];
    for (files, reason) in files {
        let server = Server::start(Some(acceptor(&files, None, &[])), false);
        let mut gate = gate(&server.address.to_string(), &trusting(&authority, ", sni: app.internal"));
        is_not_believed(&mut gate, &server, reason);
    }
    // and by the system's certificates alone neither
    let server = Server::start(Some(acceptor(&authority.issue("app", &["app.internal"], 2090), None, &[])), false);
    let mut gate = gate(&server.address.to_string(), "    tls: { sni: app.internal }");
    is_not_believed(&mut gate, &server, "UnknownIssuer");
}

#[test]
fn whoever_is_not_to_be_verified_is_believed_and_warned_of() {
    let other = Authority::new();
    let server = Server::start(Some(acceptor(&other.issue("app", &["else.internal"], 2020), None, &[])), false);
    let policy = policy(&server.address.to_string(), "    tls: { verify: false }");
    is_served(&Gate::start(&policy));
    let checked = run_to_end(&["check", "tidegate.yaml"], &policy);
    assert!(checked.stdout.contains("W0416"), "{} {}", checked.stdout, checked.stderr);
}

#[test]
fn a_client_certificate_is_shown_to_those_who_ask() {
    let authority = Authority::new();
    let (cert, key) = authority.issue("us", &["gate.internal"], 2090);
    let own = authority.issue("app", &["app.internal"], 2090);
    let ask = |more: &str| {
        let server = Server::start(Some(acceptor(&own, Some(&authority.ca()), &[])), false);
        (gate(&server.address.to_string(), &trusting(&authority, more)), server)
    };
    let shown = format!(
        ", sni: app.internal, client_certificate: {{ cert: \"{}\", key: \"{}\" }}",
        cert.display(),
        key.display()
    );
    is_served(&ask(&shown).0);
    let (mut gate, server) = ask(", sni: app.internal");
    assert_eq!(gate.fetch("/", "").status, 502);
    gate.comes_to_rest();
    assert!(server.seen.heads.lock().unwrap().is_empty());
}

#[test]
fn a_server_that_speaks_no_tls_is_502() {
    let authority = Authority::new();
    let server = Server::start(None, false);
    let mut gate = gate(&server.address.to_string(), &trusting(&authority, ", sni: app.internal"));
    // it waits for the end of a head that never comes, until our time for connections is over
    assert!(matches!(gate.fetch("/", "").status, 502 | 504));
    gate.comes_to_rest();
}

#[test]
fn files_that_cannot_be_used_keep_the_gate_from_starting() {
    let authority = Authority::new();
    std::fs::write(authority.folder.join("empty.pem"), "").unwrap();
    for file in ["missing.pem", "empty.pem"] {
        let file = authority.folder.join(file);
        let tls = format!("    tls: {{ ca: \"{}\" }}", file.display());
        let policy = format!("listen: \"127.0.0.1:0\"\n{}", policy("127.0.0.1:9", &tls));
        let ended = run_to_end(&["run", "-c", "tidegate.yaml"], &policy);
        assert_eq!(ended.code, Some(71), "{}", ended.stderr);
        assert!(ended.stderr.contains(&file.display().to_string()), "{}", ended.stderr);
        assert!(ended.stderr.contains("app"), "{}", ended.stderr);
    }
}

#[test]
fn renewed_files_are_taken_and_broken_ones_are_not() {
    let (first, second) = (Authority::new(), Authority::new());
    let before = Server::start(Some(acceptor(&first.issue("app", &["app.internal"], 2090), None, &[])), false);
    let after = Server::start(Some(acceptor(&second.issue("app", &["app.internal"], 2090), None, &[])), false);
    let addresses = format!("{}\", \"{}", before.address, after.address);
    let origin = format!("{}\n    retries: {{ max: 0 }}", trusting(&first, ", sni: app.internal"));
    let mut gate = gate(&addresses, &origin);
    // of two servers in turn the one is believed, the other not
    let statuses = |gate: &Gate| {
        let mut statuses = [gate.fetch("/", "").status, gate.fetch("/", "").status];
        statuses.sort_unstable();
        statuses
    };
    assert_eq!(statuses(&gate), [200, 502]);
    std::fs::write(first.ca(), "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n").unwrap();
    wait_for("the broken file to be told of", || gate.talk().contains("the old ones stay in force").then_some(()));
    assert_eq!(statuses(&gate), [200, 502]);
    let served = after.connections();
    std::fs::copy(second.ca(), first.ca()).unwrap();
    wait_for("the new file to be told of", || gate.talk().contains("were read again").then_some(()));
    // who was believed before is not any more, not even on a connection that stands
    assert_eq!(statuses(&gate), [200, 502]);
    assert!(after.connections() > served);
    gate.comes_to_rest();
}

#[test]
fn http2_is_spoken_where_it_is_agreed() {
    let authority = Authority::new();
    let files = authority.issue("app", &["app.internal"], 2090);
    let server = Server::start(Some(acceptor(&files, None, &["h2"])), true);
    let mut gate = gate(
        &server.address.to_string(),
        &format!("{}\n    protocol: h2", trusting(&authority, ", sni: app.internal")),
    );
    for length in [0, 5, 100_000, 3_000_000] {
        let body = vec![b'y'; length];
        let answer = gate.connect().ask("POST", &format!("/{length}"), "", &body);
        assert_eq!((answer.status, answer.body.len(), answer.complete), (200, length, true), "{}", gate.talk());
        assert_eq!(answer.field("x-came").as_deref(), Some(length.to_string().as_str()));
        gate.comes_to_rest();
    }
    assert_eq!(server.connections(), 1, "one connection serves them all");
    let head = server.seen.heads.lock().unwrap()[0].clone();
    assert!(head.contains("HTTP/2.0") && head.contains("https://"), "{head}");
    let mut clients: Vec<_> = (0..10).map(|_| gate.connect()).collect();
    for client in &mut clients {
        client.send(b"GET /1000000 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    for client in &mut clients {
        let answer = client.answer_to("GET").unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 1_000_000));
    }
    gate.comes_to_rest();
    assert!(server.connections() < 10, "streams share connections: {}", server.connections());
}

#[test]
fn an_origin_that_does_not_agree_to_http2_is_502() {
    let authority = Authority::new();
    let files = authority.issue("app", &["app.internal"], 2090);
    for protocols in [&[][..], &["http/1.1"]] {
        let server = Server::start(Some(acceptor(&files, None, protocols)), false);
        let origin = format!("{}\n    protocol: h2", trusting(&authority, ", sni: app.internal"));
        let mut gate = gate(&server.address.to_string(), &origin);
        assert_eq!(gate.fetch("/", "").status, 502);
        gate.comes_to_rest();
        assert!(server.seen.heads.lock().unwrap().is_empty());
    }
}

#[test]
fn http2_in_clear_is_taken_for_granted() {
    let server = Server::start(None, true);
    let mut gate = gate(&server.address.to_string(), "    protocol: h2");
    for _ in 0..5 {
        let answer = gate.fetch("/1000", "");
        assert_eq!((answer.status, answer.body.len(), answer.complete), (200, 1000, true));
        gate.comes_to_rest();
    }
    assert_eq!(server.connections(), 1);
    // and one that speaks HTTP/1.1 is no such origin
    let other = crate::harness::Origin::that(crate::harness::Reply::Ok);
    let mut gate = self::gate(&other.address().to_string(), "    protocol: h2\n    retries: { max: 0 }");
    assert!(gate.fetch("/", "").status >= 500);
    gate.comes_to_rest();
}

#[test]
fn a_hostile_origin_over_http2_harms_nobody_but_its_own_request() {
    let server = Server::start(None, true);
    let policy = policy(&server.address.to_string(), "    protocol: h2\n    retries: { max: 0 }");
    // only what has no end by itself waits for a timeout: two thousand heads may take a busy machine long
    let mut patient = Gate::start(&policy.replace("read: 5s, request: 10s", "read: 60s, request: 60s"));
    let mut impatient = Gate::start(&policy);
    for (deed, statuses) in [
        ("two_lengths", &[502][..]),
        ("odd_length", &[502]),
        ("status", &[502]),
        ("many_fields", &[502]),
        ("large_head", &[502]),
        // a body of another length than was said
        ("long_length", &[]),
        ("short_length", &[]),
        ("reset", &[]),
        ("goaway", &[502]),
        ("interim", &[200]),
        ("endless_interim", &[502, 504]),
        ("silence", &[504]),
        ("large_trailers", &[]),
    ] {
        let gate = if matches!(deed, "endless_interim" | "silence") { &mut impatient } else { &mut patient };
        let answer = gate.fetch(&format!("/hostile/{deed}"), "");
        match statuses {
            [] => assert!(answer.status == 502 || !answer.complete, "{deed}: {answer:?}"),
            _ => assert!(statuses.contains(&answer.status), "{deed}: {answer:?}"),
        }
        gate.comes_to_rest();
        let next = gate.fetch("/7", "");
        assert_eq!((next.status, next.body.len(), next.complete), (200, 7, true), "after {deed}: {next:?}");
    }
    patient.comes_to_rest();
    impatient.comes_to_rest();
}

#[test]
fn a_unix_socket_is_an_address_like_any_other() {
    let authority = Authority::new();
    let path = authority.folder.join("app.sock");
    let runtime = runtime();
    let listener = runtime.block_on(async { UnixListener::bind(&path) }).unwrap();
    let seen = Arc::new(Seen::default());
    let noted = Arc::clone(&seen);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = Arc::clone(&noted);
            seen.connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move { http1(stream, &seen).await });
        }
    });
    let mut gate = gate(&format!("unix:{}", path.display()), "");
    for _ in 0..5 {
        let answer = gate.connect().ask("GET", "/", "", b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, "secret"));
        gate.comes_to_rest();
    }
    assert_eq!(seen.connections.load(Ordering::Relaxed), 1, "and its connections are kept");
    gate.log_of(5);
    assert!(gate.log_text().contains(&format!("\"unix:{}\"", path.display())), "the log names it: {}", gate.log_text());
    // nobody listens there any more
    drop(runtime);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(gate.fetch("/", "").status, 502);
    gate.comes_to_rest();
}
