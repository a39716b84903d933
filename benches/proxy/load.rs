//! The load: 64 keep-alive connections in a closed loop, each sending its next request when its answer is complete.
//!
//! A process of its own, so that what it costs is on nobody's account. All requests are prepared in advance. It works in
//! slices and waits for every answer at the end of one, so that the proxy's CPU time is read when it has nothing to do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::origin::end_of_head;

const CONNECTIONS: usize = 64;
/// No proxy's answer comes near it.
const LARGEST_ANSWER: usize = 16 * 1024;

/// What one slice saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of all answers.
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
}

/// Connects, says `ready`, and from then on answers each line, a number of milliseconds, with what it saw in so much time.
/// Ends when there are no more lines.
///
/// The requests carry the addresses of so many clients in `X-Forwarded-For`, in an order without pattern, and begin again with
/// the first.
pub fn drive(proxy: SocketAddr, clients: usize) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let requests = Requests::prepare(clients);
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        connections.push(runtime.block_on(connect(proxy))?);
    }
    let shared = Rc::new(Shared { proxy, requests, next: Cell::new(0), seen: RefCell::default() });
    say("ready")?;
    for line in io::stdin().lock().lines() {
        let span = Duration::from_millis(line?.trim().parse().map_err(io::Error::other)?);
        connections = runtime.block_on(exchange(connections, &shared, span))?;
        say(&shared.seen.take().line())?;
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    println!("{line}");
    io::stdout().flush()
}

async fn connect(proxy: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The bytes of every request, one after the other.
struct Requests {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Requests {
    fn prepare(count: usize) -> Requests {
        let mut requests = Requests { bytes: Vec::with_capacity(count * 128), ends: Vec::with_capacity(count) };
        for index in 0..count {
            let request = format!(
                "GET /bench HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: bench\r\nAccept: */*\r\nX-Forwarded-For: {}\r\n\r\n",
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
}

/// Different for every index below 2²⁸, all between 32.0.0.0 and 47.255.255.255: public, and nobody's trusted proxy.
fn address(index: usize) -> Ipv4Addr {
    // an odd factor permutes the numbers below a power of two
    let scattered = (index as u32).wrapping_mul(0x9E37_79B1) & 0x0FFF_FFFF;
    Ipv4Addr::from(0x2000_0000 | scattered)
}

struct Shared {
    proxy: SocketAddr,
    requests: Requests,
    next: Cell<usize>,
    seen: RefCell<Seen>,
}

/// All connections until `span` is over and the last answer is complete.
async fn exchange(streams: Vec<TcpStream>, shared: &Rc<Shared>, span: Duration) -> io::Result<Vec<TcpStream>> {
    let deadline = Instant::now() + span;
    let local = LocalSet::new();
    let tasks: Vec<_> =
        streams.into_iter().map(|stream| local.spawn_local(ask_until(deadline, stream, Rc::clone(shared)))).collect();
    local.await;
    let mut streams = Vec::with_capacity(CONNECTIONS);
    for task in tasks {
        streams.push(task.await.map_err(io::Error::other)??);
    }
    Ok(streams)
}

async fn ask_until(deadline: Instant, mut stream: TcpStream, shared: Rc<Shared>) -> io::Result<TcpStream> {
    let mut buffer = vec![0; LARGEST_ANSWER];
    while Instant::now() < deadline {
        let index = shared.next.replace(shared.next.get() + 1);
        stream.write_all(shared.requests.get(index)).await?;
        let answer = read_answer(&mut stream, &mut buffer).await?;
        {
            let mut seen = shared.seen.borrow_mut();
            *seen.statuses.entry(answer.status).or_default() += 1;
            seen.bytes += answer.bytes as u64;
        }
        if answer.closes {
            // a cap on requests per connection: rare, and the proxy's own cost
            stream = connect(shared.proxy).await?;
        }
    }
    Ok(stream)
}

struct Answer {
    status: u16,
    bytes: usize,
    closes: bool,
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Answer> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Err(io::Error::other("the proxy closed a connection without saying so before"));
        }
        filled += read;
        let Some(head) = end_of_head(&buffer[..filled]) else { continue };
        let parsed = parse_head(&buffer[..head]).ok_or_else(|| io::Error::other("an answer without a length"))?;
        let bytes = head + parsed.body;
        if filled == bytes {
            return Ok(Answer { status: parsed.status, bytes, closes: parsed.closes });
        }
        if filled > bytes || bytes > buffer.len() {
            return Err(io::Error::other("an answer longer than it says, or than any should be"));
        }
    }
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
