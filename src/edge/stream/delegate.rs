//! What Pingora demands of a stream, handed on to the wire and the transport below it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsRef};
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, IO, Peek, Shutdown, SocketDigest, Ssl, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{EdgeStream, Wire};

impl<S: IO> EdgeStream<S> {
    fn open(&mut self) -> io::Result<&mut Wire<S>> {
        self.wire.as_deref_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub(super) fn transport(&self) -> Option<&S> {
        self.wire.as_ref()?.transport.as_ref()
    }

    fn transport_mut(&mut self) -> Option<&mut S> {
        self.wire.as_mut()?.transport.as_mut()
    }
}

impl<S: IO> AsyncRead for EdgeStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_read(cx, buf)
    }
}

impl<S: IO> AsyncWrite for EdgeStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.open()?.poll_write(cx, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.open()?.poll_write(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_shutdown(cx)
    }
}

#[async_trait]
impl<S: IO> Shutdown for EdgeStream<S> {
    /// Ends our side only. The other side is drained by the connection loop, if it is worth it.
    async fn shutdown(&mut self) {
        // a client that has gone cannot be told goodbye, which is no news to anyone
        let _ = tokio::io::AsyncWriteExt::shutdown(self).await;
    }
}

impl<S: IO> UniqueID for EdgeStream<S> {
    fn id(&self) -> UniqueIDType {
        self.transport().map_or(-1, UniqueID::id)
    }
}

impl<S: IO> Ssl for EdgeStream<S> {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.transport()?.get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.transport()?.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.transport()?.selected_alpn_proto()
    }
}

impl<S: IO> GetTimingDigest for EdgeStream<S> {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.transport().map(GetTimingDigest::get_timing_digest).unwrap_or_default()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.transport().map(GetTimingDigest::get_read_pending_time).unwrap_or_default()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.transport().map(GetTimingDigest::get_write_pending_time).unwrap_or_default()
    }
}

impl<S: IO> GetProxyDigest for EdgeStream<S> {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.transport()?.get_proxy_digest()
    }

    fn set_proxy_digest(&mut self, digest: ProxyDigest) {
        if let Some(transport) = self.transport_mut() {
            transport.set_proxy_digest(digest);
        }
    }
}

impl<S: IO> GetSocketDigest for EdgeStream<S> {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.transport()?.get_socket_digest()
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        if let Some(transport) = self.transport_mut() {
            transport.set_socket_digest(digest);
        }
    }
}

/// Not supported: the loop above has looked at the bytes already.
impl<S: IO> Peek for EdgeStream<S> {}
