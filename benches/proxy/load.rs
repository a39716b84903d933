//! The load: connections in a closed loop, each sending its next request when its answer is complete.
//!
//! A process of its own, so that what it costs is on no proxy's account. All requests are prepared in advance. It works in
//! slices and waits for every answer at the end of one, so that the proxy's CPU time is read when it has nothing to do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

use crate::origin::end_of_head;
use crate::plan::{Plan, Shape};

/// The name that requests are for; with TLS, that of the certificate.
pub const HOST: &str = "bench.example";
/// What one read takes. No answer's head comes near it.
const READ_BYTES: usize = 64 * 1024;
/// How many connections ask at a time, where each asks once.
const FEW: usize = 64;

/// What one slice saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of all answers; of HTTP/2 those of their bodies.
    pub bytes: u64,
}

impl Seen {
    /// All answers.
    pub fn requests(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Reads what [`drive`] wrote.
    pub fn parse(line: &str) -> Option<Seen> {
        let mut words = line.split_whitespace();
        let bytes = words.next()?.parse().ok()?;
        let pair = |word: &str| {
            let (status, count) = word.split_once('=')?;
            Some((status.parse().ok()?, count.parse().ok()?))
        };
        Some(Seen { statuses: words.map(pair).collect::<Option<_>>()?, bytes })
    }

    fn line(&self) -> String {
        let statuses: Vec<String> = self.statuses.iter().map(|(status, count)| format!("{status}={count}")).collect();
        format!("{} {}", self.bytes, statuses.join(" "))
    }

    fn note(&mut self, status: u16, bytes: u64) {
        *self.statuses.entry(status).or_default() += 1;
        self.bytes += bytes;
    }
}

/// Connects, says `ready`, and from then on does what each line says and answers it with what it saw; ends when there are no more lines.
/// `for MILLISECONDS` is the closed loop for so long, `requests N` for so many requests, `once` is one request on each connection, few
/// of them at a time.
///
/// The requests carry the addresses of so many clients in `X-Forwarded-For`, in an order without pattern, and begin again with
/// the first.
pub fn drive(proxy: SocketAddr, plan: &Plan) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let local = LocalSet::new();
    let shared = Rc::new(Shared {
        proxy,
        tls: plan.authority.as_deref().map(|authority| trusting(authority, plan.shape)).transpose()?,
        requests: Requests::prepare(plan),
        next: Cell::new(0),
        seen: RefCell::default(),
    });
    let mut lanes = local.block_on(&runtime, Lane::open_all(plan, &shared))?;
    say("ready")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
        let (all, begun) = (lanes.len(), shared.next.get());
        let (at_once, until) = match line.split_once(' ') {
            Some(("for", millis)) => {
                (all, Until::Instant(Instant::now() + Duration::from_millis(number(millis)? as u64)))
            }
            Some(("requests", count)) => (all, Until::Requests(begun + number(count)?)),
            _ => (FEW, Until::Requests(begun)),
        };
        for _ in 0..all.div_ceil(at_once.max(1)) {
            let rest = lanes.split_off(at_once.min(lanes.len()));
            let until = if line == "once" { Until::Requests(shared.next.get() + lanes.len()) } else { until };
            let asked = local.block_on(&runtime, exchange(lanes, &shared, until))?;
            lanes = rest;
            lanes.extend(asked);
        }
        say(&shared.seen.take().line())?;
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    println!("{line}");
    io::stdout().flush()
}

/// When a slice is over.
#[derive(Debug, Clone, Copy)]
enum Until {
    Instant(Instant),
    /// The number of requests, since the start, that were begun.
    Requests(usize),
}

/// The bytes of every request, one after the other.
struct Requests {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    path: String,
}

