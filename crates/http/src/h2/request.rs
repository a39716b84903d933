//! The head of a request in HTTP/2: held to the rules of a head in HTTP/1, and brought into its form.
//!
//! The library has undone the compression and refused what RFC 9113 section 8.1.1 calls malformed as far as it looks:
//! missing, doubled, unknown or late pseudo-header fields, names with capitals, connection-specific fields, bytes that no
//! field may hold. It leaves open what a route, a key or an origin speaking HTTP/1 could read in two ways: where the host
//! stands, spellings of the path, lengths, imitations of trusted fields. All of that is judged here by the rules of
//! [`head`](crate::head).
//!
//! What passes has its target in canonical origin form and exactly one `Host`, whatever `:authority` and `Host` were, and its
//! cookies in one line (RFC 9113 section 8.2.3): what routes and keys see is what the origin gets.

use std::borrow::Cow;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Uri, header};

use crate::authority::{host_name, without_empty_port};
use crate::fault::HeadFault;
use crate::head::fields::Fields;
use crate::head::scan::{METHOD, TARGET, TOKEN, is};
use crate::head::{HeadLimits, Version};
use crate::path::{EscapedSlash, path_of};
use crate::query::{LONGEST_TARGET, canonical_query};

/// What a field takes beside its name and value, in the measure of RFC 9113 section 6.5.2.
const FIELD_OVERHEAD: usize = 32;
/// The colon, blank and line end that a field takes when it is written out.
const FIELD_PUNCTUATION: usize = 4;
/// No registered method is longer than 17.
const LONGEST_METHOD: usize = 32;

/// A head with one reading.
#[derive(Debug)]
pub struct Head {
    /// In canonical form.
    pub parts: Parts,
    /// The client waits for `100 Continue`.
    pub expect_continue: bool,
    /// Its size in the measure of RFC 9113 section 6.5.2.
    pub bytes: usize,
}

/// The size of a head in the measure of RFC 9113 section 6.5.2, pseudo-header fields included.
pub fn bytes(parts: &Parts) -> usize {
    let fields: usize =
        parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD).sum();
    // four pseudo-header fields with names of 7 to 10 bytes
    const PSEUDO: usize = 4 * (FIELD_OVERHEAD + 10);
    fields + PSEUDO + target(&parts.uri).len() + parts.uri.authority().map_or(0, |authority| authority.as_str().len())
}

/// Judges a head and brings it into canonical form; says whether the client waits for `100 Continue`.
///
/// # Errors
/// The first [`HeadFault`]: the request line as HTTP/1 would have it first, then the fields, then the head as a whole.
pub fn read(parts: &mut Parts, limits: &HeadLimits) -> Result<bool, HeadFault> {
    method(&parts.method)?;
    if !parts.uri.scheme_str().is_none_or(|scheme| matches!(scheme, "http" | "https")) {
        return Err(HeadFault::TargetForm);
    }
    let target = target(&parts.uri);
    let longest = limits.request_line.saturating_sub(parts.method.as_str().len() + 1);
    if target.len() > longest {
        return Err(HeadFault::TargetTooLong);
    }
    let canonical = canonical_target(&parts.uri, limits.escaped_slash, longest)?;
    let written = merge_cookies(parts)?;
    if parts.headers.len() > limits.fields {
        return Err(HeadFault::TooManyFields);
    }
    if written > limits.bytes {
        return Err(HeadFault::TooLarge);
    }
    let expect_continue = judge_fields(parts, limits)?;
    let written = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let written = written.or_else(|| parts.headers.get(header::HOST).map(HeaderValue::as_bytes)).unwrap_or_default();
    let host = HeaderValue::from_bytes(without_empty_port(written)).map_err(|_| HeadFault::Host)?;
    parts.headers.insert(header::HOST, host);
    parts.uri = canonical;
    Ok(expect_continue)
}

fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("", PathAndQuery::as_str)
}

fn method(method: &Method) -> Result<(), HeadFault> {
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        return Err(HeadFault::MethodRefused);
    }
    let word = method.as_str().as_bytes();
    if word.len() > LONGEST_METHOD || !word.iter().all(|&byte| is(byte, METHOD)) {
        return Err(HeadFault::Method);
    }
    Ok(())
}

