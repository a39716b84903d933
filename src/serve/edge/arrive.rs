//! The way of a connection from the accepting socket to HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use pingora::apps::HttpServerApp;
use pingora::server::ShutdownWatch;

use super::connection::{Edge, serve};
use super::link::Link;
use super::socket::Socket;
use super::transport::Transport;

/// Brings a connection to HTTP and serves it until it ends.
pub async fn arrive<A>(
    app: &Arc<A>,
    stream: Socket,
    peer: Option<SocketAddr>,
    edge: &Arc<Edge>,
    shutdown: &ShutdownWatch,
) where
    A: HttpServerApp + Send + Sync + 'static,
{
    let link = Arc::new(Link::new(edge.listener, peer));
    serve(app, Transport::accepted(stream, peer), link, edge, shutdown).await;
}
