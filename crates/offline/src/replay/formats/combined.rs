//! `[HOST] CLIENT IDENT USER [TIME] "REQUEST" STATUS BYTES ["REFERER" "USER-AGENT" …]`: the common and combined formats of nginx,
//! Apache and whoever writes like them, and Traefik's, which says more behind them. The stamp is that of the request's end;
//! Traefik's is that of its beginning.
//!
//! Source: Apache HTTP Server documentation, "Log Files"; nginx, `ngx_http_log_module`.

use memchr::{memchr, memmem};

use super::address::address;
use super::given::{REFERER, USER_AGENT};
use super::quoted::{quoted, quoted_raw, request_line, unescape};
use crate::replay::line::{FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp::{self, Stamps};

/// Reads one line.
pub fn parse(
    line: &mut [u8],
    stamps: &mut Stamps,
    fields: &mut Vec<FieldSpan>,
    parsed: &mut Parsed,
    traefik: bool,
) -> Option<Line> {
    if is_of_an_error_log(line) {
        return Some(Line::Other);
    }
    let open = head(line, parsed)?;
    let close = match stamps.again(line, open + 1) {
        Some(stamp) => {
            parsed.stamp = stamp;
            open + 27
        }
        None => {
            let close = open + memchr(b']', line.get(open..)?)?;
            let text = line.get(open + 1..close)?;
            parsed.stamp = stamps.common(text).or_else(|| stamp::common(text))?;
            close
        }
    };
    parsed.start = parsed.stamp;
    let (request, at, escaped) = quoted_raw(line, close + 2)?;
    let (status, mut at) = number_or_none(line, at + 1)?;
    parsed.status = u16::try_from(status).ok()?;
    (parsed.bytes, at) = number_or_none(line, at + 1)?;
    let mut texts = [(Span::NONE, false); 2];
    for text in &mut texts {
        if line.get(at) == Some(&b' ')
            && let Some((found, next, escaped)) = quoted_raw(line, at + 1)
        {
            (*text, at) = ((found, escaped), next);
        }
    }
    if traefik {
        parsed.duration = Some(behind(line, at)?);
    }
    let [referer, agent] = texts;
    let request = if escaped { unescape(line, request) } else { request };
    let read = request_line(line, request, parsed);
    if read != Line::Request {
        return Some(read);
    }
    for (name, (value, escaped)) in [(USER_AGENT, agent), (REFERER, referer)] {
        if !value.is_none() && value.of(line) != Some(b"-") {
            let value = if escaped { unescape(line, value) } else { value };
            fields.push(FieldSpan { name: NameAt::Listed(name), value });
        }
    }
    Some(Line::Request)
}

/// What stands before the time, of which it gives the opening bracket's place.
#[inline]
fn head(line: &[u8], parsed: &mut Parsed) -> Option<usize> {
    // most clients are short, and most have neither name nor login
    let first = line.iter().position(|byte| *byte == b' ')?;
    let open = if line.get(first..)?.starts_with(b" - - [") { first + 5 } else { 1 + memmem_bracket(line)? };
    let mut client = Span::new(0, first);
    parsed.address = address(client.of(line)?);
    if parsed.address.is_none() && first + 1 < open {
        // a host's name first, if an address comes second
        let rest = line.get(first + 1..open)?;
        let second = Span::new(first + 1, first + 1 + memchr(b' ', rest)?);
        let found = address(second.of(line)?);
        let words = rest.iter().filter(|byte| **byte == b' ').count();
        if found.is_some() || words > 2 {
            parsed.host = client;
            (parsed.address, client) = (found, second);
        }
    }
    parsed.client = client;
    (first > 0).then_some(open)
}

/// Where ` [` is, which the first of begins the time: no name holds it.
#[inline]
fn memmem_bracket(line: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let found = from + memchr(b'[', line.get(from..)?)?;
        if found > 0 && line.get(found - 1) == Some(&b' ') {
            return Some(found - 1);
        }
        from = found + 1;
    }
}

/// A whole number at this place, and where it ends.
#[inline]
fn number(line: &[u8], at: usize) -> Option<(u64, usize)> {
    let rest = line.get(at..)?;
    let (value, after) = stamp::digits(rest)?;
    Some((value, at + rest.len() - after.len()))
}

/// The same, with `-` for none: no body, or no answer.
#[inline]
fn number_or_none(line: &[u8], at: usize) -> Option<(u64, usize)> {
    number(line, at).or_else(|| (line.get(at) == Some(&b'-')).then_some((0, at + 1)))
}

/// Traefik's end: ` 244 "router" "url" 42ms`, of which only the duration is wanted; in nanoseconds.
fn behind(line: &[u8], at: usize) -> Option<u64> {
    let (_, at) = number(line, at + 1)?;
    let (_, at) = quoted(line, at + 1)?;
    let (_, at) = quoted(line, at + 1)?;
    let (millis, rest) = stamp::digits(line.get(at + 1..)?)?;
    rest.starts_with(b"ms").then(|| millis.saturating_mul(1_000_000))
}

/// Lines of the servers' error logs, which some write into the same file.
fn is_of_an_error_log(line: &[u8]) -> bool {
    let apache = line.first() == Some(&b'[') && memmem::find(line, b"] [").is_some();
    let nginx =
        matches!(line, [_, _, _, _, b'/', _, _, b'/', _, _, b' ', _, _, b':', _, _, b':', _, _, b' ', b'[', ..]);
    apache || nginx
}
