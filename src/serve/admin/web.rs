//! Who may read the admin endpoints over TCP.
//!
//! A browser on the operator's machine reaches the loopback interface for every page that it shows, also for a stranger's.
//! What keeps such pages out:
//!
//! * *Names.* A stranger's page can only read what has its own origin, so it has its own name resolve to our address (DNS
//!   rebinding). Only an IP address or `localhost` is taken as `Host`: neither can be made to point elsewhere.
//! * *Methods.* Nothing here acts; `GET` and `HEAD` are all there is.
//! * *Fetch metadata.* What a browser says that it fetches for another site's page is refused, so that such a page cannot
//!   even take up the places.
//! * *Token.* If one is given, `Authorization` must carry it: `Bearer TOKEN`, or as the password of `Basic`, for which a
//!   browser asks by itself.
//!
//! Sources: Jackson et al. 2007, "Protecting browsers from DNS rebinding attacks"; RFC 6750; RFC 7617; W3C Fetch Metadata.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode, header};
use sha2::{Digest, Sha256};

use crate::config::settings::Secret;
use crate::serve::small_server::{Answer, Request};

/// Sent with every answer: what a page of ours may load is ours, and nobody may frame it.
pub const FIELDS: &[(&str, &str)] = &[
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
];

/// The rules of the web address.
#[derive(Debug, Clone)]
pub struct Web {
    /// The token's digest: comparing digests tells nothing about where two tokens begin to differ.
    token: Option<[u8; 32]>,
}

impl Web {
    /// With this token, or for everybody who reaches the address.
    pub fn new(token: Option<&Secret>) -> Web {
        Web { token: token.map(|secret| Sha256::digest(&secret.0).into()) }
    }

    /// Whether this request may be answered.
    ///
    /// # Errors
    /// It may not; the answer says why.
    pub fn allows(&self, request: &Request) -> Result<(), Answer> {
        let mut hosts = request.fields.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
        if !host.is_some_and(is_ours) {
            let why = "the Host is neither an IP address nor `localhost`; no other name is answered here";
            return Err(Answer::error(StatusCode::FORBIDDEN, why));
        }
        if !matches!(request.method, Method::GET | Method::HEAD) {
            let why = "the web address is for reading; verbs are for the admin socket";
            return Err(Answer::error(StatusCode::METHOD_NOT_ALLOWED, why).with("Allow", "GET, HEAD"));
        }
        let said = |name: &str| request.fields.get(name).map(header::HeaderValue::as_bytes);
        let foreign = matches!(said("sec-fetch-site"), Some(b"cross-site" | b"same-site"));
        // following a link to here is the user's own doing
        if foreign && said("sec-fetch-mode") != Some(b"navigate") {
            return Err(Answer::error(StatusCode::FORBIDDEN, "asked for by the page of another site"));
        }
        let known = |given: Vec<u8>| self.token.is_none_or(|token| token[..] == Sha256::digest(given)[..]);
        if self.token.is_some() && !said("authorization").and_then(token_in).is_some_and(known) {
            let answer = Answer::error(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
            return Err(answer.with("WWW-Authenticate", "Basic realm=\"tidegate\", charset=\"UTF-8\", Bearer"));
        }
        Ok(())
    }
}

/// Whether a `Host` can only mean this machine's address, as an IP address or by the one name that is always local.
fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        // the colons of an address in brackets are not a port's
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let inner = name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.eq_ignore_ascii_case("localhost") || matches!(name.parse(), Ok(IpAddr::V4(_))),
    }
}

/// The token that an `Authorization` carries.
fn token_in(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = std::str::from_utf8(authorization).ok()?.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.as_bytes().to_vec());
    }
    let pair = STANDARD.decode(rest).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair.get(colon + 1..)?.to_vec())
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::*;
    use crate::serve::small_server::Origin;

    fn status(web: &Web, method: Method, fields: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let request = Request {
            method,
            path: "/".into(),
            query: String::new(),
            fields: map,
            body: Vec::new(),
            origin: Origin::Tcp,
        };
        web.allows(&request).map_or_else(|answer| answer.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_addresses_and_localhost_are_names_of_ours() {
        for host in ["127.0.0.1", "127.0.0.1:9901", "localhost", "LocalHost:9901", "[::1]", "[::1]:9901", "10.1.2.3:80"]
        {
            assert_eq!(status(&Web::new(None), Method::GET, &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9901",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.",
            "",
            ":9901",
            "::1",
            "[evil.example]",
            "[::1",
            "127.0.0.1@evil.example",
            "0x7f000001",
            "2130706433",
            "127.1",
            "localhost:9901:80",
        ] {
            assert_eq!(status(&Web::new(None), Method::GET, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(&Web::new(None), Method::GET, &[]), 403);
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(status(&Web::new(None), Method::GET, &two), 403);
    }

    #[test]
    fn nothing_but_reading_is_allowed() {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH, Method::TRACE] {
            assert_eq!(status(&Web::new(None), method.clone(), &[("host", "localhost")]), 405, "{method}");
        }
        assert_eq!(status(&Web::new(None), Method::HEAD, &[("host", "localhost")]), 200);
    }

    #[test]
    fn pages_of_other_sites_are_not_answered_but_links_from_them_are_followed() {
        let of = |site, mode| {
            let fields = [("host", "localhost"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            status(&Web::new(None), Method::GET, &fields)
        };
        assert_eq!((of("cross-site", "no-cors"), of("same-site", "cors")), (403, 403));
        assert_eq!((of("cross-site", "navigate"), of("same-origin", "cors"), of("none", "navigate")), (200, 200, 200));
    }

    #[test]
    fn a_token_is_taken_as_bearer_or_as_a_password_and_nothing_else_is() {
        let web = Web::new(Some(&Secret(b"t0ken".to_vec())));
        let of =
            |authorization: &str| status(&web, Method::GET, &[("host", "localhost"), ("authorization", authorization)]);
        assert_eq!((of("Bearer t0ken"), of("bearer  t0ken")), (200, 200));
        assert_eq!(of(&format!("Basic {}", STANDARD.encode("anybody:t0ken"))), 200);
        for wrong in ["Bearer t0ke", "Bearer ", "Bearer", "t0ken", "Basic t0ken", "Digest t0ken", ""] {
            assert_eq!(of(wrong), 401, "{wrong}");
        }
        assert_eq!(of(&format!("Basic {}", STANDARD.encode("t0ken"))), 401);
        assert_eq!(of(&format!("Basic {}", STANDARD.encode("t0ken:"))), 401);
        assert_eq!(status(&web, Method::GET, &[("host", "localhost")]), 401);
    }
}
