//! A request's head as decisions read it.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use memchr::{memchr, memchr_iter};
use pingora::http::RequestHeader;

use super::fields::Fields;
use crate::answer::{Form, cors};
use crate::edge::connection_info::ConnectionInfo;
use crate::request::{NOT_OF_PREFLIGHTS, PREFLIGHT_FIELDS, Peer, Request};
use tidegate_http::authority::canonical_host;
use tidegate_http::head::Head;

/// A head that can be judged: Pingora's, or the one at the edge.
pub trait RequestHead {
    /// The method.
    fn method(&self) -> &Method;
    /// The canonical path.
    fn path(&self) -> &str;
    /// What follows the first `?`.
    fn query(&self) -> Option<&str>;
    /// The `Host` field, or the target's authority; empty if there is neither, as HTTP/1.0 allows.
    fn authority(&self) -> &str;
    /// The canonical host of [`authority`](RequestHead::authority).
    fn host(&self) -> Cow<'_, str> {
        canonical_host(self.authority())
    }
    /// The fields; at least those that a decision may read.
    fn fields(&self) -> &HeaderMap;
    /// How the client wants an answer of the gate.
    fn form(&self) -> Form;
    /// The `Origin` field; `None` if there is none, or several.
    fn origin(&self) -> Option<HeaderValue>;
    /// Replaces all lines of a field by one; `written` is the spelling of its name on the wire.
    ///
    /// # Errors
    /// A line that no head can hold.
    fn put(&mut self, name: HeaderName, written: Option<&'static str>, line: HeaderValue) -> pingora::Result<()>;
    /// Removes all lines of a field.
    fn remove(&mut self, name: &HeaderName);
    /// Removes the fields of which this is true, as [`Fields::remove_where`] does.
    fn remove_where(&mut self, may_be: impl Fn(&[u8]) -> bool, unwanted: impl Fn(&str) -> bool);
}

/// A head with all that its request needs behind the decision.
pub trait WholeHead: RequestHead + Send + Sync {
    /// The version that the client speaks.
    fn version(&self) -> Version;
    /// The length of the body that follows, if the head says one.
    fn content_length(&self) -> Option<u64>;
}

impl RequestHead for RequestHeader {
    fn method(&self) -> &Method {
        &self.method
    }

    fn path(&self) -> &str {
        self.uri.path()
    }

    fn query(&self) -> Option<&str> {
        self.uri.query()
    }

    fn authority(&self) -> &str {
        let field = self.headers.get(header::HOST).and_then(|value| value.to_str().ok());
        field.or_else(|| self.uri.authority().map(|authority| authority.as_str())).unwrap_or_default()
    }

    fn fields(&self) -> &HeaderMap {
        &self.headers
    }

    fn form(&self) -> Form {
        Form::of(&self.method, &self.headers)
    }

    fn origin(&self) -> Option<HeaderValue> {
        cors::origin(&self.headers).cloned()
    }

    fn put(&mut self, name: HeaderName, written: Option<&'static str>, line: HeaderValue) -> pingora::Result<()> {
        match written {
            Some(written) => self.insert_header(written, line),
            None => self.insert_header(name, line),
        }
    }

    fn remove(&mut self, name: &HeaderName) {
        self.remove_header(name);
    }

    fn remove_where(&mut self, may_be: impl Fn(&[u8]) -> bool, unwanted: impl Fn(&str) -> bool) {
        Fields::remove_where(self, may_be, unwanted);
    }
}

impl WholeHead for RequestHeader {
    fn version(&self) -> Version {
        self.version
    }

    fn content_length(&self) -> Option<u64> {
        self.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok())
    }
}

/// A valid head in HTTP/1 that Pingora has not read: only the fields that a decision may read are taken out of its bytes.
pub struct EdgeHead<'a> {
    head: &'a Head,
    bytes: &'a [u8],
    method: Method,
    path: &'a str,
    query: Option<&'a str>,
    fields: HeaderMap,
}

impl<'a> EdgeHead<'a> {
    /// Reads the request line and the fields of these names, and of `OPTIONS` those that a preflight is known by, from the head at the front of `bytes`.
    pub fn read(head: &'a Head, bytes: &'a [u8], names: &[HeaderName]) -> Option<EdgeHead<'a>> {
        let method = Method::from_bytes(bytes.get(head.method.clone())?).ok()?;
        let target = match &head.canonical_target {
            Some(target) => target.as_str(),
            None => std::str::from_utf8(bytes.get(head.target.clone())?).ok()?,
        };
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let fields = fields(head, bytes, &read_of(&method, names));
        Some(EdgeHead { head, bytes, method, path, query, fields })
    }
}

