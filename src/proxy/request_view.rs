//! A Pingora session's head as the floors below see it.

use std::borrow::Cow;

use pingora::http::RequestHeader;

use crate::edge::connection_info::ConnectionInfo;
use crate::request::{Peer, Request};
use tidegate_http::authority::canonical_host;

/// The parts of a head that are not already there in the form that decisions need. Owns only what had to be changed.
#[derive(Debug)]
pub struct RequestView<'a> {
    info: Option<&'a ConnectionInfo>,
    head: &'a RequestHeader,
    host: Cow<'a, str>,
}

impl<'a> RequestView<'a> {
    /// Reads a head that the connection layer has found unambiguous and whose target it has made canonical. Allocates
    /// only for a host with capitals.
    pub fn read(info: Option<&'a ConnectionInfo>, head: &'a RequestHeader) -> RequestView<'a> {
        RequestView { info, head, host: host(head) }
    }

    /// The request that decisions are made about.
    pub fn request(&self) -> Request<'_> {
        Request {
            peer: self.info.map_or(Peer::Unix, |info| info.peer),
            method: &self.head.method,
            host: &self.host,
            path: self.head.uri.path(),
            query: self.head.uri.query(),
            headers: &self.head.headers,
            tls_sni: self.info.and_then(ConnectionInfo::sni),
        }
    }
}

/// The host without port and trailing dot, in lower case; empty if there is none, as HTTP/1.0 allows.
fn host(head: &RequestHeader) -> Cow<'_, str> {
    let field = head.headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
    let authority = field.or_else(|| head.uri.authority().map(|authority| authority.as_str())).unwrap_or_default();
    canonical_host(authority)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn head(target: &str, host: &str) -> RequestHeader {
        let mut head = RequestHeader::build(Method::GET, target.as_bytes(), None).unwrap();
        head.insert_header("host", host).unwrap();
        head
    }

    #[test]
    fn a_request_is_read_as_it_came() {
        let head = head("/a/b?c=d", "Shop.example.com:8080");
        let facts = RequestView::read(None, &head);
        let request = facts.request();
        assert_eq!((request.path, request.query, request.host), ("/a/b", Some("c=d"), "shop.example.com"));
    }
}
