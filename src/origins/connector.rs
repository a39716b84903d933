//! Makes Pingora's connections to origins, by their [`Way`].
//!
//! HTTP/1: Pingora's pool compares a connection's file descriptor with its address before it lends it again, and its
//! "virtual" sockets have none, so that none would ever be used twice. Its door for custom protocols takes any stream and
//! speaks HTTP/1 over it: [`Origins`] comes in by that one.
//!
//! HTTP/2: Pingora's client needs a stream of its own kind. Without TLS that is the socket itself. With TLS it is one end of
//! a pair, and a task carries the bytes between the other end and the origin; a stream of HTTP/2 serves many requests, so
//! the two more copies are paid for by few.

use std::any::Any;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::connectors::L4Connect;
use pingora::connectors::http::custom::{Connection, Connector};
use pingora::protocols::l4::socket::SocketAddr as PingoraAddress;
use pingora::protocols::l4::stream::Stream as PingoraStream;
use pingora::upstreams::peer::{HttpPeer, Peer};
use pingora::{Error, ErrorType};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::stream::OriginStream;
use super::way::{NoTls, Way};
use super::wire::Wire;
use crate::policy::Protocol;
use crate::system::descriptors;
use crate::system::socket::Socket;
use tidegate_http::fault::AnswerFault;

/// Requests at once on one connection of HTTP/2. Pingora's own default is one.
const STREAMS: usize = 100;

/// What one stream may send before the client has taken it. All streams together may send as much as each of them, so
/// that a client that takes nothing holds up nobody else, and a connection holds 25 MiB at most.
const STREAM_WINDOW: u32 = 256 * 1024;

/// A connection of HTTP/2 that does not answer a ping is given up.
const PING: Duration = Duration::from_secs(30);

/// How long the farewell to an origin may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// The peer for Pingora: where `way` leads to `address`, without any deadline yet.
pub fn peer(way: &Arc<Way>, address: SocketAddr) -> HttpPeer {
    let mut peer = HttpPeer::new(address, false, String::new());
    peer.group_key = way.key();
    match way.protocol() {
        Protocol::Http1 => peer.options.alpn = way.door(),
        Protocol::Http2 => {
            peer.options.set_http_version(2, 2);
            peer.options.max_h2_streams = STREAMS;
            peer.options.h2_stream_window_size = Some(STREAM_WINDOW);
            peer.options.h2_connection_window_size = Some(STREAM_WINDOW * STREAMS as u32);
            peer.options.h2_ping_interval = Some(PING);
            if way.is_encrypted() && peer_has_port(address) {
                // the pool asks whether the other end of the descriptor is this address; of a pair it is nobody's, which
                // passes for the unspecified one only. What tells the connections apart is the key then.
                peer = HttpPeer { group_key: key_with(way.key(), address), ..peer };
                peer._address = PingoraAddress::Inet(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()));
            }
            peer.options.custom_l4 = Some(Arc::new(Dial { way: Arc::clone(way), address }));
        }
    }
    peer
}

/// Makes a connection of HTTP/1.
///
/// # Errors
/// None comes to stand within that time.
pub async fn open(way: Arc<Way>, address: SocketAddr, within: Duration) -> pingora::Result<OriginStream> {
    descriptors::for_an_origin().map_err(explained)?;
    let key = way.key();
    let wire = match timeout(within, way.connect(address)).await {
        Ok(wire) => wire.map_err(explained)?,
        Err(_) => return Err(Error::explain(ErrorType::ConnectTimedout, "connecting to the origin")),
    };
    Ok(OriginStream::new(wire, way, key))
}

/// Pingora's door for custom protocols, with HTTP/1 behind it.
#[derive(Debug)]
pub struct Origins;

#[async_trait]
impl Connector for Origins {
    type Session = ();

    async fn get_http_session<P: Peer + Send + Sync + 'static>(
        &self,
        peer: &P,
    ) -> pingora::Result<(Connection<()>, bool)> {
        let peer: &dyn Any = peer;
        let known = peer.downcast_ref::<HttpPeer>().and_then(|peer| Some((peer, Way::of_key(peer.group_key)?)));
        let Some((peer, way)) = known else {
            return Err(Error::explain(ErrorType::InternalError, "a peer that is no origin"));
        };
        let Some(address) = peer._address.as_inet() else {
            return Err(Error::explain(ErrorType::InternalError, "a peer without an address"));
        };
        let deadline = peer.options.total_connection_timeout.unwrap_or(Duration::MAX);
        Ok((Connection::Stream(Box::new(open(way, *address, deadline).await?)), false))
    }

    async fn reused_http_session<P: Peer + Send + Sync + 'static>(&self, _peer: &P) -> Option<()> {
        // streams are kept by Pingora's pool for HTTP/1, which is asked next
        None
    }

    async fn release_http_session<P: Peer + Send + Sync + 'static>(
        &self,
        _session: (),
        _peer: &P,
        _idle_timeout: Option<Duration>,
    ) {
    }
}

/// One address of one origin, for Pingora's client of HTTP/2.
#[derive(Debug)]
struct Dial {
    way: Arc<Way>,
    address: SocketAddr,
}

#[async_trait]
impl L4Connect for Dial {
    async fn connect(&self, _address: &PingoraAddress) -> pingora::Result<PingoraStream> {
        descriptors::for_an_origin().map_err(explained)?;
        let wire = self.way.connect(self.address).await.map_err(explained)?;
        Ok(match wire {
            Wire::Plain(Socket::Tcp(stream)) => stream.into(),
            Wire::Plain(Socket::Unix(stream)) => stream.into(),
            wire @ Wire::Tls(_) => carried(wire).map_err(explained)?.into(),
        })
    }
}

/// One end of a pair whose other end a task connects with `wire`, until either side closes.
fn carried(wire: Wire) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    tokio::spawn(async move {
        let (mut from_us, mut to_us) = theirs.into_split();
        let (mut from_origin, mut to_origin) = tokio::io::split(wire);
        // HTTP/2 has no half-closed connections: the end of one direction is the end
        tokio::select! {
            _ = tokio::io::copy(&mut from_us, &mut to_origin) => {}
            _ = tokio::io::copy(&mut from_origin, &mut to_us) => {}
        }
        let _ = timeout(FAREWELL, to_origin.shutdown()).await;
    });
    Ok(ours)
}

/// In Pingora's words, which decide what the client is told.
fn explained(error: io::Error) -> Box<Error> {
    use io::ErrorKind as Is;
    let inner = error.get_ref();
    let what = if inner.is_some_and(|inner| inner.is::<NoTls>() || inner.is::<AnswerFault>()) {
        ErrorType::TLSHandshakeFailure
    } else {
        match error.kind() {
            Is::ConnectionRefused | Is::NotFound => ErrorType::ConnectRefused,
            Is::HostUnreachable | Is::NetworkUnreachable => ErrorType::ConnectNoRoute,
            Is::TimedOut => ErrorType::ConnectTimedout,
            _ => ErrorType::ConnectError,
        }
    };
    Error::because(what, "connecting to the origin", error)
}

/// Whether the address is one of TCP.
fn peer_has_port(address: SocketAddr) -> bool {
    address.ip() != IpAddr::V4(Ipv4Addr::UNSPECIFIED)
}

/// The key of a way and an address in one.
fn key_with(key: u64, address: SocketAddr) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (key, address).hash(&mut hasher);
    hasher.finish()
}
