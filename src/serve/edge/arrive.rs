//! The way of a connection from the accepting socket to HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use pingora::apps::HttpServerApp;
use pingora::server::ShutdownWatch;
use tokio::net::TcpStream;

use super::connection::{Edge, serve};
use super::link::Link;
use super::tls::handshake::handshake;
use super::tls::secure::Secure;
use super::transport::Transport;

/// Brings a connection to HTTP and serves it until it ends.
pub async fn arrive<A>(app: &Arc<A>, stream: TcpStream, peer: SocketAddr, edge: &Arc<Edge>, shutdown: &ShutdownWatch)
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let transport = Transport::accepted(stream, peer);
    let Some((transport, secure)) = secured(transport, edge).await else { return };
    let link = Arc::new(Link::new(edge.listener, Some(peer)).with_secure(secure));
    serve(app, transport, link, edge, shutdown).await;
}

/// The stage of TLS; `None` when the connection came to nothing, which has been counted.
async fn secured(transport: Transport, edge: &Edge) -> Option<(Transport, Option<Secure>)> {
    let Some(acceptor) = &edge.tls else { return Some((transport, None)) };
    match handshake(acceptor, transport, edge.limits.handshake_deadline).await {
        Ok((stream, secure)) => {
            edge.events.handshake(&secure);
            Some((Transport::secured(stream), Some(secure)))
        }
        Err(fault) => {
            edge.events.handshake_failed(fault);
            None
        }
    }
}
