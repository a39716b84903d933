//! Text formats as data: in the operator's words, which are nginx's `log_format` (`$remote_addr …`) or Apache's `LogFormat` (`%h …`),
//! and those of servers that are known.
//!
//! A value ends where the text begins that stands behind it in the format. Two values side by side cannot be told apart, and a
//! format without a client, a time or a request is of no use: both are faults of the format.
//!
//! Sources: nginx, `ngx_http_log_module`; Apache HTTP Server, `mod_log_config`; Elastic Load Balancing, Application Load
//! Balancers, "Access logs"; Envoy, "Access logging: format strings".

mod fault;
mod words;

use std::sync::LazyLock;

use memchr::memmem;

use super::address::address_and_port;
use super::given::Gives;
use super::quoted::{last_of, request_line, target, unescape};
use crate::replay::line::{FieldName, FieldSpan, Line, NameAt, Parsed, Span};
use crate::replay::stamp::{self, SECOND, Stamps};
use words::{Word, words};

pub use fault::CustomFault;

/// A request may take so long until its answer begins: the longest time that a balancer of AWS may idle.
const LONGEST: u64 = 4_000 * SECOND;

/// AWS's Application Load Balancer. The stamp is that of the answer. The time when the request came is behind the priority in newer
/// logs; without it the three parts of the way are taken off the stamp.
pub static ALB: LazyLock<Custom> = LazyLock::new(|| {
    let words = r#"$type $time_iso8601 $elb $remote_addr $target $request_time $request_time $request_time $status $target_status $received $bytes_sent "$request" "$http_user_agent" $cipher $protocol $group "$trace" "$domain" "$certificate" $priority $start_time $rest"#;
    Custom::known("AWS ALB", words, 1_000, 14)
});

/// Envoy's default text. The stamp is that of the request's beginning.
pub static ENVOY: LazyLock<Custom> = LazyLock::new(|| {
    let words = r#"[$start_time] "$request" $status $flags $received $bytes_sent $duration_ms $service "$forwarded" "$http_user_agent" "$id" "$host" "$upstream""#;
    Custom::known("Envoy text", words, SECOND / 1_000, 13)
});

/// A compiled format.
#[derive(Debug, Clone, Default)]
pub struct Custom {
    /// The name for people.
    pub title: &'static str,
    /// The step of its stamps, in nanoseconds.
    pub resolution: u64,
    /// Values that each line has; those behind them may be missing at its end.
    least: usize,
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
        if !has(&|word| matches!(word, Word::Client | Word::Forwarded(_))) {
            return Err(CustomFault::Lacks("client ($remote_addr, %h)"));
        }
        if !has(&|word| matches!(word, Word::TimeLocal | Word::TimeRfc3339 | Word::Epoch(_) | Word::Began)) {
            return Err(CustomFault::Lacks("time ($time_local, $time_iso8601, $msec, %t)"));
        }
        if !has(&|word| matches!(word, Word::Request | Word::Target | Word::Path)) {
            return Err(CustomFault::Lacks("request ($request, $request_uri, $uri, %r, %U)"));
        }
        let step = |word: &Word| match word {
            Word::Epoch(unit) => Some((*unit).min(SECOND / 1_000)),
            Word::TimeLocal | Word::TimeRfc3339 => Some(SECOND),
            _ => None,
        };
        let resolution = parts.iter().filter_map(|(word, _)| step(word)).min().unwrap_or(SECOND);
        Ok(Custom { title: "custom log format", resolution, least: parts.len(), lead, parts, names })
    }

    /// A format of a server, whose words a test compiles.
    fn known(title: &'static str, words: &str, resolution: u64, least: usize) -> Custom {
        Custom { title, resolution, least, ..Custom::new(words).unwrap_or_default() }
    }

    /// The names of the fields that it gives.
    pub fn names(&self) -> Vec<FieldName> {
        self.names.clone()
    }

    /// Whether it gives this field.
    pub fn gives(&self, name: &FieldName) -> Gives {
        if self.names.contains(name) { Gives::Always } else { Gives::Never }
    }

    /// Whether it says how long a request took.
    pub fn gives_duration(&self) -> Gives {
        let has = self.parts.iter().any(|(word, _)| matches!(word, Word::Duration(_)));
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
        let (mut request, mut aim, mut epoch, mut began) = (Span::NONE, Span::NONE, None, None);
        let from = fields.len();
        for (index, (word, behind)) in self.parts.iter().enumerate() {
            let rest = line.get(at..)?;
            let end = match memmem::find(rest, behind) {
                _ if behind.is_empty() => rest.len(),
                Some(end) => end,
                None if index >= self.least => break,
                None => return None,
            };
            let (span, text) = (Span::new(at, at + end), rest.get(..end)?);
            at += end + behind.len();
            match word {
                Word::Client => (parsed.client, parsed.address) = (span, address_and_port(text)),
                Word::Forwarded(name) => {
                    parsed.client = last_of(line, span);
                    parsed.address = parsed.client.of(line).and_then(address_and_port);
                    fields.extend((text != b"-").then_some(FieldSpan { name: NameAt::Listed(*name), value: span }));
                }
                Word::Began => began = stamp::rfc3339(text),
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
                Word::Status if text == b"-" => {}
                Word::Status => parsed.status = u16::try_from(stamp::number(text)?).ok()?,
                Word::Bytes => parsed.bytes = stamp::number(text).unwrap_or(0),
                // of the parts of a way those that were taken
                Word::Duration(unit) => {
                    let part = stamp::decimal(text, *unit);
                    parsed.duration =
                        part.map(|part| parsed.duration.unwrap_or(0).saturating_add(part)).or(parsed.duration);
                }
                Word::Field(name) if text != b"-" => {
                    fields.push(FieldSpan { name: NameAt::Listed(*name), value: span })
                }
                Word::Field(_) | Word::Other => {}
            }
        }
        let took = parsed.duration.unwrap_or(0);
        match epoch.unwrap_or(parsed.stamp) {
            // without the time of its end
            0 => (parsed.start, parsed.stamp) = (began?, began?.saturating_add(took)),
            ended => {
                let began = began.filter(|began| *began <= ended && ended - began <= LONGEST);
                (parsed.start, parsed.stamp) = (began.unwrap_or(ended.saturating_sub(took)), ended);
                parsed.duration = began.map(|began| ended - began).or(parsed.duration);
            }
        }
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
