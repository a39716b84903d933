//! Bodies that the operator wrote, with the values of one refusal.
//!
//! Each value is escaped for the place where it stands, whatever it holds: a page, a string of JSON, or a value of JSON. So none can
//! end the text around it, although today all of them are numbers, sentences of ours and names of the operator's.

use super::json;
use crate::engine::DecisionId;
use crate::policy::body::{BodyText, BodyValue, Piece, Quoting};

/// The longest value that is written, in bytes before it is escaped.
const MOST_BYTES: usize = 256;

/// What placeholders stand for in the answer to one request.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The status.
    pub status: u16,
    /// Its phrase.
    pub title: &'a str,
    /// What happened and when to come back.
    pub detail: &'a str,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// The limit that refuses.
    pub limit: Option<&'a str>,
    /// The decision.
    pub id: Option<DecisionId>,
    /// The route.
    pub route: Option<&'a str>,
}

/// A value: a number, a text, or none.
enum Value<'a> {
    Number(u64),
    Text(&'a str),
    Id([u8; 13]),
    None,
}

/// Appends the body with these values.
pub fn body(body: &BodyText, values: &Values<'_>, out: &mut Vec<u8>) {
    out.reserve(body.text.len() + 128);
    for piece in &body.pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Value(value, how) => write(out, &values.of(*value), *how),
        }
    }
}

impl<'a> Values<'a> {
    fn of(&self, value: BodyValue) -> Value<'a> {
        let text = |text: Option<&'a str>| text.map_or(Value::None, Value::Text);
        match value {
            BodyValue::Status => Value::Number(u64::from(self.status)),
            BodyValue::Title => Value::Text(self.title),
            BodyValue::Detail => Value::Text(self.detail),
            BodyValue::RetryAfter => self.retry_after.map_or(Value::None, Value::Number),
            BodyValue::Limit => text(self.limit),
            BodyValue::RequestId => self.id.map_or(Value::None, |id| Value::Id(id.text())),
            BodyValue::Route => text(self.route),
        }
    }
}

fn write(out: &mut Vec<u8>, value: &Value<'_>, how: Quoting) {
    let mut digits = itoa::Buffer::new();
    let (text, is_number): (&[u8], bool) = match value {
        Value::Number(number) => (digits.format(*number).as_bytes(), true),
        Value::Text(text) => (text.as_bytes(), false),
        Value::Id(id) => (id, false),
        Value::None => {
            if how == Quoting::JsonValue {
                out.extend_from_slice(b"null");
            }
            return;
        }
    };
    match how {
        Quoting::JsonValue if is_number => out.extend_from_slice(text),
        Quoting::JsonValue => json::text(out, text, MOST_BYTES),
        Quoting::JsonText => json::inner(out, text, MOST_BYTES),
        Quoting::Html => html(out, text),
        Quoting::Plain => out.extend(text.iter().take(MOST_BYTES).filter(|byte| !byte.is_ascii_control())),
    }
}

/// Appends text so that it stays text, between tags and within either kind of quotes.
pub fn html(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text.iter().take(MOST_BYTES) {
        let escape: &[u8] = match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            b'\'' => b"&#39;",
            b'`' => b"&#96;",
            byte if byte.is_ascii_control() => b" ",
            byte => &[*byte],
        };
        out.extend_from_slice(escape);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::body::BodyMedia;

    fn written(media: BodyMedia, text: &str, values: &Values<'_>) -> String {
        let mut out = Vec::new();
        body(&BodyText::parse(media, text).unwrap(), values, &mut out);
        String::from_utf8(out).unwrap()
    }

    const NONE: Values<'static> =
        Values { status: 429, title: "T", detail: "D", retry_after: None, limit: None, id: None, route: None };

    #[test]
    fn values_stand_where_their_names_stood() {
        let values = Values {
            retry_after: Some(12),
            limit: Some("login"),
            id: Some(DecisionId(42)),
            route: Some("shop"),
            ..NONE
        };
        let all = "{status} {title} {detail} {retry_after} {limit} {request.id} {route}";
        assert_eq!(written(BodyMedia::Text, all, &values), "429 T D 12 login 000000000001A shop");
        let json = r#"{"a": {retry_after}, "b": "{retry_after}", "c": {limit}, "d": "by {limit}"}"#;
        assert_eq!(written(BodyMedia::Json, json, &values), r#"{"a": 12, "b": "12", "c": "login", "d": "by login"}"#);
        assert_eq!(written(BodyMedia::Json, json, &NONE), r#"{"a": null, "b": "", "c": null, "d": "by "}"#);
    }

    fn hostile() -> impl Strategy<Value = String> {
        const PIECES: &[&str] = &[
            "<",
            ">",
            "&",
            "\"",
            "'",
            "`",
            "\\",
            "</script>",
            "<!--",
            "-->",
            "{limit}",
            "\n",
            "\0",
            "a",
            "\u{2028}",
            "=",
            "/",
            " ",
            "]]>",
        ];
        prop_oneof![
            prop::collection::vec(prop::sample::select(PIECES), 0..12).prop_map(|some| some.concat()),
            any::<String>()
        ]
    }

    proptest! {
        #[test]
        fn no_value_breaks_out_of_json(title in hostile(), limit in hostile(), route in hostile()) {
            let values = Values { title: &title, limit: Some(&limit), route: Some(&route), ..NONE };
            for media in [BodyMedia::Json, BodyMedia::Problem] {
                let text = written(media, r#"{"a": {title}, "b": "<{limit}>", "c": [{route}, "end"]}"#, &values);
                let read: serde_json::Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(read.as_object().unwrap().len(), 3);
                prop_assert!(read["a"].is_string() && read["c"][0].is_string());
                prop_assert_eq!(&read["c"][1], "end");
                let kept = read["b"].as_str().unwrap();
                prop_assert!(kept.starts_with('<') && kept.ends_with('>'));
                if limit.len() <= MOST_BYTES {
                    prop_assert_eq!(kept, format!("<{limit}>"));
                }
            }
        }

        #[test]
        fn no_value_breaks_out_of_a_page(title in hostile(), limit in hostile()) {
            let values = Values { title: &title, limit: Some(&limit), ..NONE };
            let page = "<p title=\"{title}\" class='{limit}'>{limit}</p><b>{title}</b>";
            let text = written(BodyMedia::Html, page, &values);
            // what ends a text or an attribute stands nowhere but in the page itself
            for (byte, own) in [('<', 4), ('>', 4), ('"', 2), ('\'', 2), ('`', 0)] {
                prop_assert_eq!(text.matches(byte).count(), own, "{}", text);
            }
            let loose = text.split('&').skip(1).all(|rest| {
                ["amp;", "lt;", "gt;", "quot;", "#39;", "#96;"].iter().any(|name| rest.starts_with(name))
            });
            prop_assert!(loose, "{}", text);
        }
    }
}
