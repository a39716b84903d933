//! Host names as they stand in `Host` and in absolute targets (RFC 9110 section 4.2, RFC 3986 section 3.2).
//!
//! Strict on purpose: letters, digits, `-`, `.`, `_`, or an IPv6 address in brackets, and behind a colon a port from 1 to 65535,
//! or nothing (RFC 3986 section 3.2.3), which is the same as no colon. Userinfo, escapes, empty labels and zone identifiers have no honest use here, and readers differ on them.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use memchr::memchr;

use super::head::scan::{HOST, run_end};

/// The longest name DNS can hold, with its trailing dot.
const NAME_MAX: usize = 254;

/// A valid `Host`: the name without its port, as it was written; `None` if it is not valid.
pub fn host_name(authority: &[u8]) -> Option<&[u8]> {
    let (name, port) = if authority.first() == Some(&b'[') {
        let end = authority.iter().position(|&byte| byte == b']')?;
        let address = std::str::from_utf8(authority.get(1..end)?).ok()?;
        address.parse::<Ipv6Addr>().ok()?;
        authority.split_at_checked(end + 1)?
    } else {
        let end = run_end(authority, 0, HOST);
        let (name, port) = authority.split_at_checked(end)?;
        if !is_name(name) {
            return None;
        }
        (name, port)
    };
    is_port(port).then_some(name)
}

/// The authority without the colon of an empty port.
pub fn without_empty_port(authority: &[u8]) -> &[u8] {
    authority.strip_suffix(b":").unwrap_or(authority)
}

/// The host that routes match: without port, in lower case, without a trailing dot; empty when there is none.
///
/// The argument is a `Host` that the head parser accepted; of any other, whatever stands before its port.
pub fn canonical_host(authority: &str) -> Cow<'_, str> {
    let name = match memchr(b':', authority.as_bytes()) {
        None => authority,
        Some(_) => host_name(authority.as_bytes()).and_then(|name| authority.get(..name.len())).unwrap_or(authority),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().fold(false, |any, byte| any | byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

fn is_name(name: &[u8]) -> bool {
    let mut previous = b'.';
    for &byte in name {
        // an empty label: at the front or between two dots
        if byte == b'.' && previous == b'.' {
            return false;
        }
        previous = byte;
    }
    !name.is_empty() && name.len() <= NAME_MAX
}

fn is_port(port: &[u8]) -> bool {
    match port.split_first() {
        None | Some((b':', [])) => true,
        Some((b':', digits)) if (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) => {
            let number = digits.iter().fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0'));
            (1..=65_535).contains(&number)
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_hosts_are_read_without_their_port() {
        for (host, name) in [
            ("example.com", "example.com"),
            ("Example.COM.:443", "Example.COM."),
            ("localhost:8080", "localhost"),
            ("192.0.2.1:65535", "192.0.2.1"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
            ("[::1]", "[::1]"),
            ("example.com:", "example.com"),
            ("[::1]:", "[::1]"),
            ("a_b.internal", "a_b.internal"),
        ] {
            assert_eq!(host_name(host.as_bytes()), Some(name.as_bytes()), "{host}");
        }
    }

    #[test]
    fn dishonest_hosts_are_refused() {
        for host in [
            "",
            ":80",
            "a@b",
            "a:b@c",
            ":",
            "a::",
            "a:0",
            "a:65536",
            "a:123456",
            "a:8 0",
            "a:+80",
            "a b",
            "a/b",
            "a?b",
            "a%41",
            "a,b",
            "a..b",
            ".a",
            ".",
            "[::1",
            "[::1]x",
            "[fe80::1%25eth0]",
            "[v1.x]",
            "::1",
            "caf\u{e9}",
            "a\\b",
            "a#",
        ] {
            assert_eq!(host_name(host.as_bytes()), None, "{host}");
        }
        assert_eq!(host_name(&[b'a'; 255]), None);
    }

    #[test]
    fn one_host_has_one_spelling() {
        assert_eq!(canonical_host("Example.COM.:443"), "example.com");
        assert_eq!(canonical_host("example.com"), "example.com");
        assert_eq!(canonical_host("example.com:"), "example.com");
        assert_eq!(canonical_host("[2001:DB8::1]:80"), "[2001:db8::1]");
        assert_eq!(canonical_host(""), "");
    }
}
