//! What listens, over TCP or as a UNIX socket, and how connections are taken from it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use pingora::protocols::l4::ext::get_tcp_info;
use socket2::SockRef;
use tokio::net::{TcpStream, UnixStream};

use crate::system::socket::Socket;

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
            Listening::Tcp(listener) => {
                // Every connection inherits it, which saves a system call for each. Without it the last segment of an answer waits for
                // an acknowledgement.
                SockRef::from(&listener).set_tcp_nodelay(true)?;
                Acceptor::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
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

    /// Which share of the accept queue is taken; `None` where the socket does not tell.
    pub fn backlog(&self) -> Option<f64> {
        let Acceptor::Tcp(listener) = self else { return None };
        let info = get_tcp_info(listener.as_raw_fd()).ok()?;
        // of a listening socket these are the length of its queue and the bound on it (tcp_get_info in the kernel's net/ipv4/tcp.c)
        (info.tcpi_sacked > 0).then(|| f64::from(info.tcpi_unacked) / f64::from(info.tcpi_sacked))
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
