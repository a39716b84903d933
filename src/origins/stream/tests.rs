use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, DuplexStream, duplex};

use super::*;
use crate::policy::Origin;

/// A pipe in the place of a socket.
struct Pipe(DuplexStream);

impl AsRawFd for Pipe {
    fn as_raw_fd(&self) -> RawFd {
        -1
    }
}

impl AsyncRead for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A connection and the origin at its other end.
fn connection() -> (OriginStream<Pipe>, DuplexStream) {
    let spec = Origin::of("app".into(), Vec::new());
    let (near, far) = duplex(256 * 1024);
    (OriginStream::new(Pipe(near), Way::open(&Arc::new(spec)).unwrap(), 0), far)
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn a_head_in_pieces_comes_out_whole_and_through_small_buffers_too() {
    let (mut stream, mut origin) = connection();
    let answer = format!("HTTP/1.1 200 OK\r\nA: {}\r\nContent-Length: 3\r\n\r\nabc", "x".repeat(20_000));
    stream.write_all(GET).await.unwrap();
    let sent = answer.clone().into_bytes();
    tokio::spawn(async move {
        for piece in sent.chunks(1_000) {
            origin.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        std::future::pending::<()>().await;
    });
    let mut read = vec![0; answer.len()];
    let mut at = 0;
    while at < read.len() {
        let end = (at + 777).min(read.len());
        let count = stream.read(&mut read[at..end]).await.unwrap();
        assert!(count > 0);
        at += count;
    }
    assert_eq!(read, answer.as_bytes());
}

#[tokio::test]
async fn nothing_of_a_head_is_seen_before_its_end() {
    let (mut stream, mut origin) = connection();
    stream.write_all(GET).await.unwrap();
    origin.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: b").await.unwrap();
    let mut byte = [0];
    let waited = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte)).await;
    assert!(waited.is_err(), "{waited:?}");
    origin.write_all(b"\r\n c\r\n\r\n").await.unwrap();
    let fault = stream.read(&mut byte).await.unwrap_err();
    assert_eq!(fault.get_ref().and_then(|fault| fault.downcast_ref()), Some(&AnswerFault::Folding));
}

#[tokio::test]
async fn what_comes_behind_an_answer_looks_like_the_end() {
    let (mut stream, mut origin) = connection();
    stream.write_all(GET).await.unwrap();
    origin.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert!(stream.reader.is_spoilt());
}

#[tokio::test]
async fn a_request_is_not_sent_where_an_answer_lies_already() {
    let (mut stream, mut origin) = connection();
    origin.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged").await.unwrap();
    let fault = stream.write_all(GET).await.unwrap_err();
    assert_eq!(fault.get_ref().and_then(|fault| fault.downcast_ref()), Some(&AnswerFault::Unasked));
    assert!(origin.read(&mut [0; 1]).now_or_never().is_none(), "not a byte was sent");
}

/// Pingora 0.9.1 closes a connection whose `101` it reads before it has noted that the request is over, and learns of both
/// in any order. It flushes when it has noted it.
#[tokio::test]
async fn a_switch_is_read_when_the_request_is_over_and_its_reader_is_woken() {
    let (mut stream, mut origin) = connection();
    stream.write_all(b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").await.unwrap();
    stream.flush().await.unwrap();
    const SWITCHED: &[u8] = b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello";
    origin.write_all(SWITCHED).await.unwrap();
    let mut read = [0; 200];
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    for _ in 0..3 {
        let mut buf = ReadBuf::new(&mut read);
        assert!(Pin::new(&mut stream).poll_read(&mut Context::from_waker(&waker), &mut buf).is_pending());
    }
    assert!(!woken.0.load(Ordering::SeqCst));
    stream.flush().await.unwrap();
    assert!(woken.0.load(Ordering::SeqCst));
    let count = stream.read(&mut read).now_or_never().unwrap().unwrap();
    assert_eq!(&read[..count], SWITCHED);
    // from now on as it comes, through small buffers too
    stream.write_all(b"hi").await.unwrap();
    origin.write_all(b"you").await.unwrap();
    assert_eq!(stream.read(&mut read[..2]).await.unwrap(), 2);
    assert_eq!(stream.read(&mut read[2..]).await.unwrap(), 1);
    assert_eq!(&read[..3], b"you");
}

#[tokio::test]
async fn a_switch_behind_the_end_of_its_request_passes_at_once() {
    let (mut stream, mut origin) = connection();
    stream.write_all(b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").await.unwrap();
    stream.flush().await.unwrap();
    stream.flush().await.unwrap();
    let switched = b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    for byte in switched {
        origin.write_all(&[*byte]).await.unwrap();
    }
    let mut read = vec![0; switched.len()];
    stream.read_exact(&mut read).now_or_never().unwrap().unwrap();
    assert_eq!(read, switched);
    drop(origin);
    assert_eq!(stream.read(&mut read).await.unwrap(), 0);
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
