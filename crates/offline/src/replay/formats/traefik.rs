//! Traefik's JSON. `StartUTC` is when the request began, `time` when its line was written; durations are in nanoseconds.
//!
//! Source: Traefik documentation, "Access logs"; `pkg/middlewares/accesslog/logdata.go`.

use super::address::{address, address_and_port};
use super::quoted::target;
use crate::replay::json::{Scan, unescape};
use crate::replay::line::{FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp;

/// Reads one line.
pub fn parse(line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Option<Line> {
    const FIELD: &[u8] = b"request_";
    let from = fields.len();
    let (mut path, mut start, mut local, mut time) = (Span::NONE, Span::NONE, Span::NONE, Span::NONE);
    let (mut client, mut peer) = (Span::NONE, Span::NONE);
    let mut is_access = false;
    let mut scan = Scan::new(line);
    if !scan.enter() {
        // the lines of its plug-ins go to the same stream
        return Some(if line.starts_with(b"DEBUG: ") { Line::Other } else { Line::Unreadable });
    }
    while let Some(name) = scan.key_span() {
        match name.of(line)? {
            b"ClientHost" => client = scan.value()?.text(),
            b"ClientAddr" => peer = scan.value()?.text(),
            b"DownstreamStatus" => {
                is_access = true;
                parsed.status = u16::try_from(stamp::number(scan.value()?.figures().of(line)?)?).ok()?;
            }
            b"DownstreamContentSize" => parsed.bytes = stamp::number(scan.value()?.figures().of(line)?).unwrap_or(0),
            b"Duration" => parsed.duration = stamp::number(scan.value()?.figures().of(line)?),
            b"RequestHost" => parsed.host = scan.value()?.text(),
            b"RequestMethod" => parsed.method = scan.value()?.text(),
            b"RequestPath" => path = scan.value()?.text(),
            b"StartUTC" => start = scan.value()?.text(),
            b"StartLocal" => local = scan.value()?.text(),
            b"time" => time = scan.value()?.text(),
            key => {
                let value = scan.value()?.text();
                if key.starts_with(FIELD) && !value.is_none() {
                    let name = Span::new(name.from() + FIELD.len(), name.to());
                    fields.push(FieldSpan { name: NameAt::Header(name), value });
                }
            }
        }
    }
    if !is_access {
        let is_a_log = !time.is_none() && scan.is_over();
        return Some(if is_a_log { Line::Other } else { Line::Unreadable });
    }
    let began = start.of(line).or_else(|| local.of(line)).and_then(stamp::rfc3339);
    let ended = time.of(line).and_then(stamp::rfc3339);
    let took = parsed.duration.unwrap_or(0);
    parsed.start = began.or_else(|| Some(ended?.saturating_sub(took)))?;
    parsed.stamp = parsed.start.saturating_add(took);
    parsed.client = if client.is_none() { peer } else { client };
    let client = parsed.client.of(line)?;
    parsed.address = address(client).or_else(|| address_and_port(client));
    let path = unescape(line, path);
    for field in fields.get_mut(from..).unwrap_or_default() {
        field.value = unescape(line, field.value);
    }
    Some(target(line, path, parsed))
}
