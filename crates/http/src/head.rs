//! A request head (RFC 9112 sections 2–5), judged on its raw bytes before anything else reads them.
//!
//! Nothing with two readings passes: wherever parsers in the field are known to differ (line endings, blanks, framing,
//! hosts, paths), the head is refused rather than repaired. What passes is then parsed again by Pingora; a property test
//! holds the two readings together. Pure: bytes in, verdict out, no allocation for an ordinary head.
//!
//! Choices where RFC 9112 leaves one: one empty line before the request line is skipped, a second is refused; methods are
//! upper case; `OPTIONS *` is refused, since a gateway with many origins has no one server to ask; HTTP/1.0 needs a
//! `Host` too, as the gate could not know which host was meant; folding, userinfo and fragments are refused.

pub mod fields;
pub mod framing;
pub mod scan;

use std::borrow::Cow;
use std::ops::Range;

use bytes::BytesMut;

use self::fields::Fields;
pub use self::fields::UnderscoreTwins;
pub use self::framing::{Body, Version};
pub use self::scan::trim;
use self::scan::{METHOD, TARGET, TOKEN, run_end, trimmed, value_end};
use super::authority::{host_name, without_empty_port};
use super::fault::HeadFault;
use super::path::{EscapedSlash, path_of};
use super::query::{LONGEST_TARGET, canonical_query};
use super::ranges::LineRanges;

/// How much head a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// All bytes, from the request line to the empty line.
    pub bytes: usize,
    /// The method and target together.
    pub request_line: usize,
    /// Header fields.
    pub fields: usize,
    /// What is done with fields that imitate trusted ones.
    pub twins: UnderscoreTwins,
    /// What is done with escaped slashes in the path.
    pub escaped_slash: EscapedSlash,
}

/// A head with one reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Where the request line begins: behind the empty line that was skipped, if there was one.
    pub start: usize,
    /// Where the method stands.
    pub method: Range<usize>,
    /// Where the target stands.
    pub target: Range<usize>,
    /// The target in canonical origin form, if it was not written so: what must replace it before anyone reads it.
    pub canonical_target: Option<String>,
    /// The version.
    pub version: Version,
    /// How the body ends.
    pub body: Body,
    /// The client waits for `100 Continue`.
    pub expect_continue: bool,
    /// The client asks to switch protocols. There is no body then.
    pub upgrade: bool,
    /// The client wants to send another request after this one.
    pub keep_alive: bool,
    /// There is a field that concerns this connection only, `Connection` itself among them.
    pub hop_by_hop: bool,
    /// `Host` ends in a colon, for whose port nothing is written. [`drop_empty_port`] takes it out.
    pub empty_port: bool,
    /// Where the head ends, empty line included.
    pub end: usize,
}

impl Head {
    /// The head as whoever reads it next shall see it, out of the bytes in which it was found: from the request line on, with
    /// the canonical target in the place of any other.
    pub fn written(&self, taken: BytesMut) -> BytesMut {
        let part = |from: usize, to: usize| taken.get(from..to).unwrap_or_default();
        match &self.canonical_target {
            None if self.start == 0 => taken,
            target => {
                let target = target.as_deref().map_or(part(self.target.start, self.target.end), str::as_bytes);
                let mut written = BytesMut::with_capacity(taken.len() + target.len());
                written.extend_from_slice(part(self.start, self.target.start));
                written.extend_from_slice(target);
                written.extend_from_slice(part(self.target.end, taken.len()));
                written
            }
        }
    }
}

/// Judges the head at the front of `bytes`. `Ok(None)` means that it has no end yet and no fault so far.
///
/// The verdict does not depend on how the bytes were cut: whatever is found in a part is found in the whole.
///
/// # Errors
/// The first [`HeadFault`], in the order of the bytes; faults of the head as a whole come last.
pub fn parse(bytes: &[u8], limits: &HeadLimits) -> Result<Option<Head>, HeadFault> {
    judged(bytes, limits, None)
}

