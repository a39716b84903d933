//! An origin that does as it is told, one thread per connection, and writes down every request as it came.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use super::{PATIENCE, wait_for};

/// What the origin does once a request's head has come.
#[derive(Clone)]
pub enum Reply {
    /// Reads the body, answers 200 with a body `ok`.
    Ok,
    /// Reads the body and sends it back.
    Echo,
    /// Reads the body, sends these bytes, keeps the connection.
    Bytes(&'static [u8]),
    /// Reads the body, waits until the latch opens, answers as `Ok`.
    Held(Latch),
    /// Says `100 Continue`, then does as `Echo`.
    Continue,
    /// Agrees to speak WebSocket, then sends back whatever comes; ends when it is told `bye`.
    Switch,
    /// Sends these bytes without reading the body, and closes.
    ThenClose(&'static [u8]),
    /// The same, and resets.
    ThenReset(&'static [u8]),
    /// The same, and says nothing more until the other side goes.
    ThenStall(&'static [u8]),
    /// A head, then body bytes until the other side goes.
    Endless,
    /// A head, one byte each 50 ms, until the other side goes.
    DrippingHead,
}

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub struct Arrival {
    /// The head without its last empty line, byte for byte.
    pub head: Vec<u8>,
    pub method: String,
    pub target: String,
    /// The fields in order, values trimmed.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body came to the end that its framing promised.
    pub complete: bool,
}

impl Arrival {
    /// The values of this field, line by line.
    pub fn lines(&self, name: &str) -> Vec<&str> {
        let lines = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_str()).collect()
    }
}

/// A gate for replies: shut until somebody opens it for good.
#[derive(Clone, Default)]
pub struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let shut = self.0.0.lock().unwrap();
        let _ = self.0.1.wait_timeout_while(shut, 4 * PATIENCE, |open| !*open).unwrap();
    }
}

type Script = dyn Fn(&Arrival) -> Reply + Send + Sync;

/// A running origin.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<Script>,
    arrivals: Mutex<Vec<Arrival>>,
    open: AtomicUsize,
    stopped: AtomicBool,
}

impl Origin {
    /// Starts one that asks `script` for its reply to every request.
    pub fn start(script: impl Fn(&Arrival) -> Reply + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("the port is known");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            arrivals: Mutex::default(),
            open: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Origin { address, shared }
    }

    /// Starts one that always does the same.
    pub fn that(reply: Reply) -> Origin {
        Origin::start(move |_| reply.clone())
    }

    /// `127.0.0.1:PORT`, as a policy names it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests have come.
    pub fn count(&self) -> usize {
        self.shared.arrivals.lock().unwrap().len()
    }

    /// All requests that have come.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.arrivals.lock().unwrap().clone()
    }

    /// The only request that has come.
    pub fn only_arrival(&self) -> Arrival {
        let mut arrivals = self.arrivals();
        assert_eq!(arrivals.len(), 1, "one request reaches the origin: {arrivals:?}");
        arrivals.remove(0)
    }

    /// Waits until at least this many requests have come.
    pub fn wait_for(&self, count: usize) {
        wait_for(&format!("{count} requests at the origin"), || (self.count() >= count).then_some(()));
    }

    /// Waits until nobody is connected any more.
    pub fn wait_until_left(&self) {
        let open = || self.shared.open.load(Ordering::Relaxed);
        wait_for("all connections to the origin to be closed", || (open() == 0).then_some(()));
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

/// An address that refuses connections as long as the guard lives: bound, so that nobody else gets it, not listening.
pub fn refusing() -> (SocketAddr, Socket) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).expect("a port is free");
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (address, socket)
}

