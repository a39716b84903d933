//! An accepted connection in the form that Pingora wants: the socket and whose it is, and nothing else. Pingora's own
//! stream would buffer below our buffers and read the clock twice for every read.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
    UniqueIDType, l4,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::client_socket::ClientSocket;
use crate::system::socket::{Accepted, MOST_READ, Socket, handed_on};

/// The bytes of a client's connection.
#[derive(Debug)]
pub struct Transport {
    bytes: Bytes,
    peer: Option<SocketAddr>,
    /// For the framework: made when it asks, as it has room for three addresses and most connections do without it.
    digest: OnceLock<Arc<SocketDigest>>,
    id: UniqueIDType,
    /// How many bytes went to the kernel.
    sent: u64,
    /// Whether a byte came from it.
    heard: bool,
    /// The last read took less than it had room for: there was no more.
    emptied: bool,
}

/// How the bytes travel. What is common costs nothing more; what is large lies behind a pointer, as the whole is moved about.
#[derive(Debug)]
enum Bytes {
    Plain(ClientSocket),
    Tls(Box<TlsStream<Transport>>),
}

handed_on!(Bytes: Plain, Tls);

impl Transport {
    /// The connection that was accepted from `peer`, or from a socket that has no address.
    pub fn accepted(stream: Accepted, peer: Option<SocketAddr>) -> Transport {
        let id = stream.as_raw_fd();
        let bytes = Bytes::Plain(ClientSocket::Unwatched(stream, false));
        Transport { bytes, peer, digest: OnceLock::new(), id, sent: 0, heard: false, emptied: false }
    }

    /// The socket itself, for who waits for what comes on it. `None`: it is closed, or TLS is spoken.
    pub fn socket(&mut self) -> Option<&mut Socket> {
        match &mut self.bytes {
            Bytes::Plain(socket) => socket.watched().ok(),
            Bytes::Tls(_) => None,
        }
    }

    /// The socket below; `None`: it is closed.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.bytes {
            Bytes::Plain(socket) => socket.descriptor(),
            Bytes::Tls(stream) => stream.get_ref().0.descriptor(),
        }
    }

    /// Whether the kernel may hold bytes that were not read. If not, none but what came a moment ago.
    pub fn may_hold_more(&self) -> bool {
        !self.emptied || matches!(self.bytes, Bytes::Tls(_))
    }

    /// A connection whose handshake is over.
    pub fn secured(stream: TlsStream<Transport>) -> Transport {
        let inner = stream.get_ref().0;
        let (peer, id, sent, heard) = (inner.peer, inner.id, 0, inner.heard);
        let bytes = Bytes::Tls(Box::new(stream));
        Transport { bytes, peer, digest: OnceLock::new(), id, sent, heard, emptied: false }
    }

    /// Whether the client has said anything yet, were it a byte of a handshake.
    pub fn was_heard(&self) -> bool {
        self.heard
    }

    /// How many bytes went to the kernel so far. With TLS this lags behind what was written, up to a few records: they lie in
    /// between, and only a flush says that they are gone.
    pub fn sent(&self) -> u64 {
        match &self.bytes {
            Bytes::Plain(_) => self.sent,
            Bytes::Tls(stream) => stream.get_ref().0.sent,
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.bytes).poll_read(cx, buf);
        let taken = buf.filled().len() - before;
        self.heard |= taken > 0;
        self.emptied = read.is_ready() && buf.remaining() > 0 && taken < MOST_READ;
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.bytes).poll_write(cx, data);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.bytes).poll_write_vectored(cx, parts);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // with TLS the client is told (close_notify), and can tell the end from a cut then
        Pin::new(&mut self.bytes).poll_shutdown(cx)
    }
}

impl Transport {
    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.sent += bytes as u64;
        }
        written
    }
}

#[async_trait]
impl Shutdown for Transport {
    async fn shutdown(&mut self) {
        // a client that has gone cannot be told goodbye
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for Transport {
    fn id(&self) -> UniqueIDType {
        self.id
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
        let digest = self.digest.get_or_init(|| {
            let digest = SocketDigest::from_raw_fd(self.id);
            // it is new, so that nothing stands there yet
            let _ = digest.peer_addr.set(self.peer.map(l4::socket::SocketAddr::Inet));
            Arc::new(digest)
        });
        Some(Arc::clone(digest))
    }
}
