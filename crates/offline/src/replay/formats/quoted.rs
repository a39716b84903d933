//! Quoted texts of the common log formats, the request line and the target in it.

use memchr::memchr2;

use crate::replay::line::{Line, Parsed, Span};

/// The text that begins behind the quote at `at`, and where it goes on behind the closing one. A quote behind a backslash
/// is part of the text, as Apache writes it; nginx writes `\x22`.
#[inline]
pub fn quoted(line: &[u8], at: usize) -> Option<(Span, usize)> {
    quoted_raw(line, at).map(|(span, next, _)| (span, next))
}

/// The same, and whether there is a backslash in it.
#[inline]
pub fn quoted_raw(line: &[u8], at: usize) -> Option<(Span, usize, bool)> {
    let rest = line.get(at..)?;
    if rest.first() != Some(&b'"') {
        return None;
    }
    let from = at + 1;
    if rest.starts_with(b"\"-\"") {
        return Some((Span::new(from, from + 1), from + 2, false));
    }
    let (mut next, mut escaped) = (from, false);
    loop {
        let found = next + memchr2(b'"', b'\\', line.get(next..)?)?;
        if line.get(found) == Some(&b'"') {
            return Some((Span::new(from, found), found + 1, escaped));
        }
        (next, escaped) = (found + 2, true);
    }
}

/// Puts what `\xHH`, `\"` and `\\` mean in their place.
pub fn unescape(line: &mut [u8], span: Span) -> Span {
    let Some(first) = span.of(line).and_then(|text| memchr::memchr(b'\\', text)) else { return span };
    let end = span.to();
    let (mut from, mut to) = (span.from() + first, span.from() + first);
    while from < end {
        let rest = line.get(from..end).unwrap_or_default();
        let (byte, taken) = match rest {
            [b'\\', b'x', high, low, ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => (b'\\', 1),
            },
            [b'\\', escaped @ (b'"' | b'\\'), ..] => (*escaped, 2),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', b'r', ..] => (b'\r', 2),
            [byte, ..] => (*byte, 1),
            [] => break,
        };
        if let Some(place) = line.get_mut(to) {
            *place = byte;
        }
        (from, to) = (from + taken, to + 1);
    }
    Span::new(span.from(), to)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Takes `GET /path?query HTTP/1.1` apart. Anything else was no request: a TLS greeting on a plain port, a connection that
/// was closed before it said anything.
#[inline]
pub fn request_line(line: &[u8], span: Span, parsed: &mut Parsed) -> Line {
    let Some(text) = span.of(line) else { return Line::NoRequest };
    // most are short
    let Some(method) = text.iter().position(|byte| *byte == b' ') else { return Line::NoRequest };
    if method == 0 || !text.iter().take(method).all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_')) {
        return Line::NoRequest;
    }
    // the target may hold blanks, as servers log what they got; the version is behind the last one
    let last = match text.last_chunk::<9>() {
        Some([b' ', b'H', b'T', b'T', b'P', b'/', version @ ..]) if !version.contains(&b' ') => Some(text.len() - 9),
        _ => memchr::memrchr(b' ', text),
    };
    let end = match last {
        Some(last) if last > method && text.get(last + 1..).is_some_and(|rest| rest.starts_with(b"HTTP/")) => last,
        _ => text.len(),
    };
    let from = span.from();
    parsed.method = Span::new(from, from + method);
    target(line, Span::new(from + method + 1, from + end), parsed)
}

/// Takes a target apart: `/path?query`, `http://host/path`, or for `CONNECT` and `OPTIONS` what has no path.
#[inline]
pub fn target(line: &[u8], span: Span, parsed: &mut Parsed) -> Line {
    let Some(text) = span.of(line) else { return Line::NoRequest };
    let mut from = span.from();
    let mut rest = text;
    if text.first() != Some(&b'/') {
        let Some(authority) = memchr::memmem::find(text, b"://").map(|at| at + 3).filter(|at| *at < 16) else {
            return if text == b"*" || parsed.method.of(line) == Some(b"CONNECT") {
                parsed.path = span;
                Line::Request
            } else {
                Line::NoRequest
            };
        };
        rest = text.get(authority..).unwrap_or_default();
        let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        if parsed.host.is_none() {
            parsed.host = Span::new(from + authority, from + authority + end);
        }
        from += authority + end;
        rest = rest.get(end..).unwrap_or_default();
    }
    let path = memchr::memchr(b'?', rest);
    parsed.path = match path.unwrap_or(rest.len()) {
        // no path after an authority means `/`, of which one stands before it
        0 if from > span.from() => {
            memchr::memchr(b'/', text).map_or(Span::NONE, |at| Span::new(span.from() + at, span.from() + at + 1))
        }
        length => Span::new(from, from + length),
    };
    if let Some(path) = path {
        parsed.query = Span::new(from + path + 1, from + rest.len());
    }
    Line::Request
}

/// The last element of a list of forwarding proxies, which the server itself has added: the other end of its connection.
pub fn last_of(line: &[u8], list: Span) -> Span {
    let Some(text) = list.of(line) else { return Span::NONE };
    let mut from = memchr::memrchr(b',', text).map_or(0, |comma| comma + 1);
    while text.get(from) == Some(&b' ') {
        from += 1;
    }
    Span::new(list.from() + from, list.to())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<[String; 4]> {
        let mut parsed = Parsed::default();
        let line = text.as_bytes();
        if request_line(line, Span::new(0, line.len()), &mut parsed) != Line::Request {
            return None;
        }
        let of = |span: Span| String::from_utf8_lossy(span.of(line).unwrap_or(b"~")).into_owned();
        Some([of(parsed.method), of(parsed.host), of(parsed.path), of(parsed.query)])
    }

    #[test]
    fn a_request_line_is_taken_apart() {
        for (line, wanted) in [
            ("GET / HTTP/1.1", ["GET", "~", "/", "~"]),
            ("GET /a?b=c?d HTTP/2.0", ["GET", "~", "/a", "b=c?d"]),
            ("GET /a b HTTP/1.0", ["GET", "~", "/a b", "~"]),
            ("GET /a", ["GET", "~", "/a", "~"]),
            ("GET http://h:80/a?b HTTP/1.1", ["GET", "h:80", "/a", "b"]),
            ("GET https://h?b HTTP/1.1", ["GET", "h", "/", "b"]),
            ("OPTIONS * HTTP/1.1", ["OPTIONS", "~", "*", "~"]),
            ("CONNECT h:443 HTTP/1.1", ["CONNECT", "~", "h:443", "~"]),
        ] {
            assert_eq!(parts(line), Some(wanted.map(str::to_owned)), "{line}");
        }
    }

    #[test]
    fn what_was_no_request_is_none() {
        for line in
            ["", "-", "\\x16\\x03\\x01", "\u{16}\u{3} x", "GET", " / HTTP/1.1", "G(T / HTTP/1.1", "GET x HTTP/1.1"]
        {
            assert_eq!(parts(line), None, "{line}");
        }
    }

    #[test]
    fn escapes_of_both_servers_are_understood() {
        let mut line = br#""a\x22b\"c\\d\xZZ\" "e""#.to_vec();
        let (span, next) = quoted(&line, 0).unwrap();
        assert_eq!(line.get(next..), Some(b"e\"".as_slice()));
        let span = unescape(&mut line, span);
        assert_eq!(span.of(&line), Some(br#"a"b"c\d\xZZ" "#.as_slice()));
        assert_eq!(quoted(b"\"a\\\"", 0), None);
        assert_eq!(quoted(b"a", 0), None);
    }
}
