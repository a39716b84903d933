//! The head of a request on the direct lane: from the bytes that the edge has judged to those that the origin gets.

use std::borrow::Cow;
use std::ops::Range;
use std::str;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use pingora::{Error, ErrorType};

use super::super::fields::Name;
use super::super::request_view::{RequestHead, WholeHead, read_of};
use crate::answer::{Form, cors};
use tidegate_http::authority::canonical_host;
use tidegate_http::head::fields::plain_number;
use tidegate_http::head::{Body, Head};
use tidegate_http::lines::{Lines, Lookup, Unwritable};
use tidegate_http::ranges::LineRanges;

mod of_http2;

/// Fields of a request that never travel further than its connection (RFC 9110 section 7.6.1, with the older names).
const HOP_BY_HOP: [&[u8]; 10] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"http2-settings",
];

/// A head: all lines of it, and beside them those that a decision may read.
#[derive(Debug, Default)]
pub struct LaneHead {
    method: Method,
    /// The canonical target.
    target: String,
    /// Where its path ends.
    path: usize,
    /// The canonical host. Kept, as a refusal asks for it twice: to find it again is 2 % of its instructions.
    host: String,
    version: Version,
    body: Body,
    hop_by_hop: bool,
    lines: Lines,
    read: HeaderMap,
    /// Of those, what is in use and what will be.
    values: BytesMut,
}

impl LaneHead {
    /// Takes the place of the one before: the head at the front of `bytes`, whose lines stand there, and of which decisions may read the
    /// fields of these names. `None` if the bytes are not those of the head.
    pub fn read(&mut self, head: &Head, bytes: &[u8], lines: &LineRanges, names: &[HeaderName]) -> Option<()> {
        self.method = Method::from_bytes(bytes.get(head.method.clone())?).ok()?;
        self.lines.take(bytes.get(..head.end)?, lines);
        let target = match &head.canonical_target {
            Some(target) => target.as_str(),
            None => str::from_utf8(bytes.get(head.target.clone())?).ok()?,
        };
        self.target.clear();
        self.target.push_str(target);
        self.path = memchr::memchr(b'?', target.as_bytes()).unwrap_or(target.len());
        self.version = match head.version {
            tidegate_http::head::Version::Http10 => Version::HTTP_10,
            tidegate_http::head::Version::Http11 => Version::HTTP_11,
        };
        self.body = head.body;
        self.hop_by_hop = head.hop_by_hop;
        self.gather(names)
    }

    /// Copies the lines that a decision may read.
    fn gather(&mut self, names: &[HeaderName]) -> Option<()> {
        self.read.clear();
        // nobody has those of the request before any more, so that this is their memory again
        self.values.reserve(self.lines.bytes());
        for name in &*read_of(&self.method, names) {
            for value in self.lines.lines(name) {
                self.values.extend_from_slice(value);
                let value = HeaderValue::from_maybe_shared(self.values.split().freeze()).ok()?;
                self.read.try_append(name, value).ok()?;
            }
        }
        self.note_host();
        Some(())
    }

    fn note_host(&mut self) {
        let authority = self.read.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        self.host.clear();
        self.host.push_str(&canonical_host(authority));
    }

    /// How its body ends.
    pub fn body(&self) -> Body {
        self.body
    }

    /// Whether the client waits for `100 Continue`, or says so.
    pub fn expects(&self) -> bool {
        self.lines.has(&header::EXPECT)
    }

    /// Whether a field concerns the client's connection only.
    pub fn has_hop_by_hop(&self) -> bool {
        self.hop_by_hop
    }

    /// The memory that is kept for the next one, in bytes.
    pub fn capacity(&self) -> usize {
        self.target.capacity() + self.host.capacity() + self.lines.capacity() + self.values.capacity()
    }

    /// Makes `upstream` the lines that travel on: without those that concern the client's connection only, and what its `Connection`
    /// names. The edge has refused a head in which that is more than such fields.
    ///
    /// # Errors
    /// None that a head which was judged can cause.
    pub fn travels_on(&self, upstream: &mut Lines) -> pingora::Result<()> {
        upstream.copy(&self.lines);
        if !self.hop_by_hop {
            return Ok(());
        }
        for line in self.lines.lines(&header::CONNECTION) {
            for named in line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                upstream.remove(named);
            }
        }
        for name in HOP_BY_HOP {
            upstream.remove(name);
        }
        if self.body == Body::Chunked {
            // that of our connection: its chunks are made anew
            upstream.add(b"Transfer-Encoding", b"chunked").map_err(unwritable)?;
        }
        Ok(())
    }

    /// Writes the request line and these lines.
    pub fn write(&self, lines: &Lines, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.target.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        lines.write(out);
    }

    fn part(&self, part: Range<usize>) -> &str {
        self.target.get(part).unwrap_or_default()
    }
}

impl RequestHead for LaneHead {
    fn method(&self) -> &Method {
        &self.method
    }

    fn path(&self) -> &str {
        self.part(0..self.path)
    }

    fn query(&self) -> Option<&str> {
        self.target.get(self.path + 1..)
    }

    fn authority(&self) -> &str {
        self.read.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
    }

    fn host(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }

    fn fields(&self) -> &HeaderMap {
        &self.read
    }

    fn form(&self) -> Form {
        Form::of_lines(&self.method, self.lines.first(&header::CONTENT_TYPE), self.lines.lines(&header::ACCEPT))
    }

    fn origin(&self) -> Option<HeaderValue> {
        let mut found = HeaderMap::new();
        for value in self.lines.lines(&header::ORIGIN) {
            found.append(header::ORIGIN, HeaderValue::from_bytes(value).ok()?);
        }
        cors::origin(&found).cloned()
    }

