//! What requests are matched with: hosts, paths, methods, values.

use std::net::Ipv6Addr;
use std::str::FromStr;

use http::Method;
use schemars::{Schema, json_schema};

use super::fault::Code;
use super::nearest::nearest;
use super::read::{Scalar, Wrong};
use super::scalar::{digits, pattern};
use super::text::is_host;
use crate::policy::route::{HostMatch, Ignore, PathMatch, TextMatch, whole};

/// `*.example.com` or `shop.example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern(pub HostMatch);

impl Scalar for HostPattern {
    const NAME: &'static str = "host";
    const EXAMPLE: &'static str = "`shop.example.com` or `*.example.com`";
    const CODE: Code = Code::BAD_HOST;

    fn parse(text: &str) -> Result<HostPattern, Wrong> {
        if text == "*" {
            return Err(Wrong::new("a single `*` stands for nothing here").help("leave `host` out to take any host"));
        }
        let host = text.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        if let Some(suffix) = host.strip_prefix("*.") {
            return if is_host(suffix) {
                Ok(HostPattern(HostMatch::Suffix(format!(".{suffix}"))))
            } else {
                Err(Wrong::new("after `*.` must stand a plain name"))
            };
        }
        let is_v6 = |inner: &str| inner.strip_suffix(']').is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
        if is_host(host) || host.strip_prefix('[').is_some_and(is_v6) {
            return Ok(HostPattern(HostMatch::Exact(host.to_owned())));
        }
        Err(if host.contains("://") {
            Wrong::new("must be a host alone, without scheme and path")
        } else if let Some((bare, _)) =
            host.rsplit_once(':').filter(|(bare, port)| is_host(bare) && digits(port).is_some())
        {
            Wrong::new("must be a host without its port").meant(bare, "")
        } else if host.contains('*') {
            Wrong::new("`*` may only stand first, as in *.example.com")
        } else if !host.is_ascii() {
            Wrong::new("must be ASCII").help("write the name's punycode form, which begins with xn--")
        } else {
            Wrong::new("must be a host such as shop.example.com or *.example.com")
        })
    }

    fn schema() -> Schema {
        pattern("^((\\*\\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\\[[0-9a-fA-F:.]+\\])$")
    }
}

impl HostPattern {
    /// As it is written.
    pub fn text(host: &HostMatch) -> Option<String> {
        match host {
            HostMatch::Any => None,
            HostMatch::Exact(host) => Some(host.clone()),
            HostMatch::Suffix(suffix) => Some(format!("*{suffix}")),
        }
    }
}

/// A name that a certificate is shown for: `*.example.com` for one more label, or `shop.example.com`. In lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateName(pub String);

impl Scalar for CertificateName {
    const NAME: &'static str = "name of a certificate";
    const EXAMPLE: &'static str = "`shop.example.com` or `*.example.com`";
    const CODE: Code = Code::BAD_HOST;

    fn parse(text: &str) -> Result<CertificateName, Wrong> {
        let HostPattern(host) = HostPattern::parse(text)?;
        let name = HostPattern::text(&host).unwrap_or_default();
        if name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() {
            return Err(Wrong::new("must be a name: clients never ask for an address")
                .help("the first certificate is shown to clients that ask for no name"));
        }
        Ok(CertificateName(name))
    }

    fn schema() -> Schema {
        pattern("^(\\*\\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$")
    }
}

/// `/x` (by whole segments) or `=/x` (exactly), and behind it what is ignored: `=/login ignore all`.
#[derive(Debug, Clone)]
pub struct PathPattern(pub PathMatch, pub Option<Ignore>);

impl Scalar for PathPattern {
    const NAME: &'static str = "path";
    const EXAMPLE: &'static str = "`/api` or `=/login ignore all`";
    const CODE: Code = Code::BAD_PATH;

    fn parse(text: &str) -> Result<PathPattern, Wrong> {
        let words = text.split_once(" ignore").filter(|(_, words)| words.is_empty() || words.starts_with([' ', ',']));
        let (path, ignore) = match words {
            Some((path, words)) => (path.trim_end(), Some(ignored(words)?)),
            None => (text, None),
        };
        let path = match path.strip_prefix('=') {
            Some(exact) => PathMatch::Exact(ExactPath::parse(exact)?.0),
            None => PathMatch::Prefix(PrefixPath::parse(path)?.0),
        };
        Ok(PathPattern(path, ignore))
    }

    fn schema() -> Schema {
        pattern("^=?/")
    }
}

