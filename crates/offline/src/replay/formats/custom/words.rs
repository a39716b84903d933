//! The words of both servers and what they stand for.

use super::fault::CustomFault;
use crate::replay::line::FieldName;
use crate::replay::stamp::SECOND;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Client,
    /// The list of a forwarding header, whose last element is the client; the name at this position.
    Forwarded(u16),
    TimeLocal,
    TimeRfc3339,
    /// The beginning, by RFC 3339.
    Began,
    /// Since 1970, in units of so many nanoseconds.
    Epoch(u64),
    Request,
    Target,
    Path,
    Method,
    Query,
    Host,
    Status,
    Bytes,
    /// In units of so many nanoseconds.
    Duration(u64),
    /// The name at this position.
    Field(u16),
    /// Of no use here.
    Other,
}

/// What stands before the first value, every value with what stands behind it, and the names of fields.
pub type Words = (Vec<u8>, Vec<(Word, Vec<u8>)>, Vec<FieldName>);

/// Takes a format apart.
pub fn words(format: &str) -> Result<Words, CustomFault> {
    let mut reader = Reader { lead: Vec::new(), parts: Vec::new(), names: Vec::new() };
    // Apache's directives begin with a percent sign, which nginx's formats never need
    let is_nginx = format.contains('$');
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        let after = rest.get(first.len_utf8()..).unwrap_or_default();
        rest = match first {
            '$' if is_nginx => reader.variable(after)?,
            '%' if !is_nginx => reader.directive(after)?,
            // as it is written in the servers' own files
            '\\' if after.starts_with('"') => {
                reader.literal(b"\"");
                after.get(1..).unwrap_or_default()
            }
            '\\' if after.starts_with('t') => {
                reader.literal(b"\t");
                after.get(1..).unwrap_or_default()
            }
            _ => {
                reader.literal(rest.get(..first.len_utf8()).unwrap_or_default().as_bytes());
                after
            }
        };
    }
    Ok((reader.lead, reader.parts, reader.names))
}

struct Reader {
    lead: Vec<u8>,
    parts: Vec<(Word, Vec<u8>)>,
    names: Vec<FieldName>,
}

impl Reader {
    fn literal(&mut self, text: &[u8]) {
        match self.parts.last_mut() {
            Some((_, behind)) => behind.extend_from_slice(text),
            None => self.lead.extend_from_slice(text),
        }
    }

    fn push(&mut self, word: Word, text: &str) -> Result<(), CustomFault> {
        if matches!(self.parts.last(), Some((_, behind)) if behind.is_empty()) {
            return Err(CustomFault::Unseparated(text.to_owned()));
        }
        self.parts.push((word, Vec::new()));
        Ok(())
    }

    fn field(&mut self, name: FieldName) -> Word {
        let known = self.names.iter().position(|known| *known == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        u16::try_from(index).map_or(Word::Other, Word::Field)
    }

    /// `$name` or `${name}`; gives what follows.
    fn variable<'a>(&mut self, text: &'a str) -> Result<&'a str, CustomFault> {
        let (name, rest) = match text.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some(found) => found,
            None => {
                let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
                text.split_at(end.unwrap_or(text.len()))
            }
        };
        let word = match name {
            "remote_addr" | "realip_remote_addr" => Word::Client,
            "time_local" => Word::TimeLocal,
            "time_iso8601" => Word::TimeRfc3339,
            "msec" => Word::Epoch(SECOND),
            "request" => Word::Request,
            "request_uri" => Word::Target,
            "uri" | "document_uri" => Word::Path,
            "request_method" => Word::Method,
            "args" | "query_string" => Word::Query,
            "host" | "http_host" => Word::Host,
            // the name in the file, unless a better one is there
            "server_name" if !self.has(Word::Host) => Word::Host,
            "status" => Word::Status,
            "body_bytes_sent" | "bytes_sent" => Word::Bytes,
            "request_time" => Word::Duration(SECOND),
            // of servers that are known
            "start_time" => Word::Began,
            "duration_ms" => Word::Duration(1_000_000),
            "forwarded" => match self.field(FieldName::Header("x-forwarded-for".into())) {
                Word::Field(name) => Word::Forwarded(name),
                other => other,
            },
            name => {
                let field = |prefix: &str| name.strip_prefix(prefix);
                if let Some(name) = field("http_") {
                    self.field(FieldName::Header(name.replace('_', "-").into()))
                } else if let Some(name) = field("cookie_") {
                    self.field(FieldName::Cookie(name.into()))
                } else if let Some(name) = field("arg_") {
                    self.field(FieldName::Query(name.into()))
                } else {
                    Word::Other
                }
            }
        };
        self.push(word, &format!("${name}"))?;
        Ok(rest)
    }

    /// `%h`, `%>s`, `%{Name}i`; gives what follows.
    fn directive<'a>(&mut self, text: &'a str) -> Result<&'a str, CustomFault> {
        let fault = || CustomFault::Directive(format!("%{}", text.chars().take(12).collect::<String>()));
        if let Some(rest) = text.strip_prefix('%') {
            self.literal(b"%");
            return Ok(rest);
        }
        // which of several requests, and for which statuses
        let bare =
            text.trim_start_matches(|letter: char| matches!(letter, '<' | '>' | '!' | ',') || letter.is_ascii_digit());
        let (argument, bare) = match bare.strip_prefix('{') {
            Some(braced) => braced.split_once('}').map(|(name, rest)| (Some(name), rest)).ok_or_else(fault)?,
            None => (None, bare),
        };
        let letter = bare.chars().next().ok_or_else(fault)?;
        let rest = bare.get(letter.len_utf8()..).unwrap_or_default();
        let word = match (letter, argument) {
            ('h' | 'a', None) | ('a', Some("c")) => Word::Client,
            ('t', None) => Word::TimeLocal,
            ('t', Some("sec" | "begin:sec" | "end:sec")) => Word::Epoch(SECOND),
            ('t', Some("msec" | "begin:msec" | "end:msec")) => Word::Epoch(SECOND / 1_000),
            ('t', Some("usec" | "begin:usec" | "end:usec")) => Word::Epoch(1_000),
            ('t', Some(form)) if form.starts_with("%d/%b/%Y:%T") || form.starts_with("%d/%b/%Y:%H:%M:%S") => {
                Word::TimeLocal
            }
            ('t', Some(form)) if form.starts_with("%Y-%m-%dT%H:%M:%S") || form.starts_with("%FT%T") => {
                Word::TimeRfc3339
            }
            ('r', None) => Word::Request,
            ('m', None) => Word::Method,
            ('U', None) => Word::Path,
            ('q', None) => Word::Query,
            ('v' | 'V', None) => Word::Host,
            ('s', None) => Word::Status,
            ('b' | 'B' | 'O', None) => Word::Bytes,
            ('D', None) | ('T', Some("us")) => Word::Duration(1_000),
            ('T', Some("ms")) => Word::Duration(1_000_000),
            ('T', None | Some("s")) => Word::Duration(SECOND),
            ('i', Some(name)) if name.eq_ignore_ascii_case("host") => Word::Host,
            ('i', Some(name)) => self.field(FieldName::Header(name.to_ascii_lowercase().into())),
            ('C', Some(name)) => self.field(FieldName::Cookie(name.into())),
            (letter, _) if letter.is_ascii_alphabetic() => Word::Other,
            _ => return Err(fault()),
        };
        self.push(word, &format!("%{letter}"))?;
        Ok(rest)
    }

    fn has(&self, word: Word) -> bool {
        self.parts.iter().any(|(known, _)| *known == word)
    }
}
