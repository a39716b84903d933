//! The page that Prometheus reads, and the answers to "are you alive" and "do you want requests": a listener of its own.
//!
//! Never a public one: it shows route, limit and origin names without asking for a token. No client is named here; whom
//! the limits refuse most is told by the [admin endpoints](crate::admin). It is a
//! [small server](crate::small_server), `GET` and `HEAD` only. The metrics are told to its own [`Hosts`] alone, so that
//! no stranger's page reads them through an operator's browser; the other two say nothing that is worth it.
//!
//! | path | answer |
//! |---|---|
//! | the configured one | the metrics, in the text format 0.0.4 |
//! | `/healthz` | 200 while the process can answer at all |
//! | `/readyz` | 200 when requests are welcome, 503 before that and while draining |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, StatusCode};

use crate::small_server::hosts::REFUSAL;
use crate::small_server::{Answer, Answers, Hosts, Request};

/// Makes a page.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// What is to be had.
pub struct Pages {
    path: String,
    hosts: Hosts,
    metrics: Render,
    ready: Arc<AtomicBool>,
}

impl Pages {
    /// The metrics under `path`, and the others under their own, unless that one is the metrics'. `ready` says whether
    /// requests are welcome.
    pub fn new(path: String, hosts: Hosts, metrics: Render, ready: Arc<AtomicBool>) -> Pages {
        Pages { path, hosts, metrics, ready }
    }
}

impl Answers for Pages {
    async fn answer(&self, request: Request) -> Answer {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Answer::plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n").with("Allow", "GET, HEAD");
        }
        // scrapers may add a query
        match request.path.as_str() {
            path if path == self.path && !self.hosts.allow(&request.fields) => {
                Answer::plain(StatusCode::FORBIDDEN, format!("{REFUSAL}\n"))
            }
            path if path == self.path => {
                Answer::new(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", (self.metrics)().into_bytes())
            }
            "/healthz" => alive(),
            "/readyz" => ready(&self.ready),
            _ => Answer::plain(StatusCode::NOT_FOUND, "not found\n"),
        }
    }
}

/// Of a process that can answer at all.
pub fn alive() -> Answer {
    Answer::plain(StatusCode::OK, "ok\n")
}

/// Whether requests are welcome.
pub fn ready(ready: &AtomicBool) -> Answer {
    // Relaxed: nothing else is published by it
    if ready.load(Ordering::Relaxed) {
        Answer::plain(StatusCode::OK, "ready\n")
    } else {
        Answer::plain(StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::watch;
    use tokio::time::timeout;

    use super::*;
    use crate::edge::listening::Listening;
    use crate::small_server::{DEADLINE, MAX_CONNECTIONS, MAX_HEAD, serve};

    struct Server {
        address: SocketAddr,
        ready: Arc<AtomicBool>,
        shutdown: watch::Sender<bool>,
        task: tokio::task::JoinHandle<io::Result<()>>,
    }

    fn start(render: Render) -> Server {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let ready = Arc::new(AtomicBool::new(false));
        let (shutdown, down) = watch::channel(false);
        let pages = Pages::new("/metrics".to_owned(), Hosts::default(), render, ready.clone());
        let task = tokio::spawn(serve(Listening::Tcp(listener), pages, down));
        Server { address, ready, shutdown, task }
    }

    impl Server {
        /// Everything the server says to these bytes until it closes.
        async fn ask(&self, bytes: &[u8]) -> String {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            read_all(&mut stream).await
        }

        async fn get(&self, path: &str) -> String {
            self.ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await
        }
    }

    async fn read_all(stream: &mut TcpStream) -> String {
        let mut answer = String::new();
        timeout(Duration::from_secs(20), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }

    fn page() -> Render {
        Arc::new(|| "tidegate_up_total 1\n".to_owned())
    }

    #[tokio::test]
    async fn the_page_comes_as_the_text_format_with_its_length() {
        let server = start(page());
        let answer = server.get("/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
        assert!(answer.contains("\r\nContent-Length: 20\r\n"), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\ntidegate_up_total 1\n"), "{answer}");
        assert!(server.get("/metrics?name=a").await.starts_with("HTTP/1.1 200 "));
        let head = server.ask(b"HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n").await;
        assert!(head.contains("Content-Length: 20\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[tokio::test]
    async fn alive_and_ready_are_two_questions() {
        let server = start(page());
        assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 "));
        assert!(server.get("/readyz").await.starts_with("HTTP/1.1 503 "));
        server.ready.store(true, Ordering::Relaxed);
        assert!(server.get("/readyz").await.starts_with("HTTP/1.1 200 "));
        server.ready.store(false, Ordering::Relaxed);
        assert!(server.get("/readyz").await.starts_with("HTTP/1.1 503 "));
        assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn anything_else_is_refused_by_name() {
        let server = start(page());
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics HTTP/1.1\r\n\r\n", "403"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            ("GET /healthz HTTP/1.1\r\nHost: balancer.example\r\n\r\n", "200"),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405"),
            ("get /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET  /metrics HTTP/1.1\r\n\r\n", "400"),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
        ] {
            let answer = server.ask(request.as_bytes()).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
            assert_eq!(answer.contains("Allow: GET, HEAD\r\n"), status == "405", "{request:?}: {answer}");
        }
        let answer = server.ask(b"GET /\xff HTTP/1.1\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }

    #[tokio::test]
    async fn a_head_over_the_limit_is_refused_before_its_end() {
        let server = start(page());
        let mut head = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
        head.resize(MAX_HEAD, b'x');
        let answer = server.ask(&head).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    #[tokio::test]
    async fn a_head_may_come_byte_by_byte() {
        let server = start(page());
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in b"GET /healthz HTTP/1.0\r\n\r\n" {
            stream.write_all(&[*byte]).await.unwrap();
        }
        assert!(read_all(&mut stream).await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_closed_at_the_deadline() {
        let server = start(page());
        // on the real clock these would be five real seconds; on the paused one they pass when nothing else can happen
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /metr").await.unwrap();
        let before = tokio::time::Instant::now();
        assert_eq!(read_all(&mut stream).await, "");
        assert!(before.elapsed() >= DEADLINE && before.elapsed() < 2 * DEADLINE, "{:?}", before.elapsed());
    }

    #[tokio::test]
    async fn after_the_shutdown_nobody_is_served() {
        let server = start(page());
        assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 "));
        server.shutdown.send(true).unwrap();
        timeout(Duration::from_secs(20), server.task).await.unwrap().unwrap().unwrap();
        assert!(TcpStream::connect(server.address).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_say_nothing_keep_no_place_from_one_that_asks() {
        let server = start(page());
        let mut silent = Vec::new();
        for _ in 0..3 * MAX_CONNECTIONS {
            silent.push(TcpStream::connect(server.address).await.unwrap());
        }
        let before = tokio::time::Instant::now();
        assert!(server.get("/metrics").await.starts_with("HTTP/1.1 200 "));
        // the paused clock moves only when nothing else can happen: nobody waited for a deadline
        assert!(before.elapsed() < DEADLINE / 2, "{:?}", before.elapsed());
        // the oldest are closed, and no more of them than had to be
        let mut first = silent.remove(0);
        assert_eq!(first.read(&mut [0; 1]).await.unwrap_or(0), 0);
        let mut last = silent.pop().unwrap();
        last.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await.unwrap();
        assert!(read_all(&mut last).await.starts_with("HTTP/1.1 200 "));
    }
}