impl RequestHead for EdgeHead<'_> {
    fn method(&self) -> &Method {
        &self.method
    }

    fn path(&self) -> &str {
        self.path
    }

    fn query(&self) -> Option<&str> {
        self.query
    }

    fn authority(&self) -> &str {
        self.fields.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
    }

    fn fields(&self) -> &HeaderMap {
        &self.fields
    }

    fn form(&self) -> Form {
        let of = |wanted: HeaderName| {
            let lines = lines(self.head, self.bytes);
            lines.filter(move |(name, _)| name.eq_ignore_ascii_case(wanted.as_str().as_bytes())).map(|(_, value)| value)
        };
        Form::of_lines(&self.method, of(header::CONTENT_TYPE).next(), of(header::ACCEPT))
    }

    fn origin(&self) -> Option<HeaderValue> {
        cors::origin(&fields(self.head, self.bytes, &[header::ORIGIN])).cloned()
    }

    fn put(&mut self, name: HeaderName, _written: Option<&'static str>, line: HeaderValue) -> pingora::Result<()> {
        self.fields.insert(name, line);
        Ok(())
    }

    fn remove(&mut self, name: &HeaderName) {
        self.fields.remove(name);
    }

    fn remove_where(&mut self, may_be: impl Fn(&[u8]) -> bool, unwanted: impl Fn(&str) -> bool) {
        let goes = |name: &&HeaderName| may_be(name.as_str().as_bytes()) && unwanted(name.as_str());
        let names: Vec<HeaderName> = self.fields.keys().filter(goes).cloned().collect();
        for name in names {
            self.fields.remove(name);
        }
    }
}

/// The names of the fields that a decision may read, of a request with this method: of `OPTIONS` those that a preflight is known by, too.
pub fn read_of<'a>(method: &Method, names: &'a [HeaderName]) -> Cow<'a, [HeaderName]> {
    if method != Method::OPTIONS {
        return Cow::Borrowed(names);
    }
    let of_body = [header::CONTENT_LENGTH];
    let more = PREFLIGHT_FIELDS.iter().chain(&NOT_OF_PREFLIGHTS).chain(&of_body).filter(|name| !names.contains(name));
    Cow::Owned(names.iter().chain(more).cloned().collect())
}

/// Names and values, line by line. In a valid head a line is a name, a colon and a value.
fn lines<'a>(head: &Head, bytes: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let lines = bytes.get(head.target.end..head.end).unwrap_or_default();
    let mut begin = 0;
    // the first piece is the end of the request line, and the last is empty
    memchr_iter(b'\n', lines).filter_map(move |end| {
        let line = lines.get(begin..end).unwrap_or_default();
        begin = end + 1;
        let (name, value) = line.split_at(memchr(b':', line)?);
        Some((name, value.get(1..).unwrap_or_default().trim_ascii()))
    })
}

/// The fields of these names.
fn fields(head: &Head, bytes: &[u8], names: &[HeaderName]) -> HeaderMap {
    let mut found = HeaderMap::new();
    for (name, value) in lines(head, bytes) {
        let Some(name) = names.iter().find(|wanted| wanted.as_str().as_bytes().eq_ignore_ascii_case(name)) else {
            continue;
        };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            found.append(name.clone(), value);
        }
    }
    found
}

/// The request that decisions are made about. Owns only its host, where that had to be changed.
#[derive(Debug)]
pub struct RequestView<'a> {
    host: Cow<'a, str>,
    /// All of it but its host.
    rest: Request<'a>,
}

impl<'a> RequestView<'a> {
    /// Reads a head that the edge has found unambiguous and whose target is canonical. Allocates only for a host with
    /// capitals.
    pub fn of(info: Option<&'a ConnectionInfo>, head: &'a impl RequestHead) -> RequestView<'a> {
        let rest = Request {
            peer: peer_of(info),
            method: head.method(),
            host: "",
            path: head.path(),
            query: head.query(),
            headers: head.fields(),
            tls_sni: info.and_then(ConnectionInfo::sni),
        };
        RequestView { host: head.host(), rest }
    }

    /// The request.
    pub fn request(&self) -> Request<'_> {
        Request { host: &self.host, ..self.rest }
    }
}

/// The connection's other end; that of a UNIX socket where no connection is known.
pub fn peer_of(info: Option<&ConnectionInfo>) -> Peer {
    info.map_or(Peer::Unix, |info| info.peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_came() {
        let mut head = RequestHeader::build(Method::GET, b"/a/b?c=d", None).unwrap();
        head.insert_header("host", "Shop.example.com:8080").unwrap();
        let view = RequestView::of(None, &head);
        let request = view.request();
        assert_eq!((request.path, request.query, request.host), ("/a/b", Some("c=d"), "shop.example.com"));
    }
}
