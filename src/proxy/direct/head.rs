//! Heads on the direct lane: from the bytes that the edge has judged to the fields that the steps of a request change, and what
//! Pingora does to heads on its own way.

use bytes::Bytes;
use http::{HeaderName, Version, header};
use memchr::memchr_iter;
use pingora::http::{RequestHeader, ResponseHeader, header_value_from_raw};
use pingora::protocols::http::authority::validate_request_authority;
use pingora::{Error, ErrorType};

use tidegate_http::head::Parser;

/// Fields of a request that never travel further than its connection (RFC 9110 section 7.6.1, with the older names).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
];
const OLDER: [&str; 2] = ["keep-alive", "proxy-connection"];
const NEWER: &str = "http2-settings";

/// The head in these bytes, which were judged: a request line of three words, and fields of one reading each.
pub fn request(bytes: Bytes) -> Option<RequestHeader> {
    let mut ends = memchr_iter(b'\n', &bytes);
    let line_end = ends.next()?;
    let mut words = bytes.get(..line_end)?.split(|byte| *byte == b' ');
    let (method, target) = (words.next()?, words.next()?);
    let mut head = RequestHeader::build(method, target, Some(ends.count().saturating_sub(1))).ok()?;
    head.set_version(Version::HTTP_11);
    let mut parser = Parser { bytes: &bytes, at: line_end + 1 };
    while let Some((name, value)) = parser.field(false).ok()? {
        let value = header_value_from_raw(bytes.slice_ref(value));
        head.append_header(bytes.slice_ref(name), value).ok()?;
    }
    Some(head)
}

/// Takes out what concerns the client's connection only, and what its `Connection` names. The edge has refused a head in which that is more
/// than such fields.
pub fn strip(upstream: &mut RequestHeader) {
    let lines = upstream.headers.get_all(header::CONNECTION).iter();
    let named = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let named: Vec<HeaderName> = named.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect();
    // in Pingora's order, as each removal moves the last field into the gap
    for name in &named {
        upstream.remove_header(name);
    }
    for name in OLDER {
        upstream.remove_header(name);
    }
    for name in &HOP_BY_HOP {
        upstream.remove_header(name);
    }
    upstream.remove_header(NEWER);
}

/// Sees to it that the operator's edits have left a host.
///
/// # Errors
/// They have made one that no request may have.
pub fn check(upstream: &mut RequestHeader) -> pingora::Result<()> {
    if !upstream.headers.contains_key(header::HOST) {
        upstream.insert_header(header::HOST, "")?;
    }
    validate_request_authority(upstream).map_err(Error::into_in)
}

/// Says that the body of an answer, which ends with the origin's connection, comes in chunks, so that the client's can stay.
pub fn chunk(answer: &mut ResponseHeader) -> pingora::Result<()> {
    answer.set_version(Version::HTTP_11);
    answer.insert_header(header::TRANSFER_ENCODING, "chunked")
}

/// The error of a head that no connection can carry.
pub fn unwritable() -> Box<Error> {
    Error::explain(ErrorType::InvalidHTTPHeader, "a request that cannot be written").into_up()
}
