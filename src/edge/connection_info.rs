//! One client connection, as far as it is known before its first request.

use std::net::SocketAddr;

use tokio::sync::Notify;

use super::tls::secure::{ClientIdentity, Secure};
use crate::client::Proto;
use crate::request::Peer;
use crate::units::prefix::fold;
use tidegate_http::proxy_protocol::Source;

/// What all requests of a connection have in common.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Position in the settings of the listener that took it.
    pub listener: usize,
    /// Its other end, or whom a proxy below HTTP passes on.
    pub peer: Peer,
    /// Whether `peer` is what a PROXY header said.
    pub conveyed: bool,
    /// What its handshake said; `None` without TLS.
    pub secure: Option<Secure>,
    left: Notify,
}

impl ConnectionInfo {
    /// A connection that `listener` took from this address, or from a socket that has none.
    pub fn new(listener: usize, peer: Option<SocketAddr>) -> ConnectionInfo {
        let peer = peer.map_or(Peer::Unix, |address| Peer::Ip(fold(address.ip())));
        ConnectionInfo { listener, peer, conveyed: false, secure: None, left: Notify::new() }
    }

    /// The same connection for whom a PROXY header names.
    pub fn conveying(self, source: Source) -> ConnectionInfo {
        let peer = match source {
            Source::Peer => return self,
            Source::Address(address) => Peer::Ip(fold(address)),
            Source::Unix => Peer::Unix,
        };
        ConnectionInfo { peer, conveyed: true, ..self }
    }

    /// The same, by TLS if there was a handshake.
    pub fn with_secure(self, secure: Option<Secure>) -> ConnectionInfo {
        ConnectionInfo { secure, ..self }
    }

    /// The connection is closed, although a request of it goes on.
    pub fn leave(&self) {
        self.left.notify_one();
    }

    /// Ends when [`ConnectionInfo::leave`] was called. For one caller.
    pub async fn has_left(&self) {
        self.left.notified().await;
    }

    /// The name that the client asked for in its handshake.
    pub fn sni(&self) -> Option<&str> {
        self.secure.as_ref()?.sni.as_deref()
    }

    /// Which certificate the client showed in its handshake.
    pub fn identity(&self) -> Option<&ClientIdentity> {
        self.secure.as_ref().map(|secure| &secure.client)
    }

    /// How the client reaches us.
    pub fn proto(&self) -> Proto {
        if self.secure.is_some() { Proto::Https } else { Proto::Http }
    }
}
