//! The head of an origin's answer (RFC 9112 sections 4–6), judged on its raw bytes before Pingora reads it.
//!
//! Pingora parses answers leniently: folded lines, blanks before colons, lone LFs, repeated lengths, a length beside a
//! coding. Whoever stands behind us may read such an answer otherwise and take its rest for the answer to the next request.
//! Here it is refused, with the grammar (and the code) that requests are held to. Pure: bytes in, verdict out.
//!
//! Choices where RFC 9112 leaves one: a status line may end right behind its code, as many origins leave out the blank
//! before an empty reason; codes outside 100 to 599 are refused; a coding in an HTTP/1.0 answer is; a switch of protocols
//! must name the protocol.

use super::fault::AnswerFault;
use crate::head::fields::plain_number;
use crate::head::scan::value_end;
use crate::head::{HeadLimits, Parser, Stop, UnderscoreTwins, Version, trim};
use crate::path::EscapedSlash;
use crate::ranges::LineRanges;

/// How much head an answer may have: twice what a request may, since origins are fewer and cookies are set in it.
pub const ANSWER_LIMITS: HeadLimits = HeadLimits {
    bytes: 64 * 1024,
    request_line: 64 * 1024,
    fields: 200,
    twins: UnderscoreTwins::Allow,
    escaped_slash: EscapedSlash::Keep,
};

/// How the end of an answer's body is told by its head alone; whether there is one at all depends on the request too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By its length, which may be zero.
    Length(u64),
    /// By chunks.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// A head with one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerHead {
    /// 100 to 599.
    pub status: u16,
    /// The end of the body.
    pub framing: Framing,
    /// `Upgrade` and `Connection: upgrade` are there.
    pub upgrade: bool,
    /// Where the head ends, empty line included.
    pub end: usize,
}

/// Judges the head at the front of `bytes`. `Ok(None)` means that it has no end yet and no fault so far.
///
/// # Errors
/// The first [`AnswerFault`], in the order of the bytes; faults of the head as a whole come last.
pub fn parse(bytes: &[u8], limits: &HeadLimits) -> Result<Option<AnswerHead>, AnswerFault> {
    judged(bytes, limits, Parser::new)
}

/// As [`parse`]; `lines` are those of the head then.
///
/// # Errors
/// As [`parse`].
pub fn parse_noting(
    bytes: &[u8],
    limits: &HeadLimits,
    lines: &mut LineRanges,
) -> Result<Option<AnswerHead>, AnswerFault> {
    lines.clear();
    judged(bytes, limits, |window, at| Parser::noting(window, at, lines))
}

fn judged<'a>(
    bytes: &'a [u8],
    limits: &HeadLimits,
    parser: impl FnOnce(&'a [u8], usize) -> Parser<'a>,
) -> Result<Option<AnswerHead>, AnswerFault> {
    let window = bytes.get(..limits.bytes).unwrap_or(bytes);
    match head(parser(window, 0), limits) {
        Ok(head) => head.judged().map(Some),
        Err(Failed::Fault(fault)) => Err(fault),
        Err(Failed::Line(Stop::Fault(fault))) => Err(fault.into()),
        Err(Failed::Line(Stop::Incomplete)) if bytes.len() >= limits.bytes => Err(AnswerFault::HeadTooLarge),
        Err(Failed::Line(Stop::Incomplete)) => Ok(None),
    }
}

enum Failed {
    Line(Stop),
    Fault(AnswerFault),
}

impl From<Stop> for Failed {
    fn from(stop: Stop) -> Failed {
        Failed::Line(stop)
    }
}

impl From<AnswerFault> for Failed {
    fn from(fault: AnswerFault) -> Failed {
        Failed::Fault(fault)
    }
}

/// What stands in a head, not judged as a whole yet.
struct Found {
    version: Version,
    status: u16,
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
    connection_upgrade: bool,
    end: usize,
}

fn head(mut parser: Parser<'_>, limits: &HeadLimits) -> Result<Found, Failed> {
    let (version, status) = status_line(&mut parser)?;
    let mut found =
        Found { version, status, length: None, chunked: false, upgrade: false, connection_upgrade: false, end: 0 };
    let mut count = 0;
    while let Some((name, value)) = parser.field(count == limits.fields)? {
        count += 1;
        found.take(name, value)?;
    }
    found.end = parser.at;
    Ok(found)
}

