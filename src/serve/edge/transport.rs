//! An accepted TCP connection in the form that Pingora wants: the socket and whose it is, and nothing else. Pingora's own
//! stream would buffer below our buffers and read the clock twice for every read.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
    UniqueIDType, l4,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// A client's TCP connection.
#[derive(Debug)]
pub struct Tcp {
    stream: TcpStream,
    digest: Arc<SocketDigest>,
}

impl Tcp {
    /// The connection that was accepted from `peer`.
    pub fn accepted(stream: TcpStream, peer: SocketAddr) -> Tcp {
        let digest = SocketDigest::from_raw_fd(stream.as_raw_fd());
        let _ = digest.peer_addr.set(Some(l4::socket::SocketAddr::Inet(peer)));
        // without it the last segment of an answer waits for an acknowledgement; a failure means that the client has gone
        let _ = stream.set_nodelay(true);
        Tcp { stream, digest: Arc::new(digest) }
    }
}

impl AsyncRead for Tcp {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[async_trait]
impl Shutdown for Tcp {
    async fn shutdown(&mut self) {
        // a client that has gone cannot be told goodbye
        let _ = self.stream.shutdown().await;
    }
}

impl UniqueID for Tcp {
    fn id(&self) -> UniqueIDType {
        self.stream.as_raw_fd()
    }
}

impl Ssl for Tcp {}

impl Peek for Tcp {}

impl GetTimingDigest for Tcp {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Tcp {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Tcp {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(Arc::clone(&self.digest))
    }
}
