//! Tells HTTP/2 from HTTP/1 where no TLS has said it: HTTP/2 with prior knowledge begins with 24 bytes that
//! HTTP/1 cannot begin with (RFC 9113 sections 3.3 and 3.4).
//!
//! The bytes are read, not peeked at, and handed on to the loop that serves the connection. As soon as they differ from the preface
//! it is HTTP/1, so a request shorter than the preface is not waited on.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::ready;

use bytes::BytesMut;
use pingora::protocols::IO;
use tokio::io::ReadBuf;
use tokio::time::{Instant, timeout_at};

use tidegate_http::h2::frames::PREFACE;

/// What a connection begins with.
#[derive(Debug, PartialEq, Eq)]
pub enum Beginning {
    /// HTTP/2; the bytes begin with the preface.
    Http2(BytesMut),
    /// Anything else, HTTP/1 if it is HTTP at all.
    Other(BytesMut),
    /// Nothing: the client left, or was not done in time.
    Nothing,
}

/// How much is read at once at most; what follows the preface stays in the kernel.
const READ_BYTES: usize = 256;

/// Reads until it is clear what the client speaks.
pub async fn look<S: IO>(transport: &mut S, deadline: Instant) -> Beginning {
    let mut seen = BytesMut::new();
    while PREFACE.starts_with(&seen) && seen.len() < PREFACE.len() {
        let read = poll_fn(|cx| {
            let mut space = [0; READ_BYTES];
            let mut buf = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut *transport).poll_read(cx, &mut buf))?;
            seen.extend_from_slice(buf.filled());
            std::task::Poll::Ready(std::io::Result::Ok(buf.filled().len()))
        });
        match timeout_at(deadline, read).await {
            Ok(Ok(1..)) => {}
            // half a preface is no half request: there is nothing to answer
            _ => return Beginning::Nothing,
        }
    }
    if seen.starts_with(PREFACE) { Beginning::Http2(seen) } else { Beginning::Other(seen) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    async fn begins(bytes: &[u8]) -> Beginning {
        let (mut client, mut server) = duplex(1024);
        client.write_all(bytes).await.unwrap();
        look(&mut server, Instant::now() + Duration::from_secs(5)).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_preface_and_what_follows_it_are_handed_on() {
        let bytes = [PREFACE.as_slice(), b"\0\0\0\x04\0\0\0\0\0"].concat();
        assert_eq!(begins(&bytes).await, Beginning::Http2(BytesMut::from(&bytes[..])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_shorter_than_the_preface_is_not_waited_on() {
        for bytes in ["GET / HTTP/1.0\r\n\r\n", "X", "PRI * HTTP/1.1\r\n", "P\r\n"] {
            assert_eq!(begins(bytes.as_bytes()).await, Beginning::Other(BytesMut::from(bytes)), "{bytes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_preface_is_given_up_at_the_deadline() {
        let (mut client, mut server) = duplex(1024);
        client.write_all(&PREFACE[..23]).await.unwrap();
        let start = Instant::now();
        assert_eq!(look(&mut server, start + Duration::from_secs(5)).await, Beginning::Nothing);
        assert_eq!(start.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_preface_in_pieces_is_a_preface() {
        let (mut client, mut server) = duplex(1024);
        let sending = tokio::spawn(async move {
            for byte in PREFACE {
                client.write_all(&[*byte]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            client
        });
        let found = look(&mut server, Instant::now() + Duration::from_secs(5)).await;
        assert_eq!(found, Beginning::Http2(BytesMut::from(&PREFACE[..])));
        drop(sending);
    }
}
