//! Header edits towards the origin or the client, with placeholders that no client can forge.

use http::{HeaderName, HeaderValue};

/// What is done to a head: removals first, then `set` (replaces every line of that name), then `add` (one more line).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeaderEdits {
    /// Names whose lines all go.
    pub remove: Vec<HeaderName>,
    /// Fields that are replaced or created.
    pub set: Vec<(HeaderName, Template)>,
    /// Fields that get one more line.
    pub add: Vec<(HeaderName, Template)>,
}

impl HeaderEdits {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }
}

/// A header value with placeholders: `{client.ip}`, `{client.prefix}`, `{request.id}`, `{route}`; `{{` is a brace.
///
/// The values come from what the gate itself found out, never from the request's own text.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
    /// The value, where it is the same for all requests.
    fixed: Option<HeaderValue>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Placeholder(Placeholder),
}

/// The facts a template can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// The resolved client address.
    ClientIp,
    /// The network the client is counted by.
    ClientPrefix,
    /// The identifier of this request.
    RequestId,
    /// The name of the route that took it.
    Route,
}

/// Why a template was refused, with what may stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateFault {
    /// `{name}` is no placeholder.
    Unknown(String),
    /// A `{` without its `}`.
    Unclosed,
    /// A byte that no header value may hold.
    Unprintable,
}

impl Placeholder {
    /// Every placeholder as it is written, for messages and suggestions.
    pub const ALL: [(&'static str, Placeholder); 4] = [
        ("client.ip", Placeholder::ClientIp),
        ("client.prefix", Placeholder::ClientPrefix),
        ("request.id", Placeholder::RequestId),
        ("route", Placeholder::Route),
    ];
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// An unknown placeholder, an unclosed brace, or a byte outside visible ASCII, space and tab.
    pub fn parse(text: &str) -> Result<Template, TemplateFault> {
        if HeaderValue::from_str(text).is_err() || !text.is_ascii() {
            return Err(TemplateFault::Unprintable);
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            literal.push_str(before);
            if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
                literal.push_str(&from[..1]);
                rest = after;
            } else if let Some(after) = from.strip_prefix('}') {
                literal.push('}');
                rest = after;
            } else {
                let end = from.find('}').ok_or(TemplateFault::Unclosed)?;
                let name = &from[1..end];
                let (_, placeholder) = Placeholder::ALL
                    .into_iter()
                    .find(|(known, _)| *known == name)
                    .ok_or_else(|| TemplateFault::Unknown(name.to_owned()))?;
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Placeholder(placeholder));
                rest = &from[end + 1..];
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        let fixed = match parts.as_slice() {
            [Part::Text(text)] => HeaderValue::from_str(text).ok(),
            _ => None,
        };
        Ok(Template { parts, fixed })
    }

    /// The value for one request; `None` when a fact would make it an illegal header value, which none of ours does.
    pub fn render(&self, mut fact: impl FnMut(Placeholder, &mut String)) -> Option<HeaderValue> {
        if self.fixed.is_some() {
            return self.fixed.clone();
        }
        let mut value = String::with_capacity(64);
        for part in &self.parts {
            match part {
                Part::Text(text) => value.push_str(text),
                Part::Placeholder(placeholder) => fact(*placeholder, &mut value),
            }
        }
        HeaderValue::from_str(&value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> String {
        let value = Template::parse(text)
            .unwrap()
            .render(|placeholder, out| {
                out.push_str(match placeholder {
                    Placeholder::ClientIp => "192.0.2.1",
                    Placeholder::ClientPrefix => "192.0.2.1",
                    Placeholder::RequestId => "7Q3M",
                    Placeholder::Route => "shop",
                });
            })
            .unwrap();
        value.to_str().unwrap().to_owned()
    }

    #[test]
    fn placeholders_are_filled_in_and_doubled_braces_are_braces() {
        assert_eq!(render("a {client.ip};{route} b"), "a 192.0.2.1;shop b");
        assert_eq!(render("{request.id}"), "7Q3M");
        assert_eq!(render("{{route}} is {route}"), "{route} is shop");
        assert_eq!(render("plain"), "plain");
        assert_eq!(render(""), "");
    }

    #[test]
    fn unknown_placeholders_and_line_breaks_are_refused() {
        assert_eq!(Template::parse("{client}"), Err(TemplateFault::Unknown("client".into())));
        assert_eq!(Template::parse("{route"), Err(TemplateFault::Unclosed));
        assert_eq!(Template::parse("a\r\nb: c"), Err(TemplateFault::Unprintable));
        assert_eq!(Template::parse("é"), Err(TemplateFault::Unprintable));
    }
}
