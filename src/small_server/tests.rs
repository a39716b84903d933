use std::net::SocketAddr;

use bytes::Bytes;
use http::StatusCode;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::*;

/// Says a body's length and first byte; `/stream` hands its sending end out.
struct Echo {
    streams: mpsc::Sender<mpsc::Sender<Bytes>>,
}

impl Answers for Echo {
    async fn answer(&self, request: Request) -> Answer {
        if request.path == "/stream" {
            let (sender, pieces) = mpsc::channel(1);
            self.streams.send(sender).await.unwrap();
            return Answer::events(pieces);
        }
        let first = request.body.first().copied().unwrap_or(b'-');
        Answer::plain(StatusCode::OK, format!("{} {} {}", request.method, request.body.len(), char::from(first)))
    }
}

struct Server {
    address: SocketAddr,
    shutdown: watch::Sender<bool>,
    streams: mpsc::Receiver<mpsc::Sender<Bytes>>,
    task: tokio::task::JoinHandle<io::Result<()>>,
}

fn start() -> Server {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (shutdown, down) = watch::channel(false);
    let (streams, handed_out) = mpsc::channel(1);
    let task = tokio::spawn(serve(Listening::Tcp(listener), Echo { streams }, down));
    Server { address, shutdown, streams: handed_out, task }
}

impl Server {
    async fn connect(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    async fn ask(&self, bytes: &[u8]) -> String {
        rest(self.connect(bytes).await).await
    }
}

async fn rest(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    timeout(Duration::from_secs(20), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn a_body_is_read_to_its_length_and_no_further() {
    let server = start();
    let answer = server.ask(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcdef").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("POST 3 a"), "{answer}");
    let mut stream = server.connect(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n").await;
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"xy").await.unwrap();
    assert!(rest(stream).await.ends_with("POST 2 x"));
    for (length, status) in [("65537", 413), ("x", 400), ("-1", 400), ("1, 1", 400), ("1\r\nContent-Length: 1", 400)] {
        let answer = server.ask(format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n").as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{length}: {answer}");
    }
}

#[tokio::test]
async fn a_stream_goes_on_until_its_sender_has_enough() {
    let mut server = start();
    let stream = server.connect(b"GET /stream HTTP/1.1\r\n\r\n").await;
    let sender = server.streams.recv().await.unwrap();
    for piece in ["data: 1\n\n", "data: 2\n\n"] {
        sender.send(Bytes::from(piece)).await.unwrap();
    }
    drop(sender);
    let answer = rest(stream).await;
    assert!(answer.contains("Content-Type: text/event-stream\r\n") && !answer.contains("Content-Length"), "{answer}");
    assert!(answer.ends_with("\r\n\r\ndata: 1\n\ndata: 2\n\n"), "{answer}");
}

#[tokio::test]
async fn a_stream_ends_when_its_client_leaves_and_when_the_process_stops() {
    let mut server = start();
    let stream = server.connect(b"GET /stream HTTP/1.1\r\n\r\n").await;
    let sender = server.streams.recv().await.unwrap();
    drop(stream);
    timeout(Duration::from_secs(20), sender.closed()).await.expect("the sender hears of it");

    let stream = server.connect(b"GET /stream HTTP/1.1\r\n\r\n").await;
    let sender = server.streams.recv().await.unwrap();
    server.shutdown.send(true).unwrap();
    timeout(Duration::from_secs(20), sender.closed()).await.expect("the sender hears of it");
    assert!(rest(stream).await.starts_with("HTTP/1.1 200 "));
    timeout(Duration::from_secs(20), server.task).await.unwrap().unwrap().unwrap();
}
