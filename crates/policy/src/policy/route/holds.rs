//! Whether those parts of a match hold that the index has not looked at: method, client, header fields, parameters, expressions.

use http::{HeaderMap, HeaderName};
use regex::Regex;

use super::{ClientList, Match, PathMatch, TextMatch};
use crate::client::Client;
use crate::client::values::{Reading, TooMany, Value, readings};
use crate::request::Request;

/// How long a field's line or a parameter's value may be that an expression has to read. An engine in linear time still
/// multiplies each byte by the size of the expression, and the length is a stranger's; a longer one is refused, since one that
/// simply did not match would walk round the route.
pub const LONGEST_VALUE: usize = 4096;

/// Why it cannot be told whether a route takes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// A parameter has values that fit and values that do not, and which of them an application reads, nobody knows; or there are more
    /// parameters than anybody reads.
    Ambiguous,
    /// A field or parameter that an expression would have to read is longer than [`LONGEST_VALUE`].
    ValueTooLong,
}

/// Whether everything holds that the index has not already looked at; the cheapest is asked first.
pub(super) fn holds(asked: &Match, request: &Request<'_>, client: Option<&Client>) -> Result<bool, Undecided> {
    let method = asked.methods.is_empty() || asked.methods.contains(request.method);
    let path = match &asked.path {
        // no longer than a request line
        PathMatch::Regex(regex) => method && regex.is_match(request.path),
        PathMatch::Exact(_) | PathMatch::Prefix(_) => method,
    };
    let listed = |list: &ClientList| client.is_some_and(|client| list.lists_surely(client));
    if !path || !asked.client.as_deref().is_none_or(listed) {
        return Ok(false);
    }
    let query = request.query.unwrap_or_default();
    let headers = asked.headers.iter().map(|(name, value)| header_holds(request.headers, name, value));
    let parameters = asked.query.iter().map(|(name, value)| query_holds(query, name, value));
    let mut all = Ok(true);
    for part in headers.chain(parameters) {
        match part {
            Ok(true) => {}
            // whatever else is unknown, the route does not take it
            Ok(false) => return Ok(false),
            Err(undecided) => all = Err(undecided),
        }
    }
    all
}

/// A field that came in several lines holds when one of its lines does.
fn header_holds(headers: &HeaderMap, name: &HeaderName, asked: &TextMatch) -> Result<bool, Undecided> {
    for value in headers.get_all(name) {
        let holds = match asked {
            TextMatch::Exact(text) => value.as_bytes() == text.as_bytes(),
            TextMatch::Regex(_) if value.len() > LONGEST_VALUE => return Err(Undecided::ValueTooLong),
            TextMatch::Regex(regex) => meets(regex, value.as_bytes()),
        };
        if holds {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the parameter's values fit, decoded; without `=` a value is empty.
fn query_holds(query: &str, name: &str, asked: &TextMatch) -> Result<bool, Undecided> {
    let [ampersands, semicolons] = readings(query).map_err(|TooMany| Undecided::Ambiguous)?;
    let first = ampersands.map_or(Ok(false), |reading| all_fit(reading, name, asked))?;
    match semicolons {
        Some(reading) if all_fit(reading, name, asked)? != first => Err(Undecided::Ambiguous),
        _ => Ok(first),
    }
}

/// The same in one reading of the query.
fn all_fit(reading: Reading<'_>, name: &str, asked: &TextMatch) -> Result<bool, Undecided> {
    let mut all = None;
    for value in reading.values(name) {
        let fits = match asked {
            TextMatch::Exact(text) => value.is(text),
            TextMatch::Regex(regex) => matches_decoded(regex, &value)?,
        };
        if all.is_some_and(|before| before != fits) {
            return Err(Undecided::Ambiguous);
        }
        all = Some(fits);
    }
    Ok(all.unwrap_or(false))
}

fn matches_decoded(regex: &Regex, value: &Value<'_>) -> Result<bool, Undecided> {
    let decoded;
    let bytes = match value.as_sent() {
        Some(bytes) => bytes,
        None => {
            decoded = value.decoded();
            decoded.as_slice()
        }
    };
    if bytes.len() > LONGEST_VALUE {
        return Err(Undecided::ValueTooLong);
    }
    Ok(meets(regex, bytes))
}

/// Whether an expression meets a value, whatever bytes a stranger puts into it: one that is no part of UTF-8 counts as one
/// character (U+FFFD). Otherwise a value with such a byte, which origins read past, would walk round every route that blocks.
fn meets(regex: &Regex, value: &[u8]) -> bool {
    regex.is_match(&String::from_utf8_lossy(value))
}
