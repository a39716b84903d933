//! Bodies that the operator writes for refusals: a text with placeholders, for one media type.
//!
//! A placeholder is a name in braces, `{retry_after}`; `{{retry_after}}` is that text itself. Every other brace is a brace, so JSON
//! and style sheets are written as they are. Where a placeholder stands decides how its value is escaped; a place where no escape
//! could hold a value, such as a script, is a fault.

mod html;

use html::Html;

/// The largest body as it is written: a refusal must not be worth more to an attacker than a page.
pub const MOST_BYTES: usize = 16 << 10;

/// The most placeholders of one body; a value has at most 256 bytes when it is escaped.
pub const MOST_PLACEHOLDERS: usize = 32;

/// At most one body for each media type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bodies {
    list: Vec<(BodyMedia, BodyText)>,
}

/// The media types of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyMedia {
    /// `text/html`.
    Html,
    /// `application/json`.
    Json,
    /// `application/problem+json` (RFC 9457).
    Problem,
    /// `text/plain`.
    Text,
}

/// A body, ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyText {
    /// As the operator wrote it.
    pub text: String,
    /// Its pieces in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A text that stands as it is.
    Text(String),
    /// A value, and how it is escaped.
    Value(BodyValue, Quoting),
}

/// What a placeholder stands for: facts of the gate and names of the operator's, never a text of the request's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyValue {
    /// The status.
    Status,
    /// The phrase of the status.
    Title,
    /// What happened and when to come back, in a sentence.
    Detail,
    /// `Retry-After`, in seconds; nothing where none is told.
    RetryAfter,
    /// The limit that refuses; nothing where none does.
    Limit,
    /// The identifier of the decision.
    RequestId,
    /// The name of the route.
    Route,
}

/// How a value is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quoting {
    /// As text of HTML, or of an attribute within quotes.
    Html,
    /// As part of a string of JSON.
    JsonText,
    /// As a value of JSON: a number, a string or `null`.
    JsonValue,
    /// As it is.
    Plain,
}

/// Why a text is no body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyFault {
    /// More than [`MOST_BYTES`].
    TooLong,
    /// More than [`MOST_PLACEHOLDERS`].
    TooMany,
    /// `{name}` is no placeholder.
    Unknown(String),
    /// A value cannot be escaped where this placeholder stands, and where that is.
    Place(&'static str, &'static str),
    /// It is no JSON; what the reader says.
    NoJson(String),
}

impl BodyMedia {
    /// All of them with their words in the policy file, the ones for programs first.
    pub const ALL: [(&'static str, BodyMedia); 4] = [
        ("html", BodyMedia::Html),
        ("json", BodyMedia::Json),
        ("problem", BodyMedia::Problem),
        ("text", BodyMedia::Text),
    ];
}

impl BodyValue {
    /// Every placeholder as it is written.
    pub const ALL: [(&'static str, BodyValue); 7] = [
        ("status", BodyValue::Status),
        ("title", BodyValue::Title),
        ("detail", BodyValue::Detail),
        ("retry_after", BodyValue::RetryAfter),
        ("limit", BodyValue::Limit),
        ("request.id", BodyValue::RequestId),
        ("route", BodyValue::Route),
    ];
}

impl Bodies {
    /// These, at most one of each type.
    pub fn new(list: Vec<(BodyMedia, BodyText)>) -> Bodies {
        Bodies { list }
    }

