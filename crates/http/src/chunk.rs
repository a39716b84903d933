//! Reads the chunks of a body (RFC 9112 section 7.1): where the body ends, and which bytes of it are data.
//!
//! Nothing that decoders in the field read differently passes: sizes that are not plain hex, extensions outside the grammar,
//! lone LFs, data that is not followed by CRLF, trailers that are no header fields. Chunk extensions and trailers are read
//! and go no further. [`ChunkScanner::unpack`] takes the data out of its chunks, so that many small ones can
//! go on as one.

use super::fault::BodyFault;
use super::head::scan::{TOKEN, is};

/// Sizes need no more digits: 15 of them are a pebibyte.
const SIZE_DIGITS: u8 = 15;
/// Extensions are next to unused; more than this per chunk is an attack on whoever buffers them.
const EXTENSION_BYTES: u16 = 256;
/// Trailers are dropped, so they only cost time.
const TRAILER_BYTES: u16 = 8192;

/// Where in a chunked body the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkScanner {
    at: At,
    /// How many bytes of data the body may still announce.
    room: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Size { digits: u8, size: u64 },
    Extension { size: u64, used: u16, part: Part },
    SizeLineFeed { size: u64 },
    Data { left: u64 },
    DataReturn,
    DataLineFeed,
    TrailerStart { used: u16 },
    TrailerName { used: u16 },
    TrailerValue { used: u16 },
    TrailerLineFeed { used: u16 },
    LastLineFeed,
    End,
}

/// Where in the extensions of a chunk: `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Behind a blank; only a semicolon may come.
    BeforeSemicolon,
    /// Behind a semicolon.
    BeforeName,
    Name,
    /// Behind a name and a blank.
    AfterName,
    /// Behind the equals sign.
    BeforeValue,
    Token,
    Quoted,
    /// Behind a backslash.
    Escaped,
    /// Behind the closing quote.
    AfterQuoted,
}

/// What [`ChunkScanner::unpack`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// Bytes that belong to the body: all, unless it ends among them.
    pub taken: usize,
    /// Bytes of data; they stand at the front now.
    pub kept: usize,
}

impl ChunkScanner {
    /// At the first byte of a body.
    pub fn new() -> ChunkScanner {
        ChunkScanner { at: At::Size { digits: 0, size: 0 }, room: u64::MAX }
    }

    /// From here on the body may have so many bytes of data, or as many as was said before if that is less.
    pub fn limit(&mut self, data: u64) {
        self.room = self.room.min(data);
    }

    /// Whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.at == At::End
    }

    /// Passes over the bytes that belong to the body and says how many they were: all of them, unless the body ends among
    /// them.
    ///
    /// # Errors
    /// The first fault. The scanner must not be used after one.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<usize, BodyFault> {
        let mut passed = 0;
        while passed < bytes.len() && !self.is_done() {
            let (framing, data) = self.run(bytes.get(passed..).unwrap_or_default())?;
            passed += framing + data;
        }
        Ok(passed)
    }

    /// As [`ChunkScanner::scan`], and moves the data of the chunks to the front of `bytes`. What stands behind the body is not
    /// moved.
    ///
    /// # Errors
    /// As [`ChunkScanner::scan`].
    pub fn unpack(&mut self, bytes: &mut [u8]) -> Result<Unpacked, BodyFault> {
        let (mut taken, mut kept) = (0, 0);
        while taken < bytes.len() && !self.is_done() {
            let (framing, data) = self.run(bytes.get(taken..).unwrap_or_default())?;
            let from = taken + framing;
            taken = from + data;
            if from != kept && data > 0 {
                bytes.copy_within(from..taken, kept);
            }
            kept += data;
        }
        Ok(Unpacked { taken, kept })
    }

    /// Passes over framing up to the first data, and over that data; says how many bytes each were.
    fn run(&mut self, bytes: &[u8]) -> Result<(usize, usize), BodyFault> {
        for (framing, &byte) in bytes.iter().enumerate() {
            self.at = match self.at {
                At::End => return Ok((framing, 0)),
                At::Data { left } => {
                    let rest = bytes.len() - framing;
                    let here = usize::try_from(left).map_or(rest, |left| left.min(rest));
                    self.at = match left - here as u64 {
                        0 => At::DataReturn,
                        left => At::Data { left },
                    };
                    return Ok((framing, here));
                }
                At::SizeLineFeed { size } if byte == b'\n' => {
                    self.room = self.room.saturating_sub(size);
                    if size == 0 { At::TrailerStart { used: 0 } } else { At::Data { left: size } }
                }
                at => at.next(byte)?,
            };
            // the digits so far are a lower bound of the size: what is too large is refused before its bytes come
            if let At::Size { size, .. } = self.at
                && size > self.room
            {
                return Err(BodyFault::TooLarge);
            }
        }
        Ok((bytes.len(), 0))
    }
}

impl Default for ChunkScanner {
    fn default() -> ChunkScanner {
        ChunkScanner::new()
    }
}

