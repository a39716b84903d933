//! A connection to an origin as bytes: TCP or a UNIX socket, in clear or inside TLS.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// What the system gives.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A UNIX socket.
    Unix(UnixStream),
}

/// What an origin is spoken to over.
#[derive(Debug)]
pub enum Wire {
    /// In clear.
    Plain(Socket),
    /// Inside TLS. Boxed: its state is a kilobyte, and most origins do without.
    Tls(Box<TlsStream<Socket>>),
}

impl Socket {
    /// A TCP connection that sends at once what it is given.
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

impl Wire {
    /// The socket beneath.
    pub fn socket(&self) -> &Socket {
        match self {
            Wire::Plain(socket) => socket,
            Wire::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsRawFd for Wire {
    fn as_raw_fd(&self) -> RawFd {
        match self.socket() {
            Socket::Tcp(stream) => stream.as_raw_fd(),
            Socket::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

/// Every arm of either enum is a stream; what is asked of the whole is asked of the one that is there.
macro_rules! delegate {
    ($name:ident: $($arm:ident),+) => {
        impl AsyncRead for $name {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($name::$arm(stream) => Pin::new(stream).poll_read(cx, buf),)+
                }
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($name::$arm(stream) => Pin::new(stream).poll_write(cx, data),)+
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($name::$arm(stream) => Pin::new(stream).poll_write_vectored(cx, parts),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $($name::$arm(stream) => stream.is_write_vectored(),)+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($name::$arm(stream) => Pin::new(stream).poll_flush(cx),)+
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($name::$arm(stream) => Pin::new(stream).poll_shutdown(cx),)+
                }
            }
        }
    };
}

delegate!(Socket: Tcp, Unix);
delegate!(Wire: Plain, Tls);