    /// The body of this type.
    pub fn get(&self, media: BodyMedia) -> Option<&BodyText> {
        self.list.iter().find(|(own, _)| *own == media).map(|(_, body)| body)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &(BodyMedia, BodyText)> {
        self.list.iter()
    }
}

impl BodyText {
    /// Reads a body.
    ///
    /// # Errors
    /// It is too long, no JSON, or has a placeholder that is none, or stands where its value could break out.
    pub fn parse(media: BodyMedia, text: &str) -> Result<BodyText, BodyFault> {
        if text.len() > MOST_BYTES {
            return Err(BodyFault::TooLong);
        }
        let (mut pieces, mut literal, mut rest, mut count) = (Vec::new(), String::new(), text, 0);
        let mut place = Scan::new(media);
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            let doubled = from.strip_prefix("{{").and_then(name).filter(|(_, after)| after.starts_with('}'));
            let (taken, after) = match (doubled, from.strip_prefix('{').and_then(name)) {
                // the text of a placeholder
                (Some((name, after)), _) => (format!("{before}{{{name}}}"), after.get(1..).unwrap_or_default()),
                (None, None) => (format!("{before}{{"), from.get(1..).unwrap_or_default()),
                (None, Some((name, after))) => {
                    let known = BodyValue::ALL.into_iter().find(|(known, _)| *known == name);
                    let (known, value) = known.ok_or_else(|| BodyFault::Unknown(name.to_owned()))?;
                    place.take(before);
                    literal.push_str(before);
                    let quoting = place.quoting().map_err(|within| BodyFault::Place(known, within))?;
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Value(value, quoting));
                    count += 1;
                    rest = after;
                    continue;
                }
            };
            place.take(&taken);
            literal.push_str(&taken);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        if count > MOST_PLACEHOLDERS {
            return Err(BodyFault::TooMany);
        }
        let body = BodyText { text: text.to_owned(), pieces };
        if matches!(media, BodyMedia::Json | BodyMedia::Problem) {
            body.check_json()?;
        }
        Ok(body)
    }

    /// Reads it as JSON, with something in the place of the values.
    fn check_json(&self) -> Result<(), BodyFault> {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(_, Quoting::JsonValue) => "0".to_owned(),
            Piece::Value(..) => "x".to_owned(),
        };
        let sample: String = self.pieces.iter().map(piece).collect();
        let read = serde_json::from_str::<serde::de::IgnoredAny>(&sample);
        read.map(drop).map_err(|fault| BodyFault::NoJson(fault.to_string()))
    }
}

/// The name at the front of what follows a brace, and what follows its own closing brace.
fn name(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.split_once('}')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(plain)).then_some((name, after))
}

/// Where in a body a reader is.
enum Scan {
    Html(Html),
    /// Within a string, and behind a backslash in it.
    Json(bool, bool),
    Plain,
}

impl Scan {
    fn new(media: BodyMedia) -> Scan {
        match media {
            BodyMedia::Html => Scan::Html(Html::default()),
            BodyMedia::Json | BodyMedia::Problem => Scan::Json(false, false),
            BodyMedia::Text => Scan::Plain,
        }
    }

    fn take(&mut self, text: &str) {
        match self {
            Scan::Html(html) => html.take(text),
            Scan::Json(quoted, escaped) => {
                for byte in text.bytes() {
                    match byte {
                        _ if *escaped => *escaped = false,
                        b'\\' if *quoted => *escaped = true,
                        b'"' => *quoted = !*quoted,
                        _ => {}
                    }
                }
            }
            Scan::Plain => {}
        }
    }

