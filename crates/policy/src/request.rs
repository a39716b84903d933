//! All that the floors below the faces may see of a request.
//!
//! A face (live or replay) fills one in; everything below decides from it alone. Nothing here owns or copies: the
//! request borrows the head that the face holds.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use tidegate_http::web_origin::is_origin;

/// Who is at the other end of the connection, as the kernel says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A TCP peer, with IPv4-mapped IPv6 already folded to IPv4.
    Ip(IpAddr),
    /// A UNIX-socket peer, which has no address.
    Unix,
}

/// One request's head.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The socket's other end.
    pub peer: Peer,
    /// The method, case-sensitive.
    pub method: &'a Method,
    /// The host without port, in lower case, without a trailing dot.
    pub host: &'a str,
    /// The canonical path: starts with `/`, no query.
    pub path: &'a str,
    /// What follows the first `?`, without it.
    pub query: Option<&'a str>,
    /// All header fields.
    pub headers: &'a HeaderMap,
    /// The name that the client asked for in its TLS handshake (RFC 6066 §3), in lower case; `None` on a plain connection
    /// and where it asked for none.
    pub tls_sni: Option<&'a str>,
}

/// The fields that a preflight is known by. Of others a head may lack all, and is found to be the same.
pub const PREFLIGHT_FIELDS: [HeaderName; 3] =
    [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD, header::ACCESS_CONTROL_REQUEST_HEADERS];

/// Fields that no browser sends with a preflight: those of a body, and whatever says who is asking.
pub const NOT_OF_PREFLIGHTS: [HeaderName; 7] = [
    header::TRANSFER_ENCODING,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::EXPECT,
    header::UPGRADE,
];

/// A CORS preflight: a browser asks whether a page of another origin may send a request (the Fetch standard, section 4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preflight<'a> {
    /// The page's origin, as browsers write one; `null` where it has none.
    pub origin: &'a HeaderValue,
    /// The method that it wants to send, a token.
    pub method: &'a HeaderValue,
    /// The header fields that it wants to send, a list of tokens.
    pub headers: Option<&'a HeaderValue>,
}

impl Request<'_> {
    /// The preflight that it is; `None` for any other request.
    ///
    /// Strict, as a preflight is counted apart: `OPTIONS` with one `Origin` and one `Access-Control-Request-Method`, at most one
    /// `Access-Control-Request-Headers`, each as browsers write it, no body and no credentials.
    #[inline]
    pub fn preflight(&self) -> Option<Preflight<'_>> {
        if self.method == Method::OPTIONS { preflight(self.headers) } else { None }
    }
}

fn preflight(headers: &HeaderMap) -> Option<Preflight<'_>> {
    let [origin, method, fields] = &PREFLIGHT_FIELDS;
    let origin = only(headers, origin)?.filter(|origin| is_origin(origin.as_bytes()))?;
    let method = only(headers, method)?.filter(|method| is_token(method.as_bytes()))?;
    let fields = only(headers, fields)?;
    if !fields.is_none_or(|fields| fields.as_bytes().split(|byte| *byte == b',').all(|one| is_token(one.trim_ascii())))
    {
        return None;
    }
    let empty = only(headers, &header::CONTENT_LENGTH)?.is_none_or(|length| length == "0");
    let foreign = NOT_OF_PREFLIGHTS.iter().any(|name| headers.contains_key(name));
    (empty && !foreign).then_some(Preflight { origin, method, headers: fields })
}

/// The only line of a field, if there is one; `None` where there are several.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a HeaderValue>> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next();
    lines.next().is_none().then_some(first)
}

/// A token of RFC 9110 of at most 64 bytes.
fn is_token(text: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    (1..=64).contains(&text.len()) && text.iter().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: (&str, &str) = ("origin", "https://app.example.com");
    const METHOD: (&str, &str) = ("access-control-request-method", "PUT");

    fn is_preflight(method: Method, fields: &[(&'static str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let (host, path) = ("", "/");
        let request =
            Request { peer: Peer::Unix, method: &method, host, path, query: None, headers: &headers, tls_sni: None };
        request.preflight().is_some()
    }

    #[test]
    fn a_preflight_is_what_browsers_send() {
        assert!(is_preflight(Method::OPTIONS, &[ORIGIN, METHOD]));
        assert!(is_preflight(Method::OPTIONS, &[("origin", "null"), METHOD]));
        let fields = ("access-control-request-headers", "content-type,x-api-key");
        assert!(is_preflight(Method::OPTIONS, &[ORIGIN, METHOD, fields, ("content-length", "0"), ("accept", "*/*")]));
        assert!(is_preflight(Method::OPTIONS, &[ORIGIN, METHOD, ("access-control-request-private-network", "true")]));
    }

    #[test]
    fn whatever_else_is_an_ordinary_request() {
        for method in [Method::GET, Method::POST, Method::from_bytes(b"options").unwrap()] {
            assert!(!is_preflight(method, &[ORIGIN, METHOD]));
        }
        assert!(!is_preflight(Method::OPTIONS, &[ORIGIN]));
        assert!(!is_preflight(Method::OPTIONS, &[METHOD]));
        for more in [
            ORIGIN,
            METHOD,
            ("content-length", "1"),
            ("content-length", "00"),
            ("transfer-encoding", "chunked"),
            ("content-type", "text/plain"),
            ("cookie", "a=b"),
            ("authorization", "Basic YTpi"),
            ("proxy-authorization", "Basic YTpi"),
            ("expect", "100-continue"),
            ("upgrade", "websocket"),
            ("access-control-request-headers", ""),
            ("access-control-request-headers", "a,,b"),
            ("access-control-request-headers", "a b"),
        ] {
            assert!(!is_preflight(Method::OPTIONS, &[ORIGIN, METHOD, more]), "{more:?}");
        }
        for (origin, method) in [
            ("app.example.com", "PUT"),
            ("https://app.example.com/", "PUT"),
            ("https://a.test, https://b.test", "PUT"),
            ("https://app.example.com", ""),
            ("https://app.example.com", "PUT, GET"),
            ("https://app.example.com", "P UT"),
        ] {
            let fields = [("origin", origin), ("access-control-request-method", method)];
            assert!(!is_preflight(Method::OPTIONS, &fields), "{origin} {method}");
        }
        let long = "A".repeat(65);
        assert!(!is_preflight(Method::OPTIONS, &[ORIGIN, ("access-control-request-method", &long)]));
        let long = format!("https://{}", "a.".repeat(4096));
        assert!(!is_preflight(Method::OPTIONS, &[("origin", &long), METHOD]));
    }
}
