//! The formats of access logs, and the detection of the format of a log. Begin with [`Format`] and [`Parser`].
//!
//! Formats are tables in [`custom`] (text) and `json_log` (JSON); those that fit no table have a file. A parser finds the places of the values in a line. It
//! copies nothing and panics on no line.

mod address;
mod cloudfront;
mod combined;
pub mod custom;
mod given;
mod haproxy;
mod json_log;
mod own;
mod quoted;

use std::sync::{Arc, LazyLock};

use super::line::{FieldSpan, Line, Parsed, Span};
use super::prefix;
use super::stamp::{SECOND, Stamps};
use given::LISTED;

pub use super::line::FieldName;
pub use custom::{Custom, CustomFault};
pub use given::Gives;

/// The format of one log.
#[derive(Debug, Clone)]
pub enum Format {
    /// The combined and common formats of nginx and Apache, with a virtual host before them or not.
    Combined,
    /// What the operator says, in the words of nginx or Apache.
    Custom(Arc<Custom>),
    /// That of a server, in the same words.
    Known(&'static LazyLock<Custom>),
    /// Caddy's JSON.
    Caddy,
    /// Traefik's JSON.
    Traefik,
    /// Traefik's text, which is the combined format and more.
    TraefikText,
    /// CloudFront's standard log; the columns are as its `#Fields` line says.
    CloudFront(cloudfront::Columns),
    /// Envoy's JSON, with the usual names.
    Envoy,
    /// HAProxy's HTTP format.
    Haproxy,
    /// Our own.
    Tidegate,
}

/// A name that `--format` takes, beside `auto`, and the format.
pub const NAMES: [(&str, Format); 10] = [
    ("tidegate", Format::Tidegate),
    ("caddy", Format::Caddy),
    ("traefik", Format::Traefik),
    ("envoy", Format::Envoy),
    ("envoy-text", Format::Known(&custom::ENVOY)),
    ("alb", Format::Known(&custom::ALB)),
    ("cloudfront", Format::CloudFront(cloudfront::STANDARD)),
    ("haproxy", Format::Haproxy),
    ("traefik-text", Format::TraefikText),
    ("combined", Format::Combined),
];

/// A name that no format has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown log format {0:?}; allowed auto, {names}", names = NAMES.map(|(name, _)| name).join(", "))]
pub struct FormatFault(pub String);

/// Reads the lines of one log.
#[derive(Debug, Clone)]
pub struct Parser {
    format: Format,
    stamps: Stamps,
    names: Arc<[FieldName]>,
}

impl Format {
    /// The format of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Format, FormatFault> {
        // what some call the combined format
        let name = if matches!(name, "nginx" | "apache" | "common" | "clf") { "combined" } else { name };
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| format.clone()).ok_or_else(|| FormatFault(name.to_owned()))
    }

    /// The format that fits most of these lines, and at least one.
    pub fn of<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Format> {
        let mut best = None;
        for (_, format) in &NAMES {
            let mut parser = Parser::new(format.clone());
            let (mut buffer, mut fields) = (Vec::new(), Vec::new());
            let mut fits = 0;
            for line in lines.clone() {
                buffer.clear();
                buffer.extend_from_slice(line);
                fields.clear();
                let mut parsed = Parsed::default();
                fits += usize::from(parser.parse(&mut buffer, &mut fields, &mut parsed) == Line::Request);
            }
            if fits > best.as_ref().map_or(0, |(most, _)| *most) {
                best = Some((fits, parser.format));
            }
        }
        best.map(|(_, format)| format)
    }

    /// What people call it.
    pub fn title(&self) -> &'static str {
        match self {
            Format::Combined => "nginx/Apache combined",
            Format::Custom(custom) => custom.title,
            Format::Known(custom) => custom.title,
            Format::Caddy => "Caddy JSON",
            Format::Traefik => "Traefik JSON",
            Format::TraefikText => "Traefik text",
            Format::CloudFront(_) => "CloudFront",
            Format::Envoy => "Envoy JSON",
            Format::Haproxy => "HAProxy HTTP",
            Format::Tidegate => "tidegate JSON",
        }
    }

    /// The step of its stamps, in nanoseconds.
    pub fn resolution(&self) -> u64 {
        match self {
            Format::Combined | Format::TraefikText | Format::CloudFront(_) => SECOND,
            Format::Custom(custom) => custom.resolution,
            Format::Known(custom) => custom.resolution,
            Format::Haproxy => SECOND / 1_000,
            Format::Caddy | Format::Traefik | Format::Envoy => 1_000,
            Format::Tidegate => 1,
        }
    }

    /// Whether its lines say how long requests took.
    pub fn gives_duration(&self) -> Gives {
        match self {
            Format::Combined => Gives::Never,
            Format::Custom(custom) => custom.gives_duration(),
            Format::Known(custom) => custom.gives_duration(),
            Format::Traefik | Format::Envoy => Gives::Perhaps,
            _ => Gives::Always,
        }
    }

    /// Whether its lines have this header field, whose name is in lower case.
    pub fn gives_header(&self, name: &str) -> Gives {
        match self {
            Format::Caddy | Format::Traefik | Format::Envoy => Gives::Perhaps,
            Format::Custom(custom) => custom.gives(&FieldName::Header(name.into())),
            Format::Known(custom) => custom.gives(&FieldName::Header(name.into())),
            Format::Combined | Format::TraefikText if matches!(name, "user-agent" | "referer") => Gives::Perhaps,
            Format::CloudFront(_) if matches!(name, "user-agent" | "referer" | "cookie" | "x-forwarded-for") => {
                Gives::Perhaps
            }
            _ => Gives::Never,
        }
    }
}

