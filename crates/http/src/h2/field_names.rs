//! Looks for pseudo-header fields in trailers, where RFC 9113 section 8.1 forbids them and the library drops them unseen.
//!
//! The blocks of header fields are walked in their compressed form (RFC 7541): a field is a pseudo-header field if its name
//! stands at 1 to 14 of the static table, begins with a colon, or is that of an entry which was one when it was added. Entries
//! are numbered from the youngest, so one bit for each of the last 128 additions is all that must be kept: a table of 4 KiB
//! has no more entries. Strings are skipped, never decoded. Pure: bytes in, one bit out.

use super::frames::{Frame, Kind};

/// Flags of a HEADERS frame (RFC 9113 section 6.2).
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// What a HEADERS frame with that flag holds before its fields.
const PRIORITY_BYTES: u32 = 5;
/// The static table (RFC 7541 appendix A): its pseudo-header fields come first.
const STATIC_PSEUDO: u32 = 14;
const STATIC: u32 = 61;
/// The Huffman code of a colon (RFC 7541 appendix B): these seven bits.
const COLON_CODE: u8 = 0x5c;

/// Follows all blocks of header fields of one connection.
#[derive(Debug)]
pub struct FieldNames {
    /// Of the entries of the dynamic table, youngest first: which are pseudo-header fields.
    entries: u128,
    /// A byte that says how long the padding is comes next.
    pad_length: bool,
    /// Bytes to be passed over before the fields.
    front: u32,
    /// Bytes of the frame that hold fields.
    left: u32,
    at: At,
    found: bool,
}

/// Where in a block the next byte belongs.
#[derive(Debug, Clone, Copy)]
enum At {
    Field,
    /// A number that did not fit into its first byte.
    Number {
        what: What,
        value: u32,
        shift: u32,
    },
    NameLength {
        adds: bool,
    },
    NameStart {
        adds: bool,
        huffman: bool,
        length: u32,
    },
    ValueLength,
    /// In a name or a value, with so many bytes to come.
    Text {
        left: u32,
        of_name: bool,
    },
    /// The library refuses the connection for it.
    Broken,
}

/// What a number means.
#[derive(Debug, Clone, Copy)]
enum What {
    Field,
    Name { adds: bool },
    TableSize,
    NameLength { adds: bool, huffman: bool },
    ValueLength,
}

impl FieldNames {
    /// Of a connection that begins.
    pub fn new() -> FieldNames {
        FieldNames { entries: 0, pad_length: false, front: 0, left: 0, at: At::Field, found: false }
    }

    /// A frame begins. Only HEADERS and CONTINUATION are of interest.
    pub fn begun(&mut self, frame: Frame) {
        let (padded, prioritised) = match frame.kind {
            Kind::Headers => {
                (self.at, self.found) = (At::Field, false);
                (frame.flags & PADDED != 0, frame.flags & PRIORITY != 0)
            }
            _ => (false, false),
        };
        self.pad_length = padded;
        self.front = if prioritised { PRIORITY_BYTES } else { 0 };
        self.left = frame.length.saturating_sub(u32::from(padded)).saturating_sub(self.front);
    }

    /// Bytes of the payload of that frame.
    pub fn feed(&mut self, payload: &[u8]) {
        let mut rest = payload;
        if self.pad_length
            && let Some((&padding, behind)) = rest.split_first()
        {
            self.pad_length = false;
            self.left = self.left.saturating_sub(u32::from(padding));
            rest = behind;
        }
        rest = skip(rest, &mut self.front);
        while self.left > 0
            && let Some((&byte, behind)) = rest.split_first()
        {
            if let At::Text { left: 1.., .. } = self.at {
                rest = self.text(rest);
                continue;
            }
            self.left -= 1;
            rest = behind;
            self.byte(byte);
        }
    }

    /// Whether the block that was read last holds a pseudo-header field.
    pub fn found(&self) -> bool {
        self.found
    }

