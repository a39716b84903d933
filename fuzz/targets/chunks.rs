//! A chunked body (`serve::edge::chunk`). The input is the body and what follows it.
//!
//! - It ends where a second, slow decoder finds its end, and nowhere else.
//! - Decoders with every leniency known from the field find the same data in it and the same end.
//! - Where it is cut does not matter, and no byte behind the end is looked at.
//! - httparse, which Pingora decodes it by, reads the same sizes.

use tidegate::serve::edge::chunk::ChunkScanner;
use tidegate::serve::edge::fault::BodyFault;

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
    for size_line in &slow.size_lines {
        let text = &data[size_line.0..];
        assert!(
            matches!(httparse::parse_chunk_size(text), Ok(httparse::Status::Complete((_, size))) if size == size_line.1)
        );
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
        let (size, extension) = match size_line.iter().position(|byte| *byte == b';') {
            Some(semicolon) => (&size_line[..semicolon], &size_line[semicolon + 1..]),
            None => (size_line, &[][..]),
        };
        let printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
        let digits = (1..=15).contains(&size.len()) && size.iter().all(u8::is_ascii_hexdigit);
        if !digits || extension.len() > 256 || !extension.iter().all(printable) {
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
