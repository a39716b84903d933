//! The loop over loopback sockets, and over pipes in paused time where only the clock matters.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pingora::apps::{HttpPersistentSettings, ReusedHttpStream};
use pingora::http::ResponseHeader;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use super::*;
use crate::answer::Fault;
use crate::config::settings::Listener;
use crate::edge::common::EdgeEvents;
use crate::edge::listen::{Connections, accept, bind};
use crate::edge::requests::Servers;
use crate::system::cause::cause_of;
use tidegate_http::fault::BodyFault;

/// Answers by path; what it saw is kept for the tests.
#[derive(Default)]
struct App {
    seen: Mutex<Vec<String>>,
    aborted: AtomicUsize,
    waiting: Notify,
    go_on: Notify,
}

impl App {
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    async fn respond(session: &mut ServerSession, status: u16, body: &str) {
        let mut head = ResponseHeader::build(status, None).unwrap();
        head.insert_header("Content-Length", body.len().to_string()).unwrap();
        session.write_response_header(Box::new(head)).await.unwrap();
        session.write_response_body(Bytes::copy_from_slice(body.as_bytes()), true).await.unwrap();
    }
}

#[async_trait]
impl HttpServerApp for App {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        assert!(session.read_request().await.unwrap(), "the head is complete when the application begins");
        if *shutdown.borrow() {
            session.set_keepalive(None);
        }
        let request = session.req_header();
        let path = String::from_utf8_lossy(request.raw_path()).into_owned();
        self.seen.lock().unwrap().push(format!("{} {path}", request.method));
        match path.as_str() {
            "/early" => App::respond(&mut session, 429, "slow down").await,
            "/early-keep" => {
                if let ServerSession::H1(session) = &mut session {
                    session.set_close_on_response_before_downstream_finish(false);
                    session.set_total_drain_timeout(Some(Duration::from_secs(1)));
                }
                App::respond(&mut session, 429, "slow down").await;
            }
            "/wait" => {
                self.waiting.notify_one();
                tokio::select! {
                    gone = session.read_body_or_idle(true) => {
                        assert!(gone.is_err());
                        self.aborted.fetch_add(1, Ordering::SeqCst);
                        self.waiting.notify_one();
                        return None;
                    }
                    () = self.go_on.notified() => App::respond(&mut session, 200, "waited").await,
                }
            }
            "/switch" => {
                let mut head = ResponseHeader::build(101, None).unwrap();
                head.insert_header("Upgrade", "echo").unwrap();
                session.write_response_header(Box::new(head)).await.unwrap();
                while let Ok(Some(bytes)) = session.read_request_body().await {
                    session.write_response_body(bytes, false).await.unwrap();
                }
            }
            "/panic" => panic!("a hook failed"),
            _ => {
                let mut body = Vec::new();
                loop {
                    match session.read_request_body().await {
                        Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                        Ok(None) => break,
                        Err(error) => {
                            // 499: the answer has begun
                            let status = cause_of::<BodyFault>(&error).map(status_of).filter(|status| *status != 499);
                            if let Some(status) = status {
                                App::respond(&mut session, status, "bad body").await;
                            }
                            self.aborted.fetch_add(1, Ordering::SeqCst);
                            return None;
                        }
                    }
                }
                App::respond(&mut session, 200, &format!("{path}={}", String::from_utf8_lossy(&body))).await;
            }
        }
        let settings = HttpPersistentSettings::for_session(&session);
        let stream = session.finish().await.ok().flatten()?;
        Some(ReusedHttpStream::from_reusable_stream(stream, settings))
    }
}

fn status_of(fault: impl Into<Fault>) -> u16 {
    fault.into().meaning().status.as_u16()
}

#[derive(Default)]
struct Counts {
    heads: Mutex<Vec<HeadFault>>,
    bodies: Mutex<Vec<BodyFault>>,
}

impl EdgeEvents for Arc<Counts> {
    fn refused(&self, fault: HeadFault, _bytes: &[u8]) -> Bytes {
        self.heads.lock().unwrap().push(fault);
        format!("HTTP/1.1 {} refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status_of(fault)).into()
    }

    fn body_refused(&self, fault: BodyFault) {
        self.bodies.lock().unwrap().push(fault);
    }
}

struct Gate {
    app: Arc<App>,
    counts: Arc<Counts>,
    edge: Arc<Edge>,
    stop: watch::Sender<bool>,
}

impl Gate {
    fn new() -> Gate {
        let counts = Arc::new(Counts::default());
        let edge = Arc::new(Edge {
            listener: 0,
            tls: None,
            limits: ConnectionLimits::default(),
            filter: None,
            events: Box::new(counts.clone()),
        });
        Gate { app: Arc::default(), counts, edge, stop: watch::channel(false).0 }
    }