    /// Passes over a name or a value.
    fn text<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let At::Text { left, of_name } = &mut self.at else { return bytes };
        let mut here = (*left).min(self.left);
        let wanted = here;
        let rest = skip(bytes, &mut here);
        let passed = wanted - here;
        *left -= passed;
        self.left -= passed;
        if *left == 0 {
            self.at = if *of_name { At::ValueLength } else { At::Field };
        }
        rest
    }

    fn byte(&mut self, byte: u8) {
        match self.at {
            At::Field => {
                let (what, bits) = match byte.leading_zeros() {
                    0 => (What::Field, 7),
                    1 => (What::Name { adds: true }, 6),
                    2 => (What::TableSize, 5),
                    _ => (What::Name { adds: false }, 4),
                };
                self.number(what, byte, bits);
            }
            At::NameLength { adds } => self.number(What::NameLength { adds, huffman: byte & 0x80 != 0 }, byte, 7),
            At::ValueLength => self.number(What::ValueLength, byte, 7),
            At::NameStart { adds, huffman, length } => {
                let colon = if huffman { byte >> 1 == COLON_CODE } else { byte == b':' };
                self.name(colon, adds);
                self.at = match length - 1 {
                    0 => At::ValueLength,
                    left => At::Text { left, of_name: true },
                };
            }
            At::Number { what, value, shift } => {
                let more = u32::from(byte & 0x7f).checked_shl(shift).filter(|_| shift <= 21);
                match more.and_then(|more| value.checked_add(more)) {
                    None => self.at = At::Broken,
                    Some(value) if byte & 0x80 != 0 => self.at = At::Number { what, value, shift: shift + 7 },
                    Some(value) => self.known(what, value),
                }
            }
            At::Text { .. } | At::Broken => {}
        }
    }

    /// The first byte of a number, which has so many bits of it.
    fn number(&mut self, what: What, byte: u8, bits: u32) {
        let most = (1 << bits) - 1;
        match u32::from(byte) & most {
            value if value == most => self.at = At::Number { what, value, shift: 0 },
            value => self.known(what, value),
        }
    }

    fn known(&mut self, what: What, value: u32) {
        self.at = match what {
            What::Field => {
                self.found |= self.is_pseudo(value);
                At::Field
            }
            What::Name { adds } if value == 0 => At::NameLength { adds },
            What::Name { adds } => {
                self.name(self.is_pseudo(value), adds);
                At::ValueLength
            }
            What::TableSize => At::Field,
            What::NameLength { adds, huffman } if value > 0 => At::NameStart { adds, huffman, length: value },
            What::NameLength { .. } => At::Broken,
            What::ValueLength if value > 0 => At::Text { left: value, of_name: false },
            What::ValueLength => At::Field,
        };
    }

    /// A literal field has a name of this kind.
    fn name(&mut self, pseudo: bool, adds: bool) {
        self.found |= pseudo;
        if adds {
            self.entries = self.entries << 1 | u128::from(pseudo);
        }
    }

    fn is_pseudo(&self, index: u32) -> bool {
        match index.checked_sub(STATIC + 1) {
            None => (1..=STATIC_PSEUDO).contains(&index),
            Some(age) => self.entries.checked_shr(age).unwrap_or(0) & 1 == 1,
        }
    }
}

impl Default for FieldNames {
    fn default() -> FieldNames {
        FieldNames::new()
    }
}

/// The bytes behind as many as are to be passed over.
fn skip<'a>(bytes: &'a [u8], most: &mut u32) -> &'a [u8] {
    let here = usize::try_from(*most).map_or(bytes.len(), |most| most.min(bytes.len()));
    *most -= u32::try_from(here).unwrap_or(*most);
    bytes.get(here..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_HEADERS: u8 = 0x4;

    fn frame(kind: Kind, flags: u8, length: usize) -> Frame {
        Frame { kind, flags, length: length as u32, stream: 1 }
    }

    /// Whether the block holds one, sent in pieces of this size.
    fn found(names: &mut FieldNames, block: &[u8], step: usize) -> bool {
        names.begun(frame(Kind::Headers, END_HEADERS, block.len()));
        block.chunks(step).for_each(|piece| names.feed(piece));
        names.found()
    }

    #[test]
    fn every_way_to_name_a_pseudo_field_is_seen() {
        // what is added to the table first, then the trailers: whether they hold a pseudo-header field
        let cases: [(&[u8], &[u8], bool); 14] = [
            (b"", b"\x82", true),
            (b"", b"\x8e", true),
            (b"", b"\x8f", false),
            (b"", b"\x44\x01/", true),
            (b"", b"\x04\x01/", true),
            (b"", b"\x14\x01/", true),
            (b"", b"\x00\x05:path\x01/", true),
            // `:path` in Huffman's code (RFC 7541 appendix B)
            (b"", b"\x00\x84\xb9\x58\xd3\x3f\x01/", true),
            (b"", b"\x40\x05grpc-\x010\x00\x01a\x00", false),
            (b"\x40\x02:x\x01a\x40\x01y\x01b", b"\xbe", false),
            (b"\x40\x02:x\x01a\x40\x01y\x01b", b"\xbf", true),
            (b"\x40\x02:x\x01a\x40\x01y\x01b", b"\x7f\x00\x01c", true),
            (b"\x40\x02:x\x01a\x3f\xe1\x1f\x40\x01y\x01b", b"\x0f\x2f\x01c\x0f\x30\x01c", true),
            (b"\x3f\xe1\x1f", b"\x00\x7f\x80\x01", false),
        ];
        for (before, trailers, expected) in cases {
            for step in [1, 2, 1000] {
                let mut names = FieldNames::new();
                found(&mut names, before, step);
                assert_eq!(found(&mut names, trailers, step), expected, "{}", trailers.escape_ascii());
            }
        }
    }

    #[test]
    fn padding_priorities_and_continuations_are_passed_over() {
        let mut names = FieldNames::new();
        // a pad length of 2, a priority, `content-type: a` from the static table, and two bytes of padding that look like `:method`
        let payload = b"\x02\0\0\0\0\x10\x0f\x10\x01a\x82\x82";
        names.begun(frame(Kind::Headers, PADDED | PRIORITY | END_HEADERS, payload.len()));
        payload.iter().for_each(|byte| names.feed(&[*byte]));
        assert!(!names.found());
        names.begun(frame(Kind::Headers, 0, 2));
        names.feed(b"\x00\x05");
        assert!(!names.found());
        names.begun(frame(Kind::Continuation, END_HEADERS, 7));
        names.feed(b":path\x01/");
        assert!(names.found());
    }
}
