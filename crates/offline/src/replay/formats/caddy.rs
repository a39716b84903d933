//! Caddy's JSON: `{"ts":…,"logger":"http.log.access…","request":{…},"duration":…,"status":…}`. The stamp is that of the request's
//! end.
//!
//! Source: Caddy documentation, "How logging works" and the `log` directive; `modules/caddyhttp/marshalers.go`.

use super::address::address;
use super::quoted::target;
use crate::replay::json::{Scan, Value, unescape};
use crate::replay::line::{FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp::{self, SECOND};

/// Reads one line.
pub fn parse(line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Option<Line> {
    let from = fields.len();
    let (mut uri, mut remote, mut client) = (Span::NONE, Span::NONE, Span::NONE);
    let (mut is_access, mut is_caddy, mut has_request) = (false, false, false);
    let (mut ts, mut duration) = (Span::NONE, Span::NONE);
    let mut scan = Scan::new(line);
    if !scan.enter() {
        return None;
    }
    while let Some(key) = scan.key() {
        match key {
            b"request" if scan.enter() => {
                has_request = true;
                while let Some(key) = scan.key() {
                    match key {
                        b"headers" if scan.enter() => headers(&mut scan, fields)?,
                        b"client_ip" => client = scan.value()?.text(),
                        b"remote_ip" | b"remote_addr" => remote = scan.value()?.text(),
                        b"method" => parsed.method = scan.value()?.text(),
                        b"host" => parsed.host = scan.value()?.text(),
                        b"uri" => uri = scan.value()?.text(),
                        _ => _ = scan.value()?,
                    }
                }
            }
            b"logger" => {
                is_caddy = true;
                let name = scan.value()?.text();
                is_access = name.of(line).is_some_and(|name| name.starts_with(b"http.log.access"));
            }
            b"ts" => ts = scan.value()?.figures(),
            b"duration" => duration = scan.value()?.figures(),
            b"status" => {
                let status = scan.value()?.figures();
                parsed.status = u16::try_from(stamp::number(status.of(line)?)?).ok()?;
            }
            b"size" => parsed.bytes = stamp::number(scan.value()?.figures().of(line)?)?,
            _ => _ = scan.value()?,
        }
    }
    if !has_request || !is_access {
        // Caddy writes all its logs into one stream if told so
        return Some(if is_caddy && scan.is_over() { Line::Other } else { Line::Unreadable });
    }
    let ts = ts.of(line)?;
    parsed.stamp = stamp::decimal(ts, SECOND).or_else(|| stamp::rfc3339(ts))?;
    parsed.duration = duration.of(line).and_then(seconds);
    parsed.start = parsed.stamp.saturating_sub(parsed.duration.unwrap_or(0));
    parsed.client = if client.is_none() { remote } else { client };
    parsed.address =
        address(parsed.client.of(line)?).or_else(|| super::address::address_and_port(parsed.client.of(line)?));
    let uri = unescape(line, uri);
    for field in fields.get_mut(from..).unwrap_or_default() {
        field.value = unescape(line, field.value);
    }
    Some(target(line, uri, parsed))
}

/// Seconds as a number, or as Go writes durations for people (`1.5ms`), which Caddy can be told to.
fn seconds(text: &[u8]) -> Option<u64> {
    if let Some(found) = stamp::decimal(text, SECOND) {
        return Some(found);
    }
    let unit = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let (figures, unit) = text.split_at_checked(unit)?;
    let nanos = match unit {
        b"ns" => 1,
        b"us" | b"\xc2\xb5s" => 1_000,
        b"ms" => 1_000_000,
        b"s" => SECOND,
        _ => return None,
    };
    stamp::decimal(figures, nanos)
}

/// `"Name":["value",…]`.
fn headers(scan: &mut Scan<'_>, fields: &mut Vec<FieldSpan>) -> Option<()> {
    while let Some(name) = scan.key_span() {
        if scan.enter_list() {
            while let Some(value) = scan.element() {
                if let Value::Text(value) = value {
                    fields.push(FieldSpan { name: NameAt::Header(name), value });
                }
            }
        } else {
            scan.value()?;
        }
    }
    Some(())
}
