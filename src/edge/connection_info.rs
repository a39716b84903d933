//! What is known of a client connection before its first request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tls::secure::{ClientIdentity, Secure};
use crate::client::Proto;
use crate::request::Peer;
use crate::units::prefix::fold;
use tidegate_http::proxy_protocol::Source;

/// A client connection: what all its requests have in common.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Position in the settings of the listener that took it.
    pub listener: usize,
    /// Its other end, or the client that a PROXY header named.
    pub peer: Peer,
    /// Whether a PROXY header named `peer`.
    pub conveyed: bool,
    /// What its TLS handshake said; `None` without TLS.
    pub secure: Option<Secure>,
    /// A request was judged.
    begun: AtomicBool,
    left: AtomicBool,
}

impl ConnectionInfo {
    /// Returns a connection that `listener` took from this address; `None` for a socket that has none.
    pub fn new(listener: usize, peer: Option<SocketAddr>) -> ConnectionInfo {
        let peer = peer.map_or(Peer::Unix, |address| Peer::Ip(fold(address.ip())));
        ConnectionInfo {
            listener,
            peer,
            conveyed: false,
            secure: None,
            begun: AtomicBool::new(false),
            left: AtomicBool::new(false),
        }
    }

    /// Returns the connection of the client that a PROXY header named.
    pub fn conveying(self, source: Source) -> ConnectionInfo {
        let peer = match source {
            Source::Peer => return self,
            Source::Address(address) => Peer::Ip(fold(address)),
            Source::Unix => Peer::Unix,
        };
        ConnectionInfo { peer, conveyed: true, ..self }
    }

    /// Returns the connection after its handshake, if it had one.
    pub fn with_secure(self, secure: Option<Secure>) -> ConnectionInfo {
        ConnectionInfo { secure, ..self }
    }

    /// Returns true once: for the first request of the connection.
    pub fn is_first_request(&self) -> bool {
        // no request waits for another's: of two streams in one instant either may be the first
        !self.begun.load(Ordering::Relaxed) && !self.begun.swap(true, Ordering::Relaxed)
    }

    /// Notes that the connection is closed, although a request of it goes on.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`ConnectionInfo::leave`] was called, which the connection's own task does.
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// The name that the client asked for in its handshake.
    pub fn sni(&self) -> Option<&str> {
        self.secure.as_ref()?.sni.as_deref()
    }

    /// The certificate that the client showed in its handshake.
    pub fn identity(&self) -> Option<&ClientIdentity> {
        self.secure.as_ref().map(|secure| &secure.client)
    }

    /// The protocol by which the client reaches the gate.
    pub fn proto(&self) -> Proto {
        if self.secure.is_some() { Proto::Https } else { Proto::Http }
    }
}