/// As [`parse`]; `lines` are those of the head then, without the colon of an [empty port](Head::empty_port).
///
/// # Errors
/// As [`parse`].
pub fn parse_noting(bytes: &[u8], limits: &HeadLimits, lines: &mut LineRanges) -> Result<Option<Head>, HeadFault> {
    lines.clear();
    judged(bytes, limits, Some(lines))
}

fn judged(bytes: &[u8], limits: &HeadLimits, lines: Option<&mut LineRanges>) -> Result<Option<Head>, HeadFault> {
    let window = bytes.get(..limits.bytes).unwrap_or(bytes);
    match (Parser { bytes: window, at: 0, lines }).head(limits) {
        Ok(head) => Ok(Some(head)),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Incomplete) if bytes.len() >= limits.bytes => Err(HeadFault::TooLarge),
        Err(Stop::Incomplete) => Ok(None),
    }
}

/// Writes a blank for the colon of an empty port in `Host`, so that all who read the head find the same name. `bytes` are those of
/// a head that [`parse`] took.
pub fn drop_empty_port(bytes: &mut [u8]) {
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        let is_host = line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"host:"));
        let last = line.iter().rposition(|byte| !matches!(byte, b'\r' | b' ' | b'\t'));
        if let (true, Some(colon)) = (is_host, last.and_then(|last| line.get_mut(last)).filter(|last| **last == b':')) {
            *colon = b' ';
        }
    }
}

/// Looks for the end of a head that comes in pieces, each byte once, so that a head sent byte by byte costs no more than
/// one sent whole: [`parse`] begins anew each time and is only worth calling when this says so.
#[derive(Debug, Default)]
pub struct EndScan {
    line_start: usize,
    searched: usize,
}

impl EndScan {
    /// Whether [`parse`] would now say more than "not yet": the head has ended, a limit is reached, or a line ends wrongly.
    /// The slice must begin where it began in the last call.
    pub fn is_worth_parsing(&mut self, bytes: &[u8], limits: &HeadLimits) -> bool {
        while let Some(line_feed) = scan::line_feed(bytes, self.searched) {
            let line = bytes.get(self.line_start..line_feed).unwrap_or_default();
            let first_line = self.line_start == 0;
            let long_request_line = self.line_start <= EMPTY_LINE && line_feed > limits.request_line;
            self.line_start = line_feed + 1;
            self.searched = line_feed + 1;
            match line {
                // the one empty line that may come first
                b"\r" if first_line => {}
                [.., b'\r'] if line.len() > 1 && !long_request_line => {}
                _ => return true,
            }
        }
        self.searched = bytes.len();
        bytes.len() >= limits.bytes || (self.line_start <= EMPTY_LINE && bytes.len() > limits.request_line)
    }
}

/// The longest field name that the parser behind takes (`http::HeaderName`).
const LONGEST_NAME: usize = 65_535;

/// The length of the empty line that may come first.
const EMPTY_LINE: usize = 2;

/// Why the parser stopped before the end.
#[derive(Debug)]
pub enum Stop {
    /// There is no end yet, and no fault so far.
    Incomplete,
    /// This one.
    Fault(HeadFault),
}

impl From<HeadFault> for Stop {
    fn from(fault: HeadFault) -> Stop {
        Stop::Fault(fault)
    }
}

/// A field's name and value.
pub type Line<'a> = (&'a [u8], &'a [u8]);

/// Reads left to right. Shared with the reader of origins' answers, whose lines are of the same form.
pub struct Parser<'a> {
    /// What is read.
    pub bytes: &'a [u8],
    /// The first byte not judged yet.
    pub at: usize,
    /// Where the lines that were read stand.
    lines: Option<&'a mut LineRanges>,
}

impl<'a> Parser<'a> {
    /// Begins there.
    pub fn new(bytes: &'a [u8], at: usize) -> Parser<'a> {
        Parser { bytes, at, lines: None }
    }

    /// As [`Parser::new`]; notes where the lines stand.
    pub fn noting(bytes: &'a [u8], at: usize, lines: &'a mut LineRanges) -> Parser<'a> {
        Parser { bytes, at, lines: Some(lines) }
    }

