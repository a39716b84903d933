//! Envoy: JSON with the names that its own examples, Istio and the like use, and the default text. The stamp is that of the
//! request's beginning.
//!
//! Source: Envoy documentation, "Access logging: format strings"; Istio, "Envoy access logs".

use super::address::{address, address_and_port};
use super::given::{FORWARDED_FOR, USER_AGENT};
use super::quoted::{quoted, request_line, target};
use crate::replay::json::{Scan, unescape};
use crate::replay::line::{FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp;

const MILLI: u64 = 1_000_000;

/// Reads one line of JSON.
pub fn parse_json(line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Option<Line> {
    let from = fields.len();
    let (mut start, mut path, mut original) = (Span::NONE, Span::NONE, Span::NONE);
    let (mut client, mut forwarded, mut status) = (Span::NONE, Span::NONE, Span::NONE);
    let mut scan = Scan::new(line);
    if !scan.enter() {
        return None;
    }
    while let Some(name) = scan.key_span() {
        match name.of(line)? {
            b"start_time" | b"startTime" => start = scan.value()?.text(),
            b"method" | b"request_method" | b":method" => parsed.method = scan.value()?.text(),
            b"path" | b":path" | b"request_path" => path = scan.value()?.text(),
            b"x-envoy-origin-path" | b"x-envoy-original-path" | b"x_envoy_original_path" => {
                original = scan.value()?.text();
            }
            b"authority" | b":authority" | b"host" => parsed.host = scan.value()?.text(),
            b"response_code" | b"responseCode" | b"status" => status = scan.value()?.figures(),
            b"duration" => {
                parsed.duration = scan.value()?.figures().of(line).and_then(|text| stamp::decimal(text, MILLI));
            }
            b"bytes_sent" => parsed.bytes = scan.value()?.figures().of(line).and_then(stamp::number).unwrap_or(0),
            b"downstream_remote_address" | b"downstream_remote_address_without_port" => client = scan.value()?.text(),
            b"x_forwarded_for" | b"x-forwarded-for" => forwarded = scan.value()?.text(),
            b"user_agent" | b"user-agent" => {
                listed(fields, USER_AGENT, scan.value()?.text());
            }
            key => {
                // what a format string calls as the field is called, and what none of Envoy's own is
                let is_a_field = key.contains(&b'-') && !key.contains(&b'_');
                let value = scan.value()?.text();
                if is_a_field && !value.is_none() {
                    fields.push(FieldSpan { name: NameAt::Header(name), value });
                }
            }
        }
    }
    parsed.start = stamp::rfc3339(start.of(line)?)?;
    parsed.stamp = parsed.start.saturating_add(parsed.duration.unwrap_or(0));
    parsed.status = u16::try_from(stamp::number(status.of(line)?)?).ok()?;
    parsed.client = if client.is_none() { last_of(line, forwarded) } else { client };
    parsed.address = address_and_port(parsed.client.of(line)?);
    listed(fields, FORWARDED_FOR, forwarded);
    for field in fields.get_mut(from..).unwrap_or_default() {
        field.value = unescape(line, field.value);
    }
    if parsed.method.is_none() {
        return Some(Line::NoRequest);
    }
    let path = unescape(line, if original.is_none() { path } else { original });
    Some(target(line, path, parsed))
}

/// Reads `[START] "METHOD PATH PROTOCOL" CODE FLAGS IN OUT DURATION SERVICE "FORWARDED" "AGENT" "ID" "AUTHORITY" "UPSTREAM"`.
pub fn parse_text(line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Option<Line> {
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

/// The last element of a list, which Envoy itself has added: the other end of the connection.
fn last_of(line: &[u8], list: Span) -> Span {
    let Some(text) = list.of(line) else { return Span::NONE };
    let mut from = memchr::memrchr(b',', text).map_or(0, |comma| comma + 1);
    while text.get(from) == Some(&b' ') {
        from += 1;
    }
    Span::new(list.from() + from, list.to())
}
