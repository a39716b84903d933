//! The gate under Pingora's real proxy, between sockets, under rule books made by hand.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::client::key::{KeyPart, KeySpec};
use crate::client::{ClientRules, ProxySet, Trust};
use crate::config::settings::{Drain, Listener, Log, LogFormat, LogLevel, Settings};
use crate::config::{Config, Places, Tree};
use crate::edge::common::Edge;
use crate::edge::limits::ConnectionLimits;
use crate::edge::listen::{self, Connections};
use crate::engine::Base;
use crate::observe::pseudonym::Pseudonyms;
use crate::origins::origin::Located;
use crate::policy::{
    Action, FixedAnswer, HeaderEdits, InflightCap, Kind, Mode, OnLimit, Origin, OriginAddress, Policy, Responses,
    Retries, Route, RouteTable, Rule, Timeouts, kinds,
};
use crate::proxy::events::Events;
use crate::proxy::framework::servers;
use crate::running::backends::Backends;
use crate::running::generation::Generation;
use crate::running::waits::Waits;
use crate::sketch::Seed;
use crate::system::clock::Clock;
use crate::units::{Prefix, Rate};

/// Longer than anything here takes; a test that gets so far hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

/// A gate with one route for everything.
struct Served {
    address: SocketAddr,
    process: Arc<Process>,
    stop: watch::Sender<bool>,
}

/// An origin that answers by path, and all heads that it got.
struct Scripted {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    /// Connections that are open now.
    open: Arc<std::sync::atomic::AtomicUsize>,
}

fn live(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(PATIENCE, test).await.expect("the test hangs") });
}

/// Gives way to all others until it is so.
async fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        tokio::task::yield_now().await;
    }
}

fn by_client() -> KeySpec {
    KeySpec::new([KeyPart::ClientIp { ipv4_prefix: None, ipv6_prefix: None }], None).unwrap()
}

/// `events` in `window`, `burst` at once.
fn rate(name: &str, events: u32, window: Duration, burst: u32, action: OnLimit) -> Rule {
    let kind = Kind::Rate(kinds::Rate {
        rate: Rate::new(events, window).unwrap(),
        burst,
        memory: crate::units::Bytes(1 << 20),
    });
    Rule { action, ..Rule::new(name, by_client(), kind, Mode::Enforce) }
}

fn respond(status: StatusCode, body: &'static str) -> Action {
    Action::Respond(FixedAnswer { status, body: Bytes::from_static(body.as_bytes()), headers: HeaderMap::new() })
}

fn policy(rules: Vec<Rule>, action: Action, origins: Vec<Arc<Origin>>) -> Policy {
    let route = Route {
        name: "all".into(),
        matches: Vec::new(),
        rules: (0..rules.len()).collect(),
        action,
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        cors: None,
        limited: Default::default(),
        overloaded: Default::default(),
        deny: Default::default(),
        body_limit: None,
        timeouts: Timeouts::default(),
        criticality: Default::default(),
    };
    let nobody = Prefix::new("192.0.2.1".parse().unwrap(), 32).unwrap();
    Policy {
        clients: ClientRules { trust: Trust::Proxies(ProxySet::new([nobody], false)), ..ClientRules::default() },
        repeated_fields: Default::default(),
        tiers: Vec::new(),
        rules: rules.into_iter().map(Arc::new).collect(),
        origins,
        stores: Vec::new(),
        routes: RouteTable::new(vec![route]),
        responses: Responses::default(),
    }
}

fn settings() -> Settings {
    Settings {
        listeners: vec![Listener::new("main", "127.0.0.1:0".parse().unwrap())],
        threads: Some(1),
        max_buffered: crate::units::Bytes(256 << 20),
        overload: None,
        state: None,
        direct: crate::config::settings::Direct::On,
        drain: Drain { delay: Duration::ZERO, timeout: Duration::ZERO },
        metrics: None,
        admin: None,
        access_log: None,
        log: Log { level: LogLevel::Error, format: LogFormat::Text },
        client_hmac: None,
        previous_client_hmac: None,
        store_passwords: Vec::new(),
        watch: None,
    }
}