    fn head(mut self, limits: &HeadLimits) -> Result<Head, Stop> {
        if self.peek()? == b'\r' || self.peek()? == b'\n' {
            self.line_end()?;
        }
        let start = self.at;
        let method = self.method()?;
        let target = self.target(limits.request_line)?;
        let version = self.version()?;
        let form = self.target_form(&method, &target)?;
        let fields = self.fields(limits)?;
        let framing = fields.conclude(version)?;
        let canonical_target = self.canonical_target(&form, &target, fields.host(), limits)?;
        let empty_port = fields.host().ends_with(b":");
        if let Some(lines) = self.lines.as_mut().filter(|_| empty_port) {
            lines.shorten(b"host", self.bytes);
        }
        Ok(Head {
            start,
            method,
            target,
            canonical_target,
            version,
            body: framing.body,
            expect_continue: framing.expect_continue,
            upgrade: framing.upgrade,
            keep_alive: framing.keep_alive,
            hop_by_hop: framing.hop_by_hop,
            empty_port,
            end: self.at,
        })
    }

    fn method(&mut self) -> Result<Range<usize>, Stop> {
        /// No registered method is longer than 17 (`UPDATEREDIRECTREF`).
        const LONGEST: usize = 32;
        let start = self.at;
        let end = run_end(self.bytes, start, METHOD);
        if end - start > LONGEST {
            return Err(HeadFault::Method.into());
        }
        self.at = end;
        if self.peek()? != b' ' || end == start {
            return Err(HeadFault::Method.into());
        }
        self.at += 1;
        Ok(start..end)
    }

    fn target(&mut self, limit: usize) -> Result<Range<usize>, Stop> {
        let start = self.at;
        let end = run_end(self.bytes, start, TARGET);
        if end > limit {
            return Err(HeadFault::TargetTooLong.into());
        }
        self.at = end;
        match self.peek()? {
            b' ' if end > start => {}
            b' ' | b'\t' => return Err(HeadFault::Blank.into()),
            b'\r' | b'\n' => return Err(HeadFault::Version.into()),
            _ => return Err(HeadFault::Target.into()),
        }
        self.at += 1;
        Ok(start..end)
    }