impl At {
    /// One byte outside of chunk data.
    fn next(self, byte: u8) -> Result<At, BodyFault> {
        Ok(match (self, byte) {
            (At::Size { digits, size }, _) if byte.is_ascii_hexdigit() && digits < SIZE_DIGITS => {
                At::Size { digits: digits + 1, size: size << 4 | u64::from(hex(byte)) }
            }
            (At::Size { digits: 1.., size }, b';') => At::Extension { size, used: 0, part: Part::BeforeName },
            (At::Size { digits: 1.., size }, b' ' | b'\t') => {
                At::Extension { size, used: 1, part: Part::BeforeSemicolon }
            }
            (At::Size { digits: 1.., size }, b'\r') => At::SizeLineFeed { size },
            (At::Size { .. }, _) => return Err(BodyFault::ChunkSize),
            (At::Extension { size, part: Part::Name | Part::Token | Part::AfterQuoted, .. }, b'\r') => {
                At::SizeLineFeed { size }
            }
            (At::Extension { size, used, part }, _) => match part.next(byte) {
                Some(part) if used < EXTENSION_BYTES => At::Extension { size, used: used + 1, part },
                _ => return Err(BodyFault::ChunkExtension),
            },
            (At::DataReturn, b'\r') => At::DataLineFeed,
            (At::DataLineFeed, b'\n') => At::Size { digits: 0, size: 0 },
            (At::SizeLineFeed { .. } | At::DataReturn | At::DataLineFeed, _) => return Err(BodyFault::ChunkEnding),
            (At::TrailerStart { .. }, b'\r') => At::LastLineFeed,
            (At::LastLineFeed, b'\n') => At::End,
            (At::LastLineFeed, _) => return Err(BodyFault::ChunkEnding),
            (At::TrailerName { used }, b':') => At::TrailerValue { used },
            (At::TrailerStart { used } | At::TrailerName { used }, _) if is(byte, TOKEN) && used < TRAILER_BYTES => {
                At::TrailerName { used: used + 1 }
            }
            (At::TrailerValue { used }, b'\r') => At::TrailerLineFeed { used },
            (At::TrailerValue { used }, b' '..=b'~' | b'\t' | 0x80..) if used < TRAILER_BYTES => {
                At::TrailerValue { used: used + 1 }
            }
            (At::TrailerLineFeed { used }, b'\n') => At::TrailerStart { used },
            (At::TrailerStart { .. } | At::TrailerName { .. } | At::TrailerValue { .. }, _) => {
                return Err(BodyFault::Trailer);
            }
            (At::TrailerLineFeed { .. }, _) => return Err(BodyFault::Trailer),
            (at @ (At::Data { .. } | At::End), _) => at,
        })
    }
}