fn serve(policy: Policy, most_waiting: u32, origin: Option<SocketAddr>) -> Served {
    let (stop, stopping) = watch::channel(false);
    let settings = settings();
    let bound = listen::bind(&settings.listeners[0]).unwrap();
    let address = bound.address.ip().unwrap();
    let empty = || Tree::Map(Vec::new());
    let (effective, shown, places) = (empty(), empty(), Places::default());
    let config = Config { policy, settings, fingerprint: String::new(), effective, shown, cases: Vec::new(), places };
    let clock = Clock::start();
    let backends = Backends::open(&config, None, clock).unwrap();
    let base = Base::Nothing { seed: &Seed::from_bytes([3; 16]), unix_nanos_at_origin: 0 };
    let first = Generation::next(config, backends, base).unwrap();
    let waits = Waits::new(most_waiting, stopping.clone());
    let process = Arc::new(Process::new(clock, None, Pseudonyms::new(None, [0; 32]), None, waits, first));
    if let Some(origin) = origin {
        process.generation().origin(0).unwrap().install(&[Located { address: origin, weight: 1, entry: 0 }]);
    }
    let events = Box::new(Events::new(Arc::clone(&process), 0));
    let edge = Arc::new(Edge { listener: 0, tls: None, limits: ConnectionLimits::default(), filter: None, events });
    tokio::spawn(listen::accept(bound, servers(&process, 1), edge, Connections::new(), stopping));
    Served { address, process, stop }
}

/// Answers by itself.
fn answering(rules: Vec<Rule>, status: StatusCode, body: &'static str) -> Served {
    serve(policy(rules, respond(status, body), Vec::new()), 10, None)
}

/// Forwards to the origin, one request at a time if `inflight` says so.
fn forwarding(rules: Vec<Rule>, origin: &Scripted, inflight: Option<u32>) -> Served {
    let address = OriginAddress { host: "127.0.0.1".into(), port: origin.address.port(), weight: 1, resolve: HOUR };
    let spec = Origin {
        inflight: inflight.map(|max| InflightCap { queue: 0, ..InflightCap::of(max) }),
        retries: Retries { max: 0, ..Retries::default() },
        // a client that leaves frees its place, as `/hold` never ends
        on_client_abort: crate::policy::OnClientAbort::Release,
        ..Origin::of("app".into(), vec![address])
    };
    serve(policy(rules, Action::Forward(0), vec![Arc::new(spec)]), 10, Some(origin.address))
}

/// `/401` is answered so, `/close` with a close, `/hold` never, `/switch` with 101 and an echo, `/kilo` with a thousand
/// bytes, all else with 200. Every request is read to its end, if its length is declared.
async fn scripted() -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, open): (Arc<Mutex<Vec<String>>>, Arc<std::sync::atomic::AtomicUsize>) = Default::default();
    let (kept, counted) = (Arc::clone(&heads), Arc::clone(&open));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (heads, open) = (Arc::clone(&kept), Arc::clone(&counted));
            tokio::spawn(async move {
                open.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                while let Some(head) = next_request(&mut stream).await {
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    heads.lock().unwrap().push(head.to_ascii_lowercase());
                    let answer = match path.as_str() {
                        "/401" => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno".to_owned(),
                        "/close" => break,
                        "/hold" => {
                            let _ = stream.read(&mut [0; 64]).await;
                            break;
                        }
                        "/switch" => {
                            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
                                .to_owned()
                        }
                        "/kilo" => format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}", "x".repeat(1000)),
                        _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
                    };
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        break;
                    }
                    if path == "/switch" {
                        let (mut from, mut to) = stream.split();
                        let _ = tokio::io::copy(&mut from, &mut to).await;
                        break;
                    }
                }
                drop(stream);
                open.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
    });
    Scripted { address, heads, open }
}

/// The next head on the connection, once its body has come too.
async fn next_request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    stream.read_exact(&mut vec![0; length_in(&head)]).await.ok()?;
    Some(head)
}

fn length_in(head: &str) -> usize {
    let field =
        head.to_ascii_lowercase().lines().find_map(|line| Some(line.strip_prefix("content-length: ")?.to_owned()));
    field.map_or(0, |length| length.trim().parse().unwrap())
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// One request on a connection of its own.
    async fn get(&self, path: &str) -> Answered {
        ask(&mut self.connect().await, path, "").await.unwrap()
    }

    fn waiting(&self) -> u32 {
        self.process.waits.waiting()
    }
}

/// An answer, read to its end.
#[derive(Debug)]
struct Answered {
    status: u16,
    head: String,
}

/// One request with these further fields; `None` if the connection ends before the answer does.
async fn ask(stream: &mut TcpStream, path: &str, fields: &str) -> Option<Answered> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).await.ok()?;
    answer(stream).await
}

async fn answer(stream: &mut TcpStream) -> Option<Answered> {
    let head = next_request(stream).await?;
    Some(Answered { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head: head.to_ascii_lowercase() })
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 64]).await, Ok(0) | Err(_))
}

const SWITCH: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

mod delaying;
mod settling;
mod telling;
