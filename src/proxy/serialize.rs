//! Writes an answer of the gate as bytes, for requests that Pingora has not seen.

use bytes::Bytes;
use pingora::protocols::http::date::get_cached_date;

use super::fields::titled;
use crate::answer::Answer;

/// Returns the whole answer. `stay`: the connection serves another request after it.
pub fn bytes(answer: &Answer, stay: bool) -> Bytes {
    let mut bytes = Vec::with_capacity(768 + answer.body.len());
    bytes.extend_from_slice(b"HTTP/1.1 ");
    bytes.extend_from_slice(answer.status.as_str().as_bytes());
    bytes.push(b' ');
    bytes.extend_from_slice(answer.status.canonical_reason().unwrap_or_default().as_bytes());
    bytes.extend_from_slice(b"\r\n");
    for (name, value) in &answer.headers {
        field(&mut bytes, titled(name), value.as_bytes());
    }
    field(&mut bytes, "Date", get_cached_date().as_bytes());
    field(&mut bytes, "Connection", if stay { b"keep-alive" } else { b"close" });
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&answer.body);
    Bytes::from(bytes)
}

fn field(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
}