/// Words with blanks or commas between them.
fn ignored(words: &str) -> Result<Ignore, Wrong> {
    let words: Vec<&str> = words.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let read: Result<Vec<IgnoreWord>, Wrong> = words.iter().map(|word| IgnoreWord::parse(word)).collect();
    match IgnoreWord::together(&read?) {
        Some(ignore) => Ok(ignore),
        None if words.is_empty() => Err(Wrong::new("`ignore` needs a word behind it, such as `all`")),
        None => Err(Wrong::new("`none` and `all` stand alone")),
    }
}

/// A word of `ignore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreWord {
    /// Nothing is ignored, and that is meant.
    Nothing,
    /// Everything that can be.
    All,
    /// This one.
    One(Ignore),
}

impl IgnoreWord {
    /// What several words come to; `None` for no word, and for `none` or `all` beside another.
    pub fn together(words: &[IgnoreWord]) -> Option<Ignore> {
        match words {
            [] => None,
            [IgnoreWord::Nothing] => Some(Ignore::NONE),
            [IgnoreWord::All] => Some(Ignore::ALL),
            several => several.iter().try_fold(Ignore::NONE, |sum, word| match word {
                IgnoreWord::One(one) => Some(sum.and(*one)),
                IgnoreWord::Nothing | IgnoreWord::All => None,
            }),
        }
    }
}

impl Scalar for IgnoreWord {
    const NAME: &'static str = "spelling to ignore";
    const EXAMPLE: &'static str = "`all`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<IgnoreWord, Wrong> {
        let one = Ignore::WORDS.into_iter().find(|(_, word)| *word == text).map(|(one, _)| IgnoreWord::One(one));
        let words = || ["all", "none"].into_iter().chain(Ignore::WORDS.into_iter().map(|(_, word)| word));
        match text {
            "all" => Ok(IgnoreWord::All),
            "none" => Ok(IgnoreWord::Nothing),
            _ => one.ok_or_else(|| {
                let all: Vec<String> = words().map(|word| format!("`{word}`")).collect();
                Wrong::new(format!("must be one of {}", all.join(", "))).nearest(nearest(text, words()))
            }),
        }
    }

    fn schema() -> Schema {
        let words: Vec<&str> =
            ["all", "none"].into_iter().chain(Ignore::WORDS.into_iter().map(|(_, word)| word)).collect();
        json_schema!({ "enum": words })
    }
}

/// A path to be met byte for byte.
#[derive(Debug, Clone)]
pub struct ExactPath(pub String);

impl Scalar for ExactPath {
    const NAME: &'static str = "path";
    const EXAMPLE: &'static str = "`/login`";
    const CODE: Code = Code::BAD_PATH;

    fn parse(text: &str) -> Result<ExactPath, Wrong> {
        check_path(text).map(|()| ExactPath(text.to_owned()))
    }

    fn schema() -> Schema {
        pattern("^/")
    }
}

/// A path and all below it; without trailing slash, `/` as empty text.
#[derive(Debug, Clone)]
pub struct PrefixPath(pub String);

impl Scalar for PrefixPath {
    const NAME: &'static str = "path";
    const EXAMPLE: &'static str = "`/api`";
    const CODE: Code = Code::BAD_PATH;

    fn parse(text: &str) -> Result<PrefixPath, Wrong> {
        check_path(text)?;
        Ok(PrefixPath(text.strip_suffix('/').unwrap_or(text).to_owned()))
    }

    fn schema() -> Schema {
        pattern("^/")
    }
}

/// Requests are matched by their canonical path; a pattern that no canonical path has would never match.
fn check_path(text: &str) -> Result<(), Wrong> {
    let Some(inside) = text.strip_prefix('/') else {
        let wrong = Wrong::new("must begin with `/`");
        return Err(if text.contains("://") || text.is_empty() { wrong } else { wrong.meant(format!("/{text}"), "") });
    };
    if text.contains(['?', '#']) {
        return Err(Wrong::new("a path ends before `?` and `#`").help("match parameters with `query:`"));
    }
    if text.contains('*') {
        return Err(
            Wrong::new("`*` is no wildcard here").help("a path takes everything below it; or use `{ regex: … }`")
        );
    }
    let canonical =
        canonical(text).ok_or_else(|| Wrong::new("must be visible ASCII, anything else percent-encoded"))?;
    // some readers take escaped slashes and backslashes for slashes, and end a segment at its parameters
    let segments = canonical.replace("%2F", "/").replace("%5C", "/").replace("%3B", ";");
    let dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    if segments.split('/').any(dots) || inside.starts_with('/') || inside.contains("//") {
        return Err(Wrong::new("no request that reaches a route has `.`, `..` or empty segments in its path"));
    }
    if canonical == text {
        return Ok(());
    }
    Err(Wrong::new("requests are matched in another spelling of this").meant(canonical, ""))
}