    fn put(&mut self, name: HeaderName, written: Option<&'static str>, line: HeaderValue) -> pingora::Result<()> {
        let spelling = written.map_or(Name::Of(&name), Name::Spelled);
        self.lines.set_value(spelling.written().as_bytes(), &line).map_err(unwritable)?;
        let is_host = name == header::HOST;
        self.read.insert(name, line);
        if is_host {
            self.note_host();
        }
        Ok(())
    }

    fn remove(&mut self, name: &HeaderName) {
        self.lines.remove(name.as_str().as_bytes());
        self.read.remove(name);
        if *name == header::HOST {
            self.note_host();
        }
    }

    fn remove_where(&mut self, may_be: impl Fn(&[u8]) -> bool, unwanted: impl Fn(&str) -> bool) {
        let before = self.lines.len();
        super::super::fields::Fields::remove_where(&mut self.lines, may_be, &unwanted);
        if self.lines.len() < before {
            let names: Vec<HeaderName> = self.read.keys().filter(|name| unwanted(name.as_str())).cloned().collect();
            for name in names {
                self.read.remove(name);
            }
            self.note_host();
        }
    }
}

impl WholeHead for LaneHead {
    fn version(&self) -> Version {
        self.version
    }

    fn content_length(&self) -> Option<u64> {
        match self.body {
            Body::Length(length) => Some(length),
            Body::None | Body::Chunked => None,
        }
    }
}

/// How much body follows a head with these lines. What it says of that was judged as it came, and policies cannot edit it.
pub fn body(upstream: &Lines) -> Body {
    if upstream.has(&header::TRANSFER_ENCODING) {
        return Body::Chunked;
    }
    match upstream.first(&header::CONTENT_LENGTH) {
        Some(length) => Body::Length(plain_number(length).unwrap_or(0)),
        None => Body::None,
    }
}

/// Sees to it that the operator's edits have left a host.
///
/// # Errors
/// They have made one that no request may have.
pub fn check(upstream: &mut Lines) -> pingora::Result<()> {
    let mut hosts = upstream.lines(&header::HOST);
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() || host.is_some_and(|host| host.contains(&b'@')) {
        return Err(
            Error::explain(ErrorType::InvalidHTTPHeader, "a request with two hosts, or none that is one").into_in()
        );
    }
    if host.is_none() {
        drop(hosts);
        upstream.add(b"Host", b"").map_err(unwritable)?;
    }
    Ok(())
}

/// The error of a head that no connection can carry.
fn unwritable(error: Unwritable) -> Box<Error> {
    Error::because(ErrorType::InvalidHTTPHeader, "a request that cannot be written", error).into_in()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_http::head::fields::UnderscoreTwins;
    use tidegate_http::head::{HeadLimits, parse_noting};
    use tidegate_http::path::EscapedSlash;

    fn head(text: &str) -> LaneHead {
        let limits = HeadLimits {
            bytes: 4096,
            request_line: 1024,
            fields: 50,
            twins: UnderscoreTwins::Refuse,
            escaped_slash: EscapedSlash::Keep,
        };
        let mut lines = LineRanges::default();
        let parsed = parse_noting(text.as_bytes(), &limits, &mut lines).expect("no fault").expect("whole");
        let mut head = LaneHead::default();
        head.read(&parsed, text.as_bytes(), &lines, &[header::HOST, header::COOKIE]).expect("the head of these bytes");
        head
    }

    fn forwarded(head: &LaneHead) -> String {
        let (mut upstream, mut out) = (Lines::default(), Vec::new());
        head.travels_on(&mut upstream).unwrap();
        head.write(&upstream, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_travels_on_is_what_was_judged_without_what_concerns_the_connection() {
        let head = head(
            "\r\nGET http://a.test/b?c HTTP/1.1\r\nHOST: a.test\r\nConnection: x-Mine, close\r\nX-Mine: 1\r\nTE: trailers\r\ncookie: d\r\nAccept:  \t*/* \r\n\r\nGET /next",
        );
        assert_eq!(forwarded(&head), "GET /b?c HTTP/1.1\r\nHOST: a.test\r\ncookie: d\r\nAccept: */*\r\n\r\n");
        assert_eq!((head.path(), head.query(), head.authority()), ("/b", Some("c"), "a.test"));
        assert_eq!(head.fields().len(), 2);
    }

    #[test]
    fn edits_are_seen_by_decisions_and_by_the_origin() {
        let mut head = head("GET / HTTP/1.1\r\nHost: a\r\nCookie: a\r\nX-Gone: 1\r\nX-Kept: 2\r\ncookie: b\r\n\r\n");
        head.put(header::COOKIE, None, HeaderValue::from_static("b")).unwrap();
        head.remove_where(|name| name == b"X-Gone", |name| name.starts_with("x-"));
        assert_eq!(forwarded(&head), "GET / HTTP/1.1\r\nHost: a\r\ncookie: b\r\nX-Kept: 2\r\n\r\n");
        assert_eq!(head.fields().get_all(header::COOKIE).iter().count(), 1);
        head.remove(&header::COOKIE);
        assert_eq!(forwarded(&head), "GET / HTTP/1.1\r\nHost: a\r\nX-Kept: 2\r\n\r\n");
        assert!(!head.fields().contains_key(header::COOKIE));
    }

    #[test]
    fn a_head_without_a_host_gets_an_empty_one_and_one_with_two_is_refused() {
        let mut lines = Lines::default();
        check(&mut lines).unwrap();
        assert!(lines.iter().eq([(&b"Host"[..], &b""[..])]));
        lines.add(b"host", b"b").unwrap();
        assert!(check(&mut lines).is_err());
        let mut lines = Lines::default();
        lines.add(b"host", b"user@b").unwrap();
        assert!(check(&mut lines).is_err());
    }
}
