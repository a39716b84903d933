//! A small serializer of structured fields: a List of Items with Parameters.
//!
//! Only what our own fields need: Strings, Tokens, Integers and Byte Sequences; no Inner Lists, no Dictionaries, no
//! parser. What the format cannot hold is a failure, never a guess: a field that fails is not sent (RFC 9651, section
//! 4.1). The text grows on the stack; the finished header value is copied to where the caller has room for it.

use arrayvec::ArrayVec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use http::HeaderValue;

/// The longest field that is written. Eight members with names of 64 characters and the largest numbers stay below it.
pub const MAX_FIELD_BYTES: usize = 1_024;

/// The largest Integer (RFC 9651, section 3.3.1): fifteen digits.
pub const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Why a field cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// A String with something outside 0x20 to 0x7E, or a Token or key outside its alphabet.
    #[error("a character that the field cannot hold")]
    Character,
    /// More than [`MAX_FIELD_BYTES`].
    #[error("more than 1024 bytes")]
    TooLong,
    /// A parameter before the first member.
    #[error("a parameter without an item")]
    NoMember,
}

/// A List that is being written: a member, its parameters, the next member, and so on.
///
/// After a failure the text is incomplete: give the whole field up.
#[derive(Debug, Default)]
pub struct List {
    text: ArrayVec<u8, MAX_FIELD_BYTES>,
}

impl List {
    /// An empty List, which as a field means that the field is not sent.
    pub fn new() -> List {
        List::default()
    }

    /// The next member, a String. Its text may come in two pieces, so that a prefix needs no copy.
    ///
    /// # Errors
    /// Something outside 0x20 to 0x7E, or no room.
    pub fn string(&mut self, prefix: &str, text: &str) -> Result<(), Unwritable> {
        self.next_member()?;
        self.quoted(&[prefix, text])
    }

    /// A parameter of the last member, an Integer; larger ones than [`MAX_INTEGER`] become that.
    ///
    /// # Errors
    /// No member yet, a faulty key, or no room.
    pub fn integer(&mut self, key: &str, value: u64) -> Result<(), Unwritable> {
        self.key(key)?;
        self.push(itoa::Buffer::new().format(value.min(MAX_INTEGER)).as_bytes())
    }

    /// A parameter of the last member, a Token.
    ///
    /// # Errors
    /// No member yet, a faulty key or Token, or no room.
    pub fn token(&mut self, key: &str, token: &str) -> Result<(), Unwritable> {
        self.key(key)?;
        let starts = token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '*');
        if !starts || !token.bytes().all(is_token_byte) {
            return Err(Unwritable::Character);
        }
        self.push(token.as_bytes())
    }

    /// A parameter of the last member, a String.
    ///
    /// # Errors
    /// No member yet, a faulty key, something outside 0x20 to 0x7E, or no room.
    pub fn text(&mut self, key: &str, text: &str) -> Result<(), Unwritable> {
        self.key(key)?;
        self.quoted(&[text])
    }

    /// A parameter of the last member, a Byte Sequence.
    ///
    /// # Errors
    /// No member yet, a faulty key, or no room.
    pub fn bytes(&mut self, key: &str, bytes: &[u8]) -> Result<(), Unwritable> {
        self.key(key)?;
        self.push(b":")?;
        for group in bytes.chunks(3) {
            let mut text = [0; 4];
            STANDARD.encode_slice(group, &mut text).map_err(|_| Unwritable::TooLong)?;
            self.push(&text)?;
        }
        self.push(b":")
    }

    /// The header value, in this memory, or `None` when the List is empty.
    pub fn finish(&self, memory: &mut BytesMut) -> Option<HeaderValue> {
        memory.extend_from_slice(&self.text);
        let text = memory.split().freeze();
        if text.is_empty() { None } else { HeaderValue::from_maybe_shared(text).ok() }
    }

    fn next_member(&mut self) -> Result<(), Unwritable> {
        if self.text.is_empty() { Ok(()) } else { self.push(b", ") }
    }

    fn key(&mut self, key: &str) -> Result<(), Unwritable> {
        if self.text.is_empty() {
            return Err(Unwritable::NoMember);
        }
        let starts = key.starts_with(|first: char| first.is_ascii_lowercase() || first == '*');
        if !starts || !key.bytes().all(is_key_byte) {
            return Err(Unwritable::Character);
        }
        self.push(b";")?;
        self.push(key.as_bytes())?;
        self.push(b"=")
    }

    fn quoted(&mut self, pieces: &[&str]) -> Result<(), Unwritable> {
        self.push(b"\"")?;
        for piece in pieces {
            let mut rest = piece.as_bytes();
            while let Some(at) = rest.iter().position(|byte| !is_plain(*byte)) {
                let (plain, special) = rest.split_at(at);
                self.push(plain)?;
                match special {
                    [byte @ (b'"' | b'\\'), after @ ..] => {
                        self.push(&[b'\\', *byte])?;
                        rest = after;
                    }
                    _ => return Err(Unwritable::Character),
                }
            }
            self.push(rest)?;
        }
        self.push(b"\"")
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Unwritable> {
        self.text.try_extend_from_slice(bytes).map_err(|_| Unwritable::TooLong)
    }
}

