//! What listens, over TCP or as a UNIX socket, and how connections are taken from it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use pingora::protocols::l4::ext::get_tcp_info;
use rustix::net::SocketFlags;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::system::socket::Accepted;

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

impl AsRawFd for Listening {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Listening {
    /// The next connection that the kernel has completed, and its other end's address where it has one.
    ///
    /// # Errors
    /// The system's; `WouldBlock`: there is none.
    fn accept(&self) -> io::Result<(Accepted, Option<SocketAddr>)> {
        let (socket, peer) = rustix::net::acceptfrom_with(self, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        let is_unix = matches!(self, Listening::Unix(_));
        let peer = peer.filter(|_| !is_unix).and_then(|peer| SocketAddr::try_from(peer).ok());
        Ok((Accepted::new(socket, is_unix), peer))
    }
}

/// A listening socket that the runtime watches.
#[derive(Debug)]
pub struct Acceptor(AsyncFd<Listening>);

impl Acceptor {
    /// Hands the socket to the runtime.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    pub fn new(socket: Listening) -> io::Result<Acceptor> {
        if let Listening::Tcp(listener) = &socket {
            // Every connection inherits it, which saves a system call for each. Without it the last segment of an answer waits for
            // an acknowledgement.
            SockRef::from(listener).set_tcp_nodelay(true)?;
        }
        #[expect(
            deprecated,
            reason = "it asks for a descriptor that stays open and the same, which those of the standard library do"
        )]
        AsyncFd::with_interest(socket, Interest::READABLE).map(Acceptor)
    }

    /// The next connection, and its other end's address where it has one.
    ///
    /// # Errors
    /// The system's; the listener itself goes on.
    pub async fn accept(&self) -> io::Result<(Accepted, Option<SocketAddr>)> {
        self.0.async_io(Interest::READABLE, Listening::accept).await
    }

    /// The next connection if it is there already.
    pub fn at_once(&self) -> Option<(Accepted, Option<SocketAddr>)> {
        self.0.try_io(Interest::READABLE, Listening::accept).ok()
    }

    /// Which share of the accept queue is taken; `None` where the socket does not tell.
    pub fn backlog(&self) -> Option<f64> {
        let Listening::Tcp(listener) = self.0.get_ref() else { return None };
        let info = get_tcp_info(listener.as_raw_fd()).ok()?;
        // of a listening socket these are the length of its queue and the bound on it (tcp_get_info in the kernel's net/ipv4/tcp.c)
        (info.tcpi_sacked > 0).then(|| f64::from(info.tcpi_unacked) / f64::from(info.tcpi_sacked))
    }

    /// The connections that the kernel had completed already, without waiting for more: at most `most`, so that a busy socket has an end.
    /// Then the socket is closed.
    pub fn close(self, most: usize) -> impl Iterator<Item = (Accepted, Option<SocketAddr>)> {
        let listening = self.0.into_inner();
        std::iter::from_fn(move || listening.accept().ok()).take(most)
    }
}