    fn listen(&self) -> (SocketAddr, Arc<Connections>, tokio::task::JoinHandle<std::io::Result<()>>) {
        let bound = bind(&Listener::new("test", "127.0.0.1:0".parse().unwrap())).unwrap();
        let (address, connections) = (bound.address.ip().unwrap(), Connections::new());
        let servers = Servers { framework: self.app.clone(), direct: None };
        let accepting = accept(bound, servers, self.edge.clone(), connections.clone(), self.stop.subscribe());
        (address, connections, tokio::spawn(accepting))
    }

    /// A connection through a pipe, for tests in paused time.
    fn pipe(&self) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (client, server) = tokio::io::duplex(1 << 16);
        let (app, edge, shutdown) = (self.app.clone(), self.edge.clone(), self.stop.subscribe());
        let serving = async move {
            let info = Arc::new(ConnectionInfo::new(0, None));
            serve((&app, None), server, BytesMut::new(), Instant::now(), &info, &edge, &shutdown).await;
        };
        (client, tokio::spawn(serving))
    }
}

fn live(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { timeout(Duration::from_secs(20), test).await.expect("the test hangs") });
}

fn paused(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test);
}

/// Sends everything, then reads to the end of the stream.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(request).await.unwrap();
    rest(&mut client).await
}

async fn rest(client: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// Reads until the text has come.
async fn until(client: &mut (impl AsyncReadExt + Unpin), end: &str) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        let byte =
            client.read_u8().await.unwrap_or_else(|_| panic!("closed after {:?}", answer.escape_ascii().to_string()));
        answer.push(byte);
    }
    String::from_utf8(answer).unwrap()
}

const LAST: &str = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[test]
fn answers_pipelined_requests_in_their_order() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        let requests = format!(
            "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
             POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n\
             \r\nGET /4 HTTP/1.1\r\nHost: a\r\n\r\n{LAST}"
        );
        let answer = exchange(address, requests.as_bytes()).await;
        let places: Vec<_> = ["/1=", "/2=hello", "/3=abcde", "/4=", "/last="].map(|body| answer.find(body)).into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 5, "{answer}");
    });
}

#[test]
fn every_cut_of_a_pipeline_gives_the_same_answers() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        let requests = format!(
            "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
             POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi{LAST}"
        );
        for cut in (1..requests.len()).step_by(3) {
            let (front, back) = requests.split_at(cut);
            let mut client = TcpStream::connect(address).await.unwrap();
            client.set_nodelay(true).unwrap();
            client.write_all(front.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
            client.write_all(back.as_bytes()).await.unwrap();
            let answer = rest(&mut client).await;
            assert!(
                answer.contains("/1=abc") && answer.contains("/2=hi") && answer.ends_with("/last="),
                "{cut}: {answer}"
            );
        }
    });
}

#[test]
fn a_second_request_does_not_disturb_the_first_that_waits() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        gate.app.waiting.notified().await;
        // more than the inbox takes while a request is served
        let big = format!("POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n{}{LAST}", "x".repeat(50_000));
        client.write_all(big.as_bytes()).await.unwrap();
        gate.app.go_on.notify_one();
        let answer = rest(&mut client).await;
        assert!(answer.contains("waited") && answer.contains("/big=xxx") && answer.ends_with("/last="), "{answer}");
        assert_eq!(gate.app.aborted.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_client_that_goes_away_is_noticed_while_the_application_waits() {
    live(async {
        let gate = Gate::new();
        let (address, connections, _) = gate.listen();
        for pipelined in ["", LAST] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(format!("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n{pipelined}").as_bytes()).await.unwrap();
            gate.app.waiting.notified().await;
            drop(client);
            gate.app.waiting.notified().await;
        }
        assert_eq!(gate.app.aborted.load(Ordering::SeqCst), 2);
        connections.drained().await;
        assert_eq!(gate.app.seen(), ["GET /wait", "GET /wait"]);
    });
}

#[test]
fn what_is_left_of_an_unread_body_never_becomes_a_request() {
    live(async {
        let gate = Gate::new();
        let (address, connections, _) = gate.listen();
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        let length = smuggled.len();
        for head in [
            format!("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{smuggled}"),
            // announced more than sent
            format!("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{smuggled}", length + 1000),
            format!(
                "POST /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{smuggled}\r\n0\r\n\r\n"
            ),
            // bad chunks behind an early answer
            format!("POST /early-keep HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{smuggled}"),
        ] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(head.as_bytes()).await.unwrap();
            let answer = until(&mut client, "slow down").await;
            assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
            client.write_all(smuggled.as_bytes()).await.ok();
            client.shutdown().await.ok();
            let mut more = Vec::new();
            client.read_to_end(&mut more).await.ok();
            assert!(more.is_empty(), "{}", more.escape_ascii());
        }
        connections.drained().await;
        assert!(gate.app.seen().iter().all(|seen| seen.starts_with("POST /early")), "{:?}", gate.app.seen());
    });
}

