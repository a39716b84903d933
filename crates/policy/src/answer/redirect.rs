//! The answer of a listener that sends every request to the same address by TLS.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, LOCATION};
use http::{HeaderValue, Method, StatusCode};

use super::{Answer, Fault};
use crate::request::Request;

/// Sends the client to `https://HOST[:PORT]` and the same path and query; 443 goes without saying. GET and HEAD get 301, which
/// everybody knows; all others 308, which keeps method and body (RFC 9110 sections 15.4.2 and 15.4.9).
///
/// # Errors
/// The request names no host to be sent to: it is to be answered with this fault.
pub fn to_https(request: &Request<'_>, port: u16) -> Result<Answer, Fault> {
    if request.host.is_empty() {
        return Err(Fault::BadRequest);
    }
    let mut location = format!("https://{}", request.host);
    if port != 443 {
        location.push_str(&format!(":{port}"));
    }
    // `*` asks about the server as a whole
    location.push_str(if request.path.starts_with('/') { request.path } else { "/" });
    if let Some(query) = request.query {
        location.push('?');
        location.push_str(query);
    }
    let location = HeaderValue::try_from(location).map_err(|_| Fault::BadRequest)?;
    let status = match *request.method {
        Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::PERMANENT_REDIRECT,
    };
    let headers = vec![(LOCATION, location), (CONTENT_LENGTH, HeaderValue::from_static("0"))];
    Ok(Answer { status, headers, body: Bytes::new() })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::request::Peer;

    fn sent(method: Method, host: &str, path: &str, query: Option<&str>, port: u16) -> Option<(u16, String)> {
        let headers = HeaderMap::new();
        let request =
            Request { peer: Peer::Unix, method: &method, host, path, query, headers: &headers, tls_sni: None };
        let answer = to_https(&request, port).ok()?;
        let (_, location) = answer.headers.iter().find(|(name, _)| name == LOCATION)?;
        Some((answer.status.as_u16(), location.to_str().unwrap().to_owned()))
    }

    #[test]
    fn the_address_stays_and_the_method_decides_the_status() {
        let to = |text: &str, status: u16| Some((status, text.to_owned()));
        assert_eq!(sent(Method::GET, "a.test", "/b", Some("c=d"), 443), to("https://a.test/b?c=d", 301));
        assert_eq!(sent(Method::HEAD, "a.test", "/", None, 443), to("https://a.test/", 301));
        assert_eq!(sent(Method::POST, "a.test", "/b", Some(""), 8443), to("https://a.test:8443/b?", 308));
        assert_eq!(sent(Method::OPTIONS, "[2001:db8::1]", "*", None, 443), to("https://[2001:db8::1]/", 308));
        assert_eq!(sent(Method::GET, "", "/", None, 443), None);
    }
}
