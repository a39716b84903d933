//! Who may read the admin endpoints over TCP.
//!
//! A browser on the operator's machine reaches the loopback interface for every page that it shows, also for a stranger's.
//! What keeps such pages out:
//!
//! * *Names.* Only names of ours are taken as `Host`; see [`Hosts`].
//! * *Methods.* Without a token nothing here acts; `GET` and `HEAD` are all there is. With one, orders about clients do.
//! * *Origin.* An order of a browser is taken from our own page alone, on the socket too, as a tunnel may end there.
//! * *Fetch metadata.* What a browser says that it fetches for another site's page is refused, so that such a page cannot
//!   even take up the places.
//! * *Token.* If one is given, `Authorization` must carry it: `Bearer TOKEN`, or as the password of `Basic`, for which a
//!   browser asks by itself.
//!
//! Every user of the machine reaches the loopback interface too. Without a token only what names no client and no
//! configuration is told there, unless the operator wrote `open: true`.
//!
//! Sources: RFC 6750; RFC 7617; W3C Fetch Metadata.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode, header};
use sha2::{Digest, Sha256};

use crate::config::settings::AdminPage;
use crate::small_server::hosts::REFUSAL;
use crate::small_server::{Answer, Hosts, Request};

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

/// What is said where a token is wanted and none can be given.
const UNNAMED: &str = "this tells of clients or of the configuration, and this address has no token: ask on the admin socket, \
                       or write `admin: { address: …, token: { file: PATH } }`, or `open: true` to let each user of this \
                       machine read it";

/// The rules of the web address.
#[derive(Debug, Clone)]
pub struct Web {
    hosts: Hosts,
    /// The token's digest: comparing digests tells nothing about where two tokens begin to differ.
    token: Option<[u8; 32]>,
    /// Whether clients and configuration are told without a token.
    open: bool,
}

impl Web {
    /// As the policy file has it.
    pub fn new(page: &AdminPage) -> Web {
        Web {
            hosts: Hosts::new(&page.hosts),
            token: page.token.as_ref().map(|secret| Sha256::digest(&secret.0).into()),
            open: page.open,
        }
    }

    /// Whether those whom [`Web::allows`] may read of clients and of the configuration.
    pub fn tells_all(&self) -> bool {
        self.token.is_some() || self.open
    }

    /// Whether those whom [`Web::allows`] may give orders about clients.
    pub fn takes_orders(&self) -> bool {
        self.token.is_some()
    }

    /// The answer to orders that are not taken here.
    pub fn socket_only() -> Answer {
        let why = "the web address is for reading, with a token for bans and pardons too; this is for the admin socket";
        Answer::error(StatusCode::METHOD_NOT_ALLOWED, why).with("Allow", "GET, HEAD")
    }

    /// The answer where they may not.
    pub fn unnamed() -> Answer {
        Answer::error(StatusCode::FORBIDDEN, UNNAMED)
    }

    /// Whether this request may be answered.
    ///
    /// # Errors
    /// It may not; the answer says why.
    pub fn allows(&self, request: &Request) -> Result<(), Answer> {
        if !self.hosts.allow(&request.fields) {
            return Err(Answer::error(StatusCode::FORBIDDEN, REFUSAL));
        }
        let reads = matches!(request.method, Method::GET | Method::HEAD);
        let orders = self.takes_orders() && request.method == Method::POST;
        if !(reads || orders) {
            return Err(Web::socket_only());
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
            // a field each: of several challenges in one, browsers take the second for a parameter of the first and ask for nothing
            let answer = answer.with("WWW-Authenticate", "Basic realm=\"tidegate\", charset=\"UTF-8\"");
            return Err(answer.with("WWW-Authenticate", "Bearer"));
        }
        Ok(())
    }
}

/// An order that a browser sends must come from a page of ours: the browser adds tokens and passwords by itself, whosever page asks. It
/// is JSON, too, which pages of others cannot send without asking first.
///
/// # Errors
/// It is a stranger's; the answer says so.
pub fn is_no_strangers_order(request: &Request) -> Result<(), Answer> {
    if matches!(request.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let said = |name: &str| request.fields.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(origin) = said("origin") else { return Ok(()) };
    let own = origin.split_once("://").is_some_and(|(_, authority)| Some(authority) == said("host"));
    let fetched = said("sec-fetch-site").is_none_or(|site| site == "same-origin");
    if own && fetched && said("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return Ok(());
    }
    Err(Answer::error(StatusCode::FORBIDDEN, "asked for by the page of another site"))
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
    use crate::config::settings::Secret;
    use crate::small_server::Origin;

    fn web(token: Option<&str>) -> Web {
        Web::new(&AdminPage {
            address: ([127, 0, 0, 1], 0).into(),
            token: token.map(|token| Secret(token.into())),
            open: false,
            hosts: Vec::new(),
        })
    }

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
    fn nothing_but_reading_is_allowed() {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH, Method::TRACE] {
            assert_eq!(status(&web(None), method.clone(), &[("host", "localhost")]), 405, "{method}");
        }
        assert_eq!(status(&web(None), Method::HEAD, &[("host", "localhost")]), 200);
    }

    #[test]
    fn pages_of_other_sites_are_not_answered_but_links_from_them_are_followed() {
        let of = |site, mode| {
            let fields = [("host", "localhost"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            status(&web(None), Method::GET, &fields)
        };
        assert_eq!((of("cross-site", "no-cors"), of("same-site", "cors")), (403, 403));
        assert_eq!((of("cross-site", "navigate"), of("same-origin", "cors"), of("none", "navigate")), (200, 200, 200));
    }

    #[test]
    fn a_token_is_taken_as_bearer_or_as_a_password_and_nothing_else_is() {
        let web = web(Some("t0ken"));
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
