//! Fields of heads as the steps of a request read and edit them: Pingora's, and those of the direct lane.
//!
//! Each edit is written once, against [`Fields`]. What it does to fields is the same for both, but for their order: a head of Pingora's
//! joins the lines of one name and fills a gap with its last field, [`Lines`] stay where they are. Only the order of lines of one
//! name means anything (RFC 9110 section 5.3), and both keep that.

use std::str;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::{Error, ErrorType};
use tidegate_http::lines::{Lines, Lookup, Unwritable};

/// How the name of a field is written.
#[derive(Debug, Clone, Copy)]
pub enum Name<'a> {
    /// So.
    Spelled(&'static str),
    /// As most write it.
    Of(&'a HeaderName),
}

impl Name<'_> {
    /// The spelling.
    pub fn written(&self) -> &str {
        match self {
            Name::Spelled(name) => name,
            Name::Of(name) => titled(name),
        }
    }
}

/// The spelling of a name of ours. Pingora's, so that an answer is the same wherever it was given.
pub fn titled(name: &HeaderName) -> &str {
    match *name {
        header::ACCEPT_RANGES => "Accept-Ranges",
        header::AGE => "Age",
        header::CACHE_CONTROL => "Cache-Control",
        header::CONNECTION => "Connection",
        header::CONTENT_TYPE => "Content-Type",
        header::CONTENT_ENCODING => "Content-Encoding",
        header::CONTENT_LENGTH => "Content-Length",
        header::DATE => "Date",
        header::TRANSFER_ENCODING => "Transfer-Encoding",
        header::HOST => "Host",
        header::SERVER => "Server",
        header::SET_COOKIE => "Set-Cookie",
        _ => name.as_str(),
    }
}

