//! A chunked body (`tidegate_http::chunk`). The input is the body and what follows it.
//!
//! - It ends where a second, slow decoder finds its end, and nowhere else.
//! - Decoders with every leniency known from the field find the same data in it and the same end.
//! - Where it is cut does not matter, and no byte behind the end is looked at.
//! - Repacked into larger chunks it holds the same data, and httparse, which Pingora decodes those by, reads their sizes as they are.
//! - A body that may hold a byte less than it does is refused.

use std::task::Poll;

use bytes::BytesMut;
use tidegate::edge::repack::{LEAST_ROOM, poll_repack};
use tidegate_http::chunk::ChunkScanner;
use tidegate_http::fault::BodyFault;

use super::cost::{self, USUAL, Work};

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    Some(Box::new(|| {
        let _ = (scan(data, data.len().max(1)), scan(data, 64));
    }))
}

/// The target.
pub fn chunks(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    let whole = scan(data, data.len().max(1));
    for step in [1, 2, 7, 64] {
        assert_eq!(scan(data, step), whole, "cut every {step} bytes");
    }
    let slow = decode(data);
    let Ok((passed, true)) = whole else {
        assert_eq!(slow, None, "an end is missed: {whole:?}");
        return assert!(whole.is_err() || whole == Ok((data.len(), false)), "stops without a reason");
    };
    let slow = slow.expect("an end that is none");
    assert_eq!(passed, slow.end);
    assert_eq!(scan(&data[..passed], passed), Ok((passed, true)), "what follows matters");
    for (step, room) in [(1, LEAST_ROOM), (7, 64), (64, 1 << 16)] {
        let repacked = repack(&data[..passed], step, room);
        let again = decode(&repacked).expect("what is handed on is a body");
        assert_eq!((again.payload, again.end), (slow.payload.clone(), repacked.len()));
        for (at, size) in again.size_lines {
            let read = httparse::parse_chunk_size(&repacked[at..]);
            assert!(matches!(read, Ok(httparse::Status::Complete((_, read))) if read == size));
        }
    }
    if let Some(less) = slow.payload.len().checked_sub(1) {
        let mut scanner = ChunkScanner::new();
        scanner.limit(less as u64);
        assert_eq!(scanner.scan(data), Err(BodyFault::TooLarge));
    }
    for leniency in Leniency::ALL {
        assert_eq!(leniency.decode(data), Some((slow.payload.clone(), slow.end)), "{leniency:?}");
    }
}

/// Where the body ends, if it does and is faultless.
pub fn end(data: &[u8]) -> Option<usize> {
    decode(data).map(|decoded| decoded.end)
}

/// How many bytes belong to the body and whether it has ended, when they come in pieces.
fn scan(data: &[u8], step: usize) -> Result<(usize, bool), BodyFault> {
    let mut scanner = ChunkScanner::new();
    let mut passed = 0;
    for piece in data.chunks(step) {
        let here = scanner.scan(piece)?;
        passed += here;
        assert!(here <= piece.len() && (here == piece.len() || scanner.is_done()));
        if scanner.is_done() {
            assert_eq!(scanner.scan(b"more"), Ok(0));
            break;
        }
    }
    Ok((passed, scanner.is_done()))
}

/// What a reader with buffers of this size is handed, when the body comes in pieces.
fn repack(body: &[u8], step: usize, room: usize) -> Vec<u8> {
    let (mut scanner, mut inbox, mut handed) = (ChunkScanner::new(), BytesMut::new(), Vec::new());
    let mut pieces = body.chunks(step);
    let mut space = vec![0; room];
    while !scanner.is_done() {
        let mut buf = tokio::io::ReadBuf::new(&mut space);
        let read = |buf: &mut tokio::io::ReadBuf<'_>| {
            let piece = pieces.next().unwrap_or_default();
            // a piece that does not fit is cut, and what is left of it lost: the last room is never that small
            buf.put_slice(piece);
            Poll::Ready(Ok(()))
        };
        match poll_repack(&mut scanner, &mut inbox, &mut buf, read) {
            Poll::Ready(Ok(1..)) => handed.extend_from_slice(buf.filled()),
            other => panic!("a sound body is handed on: {other:?}"),
        }
    }
    handed
}

/// A whole body, taken apart.
#[derive(Debug, PartialEq)]
struct Decoded {
    payload: Vec<u8>,
    /// Where each size begins, and the size.
    size_lines: Vec<(usize, u64)>,
    end: usize,
}

