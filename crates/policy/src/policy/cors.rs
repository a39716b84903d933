//! Which pages of other sites may read a route's answers: the Fetch standard's CORS protocol, in the words of Gateway API's
//! `HTTPCORSFilter`.
//!
//! A request's `Origin` is compared byte for byte with what browsers send: scheme, host and port in lower case, no default port,
//! names in their `xn--` form. What is written in any other way comes from no browser and is allowed nothing, so nothing of it is
//! ever sent back.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use tidegate_http::web_origin::{LONGEST_ORIGIN, is_label, is_origin};

/// The `cors:` section of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct Cors {
    /// The pages whose scripts may read the answers.
    pub origins: AllowedOrigins,
    /// The methods that they may send.
    pub methods: Listed<Method>,
    /// The header fields that they may send.
    pub headers: Listed<HeaderName>,
    /// The fields of the answer that they may read, besides those that every page may read and those that the gate adds.
    pub expose: Listed<HeaderName>,
    /// Whether the answer to a request with cookies or a password may be read.
    pub credentials: bool,
    /// How long a browser may remember the answer to a preflight.
    pub max_age: Duration,
}

/// A list, or anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed<T> {
    /// `*`.
    Any,
    /// These.
    These(Vec<T>),
}

/// The origins that a route allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// `*`: every page, also one without an origin of its own.
    Any,
    /// Any of these.
    These(Vec<WebOrigin>),
}

/// An origin in the sense of RFC 6454, or all below a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebOrigin {
    /// This one: `https://app.example.com:8443`.
    Exact(String),
    /// Every host below a domain: `https://*.example.com`.
    Below {
        /// Up to the host: `https://`.
        scheme: String,
        /// From the dot on, with the port: `.example.com:8443`.
        suffix: String,
    },
}

impl AllowedOrigins {
    /// Returns whether pages of this origin may read the answers.
    pub fn allow(&self, origin: &HeaderValue) -> bool {
        let origin = origin.as_bytes();
        match self {
            AllowedOrigins::Any => is_origin(origin),
            AllowedOrigins::These(these) => {
                origin.len() <= LONGEST_ORIGIN && these.iter().any(|allowed| allowed.takes(origin))
            }
        }
    }
}

impl WebOrigin {
    fn takes(&self, origin: &[u8]) -> bool {
        match self {
            WebOrigin::Exact(exact) => origin == exact.as_bytes(),
            WebOrigin::Below { scheme, suffix } => {
                let below =
                    origin.strip_prefix(scheme.as_bytes()).and_then(|host| host.strip_suffix(suffix.as_bytes()));
                // labels alone: neither a port nor userinfo nor another host can stand before the suffix
                below.is_some_and(|below| below.split(|byte| *byte == b'.').all(is_label))
            }
        }
    }
}

impl<T> Listed<T> {
    /// Those that are named; none for `*`.
    pub fn named(&self) -> &[T] {
        match self {
            Listed::Any => &[],
            Listed::These(these) => these,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(text: &str) -> WebOrigin {
        WebOrigin::Exact(text.to_owned())
    }

    fn below(scheme: &str, suffix: &str) -> WebOrigin {
        WebOrigin::Below { scheme: scheme.to_owned(), suffix: suffix.to_owned() }
    }

    fn allows(allowed: &AllowedOrigins, origin: &[u8]) -> bool {
        HeaderValue::from_bytes(origin).is_ok_and(|origin| allowed.allow(&origin))
    }

    #[test]
    fn an_origin_is_compared_as_a_whole() {
        let allowed = AllowedOrigins::These(vec![exact("https://app.example.com"), exact("http://localhost:3000")]);
        for origin in ["https://app.example.com", "http://localhost:3000"] {
            assert!(allows(&allowed, origin.as_bytes()), "{origin}");
        }
        for origin in [
            "null",
            "",
            "*",
            "http://app.example.com",
            "https://app.example.com:443",
            "https://app.example.com:8443",
            "https://app.example.com/",
            "https://app.example.com.evil.test",
            "https://evil.test/https://app.example.com",
            "https://app.example.com@evil.test",
            "https://xapp.example.com",
            "https://APP.example.com",
            "HTTPS://app.example.com",
            "https://app.example.com.",
            "https://app.example.com https://evil.test",
            "https://app.example.com, https://evil.test",
            "https://app.ex\u{e4}mple.com",
            "http://localhost",
            "http://localhost:30000",
        ] {
            assert!(!allows(&allowed, origin.as_bytes()), "{origin}");
        }
        assert!(!allows(&allowed, &vec![b'a'; 8 << 10]));
    }

    #[test]
    fn a_wildcard_stands_for_labels_and_nothing_else() {
        let allowed = AllowedOrigins::These(vec![below("https://", ".example.com"), below("http://", ".test:8080")]);
        for origin in [
            "https://a.example.com",
            "https://a.b-c.example.com",
            "https://xn--bcher-kva.example.com",
            "http://a.test:8080",
        ] {
            assert!(allows(&allowed, origin.as_bytes()), "{origin}");
        }
        for origin in [
            "https://example.com",
            "https://.example.com",
            "https://a..example.com",
            "https://A.example.com",
            "https://evil.test#.example.com",
            "https://evil.test/.example.com",
            "https://evil.test?.example.com",
            "https://evil.test:1.example.com",
            "https://evil.test\\.example.com",
            "https://a@b.example.com",
            "https://a b.example.com",
            "https://a.example.com:443",
            "https://aexample.com",
            "http://a.example.com",
            "http://a.test",
            "http://a.test:80800",
        ] {
            assert!(!allows(&allowed, origin.as_bytes()), "{origin}");
        }
        let long = format!("https://{}example.com", "a.".repeat(4096));
        assert!(!allows(&allowed, long.as_bytes()));
    }

    proptest! {
        /// Whatever is allowed is one of the written ones, or ends in the written domain behind whole labels.
        #[test]
        fn nothing_is_allowed_that_was_not_written(
            pieces in prop::collection::vec(prop::sample::select(&[
                "https://", "http://", "example.com", ".example.com", "evil.test", ".", ":", "443", "@", "/", "#", "?", "\\",
                "%2e", "a", "A", "-", " ", "\t", "null", "*", "[", "]", "xn--",
            ][..]), 0..8)
        ) {
            let origin = pieces.concat();
            let allowed = AllowedOrigins::These(vec![exact("https://example.com"), below("https://", ".example.com")]);
            if allows(&allowed, origin.as_bytes()) && origin != "https://example.com" {
                let host = origin.strip_prefix("https://").expect("the scheme");
                let below = host.strip_suffix(".example.com").expect("the domain");
                prop_assert!(below.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)));
                prop_assert!(below.split('.').all(|label| !label.is_empty()), "{origin}");
            }
        }
    }
}