#[test]
fn a_drained_body_keeps_the_connection() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        let requests = format!("POST /early-keep HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nGET /evil{LAST}");
        let answer = exchange(address, requests.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 429") && answer.ends_with("/last="), "{answer}");
        assert_eq!(gate.app.seen(), ["POST /early-keep", "GET /last"]);
    });
}

#[test]
fn a_client_still_sending_reads_its_answer() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        // more than both kernels' buffers would hide, so that a reset would be seen as an error
        let body = "x".repeat(40_000);
        for head in ["POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n", "BAD\r\n\r\n"] {
            let answer = exchange(address, format!("{head}{body}").as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        }
    });
}

#[test]
fn bad_chunks_are_answered_400_when_no_answer_has_begun() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        for chunks in ["5 \r\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n", "2\nab\n0\n\n", "0\r\nGET /evil HTTP/1.1\r\n\r\n"]
        {
            let request = format!("POST /chunks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
            let answer = exchange(address, request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{chunks:?}: {answer}");
        }
        assert_eq!(gate.counts.bodies.lock().unwrap().len(), 4);
        assert!(gate.app.seen().iter().all(|seen| seen == "POST /chunks"));
    });
}

#[test]
fn refused_heads_are_answered_and_never_reach_the_application() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\nHost: a\n\n", 400),
            ("\x16\x03\x01\x02\x00\x01", 400),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
            ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417),
            (&format!("GET /{} HTTP/1.1\r\n", "a".repeat(9000)), 414),
            (&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(100)), 431),
            (&format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}", "b".repeat(33_000)), 431),
        ] {
            let answer = exchange(address, request.as_bytes()).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        }
        assert_eq!(gate.app.seen(), [""; 0]);
        assert_eq!(gate.counts.heads.lock().unwrap().len(), 11);
    });
}

#[test]
fn the_application_sees_the_canonical_path_only() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        for target in ["/%61//b?q=%7e", "http://a/%61/b?q=%7e"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            exchange(address, request.as_bytes()).await;
        }
        assert_eq!(gate.app.seen(), ["GET /a/b?q=%7e", "GET /a/b?q=%7e"]);
    });
}

#[test]
fn a_switched_protocol_passes_through_and_early_bytes_are_not_lost() {
    live(async {
        let gate = Gate::new();
        let (address, ..) = gate.listen();
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = "GET /switch HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        client.write_all(format!("{head}early").as_bytes()).await.unwrap();
        assert!(until(&mut client, "early").await.starts_with("HTTP/1.1 101"));
        client.write_all(b"later").await.unwrap();
        assert_eq!(until(&mut client, "later").await, "later");
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, "");
    });
}

#[test]
fn an_end_in_the_middle_of_a_head_is_silent() {
    live(async {
        let gate = Gate::new();
        let (address, connections, _) = gate.listen();
        for part in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: a\r\n"] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(part.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            assert_eq!(rest(&mut client).await, "", "{part:?}");
        }
        connections.drained().await;
        assert!(gate.counts.heads.lock().unwrap().is_empty());
    });
}

#[test]
fn a_stop_lets_requests_in_flight_finish_and_tells_them_to_close() {
    live(async {
        let gate = Gate::new();
        let (address, connections, accepting) = gate.listen();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        gate.app.waiting.notified().await;
        gate.stop.send(true).unwrap();
        accepting.await.unwrap().unwrap();
        assert_eq!(connections.open(), 1);
        client.write_all(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        gate.app.go_on.notify_one();
        let answer = rest(&mut client).await;
        assert!(answer.contains("waited") && answer.ends_with("/next="), "{answer}");
        assert!(answer.contains("onnection: close"), "{answer}");
        connections.drained().await;
        assert!(TcpStream::connect(address).await.is_err());
    });
}

#[test]
fn a_panic_ends_its_connection_and_no_other() {
    live(async {
        let gate = Gate::new();
        let (address, connections, _) = gate.listen();
        let mut other = TcpStream::connect(address).await.unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert_eq!(rest(&mut client).await, "");
        other.write_all(LAST.as_bytes()).await.unwrap();
        assert!(rest(&mut other).await.ends_with("/last="));
        connections.drained().await;
    });
}

mod deadlines;
mod proxied;