impl Requests {
    fn prepare(plan: &Plan) -> Requests {
        let Plan { clients, path, .. } = plan;
        let close = if plan.shape == Shape::Each { "Connection: close\r\n" } else { "" };
        let (bytes, ends) = (Vec::with_capacity(clients * 144), Vec::with_capacity(*clients));
        let mut requests = Requests { bytes, ends, path: path.clone() };
        for index in 0..*clients {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: bench\r\nAccept: */*\r\nX-Forwarded-For: {}\r\n{close}\r\n",
                address(index)
            );
            requests.bytes.extend_from_slice(request.as_bytes());
            requests.ends.push(requests.bytes.len());
        }
        requests
    }

    fn get(&self, index: usize) -> &[u8] {
        let index = index % self.ends.len();
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    fn http2(&self, index: usize) -> http::Request<()> {
        let request = http::Request::get(format!("https://{HOST}{}", self.path));
        let request = request.header("user-agent", "bench").header("accept", "*/*");
        let request = request.header("x-forwarded-for", address(index % self.ends.len()).to_string());
        request.body(()).expect("a request of known parts")
    }
}

/// Different for every index below 2²⁸, all between 32.0.0.0 and 47.255.255.255: public, and nobody's trusted proxy.
fn address(index: usize) -> Ipv4Addr {
    // an odd factor permutes the numbers below a power of two
    let scattered = (index as u32).wrapping_mul(0x9E37_79B1) & 0x0FFF_FFFF;
    Ipv4Addr::from(0x2000_0000 | scattered)
}

struct Shared {
    proxy: SocketAddr,
    tls: Option<TlsConnector>,
    requests: Requests,
    next: Cell<usize>,
    seen: RefCell<Seen>,
}

impl Shared {
    /// The number of the next request, unless the slice is over.
    fn take(&self, until: Until) -> Option<usize> {
        let next = self.next.get();
        let over = match until {
            Until::Instant(deadline) => Instant::now() >= deadline,
            Until::Requests(end) => next >= end,
        };
        (!over).then(|| self.next.replace(next + 1))
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.proxy).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(tls) => {
                let name = ServerName::try_from(HOST).map_err(io::Error::other)?;
                Ok(Box::new(tls.connect(name, stream).await?))
            }
        }
    }
}

/// TLS 1.3 with the certificates of this authority.
fn trusting(authority: &Path, shape: Shape) -> io::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(authority)?)).map_err(io::Error::other)?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13]);
    let mut config = config.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
    let protocol: &[u8] = if matches!(shape, Shape::Http2 { .. }) { b"h2" } else { b"http/1.1" };
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// A connection, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Where one request after the other goes.
enum Lane {
    Kept(Box<dyn Stream>),
    Each,
    Http2(SendRequest<Bytes>),
}

impl Lane {
    async fn open_all(plan: &Plan, shared: &Rc<Shared>) -> io::Result<Vec<Lane>> {
        let mut lanes = Vec::new();
        for _ in 0..plan.connections {
            match plan.shape {
                Shape::Each => lanes.push(Lane::Each),
                Shape::Kept | Shape::Tls => lanes.push(Lane::Kept(shared.connect().await?)),
                Shape::Http2 { streams } => {
                    let mut builder = h2::client::Builder::new();
                    builder.initial_window_size(1 << 20).initial_connection_window_size(1 << 24);
                    let (requests, connection) =
                        builder.handshake(shared.connect().await?).await.map_err(io::Error::other)?;
                    // works as long as a slice does, and ends with the process
                    tokio::task::spawn_local(connection);
                    lanes.extend((0..streams).map(|_| Lane::Http2(requests.clone())));
                }
            }
        }
        Ok(lanes)
    }

    async fn ask_until(mut self, until: Until, shared: Rc<Shared>) -> io::Result<Lane> {
        let mut buffer = vec![0; READ_BYTES];
        while let Some(index) = shared.take(until) {
            let request = shared.requests.get(index);
            let (status, bytes) = match &mut self {
                Lane::Kept(stream) => {
                    stream.write_all(request).await?;
                    stream.flush().await?;
                    let answer = read_answer(stream, &mut buffer).await?;
                    if answer.closes {
                        // a cap on requests per connection: rare, and the proxy's own cost
                        *stream = shared.connect().await?;
                    }
                    (answer.status, answer.bytes)
                }
                Lane::Each => {
                    let mut stream = TcpStream::connect(shared.proxy).await?;
                    // once it has seen the end of its answer it leaves nothing behind in the kernel
                    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
                    stream.write_all(request).await?;
                    let answer = read_answer(&mut stream, &mut buffer).await?;
                    if stream.read(&mut buffer).await? > 0 {
                        return Err(io::Error::other("bytes behind the only answer of a connection"));
                    }
                    (answer.status, answer.bytes)
                }
                Lane::Http2(requests) => {
                    *requests = requests.clone().ready().await.map_err(io::Error::other)?;
                    let (answer, _) =
                        requests.send_request(shared.requests.http2(index), true).map_err(io::Error::other)?;
                    let answer = answer.await.map_err(io::Error::other)?;
                    let status = answer.status().as_u16();
                    let (mut body, mut bytes) = (answer.into_body(), 0);
                    while let Some(piece) = body.data().await {
                        let length = piece.map_err(io::Error::other)?.len();
                        body.flow_control().release_capacity(length).map_err(io::Error::other)?;
                        bytes += length as u64;
                    }
                    (status, bytes)
                }
            };
            shared.seen.borrow_mut().note(status, bytes);
        }
        Ok(self)
    }
}

