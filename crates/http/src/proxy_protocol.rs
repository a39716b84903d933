//! The header that a proxy below HTTP sends before everything else, to say whose connection it passes on: the PROXY protocol,
//! version 1 (a line of text) and version 2 (binary).
//!
//! [`parse`] judges bytes; whether this peer may send a header at all, and how long it may take, is not known here. What has two
//! readings is refused: signs, leading zeros, doubled blanks, families that the specification does not list, a block shorter
//! than its family, a broken checksum. What it allows a receiver to ignore is ignored: the text behind `UNKNOWN`, and the whole
//! block of `LOCAL` and of an unspecified family.
//!
//! Source: Willy Tarreau, *The PROXY protocol, versions 1 & 2* (HAProxy, 2020-03-05), sections 2.1 and 2.2; CRC-32C as in
//! RFC 9260 appendix A.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest line of version 1, its CRLF included (section 2.1).
pub const LONGEST_LINE: usize = 107;

/// The longest header of version 2 that is taken. The largest address block is 216 bytes; what is left is ten times what senders in
/// the field put behind it (names of certificates, identifiers of cloud networks).
pub const LONGEST_BINARY: usize = 2048;

/// What every line of version 1 begins with.
const LINE: &[u8; 6] = b"PROXY ";
/// What every header of version 2 begins with: no request of any protocol on this port can.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length.
const FIXED: usize = 16;

/// A whole header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// How many bytes it takes. The next one is the connection's own first byte.
    pub length: usize,
    /// Whose connection it is.
    pub source: Source,
}

/// Whose connection a proxy passes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The proxy's own, such as a health check, or that of somebody whom it cannot tell: the peer stays who it is.
    Peer,
    /// The client at this address. As it was sent: IPv4-mapped IPv6 is not folded.
    Address(IpAddr),
    /// A client of a UNIX socket on the proxy's machine.
    Unix,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// They begin with something else: a request, or a TLS handshake.
    Absent,
    /// They begin like a header and are none.
    Malformed,
    /// A header over its longest.
    TooLong,
    /// Its checksum says that it was damaged on the way.
    Checksum,
}

/// Judges the header at the front of `bytes`. `Ok(None)` means that it has no end yet and no fault so far, and then all of `bytes`
/// belong to it. The verdict does not depend on how the bytes were cut.
///
/// # Errors
/// They are no header, whatever may follow.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, Fault> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => line(bytes),
        Some(b'\r') => binary(bytes),
        Some(_) => Err(Fault::Absent),
    }
}

/// Whether the bytes that are there are those that the header must begin with; `None` if some are still to come.
fn begins_with(bytes: &[u8], start: &[u8]) -> Option<bool> {
    let shared = bytes.len().min(start.len());
    if bytes.get(..shared) != start.get(..shared) {
        return Some(false);
    }
    (shared == start.len()).then_some(true)
}

/// Version 1.
fn line(bytes: &[u8]) -> Result<Option<Header>, Fault> {
    match begins_with(bytes, LINE) {
        None => return Ok(None),
        Some(false) => return Err(Fault::Absent),
        Some(true) => {}
    }
    let window = bytes.get(..LONGEST_LINE).unwrap_or(bytes);
    let Some(end) = window.iter().position(|byte| !matches!(byte, b' '..=b'~')) else {
        return if bytes.len() >= LONGEST_LINE { Err(Fault::TooLong) } else { Ok(None) };
    };
    // the first byte that is no printable one must be the end of the line
    match (window.get(end), window.get(end + 1)) {
        (Some(b'\r'), Some(b'\n')) => {}
        (Some(b'\r'), None) if bytes.len() < LONGEST_LINE => return Ok(None),
        (Some(b'\r'), None) => return Err(Fault::TooLong),
        _ => return Err(Fault::Malformed),
    }
    let text = window.get(LINE.len()..end).and_then(|text| std::str::from_utf8(text).ok()).ok_or(Fault::Malformed)?;
    Ok(Some(Header { length: end + 2, source: line_source(text).ok_or(Fault::Malformed)? }))
}