impl Parser {
    /// For a log of this format.
    pub fn new(format: Format) -> Parser {
        let names: Arc<[FieldName]> = match &format {
            Format::Custom(custom) => custom.names().into(),
            Format::Known(custom) => custom.names().into(),
            _ => LISTED.iter().map(|name| FieldName::Header((*name).into())).collect(),
        };
        Parser { format, stamps: Stamps::default(), names }
    }

    /// The format.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The names that [`NameAt::Listed`](super::line::NameAt::Listed) points at.
    pub fn names(&self) -> Arc<[FieldName]> {
        Arc::clone(&self.names)
    }

    /// Reads one line, without its line break. Where escapes stood in it, `line` changes. What stands in `fields` already stays
    /// there. Positions are those in `line`.
    pub fn parse(&mut self, line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Line {
        if line.is_empty() {
            return Line::Other;
        }
        let prefix = prefix::length(line);
        if prefix == 0 {
            return self.parse_bare(line, fields, parsed);
        }
        let from = fields.len();
        let Some(bare) = line.get_mut(prefix..) else { return Line::Unreadable };
        let read = self.parse_bare(bare, fields, parsed);
        parsed.move_by(prefix);
        for field in fields.get_mut(from..).unwrap_or_default() {
            *field = field.moved(prefix);
        }
        read
    }

    fn parse_bare(&mut self, line: &mut [u8], fields: &mut Vec<FieldSpan>, parsed: &mut Parsed) -> Line {
        let read = match &mut self.format {
            Format::Combined => combined::parse(line, &mut self.stamps, fields, parsed, false),
            Format::TraefikText => combined::parse(line, &mut self.stamps, fields, parsed, true),
            Format::Custom(custom) => custom.parse(line, &mut self.stamps, fields, parsed),
            Format::Known(custom) => custom.parse(line, &mut self.stamps, fields, parsed),
            Format::Caddy => json_log::parse(&json_log::CADDY, line, fields, parsed),
            Format::Traefik => json_log::parse(&json_log::TRAEFIK, line, fields, parsed),
            Format::CloudFront(columns) => cloudfront::parse(line, columns, fields, parsed),
            Format::Envoy => json_log::parse(&json_log::ENVOY, line, fields, parsed),
            Format::Haproxy => haproxy::parse(line, parsed),
            Format::Tidegate => own::parse(line, parsed),
        };
        match read.unwrap_or(Line::Unreadable) {
            Line::Request if !is_whole(line, parsed) => Line::NoRequest,
            read => read,
        }
    }
}

/// Whether a request says who asked for what.
fn is_whole(line: &[u8], parsed: &Parsed) -> bool {
    let has = |span: Span| span.of(line).is_some_and(|text| !text.is_empty());
    has(parsed.method) && has(parsed.path) && (parsed.address.is_some() || has(parsed.client))
}

#[cfg(test)]
mod tests;