/// RFC 9112 section 7.1, with the bounds of the module; none if there is a fault before the end, or no end.
fn decode(data: &[u8]) -> Option<Decoded> {
    let mut decoded = Decoded { payload: Vec::new(), size_lines: Vec::new(), end: 0 };
    let line = |at: usize| data[at..].windows(2).position(|two| two == b"\r\n").map(|length| &data[at..at + length]);
    let mut at = 0;
    loop {
        let size_line = line(at)?;
        let digits = size_line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (size, extensions) = size_line.split_at(digits);
        // the semicolon that begins them is not counted, a blank before it is
        let length = extensions.strip_prefix(b";").unwrap_or(extensions).len();
        if !(1..=15).contains(&digits) || length > 256 || !are_extensions(extensions) {
            return None;
        }
        let size = u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        decoded.size_lines.push((at, size));
        at += size_line.len() + 2;
        if size == 0 {
            break;
        }
        let chunk = data.get(at..at.checked_add(usize::try_from(size).ok()?)?)?;
        decoded.payload.extend(chunk);
        at += chunk.len();
        if data.get(at..at + 2)? != b"\r\n" {
            return None;
        }
        at += 2;
    }
    let mut used = 0;
    loop {
        let trailer = line(at)?;
        at += trailer.len() + 2;
        if trailer.is_empty() {
            decoded.end = at;
            return Some(decoded);
        }
        let colon = trailer.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&trailer[..colon], &trailer[colon + 1..]);
        let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let text = |byte: &u8| !byte.is_ascii_control() || *byte == b'\t';
        used += name.len() + value.len();
        if name.is_empty() || !name.iter().all(token) || !value.iter().all(text) || used > 8192 {
            return None;
        }
    }
}

/// `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` (RFC 9112 section 7.1.1).
fn are_extensions(mut text: &[u8]) -> bool {
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let word = |text: &[u8]| text.iter().take_while(|byte| token(byte)).count();
    while !text.is_empty() {
        let Some(rest) = unblanked(text).strip_prefix(b";").map(unblanked) else { return false };
        let name = word(rest);
        if name == 0 {
            return false;
        }
        text = &rest[name..];
        let Some(rest) = unblanked(text).strip_prefix(b"=").map(unblanked) else { continue };
        let value = if rest.starts_with(b"\"") { quoted(rest) } else { word(rest) };
        if value == 0 {
            return false;
        }
        text = &rest[value..];
    }
    true
}

fn unblanked(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..]
}

/// The length of the quoted string at the front, quotes included; 0 if it is none.
fn quoted(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 1,
            _ => {}
        }
        if !text.get(at).is_some_and(|byte| !byte.is_ascii_control() || *byte == b'\t') {
            return 0;
        }
        at += 1;
    }
    0
}

/// What a decoder in the field does differently.
#[derive(Debug, Clone, Copy)]
enum Leniency {
    /// A lone LF ends a line.
    LineFeedEnds,
    /// A lone CR ends a line.
    ReturnEnds,
    /// The size is what `strtol` makes of the line: blanks, a sign, `0x`, then digits up to whatever else.
    SizeLikeC,
    /// Two bytes behind the data are skipped, whatever they are.
    SkipsTwo,
    /// Only as many digits as fit into 32 bits count, the rest falls off the top.
    SizeWraps,
}

impl Leniency {
    const ALL: [Leniency; 5] =
        [Leniency::LineFeedEnds, Leniency::ReturnEnds, Leniency::SizeLikeC, Leniency::SkipsTwo, Leniency::SizeWraps];

    /// The data and where the body ends.
    fn decode(self, data: &[u8]) -> Option<(Vec<u8>, usize)> {
        let mut payload = Vec::new();
        let mut at = 0;
        loop {
            let (line, behind) = self.line(data, at)?;
            let size = self.size(line)?;
            at = behind;
            if size == 0 {
                break;
            }
            let chunk = data.get(at..at.checked_add(size)?)?;
            payload.extend(chunk);
            at += size;
            at = match self {
                Leniency::SkipsTwo => at + 2,
                _ => self.line(data, at).filter(|(line, _)| line.is_empty())?.1,
            };
        }
        loop {
            let (line, behind) = self.line(data, at)?;
            at = behind;
            if line.is_empty() {
                return Some((payload, at));
            }
        }
    }

    /// A line without its end, and where the next one begins.
    fn line(self, data: &[u8], from: usize) -> Option<(&[u8], usize)> {
        for at in from..data.len() {
            let end = match (data[at], data.get(at + 1)) {
                (b'\r', Some(b'\n')) => 2,
                (b'\n', _) if matches!(self, Leniency::LineFeedEnds) => 1,
                (b'\r', _) if matches!(self, Leniency::ReturnEnds) => 1,
                _ => continue,
            };
            return Some((&data[from..at], at + end));
        }
        None
    }

    fn size(self, line: &[u8]) -> Option<usize> {
        let line = String::from_utf8_lossy(line).into_owned();
        let text = match self {
            Leniency::SizeLikeC => {
                let text = line.trim_start().trim_start_matches('+');
                text.strip_prefix("0x").unwrap_or(text).to_owned()
            }
            _ => line.split(';').next().unwrap_or_default().to_owned(),
        };
        let digits: String = text.chars().take_while(char::is_ascii_hexdigit).collect();
        let size = u64::from_str_radix(&digits, 16).ok()?;
        if matches!(self, Leniency::SizeWraps) { Some(size as u32 as usize) } else { usize::try_from(size).ok() }
    }
}