/// What stands between `PROXY ` and the end of the line.
fn line_source(text: &str) -> Option<Source> {
    let (family, rest) = text.split_once(' ').unwrap_or((text, ""));
    if family == "UNKNOWN" {
        return Some(Source::Peer);
    }
    let mut parts = rest.split(' ');
    let mut next = || parts.next();
    let (source, destination, from, to) = (next()?, next()?, next()?, next()?);
    if next().is_some() || !is_port(from) || !is_port(to) {
        return None;
    }
    let address = |text: &str| match family {
        "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => None,
    };
    address(destination)?;
    address(source).map(Source::Address)
}

/// 0 to 65535, without leading zeros.
fn is_port(text: &str) -> bool {
    let plain = text == "0" || !text.starts_with('0');
    plain && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Version 2.
fn binary(bytes: &[u8]) -> Result<Option<Header>, Fault> {
    match begins_with(bytes, SIGNATURE) {
        None => return Ok(None),
        Some(false) => return Err(Fault::Absent),
        Some(true) => {}
    }
    let Some(&command) = bytes.get(SIGNATURE.len()) else { return Ok(None) };
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(Fault::Malformed),
    };
    let Some(&family) = bytes.get(SIGNATURE.len() + 1) else { return Ok(None) };
    // of LOCAL the family is ignored
    let addresses = match (is_local, family) {
        (true, _) | (false, 0x00) => 0,
        (false, 0x11 | 0x12) => 12,
        (false, 0x21 | 0x22) => 36,
        (false, 0x31 | 0x32) => 216,
        _ => return Err(Fault::Malformed),
    };
    let Some(&[high, low]) = bytes.get(FIXED - 2..FIXED) else { return Ok(None) };
    let block = usize::from(u16::from_be_bytes([high, low]));
    let length = FIXED + block;
    if length > LONGEST_BINARY {
        return Err(Fault::TooLong);
    }
    if block < addresses {
        return Err(Fault::Malformed);
    }
    let Some(header) = bytes.get(..length) else { return Ok(None) };
    let rest = header.get(FIXED..).unwrap_or_default();
    let source = match (addresses, rest) {
        (12, &[a, b, c, d, ..]) => Source::Address(IpAddr::V4(Ipv4Addr::new(a, b, c, d))),
        (36, _) => {
            let octets: [u8; 16] = *rest.first_chunk().ok_or(Fault::Malformed)?;
            Source::Address(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        (216, _) => Source::Unix,
        _ => return Ok(Some(Header { length, source: Source::Peer })),
    };
    extensions(header, FIXED + addresses)?;
    Ok(Some(Header { length, source }))
}

/// Checks that what follows the addresses are whole type-length-value entries, and the checksum if it is among them.
fn extensions(header: &[u8], from: usize) -> Result<(), Fault> {
    const CRC32C: u8 = 3;
    let mut at = from;
    let mut checksum = None;
    while at < header.len() {
        let Some(&[kind, high, low]) = header.get(at..at + 3) else { return Err(Fault::Malformed) };
        let value = at + 3;
        let end = value + usize::from(u16::from_be_bytes([high, low]));
        let Some(bytes) = header.get(value..end) else { return Err(Fault::Malformed) };
        if kind == CRC32C {
            let sum: [u8; 4] = bytes.try_into().map_err(|_| Fault::Malformed)?;
            if checksum.replace((value, u32::from_be_bytes(sum))).is_some() {
                return Err(Fault::Malformed);
            }
        }
        at = end;
    }
    match checksum {
        Some((place, sum)) if crc32c(header, place..place + 4) != sum => Err(Fault::Checksum),
        _ => Ok(()),
    }
}

/// The Castagnoli checksum of `bytes`, those at `zeroed` taken as zero.
fn crc32c(bytes: &[u8], zeroed: std::ops::Range<usize>) -> u32 {
    /// The polynomial 0x1EDC6F41, its bits in reverse.
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    let sum = bytes.iter().enumerate().fold(u32::MAX, |sum, (at, byte)| {
        let byte = if zeroed.contains(&at) { 0 } else { *byte };
        // bit by bit: some hundred bytes per connection, and only from proxies that send it
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 })
    });
    !sum
}

#[cfg(test)]
mod tests;