/// The spelling that requests have when they are matched (RFC 3986 sections 2.3, 6.2.2): unreserved characters plain, others
/// that a path cannot hold as escapes with capital digits. `None` when no path can be meant.
fn canonical(text: &str) -> Option<String> {
    let mut path = String::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, mut behind)) = rest.split_first() {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let value = if byte == b'%' {
            let digits = std::str::from_utf8(behind.get(..2)?).ok().filter(|digits| !digits.starts_with('+'))?;
            behind = behind.get(2..)?;
            u8::from_str_radix(digits, 16).ok().filter(|value| *value >= 0x20 && *value != 0x7f)?
        } else {
            byte
        };
        match value {
            _ if plain(value) || (byte != b'%' && b"/!$&'()*+,;=:@".contains(&value)) => path.push(char::from(value)),
            _ if byte == b'%' || (value.is_ascii_graphic() && value != b'\\') => {
                path.push_str(&format!("%{value:02X}"))
            }
            _ => return None,
        }
        rest = behind;
    }
    Some(path)
}

/// An expression that has to meet the whole text.
#[derive(Debug, Clone)]
pub struct Expression {
    /// As written.
    pub text: String,
    /// Compiled, anchored at both ends.
    pub regex: regex::Regex,
}

impl Scalar for Expression {
    const NAME: &'static str = "regular expression";
    const EXAMPLE: &'static str = "`/items/[0-9]+`";
    const CODE: Code = Code::BAD_REGEX;

    fn parse(text: &str) -> Result<Expression, Wrong> {
        let regex = whole(text).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => Wrong::new("too large when compiled"),
            error => {
                let told = error.to_string();
                let cause = told.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
                Wrong::new("must be a regular expression of linear time").help(cause.to_owned())
            }
        })?;
        Ok(Expression { text: text.to_owned(), regex })
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "format": "regex" })
    }
}

/// A text to be met exactly.
#[derive(Debug, Clone)]
pub struct ExactText(pub TextMatch);

impl Scalar for ExactText {
    const NAME: &'static str = "text";
    const EXAMPLE: &'static str = "`gold`";
    const CODE: Code = Code::BAD_TEXT;

    fn parse(text: &str) -> Result<ExactText, Wrong> {
        Ok(ExactText(TextMatch::Exact(text.to_owned())))
    }

    fn schema() -> Schema {
        <String as Scalar>::schema()
    }
}

impl Scalar for Method {
    const NAME: &'static str = "method";
    const EXAMPLE: &'static str = "`POST`";
    const CODE: Code = Code::BAD_METHOD;

    fn parse(text: &str) -> Result<Method, Wrong> {
        // no request with another method reaches a route
        let is_method = |text: &str| {
            let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
            !text.is_empty() && text.len() <= 32 && text.bytes().all(plain)
        };
        let upper = text.to_ascii_uppercase();
        let wrong = Wrong::new("must be a method's name in capitals");
        if !is_method(text) {
            return Err(if is_method(&upper) { wrong.meant(upper, "") } else { wrong });
        }
        Method::from_str(text).map_err(|_| wrong)
    }

    fn schema() -> Schema {
        pattern("^[A-Z0-9_-]{1,32}$")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(text: &str) -> Option<String> {
        PathPattern::parse(text).err().and_then(|wrong| wrong.replacement)
    }

    #[test]
    fn a_path_is_written_as_requests_are_matched() {
        for path in ["/", "/a", "=/a%2Fb", "/a/", "/a.b/..c/.d", "/projects/group%2Fname", "/!$&'()+,;=:@", "/%25"] {
            assert!(PathPattern::parse(path).is_ok(), "{path}");
        }
        assert_eq!(meant("/%41%2fb"), Some("/A%2Fb".into()));
        assert_eq!(meant("/[id]"), Some("/%5Bid%5D".into()));
        for path in [
            "",
            "a",
            "=",
            "=a",
            "//",
            "/a//b",
            "/./a",
            "/a/..",
            "/%2e%2e/a",
            "/a%2F..",
            "/..;x/a",
            "/%2",
            "/%zz",
            "/a b",
            "/é",
            "/%00",
            "/a\\b",
        ] {
            assert!(PathPattern::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_prefix_has_no_slash_at_its_end() {
        let prefix = |text: &str| match PathPattern::parse(text).map(|pattern| pattern.0) {
            Ok(PathMatch::Prefix(prefix)) => prefix,
            other => panic!("{other:?}"),
        };
        assert_eq!((prefix("/"), prefix("/a/"), prefix("/a")), (String::new(), "/a".into(), "/a".into()));
    }
}
