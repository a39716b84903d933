//! HAProxy's HTTP format (`option httplog`). The stamp is that of the request's beginning, in the zone of the machine that wrote
//! it, which the log does not say: it is taken for UTC.
//!
//! Source: HAProxy Configuration Manual, 8.2.3 "HTTP log format".

use super::address::address_and_port;
use super::quoted::request_line;
use crate::replay::line::{Line, Parsed, Span};
use crate::replay::stamp;

/// Reads one line.
pub fn parse(line: &mut [u8], parsed: &mut Parsed) -> Option<Line> {
    let first = memchr::memchr(b' ', line)?;
    let client = Span::new(0, first);
    parsed.client = client;
    parsed.address = Some(address_and_port(client.of(line)?)?);
    let close = first + memchr::memchr(b']', line.get(first..)?)?;
    if line.get(first + 1) != Some(&b'[') {
        return None;
    }
    parsed.start = stamp::common(line.get(first + 2..close)?)?;
    let rest = line.get(close + 2..)?;
    let mut words = rest.split(|byte| *byte == b' ');
    let frontend = words.next()?;
    if frontend.ends_with(b":") {
        // a connection that ended before its first request, such as in its TLS handshake
        return Some(Line::NoRequest);
    }
    let [_, timers, status, bytes] = [words.next()?, words.next()?, words.next()?, words.next()?];
    parsed.status = u16::try_from(stamp::number(status).unwrap_or(0)).ok()?;
    parsed.bytes = stamp::number(bytes.strip_prefix(b"+").unwrap_or(bytes))?;
    // TR/Tw/Tc/Tr/Ta; -1 for what did not happen, + in front when the log was written before the end
    let total = timers.rsplit(|byte| *byte == b'/').next()?;
    parsed.duration = stamp::decimal(total.strip_prefix(b"+").unwrap_or(total), 1_000_000);
    parsed.stamp = parsed.start.saturating_add(parsed.duration.unwrap_or(0));
    // captured headers may stand before it, in braces
    let quote = close + 2 + memchr::memchr(b'"', rest)?;
    // nothing is escaped; the quote that ends the line ends the request, which is cut where it is too long
    let end = memchr::memrchr(b'"', line).filter(|end| *end > quote).unwrap_or(line.len());
    let request = Span::new(quote + 1, end);
    if matches!(request.of(line), Some(b"<BADREQ>")) {
        return Some(Line::NoRequest);
    }
    Some(request_line(line, request, parsed))
}
