//! A format in the operator's own words: nginx's `log_format` (`$remote_addr …`) or Apache's `LogFormat` (`%h …`).
//!
//! A value ends where the text begins that stands behind it in the format. Two values side by side cannot be told apart, and a
//! format without a client, a time or a request is of no use: both are said when the format is read.
//!
//! Sources: nginx, `ngx_http_log_module`; Apache HTTP Server, `mod_log_config`.

mod fault;
mod words;

use memchr::memmem;

use super::address::address;
use super::given::Gives;
use super::quoted::{request_line, target, unescape};
use crate::replay::line::{FieldName, FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp::{self, SECOND, Stamps};
use words::{Word, words};

pub use fault::CustomFault;

/// A compiled format.
#[derive(Debug, Clone)]
pub struct Custom {
    /// What stands before the first value.
    lead: Vec<u8>,
    /// Every value and the text behind it; an empty one at the end of the line.
    parts: Vec<(Word, Vec<u8>)>,
    names: Vec<FieldName>,
}

impl Custom {
    /// Compiles a format.
    ///
    /// # Errors
    /// It cannot be read back, or says too little.
    pub fn new(format: &str) -> Result<Custom, CustomFault> {
        let (lead, parts, names) = words(format)?;
        let has = |wanted: &dyn Fn(&Word) -> bool| parts.iter().any(|(word, _)| wanted(word));
        if !has(&|word| *word == Word::Client) {
            return Err(CustomFault::Lacks("client ($remote_addr, %h)"));
        }
        if !has(&|word| matches!(word, Word::TimeLocal | Word::TimeRfc3339 | Word::Epoch(_))) {
            return Err(CustomFault::Lacks("time ($time_local, $time_iso8601, $msec, %t)"));
        }
        if !has(&|word| matches!(word, Word::Request | Word::Target | Word::Path)) {
            return Err(CustomFault::Lacks("request ($request, $request_uri, $uri, %r, %U)"));
        }
        Ok(Custom { lead, parts, names })
    }

    /// The names of the fields that it gives.
    pub fn names(&self) -> Vec<FieldName> {
        self.names.clone()
    }

    /// Whether it gives this field.
    pub fn gives(&self, name: &FieldName) -> Gives {
        if self.names.contains(name) { Gives::Always } else { Gives::Never }
    }

    /// The step of its stamps, in nanoseconds: that of the finest one.
    pub fn resolution(&self) -> u64 {
        let step = |word: &Word| match word {
            Word::Epoch(unit) => Some((*unit).min(SECOND / 1_000)),
            Word::TimeLocal | Word::TimeRfc3339 => Some(SECOND),
            _ => None,
        };
        self.parts.iter().filter_map(|(word, _)| step(word)).min().unwrap_or(SECOND)
    }

    /// Whether it says how long a request took.
    pub fn gives_duration(&self) -> Gives {
        let has = self.parts.iter().any(|(word, _)| matches!(word, Word::Duration(_)));
        if has { Gives::Always } else { Gives::Never }
    }

    /// Whether it says the host.
    pub fn gives_host(&self) -> Gives {
        let has = self.parts.iter().any(|(word, _)| matches!(word, Word::Host));
        if has { Gives::Always } else { Gives::Never }
    }

    /// Reads one line.
    pub fn parse(
        &self,
        line: &mut [u8],
        stamps: &mut Stamps,
        fields: &mut Vec<FieldSpan>,
        parsed: &mut Parsed,
    ) -> Option<Line> {
        if !line.starts_with(&self.lead) {
            return None;
        }
        let mut at = self.lead.len();
        let (mut request, mut aim, mut epoch) = (Span::NONE, Span::NONE, None);
        let from = fields.len();
        for (word, behind) in &self.parts {
            let rest = line.get(at..)?;
            let end = if behind.is_empty() { rest.len() } else { memmem::find(rest, behind)? };
            let (span, text) = (Span::new(at, at + end), rest.get(..end)?);
            at += end + behind.len();
            match word {
                Word::Client => (parsed.client, parsed.address) = (span, address(text)),
                Word::TimeLocal => {
                    let text = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
                    parsed.stamp = stamps.common(text).or_else(|| stamp::common(text))?;
                }
                Word::TimeRfc3339 => parsed.stamp = stamp::rfc3339(text)?,
                Word::Epoch(unit) => epoch = Some(stamp::decimal(text, *unit)?),
                Word::Request => request = span,
                Word::Target => aim = span,
                Word::Path => parsed.path = span,
                Word::Method => parsed.method = span,
                Word::Query => {
                    let bare = if text.first() == Some(&b'?') { Span::new(span.from() + 1, span.to()) } else { span };
                    parsed.query = if matches!(text, b"" | b"-") { Span::NONE } else { bare };
                }
                Word::Host => parsed.host = if matches!(text, b"" | b"-") { Span::NONE } else { span },
                Word::Status => parsed.status = u16::try_from(stamp::number(text)?).ok()?,
                Word::Bytes => parsed.bytes = stamp::number(text).unwrap_or(0),
                Word::Duration(unit) => parsed.duration = stamp::decimal(text, *unit),
                Word::Field(name) if text != b"-" => {
                    fields.push(FieldSpan { name: NameAt::Listed(*name), value: span })
                }
                Word::Field(_) | Word::Other => {}
            }
        }
        parsed.stamp = epoch.unwrap_or(parsed.stamp);
        parsed.start = parsed.stamp.saturating_sub(parsed.duration.unwrap_or(0));
        for field in fields.get_mut(from..).unwrap_or_default() {
            field.value = unescape(line, field.value);
        }
        let path = (parsed.path, parsed.query);
        if !request.is_none() {
            let request = unescape(line, request);
            let read = request_line(line, request, parsed);
            if read != Line::Request {
                return Some(read);
            }
        }
        if !aim.is_none() {
            let aim = unescape(line, aim);
            return Some(target(line, aim, parsed));
        }
        if request.is_none() {
            (parsed.path, parsed.query) = (unescape(line, path.0), path.1);
        }
        Some(if parsed.path.of(line).is_none_or(|path| matches!(path, b"" | b"-")) {
            Line::NoRequest
        } else {
            Line::Request
        })
    }
}
