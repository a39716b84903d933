//! The way of a connection from the accepting socket to HTTP, and which HTTP it is.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use pingora::apps::HttpServerApp;
use pingora::protocols::IO;
use pingora::server::ShutdownWatch;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::connection::{self, Edge};
use super::fault::HeadFault;
use super::h2;
use super::h2::preface::{Beginning, look};
use super::link::Link;
use super::transport::Transport;

/// Brings a connection to HTTP and serves it until it ends.
pub async fn arrive<A>(app: &Arc<A>, stream: TcpStream, peer: SocketAddr, edge: &Arc<Edge>, shutdown: &ShutdownWatch)
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let link = Arc::new(Link::new(edge.listener, Some(peer)));
    speak(app, Transport::accepted(stream, peer), link, edge, shutdown).await;
}

/// Serves in the protocol that the client speaks: what TLS agreed on, or what the first bytes are where HTTP/2 is spoken
/// without TLS.
async fn speak<A, S>(app: &Arc<A>, mut transport: S, link: Arc<Link>, edge: &Arc<Edge>, shutdown: &ShutdownWatch)
where
    A: HttpServerApp + Send + Sync + 'static,
    S: IO + 'static,
{
    let begun = Instant::now();
    let secure = transport.get_ssl_digest().is_some();
    if h2::speaks_h2(&transport) {
        return h2::connection::serve(app, transport, BytesMut::new(), begun, link, edge, shutdown).await;
    }
    let mut first = BytesMut::new();
    if edge.limits.protocols.h2 && !secure {
        match look(&mut transport, begun + edge.limits.head_deadline).await {
            Beginning::Http2(bytes) => {
                return h2::connection::serve(app, transport, bytes, begun, link, edge, shutdown).await;
            }
            Beginning::Other(bytes) if edge.limits.protocols.http1 => first = bytes,
            Beginning::Other(_) => {
                return connection::turn_away(transport, HeadFault::VersionUnsupported, link, edge).await;
            }
            Beginning::Nothing => return,
        }
    }
    connection::serve(app, transport, first, begun, link, edge, shutdown).await;
}