fn canonical_target(uri: &Uri, escaped_slash: EscapedSlash, longest: usize) -> Result<Uri, HeadFault> {
    let target = target(uri);
    if !target.bytes().all(|byte| is(byte, TARGET)) {
        return Err(HeadFault::Target);
    }
    let (path, query) = target.split_at_checked(target.find('?').unwrap_or(target.len())).unwrap_or_default();
    let longest = longest.saturating_sub(path.len());
    let path = path_of(path.as_bytes(), escaped_slash)?;
    let query = canonical_query(query.as_bytes(), longest)?;
    if path.len() + query.len() > LONGEST_TARGET {
        return Err(HeadFault::TargetTooLong);
    }
    match (path, query, uri.path_and_query()) {
        // neither was changed: it is shared, and not read again
        (Cow::Borrowed(path), Cow::Borrowed(query), Some(same)) if path.len() + query.len() == target.len() => {
            Ok(Uri::from(same.clone()))
        }
        (path, query, _) => Uri::try_from(format!("{path}{query}")).map_err(|_| HeadFault::Target),
    }
}

/// Turns the crumbs that HTTP/2 allows for compression's sake into the one line that all others expect; says how long the
/// head is when it is written out.
///
/// # Errors
/// A crumb has blanks around it, which the line would hide.
fn merge_cookies(parts: &mut Parts) -> Result<usize, HeadFault> {
    if parts.headers.get_all(header::COOKIE).iter().any(|crumb| is_padded(crumb.as_bytes())) {
        return Err(HeadFault::FieldValue);
    }
    let mut crumbs = parts.headers.get_all(header::COOKIE).iter();
    if let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) {
        // an empty one would leave a blank at the end of the line, and says nothing
        let mut crumbs = [first, second].into_iter().chain(crumbs).filter(|crumb| !crumb.is_empty());
        let mut line = crumbs.next().map(|crumb| crumb.as_bytes().to_vec()).unwrap_or_default();
        for crumb in crumbs {
            line.extend_from_slice(b"; ");
            line.extend_from_slice(crumb.as_bytes());
        }
        if let Ok(line) = HeaderValue::from_bytes(&line) {
            parts.headers.insert(header::COOKIE, line);
        }
    }
    let fields = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_PUNCTUATION);
    Ok(fields.sum::<usize>() + target(&parts.uri).len())
}

/// Whether there are blanks around a value. RFC 9113 section 8.2.1: nothing takes them away here, so an origin would be the first
/// to.
fn is_padded(value: &[u8]) -> bool {
    matches!(value, [b' ' | b'\t', ..] | [.., b' ' | b'\t'])
}

/// Judges all fields together; says whether the client waits for `100 Continue`.
fn judge_fields(parts: &Parts, limits: &HeadLimits) -> Result<bool, HeadFault> {
    let mut fields = Fields::new(limits.twins);
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    if let Some(authority) = authority {
        if host_name(authority).is_none() {
            return Err(HeadFault::Host);
        }
        fields.take(b"host", authority)?;
    }
    for (name, value) in &parts.headers {
        let value = value.as_bytes();
        // the library takes a quotation mark for a character of names
        if !name.as_str().bytes().all(|byte| is(byte, TOKEN)) {
            return Err(HeadFault::FieldName);
        }
        if is_padded(value) {
            return Err(HeadFault::FieldValue);
        }
        match *name {
            header::HOST if authority.is_some_and(|other| without_empty_port(other) != without_empty_port(value)) => {
                return Err(HeadFault::HostMismatch);
            }
            // the same once more: one is enough, as long as there are not two of them
            header::HOST if authority.is_some() && parts.headers.get_all(header::HOST).iter().count() == 1 => {}
            // section 8.2.2: the library refuses them too, but an origin must not depend on that
            header::CONNECTION => return Err(HeadFault::Connection),
            header::UPGRADE => return Err(HeadFault::Upgrade),
            header::TRANSFER_ENCODING => return Err(HeadFault::TransferEncoding),
            header::TE if value != b"trailers" => return Err(HeadFault::Connection),
            _ if matches!(name.as_str(), "keep-alive" | "proxy-connection" | "http2-settings") => {
                return Err(HeadFault::Connection);
            }
            _ => fields.take(name.as_str().as_bytes(), value)?,
        }
    }
    // a body without a length is as good as chunked, so the client may wait before it
    let expects = parts.headers.contains_key(header::EXPECT);
    let framing = fields.conclude(Version::Http11)?;
    Ok(framing.expect_continue || (expects && !parts.headers.contains_key(header::CONTENT_LENGTH)))
}

#[cfg(test)]
mod tests;
