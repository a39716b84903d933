//! What a format makes of one line: where in it everything is. Nothing is copied.

use std::net::IpAddr;
use std::sync::Arc;

/// A part of a text, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    at: u32,
    length: u32,
}

impl Span {
    /// No part at all.
    pub const NONE: Span = Span { at: u32::MAX, length: 0 };

    /// From `from` up to `to`.
    #[inline]
    pub fn new(from: usize, to: usize) -> Span {
        Span { at: from as u32, length: to.saturating_sub(from) as u32 }
    }

    /// Where it begins.
    pub fn from(self) -> usize {
        self.at as usize
    }

    /// Where it ends.
    pub fn to(self) -> usize {
        self.at as usize + self.length as usize
    }

    /// Whether it is none.
    pub fn is_none(self) -> bool {
        self.at == u32::MAX
    }

    /// The part of `text`, if there is one.
    #[inline]
    pub fn of(self, text: &[u8]) -> Option<&[u8]> {
        if self.is_none() { None } else { text.get(self.at as usize..self.at as usize + self.length as usize) }
    }

    /// The same part, of a text that `by` bytes stand before.
    #[inline]
    #[must_use]
    pub fn moved(self, by: usize) -> Span {
        if self.is_none() { self } else { Span { at: self.at + by as u32, ..self } }
    }
}

/// A request, by where its parts are in the line.
#[derive(Debug, Clone, Copy)]
pub struct Parsed {
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended or, where only that is known, began: what the log is ordered by.
    pub stamp: u64,
    /// How long it took, in nanoseconds.
    pub duration: Option<u64>,
    /// The client's address.
    pub address: Option<IpAddr>,
    /// The client as it stands there.
    pub client: Span,
    /// The method.
    pub method: Span,
    /// The host.
    pub host: Span,
    /// The path.
    pub path: Span,
    /// The query.
    pub query: Span,
    /// The status, or 0.
    pub status: u16,
    /// The answer's bytes.
    pub bytes: u64,
    /// What only our own log has.
    pub told: Option<ToldSpans>,
    /// Which of the chunk's fields are this request's.
    pub fields: (u32, u32),
}

/// Of a log of our own.
#[derive(Debug, Clone, Copy)]
pub struct ToldSpans {
    /// The identifier.
    pub id: Span,
    /// The wall clock at the origin of stamps.
    pub zero: Option<u64>,
    /// Refused requests that have no line, before this one.
    pub left_out: u64,
    /// The mark.
    pub mark: Span,
    /// The verdict.
    pub verdict: Span,
    /// The reason.
    pub reason: Span,
    /// The limits, as JSON.
    pub limits: Span,
}

impl Default for Parsed {
    fn default() -> Parsed {
        Parsed {
            start: 0,
            stamp: 0,
            duration: None,
            address: None,
            client: Span::NONE,
            method: Span::NONE,
            host: Span::NONE,
            path: Span::NONE,
            query: Span::NONE,
            status: 0,
            bytes: 0,
            told: None,
            fields: (0, 0),
        }
    }
}

impl Parsed {
    /// Becomes that of a text that `by` bytes stand before.
    #[inline]
    pub fn move_by(&mut self, by: usize) {
        for span in [&mut self.client, &mut self.method, &mut self.host, &mut self.path, &mut self.query] {
            *span = span.moved(by);
        }
        if let Some(told) = &mut self.told {
            for span in [&mut told.id, &mut told.mark, &mut told.verdict, &mut told.reason, &mut told.limits] {
                *span = span.moved(by);
            }
        }
    }
}

/// A field that the log gives by name.
#[derive(Debug, Clone, Copy)]
pub struct FieldSpan {
    /// Its name.
    pub name: NameAt,
    /// Its value.
    pub value: Span,
}

/// What a field that a log gives by name is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldName {
    /// A header field, in lower case.
    Header(Arc<str>),
    /// A cookie.
    Cookie(Arc<str>),
    /// A parameter of the query.
    Query(Arc<str>),
}

/// Where a field's name is.
#[derive(Debug, Clone, Copy)]
pub enum NameAt {
    /// In the format's list.
    Listed(u16),
    /// A header field's, in the text.
    Header(Span),
}

impl NameAt {
    /// The name itself; none of a header whose name is no text.
    pub fn of(self, text: &[u8], names: &[FieldName]) -> Option<FieldName> {
        match self {
            NameAt::Listed(index) => names.get(usize::from(index)).cloned(),
            NameAt::Header(span) => {
                let name = std::str::from_utf8(span.of(text)?).ok()?;
                Some(FieldName::Header(name.to_ascii_lowercase().into()))
            }
        }
    }

    /// Whether it names this header.
    pub fn is_header(self, name: &str, text: &[u8], names: &[FieldName]) -> bool {
        match self {
            NameAt::Listed(index) => {
                matches!(names.get(usize::from(index)), Some(FieldName::Header(known)) if **known == *name)
            }
            NameAt::Header(span) => span.of(text).is_some_and(|known| known.eq_ignore_ascii_case(name.as_bytes())),
        }
    }
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// A request.
    Request,
    /// None, and none is missing: an empty line, a comment, a line of another log in the same file.
    Other,
    /// The record of a connection on which no request was understood, such as a TLS greeting on a plain port.
    NoRequest,
    /// One that the format does not fit.
    Unreadable,
}

impl FieldSpan {
    /// The same, of a text that `by` bytes stand before.
    #[must_use]
    pub fn moved(self, by: usize) -> FieldSpan {
        let name = match self.name {
            NameAt::Header(span) => NameAt::Header(span.moved(by)),
            listed => listed,
        };
        FieldSpan { name, value: self.value.moved(by) }
    }
}
