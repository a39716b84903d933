//! Bodies in many small pieces cost as much as the same bytes in few, whoever sends them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::h2::raw::{DATA, END_STREAM, Outcome, Raw, frame, head};
use crate::harness::{Connection, Gate, Origin, PATIENCE, Reply, wait_for};

const BYTES: usize = 50_000;
/// 300 kB of chunks arrive in few segments; each read of the gate makes one piece, and most reads bring 16 KiB and more.
const MOST_PIECES: usize = 400;

fn gate_before(origin: SocketAddr, limit: &str) -> Gate {
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
routes:
  - {{ name: site, origin: \"{origin}\", body_limit: {limit} }}
"
    ))
}

/// An origin that answers when a chunked body has ended; the bodies as they came, chunks and all.
fn recording() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut seen, mut space) = (Vec::new(), [0; 1 << 16]);
            while !seen.ends_with(b"0\r\n\r\n") {
                match stream.read(&mut space) {
                    Ok(read @ 1..) => seen.extend_from_slice(&space[..read]),
                    _ => break,
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            let body = seen.windows(4).position(|four| four == b"\r\n\r\n").map_or(seen.len(), |at| at + 4);
            if sender.send(seen.split_off(body)).is_err() {
                return;
            }
        }
    });
    (address, bodies)
}

/// How many chunks, and their data.
fn unchunked(mut body: &[u8]) -> (usize, Vec<u8>) {
    let (mut chunks, mut data) = (0, Vec::new());
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").expect("a size line");
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).expect("a plain size");
        if size == 0 {
            return (chunks, data);
        }
        data.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 2 + size + 2..];
        chunks += 1;
    }
}

fn letters() -> Vec<u8> {
    (0..BYTES).map(|number| b'a' + (number % 26) as u8).collect()
}

#[test]
fn fifty_thousand_chunks_of_a_byte_reach_the_origin_in_few_writes() {
    let (origin, bodies) = recording();
    let gate = gate_before(origin, "none");
    let mut client = gate.connect();
    let mut request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for byte in letters() {
        request.extend([b'1', b'\r', b'\n', byte, b'\r', b'\n']);
    }
    request.extend_from_slice(b"0\r\n\r\n");
    client.send(&request).unwrap();
    assert_eq!(client.answer_to("POST").unwrap().status, 200);
    let (chunks, data) = unchunked(&bodies.recv_timeout(PATIENCE).unwrap());
    println!("{BYTES} chunks became {chunks}");
    assert!(data == letters(), "the body is the same");
    assert!(chunks < MOST_PIECES, "{chunks}");
}

#[test]
fn fifty_thousand_data_frames_of_a_byte_reach_the_origin_in_few_writes() {
    let (origin, bodies) = recording();
    let gate = gate_before(origin, "none");
    let mut raw = Raw::open(gate.address("main"), &[]);
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")];
    raw.send(&head(1, &fields, false)).unwrap();
    let letters = letters();
    let frames: Vec<u8> = letters.iter().flat_map(|byte| frame(DATA, 0, 1, &[*byte])).collect();
    raw.send(&frames).unwrap();
    raw.send(&frame(DATA, END_STREAM, 1, b"")).unwrap();
    assert_eq!(raw.outcome(1).unwrap(), Outcome::Status(200));
    let (chunks, data) = unchunked(&bodies.recv_timeout(PATIENCE).unwrap());
    println!("{BYTES} frames became {chunks} chunks");
    assert!(data == letters, "the body is the same");
    assert!(chunks < 10 * MOST_PIECES, "{chunks}");
}

#[test]
fn an_answer_in_chunks_of_a_byte_reaches_the_client_in_few() {
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for byte in letters() {
        answer.extend([b'1', b';', b'x', b'\r', b'\n', byte, b'\r', b'\n']);
    }
    answer.extend_from_slice(b"0\r\nDigest: x\r\n\r\n");
    let origin = Origin::that(Reply::Bytes(answer.leak()));
    let gate = gate_before(origin.address(), "none");
    let mut client = Connection::open(gate.address("main"));
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    client.head().unwrap();
    let body = client.rest().unwrap();
    let (chunks, data) = unchunked(&body);
    println!("{BYTES} chunks became {chunks}");
    assert!(data == letters(), "the body is the same");
    assert!(chunks < MOST_PIECES, "{chunks}");
    assert!(!body.windows(6).any(|six| six == b"Digest"), "trailers of HTTP/1 go no further");
}

#[test]
fn a_small_chunk_is_passed_on_at_once_and_not_waited_upon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = gate_before(listener.local_addr().unwrap(), "none");
    let mut client = gate.connect();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let (mut origin, _) = listener.accept().unwrap();
    origin.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut seen = Vec::new();
    for letter in ["k", "l", "m"] {
        // each is at the origin before the next is sent, the first in two pieces
        let chunk = format!("1;a\r\n{letter}\r\n");
        let (front, rear) = chunk.split_at(3);
        client.send(front.as_bytes()).unwrap();
        client.send(rear.as_bytes()).unwrap();
        wait_for("the chunk at the origin", || {
            let mut space = [0; 4096];
            if let Ok(read) = origin.read(&mut space) {
                seen.extend_from_slice(&space[..read]);
            }
            String::from_utf8_lossy(&seen).contains(&format!("\r\n{letter}\r\n")).then_some(())
        });
    }
}

#[test]
fn a_chunk_size_over_the_bodys_limit_is_refused_before_its_bytes_come() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_before(origin.address(), "1KiB");
    for chunks in ["401", "100000", "200\r\n"] {
        let mut client = gate.connect();
        let mut request = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        if chunks.ends_with('\n') {
            request.push_str(&"x".repeat(0x200));
            request.push_str("\r\n201\r\n");
        }
        client.send(request.as_bytes()).unwrap();
        assert_eq!(client.answer_to("POST").unwrap().status, 413, "{chunks}");
    }
    assert!(origin.arrivals().iter().all(|arrival| !arrival.complete), "no whole request came");
    gate.counts("tidegate_malformed_requests_total", &[("reason", "body_too_large")], 3.0);
    assert_eq!(gate.connect().ask("POST", "/", "", b"small").status, 200);
}
