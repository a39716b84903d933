//! Takes the PROXY header off the front of a connection: all of it, and not one byte more.
//!
//! What follows is read by others (TLS, HTTP), each with buffers of its own, so nothing can be given back once it is read.
//! Hence the bytes are looked at where they lie, in the kernel, and taken only when the parser has said how many are the
//! header's. A header that comes in pieces is looked at anew with each piece; it has 2 KiB at most.

use std::future::Future;
use std::io::{self, ErrorKind, Read};
use std::net;
use std::os::fd::AsFd;

use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

use crate::system::socket::Socket;
use tidegate_http::proxy_protocol::{Fault, LONGEST_BINARY, Source, parse};

/// Why there is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHeader {
    /// Something else comes first. Nothing was taken.
    Absent,
    /// It is none, although it begins like one.
    Invalid,
    /// It did not come whole: not in time, or the other side closed after a part of it.
    Late,
    /// The other side is gone, and had sent nothing: what balancers do to see whether somebody listens.
    Gone,
}

/// A connection whose bytes can be looked at without taking them.
pub trait Peekable: AsFd + Sync {
    /// Waits until there may be something to read.
    fn wait(&self) -> impl Future<Output = io::Result<Ready>> + Send;

    /// Tries to read; `WouldBlock` means that the next [`Peekable::wait`] waits for more to come.
    fn attempt<R>(&self, read: impl FnMut() -> io::Result<R>) -> io::Result<R>;
}

impl Peekable for TcpStream {
    fn wait(&self) -> impl Future<Output = io::Result<Ready>> + Send {
        self.ready(Interest::READABLE)
    }

    fn attempt<R>(&self, read: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        self.try_io(Interest::READABLE, read)
    }
}

impl Peekable for UnixStream {
    fn wait(&self) -> impl Future<Output = io::Result<Ready>> + Send {
        self.ready(Interest::READABLE)
    }

    fn attempt<R>(&self, read: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        self.try_io(Interest::READABLE, read)
    }
}

impl Peekable for Socket {
    async fn wait(&self) -> io::Result<Ready> {
        match self {
            Socket::Tcp(stream) => stream.wait().await,
            Socket::Unix(stream) => stream.wait().await,
        }
    }

    fn attempt<R>(&self, read: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        match self {
            Socket::Tcp(stream) => stream.attempt(read),
            Socket::Unix(stream) => stream.attempt(read),
        }
    }
}

/// Takes the header. The caller bounds the time, and closes the connection when there is none, unless
/// [`NoHeader::Absent`] is fine with it.
///
/// # Errors
/// There is none.
pub async fn take(stream: &impl Peekable) -> Result<Source, NoHeader> {
    let gone = |_| NoHeader::Gone;
    // the same socket for the standard library's calls, which do not care what kind it is
    let mut twin = net::TcpStream::from(stream.as_fd().try_clone_to_owned().map_err(gone)?);
    let mut bytes = vec![0; LONGEST_BINARY];
    let mut seen = 0;
    loop {
        let ready = stream.wait().await.map_err(gone)?;
        let look = stream.attempt(|| match twin.peek(&mut bytes)? {
            // nothing new: sleep until there is, unless nothing more can come
            there if there == seen && !ready.is_read_closed() => Err(ErrorKind::WouldBlock.into()),
            there => Ok(there),
        });
        match look {
            Err(again) if again.kind() == ErrorKind::WouldBlock => continue,
            Err(_) => return Err(NoHeader::Gone),
            Ok(0) => return Err(NoHeader::Gone),
            Ok(there) if there == seen => return Err(NoHeader::Late),
            Ok(there) => seen = there,
        }
        match parse(bytes.get(..seen).unwrap_or_default()) {
            Ok(None) => {}
            Err(Fault::Absent) => return Err(NoHeader::Absent),
            Err(Fault::Malformed | Fault::TooLong | Fault::Checksum) => return Err(NoHeader::Invalid),
            Ok(Some(header)) => {
                // they are all there, so this neither waits nor fails
                let whole = bytes.get_mut(..header.length).unwrap_or_default();
                return twin.read_exact(whole).map(|()| header.source).map_err(gone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::time::timeout;

    use super::*;

    const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n";

    async fn pair() -> (net::TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn what_follows_the_header_stays() {
        let (mut client, mut server) = pair().await;
        client.write_all(&[LINE, b"GET / HTTP/1.1\r\n"].concat()).unwrap();
        assert_eq!(take(&server).await, Ok(Source::Address("192.0.2.7".parse().unwrap())));
        drop(client);
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"GET / HTTP/1.1\r\n");
    }

    #[tokio::test]
    async fn a_header_may_come_byte_by_byte() {
        let (mut client, mut server) = pair().await;
        let sender = std::thread::spawn(move || {
            for byte in LINE {
                client.write_all(&[*byte]).unwrap();
                std::thread::yield_now();
            }
            client.write_all(b"rest").unwrap();
        });
        assert!(take(&server).await.is_ok());
        sender.join().unwrap();
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"rest");
    }

    #[tokio::test]
    async fn something_else_is_left_as_it_is() {
        let (mut client, mut server) = pair().await;
        client.write_all(b"POST / HTTP/1.1\r\n").unwrap();
        assert_eq!(take(&server).await, Err(NoHeader::Absent));
        drop(client);
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"POST / HTTP/1.1\r\n");
    }

    #[tokio::test]
    async fn a_close_ends_the_wait() {
        let (client, server) = pair().await;
        drop(client);
        assert_eq!(take(&server).await, Err(NoHeader::Gone));
        let (mut client, server) = pair().await;
        client.write_all(b"PROXY TCP4").unwrap();
        client.shutdown(net::Shutdown::Write).unwrap();
        assert_eq!(take(&server).await, Err(NoHeader::Late));
    }

    #[tokio::test]
    async fn a_part_is_waited_for_without_turning() {
        let (mut client, server) = pair().await;
        client.write_all(b"PROXY TCP4").unwrap();
        // a loop that never slept would never let the deadline come on this single thread
        assert!(timeout(Duration::from_millis(50), take(&server)).await.is_err());
        client.write_all(LINE.strip_prefix(b"PROXY TCP4").unwrap()).unwrap();
        assert!(take(&server).await.is_ok());
    }

    #[tokio::test]
    async fn a_unix_socket_has_headers_too() {
        let (client, server) = UnixStream::pair().unwrap();
        client.try_write(LINE).unwrap();
        assert!(take(&server).await.is_ok());
    }
}
