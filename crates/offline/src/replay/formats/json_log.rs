//! Logs of one JSON object a line, each format as a table of its fields.
//!
//! Sources: Caddy, "How logging works", the `log` directive and `modules/caddyhttp/marshalers.go`; Traefik, "Access logs" and
//! `pkg/middlewares/accesslog/logdata.go`; Envoy, "Access logging: format strings"; Istio, "Envoy access logs".

use super::address::address_and_port;
use super::given::{FORWARDED_FOR, USER_AGENT};
use super::quoted::{last_of, target};
use crate::replay::json::{Scan, Value, unescape};
use crate::replay::line::{FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp::{self, SECOND};

/// A format.
#[derive(Debug)]
pub struct Table {
    /// The object that holds fields of the request, with its header fields under `headers`; none where all stand at the top.
    inner: Option<&'static [u8]>,
    /// Fields by name, in lines of other loggers too.
    fields: &'static [(&'static str, Slot)],
    /// Nanoseconds of a duration's unit.
    unit: u64,
    /// Whether another field is a header field: the length of what stands before its name.
    header: fn(&[u8]) -> Option<usize>,
    /// Where a line is of an access log: this slot, and the text that it begins with.
    access: (Slot, &'static [u8]),
    /// The slot that lines of other logs in the same file have.
    other: Option<Slot>,
    /// How lines begin that are no JSON and belong to the same program.
    noise: &'static [u8],
}

/// What a field is. Of two of a kind, the one declared first here counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Client,
    OtherClient,
    Method,
    Host,
    OriginalTarget,
    Target,
    Status,
    Bytes,
    Duration,
    Began,
    BeganLocal,
    /// RFC 3339, or seconds since 1970.
    Ended,
    Logger,
    ForwardedFor,
    UserAgent,
}

const SLOTS: usize = Slot::UserAgent as usize + 1;

/// Caddy: `{"ts":…,"logger":"http.log.access…","request":{…},"duration":…,"status":…}`.
pub const CADDY: Table = Table {
    inner: Some(b"request"),
    fields: &[
        ("client_ip", Slot::Client),
        ("remote_ip", Slot::OtherClient),
        ("remote_addr", Slot::OtherClient),
        ("method", Slot::Method),
        ("host", Slot::Host),
        ("uri", Slot::Target),
        ("status", Slot::Status),
        ("size", Slot::Bytes),
        ("duration", Slot::Duration),
        ("ts", Slot::Ended),
        ("logger", Slot::Logger),
    ],
    unit: SECOND,
    header: |_| None,
    access: (Slot::Logger, b"http.log.access"),
    other: Some(Slot::Logger),
    noise: b"",
};

/// Traefik. `time` is when the line was written.
pub const TRAEFIK: Table = Table {
    inner: None,
    fields: &[
        ("ClientHost", Slot::Client),
        ("ClientAddr", Slot::OtherClient),
        ("RequestMethod", Slot::Method),
        ("RequestHost", Slot::Host),
        ("RequestPath", Slot::Target),
        ("DownstreamStatus", Slot::Status),
        ("DownstreamContentSize", Slot::Bytes),
        ("Duration", Slot::Duration),
        ("StartUTC", Slot::Began),
        ("StartLocal", Slot::BeganLocal),
        ("time", Slot::Ended),
    ],
    unit: 1,
    header: |name| name.starts_with(b"request_").then_some(b"request_".len()),
    access: (Slot::Status, b""),
    other: Some(Slot::Ended),
    noise: b"DEBUG: ",
};

/// Envoy, with the names that its own examples, Istio and the like use.
pub const ENVOY: Table = Table {
    inner: None,
    fields: &[
        ("downstream_remote_address", Slot::Client),
        ("downstream_remote_address_without_port", Slot::Client),
        ("method", Slot::Method),
        ("request_method", Slot::Method),
        (":method", Slot::Method),
        ("authority", Slot::Host),
        (":authority", Slot::Host),
        ("host", Slot::Host),
        ("x-envoy-origin-path", Slot::OriginalTarget),
        ("x-envoy-original-path", Slot::OriginalTarget),
        ("x_envoy_original_path", Slot::OriginalTarget),
        ("path", Slot::Target),
        (":path", Slot::Target),
        ("request_path", Slot::Target),
        ("response_code", Slot::Status),
        ("responseCode", Slot::Status),
        ("status", Slot::Status),
        ("bytes_sent", Slot::Bytes),
        ("duration", Slot::Duration),
        ("start_time", Slot::Began),
        ("startTime", Slot::Began),
        ("x_forwarded_for", Slot::ForwardedFor),
        ("x-forwarded-for", Slot::ForwardedFor),
        ("user_agent", Slot::UserAgent),
        ("user-agent", Slot::UserAgent),
    ],
    unit: SECOND / 1_000,
    // named like the field itself, and like none of Envoy's own
    header: |name| (name.contains(&b'-') && !name.contains(&b'_')).then_some(0),
    access: (Slot::Status, b""),
    other: None,
    noise: b"",
};

