//! The words of `cors:`: origins of pages, methods and header fields, each list of which may be `*`.

use std::fmt;

use http::{HeaderName, Method};
use schemars::{Schema, json_schema};

use super::fault::Code;
use super::read::{Scalar, Wrong};
use crate::policy::cors::WebOrigin;
use tidegate_http::web_origin::{LONGEST_ORIGIN, is_origin};

/// Something that may be written as `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrAny<T> {
    /// `*`.
    Any,
    /// This.
    This(T),
}

/// An origin of pages.
pub type CorsOrigin = OrAny<WebOrigin>;
/// A method that pages may send.
pub type CorsMethod = OrAny<Method>;
/// A header field that pages may send or read.
pub type CorsHeader = OrAny<HeaderName>;

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WebOrigin::Exact(exact) => f.write_str(exact),
            WebOrigin::Below { scheme, suffix } => write!(f, "{scheme}*{suffix}"),
        }
    }
}

impl Scalar for CorsOrigin {
    const NAME: &'static str = "page's origin";
    const EXAMPLE: &'static str = "`https://app.example.com`";
    const CODE: Code = Code::BAD_WEB_ORIGIN;

    fn parse(text: &str) -> Result<CorsOrigin, Wrong> {
        if text == "*" {
            return Ok(OrAny::Any);
        }
        let wrong = Wrong::new(format!(
            "must be `*`, or a scheme, `://`, a host and perhaps a port, at most {LONGEST_ORIGIN} bytes"
        ));
        if text == "null" {
            return Err(wrong.help("any site can make its pages send `null`: naming it lets every site in"));
        }
        let lower = text.to_ascii_lowercase();
        let bare = lower.trim_end_matches('/');
        let bare = match bare.split_once("://") {
            Some(("https", _)) => bare.strip_suffix(":443").unwrap_or(bare),
            Some(("http", _)) => bare.strip_suffix(":80").unwrap_or(bare),
            Some(_) => bare,
            None if is_origin(format!("https://{bare}").as_bytes()) => {
                return Err(wrong.meant(format!("https://{bare}"), "or its own scheme"));
            }
            None => return Err(wrong),
        };
        match web_origin(bare) {
            Some(origin) if bare == text => Ok(OrAny::This(origin)),
            Some(_) => Err(wrong.meant(bare, "as browsers send it")),
            None if !text.is_ascii() => Err(wrong.help("write the name as browsers send it, in its `xn--` form")),
            None if text.contains('*') => {
                Err(wrong.help("`*` stands for whole labels in front: `https://*.example.com`"))
            }
            None => Err(wrong),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^(\\*|[a-z][a-z0-9+.-]*://(\\*\\.)?[a-z0-9_.:\\[\\]-]+)$" })
    }
}

/// What is written in no other way than browsers write it.
fn web_origin(text: &str) -> Option<WebOrigin> {
    let Some((scheme, suffix)) = text.split_once("://*.") else {
        return is_origin(text.as_bytes()).then(|| WebOrigin::Exact(text.to_owned()));
    };
    // a host and a port are what can stand behind the wildcard, too
    let good = is_origin(format!("{scheme}://{suffix}").as_bytes()) && !suffix.starts_with('[');
    good.then(|| WebOrigin::Below { scheme: format!("{scheme}://"), suffix: format!(".{suffix}") })
}

impl Scalar for CorsMethod {
    const NAME: &'static str = Method::NAME;
    const EXAMPLE: &'static str = Method::EXAMPLE;
    const CODE: Code = Method::CODE;

    fn parse(text: &str) -> Result<CorsMethod, Wrong> {
        if text == "*" { Ok(OrAny::Any) } else { Method::parse(text).map(OrAny::This) }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "const": "*" }, <Method as Scalar>::schema()] })
    }
}

impl Scalar for CorsHeader {
    const NAME: &'static str = HeaderName::NAME;
    const EXAMPLE: &'static str = HeaderName::EXAMPLE;
    const CODE: Code = HeaderName::CODE;

    fn parse(text: &str) -> Result<CorsHeader, Wrong> {
        if text == "*" { Ok(OrAny::Any) } else { HeaderName::parse(text).map(OrAny::This) }
    }

    fn schema() -> Schema {
        <HeaderName as Scalar>::schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_as_browsers_send_it() {
        for text in [
            "*",
            "https://app.example.com",
            "http://localhost:3000",
            "https://*.example.com:8443",
            "app://x",
            "http://[::1]",
        ] {
            match CorsOrigin::parse(text) {
                Ok(OrAny::This(origin)) => assert_eq!(origin.to_string(), text),
                Ok(OrAny::Any) => assert_eq!(text, "*"),
                Err(wrong) => panic!("{text}: {wrong:?}"),
            }
        }
    }

    #[test]
    fn what_no_browser_sends_is_refused_with_what_it_would_send() {
        for (text, meant) in [
            ("https://App.example.com", Some("https://app.example.com")),
            ("https://app.example.com/", Some("https://app.example.com")),
            ("https://app.example.com:443", Some("https://app.example.com")),
            ("http://app.example.com:80", Some("http://app.example.com")),
            ("app.example.com", Some("https://app.example.com")),
            ("null", None),
            ("https://b\u{fc}cher.example", None),
            ("https://*", None),
            ("https://*.*.example.com", None),
            ("https://app*.example.com", None),
            ("https://*.", None),
            ("https://app.example.com/path", None),
            ("https://user@app.example.com", None),
            ("", None),
        ] {
            let wrong = CorsOrigin::parse(text).unwrap_err();
            assert_eq!(wrong.replacement.as_deref(), meant, "{text}");
        }
    }
}
