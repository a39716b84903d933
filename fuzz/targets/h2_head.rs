//! The head of a request in HTTP/2 (`tidegate_http::h2::request`), after the library has undone its compression. The input is a line
//! `METHOD SCHEME AUTHORITY PATH`, `-` for what is not there, and a line `name: value` for every field.
//!
//! - It is accepted exactly when the strict reading of HTTP/1 (`strict`) accepts what it would be there, and nothing is in it
//!   that only HTTP/2 refuses.
//! - What is accepted, written out for an origin in HTTP/1, is accepted by that reading, and all lenient readers find one and the
//!   same request in it.
//! - It is in its canonical form: read again it stays as it is.

use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use tidegate_http::h2::request::{bytes, read};
use tidegate_http::head::Body;

use super::behind;
use super::cost::{self, Bound, USUAL, Work};
use super::lenient::{Leniency, Reading};
use super::limits::{ROOMY, TIGHT};
use super::strict;

/// Refused in HTTP/2 whatever they say (RFC 9113 section 8.2.2).
const OF_A_CONNECTION: [&str; 6] =
    ["connection", "http2-settings", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    let mut parts = parts(data)?;
    Some(Box::new(move || {
        let _ = (bytes(&parts), read(&mut parts, &ROOMY));
    }))
}

/// The target.
pub fn h2_head(data: &[u8]) {
    // the map of fields looks through all values at each that it removes, in builds that check themselves
    cost::is_bounded(data, Bound { loops: 400, ..USUAL }, work);
    let Some(before) = parts(data) else { return };
    let target = target_of(&before.uri).to_owned();
    let mut after = before.clone();
    let verdict = read(&mut after, &ROOMY);
    let written = form_of_http1(&before, &target);
    let expected = written.as_ref().and_then(|written| strict::head(written, &ROOMY));
    assert_eq!(verdict.is_ok(), expected.is_some(), "{verdict:?}: {before:?}");
    if let (Ok(expects), Some(expected)) = (verdict, expected) {
        let has = |name| before.headers.contains_key(name);
        let without_length = has(header::EXPECT) && !has(header::CONTENT_LENGTH);
        assert_eq!(expects, expected.expect_continue || without_length);
        assert_eq!(target_of(&after.uri), expected.canonical_target.as_deref().unwrap_or(&target));
        let crumbs = before.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes);
        let crumbs: Vec<&[u8]> = crumbs.filter(|crumb| !crumb.is_empty()).collect();
        let line = after.headers.get(header::COOKIE).map(HeaderValue::as_bytes);
        assert_eq!(line.unwrap_or_default(), crumbs.join(&b"; "[..]), "RFC 9113 section 8.2.3");
        has_one_reading(&after, &expected.body);
        let mut again = after.clone();
        assert_eq!(read(&mut again, &ROOMY), Ok(expects));
        assert_eq!((&again.uri, &again.headers), (&after.uri, &after.headers));
    }
    let mut tight = before.clone();
    if read(&mut tight, &TIGHT).is_ok() {
        assert!(tight.headers.len() <= TIGHT.fields + 1 && target.len() < TIGHT.request_line);
        assert!(bytes(&before) >= target.len());
    }
}

/// What the library would hand on; none where it refuses by itself.
fn parts(data: &[u8]) -> Option<Parts> {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let (method, scheme, authority, path) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let mut uri = http::uri::Parts::default();
    if authority != b"-" {
        uri.authority = Some(authority.try_into().ok()?);
        uri.scheme = Some(if scheme == b"-" { "http".try_into().ok()? } else { scheme.try_into().ok()? });
    }
    uri.path_and_query = Some(path.try_into().ok()?);
    let request = Request::builder().method(Method::from_bytes(method).ok()?).uri(Uri::from_parts(uri).ok()?);
    let (mut parts, ()) = request.body(()).ok()?.into_parts();
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().skip(1).position(|byte| *byte == b':')? + 1;
        let name = HeaderName::from_lowercase(&line[..colon]).ok()?;
        let value = &line[colon + 1..];
        let value = HeaderValue::from_bytes(value.strip_prefix(b" ").unwrap_or(value)).ok()?;
        parts.headers.try_append(name, value).ok()?;
    }
    Some(parts)
}

fn target_of(uri: &Uri) -> &str {
    uri.path_and_query().map_or("", |target| target.as_str())
}

/// The same request as HTTP/1 would say it; none when it says what HTTP/2 refuses.
fn form_of_http1(parts: &Parts, target: &str) -> Option<Vec<u8>> {
    if !target.starts_with('/') || !parts.uri.scheme_str().is_none_or(|scheme| ["http", "https"].contains(&scheme)) {
        return None;
    }
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let mut lines = Vec::new();
    for (name, value) in &parts.headers {
        let (name, value) = (name.as_str(), value.as_bytes());
        let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        if OF_A_CONNECTION.contains(&name)
            || (name == "te" && value != b"trailers")
            || (name == "host" && authority.is_some_and(|authority| portless(authority) != portless(value)))
            || blank(value.first())
            || blank(value.last())
        {
            return None;
        }
        lines.push((name, value));
    }
    // a `Host` that says once more what the authority says is no second one
    let hosts = lines.iter().filter(|(name, _)| *name == "host").count();
    if let Some(authority) = authority.filter(|_| hosts == 0) {
        lines.push(("host", authority));
    }
    Some(head(parts.method.as_str(), target, &lines))
}

/// Without the colon of an empty port.
fn portless(authority: &[u8]) -> &[u8] {
    authority.strip_suffix(b":").unwrap_or(authority)
}

fn head(method: &str, target: &str, lines: &[(&str, &[u8])]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    for (name, value) in lines {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// What an origin in HTTP/1 is sent, before anything is added that says how its body travels.
fn has_one_reading(parts: &Parts, body: &Body) {
    let lines: Vec<(&str, &[u8])> =
        parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let count = |wanted: &str| lines.iter().filter(|(name, _)| *name == wanted).count();
    assert_eq!(count("host"), 1);
    assert!(lines.iter().all(|(name, value)| *name != "host" || !value.ends_with(b":")), "an empty port is dropped");
    assert!(count("cookie") <= 1 && count("content-length") <= 1);
    let target = target_of(&parts.uri);
    assert!(target.starts_with('/') && parts.uri.authority().is_none());
    let sent = head(parts.method.as_str(), target, &lines);
    let read = strict::head(&sent, &ROOMY).expect("what was accepted is accepted");
    assert_eq!(read.canonical_target, None, "the target is canonical");
    // the fields of a request are bounded well below what Pingora has room for
    if lines.len() <= 200 {
        behind::takes(&sent, &read);
    }
    assert_eq!(&read.body, body);
    let expected = Reading {
        method: parts.method.as_str().into(),
        target: target.into(),
        host: parts.headers.get(header::HOST).map(|host| host.as_bytes().to_vec()),
        length: if let Body::Length(length) = read.body { Some(length) } else { None },
        chunked: false,
        end: sent.len(),
    };
    for leniency in Leniency::all() {
        assert_eq!(leniency.read(&sent).as_ref(), Some(&expected), "{leniency:?}");
    }
}