    fn version(&mut self) -> Result<Version, Stop> {
        const LENGTH: usize = 8;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| !byte.is_ascii_graphic()) else {
            return Err(if rest.len() > LENGTH { HeadFault::Version.into() } else { Stop::Incomplete });
        };
        let version = match rest.get(..length).unwrap_or_default() {
            b"HTTP/1.1" => Version::Http11,
            b"HTTP/1.0" => Version::Http10,
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                return Err(HeadFault::VersionUnsupported.into());
            }
            [] if matches!(rest.first(), Some(b' ' | b'\t')) => return Err(HeadFault::Blank.into()),
            _ => return Err(HeadFault::Version.into()),
        };
        self.at += length;
        match self.peek()? {
            b'\r' | b'\n' => self.line_end()?,
            _ => return Err(HeadFault::Blank.into()),
        }
        Ok(version)
    }

    /// The form of the target (RFC 9112 section 3.2) and where its parts are.
    fn target_form(&self, method: &Range<usize>, target: &Range<usize>) -> Result<Form, Stop> {
        let target = self.bytes.get(target.clone()).unwrap_or_default();
        if matches!(self.bytes.get(method.clone()), Some(b"CONNECT" | b"TRACE")) {
            return Err(HeadFault::MethodRefused.into());
        }
        if target.first() == Some(&b'/') {
            return Ok(Form { authority: None, path: 0 });
        }
        let colon = target.iter().position(|&byte| byte == b':').ok_or(HeadFault::TargetForm)?;
        let (scheme, rest) = target.split_at_checked(colon).unwrap_or_default();
        let known = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
        let rest = rest.strip_prefix(b"://").filter(|_| known).ok_or(HeadFault::TargetForm)?;
        let authority = colon + 3;
        let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        Ok(Form { authority: Some(authority..authority + length), path: authority + length })
    }

    /// Checks the path, and the authority of an absolute target against `Host`; returns the target that both the policy
    /// and the origin shall see, if it differs from the one written.
    fn canonical_target(
        &self,
        form: &Form,
        target: &Range<usize>,
        host: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<String>, Stop> {
        let start = target.start;
        let target = self.bytes.get(target.clone()).unwrap_or_default();
        if let Some(authority) = &form.authority {
            let authority = target.get(authority.clone()).unwrap_or_default();
            if host_name(authority).is_none() {
                return Err(HeadFault::Host.into());
            }
            if without_empty_port(authority) != without_empty_port(host) {
                return Err(HeadFault::HostMismatch.into());
            }
        }
        let rest = target.get(form.path..).unwrap_or_default();
        let (path, query) = rest.split_at_checked(run_end_of_path(rest)).unwrap_or_default();
        let canonical = path_of(if path.is_empty() { b"/" } else { path }, limits.escaped_slash)?;
        let canonical_query = canonical_query(query, limits.request_line.saturating_sub(start + path.len()))?;
        if form.path == 0 && canonical.as_bytes() == path && matches!(canonical_query, Cow::Borrowed(_)) {
            return Ok(None);
        }
        let mut written = canonical.into_owned();
        written.push_str(&canonical_query);
        if written.len() > LONGEST_TARGET {
            return Err(HeadFault::TargetTooLong.into());
        }
        Ok(Some(written))
    }

    fn fields(&mut self, limits: &HeadLimits) -> Result<Fields<'a>, Stop> {
        let mut fields = Fields::new(limits.twins);
        let mut count = 0;
        while let Some((name, value)) = self.field(count == limits.fields)? {
            count += 1;
            fields.take(name, value)?;
        }
        Ok(fields)
    }

    /// The next field, its value trimmed, or `None` behind the empty line that ends them. `full`: there must be no other.
    #[inline]
    pub fn field(&mut self, full: bool) -> Result<Option<Line<'a>>, Stop> {
        match self.peek()? {
            b'\r' | b'\n' => {
                self.line_end()?;
                return Ok(None);
            }
            b' ' | b'\t' => return Err(HeadFault::Folding.into()),
            _ if full => return Err(HeadFault::TooManyFields.into()),
            _ => {}
        }
        let start = self.at;
        let end = run_end(self.bytes, start, TOKEN);
        self.at = end;
        if end - start > LONGEST_NAME {
            return Err(HeadFault::FieldName.into());
        }
        if self.peek()? != b':' || end == start {
            return Err(HeadFault::FieldName.into());
        }
        let name = self.bytes.get(start..end).unwrap_or_default();
        let value_start = end + 1;
        self.at = value_end(self.bytes, value_start).ok_or(Stop::Incomplete)?;
        let behind = self.at;
        let range = trimmed(self.bytes, value_start..behind);
        match self.peek()? {
            b'\r' | b'\n' => self.line_end()?,
            _ => return Err(HeadFault::FieldValue.into()),
        }
        let value = self.bytes.get(range.clone()).unwrap_or_default();
        if let Some(lines) = &mut self.lines {
            let one_blank = range.start == value_start + 1 && self.bytes.get(value_start) == Some(&b' ');
            let is_plain = one_blank && range.end == behind;
            lines.note(name, start..end, range, is_plain).ok_or(HeadFault::TooLarge)?;
        }
        Ok(Some((name, value)))
    }

    /// CRLF and nothing else.
    pub fn line_end(&mut self) -> Result<(), Stop> {
        if self.peek()? != b'\r' {
            return Err(HeadFault::LineEnding.into());
        }
        self.at += 1;
        if self.peek()? != b'\n' {
            return Err(HeadFault::LineEnding.into());
        }
        self.at += 1;
        Ok(())
    }

    /// The first byte not judged yet.
    pub fn peek(&self) -> Result<u8, Stop> {
        self.bytes.get(self.at).copied().ok_or(Stop::Incomplete)
    }
}

/// Offsets into the target: the authority of an absolute one, and the path.
struct Form {
    authority: Option<Range<usize>>,
    path: usize,
}

fn run_end_of_path(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| byte == b'?').unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