fn status_line(parser: &mut Parser<'_>) -> Result<(Version, u16), Failed> {
    const NAME: &[u8] = b"HTTP/";
    let rest = parser.bytes.get(parser.at..).unwrap_or_default();
    let begun = NAME.len().min(rest.len());
    if rest.get(..begun) != NAME.get(..begun) {
        return Err(AnswerFault::StatusLine.into());
    }
    let [major, b'.', minor, b' ', code @ ..] = rest.get(NAME.len()..).unwrap_or_default() else {
        let strange = match rest.get(NAME.len()..).unwrap_or_default() {
            [major, ..] if !major.is_ascii_digit() => true,
            [_, dot, ..] if *dot != b'.' => true,
            [_, _, minor, ..] if !minor.is_ascii_digit() => true,
            [_, _, _, _, ..] => true,
            _ => false,
        };
        return Err(if strange { AnswerFault::StatusLine.into() } else { Stop::Incomplete.into() });
    };
    let version = match (major, minor) {
        (b'1', b'1') => Version::Http11,
        (b'1', b'0') => Version::Http10,
        (b'0'..=b'9', b'0'..=b'9') => return Err(AnswerFault::Version.into()),
        _ => return Err(AnswerFault::StatusLine.into()),
    };
    let digits = code.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    if digits < 3 {
        return Err(if code.len() > digits { AnswerFault::StatusLine.into() } else { Stop::Incomplete.into() });
    }
    let status = code.iter().take(3).fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    if !(100..600).contains(&status) {
        return Err(AnswerFault::StatusLine.into());
    }
    parser.at += NAME.len() + 4 + 3;
    match parser.peek()? {
        b' ' => parser.at = value_end(parser.bytes, parser.at + 1).ok_or(Stop::Incomplete)?,
        b'\r' | b'\n' => {}
        _ => return Err(AnswerFault::StatusLine.into()),
    }
    match parser.peek()? {
        b'\r' | b'\n' => parser.line_end()?,
        _ => return Err(AnswerFault::StatusLine.into()),
    }
    Ok((version, status))
}

impl Found {
    #[inline]
    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), AnswerFault> {
        // the length tells nearly all other fields apart before a letter is compared
        match name.len() {
            7 if name.eq_ignore_ascii_case(b"upgrade") => self.upgrade |= !value.is_empty(),
            10 if name.eq_ignore_ascii_case(b"connection") => {
                let mut options = value.split(|&byte| byte == b',').map(trim);
                self.connection_upgrade |= options.any(|option| option.eq_ignore_ascii_case(b"upgrade"));
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = plain_number(value).ok_or(AnswerFault::ContentLength)?;
                // even an equal repetition is refused: it takes two writers to make one
                if self.length.replace(length).is_some() {
                    return Err(AnswerFault::ContentLength);
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(AnswerFault::TransferEncoding);
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn judged(self) -> Result<AnswerHead, AnswerFault> {
        let framing = match (self.length, self.chunked) {
            (Some(_), true) => return Err(AnswerFault::LengthAndEncoding),
            // RFC 9112 section 6.1: its framing is faulty
            (None, true) if self.version == Version::Http10 => return Err(AnswerFault::TransferEncoding),
            (None, true) => Framing::Chunked,
            (Some(length), false) => Framing::Length(length),
            (None, false) => Framing::UntilClose,
        };
        // neither has a body, and whoever believes the framing waits for one (RFC 9110 section 8.6, RFC 9112 section 6.1);
        // a length of zero says the same in other words
        let bodiless = matches!(self.status, 100..=199 | 204);
        if bodiless && !matches!(framing, Framing::UntilClose | Framing::Length(0)) {
            return Err(AnswerFault::BodyWhereNone);
        }
        Ok(AnswerHead { status: self.status, framing, upgrade: self.upgrade && self.connection_upgrade, end: self.end })
    }
}

#[cfg(test)]
mod tests;
