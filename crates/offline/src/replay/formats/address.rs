//! The client's address, in the forms that logs have it.

use std::net::{IpAddr, Ipv4Addr};

use crate::units::prefix::fold;

/// `203.0.113.7`, `2001:db8::7`, with or without brackets.
#[inline]
pub fn address(text: &[u8]) -> Option<IpAddr> {
    if let Some(v4) = ipv4(text) {
        return Some(IpAddr::V4(v4));
    }
    let bare = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
    if !bare.contains(&b':') || bare.len() > 64 {
        return None;
    }
    // an interface's name after the address is the server's own
    let bare = bare.split(|byte| *byte == b'%').next()?;
    std::str::from_utf8(bare).ok()?.parse().ok().map(fold)
}

/// The same with a port behind it, or not.
pub fn address_and_port(text: &[u8]) -> Option<IpAddr> {
    if let Some(end) = text.iter().rposition(|byte| *byte == b':') {
        let (host, port) = text.split_at_checked(end)?;
        let is_port = port.len() > 1 && port.iter().skip(1).all(u8::is_ascii_digit);
        // an IPv6 address with a port has brackets
        if is_port
            && (host.ends_with(b"]") || !host.contains(&b':'))
            && let Some(found) = address(host)
        {
            return Some(found);
        }
    }
    address(text)
}

fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let (a, rest) = part(text)?;
    let (b, rest) = part(rest.strip_prefix(b".")?)?;
    let (c, rest) = part(rest.strip_prefix(b".")?)?;
    let (d, []) = part(rest.strip_prefix(b".")?)? else { return None };
    Some(Ipv4Addr::new(a, b, c, d))
}

/// One of the four numbers, of one digit to three, and what follows.
#[inline]
fn part(text: &[u8]) -> Option<(u8, &[u8])> {
    let digit = |byte: &u8| u16::from(byte - b'0');
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] => {
            Some((u8::try_from(digit(a) * 100 + digit(b) * 10 + digit(c)).ok()?, rest))
        }
        [a @ b'0'..=b'9', b @ b'0'..=b'9', rest @ ..] => Some((u8::try_from(digit(a) * 10 + digit(b)).ok()?, rest)),
        [a @ b'0'..=b'9', rest @ ..] => Some((a - b'0', rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_library_reads_them() {
        for text in ["1.2.3.4", "255.255.255.255", "0.0.0.0", "2001:db8::7", "::1"] {
            assert_eq!(address(text.as_bytes()), text.parse().ok(), "{text}");
        }
        for text in ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1..2.3", "1.2.3.", "host", "1.2.3.4,5.6.7.8", ":::", "-"] {
            assert_eq!(address(text.as_bytes()), None, "{text}");
        }
        assert_eq!(address(b"::ffff:1.2.3.4"), "1.2.3.4".parse().ok());
        assert_eq!(address(b"[2001:db8::7]"), "2001:db8::7".parse().ok());
        assert_eq!(address(b"fe80::1%eth0"), "fe80::1".parse().ok());
    }

    #[test]
    fn a_port_is_passed_over() {
        assert_eq!(address_and_port(b"1.2.3.4:80"), "1.2.3.4".parse().ok());
        assert_eq!(address_and_port(b"[2001:db8::7]:80"), "2001:db8::7".parse().ok());
        assert_eq!(address_and_port(b"2001:db8::7"), "2001:db8::7".parse().ok());
        assert_eq!(address_and_port(b"1.2.3.4"), "1.2.3.4".parse().ok());
        assert_eq!(address_and_port(b"name:80"), None);
    }
}