/// All lanes until the slice is over and the last answer is complete.
async fn exchange(lanes: Vec<Lane>, shared: &Rc<Shared>, until: Until) -> io::Result<Vec<Lane>> {
    let ask = |lane: Lane| tokio::task::spawn_local(lane.ask_until(until, Rc::clone(shared)));
    let tasks: Vec<_> = lanes.into_iter().map(ask).collect();
    let mut lanes = Vec::with_capacity(tasks.len());
    for task in tasks {
        lanes.push(task.await.map_err(io::Error::other)??);
    }
    Ok(lanes)
}

/// What the origin gets of a request by this plan: the head that reaches it, in small letters.
pub fn reached(proxy: SocketAddr, plan: &Plan) -> io::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let tls = plan.authority.as_deref().map(|authority| trusting(authority, plan.shape)).transpose()?;
    let one = Plan { connections: 1, clients: 1, path: "/head".to_owned(), ..plan.clone() };
    let (requests, next, seen) = (Requests::prepare(&one), Cell::new(0), RefCell::default());
    let shared = Rc::new(Shared { proxy, tls, requests, next, seen });
    let head = LocalSet::new().block_on(&runtime, async {
        match Lane::open_all(&one, &shared).await?.remove(0) {
            Lane::Http2(mut requests) => {
                let (answer, _) = requests.send_request(shared.requests.http2(0), true).map_err(io::Error::other)?;
                let mut body = answer.await.map_err(io::Error::other)?.into_body();
                let mut head = Vec::new();
                while let Some(piece) = body.data().await {
                    head.extend_from_slice(&piece.map_err(io::Error::other)?);
                }
                Ok(head)
            }
            Lane::Kept(mut stream) => {
                stream.write_all(shared.requests.get(0)).await?;
                stream.flush().await?;
                let mut answer = Vec::new();
                // the head of the answer, then that of the request
                while answer.windows(4).filter(|four| four == b"\r\n\r\n").count() < 2 {
                    let mut buffer = [0; 4096];
                    let read = some(stream.read(&mut buffer).await?)?;
                    answer.extend_from_slice(&buffer[..read]);
                }
                Ok::<_, io::Error>(answer.split_off(end_of_head(&answer).unwrap_or(0)))
            }
            Lane::Each => Ok(Vec::new()),
        }
    })?;
    Ok(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

/// The end of an answer was read.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its bytes, head and body.
    pub bytes: u64,
    /// It said that the connection ends.
    pub closes: bool,
}

/// Reads one answer to its end; its body is thrown away.
pub async fn read_answer(stream: &mut (impl AsyncRead + Unpin + ?Sized), buffer: &mut [u8]) -> io::Result<Answer> {
    let mut filled = 0;
    let (head, end) = loop {
        if filled == buffer.len() {
            return Err(io::Error::other("a head that is longer than any should be"));
        }
        filled += some(stream.read(&mut buffer[filled..]).await?)?;
        let Some(end) = end_of_head(&buffer[..filled]) else { continue };
        break (parse_head(&buffer[..end]).ok_or_else(|| io::Error::other("an answer without a length"))?, end);
    };
    let bytes = (end + head.body) as u64;
    let mut read = filled as u64;
    while read < bytes {
        read += some(stream.read(buffer).await?)? as u64;
    }
    if read > bytes {
        return Err(io::Error::other("an answer longer than it says"));
    }
    Ok(Answer { status: head.status, bytes, closes: head.closes })
}

fn some(read: usize) -> io::Result<usize> {
    if read == 0 {
        return Err(io::Error::other("the proxy closed a connection without saying so before"));
    }
    Ok(read)
}

struct ParsedHead {
    status: u16,
    body: usize,
    closes: bool,
}

/// `None` without a status or a `Content-Length`.
fn parse_head(head: &[u8]) -> Option<ParsedHead> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let status = lines.next()?.get(9..12)?.parse().ok()?;
    let (mut body, mut closes) = (None, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            body = value.trim().parse().ok();
        } else if name.eq_ignore_ascii_case("connection") {
            closes = value.trim().eq_ignore_ascii_case("close");
        }
    }
    Some(ParsedHead { status, body: body?, closes })
}
