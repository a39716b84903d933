//! The account of bytes, read by a reader greedier than Pingora.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::edge::common::EdgeEvents;
use crate::edge::limits::ConnectionLimits;
use tidegate_http::fault::HeadFault;
use tidegate_http::head::UnderscoreTwins;
use tidegate_http::head::{HeadLimits, parse};
use tidegate_http::path::EscapedSlash;

struct Silent;

impl EdgeEvents for Silent {
    fn refused(&self, _fault: HeadFault, _bytes: &[u8]) -> Bytes {
        Bytes::new()
    }
}

/// A stream whose head has been taken, and the client's end of it.
async fn begun(request: &[u8]) -> (EdgeStream<DuplexStream>, DuplexStream) {
    const LIMITS: HeadLimits = HeadLimits {
        bytes: 4096,
        request_line: 1024,
        fields: 10,
        twins: UnderscoreTwins::Refuse,
        escaped_slash: EscapedSlash::Keep,
    };
    let edge = Arc::new(Edge {
        listener: 0,
        tls: None,
        limits: ConnectionLimits::default(),
        filter: None,
        events: Box::new(Silent),
    });
    let (mut client, server) = duplex(1 << 16);
    client.write_all(request).await.unwrap();
    let mut wire = Wire::new(server, BytesMut::new(), Arc::new(ConnectionInfo::new(0, None)), edge);
    let head = loop {
        std::future::poll_fn(|cx| wire.poll_fill(cx)).await.unwrap();
        if let Some(head) = parse(wire.inbox(), &LIMITS).unwrap() {
            break head;
        }
    };
    wire.begin(&head);
    (EdgeStream::new(Box::new(wire)).0, client)
}

async fn next(stream: &mut EdgeStream<DuplexStream>) -> io::Result<Vec<u8>> {
    let mut space = [0; 1000];
    stream.read(&mut space).await.map(|read| space[..read].to_vec())
}

const NEXT: &[u8] = b"GET /next HTTP/1.1\r\n";

#[tokio::test]
async fn a_greedy_reader_gets_the_body_and_no_more() {
    for framing in ["Content-Length: 5\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"] {
        let body: &[u8] = if framing.starts_with('C') { b"hello" } else { b"5\r\nhello\r\n0\r\n\r\n" };
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}");
        // all at once through the inbox, and the body later, straight from the transport
        let together = [head.as_bytes(), body, NEXT].concat();
        let later = [body, NEXT].concat();
        for (first, second) in [(together.as_slice(), &b""[..]), (head.as_bytes(), later.as_slice())] {
            let (mut stream, mut client) = begun(first).await;
            client.write_all(second).await.unwrap();
            let mut got = Vec::new();
            while !stream.wire.as_mut().unwrap().is_between_requests() {
                got.extend_from_slice(&next(&mut stream).await.unwrap());
            }
            // chunks are made anew, with as many digits as there is room for
            assert_eq!(got.strip_prefix(b"0000000").unwrap_or(&got), body);
            let wire = stream.wire.as_mut().unwrap();
            assert!(wire.is_between_requests());
            // the end of the stream is told, the next request is not
            drop(client);
            assert_eq!(next(&mut stream).await.unwrap(), b"");
            assert_eq!(stream.wire.as_mut().unwrap().inbox(), NEXT);
        }
    }
}

#[tokio::test]
async fn nothing_is_read_behind_a_broken_chunk() {
    let (mut stream, mut client) =
        begun(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").await;
    for _ in 0..2 {
        assert_eq!(next(&mut stream).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        client.write_all(b"0\r\n\r\n").await.unwrap();
    }
    assert!(!stream.wire.as_mut().unwrap().is_between_requests());
}

#[tokio::test]
async fn only_a_switch_that_was_asked_for_opens_the_stream() {
    for (asked, opened) in [("Connection: upgrade\r\nUpgrade: x\r\n", true), ("", false)] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{asked}\r\nraw");
        let (mut stream, client) = begun(request.as_bytes()).await;
        stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await.unwrap();
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await.unwrap();
        drop(client);
        assert_eq!(next(&mut stream).await.unwrap(), if opened { &b"raw"[..] } else { b"" });
    }
    // the words of a body are no status
    let (mut stream, client) = begun(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\nraw").await;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await.unwrap();
    drop(client);
    assert_eq!(next(&mut stream).await.unwrap(), b"");
}

#[tokio::test]
async fn small_writes_are_gathered_and_large_ones_lose_nothing() {
    let (mut stream, mut client) = begun(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let head = b"HTTP/1.1 200 OK\r\n\r\n";
    stream.write_all(head).await.unwrap();
    assert_eq!(stream.wire.as_mut().unwrap().outbox.as_ref(), head);
    let mut sent = head.to_vec();
    for size in [1, 700, 1459, 1460, 1461, 9000, 3, 20_000] {
        let part: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
        stream.write_all(&part).await.unwrap();
        sent.extend_from_slice(&part);
    }
    stream.flush().await.unwrap();
    let mut got = vec![0; sent.len()];
    client.read_exact(&mut got).await.unwrap();
    assert_eq!(got, sent);
}
