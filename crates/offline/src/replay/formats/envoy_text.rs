//! Envoy's default text. The stamp is that of the request's beginning.
//!
//! Source: Envoy, "Access logging: format strings".

use super::address::address;
use super::given::{FORWARDED_FOR, USER_AGENT};
use super::quoted::{last_of, quoted, request_line};
use crate::replay::line::{FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp;

const MILLI: u64 = 1_000_000;

/// Reads `[START] "METHOD PATH PROTOCOL" CODE FLAGS IN OUT DURATION SERVICE "FORWARDED" "AGENT" "ID" "AUTHORITY" "UPSTREAM"`.
pub fn parse(line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Option<Line> {
    let close = memchr::memchr(b']', line)?;
    if line.first() != Some(&b'[') {
        return None;
    }
    parsed.start = stamp::rfc3339(line.get(1..close)?)?;
    let (request, at) = quoted(line, close + 2)?;
    let rest = line.get(at + 1..)?;
    let end = memchr::memchr(b'"', rest)?;
    let mut words = rest.get(..end)?.split(|byte| *byte == b' ');
    parsed.status = u16::try_from(stamp::number(words.next()?)?).ok()?;
    let [_, _, sent, duration] = [words.next()?, words.next()?, words.next()?, words.next()?];
    parsed.bytes = stamp::number(sent).unwrap_or(0);
    parsed.duration = stamp::decimal(duration, MILLI);
    parsed.stamp = parsed.start.saturating_add(parsed.duration.unwrap_or(0));
    let (forwarded, at) = quoted(line, at + 1 + end)?;
    let (agent, at) = quoted(line, at + 1)?;
    let (_, at) = quoted(line, at + 1)?;
    let (authority, _) = quoted(line, at + 1)?;
    parsed.client = last_of(line, forwarded);
    parsed.address = parsed.client.of(line).and_then(address);
    parsed.host = authority;
    let read = request_line(line, request, parsed);
    if read == Line::Request {
        listed(fields, USER_AGENT, agent);
        listed(fields, FORWARDED_FOR, forwarded);
    }
    Some(read)
}

fn listed(fields: &mut Vec<FieldSpan>, name: u16, value: Span) {
    if !value.is_none() {
        fields.push(FieldSpan { name: NameAt::Listed(name), value });
    }
}
