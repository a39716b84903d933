//! TCP and UNIX sockets as one: what listens, and what was accepted.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A bound socket, non-blocking, listening, not yet with any runtime.
#[derive(Debug)]
pub enum Listening {
    /// A TCP port.
    Tcp(std::net::TcpListener),
    /// A UNIX socket.
    Unix(std::os::unix::net::UnixListener),
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listening::Tcp(listener) => listener.as_fd(),
            Listening::Unix(listener) => listener.as_fd(),
        }
    }
}

impl Listening {
    /// What the kernel has completed already, without waiting for more: at most `most` connections, so that a busy socket
    /// has an end.
    fn waiting(self, most: usize) -> impl Iterator<Item = (Socket, Option<SocketAddr>)> {
        let accept = move || match &self {
            Listening::Tcp(listener) => {
                let (stream, peer) = listener.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some((Socket::Tcp(TcpStream::from_std(stream).ok()?), Some(peer)))
            }
            Listening::Unix(listener) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some((Socket::Unix(UnixStream::from_std(stream).ok()?), None))
            }
        };
        std::iter::from_fn(accept).take(most)
    }
}

/// A listening socket that the runtime watches.
#[derive(Debug)]
pub enum Acceptor {
    /// A TCP port.
    Tcp(tokio::net::TcpListener),
    /// A UNIX socket.
    Unix(tokio::net::UnixListener),
}

impl Acceptor {
    /// Hands the socket to the runtime.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    pub fn new(socket: Listening) -> io::Result<Acceptor> {
        Ok(match socket {
            Listening::Tcp(listener) => Acceptor::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listening::Unix(listener) => Acceptor::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }

    /// The next connection, and its other end's address where it has one.
    ///
    /// # Errors
    /// The system's; the listener itself goes on.
    pub async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            Acceptor::Tcp(listener) => listener.accept().await.map(|(stream, peer)| (Socket::Tcp(stream), Some(peer))),
            Acceptor::Unix(listener) => listener.accept().await.map(|(stream, _)| (Socket::Unix(stream), None)),
        }
    }

    /// The connections that the kernel had completed already, `most` of them at most; then the socket is closed.
    ///
    /// # Errors
    /// The runtime does not give it back.
    pub fn close(self, most: usize) -> io::Result<impl Iterator<Item = (Socket, Option<SocketAddr>)>> {
        Ok(match self {
            Acceptor::Tcp(listener) => Listening::Tcp(listener.into_std()?),
            Acceptor::Unix(listener) => Listening::Unix(listener.into_std()?),
        }
        .waiting(most))
    }
}

/// An accepted connection.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// From a process of this machine.
    Unix(UnixStream),
}

impl Socket {
    /// Sends small writes at once; a UNIX socket always does.
    ///
    /// # Errors
    /// The client has gone.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nodelay(true),
            Socket::Unix(_) => Ok(()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Socket::Tcp(stream) => stream.as_raw_fd(),
            Socket::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Socket {
        Socket::Tcp(stream)
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, data),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Tcp(stream) => stream.is_write_vectored(),
            Socket::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // the kernel has it
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
