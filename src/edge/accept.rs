//! Brings an accepted connection to HTTP: its PROXY header, its TLS handshake, and which HTTP it speaks.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::BytesMut;
use pingora::apps::HttpServerApp;
use pingora::server::ShutdownWatch;
use tokio::time::{Instant, sleep, timeout};

use super::common::{AdmissionFilter, Edge, Entry, Header};
use super::connection;
use super::connection_info::ConnectionInfo;
use super::h2;
use super::h2::direct::DirectStreams;
use super::h2::preface::{Beginning, look};
use super::proxy_protocol::{NoHeader, Peekable, take};
use super::requests::Servers;
use super::tls::acceptor::Acceptor;
use super::tls::handshake::handshake;
use super::transport::Transport;
use crate::system::socket::Accepted;
use tidegate_http::fault::HeadFault;

/// Brings a connection to HTTP and serves it until it ends. It was let in when it was `accepted`; `entry` holds its places until then, and
/// `guard`, dropped behind it, counts it.
///
/// Not an `async fn`, which would have room for each argument twice, as it came and where it is used.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would be larger")]
pub fn serve<A>(
    guard: impl Send + 'static,
    servers: Servers<A>,
    stream: Accepted,
    (peer, accepted): (Option<SocketAddr>, Instant),
    mut entry: Entry,
    edge: Arc<Edge>,
    shutdown: ShutdownWatch,
) -> impl Future<Output = ()> + Send + 'static
where
    A: HttpServerApp + Send + Sync + 'static,
{
    async move {
        // captured, and so dropped, in this order: who waits for connections to end finds their places free
        let _ = (&entry, &stream, &guard);
        let mut info = ConnectionInfo::new(edge.listener, peer);
        let mut begun = Instant::now();
        if let Some(filter) = &edge.filter
            && !filter.begin(info.peer, begun.duration_since(accepted))
        {
            return;
        }
        let mut transport = Transport::accepted(stream, peer);
        if let Some(filter) = &edge.filter {
            let header = filter.header(info.peer);
            if header != Header::Unread {
                let Some(stream) = transport.socket() else { return };
                // in a box, so that connections without a header have no room for one
                match Box::pin(named(stream, (&**filter, header), info, &mut entry, &edge, &shutdown)).await {
                    Some(named) => (info, begun) = (named, Instant::now()),
                    None => return,
                }
            }
        }
        if let Some(acceptor) = &edge.tls {
            // in a box, as above
            match Box::pin(secured(acceptor, transport, info, &edge)).await {
                Some(secured) => ((transport, info), begun) = (secured, Instant::now()),
                None => return,
            }
        }
        let info = Arc::new(info);
        let Some((transport, first, is_http2)) = spoken(transport, &info, begun, &edge).await else { return };
        // What a connection does not come to has no room in what is kept for each: that of HTTP/2 would be most of it.
        match (is_http2, edge.limits.protocols.http1) {
            (true, _) => {
                let direct = servers.direct.clone().map(|direct| -> Arc<dyn DirectStreams> { direct });
                let servers = (&servers.framework, direct);
                let served =
                    h2::connection::serve(servers, transport, first, begun, Arc::clone(&info), &edge, &shutdown);
                leaving(Box::pin(served).as_mut(), &info, &mut entry).await;
            }
            (false, true) => {
                let servers = (&servers.framework, servers.direct.as_deref());
                let served = pin!(connection::serve(servers, transport, first, begun, &info, &edge, &shutdown));
                leaving(served, &info, &mut entry).await;
            }
            (false, false) => {
                Box::pin(connection::turn_away(transport, HeadFault::VersionUnsupported, info, &edge)).await;
            }
        }
    }
}

/// Serves a connection; gives its places back when it is closed, although the answer to its last request is still awaited.
async fn leaving(mut served: Pin<&mut impl Future<Output = ()>>, info: &ConnectionInfo, entry: &mut Entry) {
    poll_fn(|cx| {
        let ended = served.as_mut().poll(cx);
        if info.has_left() {
            *entry = Entry::default();
        }
        ended
    })
    .await;
}

/// Reads the PROXY header. `None`: the connection is counted, and is to be closed.
async fn named(
    stream: &impl Peekable,
    (filter, header): (&dyn AdmissionFilter, Header),
    info: ConnectionInfo,
    entry: &mut Entry,
    edge: &Edge,
    shutdown: &ShutdownWatch,
) -> Option<ConnectionInfo> {
    let taken = async {
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
    };
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

/// Does the TLS handshake. `None`: it failed, and is counted.
async fn secured(
    acceptor: &Acceptor,
    transport: Transport,
    info: ConnectionInfo,
    edge: &Edge,
) -> Option<(Transport, ConnectionInfo)> {
    match handshake(acceptor, transport, edge.limits.handshake_deadline).await {
        Ok((stream, secure)) => {
            edge.events.handshake(&secure);
            Some((Transport::secured(stream), info.with_secure(Some(secure))))
        }
        Err((fault, transport)) => {
            edge.events.handshake_failed(fault, info.peer, transport.is_some_and(|transport| !transport.was_heard()));
            None
        }
    }
}

/// Finds out which protocol the client speaks: what TLS agreed on, or what the first bytes are where HTTP/2 is spoken without TLS. Gives
/// the bytes that were read for that, and whether it is HTTP/2. `None`: the client says nothing.
async fn spoken(
    mut transport: Transport,
    info: &ConnectionInfo,
    begun: Instant,
    edge: &Edge,
) -> Option<(Transport, BytesMut, bool)> {
    match &info.secure {
        // a client that names no protocol speaks HTTP/1.1 (RFC 9112 section 9.7)
        Some(secure) => Some((transport, BytesMut::new(), secure.alpn.as_deref() == Some(b"h2"))),
        None if edge.limits.protocols.h2 => {
            match Box::pin(look(&mut transport, begun + edge.limits.head_deadline)).await {
                Beginning::Http2(bytes) => Some((transport, bytes, true)),
                Beginning::Other(bytes) => Some((transport, bytes, false)),
                Beginning::Nothing => None,
            }
        }
        None => Some((transport, BytesMut::new(), false)),
    }
}