    /// How a value is escaped here.
    ///
    /// # Errors
    /// In no way; where this is.
    fn quoting(&self) -> Result<Quoting, &'static str> {
        match self {
            Scan::Html(html) => html.place().map(|()| Quoting::Html),
            Scan::Json(_, true) => Err("behind a backslash"),
            Scan::Json(true, _) => Ok(Quoting::JsonText),
            Scan::Json(false, _) => Ok(Quoting::JsonValue),
            Scan::Plain => Ok(Quoting::Plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(media: BodyMedia, text: &str) -> Vec<(BodyValue, Quoting)> {
        let pieces = BodyText::parse(media, text).unwrap().pieces;
        pieces
            .into_iter()
            .filter_map(|piece| if let Piece::Value(value, how) = piece { Some((value, how)) } else { None })
            .collect()
    }

    #[test]
    fn the_place_decides_how_a_value_is_escaped() {
        use BodyValue as Is;
        let json = r#"{"a": {retry_after}, "b": "x {limit} \"{route}\"", "c": {request.id}}"#;
        let all = [
            (Is::RetryAfter, Quoting::JsonValue),
            (Is::Limit, Quoting::JsonText),
            (Is::Route, Quoting::JsonText),
            (Is::RequestId, Quoting::JsonValue),
        ];
        assert_eq!(values(BodyMedia::Json, json), all);
        let page = "<style>b{color:red}</style><p title='{title}'>{detail}</p>";
        assert_eq!(values(BodyMedia::Html, page), [(Is::Title, Quoting::Html), (Is::Detail, Quoting::Html)]);
        assert_eq!(values(BodyMedia::Text, "{status}\n"), [(Is::Status, Quoting::Plain)]);
    }

    #[test]
    fn other_braces_are_braces_and_doubled_ones_are_the_name_itself() {
        for (text, written) in [
            ("{{limit}}", "{limit}"),
            ("a{b: c} { limit } {} {1} {{", "a{b: c} { limit } {} {1} {{"),
            ("{{{", "{{{"),
            ("{é}", "{é}"),
        ] {
            let body = BodyText::parse(BodyMedia::Text, text).unwrap();
            assert_eq!(body.pieces, [Piece::Text(written.to_owned())], "{text}");
        }
    }

    #[test]
    fn what_is_no_placeholder_or_no_json_is_a_fault() {
        for name in ["retryafter", "request_id", "client.ip", "Retry-After", "limits"] {
            let fault = BodyText::parse(BodyMedia::Text, &format!("a {{{name}}}")).unwrap_err();
            assert_eq!(fault, BodyFault::Unknown(name.to_owned()));
        }
        for text in ["{", r#"{"a": }"#, r#"{"a": "{limit}}"#, "", r#"{"a": {limit}x}"#] {
            assert!(matches!(BodyText::parse(BodyMedia::Json, text), Err(BodyFault::NoJson(_))), "{text}");
        }
        let escape = BodyText::parse(BodyMedia::Problem, r#"{"a": "\{limit}"}"#);
        assert_eq!(escape, Err(BodyFault::Place("limit", "behind a backslash")));
        assert_eq!(BodyText::parse(BodyMedia::Html, &"a".repeat(MOST_BYTES + 1)), Err(BodyFault::TooLong));
        assert_eq!(BodyText::parse(BodyMedia::Html, &"{limit}".repeat(33)), Err(BodyFault::TooMany));
    }

    #[test]
    fn no_value_stands_where_html_has_no_escape_for_it() {
        for good in [
            "{limit}",
            "<p>{limit}</p>",
            "<p>a < b {limit}</p>",
            "<a title=\"{limit}\" href='/why?id={request.id}'>",
            "<script>if (a < b) {}</script>{limit}",
            "<!-- a --><b>{limit}</b>",
            "<title>{title}</title>",
        ] {
            assert!(BodyText::parse(BodyMedia::Html, good).is_ok(), "{good}");
        }
        for bad in [
            "<script>var a = '{limit}'</script>",
            "<SCRIPT>{limit}",
            "<script>'</b>' {limit}</script>",
            "<style>{limit}</style>",
            "<script><!--<script></script>{limit}</script>",
            "<title><a b='</title><script>{limit}",
            "<!-- {limit} -->",
            "<p {limit}>",
            "<{limit}>",
            "<p title={limit}>",
            "<p onclick='{limit}'>",
            "<p style=\"{limit}\">",
            "<iframe srcdoc='{limit}'>",
            "<a href='{limit}'>",
            "<a href=\"javascript:{limit}\">",
            "<noscript>{limit}",
            "<p title='{limit}",
        ] {
            let fault = BodyText::parse(BodyMedia::Html, bad);
            let unclosed = bad.ends_with("{limit}") && bad.contains("title='");
            assert!(unclosed || matches!(fault, Err(BodyFault::Place("limit", _))), "{bad}: {fault:?}");
        }
    }
}