impl Part {
    /// One byte of an extension; `None` where the grammar has no place for it.
    fn next(self, byte: u8) -> Option<Part> {
        let blank = matches!(byte, b' ' | b'\t');
        let token = is(byte, TOKEN);
        Some(match (self, byte) {
            (Part::BeforeSemicolon | Part::BeforeName | Part::AfterName | Part::BeforeValue, _) if blank => self,
            (Part::BeforeName | Part::Name, _) if token => Part::Name,
            (Part::BeforeValue | Part::Token, _) if token => Part::Token,
            (Part::Name, _) if blank => Part::AfterName,
            (Part::Token | Part::AfterQuoted, _) if blank => Part::BeforeSemicolon,
            (Part::Name | Part::AfterName, b'=') => Part::BeforeValue,
            (Part::BeforeValue, b'"') => Part::Quoted,
            (Part::Quoted, b'"') => Part::AfterQuoted,
            (Part::Quoted, b'\\') => Part::Escaped,
            (Part::Quoted | Part::Escaped, b'\t' | b' '..=b'~' | 0x80..) => Part::Quoted,
            (Part::BeforeSemicolon | Part::Name | Part::AfterName | Part::Token | Part::AfterQuoted, b';') => {
                Part::BeforeName
            }
            _ => return None,
        })
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> Result<(usize, bool), BodyFault> {
        let mut scanner = ChunkScanner::new();
        scanner.scan(bytes).map(|length| (length, scanner.is_done()))
    }

    #[test]
    fn the_end_is_found_and_the_next_request_is_left_alone() {
        for (body, length) in [
            (&b"0\r\n\r\nGET "[..], 5),
            (b"5\r\nhello\r\n0\r\n\r\n", 15),
            (b"5;a=b\r\nhello\r\n0;x=\"y z\"\r\n\r\nrest", 27),
            (b"5 ; a = b\t;c;d=\"\\\"\x80;\"\r\nhello\r\n0;e\r\n\r\n", 37),
            (b"00000A\r\n0123456789\r\n000\r\n\r\n", 27),
            (b"1\r\na\r\n0\r\nDigest: x\r\nA:\r\n\r\nGET", 26),
        ] {
            assert_eq!(whole(body), Ok((length, true)), "{}", body.escape_ascii());
        }
        assert_eq!(whole(b"5\r\nhel"), Ok((6, false)));
        assert_eq!(whole(b"0\r\n"), Ok((3, false)));
    }

    #[test]
    fn bodies_with_two_readings_are_refused() {
        for (body, fault) in [
            (&b"\r\n"[..], BodyFault::ChunkSize),
            (b"x\r\n", BodyFault::ChunkSize),
            (b"0x5\r\n", BodyFault::ChunkSize),
            (b"-5\r\n", BodyFault::ChunkSize),
            (b"+5\r\n", BodyFault::ChunkSize),
            (b" 5\r\n", BodyFault::ChunkSize),
            (b"5 \r\n", BodyFault::ChunkExtension),
            (b"5\n", BodyFault::ChunkSize),
            (b"5_0\r\n", BodyFault::ChunkSize),
            (b"1000000000000000\r\n", BodyFault::ChunkSize),
            (b"5;\r\n", BodyFault::ChunkExtension),
            (b"5;;\r\n", BodyFault::ChunkExtension),
            (b"5;=b\r\n", BodyFault::ChunkExtension),
            (b"5;a=\r\n", BodyFault::ChunkExtension),
            (b"5;a \r\n", BodyFault::ChunkExtension),
            (b"5;a=b \r\n", BodyFault::ChunkExtension),
            (b"5;a=b c\r\n", BodyFault::ChunkExtension),
            (b"5;a b\r\n", BodyFault::ChunkExtension),
            (b"5;a=b=c\r\n", BodyFault::ChunkExtension),
            (b"5;a=\"b\r\n", BodyFault::ChunkExtension),
            (b"5;a=\"b\"c\r\n", BodyFault::ChunkExtension),
            (b"5;a=\"b\\\r\n", BodyFault::ChunkExtension),
            (b"5;a,b\r\n", BodyFault::ChunkExtension),
            (b"5;\x80\r\n", BodyFault::ChunkExtension),
            (b"5;a\nhello", BodyFault::ChunkExtension),
            (b"5;a\x00b\r\n", BodyFault::ChunkExtension),
            (b"5\rhello", BodyFault::ChunkEnding),
            (b"5;a\rx", BodyFault::ChunkEnding),
            (b"5\r\nhelloX", BodyFault::ChunkEnding),
            (b"5\r\nhello\n", BodyFault::ChunkEnding),
            (b"5\r\nhello\rX", BodyFault::ChunkEnding),
            (b"0\r\n\rX", BodyFault::ChunkEnding),
            (b"0\r\n\n", BodyFault::Trailer),
            (b"0\r\nGET / HTTP/1.1\r\n", BodyFault::Trailer),
            (b"0\r\n: x\r\n", BodyFault::Trailer),
            (b"0\r\nA: b\n", BodyFault::Trailer),
            (b"0\r\nA: b\r\n c\r\n", BodyFault::Trailer),
            (b"0\r\nA: b\rX", BodyFault::Trailer),
        ] {
            assert_eq!(whole(body), Err(fault), "{}", body.escape_ascii());
        }
        let long = [b"5;".as_slice(), &[b'a'; 300], b"\r\n"].concat();
        assert_eq!(whole(&long), Err(BodyFault::ChunkExtension));
        let long = [b"0\r\nA:".as_slice(), &[b'a'; 9000], b"\r\n"].concat();
        assert_eq!(whole(&long), Err(BodyFault::Trailer));
    }

    #[test]
    fn a_size_over_the_limit_is_refused_before_its_bytes_come() {
        let within = |limit, body: &[u8]| {
            let mut scanner = ChunkScanner::new();
            scanner.limit(limit);
            scanner.scan(body)
        };
        assert_eq!(within(5, b"5\r\nhello\r\n0\r\n\r\n"), Ok(15));
        assert_eq!(within(4, b"5"), Err(BodyFault::TooLarge));
        assert_eq!(within(0x1000, b"1001"), Err(BodyFault::TooLarge));
        assert_eq!(within(5, b"3\r\nabc\r\n3"), Err(BodyFault::TooLarge));
        assert_eq!(within(5, b"3\r\nabc\r\n2\r\nde\r\n0"), Ok(16));
        assert_eq!(within(5, b"3\r\nabc\r\n2\r\nde\r\n1"), Err(BodyFault::TooLarge));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn cutting_the_body_changes_nothing(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..5),
            damage in proptest::option::of((any::<proptest::sample::Index>(), any::<u8>())),
            cut in 1usize..7,
        ) {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                body.extend_from_slice(chunk);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            let sound = body.len();
            body.extend_from_slice(b"GET / HTTP/1.1\r\n");
            if let Some((place, byte)) = damage {
                let place = place.index(body.len());
                body[place] = byte;
            } else {
                prop_assert_eq!(whole(&body), Ok((sound, true)));
            }
            let mut scanner = ChunkScanner::new();
            let mut total = 0;
            let mut verdict = Ok(());
            for piece in body.chunks(cut) {
                match scanner.scan(piece) {
                    Ok(length) => total += length,
                    Err(fault) => { verdict = Err(fault); break; }
                }
                if scanner.is_done() { break; }
            }
            prop_assert_eq!(verdict.map(|()| (total, scanner.is_done())), whole(&body));
        }
    }
}
