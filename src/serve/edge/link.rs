//! One client connection, as far as it is known before its first request.

use std::net::SocketAddr;

use crate::request::Peer;
use crate::units::prefix::fold;

/// What all requests of a connection have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Position in the settings of the listener that took it.
    pub listener: usize,
    /// Its other end.
    pub peer: Peer,
}

impl Link {
    /// A connection that `listener` took from this address, or from a socket that has none.
    pub fn new(listener: usize, peer: Option<SocketAddr>) -> Link {
        Link { listener, peer: peer.map_or(Peer::Unix, |address| Peer::Ip(fold(address.ip()))) }
    }
}
