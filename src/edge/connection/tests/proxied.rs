//! The loop under Pingora's real proxy, in front of an origin that keeps every byte it gets.

use crate::system::cause::cause_of;
use pingora::proxy::{FailToProxy, HttpProxy, ProxyHttp, Session, http_proxy};
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;
use tokio::net::TcpListener;

use super::*;

struct Forward {
    origin: SocketAddr,
    /// How each request ended, as the log hook saw it.
    ended: Arc<Mutex<Vec<bool>>>,
    news: Arc<Notify>,
}

#[async_trait]
impl ProxyHttp for Forward {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn request_filter(&self, session: &mut Session, _ctx: &mut ()) -> pingora::Result<bool> {
        if session.req_header().uri.path() != "/refused" {
            return Ok(false);
        }
        let mut head = ResponseHeader::build(429, None)?;
        head.insert_header("Content-Length", "0")?;
        session.write_response_header(Box::new(head), true).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> pingora::Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.origin, false, String::new())))
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &pingora::Error, _ctx: &mut ()) -> FailToProxy {
        let status = cause_of::<BodyFault>(error).map_or(500, status_of);
        if session.response_written().is_none() {
            session.respond_error(status).await.ok();
        }
        FailToProxy { error_code: status, can_reuse_downstream: false }
    }

    async fn logging(&self, _session: &mut Session, error: Option<&pingora::Error>, _ctx: &mut ()) {
        self.ended.lock().unwrap().push(error.is_none());
        self.news.notify_one();
    }
}

struct Proxied {
    address: SocketAddr,
    connections: Arc<Connections>,
    counts: Arc<Counts>,
    ended: Arc<Mutex<Vec<bool>>>,
    news: Arc<Notify>,
    /// All that the origin got, and what it waits for before it answers `/held`.
    got: Arc<Mutex<Vec<u8>>>,
    arrived: Arc<Notify>,
    go_on: Arc<Notify>,
    /// Dropping it would stop the gate.
    _stop: watch::Sender<bool>,
}

/// Answers each request once its head is there, after a body that ends with `0\r\n\r\n` or that needs no waiting for.
async fn origin(got: Arc<Mutex<Vec<u8>>>, arrived: Arc<Notify>, go_on: Arc<Notify>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (got, arrived, go_on) = (got.clone(), arrived.clone(), go_on.clone());
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut space = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut space).await {
                    got.lock().unwrap().extend_from_slice(&space[..read]);
                    request.extend_from_slice(&space[..read]);
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let chunked = text.to_ascii_lowercase().contains("transfer-encoding: chunked");
                    if !text.contains("\r\n\r\n") || (chunked && !text.ends_with("\r\n0\r\n\r\n")) {
                        continue;
                    }
                    if text.starts_with("GET /held") {
                        arrived.notify_one();
                        go_on.notified().await;
                    }
                    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                    request.clear();
                }
            });
        }
    });
    address
}

async fn proxied() -> Proxied {
    let (got, arrived, go_on): (Arc<Mutex<Vec<u8>>>, Arc<Notify>, Arc<Notify>) = Default::default();
    let (ended, news): (Arc<Mutex<Vec<bool>>>, Arc<Notify>) = Default::default();
    let origin = origin(got.clone(), arrived.clone(), go_on.clone()).await;
    let forward = Forward { origin, ended: ended.clone(), news: news.clone() };
    let proxy: HttpProxy<Forward> = http_proxy(&Arc::new(ServerConf::default()), forward);
    let gate = Gate::new();
    let bound = bind(&Listener::new("test", "127.0.0.1:0".parse().unwrap())).unwrap();
    let (address, connections) = (bound.address.ip().unwrap(), Connections::new());
    let servers = Servers { framework: Arc::new(proxy), direct: None };
    tokio::spawn(accept(bound, servers, gate.edge, connections.clone(), gate.stop.subscribe()));
    Proxied { address, connections, counts: gate.counts, ended, news, got, arrived, go_on, _stop: gate.stop }
}

#[test]
fn pipelined_requests_pass_the_proxy_in_order() {
    live(async {
        let gate = proxied().await;
        let mut client = TcpStream::connect(gate.address).await.unwrap();
        client.write_all(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        gate.arrived.notified().await;
        let more = format!(
            "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: v\r\n\r\n\
             POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n\
             GET /%61//b HTTP/1.1\r\nHost: a\r\n\r\n{LAST}"
        );
        client.write_all(more.as_bytes()).await.unwrap();
        gate.go_on.notify_one();
        let answer = rest(&mut client).await;
        let places: Vec<_> = ["/held", "/2", " 429 ", "/a/b", "/last"].map(|body| answer.find(body)).into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{answer}");
        let got = String::from_utf8(gate.got.lock().unwrap().clone()).unwrap();
        assert_eq!(got.matches(" HTTP/1.1\r\n").count(), 4, "{got}");
        assert!(got.contains("GET /a/b HTTP/1.1") && !got.contains("T: v") && !got.contains(";x"), "{got}");
        assert_eq!(*gate.ended.lock().unwrap(), [true; 5]);
    });
}

#[test]
fn a_client_that_goes_away_frees_the_origin() {
    live(async {
        let gate = proxied().await;
        let mut client = TcpStream::connect(gate.address).await.unwrap();
        client.write_all(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        gate.arrived.notified().await;
        drop(client);
        gate.news.notified().await;
        gate.connections.drained().await;
        assert_eq!(*gate.ended.lock().unwrap(), [false]);
        let got = String::from_utf8(gate.got.lock().unwrap().clone()).unwrap();
        assert!(!got.contains("/next"), "{got}");
    });
}

#[test]
fn a_body_behind_a_refusal_reaches_no_one() {
    live(async {
        let gate = proxied().await;
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        for head in [
            format!("POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", smuggled.len()),
            "POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n".into(),
            format!("POST /refused HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", smuggled.len()),
        ] {
            let answer = exchange(gate.address, format!("{head}{smuggled}\r\n0\r\n\r\n{smuggled}").as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 429 ") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
        }
        gate.connections.drained().await;
        assert!(gate.got.lock().unwrap().is_empty());
    });
}

#[test]
fn a_chunk_that_breaks_in_the_middle_of_an_upload_is_answered_400() {
    live(async {
        let gate = proxied().await;
        let upload = "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        let answer = exchange(gate.address, format!("{upload}5\nworld\r\n0\r\n\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        gate.connections.drained().await;
        assert_eq!(*gate.counts.bodies.lock().unwrap(), [BodyFault::ChunkSize]);
        let got = String::from_utf8(gate.got.lock().unwrap().clone()).unwrap();
        assert!(!got.contains("world") && !got.ends_with("0\r\n\r\n"), "{got}");
    });
}