/// An address where connections neither stand nor fail as long as the guard lives: its queue of connections is full.
pub fn deaf() -> (SocketAddr, (Socket, Vec<TcpStream>)) {
    let (address, socket) = refusing();
    socket.listen(0).expect("the socket listens");
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        waiting.push(stream);
        assert!(waiting.len() < 64, "the queue of connections fills up");
    }
    (address, (socket, waiting))
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut visit = Visit { stream, unread: Vec::new() };
        let _ = visit.stream.set_nodelay(true);
        // longer than any test: an origin that closes first would be another scenario
        let _ = visit.stream.set_read_timeout(Some(10 * PATIENCE));
        while self.one_request(&mut visit).is_some() {}
        drop(visit);
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// One request; `None` when the connection is over.
    fn one_request(&self, visit: &mut Visit) -> Option<()> {
        let head = visit.until(b"\r\n\r\n")?;
        let mut arrival = Arrival::read(head);
        let place = {
            let mut arrivals = self.arrivals.lock().unwrap();
            arrivals.push(arrival.clone());
            arrivals.len() - 1
        };
        let reply = (self.script)(&arrival);
        match reply {
            Reply::ThenClose(bytes) => {
                visit.write(bytes)?;
                return None;
            }
            Reply::ThenReset(bytes) => {
                visit.write(bytes)?;
                // what was written must be on its way before the reset overtakes it
                std::thread::sleep(Duration::from_millis(50));
                let _ = SockRef::from(&visit.stream).set_linger(Some(Duration::ZERO));
                return None;
            }
            Reply::ThenStall(bytes) => {
                visit.write(bytes)?;
                visit.sit_out();
                return None;
            }
            Reply::Endless => {
                visit.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")?;
                while visit.write(&[b'x'; 16 * 1024]).is_some() {}
                return None;
            }
            Reply::DrippingHead => {
                visit.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")?;
                let start = Instant::now();
                while start.elapsed() < 4 * PATIENCE && visit.write(b"x").is_some() {
                    std::thread::sleep(Duration::from_millis(50));
                }
                return None;
            }
            Reply::Switch => {
                visit.write(
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
                )?;
                while visit.fill().is_some() && visit.unread != b"bye" {
                    let bytes = std::mem::take(&mut visit.unread);
                    visit.write(&bytes)?;
                }
                return None;
            }
            Reply::Continue => visit.write(b"HTTP/1.1 100 Continue\r\n\r\n")?,
            Reply::Ok | Reply::Echo | Reply::Bytes(_) | Reply::Held(_) => {}
        }
        let whole = visit.body(&mut arrival);
        arrival.complete = whole.is_some();
        if let Some(noted) = self.arrivals.lock().unwrap().get_mut(place) {
            noted.clone_from(&arrival);
        }
        whole?;
        let ok = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
        let ok = if arrival.method == "HEAD" { &ok[..ok.len() - 2] } else { &ok[..] };
        match reply {
            Reply::Echo | Reply::Continue => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", arrival.body.len());
                visit.write(&[head.as_bytes(), &arrival.body].concat())
            }
            Reply::Bytes(bytes) => visit.write(bytes),
            Reply::Held(latch) => {
                latch.wait();
                visit.write(ok)
            }
            _ => visit.write(ok),
        }
    }
}

impl Arrival {
    fn read(head: Vec<u8>) -> Arrival {
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default().to_owned();
        let fields = lines.map(|line| line.split_once(':').unwrap_or((line, "")));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        Arrival { head, method, target, fields, body: Vec::new(), complete: false }
    }
}

/// One connection to the origin.
struct Visit {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Visit {
    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    fn fill(&mut self) -> Option<()> {
        let mut buffer = [0; 16 * 1024];
        let count = self.stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        self.unread.extend_from_slice(&buffer[..count]);
        Some(())
    }

    /// Takes bytes up to and without `end`.
    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|window| window == end) {
                let taken = self.unread.drain(..at + end.len()).take(at).collect();
                return Some(taken);
            }
            self.fill()?;
        }
    }

    fn exactly(&mut self, count: usize, body: &mut Vec<u8>) -> Option<()> {
        let goal = body.len() + count;
        loop {
            let here = self.unread.len().min(goal - body.len());
            body.extend(self.unread.drain(..here));
            if body.len() == goal {
                return Some(());
            }
            self.fill()?;
        }
    }

    fn body(&mut self, arrival: &mut Arrival) -> Option<()> {
        if arrival.lines("transfer-encoding").iter().any(|value| value.eq_ignore_ascii_case("chunked")) {
            loop {
                let line = self.until(b"\r\n")?;
                let digits = String::from_utf8_lossy(&line).split(';').next().unwrap_or_default().trim().to_owned();
                let size = usize::from_str_radix(&digits, 16).ok()?;
                self.exactly(size, &mut arrival.body)?;
                self.until(b"\r\n")?;
                if size == 0 {
                    return Some(());
                }
            }
        }
        let length = arrival.lines("content-length").first().and_then(|value| value.parse().ok()).unwrap_or(0);
        self.exactly(length, &mut arrival.body)
    }

    /// Waits until the other side goes.
    fn sit_out(&mut self) {
        while self.fill().is_some() {
            self.unread.clear();
        }
    }
}
