//! The versions of HTTP that a listener speaks.

use crate::policy::Protocol;

/// What is spoken; never nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// HTTP/2.
    pub h2: bool,
    /// HTTP/1.1.
    pub http1: bool,
}

impl Protocols {
    /// What is spoken where the file does not say: both over TLS, where the handshake agrees on one; HTTP/1.1 without, as nothing
    /// but a program that is told so begins with HTTP/2 there.
    pub const fn by_default(over_tls: bool) -> Protocols {
        Protocols { h2: over_tls, http1: true }
    }

    /// Those that are listed.
    pub fn of(listed: &[Protocol]) -> Protocols {
        Protocols { h2: listed.contains(&Protocol::Http2), http1: listed.contains(&Protocol::Http1) }
    }

    /// In the order of our preference.
    pub fn list(self) -> impl Iterator<Item = Protocol> {
        [(self.h2, Protocol::Http2), (self.http1, Protocol::Http1)]
            .into_iter()
            .filter(|(on, _)| *on)
            .map(|(_, one)| one)
    }

    /// The names that a TLS handshake offers, in the order of our preference.
    pub fn alpn(self) -> Vec<Vec<u8>> {
        let name = |protocol| match protocol {
            Protocol::Http2 => b"h2".to_vec(),
            Protocol::Http1 => b"http/1.1".to_vec(),
        };
        self.list().map(name).collect()
    }
}
