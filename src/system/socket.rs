//! TCP and UNIX connections as one: those of clients and those to origins.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

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

    /// The same connection under the number of `copy`; the one before is given back.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    pub fn renumbered(self, copy: OwnedFd) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(_) => Socket::Tcp(TcpStream::from_std(copy.into())?),
            Socket::Unix(_) => Socket::Unix(UnixStream::from_std(copy.into())?),
        })
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
