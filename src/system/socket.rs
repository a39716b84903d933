//! TCP and UNIX connections as one: those of clients and those to origins.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::ReadBuf;
use tokio::net::{TcpStream, UnixStream};

/// A connection, whoever made it.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// To a process of this machine.
    Unix(UnixStream),
}

impl Socket {
    /// A TCP connection to this address that sends at once what it is given.
    ///
    /// # Errors
    /// The system's.
    pub async fn tcp(address: SocketAddr) -> io::Result<Socket> {
        let stream = TcpStream::connect(address).await?;
        // without it the last segment of a request waits for an acknowledgement
        stream.set_nodelay(true)?;
        Ok(Socket::Tcp(stream))
    }

    /// A connection to the UNIX socket at this path.
    ///
    /// # Errors
    /// The system's.
    pub async fn unix(path: &Path) -> io::Result<Socket> {
        UnixStream::connect(path).await.map(Socket::Unix)
    }
}

/// The most that is read of a connection at once as long as nobody watches it.
pub const MOST_READ: usize = 4096;

/// A connection that was accepted, non-blocking, and that the runtime does not watch: to begin with that and to end it are two system
/// calls of the eight that a connection for a single request costs, and a client whose request has come is waited for by nobody.
#[derive(Debug)]
pub struct Accepted {
    socket: OwnedFd,
    is_unix: bool,
}

impl Accepted {
    /// A connection over TCP, or to a UNIX socket.
    pub fn new(socket: OwnedFd, is_unix: bool) -> Accepted {
        Accepted { socket, is_unix }
    }

    /// The same connection, watched.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    pub fn watched(self) -> io::Result<Socket> {
        if self.is_unix {
            UnixStream::from_std(self.socket.into()).map(Socket::Unix)
        } else {
            TcpStream::from_std(self.socket.into()).map(Socket::Tcp)
        }
    }

    /// The same connection under the number of `copy`; the one before is given back.
    pub fn renumbered(self, copy: OwnedFd) -> Accepted {
        Accepted { socket: copy, ..self }
    }

    /// Reads what has come, up to [`MOST_READ`].
    ///
    /// # Errors
    /// The system's; `WouldBlock`: nothing has.
    pub fn read(&self, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); MOST_READ];
        let room = space.get_mut(..buf.remaining().min(MOST_READ)).unwrap_or_default();
        let ((came, _), _) = rustix::net::recv(&self.socket, room, RecvFlags::empty())?;
        buf.put_slice(came);
        Ok(())
    }

    /// Writes what fits.
    ///
    /// # Errors
    /// The system's; `WouldBlock`: nothing does.
    pub fn write(&self, data: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.socket, data, SendFlags::NOSIGNAL)?)
    }

    /// The same of several pieces.
    ///
    /// # Errors
    /// As [`Accepted::write`].
    pub fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(&self.socket, parts)?)
    }

    /// Ends our side.
    ///
    /// # Errors
    /// The system's.
    pub fn shutdown(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?)
    }
}

impl AsFd for Accepted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Accepted {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
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

/// Reading and writing of an enum whose variants each hold one stream: handed on to that.
macro_rules! handed_on {
    ($either:ident: $($variant:ident),+) => {
        impl ::tokio::io::AsyncRead for $either {
            fn poll_read(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                buf: &mut ::tokio::io::ReadBuf<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                match self.get_mut() {
                    $($either::$variant(stream) => ::std::pin::Pin::new(stream).poll_read(cx, buf),)+
                }
            }
        }

        impl ::tokio::io::AsyncWrite for $either {
            fn poll_write(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                data: &[u8],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                match self.get_mut() {
                    $($either::$variant(stream) => ::std::pin::Pin::new(stream).poll_write(cx, data),)+
                }
            }

            fn poll_write_vectored(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                parts: &[::std::io::IoSlice<'_>],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                match self.get_mut() {
                    $($either::$variant(stream) => ::std::pin::Pin::new(stream).poll_write_vectored(cx, parts),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $($either::$variant(stream) => stream.is_write_vectored(),)+
                }
            }

            fn poll_flush(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                match self.get_mut() {
                    $($either::$variant(stream) => ::std::pin::Pin::new(stream).poll_flush(cx),)+
                }
            }

            fn poll_shutdown(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                match self.get_mut() {
                    $($either::$variant(stream) => ::std::pin::Pin::new(stream).poll_shutdown(cx),)+
                }
            }
        }
    };
}

pub(crate) use handed_on;

handed_on!(Socket: Tcp, Unix);
