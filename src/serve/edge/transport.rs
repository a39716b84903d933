//! An accepted connection in the form that Pingora wants: the socket and whose it is, and nothing else. Pingora's own
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

use super::socket::Socket;

/// The bytes of a client's connection.
#[derive(Debug)]
pub struct Transport {
    stream: Socket,
    digest: Arc<SocketDigest>,
}

impl Transport {
    /// The connection that was accepted from `peer`, or from a socket that has no address.
    pub fn accepted(stream: Socket, peer: Option<SocketAddr>) -> Transport {
        let digest = SocketDigest::from_raw_fd(stream.as_raw_fd());
        let _ = digest.peer_addr.set(peer.map(l4::socket::SocketAddr::Inet));
        // without it the last segment of an answer waits for an acknowledgement; a failure means that the client has gone
        let _ = stream.set_nodelay();
        Transport { stream, digest: Arc::new(digest) }
    }
}

impl AsyncRead for Transport {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Transport {
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
impl Shutdown for Transport {
    async fn shutdown(&mut self) {
        // a client that has gone cannot be told goodbye
        let _ = self.stream.shutdown().await;
    }
}

impl UniqueID for Transport {
    fn id(&self) -> UniqueIDType {
        self.stream.as_raw_fd()
    }
}

impl Ssl for Transport {}

impl Peek for Transport {}

impl GetTimingDigest for Transport {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Transport {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Transport {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(Arc::clone(&self.digest))
    }
}
