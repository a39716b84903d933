//! Byte classes and fast searches for the head parser: one table look-up per byte where bytes are few, eight bytes at a
//! time where they are many (field values).

use std::ops::Range;

/// `tchar` of RFC 9110 section 5.6.2: field names.
pub const TOKEN: u8 = 1;
/// `A-Z 0-9 - _`: methods. RFC 9110 allows any token; registered methods need no more, and an origin that folds case
/// would read `get` as `GET` after a rule for `GET` had passed it by.
pub const METHOD: u8 = 2;
/// Visible ASCII but `#`: request targets.
pub const TARGET: u8 = 4;
/// What a canonical path may hold besides `%`: `pchar` and `/` of RFC 3986.
pub const PATH: u8 = 8;
/// Letters, digits, `-`, `.`, `_`: host names.
pub const HOST: u8 = 16;
/// Unreserved characters of RFC 3986 section 2.3, whose escapes mean the same as the character.
pub const UNRESERVED: u8 = 32;
/// What stands in field names beside letters, digits and hyphens: some origins read it as a hyphen, above all the underscore.
pub const FOLDED: u8 = 64;

const CLASSES: [u8; 256] = classes();

#[allow(clippy::indexing_slicing, reason = "worked out at compile time, where a panic is a build error")]
const fn classes() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let b = byte as u8;
        let mut class = 0;
        if b.is_ascii_alphanumeric() {
            class |= TOKEN | PATH | HOST | UNRESERVED;
        }
        if b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-' || b == b'_' {
            class |= METHOD;
        }
        if b.is_ascii_graphic() && b != b'#' {
            class |= TARGET;
        }
        if matches!(
            b,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        ) {
            class |= TOKEN;
        }
        if matches!(b, b'-' | b'.' | b'_' | b'~') {
            class |= PATH | UNRESERVED;
        }
        if matches!(b, b'/' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@')
        {
            class |= PATH;
        }
        if matches!(b, b'-' | b'.' | b'_') {
            class |= HOST;
        }
        if class & TOKEN != 0 && !b.is_ascii_alphanumeric() && b != b'-' {
            class |= FOLDED;
        }
        table[byte] = class;
        byte += 1;
    }
    table
}

/// All classes of a byte.
#[inline]
#[allow(clippy::indexing_slicing, reason = "256 entries, one for every byte: it cannot miss, and no check is left")]
pub fn class(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

/// Whether the byte is of the class.
#[inline]
pub fn is(byte: u8, class_wanted: u8) -> bool {
    class(byte) & class_wanted != 0
}

/// Where the run of bytes of `wanted` that begins at `from` ends: the index of the first other byte, or the length.
#[inline]
pub fn run_end(bytes: &[u8], from: usize, wanted: u8) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.iter().position(|&byte| !is(byte, wanted)).map_or(bytes.len(), |at| from + at)
}

/// The first byte at or after `from` that no field value may hold (RFC 9110 section 5.5): a control but tab, or DEL.
/// In an honest head that is the CR that ends the line.
#[inline]
pub fn value_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        match first_fault(u64::from_le_bytes(chunk)) {
            None => at += 8,
            Some(offset) => return Some(at + offset),
        }
    }
    let tail = bytes.get(at..)?;
    tail.iter().position(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f).map(|offset| at + offset)
}

/// The index (0 to 7) of the first byte among eight that is below 0x20 and no tab, or 0x7f. No sum carries into the next byte.
#[inline]
fn first_fault(eight: u64) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // the high bit of each byte says whether it is not below so much
    let reaches = |bytes: u64, least: u64| ((bytes & !HIGHS) + ONES * (0x80 - least)) | bytes;
    let others = |byte: u64| reaches(eight ^ (ONES * byte), 1);
    let fine = (reaches(eight, 0x20) | !others(0x09)) & others(0x7f);
    let hits = !fine & HIGHS;
    (hits != 0).then(|| hits.trailing_zeros() as usize / 8)
}

/// The first LF at or after `from`.
#[inline]
pub fn line_feed(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // a whole block without an LF is passed over in one comparison per lane; the compiler makes vectors of it
    while let Some(block) = bytes.get(at..at + 16) {
        if block.iter().fold(false, |seen, &byte| seen | (byte == b'\n')) {
            break;
        }
        at += 16;
    }
    let tail = bytes.get(at..)?;
    tail.iter().position(|&byte| byte == b'\n').map(|offset| at + offset)
}

/// Where a value stands without the blanks and tabs around it.
#[inline]
pub fn trimmed(bytes: &[u8], mut value: Range<usize>) -> Range<usize> {
    let is_blank = |at: usize| matches!(bytes.get(at), Some(b' ' | b'\t'));
    while value.start < value.end && is_blank(value.start) {
        value.start += 1;
    }
    while value.start < value.end && is_blank(value.end - 1) {
        value.end -= 1;
    }
    value
}

/// Without the blanks and tabs around it (optional white space of RFC 9110 section 5.6.3).
pub fn trim(value: &[u8]) -> &[u8] {
    value.get(trimmed(value, 0..value.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_at_a_time_finds_what_one_at_a_time_finds() {
        for byte in 0..=255u8 {
            for place in 0..20 {
                for line in [*b"abcdefgh\tjklmnop\tstuv", *b"\t \t\t !~\xff\t\x80 \t\t \t\t\t\t\t  "] {
                    let mut bytes = line;
                    bytes[place] = byte;
                    let slow = bytes.iter().position(|&b| (b < 32 && b != 9) || b == 127);
                    assert_eq!(value_end(&bytes, 0), slow, "byte {byte} at {place}");
                }
            }
        }
    }

    #[test]
    fn line_feeds_are_found_in_and_behind_whole_blocks() {
        for place in 0..40 {
            let mut bytes = [b'x'; 40];
            bytes[place] = b'\n';
            assert_eq!(line_feed(&bytes, 0), Some(place));
            assert_eq!(line_feed(&bytes, place + 1), None);
        }
        assert_eq!(line_feed(b"", 0), None);
        assert_eq!(line_feed(b"x", 5), None);
    }
}
