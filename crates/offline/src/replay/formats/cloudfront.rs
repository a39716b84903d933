//! CloudFront's standard log: columns between tabs, named by a `#Fields:` line; delivered out of order and minutes late. The
//! stamp is that of the request's end, to the second.
//!
//! Source: Amazon CloudFront Developer Guide, "Standard logging reference".

use super::address::address;
use super::given::{COOKIE, REFERER, USER_AGENT};
use crate::replay::line::{FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp::{self, SECOND};

/// Which column is where, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns([u8; NAMES.len()]);

/// The columns that are read.
const NAMES: [&[u8]; 14] = [
    b"date",
    b"time",
    b"sc-bytes",
    b"c-ip",
    b"cs-method",
    b"cs(Host)",
    b"cs-uri-stem",
    b"sc-status",
    b"cs(Referer)",
    b"cs(User-Agent)",
    b"cs-uri-query",
    b"cs(Cookie)",
    b"x-host-header",
    b"time-taken",
];
const ABSENT: u8 = u8::MAX;

/// The order that CloudFront writes when nobody asks for another.
pub const STANDARD: Columns = Columns([0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 18]);

impl Columns {
    /// Of a `#Fields:` line.
    fn named(line: &[u8]) -> Option<Columns> {
        let names = line.strip_prefix(b"#Fields:")?;
        let mut columns = Columns([ABSENT; NAMES.len()]);
        for (name, position) in names.split(|byte| *byte == b' ').filter(|name| !name.is_empty()).zip(0..ABSENT) {
            let known = NAMES.iter().zip(&mut columns.0).find(|(known, _)| **known == name);
            if let Some((_, column)) = known {
                *column = position;
            }
        }
        Some(columns)
    }
}

/// Reads one line.
pub fn parse(line: &mut [u8], columns: &mut Columns, fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Option<Line> {
    if line.first() == Some(&b'#') {
        if let Some(named) = Columns::named(line) {
            *columns = named;
        }
        return Some(Line::Other);
    }
    let mut spans = [Span::NONE; NAMES.len()];
    let mut from = 0;
    for position in 0..ABSENT {
        let rest = line.get(from..)?;
        let end = memchr::memchr(b'\t', rest);
        if let Some((_, span)) = columns.0.iter().zip(&mut spans).find(|(column, _)| **column == position) {
            *span = Span::new(from, from + end.unwrap_or(rest.len()));
        }
        match end {
            Some(end) => from += end + 1,
            None => break,
        }
    }
    let [date, time, bytes, client, method, host, path, status, referer, agent, query, cookie, header, took] = spans;
    // both have a known width, and stand side by side in the standard order
    let of_day = stamp::rfc3339([date.of(line)?, b"T", time.of(line)?].concat().as_slice())?;
    parsed.stamp = of_day;
    parsed.duration = took.of(line).and_then(|took| stamp::decimal(took, SECOND));
    parsed.start = of_day.saturating_sub(parsed.duration.unwrap_or(0));
    parsed.client = client;
    parsed.address = address(client.of(line)?);
    parsed.method = method;
    let given = |span: Span| span.of(line).is_some_and(|text| text != b"-" && !text.is_empty());
    // the name that the viewer asked for, before that of the distribution
    parsed.host = if given(header) { header } else { host };
    parsed.path = path;
    parsed.query = if given(query) { query } else { Span::NONE };
    parsed.status = status.of(line).and_then(stamp::number).and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
    parsed.bytes = bytes.of(line).and_then(stamp::number).unwrap_or(0);
    if !given(method) || !given(path) {
        return Some(Line::NoRequest);
    }
    for (name, value) in [(USER_AGENT, agent), (REFERER, referer), (COOKIE, cookie)] {
        if value.of(line).is_some_and(|text| text != b"-") {
            fields.push(FieldSpan { name: NameAt::Listed(name), value: unescape(line, value) });
        }
    }
    Some(Line::Request)
}

/// Values come percent-encoded.
fn unescape(line: &mut [u8], span: Span) -> Span {
    let hex = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let (mut from, mut to) = (span.from(), span.from());
    while from < span.to() {
        let decoded = match line.get(from..span.to()) {
            Some([b'%', high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| (high << 4 | low, 3)),
            Some([byte, ..]) => Some((*byte, 1)),
            _ => None,
        };
        let (byte, taken) = decoded.unwrap_or((b'%', 1));
        if let Some(place) = line.get_mut(to) {
            *place = byte;
        }
        (from, to) = (from + taken, to + 1);
    }
    Span::new(span.from(), to)
}
