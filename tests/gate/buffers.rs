//! The bound on what the process buffers of bodies (`server.max_buffered`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;

use crate::h2::raw::{DATA, Raw, frame, head};
use crate::harness::{Gate, Origin, PATIENCE, Reply, wait_for};

/// An answer that is not light.
const LARGE: usize = 300_000;
/// What the body of a stalled request is made of.
static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// A message of an event stream and of a WebSocket.
const EVENT: &[u8] = &[b'e'; 4000];

const SWITCH: &[u8] = b"GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Reads until these bytes have come.
fn read_to(stream: &mut TcpStream, end: &[u8]) {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while !seen.windows(end.len()).any(|window| window == end) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "it ended after {} bytes", seen.len());
        seen.extend_from_slice(&piece[..count]);
    }
}

/// An origin that reads nothing from the connections it takes, until it is dropped.
struct Deaf {
    address: SocketAddr,
    kept: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Deaf {
    fn start() -> Deaf {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // those that are accepted have it too
        SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Arc::new(Mutex::new(Some(Vec::new())));
        let keeps = Arc::clone(&kept);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                match &mut *keeps.lock().unwrap() {
                    Some(kept) => kept.push(stream),
                    None => return,
                }
            }
        });
        Deaf { address, kept }
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        self.kept.lock().unwrap().take();
        let _ = TcpStream::connect(self.address);
    }
}

fn origin() -> Origin {
    let mut large = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").into_bytes();
    large.resize(large.len() + LARGE, b'x');
    let large: &'static [u8] = large.leak();
    let mut events = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", EVENT.len()).into_bytes();
    events.extend_from_slice(&[EVENT, b"\r\n"].concat());
    let events: &'static [u8] = events.leak();
    Origin::start(move |arrival| match arrival.target.as_str() {
        "/endless" => Reply::Endless,
        "/large" => Reply::Bytes(large),
        "/events" => Reply::ThenStall(events),
        "/socket" => Reply::Switch,
        _ => Reply::Ok,
    })
}

