//! All that the floors below the faces may see of a request.
//!
//! A face (live or replay) fills one in; everything below decides from it alone. Nothing here owns or copies: the
//! request borrows the head that the face holds.

use std::net::IpAddr;

use http::{HeaderMap, Method};

/// Who is at the other end of the connection, as the kernel says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A TCP peer, with IPv4-mapped IPv6 already folded to IPv4.
    Ip(IpAddr),
    /// A UNIX-socket peer, which has no address.
    Unix,
}

/// One request's head.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The socket's other end.
    pub peer: Peer,
    /// The method, case-sensitive.
    pub method: &'a Method,
    /// The host without port, in lower case, without a trailing dot.
    pub host: &'a str,
    /// The canonical path: starts with `/`, no query.
    pub path: &'a str,
    /// What follows the first `?`, without it.
    pub query: Option<&'a str>,
    /// All header fields.
    pub headers: &'a HeaderMap,
    /// The name that the client asked for in its TLS handshake (RFC 6066 §3), in lower case; `None` on a plain connection
    /// and where it asked for none.
    pub tls_sni: Option<&'a str>,
}
