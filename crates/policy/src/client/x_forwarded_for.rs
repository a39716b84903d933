//! The elements of `X-Forwarded-For`, from the right.
//!
//! Several field lines are one list in their order; elements are separated by commas, surrounded by spaces and tabs,
//! and empty ones do not count (RFC 9110 §5.6.1). Nothing here judges an element, and nothing is copied.

use std::iter::Rev;
use std::net::IpAddr;

use http::header::ValueIter;
use http::{HeaderMap, HeaderValue};

use super::address::{parse_element, split_ipv4_from_right};
use super::trust::{MAX_ELEMENTS, X_FORWARDED_FOR};

/// The rightmost [`MAX_ELEMENTS`] elements, last first, trimmed. Takes time for the part of the header that is read.
pub(super) fn rightmost(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let mut unread = Unread::all(headers);
    std::iter::from_fn(move || unread.element()).take(MAX_ELEMENTS)
}

/// The same elements read as addresses; `None` is an unreadable one.
pub(super) fn rightmost_addresses(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> + '_ {
    let mut unread = Unread::all(headers);
    std::iter::from_fn(move || unread.address()).take(MAX_ELEMENTS)
}

/// What has not been looked at yet.
struct Unread<'a> {
    lines: Rev<ValueIter<'a, HeaderValue>>,
    /// What stands to the left of the last element, in its line.
    line: &'a [u8],
}

impl<'a> Unread<'a> {
    fn all(headers: &'a HeaderMap) -> Unread<'a> {
        Unread { lines: headers.get_all(&X_FORWARDED_FOR).into_iter().rev(), line: &[] }
    }

    /// Takes the last element.
    #[inline]
    fn element(&mut self) -> Option<&'a [u8]> {
        self.skip_to_element()?;
        let start = self.line.iter().rposition(|byte| *byte == b',').map_or(0, |comma| comma + 1);
        let (line, element) = self.line.split_at_checked(start)?;
        self.line = line;
        Some(trimmed(element))
    }

    /// Takes the last element and reads it. Most are plain IPv4, and to read such a one is to find where it begins.
    #[inline]
    fn address(&mut self) -> Option<Option<IpAddr>> {
        self.skip_to_element()?;
        if let Some((before, address)) = split_ipv4_from_right(self.line) {
            let before = without_blanks_behind(before);
            if let [] | [.., b','] = before {
                self.line = before;
                return Some(address);
            }
        }
        self.element().map(parse_element)
    }

    /// Makes the line end in the last byte of an element, or says that there is none left.
    #[inline]
    fn skip_to_element(&mut self) -> Option<()> {
        loop {
            while let [rest @ .., b',' | b' ' | b'\t'] = self.line {
                self.line = rest;
            }
            if !self.line.is_empty() {
                return Some(());
            }
            self.line = self.lines.next()?.as_bytes();
        }
    }
}

fn without_blanks_behind(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Without the spaces and tabs on both sides.
pub(super) fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