/// What stands in a String as it is (RFC 9651, section 3.3.3).
fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\')
}

/// RFC 9651, section 3.3.4: `tchar`, `:` and `/`.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

/// RFC 9651, section 3.1.2.
fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sfv::{Parser, SerializeValue};

    use super::*;

    fn text(list: &List) -> String {
        list.finish(&mut BytesMut::new()).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn members_are_separated_and_carry_their_parameters() {
        let mut list = List::new();
        list.string("", "per-ip").unwrap();
        list.integer("r", 0).unwrap();
        list.integer("t", u64::MAX).unwrap();
        list.string("edge.", "b").unwrap();
        list.token("error", "http_request_error").unwrap();
        list.bytes("pk", b"tide").unwrap();
        assert_eq!(text(&list), r#""per-ip";r=0;t=999999999999999, "edge.b";error=http_request_error;pk=:dGlkZQ==:"#);
    }

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        let mut list = List::new();
        list.string("", r#"a"b\c"#).unwrap();
        assert_eq!(text(&list), r#""a\"b\\c""#);
    }

    #[test]
    fn what_the_format_cannot_hold_fails() {
        for outside in ["a\r\nb", "\u{7f}", "\u{1f}", "\t", "é", "\u{80}"] {
            assert_eq!(List::new().string("", outside), Err(Unwritable::Character), "{outside:?}");
        }
        let mut list = List::new();
        assert_eq!(list.integer("r", 1), Err(Unwritable::NoMember));
        assert!(list.finish(&mut BytesMut::new()).is_none());
        list.string("", "a").unwrap();
        assert_eq!(list.integer("R", 1), Err(Unwritable::Character));
        assert_eq!(list.integer("", 1), Err(Unwritable::Character));
        assert_eq!(list.token("a", "1a"), Err(Unwritable::Character));
        assert_eq!(list.token("a", "a b"), Err(Unwritable::Character));
        assert_eq!(List::new().string("", &"a".repeat(MAX_FIELD_BYTES)), Err(Unwritable::TooLong));
    }

    #[test]
    fn byte_sequences_are_padded_base64() {
        // RFC 4648, section 10
        for (bytes, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let mut list = List::new();
            list.string("", "a").unwrap();
            list.bytes("b", bytes.as_bytes()).unwrap();
            assert_eq!(text(&list), format!("\"a\";b=:{encoded}:"));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn another_reader_reads_and_writes_back_the_same(
            names in prop::collection::vec("[ -~]{0,40}", 1..6),
            number in any::<u64>(),
            bytes in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut list = List::new();
            for name in &names {
                list.string("", name).unwrap();
                list.integer("r", number).unwrap();
                list.bytes("pk", &bytes).unwrap();
            }
            let written = text(&list);
            let read = Parser::parse_list(written.as_bytes()).unwrap();
            prop_assert_eq!(read.len(), names.len());
            prop_assert_eq!(read.serialize_value().unwrap(), written);
            for (entry, name) in read.iter().zip(&names) {
                let sfv::ListEntry::Item(item) = entry else { panic!("no item") };
                prop_assert_eq!(item.bare_item.as_str(), Some(name.as_str()));
                prop_assert_eq!(item.params["r"].as_int(), Some(number.min(MAX_INTEGER) as i64));
                prop_assert_eq!(item.params["pk"].as_byte_seq(), Some(&bytes));
            }
        }

        #[test]
        fn any_text_is_written_readably_or_refused(text in any::<String>()) {
            let mut list = List::new();
            let fits = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
            prop_assert_eq!(list.string("", &text).is_ok(), fits);
        }
    }
}
