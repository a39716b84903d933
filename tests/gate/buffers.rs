//! The bound on the bytes of bodies that the process holds (`server.max_buffered`).

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::h2::raw::{DATA, Raw, frame, head};
use crate::harness::{Gate, Origin, Reply, wait_for};

const UNREAD: usize = 150;
const UPLOADS: usize = 100;
const TALKERS: usize = 60;
/// `server.max_buffered`, in KiB.
const BOUND_KIB: u64 = 4 * 1024;
/// What a transfer holds beside its counted pieces, in KiB: see `docs/connections.md`.
const EACH_KIB: u64 = 96;

fn gate(good: &Origin, idle: SocketAddr, bound: &str) -> Gate {
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
server: {{ max_buffered: {bound} }}
routes:
  - {{ name: sink, match: {{ path: /sink }}, origin: \"{idle}\", body_limit: none }}
  - {{ name: site, origin: \"{}\", body_limit: none }}
",
        good.address()
    ))
}

/// An origin that takes connections and reads nothing from them.
fn idle_origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = SockRef::from(&stream).set_recv_buffer_size(4096);
            kept.push(stream);
        }
    });
    address
}

/// Sends until nobody takes more for a while.
fn stuff(stream: &mut TcpStream, piece: &[u8], most: usize) {
    stream.set_write_timeout(Some(Duration::from_millis(5))).unwrap();
    for _ in 0..most {
        match stream.write(piece) {
            Ok(_) => {}
            Err(fault) if matches!(fault.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return,
            Err(_) => return,
        }
    }
}

#[test]
fn stalled_transfers_hold_no_more_than_the_bound_and_the_light_are_served() {
    let origin = Origin::start(|arrival| if arrival.target == "/endless" { Reply::Endless } else { Reply::Ok });
    let address = idle_origin();
    let mut gate = gate(&origin, address, &format!("{BOUND_KIB}KiB"));
    for _ in 0..20 {
        assert_eq!(gate.fetch("/", "").status, 200);
    }
    let before = gate.resident_kib();
    let listener = gate.address("main");
    let mut crowd = Vec::new();
    for _ in 0..UNREAD {
        let mut stream = TcpStream::connect(listener).unwrap();
        let _ = SockRef::from(&stream).set_recv_buffer_size(4096);
        stream.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        crowd.push(stream);
    }
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..UPLOADS {
        let mut stream = TcpStream::connect(listener).unwrap();
        stream.write_all(b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
        stuff(&mut stream, &piece, 64);
        crowd.push(stream);
    }
    let mut talkers: Vec<Raw> = (0..TALKERS).map(|_| Raw::open(listener, &[])).collect();
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/sink")];
    for raw in &mut talkers {
        for number in 0..4 {
            let _ = raw.send(&head(2 * number + 1, &fields, false));
            let _ = raw.send(&frame(DATA, 0, 2 * number + 1, &piece[..15_000]));
        }
    }
    wait_for("the transfers to fill what they may", || {
        (gate.metrics().sum("tidegate_buffered_bytes", &[]) >= (BOUND_KIB << 10) as f64 / 2.0).then_some(())
    });
    for _ in 0..100 {
        assert_eq!(gate.fetch("/", "").status, 200, "the light are served");
    }
    let held = gate.metrics().sum("tidegate_buffered_bytes", &[]) as u64 >> 10;
    let used = gate.resident_peak_kib().saturating_sub(before);
    let transfers = (UNREAD + UPLOADS + TALKERS * 4) as u64;
    println!("{transfers} stalled transfers: {held} KiB held, {used} KiB of memory, {} each", used / transfers);
    assert!(held < BOUND_KIB + 16 * transfers, "{held} KiB held");
    assert!(used < BOUND_KIB + EACH_KIB * transfers, "{used} KiB");
    drop((crowd, talkers));
    wait_for("all of it to be given back", || (gate.metrics().sum("tidegate_buffered_bytes", &[]) == 0.0).then_some(()));
    gate.comes_to_rest();
}

#[test]
fn at_the_bound_a_heavy_transfer_is_refused_and_counted() {
    let origin = Origin::that(Reply::Ok);
    let address = idle_origin();
    let gate = gate(&origin, address, "1MiB");
    let piece = vec![b'x'; 64 * 1024];
    let mut crowd = Vec::new();
    wait_for("an upload to be refused", || {
        let mut stream = TcpStream::connect(gate.address("main")).unwrap();
        let _ = stream.write_all(b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
        stuff(&mut stream, &piece, 64);
        crowd.push(stream);
        (gate.metrics().sum("tidegate_buffers_refused_total", &[]) > 0.0).then_some(())
    });
    assert_eq!(gate.metrics().sum("tidegate_buffered_bytes_limit", &[]), f64::from(1 << 20));
    assert_eq!(gate.fetch("/", "").status, 200);
    assert_eq!(gate.connect().ask("POST", "/", "", &[b'x'; 8_000]).status, 200);
}