fn gate(site: &Origin, deaf: &Deaf, bound: &str) -> Gate {
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
server: {{ overload: off, max_buffered: {bound} }}
routes:
  - {{ name: sink, match: {{ path: /sink }}, origin: \"{}\", body_limit: none }}
  - {{ name: site, origin: \"{}\", body_limit: none }}
",
        deaf.address,
        site.address()
    ))
}

/// A client that takes nothing of an endless answer.
fn stalled_download(gate: &Gate) -> TcpStream {
    let mut stream = TcpStream::connect(gate.address("main")).unwrap();
    let _ = SockRef::from(&stream).set_recv_buffer_size(4096);
    stream.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream
}

/// A client whose origin takes nothing: it sends until it gets nothing rid.
fn stalled_upload(gate: &Gate) -> TcpStream {
    let mut stream = TcpStream::connect(gate.address("main")).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
    stream.write_all(b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
    for _ in 0..200 {
        // it may be refused meanwhile
        if stream.write(&PIECE).is_err() {
            break;
        }
    }
    stream
}

fn buffered(gate: &Gate) -> u64 {
    gate.metrics().sum("tidegate_buffered_bytes", &[]) as u64
}

#[test]
fn stalled_transfers_stay_within_the_bound_and_light_clients_are_served() {
    const BOUND_KIB: u64 = 8 * 1024;
    const DOWNLOADS: usize = 150;
    const UPLOADS: usize = 40;
    const TALKERS: usize = 4;
    const STREAMS: u32 = 50;
    /// What a connection and a request cost beside their bodies: `docs/connections.md`.
    const EACH_KIB: u64 = 11 + 64;

    let (site, deaf) = (origin(), Deaf::start());
    let mut gate = gate(&site, &deaf, &format!("{BOUND_KIB}KiB"));
    for _ in 0..20 {
        assert_eq!(gate.fetch("/", "").status, 200);
    }
    let before = gate.resident_kib();
    let mut crowd: Vec<TcpStream> = (0..DOWNLOADS).map(|_| stalled_download(&gate)).collect();
    crowd.extend((0..UPLOADS).map(|_| stalled_upload(&gate)));
    let mut talkers: Vec<Raw> = (0..TALKERS).map(|_| Raw::open(gate.address("main"), &[])).collect();
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/sink")];
    for raw in &mut talkers {
        for number in 0..STREAMS {
            let _ = raw.send(&head(2 * number + 1, &fields, false));
            for _ in 0..4 {
                let _ = raw.send(&frame(DATA, 0, 2 * number + 1, &PIECE[..15_000]));
            }
        }
    }
    wait_for("the transfers to fill what they may", || (buffered(&gate) >= BOUND_KIB << 9).then_some(()));
    for _ in 0..100 {
        assert_eq!(gate.fetch("/", "").status, 200, "light clients are served");
        assert!(buffered(&gate) <= BOUND_KIB << 10);
    }
    let used = gate.resident_peak_kib().saturating_sub(before);
    let requests = DOWNLOADS + UPLOADS + TALKERS * STREAMS as usize;
    println!("{requests} stalled requests: {used} KiB of memory, {} KiB counted", buffered(&gate) >> 10);
    assert!(used <= 2 * BOUND_KIB + EACH_KIB * requests as u64, "{used} KiB");

    drop((crowd, talkers, deaf));
    wait_for("all of it to be given back", || (buffered(&gate) == 0).then_some(()));
    gate.comes_to_rest();
}

#[test]
fn heavy_requests_are_refused_while_others_hold_all_and_served_afterwards() {
    let (site, deaf) = (origin(), Deaf::start());
    let gate = gate(&site, &deaf, "1MiB");
    // light ones, which may fill more of it than heavy ones; each lacks its last byte
    let mut crowd = Vec::new();
    while buffered(&gate) < (1 << 20) / 8 * 7 {
        let before = buffered(&gate);
        let mut stream = TcpStream::connect(gate.address("main")).unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 16000\r\n\r\n").unwrap();
        stream.write_all(&PIECE[..15_999]).unwrap();
        crowd.push(stream);
        wait_for("an upload to be counted", || (buffered(&gate) > before).then_some(()));
    }
    assert_eq!(gate.metrics().sum("tidegate_buffered_bytes_limit", &[]), f64::from(1 << 20));
    let refused = gate.metrics().sum("tidegate_buffers_refused_total", &[]);
    let upload = gate.connect().ask("POST", "/", "", &[b'x'; LARGE]);
    let download = gate.fetch("/large", "");
    assert_eq!((upload.status, download.status), (503, 503));
    assert!(gate.metrics().sum("tidegate_buffers_refused_total", &[]) >= refused + 2.0);
    wait_for("a line for each", || {
        let lines = gate.log_text().lines().filter(|line| line.contains("\"buffers_full\"")).count();
        (lines >= 2).then_some(())
    });
    assert_eq!(gate.connect().ask("POST", "/", "", &[b'x'; 8_000]).status, 200, "a light body passes");
    assert_eq!(gate.fetch("/", "").status, 200);

    drop(crowd);
    wait_for("all of it to be given back", || (buffered(&gate) == 0).then_some(()));
    assert_eq!(gate.connect().ask("POST", "/", "", &[b'x'; LARGE]).status, 200);
    assert_eq!(gate.fetch("/large", "").body.len(), LARGE);
}

#[test]
fn idle_connections_that_carried_something_once_leave_the_room_to_others() {
    const EACH: usize = 60;
    let (site, deaf) = (origin(), Deaf::start());
    let gate = gate(&site, &deaf, "1MiB");
    let open = |head: &[u8]| {
        let mut stream = TcpStream::connect(gate.address("main")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(head).unwrap();
        stream
    };
    let mut crowd = Vec::new();
    for _ in 0..EACH {
        let mut events = open(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
        read_to(&mut events, EVENT);
        let mut socket = open(SWITCH);
        read_to(&mut socket, b"\r\n\r\n");
        socket.write_all(EVENT).unwrap();
        read_to(&mut socket, EVENT);
        crowd.extend([events, socket]);
    }
    wait_for("nothing to be held of what was taken", || (buffered(&gate) == 0).then_some(()));
    assert_eq!(gate.connect().ask("POST", "/", "", &[b'x'; LARGE]).status, 200);
    assert_eq!(gate.fetch("/large", "").body.len(), LARGE);
    assert_eq!(gate.metrics().sum("tidegate_buffers_refused_total", &[]), 0.0);
    for mut socket in crowd.into_iter().skip(1).step_by(2) {
        socket.write_all(EVENT).unwrap();
        read_to(&mut socket, EVENT);
    }
}

#[test]
fn event_streams_and_websockets_go_on_beside_stalled_downloads() {
    const EACH: usize = 10;
    let (site, deaf) = (origin(), Deaf::start());
    let gate = gate(&site, &deaf, "4MiB");
    let mut sockets = Vec::new();
    for _ in 0..EACH {
        let mut socket = TcpStream::connect(gate.address("main")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(SWITCH).unwrap();
        read_to(&mut socket, b"\r\n\r\n");
        sockets.push(socket);
    }
    // far more than what is light
    let talk = |sockets: &mut Vec<TcpStream>| {
        for socket in sockets {
            socket.write_all(EVENT).unwrap();
            read_to(socket, EVENT);
        }
    };
    (0..8).for_each(|_| talk(&mut sockets));
    let mut crowd = Vec::new();
    let refused = || gate.metrics().sum("tidegate_buffers_refused_total", &[]);
    wait_for("stalled downloads to be refused", || {
        crowd.push(stalled_download(&gate));
        talk(&mut sockets);
        (refused() >= 5.0).then_some(())
    });
    (0..8).for_each(|_| talk(&mut sockets));
    drop(crowd);
}

#[test]
fn stalled_downloads_are_cut_off_when_others_need_their_room() {
    let (site, deaf) = (origin(), Deaf::start());
    let gate = gate(&site, &deaf, "2MiB");
    let mut crowd = Vec::new();
    let cut = || gate.metrics().sum("tidegate_malformed_requests_total", &[("reason", "buffers_full")]);
    wait_for("the first of them to be cut off", || {
        // some of them are refused at once, so their number says nothing
        if buffered(&gate) < (2 << 20) / 4 * 3 {
            crowd.push(stalled_download(&gate));
        }
        (cut() > 0.0).then_some(())
    });
    wait_for("a large answer to be served whole", || {
        let answer = gate.fetch("/large", "");
        (answer.status == 200 && answer.body.len() == LARGE).then_some(())
    });
    assert!(buffered(&gate) > 0, "those that need not go are not cut off");
    drop(crowd);
    wait_for("all of it to be given back", || (buffered(&gate) == 0).then_some(()));
}
