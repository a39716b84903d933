//! Our own access log. Says what is needed of a line at the speed of a scan; [`Entry::read`] reads all of it, and a test holds
//! the two together.
//!
//! [`Entry::read`]: crate::answer::entry::Entry::read

use super::address::address;
use crate::answer::entry::SCHEMA;
use crate::replay::json::{Scan, unescape};
use crate::replay::line::{Line, Parsed, Span, ToldSpans};
use crate::replay::stamp;

/// Reads one line.
pub fn parse(line: &mut [u8], parsed: &mut Parsed) -> Option<Line> {
    let mut told = ToldSpans {
        id: Span::NONE,
        zero: None,
        left_out: 0,
        mark: Span::NONE,
        verdict: Span::NONE,
        reason: Span::NONE,
        limits: Span::NONE,
    };
    let (mut at, mut time) = (None, Span::NONE);
    let mut scan = Scan::new(line);
    if !scan.enter() || scan.key()? != b"schema" || scan.value()?.text().of(line)? != SCHEMA.as_bytes() {
        return None;
    }
    while let Some(key) = scan.key() {
        let value = scan.value()?;
        match key {
            b"time" => time = value.text(),
            b"at" => at = Some(stamp::number(value.figures().of(line)?)?),
            b"at_zero" => told.zero = Some(stamp::number(value.figures().of(line)?)?),
            b"id" => told.id = value.text(),
            b"client" => parsed.client = value.text(),
            b"client_mark" => told.mark = value.text(),
            b"method" => parsed.method = value.text(),
            b"host" => parsed.host = value.text(),
            b"path" => parsed.path = value.text(),
            b"status" => parsed.status = u16::try_from(stamp::number(value.figures().of(line)?)?).ok()?,
            b"verdict" => told.verdict = value.text(),
            b"reason" => told.reason = value.text(),
            b"sampled" => told.left_out = stamp::number(value.figures().of(line)?)?.saturating_sub(1),
            b"limits" => told.limits = value.whole(),
            b"duration_ns" => parsed.duration = stamp::number(value.figures().of(line)?),
            b"bytes_out" => parsed.bytes = stamp::number(value.figures().of(line)?)?,
            _ => {}
        }
    }
    if !scan.is_over() {
        return None;
    }
    // the limits went by `at`; the wall clock may have been set meanwhile
    let exact = told.zero.zip(at).map(|(zero, at)| zero.saturating_add(at));
    parsed.start = exact.or_else(|| stamp::rfc3339(time.of(line)?))?;
    parsed.stamp = parsed.start.saturating_add(parsed.duration?);
    parsed.address = parsed.client.of(line).and_then(address);
    parsed.told = Some(told);
    for span in [&mut parsed.client, &mut parsed.method, &mut parsed.host, &mut parsed.path] {
        if !span.is_none() {
            *span = unescape(line, *span);
        }
    }
    // a request that was too faulty for a decision has no client
    let is_decided = !parsed.client.is_none() && !parsed.method.is_none() && parsed.path.of(line) != Some(b"");
    Some(if is_decided { Line::Request } else { Line::NoRequest })
}
