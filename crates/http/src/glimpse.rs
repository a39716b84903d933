//! The parts of a refused head for its line in the access log: what it asked for, as far as that can be seen, and nothing that
//! the line of an accepted request would not hold. No decision is made from it.

use http::Method;
use http::request::Parts;

use super::head::scan::{METHOD, is, run_end};

/// No registered method is longer than 17.
const LONGEST_METHOD: usize = 32;

/// The first look at a head; texts are empty where there is nothing to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Glimpse<'a> {
    /// What it came by.
    pub protocol: &'static str,
    /// The method.
    pub method: &'a str,
    /// The host without port.
    pub host: &'a [u8],
    /// The path as it was sent, without query.
    pub path: &'a [u8],
}

impl<'a> Glimpse<'a> {
    /// Of the bytes that came by HTTP/1. A target with a host of its own is left out, as it may hold a password.
    pub fn of_bytes(bytes: &'a [u8]) -> Glimpse<'a> {
        let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
        let nothing = Glimpse { protocol: "h1", ..Glimpse::default() };
        let end = run_end(bytes.get(..=LONGEST_METHOD).unwrap_or(bytes), 0, METHOD);
        let Some((method, rest)) = bytes.split_at_checked(end) else { return nothing };
        let (Some(target), Ok(method)) = (rest.strip_prefix(b" "), std::str::from_utf8(method)) else { return nothing };
        let path = if target.first() == Some(&b'/') { without_query(target) } else { &[] };
        Glimpse { method, path, ..nothing }
    }

    /// Of a head that came by HTTP/2.
    pub fn of_parts(head: &'a Parts) -> Glimpse<'a> {
        let is_plain = |method: &&Method| method.as_str().bytes().all(|byte| is(byte, METHOD));
        Glimpse {
            protocol: "h2",
            method: Some(&head.method).filter(is_plain).map_or("", Method::as_str),
            host: head.uri.host().unwrap_or_default().as_bytes(),
            path: head.uri.path().as_bytes(),
        }
    }
}

fn without_query(target: &[u8]) -> &[u8] {
    let ends = |byte: &u8| matches!(byte, b'?' | b'#' | b' ' | b'\t' | b'\r' | b'\n');
    let end = target.iter().position(ends).unwrap_or(target.len());
    target.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_told_as_far_as_it_can_be_seen() {
        for (bytes, method, path) in [
            ("GET /a/../b?token=secret HTTP/1.1\r\n", "GET", "/a/../b"),
            ("\r\nPOST /a#b HTTP/1.1\r\n", "POST", "/a"),
            ("GET /a", "GET", "/a"),
            ("GET http://user:secret@a/b HTTP/1.1\r\n", "GET", ""),
            ("get / HTTP/1.1\r\n", "", ""),
            ("GET\t/ HTTP/1.1\r\n", "", ""),
            ("GETGETGETGETGETGETGETGETGETGETGETGET / HTTP/1.1\r\n", "", ""),
            ("\u{16}\u{3}\u{1}", "", ""),
            ("", "", ""),
        ] {
            let seen = Glimpse { protocol: "h1", method, host: b"", path: path.as_bytes() };
            assert_eq!(Glimpse::of_bytes(bytes.as_bytes()), seen, "{bytes:?}");
        }
    }

    #[test]
    fn a_head_of_http_2_is_told_without_query_and_password() {
        let request = http::Request::builder().uri("https://user:secret@a.example:8443/b?token=secret");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let seen = Glimpse { protocol: "h2", method: "GET", host: b"a.example", path: b"/b" };
        assert_eq!(Glimpse::of_parts(&parts), seen);
    }
}