/// Fields that can be edited.
pub trait Fields: Send + Sync {
    /// What they are looked up in.
    type Lines: Lookup;
    /// The fields as they are.
    fn fields(&self) -> &Self::Lines;
    /// Replaces all lines of a field by one.
    ///
    /// # Errors
    /// A line that no head can hold.
    fn set(&mut self, name: Name<'_>, value: HeaderValue) -> pingora::Result<()>;
    /// Adds a line.
    ///
    /// # Errors
    /// A line that no head can hold.
    fn add(&mut self, name: Name<'_>, value: HeaderValue) -> pingora::Result<()>;
    /// Removes all lines of a field.
    fn remove(&mut self, name: &HeaderName);
    /// Removes the fields of which `unwanted` is true, which is asked about names in lower case, and only if `may_be` does not say no to the
    /// name in the spelling that it has: to write most names anew for every question would be dear.
    fn remove_where(&mut self, may_be: impl Fn(&[u8]) -> bool, unwanted: impl Fn(&str) -> bool);
}

/// The head of an answer.
pub trait AnswerHead: Fields + Sized {
    /// One of ours with room for so many fields.
    ///
    /// # Errors
    /// None that a valid status causes.
    fn of(status: StatusCode, fields: usize) -> pingora::Result<Self>;
    /// The status.
    fn status(&self) -> StatusCode;
    /// Says that we speak HTTP/1.1, whatever the origin speaks (RFC 9110 section 2.5).
    fn speak_http11(&mut self);
}

macro_rules! of_pingora {
    ($head:ty) => {
        impl Fields for $head {
            type Lines = HeaderMap;

            fn fields(&self) -> &HeaderMap {
                &self.headers
            }

            fn set(&mut self, name: Name<'_>, value: HeaderValue) -> pingora::Result<()> {
                match name {
                    // as static text: a `HeaderName` would be turned back into text, twice, on every request
                    Name::Spelled(name) => self.insert_header(name, value),
                    Name::Of(name) => self.insert_header(name, value),
                }
            }

            fn add(&mut self, name: Name<'_>, value: HeaderValue) -> pingora::Result<()> {
                match name {
                    Name::Spelled(name) => self.append_header(name, value).map(drop),
                    Name::Of(name) => self.append_header(name, value).map(drop),
                }
            }

            fn remove(&mut self, name: &HeaderName) {
                self.remove_header(name);
            }

            fn remove_where(&mut self, may_be: impl Fn(&[u8]) -> bool, unwanted: impl Fn(&str) -> bool) {
                let goes = |name: &&HeaderName| may_be(name.as_str().as_bytes()) && unwanted(name.as_str());
                // without one, as nearly always, this allocates nothing
                let names: Vec<HeaderName> = self.headers.keys().filter(goes).cloned().collect();
                for name in names {
                    self.remove_header(&name);
                }
            }
        }
    };
}

of_pingora!(RequestHeader);
of_pingora!(ResponseHeader);

impl AnswerHead for ResponseHeader {
    fn of(status: StatusCode, fields: usize) -> pingora::Result<ResponseHeader> {
        ResponseHeader::build(status, Some(fields))
    }

    fn status(&self) -> StatusCode {
        self.status
    }

    fn speak_http11(&mut self) {
        self.set_version(Version::HTTP_11);
    }
}

impl Fields for Lines {
    type Lines = Lines;

    fn fields(&self) -> &Lines {
        self
    }

    fn set(&mut self, name: Name<'_>, value: HeaderValue) -> pingora::Result<()> {
        self.set_value(name.written().as_bytes(), &value).map_err(unwritable)
    }

    fn add(&mut self, name: Name<'_>, value: HeaderValue) -> pingora::Result<()> {
        self.add_value(name.written().as_bytes(), &value).map_err(unwritable)
    }

    fn remove(&mut self, name: &HeaderName) {
        Lines::remove(self, name.as_str().as_bytes());
    }

    fn remove_where(&mut self, may_be: impl Fn(&[u8]) -> bool, unwanted: impl Fn(&str) -> bool) {
        self.retain(|name, _| !may_be(name) || !in_lower_case(name, &unwanted));
    }
}

/// Most names are shorter.
const LONGEST_SHORT: usize = 64;

/// Asks about a name in lower case.
fn in_lower_case(name: &[u8], ask: impl Fn(&str) -> bool) -> bool {
    let mut short = [0; LONGEST_SHORT];
    let long;
    let name = if let Some(place) = short.get_mut(..name.len()) {
        place.copy_from_slice(name);
        // all of it, as a vector
        short.make_ascii_lowercase();
        short.get(..name.len()).unwrap_or_default()
    } else {
        long = name.to_ascii_lowercase();
        &long
    };
    // a name is a token, and so in ASCII
    str::from_utf8(name).is_ok_and(ask)
}

fn unwritable(error: Unwritable) -> Box<Error> {
    Error::because(ErrorType::InvalidHTTPHeader, "editing a head", error)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn edited(mut head: impl Fields) -> Vec<(String, String)> {
        let name = HeaderName::from_static("x-b");
        head.set(Name::Of(&name), HeaderValue::from_static("new")).unwrap();
        head.add(Name::Spelled("X-New"), HeaderValue::from_static("1")).unwrap();
        head.add(Name::Of(&header::DATE), HeaderValue::from_static("today")).unwrap();
        head.remove(&header::COOKIE);
        let long = format!("x-{}", "long".repeat(30));
        head.remove_where(
            |name| name.starts_with(b"X-") || name.starts_with(b"x-"),
            |name| name == "x-gone" || name == long,
        );
        let names = ["host", "x-a", "x-b", "x-new", "date", "cookie", "x-gone", &long];
        let mut found = Vec::new();
        for name in names {
            let name = HeaderName::try_from(name).unwrap();
            found.extend(
                head.fields().lines(&name).map(|value| (name.to_string(), String::from_utf8_lossy(value).into_owned())),
            );
        }
        found
    }

    #[test]
    fn edits_are_the_same_for_both_kinds_of_heads() {
        let long = format!("X-{}", "LONG".repeat(30));
        let given = [
            ("Host", "a"),
            ("X-A", "1"),
            ("x-b", "2"),
            ("Cookie", "c"),
            ("X-a", "3"),
            ("X-B", "4"),
            ("X-Gone", "5"),
            (&long, "6"),
        ];
        let mut theirs = RequestHeader::build(Method::GET, b"/", None).unwrap();
        let mut text = b"GET / HTTP/1.1\r\n".to_vec();
        for (name, value) in given {
            theirs.append_header(name.to_owned(), value).unwrap();
            text.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        let mut ours = Lines::default();
        ours.read(&text, 16).unwrap();
        let found = edited(ours);
        assert_eq!(found, edited(theirs));
        assert_eq!(found.len(), 6, "{found:?}");
    }
}
