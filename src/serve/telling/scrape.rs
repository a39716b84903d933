//! The page that Prometheus reads, and the answers to "are you alive" and "do you want requests": a listener of its own.
//!
//! Never a public one: it tells route, limit and origin names, and asks nobody who they are. It is a small HTTP/1.1 server
//! with hard limits rather than a service of the proxy's framework, so that it answers while that one starts, drains or
//! is overrun: `GET` and `HEAD` only, no request body, one request per connection, [`MAX_HEAD`] bytes of head,
//! [`DEADLINE`] from accept to close, [`MAX_CONNECTIONS`] at once.
//!
//! | path | answer |
//! |---|---|
//! | the configured one | the metrics, in the text format 0.0.4 |
//! | `/most_refused` | whom the limits refuse most, as JSON; see [`refused`](super::refused) |
//! | `/healthz` | 200 while the process can answer at all |
//! | `/readyz` | 200 when requests are welcome, 503 before that and while draining |

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// A longer request head is answered with 431.
pub const MAX_HEAD: usize = 8 << 10;

/// A connection is closed after this, whatever its state.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Connections beyond these wait in the kernel's queue.
pub const MAX_CONNECTIONS: usize = 64;

/// Makes a page.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves until `shutdown` is true or its sender is gone; answers under way are finished within [`DEADLINE`].
///
/// # Errors
/// The socket cannot be given to this runtime. Later faults concern single connections and are not errors.
pub async fn serve(
    listener: std::net::TcpListener,
    pages: Pages,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let pages = Arc::new(pages);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            _ = shutdown.wait_for(|down| *down) => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let pages = pages.clone();
        tokio::spawn(async move {
            // past the deadline, or broken: the connection is closed, and there is nobody to tell
            let _ = timeout(DEADLINE, answer(stream, &pages)).await;
            drop(place);
        });
    }
    drop(listener);
    // all places are free when the last answer is done
    let _ = timeout(DEADLINE, places.acquire_many(MAX_CONNECTIONS as u32)).await;
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    // never closed
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(_) => {
            // out of descriptors, mostly: trying again at once would not help and would take a core
            sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn answer(mut stream: TcpStream, pages: &Pages) -> io::Result<()> {
    let mut head = Vec::new();
    let answer = loop {
        if let Some(request) = parse(&head) {
            break pages.answer(request);
        }
        if head.len() >= MAX_HEAD {
            break Answer::plain("431 Request Header Fields Too Large", "request head too large\n");
        }
        let room = (MAX_HEAD - head.len()) as u64;
        if (&mut stream).take(room).read_buf(&mut head).await? == 0 {
            // went away before it had asked
            return Ok(());
        }
    };
    stream.write_all(&answer.bytes()).await?;
    stream.shutdown().await?;
    // what the client still sends is read, or the kernel would reset the connection and could take our answer with it
    let mut rest = [0; 512];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// The request line's method and target.
#[derive(Debug, PartialEq)]
enum Asked<'h> {
    For { method: &'h str, target: &'h str },
    Nonsense,
}

/// `None` until the head is whole.
fn parse(head: &[u8]) -> Option<Asked<'_>> {
    let end = head.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let text = head.get(..end).and_then(|head| std::str::from_utf8(head).ok());
    let mut line = text.and_then(|text| text.lines().next()).unwrap_or_default().split(' ');
    match (line.next(), line.next(), line.next(), line.next()) {
        (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) => Some(Asked::For { method, target }),
        _ => Some(Asked::Nonsense),
    }
}

/// What is to be had.
pub struct Pages {
    path: String,
    metrics: Render,
    most_refused: Render,
    ready: Arc<AtomicBool>,
}

impl Pages {
    /// The metrics under `path`, and the others under their own, unless that one is the metrics'. `ready` says whether
    /// requests are welcome.
    pub fn new(path: String, metrics: Render, most_refused: Render, ready: Arc<AtomicBool>) -> Pages {
        Pages { path, metrics, most_refused, ready }
    }

    fn answer(&self, asked: Asked<'_>) -> Answer {
        let Asked::For { method, target } = asked else {
            return Answer::plain("400 Bad Request", "not an HTTP/1.1 request\n");
        };
        if !matches!(method, "GET" | "HEAD") {
            return Answer { allow: true, ..Answer::plain("405 Method Not Allowed", "GET and HEAD only\n") };
        }
        // scrapers may add a query
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let found = match path {
            _ if path == self.path => Answer {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                ..Answer::plain("200 OK", (self.metrics)())
            },
            "/most_refused" => {
                Answer { content_type: "application/json", ..Answer::plain("200 OK", (self.most_refused)()) }
            }
            "/healthz" => Answer::plain("200 OK", "ok\n"),
            // Relaxed: nothing else is published by it
            "/readyz" if self.ready.load(Ordering::Relaxed) => Answer::plain("200 OK", "ready\n"),
            "/readyz" => Answer::plain("503 Service Unavailable", "not ready\n"),
            _ => Answer::plain("404 Not Found", "not found\n"),
        };
        Answer { head_only: method == "HEAD", ..found }
    }
}

struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
    head_only: bool,
    allow: bool,
}

impl Answer {
    fn plain(status: &'static str, body: impl Into<String>) -> Answer {
        Answer { status, content_type: "text/plain; charset=utf-8", body: body.into(), head_only: false, allow: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let Answer { status, content_type, body, .. } = self;
        let allow = if self.allow { "Allow: GET, HEAD\r\n" } else { "" };
        let length = body.len();
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        .into_bytes();
        if !self.head_only {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    struct Server {
        address: SocketAddr,
        ready: Arc<AtomicBool>,
        shutdown: watch::Sender<bool>,
        task: tokio::task::JoinHandle<io::Result<()>>,
    }

    fn start(render: Render) -> Server {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let ready = Arc::new(AtomicBool::new(false));
        let (shutdown, down) = watch::channel(false);
        let refused = Arc::new(|| "{}\n".to_owned());
        let pages = Pages::new("/metrics".to_owned(), render, refused, ready.clone());
        let task = tokio::spawn(serve(listener, pages, down));
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
            self.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await
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
        let head = server.ask(b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(head.contains("Content-Length: 20\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[tokio::test]
    async fn alive_and_ready_are_two_questions() {
        let server = start(page());
        let refused = server.get("/most_refused").await;
        assert!(refused.contains("Content-Type: application/json\r\n") && refused.ends_with("{}\n"), "{refused}");
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
    async fn no_more_than_the_allowed_number_are_served_at_once() {
        let server = start(page());
        let mut silent = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            silent.push(TcpStream::connect(server.address).await.unwrap());
        }
        let mut one_more = TcpStream::connect(server.address).await.unwrap();
        one_more.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
        // the paused clock moves only when nothing else can happen
        let waited = timeout(DEADLINE / 2, one_more.readable()).await;
        assert!(waited.is_err(), "served although all places are taken");
        silent.pop();
        assert!(read_all(&mut one_more).await.starts_with("HTTP/1.1 200 "));
    }
}
