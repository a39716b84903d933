//! Follows the chunks of a request body (RFC 9112 section 7.1) without taking them apart.
//!
//! Pingora decodes the body; this only finds out where it ends, so that not one byte of the next request is taken for it,
//! and refuses what decoders in the field read differently: sizes that are not plain hex, blanks around them, lone LFs,
//! data that is not followed by CRLF, trailers that are no header fields. What it lets through is a strict subset of what
//! Pingora understands.

use super::fault::BodyFault;
use super::head::scan::{TOKEN, is};

/// Sizes need no more digits: 15 of them are a pebibyte.
const SIZE_DIGITS: u8 = 15;
/// Extensions are next to unused; more than this per chunk is an attack on whoever buffers them.
const EXTENSION_BYTES: u16 = 256;
/// Trailers are dropped by Pingora, so they only cost time.
const TRAILER_BYTES: u16 = 8192;

/// Where in a chunked body the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkScanner {
    at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Size { digits: u8, size: u64 },
    Extension { size: u64, used: u16 },
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

impl ChunkScanner {
    /// At the first byte of a body.
    pub fn new() -> ChunkScanner {
        ChunkScanner { at: At::Size { digits: 0, size: 0 } }
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
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            self.at = match self.at {
                At::End => break,
                At::Data { left } => {
                    let here = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    rest = rest.get(here..).unwrap_or_default();
                    self.at = match left - here as u64 {
                        0 => At::DataReturn,
                        left => At::Data { left },
                    };
                    continue;
                }
                at => at.next(byte)?,
            };
            rest = after;
        }
        Ok(bytes.len() - rest.len())
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
            (At::Size { digits: 1.., size }, b';') => At::Extension { size, used: 0 },
            (At::Size { digits: 1.., size }, b'\r') => At::SizeLineFeed { size },
            (At::Size { .. }, _) => return Err(BodyFault::ChunkSize),
            (At::Extension { size, .. }, b'\r') => At::SizeLineFeed { size },
            (At::Extension { size, used }, b' '..=b'~' | b'\t') if used < EXTENSION_BYTES => {
                At::Extension { size, used: used + 1 }
            }
            (At::Extension { .. }, _) => return Err(BodyFault::ChunkExtension),
            (At::SizeLineFeed { size: 0 }, b'\n') => At::TrailerStart { used: 0 },
            (At::SizeLineFeed { size }, b'\n') => At::Data { left: size },
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
            (b"5 \r\n", BodyFault::ChunkSize),
            (b"5\n", BodyFault::ChunkSize),
            (b"5_0\r\n", BodyFault::ChunkSize),
            (b"1000000000000000\r\n", BodyFault::ChunkSize),
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
