//! One client connection, as far as it is known before its first request.

use std::net::SocketAddr;

use crate::client::proxy_protocol::Source;
use crate::request::Peer;
use crate::units::prefix::fold;

/// What all requests of a connection have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Position in the settings of the listener that took it.
    pub listener: usize,
    /// Its other end, or whom a proxy below HTTP passes on.
    pub peer: Peer,
    /// Whether `peer` is what a PROXY header said.
    pub conveyed: bool,
}

impl Link {
    /// A connection that `listener` took from this address, or from a socket that has none.
    pub fn new(listener: usize, peer: Option<SocketAddr>) -> Link {
        let peer = peer.map_or(Peer::Unix, |address| Peer::Ip(fold(address.ip())));
        Link { listener, peer, conveyed: false }
    }

    /// The same connection for whom a PROXY header names.
    pub fn conveying(self, source: Source) -> Link {
        let peer = match source {
            Source::Peer => return self,
            Source::Address(address) => Peer::Ip(fold(address)),
            Source::Unix => Peer::Unix,
        };
        Link { peer, conveyed: true, ..self }
    }
}
