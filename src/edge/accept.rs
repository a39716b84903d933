//! Brings an accepted connection to HTTP: its PROXY header, its TLS handshake, and which HTTP it speaks.

use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use pingora::apps::HttpServerApp;
use pingora::server::ShutdownWatch;
use tokio::time::{Instant, sleep, timeout};

use super::common::{Edge, Entry, Header};
use super::connection;
use super::connection_info::ConnectionInfo;
use super::h2;
use super::h2::direct::DirectStreams;
use super::h2::preface::{Beginning, look};
use super::proxy_protocol::{NoHeader, Peekable, take};
use super::requests::Servers;
use super::tls::handshake::handshake;
use super::tls::secure::Secure;
use super::transport::Transport;
use crate::request::Peer;
use crate::system::socket::Socket;
use tidegate_http::fault::HeadFault;

/// Brings a connection to HTTP and serves it until it ends. It was let in when it was `accepted`; `entry` holds its places until then.
pub async fn serve<A>(
    servers: &Servers<A>,
    stream: Socket,
    (peer, accepted): (Option<SocketAddr>, Instant),
    mut entry: Entry,
    edge: &Arc<Edge>,
    shutdown: &ShutdownWatch,
) where
    A: HttpServerApp + Send + Sync + 'static,
{
    let info = ConnectionInfo::new(edge.listener, peer);
    if edge.filter.as_ref().is_some_and(|filter| !filter.begin(info.peer, accepted.elapsed())) {
        return;
    }
    let Some(info) = named(&stream, info, &mut entry, edge, shutdown).await else { return };
    let transport = Transport::accepted(stream, peer);
    let Some((transport, secure)) = secured(transport, info.peer, edge).await else { return };
    let info = Arc::new(info.with_secure(secure));
    let mut spoken = pin!(speak(servers, transport, Arc::clone(&info), edge, shutdown));
    let mut entry = Some(entry);
    poll_fn(|cx| {
        let ended = spoken.as_mut().poll(cx);
        // closed, although the answer to its last request is still awaited
        if info.has_left() {
            entry = None;
        }
        ended
    })
    .await;
}

/// Reads the PROXY header, where there may be one. `None`: the connection is counted, and is to be closed.
async fn named(
    stream: &impl Peekable,
    info: ConnectionInfo,
    entry: &mut Entry,
    edge: &Edge,
    shutdown: &ShutdownWatch,
) -> Option<ConnectionInfo> {
    let Some(filter) = &edge.filter else { return Some(info) };
    let header = filter.header(info.peer);
    if header == Header::Unread {
        return Some(info);
    }
    // in a box, so that connections without a header have no room for one
    let taken = Box::pin(async {
        let mut shutdown = shutdown.clone();
        let stopping = async {
            // a vanished sender means that the process is past stopping
            let _ = shutdown.wait_for(|stopping| *stopping).await;
            sleep(edge.limits.idle_while_draining).await;
        };
        tokio::select! {
            biased;
            taken = timeout(edge.limits.head_deadline, take(stream)) => taken.unwrap_or(Err(NoHeader::Late)),
            // balancers keep connections ready that no client has asked for yet
            () = stopping => Err(NoHeader::Gone),
        }
    });
    let reason = match taken.await {
        Ok(source) => return filter.admit_named(entry, source).then(|| info.conveying(source)),
        Err(NoHeader::Absent) if header == Header::Optional => return Some(info),
        Err(NoHeader::Gone) => return None,
        Err(NoHeader::Absent) => "proxy_missing",
        Err(NoHeader::Invalid) => "proxy_invalid",
        Err(NoHeader::Late) => "proxy_late",
    };
    filter.refused(reason, info.peer);
    None
}

/// Does the TLS handshake, if the listener has TLS. `None`: it failed, and is counted.
async fn secured(transport: Transport, peer: Peer, edge: &Edge) -> Option<(Transport, Option<Secure>)> {
    let Some(acceptor) = &edge.tls else { return Some((transport, None)) };
    // in a box, as below
    match Box::pin(handshake(acceptor, transport, edge.limits.handshake_deadline)).await {
        Ok((stream, secure)) => {
            edge.events.handshake(&secure);
            Some((Transport::secured(stream), Some(secure)))
        }
        Err((fault, transport)) => {
            edge.events.handshake_failed(fault, peer, transport.is_some_and(|transport| !transport.was_heard()));
            None
        }
    }
}

/// Serves in the protocol that the client speaks: what TLS agreed on, or what the first bytes are where HTTP/2 is spoken
/// without TLS.
async fn speak<A>(
    servers: &Servers<A>,
    mut transport: Transport,
    info: Arc<ConnectionInfo>,
    edge: &Arc<Edge>,
    shutdown: &ShutdownWatch,
) where
    A: HttpServerApp + Send + Sync + 'static,
{
    let begun = Instant::now();
    let protocols = edge.limits.protocols;
    let mut first = BytesMut::new();
    let http2 = match &info.secure {
        // a client that names no protocol speaks HTTP/1.1 (RFC 9112 section 9.7)
        Some(secure) => secure.alpn.as_deref() == Some(b"h2"),
        None if protocols.h2 => match Box::pin(look(&mut transport, begun + edge.limits.head_deadline)).await {
            Beginning::Http2(bytes) => {
                first = bytes;
                true
            }
            Beginning::Other(bytes) => {
                first = bytes;
                false
            }
            Beginning::Nothing => return,
        },
        None => false,
    };
    // What a connection does not come to has no room in what is kept for each: that of HTTP/2 would be most of it.
    match http2 {
        true => {
            let direct = servers.direct.clone().map(|direct| -> Arc<dyn DirectStreams> { direct });
            let servers = (&servers.framework, direct);
            Box::pin(h2::connection::serve(servers, transport, first, begun, info, edge, shutdown)).await;
        }
        false if protocols.http1 => {
            let servers = (&servers.framework, servers.direct.as_deref());
            connection::serve(servers, transport, first, begun, info, edge, shutdown).await;
        }
        false => Box::pin(connection::turn_away(transport, HeadFault::VersionUnsupported, info, edge)).await,
    }
}