/// Where the fields of a line are.
struct Found {
    slots: [Span; SLOTS],
    has_inner: bool,
}

impl Found {
    fn of(&self, slot: Slot) -> Span {
        self.slots.get(slot as usize).copied().unwrap_or(Span::NONE)
    }

    /// The first of two that is there.
    fn either(&self, first: Slot, second: Slot) -> Span {
        let span = self.of(first);
        if span.is_none() { self.of(second) } else { span }
    }
}

/// Reads one line.
pub fn parse(table: &Table, line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Option<Line> {
    let from = fields.len();
    let mut scan = Scan::new(line);
    if !scan.enter() {
        let is_noise = !table.noise.is_empty() && line.starts_with(table.noise);
        return Some(if is_noise { Line::Other } else { Line::Unreadable });
    }
    let mut found = Found { slots: [Span::NONE; SLOTS], has_inner: table.inner.is_none() };
    table.find(line, &mut scan, &mut found, fields)?;
    let (slot, begins) = table.access;
    if !found.has_inner || !found.of(slot).of(line).is_some_and(|text| text.starts_with(begins)) {
        let is_other = table.other.is_some_and(|slot| !found.of(slot).is_none()) && scan.is_over();
        return Some(if is_other { Line::Other } else { Line::Unreadable });
    }
    if let Some(status) = found.of(Slot::Status).of(line) {
        parsed.status = u16::try_from(stamp::number(status)?).ok()?;
    }
    parsed.bytes = found.of(Slot::Bytes).of(line).and_then(stamp::number).unwrap_or(0);
    parsed.duration = found.of(Slot::Duration).of(line).and_then(|text| duration(text, table.unit));
    let took = parsed.duration.unwrap_or(0);
    let began = found.either(Slot::Began, Slot::BeganLocal).of(line).and_then(stamp::rfc3339);
    let ended = || {
        let text = found.of(Slot::Ended).of(line)?;
        stamp::decimal(text, SECOND).or_else(|| stamp::rfc3339(text))
    };
    parsed.start = began.or_else(|| Some(ended()?.saturating_sub(took)))?;
    parsed.stamp = parsed.start.saturating_add(took);
    let forwarded = found.of(Slot::ForwardedFor);
    parsed.client = found.either(Slot::Client, Slot::OtherClient);
    if parsed.client.is_none() {
        parsed.client = last_of(line, forwarded);
    }
    parsed.address = address_and_port(parsed.client.of(line)?);
    (parsed.method, parsed.host) = (found.of(Slot::Method), found.of(Slot::Host));
    for (name, value) in [(USER_AGENT, found.of(Slot::UserAgent)), (FORWARDED_FOR, forwarded)] {
        if !value.is_none() {
            fields.push(FieldSpan { name: NameAt::Listed(name), value });
        }
    }
    for field in fields.get_mut(from..).unwrap_or_default() {
        field.value = unescape(line, field.value);
    }
    let aim = unescape(line, found.either(Slot::OriginalTarget, Slot::Target));
    Some(target(line, aim, parsed))
}

impl Table {
    /// Finds the fields of the object that the scan is in.
    fn find(&self, line: &[u8], scan: &mut Scan<'_>, found: &mut Found, fields: &mut Vec<FieldSpan>) -> Option<()> {
        while let Some(name) = scan.key_span() {
            let key = name.of(line)?;
            if self.inner == Some(key) && scan.enter() {
                found.has_inner = true;
                // one level deeper at most: nesting costs no stack
                while let Some(name) = scan.key_span() {
                    match name.of(line)? {
                        b"headers" if scan.enter() => headers(scan, fields)?,
                        _ => self.note(line, name, scan.value()?, found, fields)?,
                    }
                }
            } else {
                self.note(line, name, scan.value()?, found, fields)?;
            }
        }
        Some(())
    }

    fn note(
        &self,
        line: &[u8],
        name: Span,
        value: Value,
        found: &mut Found,
        fields: &mut Vec<FieldSpan>,
    ) -> Option<()> {
        let key = name.of(line)?;
        if let Some((_, slot)) = self.fields.iter().find(|(known, _)| known.as_bytes() == key) {
            *found.slots.get_mut(*slot as usize)? = value.figures();
        } else if let (Some(before), Value::Text(value)) = ((self.header)(key), value) {
            fields.push(FieldSpan { name: NameAt::Header(Span::new(name.from() + before, name.to())), value });
        }
        Some(())
    }
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

/// A number of units, or as Go writes durations for people (`1.5ms`).
fn duration(text: &[u8], unit: u64) -> Option<u64> {
    if let Some(found) = stamp::decimal(text, unit) {
        return Some(found);
    }
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let (figures, unit) = text.split_at_checked(end)?;
    let nanos = match unit {
        b"ns" => 1,
        b"us" | b"\xc2\xb5s" => 1_000,
        b"ms" => 1_000_000,
        b"s" => SECOND,
        _ => return None,
    };
    stamp::decimal(figures, nanos)
}
