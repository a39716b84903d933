//! AWS's Application Load Balancer. The stamp is that of the answer; when the request came is in a later column, or follows
//! from how long the three parts of the way took.
//!
//! Source: Elastic Load Balancing, Application Load Balancers, "Access logs".

use super::address::address_and_port;
use super::given::USER_AGENT;
use super::quoted::{quoted, request_line};
use crate::replay::line::{FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp::{self, SECOND};

/// A connection may idle so long, the longest that can be set, before an answer begins.
const LONGEST: u64 = 4_000 * SECOND;

/// Reads one line.
pub fn parse(line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Option<Line> {
    let (words, at) = words::<12>(line, 0)?;
    let [kind, time, _, client, _, first, second, third, status, _, _, sent] = words;
    if !matches!(kind.of(line)?, b"http" | b"https" | b"h2" | b"ws" | b"wss" | b"grpcs") {
        return None;
    }
    parsed.stamp = stamp::rfc3339(time.of(line)?)?;
    parsed.client = client;
    parsed.address = address_and_port(client.of(line)?);
    parsed.status = status.of(line).and_then(stamp::number).and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
    parsed.bytes = sent.of(line).and_then(stamp::number).unwrap_or(0);
    // -1 where that part of the way was not taken
    let part = |span: Span| span.of(line).and_then(|text| stamp::decimal(text, SECOND));
    let parts = [first, second, third].map(part);
    let took = parts.iter().flatten().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let (request, at) = quoted(line, at)?;
    let (agent, at) = quoted(line, at + 1)?;
    let began = created(line, at).filter(|began| *began <= parsed.stamp && parsed.stamp - began <= LONGEST);
    parsed.start = began.unwrap_or(parsed.stamp.saturating_sub(took));
    parsed.duration = Some(parsed.stamp - parsed.start);
    let read = request_line(line, request, parsed);
    if read == Line::Request && agent.of(line) != Some(b"-") {
        fields.push(FieldSpan { name: NameAt::Listed(USER_AGENT), value: agent });
    }
    Some(read)
}

/// When the request came: behind the user agent stand cipher, protocol, target group, `"trace"`, `"name"`, `"certificate"` and
/// priority.
fn created(line: &[u8], at: usize) -> Option<u64> {
    let (_, mut at) = words::<3>(line, at + 1)?;
    for _ in 0..3 {
        at = quoted(line, at)?.1 + 1;
    }
    let ([_, time], _) = words::<2>(line, at)?;
    stamp::rfc3339(time.of(line)?)
}

/// So many words with a blank behind each, from `at`, and where it goes on.
fn words<const N: usize>(line: &[u8], mut at: usize) -> Option<([Span; N], usize)> {
    let mut words = [Span::NONE; N];
    for word in &mut words {
        let end = at + memchr::memchr(b' ', line.get(at..)?)?;
        *word = Span::new(at, end);
        at = end + 1;
    }
    Some((words, at))
}
