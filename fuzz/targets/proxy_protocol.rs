//! The header of the PROXY protocol (`client::proxy_protocol`). The input is the first bytes of a connection.
//!
//! - It is read exactly as a second, slow reading of the specification's text reads it.
//! - The verdict does not depend on how the bytes were cut: a header is complete at its last byte and not before, a fault
//!   stays that fault, and what follows is not looked at.
//! - Nothing is both: what begins with a header is no HTTP request, and no TLS handshake.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tidegate_http::head;
use tidegate_http::head::UnderscoreTwins;
use tidegate_http::path::EscapedSlash;
use tidegate_http::proxy_protocol::{Fault, Header, LONGEST_BINARY, LONGEST_LINE, Source, parse};

use super::cost::{self, USUAL, Work};

/// The signature of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    Some(Box::new(|| {
        let _ = parse(data);
    }))
}

/// The target.
pub fn proxy_protocol(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    let verdict = parse(data);
    assert_eq!(verdict.ok().flatten(), slow(data));
    match verdict {
        Ok(Some(header)) => {
            assert!(header.length <= data.len().min(LONGEST_BINARY));
            let alone = &data[..header.length];
            assert_eq!(parse(alone), verdict, "what follows matters");
            assert_eq!(parse(&alone[..header.length - 1]), Ok(None), "complete before its end");
            assert_ne!(data[0], 0x16, "the first byte of a TLS handshake");
            let limits = head::HeadLimits {
                bytes: 4_096,
                request_line: 2_048,
                fields: 64,
                twins: UnderscoreTwins::Refuse,
                escaped_slash: EscapedSlash::Keep,
            };
            assert!(!matches!(head::parse(data, &limits), Ok(Some(_))), "a request and a header");
            written_again(header);
        }
        Ok(None) => {
            assert!(data.len() < LONGEST_BINARY);
            assert!(begins(data, b"PROXY ") && data.len() < LONGEST_LINE || begins(data, SIGNATURE), "waits for more");
        }
        Err(Fault::Absent) => assert!(!begins(data, b"PROXY ") && !begins(data, SIGNATURE)),
        Err(_) => assert!(data.starts_with(b"PROXY ") || data.starts_with(SIGNATURE)),
    }
    for end in (0..data.len()).step_by(1 + data.len() / 64) {
        let part = parse(&data[..end]);
        assert!(part == Ok(None) || part == verdict, "{end} bytes: {part:?}, all: {verdict:?}");
    }
}

/// Whether the bytes are the beginning of these, or begin with them.
fn begins(data: &[u8], with: &[u8]) -> bool {
    data.iter().zip(with).all(|(one, other)| one == other)
}

/// An address that was read prints as a header that reads the same.
fn written_again(header: Header) {
    let Source::Address(address) = header.source else { return };
    let (family, other) = if address.is_ipv4() { ("TCP4", "192.0.2.1") } else { ("TCP6", "2001:db8::1") };
    let line = format!("PROXY {family} {address} {other} 1 65535\r\n");
    assert_eq!(parse(line.as_bytes()), Ok(Some(Header { length: line.len(), source: header.source })));
}

/// A whole and faultless header; none if it is neither.
fn slow(data: &[u8]) -> Option<Header> {
    if data.starts_with(SIGNATURE) { binary(data) } else { line(data) }
}

/// Section 2.1: one line, five words or `UNKNOWN` and whatever.
fn line(data: &[u8]) -> Option<Header> {
    let length = data.windows(2).position(|two| two == b"\r\n")? + 2;
    let text = std::str::from_utf8(&data[..length - 2]).ok()?;
    let printable = text.chars().all(|char| char == ' ' || char.is_ascii_graphic());
    if length > LONGEST_LINE || !printable {
        return None;
    }
    let words: Vec<&str> = text.split(' ').collect();
    let source = match words[..] {
        ["PROXY", "UNKNOWN", ..] => Source::Peer,
        ["PROXY", "TCP4", from, to, port, other] if is_port(port) && is_port(other) => {
            to.parse::<Ipv4Addr>().ok()?;
            Source::Address(from.parse::<Ipv4Addr>().ok()?.into())
        }
        ["PROXY", "TCP6", from, to, port, other] if is_port(port) && is_port(other) => {
            to.parse::<Ipv6Addr>().ok()?;
            Source::Address(from.parse::<Ipv6Addr>().ok()?.into())
        }
        _ => return None,
    };
    Some(Header { length, source })
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port.to_string() == text)
}

/// Section 2.2: sixteen bytes, a block of addresses, and entries behind it.
fn binary(data: &[u8]) -> Option<Header> {
    let (command, family) = (*data.get(12)?, *data.get(13)?);
    let block = usize::from(*data.get(14)?) << 8 | usize::from(*data.get(15)?);
    let header = data.get(..16 + block).filter(|header| header.len() <= LONGEST_BINARY)?;
    let (addresses, source) = match (command, family) {
        (0x20, _) | (0x21, 0x00) => return Some(Header { length: header.len(), source: Source::Peer }),
        (0x21, 0x11 | 0x12) => (12, header.get(16..20).and_then(|octets| <[u8; 4]>::try_from(octets).ok())?.into()),
        (0x21, 0x21 | 0x22) => (36, header.get(16..32).and_then(|octets| <[u8; 16]>::try_from(octets).ok())?.into()),
        (0x21, 0x31 | 0x32) => (216, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        _ => return None,
    };
    let mut rest = header.get(16 + addresses..)?;
    let mut sums = Vec::new();
    while !rest.is_empty() {
        let length = usize::from(*rest.get(1)?) << 8 | usize::from(*rest.get(2)?);
        let value = rest.get(3..3 + length)?;
        if rest[0] == 3 {
            sums.push((header.len() - rest.len() + 3, value));
        }
        rest = &rest[3 + length..];
    }
    let sound = match sums[..] {
        [] => true,
        [(at, value)] if value.len() == 4 => {
            let mut zeroed = header.to_vec();
            zeroed[at..at + 4].fill(0);
            checksum(&zeroed).to_be_bytes() == *value
        }
        _ => false,
    };
    let source = if addresses == 216 { Source::Unix } else { Source::Address(source) };
    sound.then_some(Header { length: header.len(), source })
}

/// CRC-32C by its definition: the remainder of a division of polynomials, most significant bit first, over bytes and with
/// a result whose bits are in reverse.
fn checksum(bytes: &[u8]) -> u32 {
    let mut remainder = u32::MAX;
    for byte in bytes {
        remainder ^= u32::from(byte.reverse_bits()) << 24;
        for _ in 0..8 {
            let carry = remainder >> 31 == 1;
            remainder = remainder << 1 ^ if carry { 0x1edc_6f41 } else { 0 };
        }
    }
    !remainder.reverse_bits()
}
