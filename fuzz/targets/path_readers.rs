//! Paths as others read them: the canonical form worked out slowly, and what origins of every kind make of a path.

use tidegate_http::fault::HeadFault;

/// One byte of a path and whether it stood there as an escape.
#[derive(Clone, Copy, PartialEq)]
struct Piece {
    byte: u8,
    escaped: bool,
}

/// The canonical form, worked out piece by piece.
pub fn canonical(raw: &[u8]) -> Result<String, HeadFault> {
    if !raw.starts_with(b"/") {
        return Err(HeadFault::TargetForm);
    }
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        let byte = raw[at];
        at += 1;
        let piece = if byte == b'%' {
            let digits = raw.get(at..at + 2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            let digits = std::str::from_utf8(digits.ok_or(HeadFault::Escape)?).map_err(|_| HeadFault::Escape)?;
            at += 2;
            let byte = u8::from_str_radix(digits, 16).map_err(|_| HeadFault::Escape)?;
            if byte.is_ascii_control() {
                return Err(HeadFault::Escape);
            }
            Piece { byte, escaped: !is_unreserved(byte) }
        } else if byte.is_ascii_graphic() && !b"\\#?".contains(&byte) {
            Piece { byte, escaped: !is_unreserved(byte) && !b"/!$&'()*+,;=:@".contains(&byte) }
        } else {
            return Err(HeadFault::Target);
        };
        let slash = Piece { byte: b'/', escaped: false };
        if piece != slash || pieces.last() != Some(&slash) {
            pieces.push(piece);
        }
    }
    for segment in pieces.split(|piece| matches!(piece.byte, b'/' | b'\\')) {
        let name: Vec<u8> = segment.iter().map(|piece| piece.byte).take_while(|byte| *byte != b';').collect();
        if is_dots(&name) {
            return Err(HeadFault::DotSegment);
        }
    }
    let write = |piece: &Piece| {
        if piece.escaped { format!("%{:02X}", piece.byte) } else { char::from(piece.byte).to_string() }
    };
    Ok(pieces.iter().map(write).collect())
}

/// Whether an origin that trims names climbs by this one, or stays.
pub fn is_dots(name: &[u8]) -> bool {
    matches!(name.trim_ascii(), b"." | b"..")
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// How an origin may take a path apart.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// Decodes before it looks for separators (most application servers), not behind (RFC 3986 section 6).
    decodes_first: bool,
    /// Takes a backslash for a slash (Windows, and browsers).
    backslash_separates: bool,
    /// Cuts parameters off each segment (Java servlets).
    cuts_parameters: bool,
}

pub const READERS: [Reader; 8] = {
    let mut readers = [Reader { decodes_first: false, backslash_separates: false, cuts_parameters: false }; 8];
    let mut at = 0;
    while at < readers.len() {
        readers[at] =
            Reader { decodes_first: at & 1 != 0, backslash_separates: at & 2 != 0, cuts_parameters: at & 4 != 0 };
        at += 1;
    }
    readers
};

impl Reader {
    /// The segments that name the resource, empty ones left out, decoded.
    pub fn segments(self, path: &[u8]) -> Vec<Vec<u8>> {
        let first = if self.decodes_first { decoded(path) } else { path.to_vec() };
        first
            .split(|byte| *byte == b'/' || (self.backslash_separates && *byte == b'\\'))
            .map(|segment| {
                let segment = if self.decodes_first { segment.to_vec() } else { decoded(segment) };
                let end = segment.iter().position(|byte| self.cuts_parameters && *byte == b';');
                segment[..end.unwrap_or(segment.len())].to_vec()
            })
            .filter(|segment| !segment.is_empty())
            .collect()
    }
}

/// Every escape once; a percent sign that begins none stays.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| *first == b'%' && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let escape = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &behind[2..] } else { behind };
    }
    decoded
}
