//! The elements of `Forwarded` (RFC 7239), from the right.
//!
//! List structure is read strictly, nodes tolerantly. Strictly, because a client may send an open quote and let the
//! text that a proxy appends fall inside it: once any line is malformed, no reading of the others is trustworthy
//! either, so the whole header is [`Malformed`]. Tolerantly, because `for=192.0.2.1:80` and `for=[2001:db8::1]` without
//! quotes are written by real proxies and cannot be confused with anything.
//!
//! Unlike `X-Forwarded-For`, lines are scanned from the left, since only that tells which commas are quoted; the time
//! is bounded by the limit on header bytes, and nothing is copied.

use std::net::IpAddr;

use http::{HeaderMap, header};

use super::address::{MAX_ELEMENT_BYTES, parse_node};
use super::trust::MAX_ELEMENTS;
use super::x_forwarded_for::trimmed;

/// Some line breaks the grammar of RFC 7239 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The rightmost elements of a well-formed header.
pub(super) struct Elements<'a> {
    /// The last elements seen; the next one goes to `seen` modulo the size.
    ring: [&'a [u8]; MAX_ELEMENTS],
    seen: usize,
}

impl<'a> Elements<'a> {
    /// Scans all field lines. Empty elements do not count.
    pub(super) fn scan(headers: &'a HeaderMap) -> Result<Elements<'a>, Malformed> {
        let mut elements = Elements { ring: [&[]; MAX_ELEMENTS], seen: 0 };
        for line in headers.get_all(header::FORWARDED) {
            let mut rest = line.as_bytes();
            loop {
                let (element, behind) = split_element(rest)?;
                elements.push(element);
                match behind.split_first() {
                    Some((_, behind)) => rest = behind,
                    None => break,
                }
            }
        }
        Ok(elements)
    }

    /// The rightmost [`MAX_ELEMENTS`] elements, last first, trimmed.
    pub(super) fn rightmost(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let read = self.seen.min(MAX_ELEMENTS);
        (1..=read).filter_map(move |back| self.ring.get((self.seen - back) % MAX_ELEMENTS).copied())
    }

    fn push(&mut self, element: &'a [u8]) {
        let element = trimmed(element);
        if element.is_empty() {
            return;
        }
        if let Some(slot) = self.ring.get_mut(self.seen % MAX_ELEMENTS) {
            *slot = element;
        }
        self.seen += 1;
    }
}

/// The address in the `for` of a well-formed element. `None` is a hop without a readable address: no `for`, a name that
/// is repeated, more than [`MAX_PAIRS`] pairs, `unknown`, an obfuscated node, a byte outside ASCII, or no node at all.
pub(super) fn address_of(element: &[u8]) -> Option<IpAddr> {
    if !element.is_ascii() {
        return None;
    }
    let mut names: [&[u8]; MAX_PAIRS] = [&[]; MAX_PAIRS];
    let mut node = None;
    let mut rest = element;
    for at in 0.. {
        rest = skip_separators(rest);
        if rest.is_empty() {
            break;
        }
        let (pair, behind) = split_pair(rest).ok()?;
        if names.get(..at)?.iter().any(|name| name.eq_ignore_ascii_case(pair.name)) {
            return None;
        }
        *names.get_mut(at)? = pair.name;
        if pair.name.eq_ignore_ascii_case(b"for") {
            node = Some(pair.value);
        }
        rest = behind;
    }
    match node? {
        Value::Plain(text) => parse_node(text),
        Value::Quoted(text) => {
            let mut buffer = [0; MAX_ELEMENT_BYTES];
            parse_node(unescaped(text, &mut buffer)?)
        }
    }
}

/// RFC 7239 names four parameters and lets others register; comparing more than this with each other is not worth it.
const MAX_PAIRS: usize = 16;

struct Pair<'a> {
    name: &'a [u8],
    value: Value<'a>,
}

enum Value<'a> {
    Plain(&'a [u8]),
    /// What stands between the quotes, escapes and all.
    Quoted(&'a [u8]),
}

/// One element up to its comma or the end of the line, and what follows, beginning with the comma.
fn split_element(text: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut rest = text;
    loop {
        rest = skip_separators(rest);
        if matches!(rest, [] | [b',', ..]) {
            return Ok((text.get(..text.len() - rest.len()).unwrap_or_default(), rest));
        }
        (_, rest) = split_pair(rest)?;
        rest = skip_blanks(rest);
        if !matches!(rest.first(), None | Some(b',' | b';')) {
            return Err(Malformed);
        }
    }
}

/// One `name=value` and what follows it.
fn split_pair(text: &[u8]) -> Result<(Pair<'_>, &[u8]), Malformed> {
    let (name, rest) = split_while(text, is_token);
    let ([b'=', rest @ ..], false) = (rest, name.is_empty()) else { return Err(Malformed) };
    if let [b'"', quoted @ ..] = rest {
        let (value, rest) = split_quoted(quoted)?;
        return Ok((Pair { name, value: Value::Quoted(value) }, rest));
    }
    let is_node = name.eq_ignore_ascii_case(b"for") || name.eq_ignore_ascii_case(b"by");
    let (value, rest) = split_while(rest, |byte| is_token(byte) || (is_node && b":[]".contains(&byte)));
    if value.is_empty() { Err(Malformed) } else { Ok((Pair { name, value: Value::Plain(value) }, rest)) }
}

/// What stands before the closing quote, and what follows it.
fn split_quoted(text: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            0..=8 | 10..=31 | 127 => return Err(Malformed),
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => {
                let (inside, rest) = text.split_at_checked(at).ok_or(Malformed)?;
                return Ok((inside, rest.strip_prefix(b"\"").ok_or(Malformed)?));
            }
            _ => {}
        }
    }
    Err(Malformed)
}

/// The text that a quoted string stands for; `None` when it is longer than the buffer.
fn unescaped<'b>(quoted: &[u8], buffer: &'b mut [u8; MAX_ELEMENT_BYTES]) -> Option<&'b [u8]> {
    let mut length = 0;
    let mut bytes = quoted.iter();
    while let Some(byte) = bytes.next() {
        let byte = if *byte == b'\\' { bytes.next()? } else { byte };
        *buffer.get_mut(length)? = *byte;
        length += 1;
    }
    buffer.get(..length)
}

/// Semicolons and blanks: an element may have empty pairs (RFC 7239 §4).
fn skip_separators(text: &[u8]) -> &[u8] {
    split_while(text, |byte| matches!(byte, b';' | b' ' | b'\t')).1
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    split_while(text, |byte| matches!(byte, b' ' | b'\t')).1
}

#[inline]
fn split_while(text: &[u8], belongs: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !belongs(*byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}

/// `tchar` of RFC 9110 §5.6.2.
#[inline]
fn is_token(byte: u8) -> bool {
    TOKEN.get(usize::from(byte)).is_some_and(|is_token| *is_token)
}

/// One look-up per byte, because every byte of the header is asked about.
#[allow(clippy::indexing_slicing, reason = "worked out at compile time, where a panic is a build error")]
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let special = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < special.len() {
        table[special[at] as usize] = true;
        at += 1;
    }
    table
};
