//! What was asked of an endpoint.

use http::StatusCode;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use crate::small_server::{Answer, Request};

/// What was asked of an endpoint.
#[derive(Debug)]
pub struct Asked {
    request: Request,
    parameters: Vec<(&'static str, String)>,
    names: bool,
    orders: bool,
}

impl Asked {
    /// This request, whose path fits with these parameters.
    pub(super) fn new(request: Request, parameters: Vec<(&'static str, String)>) -> Asked {
        Asked { request, parameters, names: true, orders: true }
    }

    /// The same by somebody who may read of clients and of the configuration, or may not, and may give orders about clients, or may not.
    pub(super) fn by_one_who_may(self, names: bool, orders: bool) -> Asked {
        Asked { names, orders, ..self }
    }

    /// Whether the answer may name clients and configuration.
    pub fn may_read_names(&self) -> bool {
        self.names
    }

    /// Whether whoever asks may give orders about clients.
    pub fn may_order(&self) -> bool {
        self.orders
    }

    /// The request as it came.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// What stands in the place of `{name}` in the path; empty if there is no such place.
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// The value of the first parameter of this name in the query.
    pub fn query(&self, name: &str) -> Option<String> {
        self.request.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key)? == name).then(|| decoded(&value.replace('+', " ")))?
        })
    }

    /// The body, from JSON; nothing counts as `{}`.
    ///
    /// # Errors
    /// It is not that; the answer says why.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Answer> {
        let body = if self.request.body.is_empty() { b"{}".as_slice() } else { &self.request.body };
        serde_json::from_slice(body)
            .map_err(|error| Answer::error(StatusCode::BAD_REQUEST, format!("the body is not understood: {error}")))
    }
}

/// What a path has in the places of `pattern`; `None` if it does not fit.
pub(super) fn parameters(pattern: &'static str, path: &str) -> Option<Vec<(&'static str, String)>> {
    let mut parameters = Vec::new();
    let (mut wanted, mut found) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return Some(parameters),
            (Some(wanted), Some(found)) => match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) if !found.is_empty() => parameters.push((name, decoded(found)?)),
                None if wanted == found => {}
                _ => return None,
            },
            _ => return None,
        }
    }
}

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_server::Origin;

    fn asked(query: &str) -> Asked {
        let request = Request {
            method: http::Method::GET,
            path: String::new(),
            query: query.to_owned(),
            fields: http::HeaderMap::new(),
            body: Vec::new(),
            origin: Origin::Tcp,
        };
        Asked::new(request, Vec::new())
    }

    #[test]
    fn segments_in_braces_take_any_one_segment() {
        let of = |path| parameters("/api/v1/decisions/{id}", path);
        assert_eq!(of("/api/v1/decisions/7Q3M-9F2K"), Some(vec![("id", "7Q3M-9F2K".to_owned())]));
        assert_eq!(of("/api/v1/decisions/a%2Fb"), Some(vec![("id", "a/b".to_owned())]));
        for other in ["/api/v1/decisions/", "/api/v1/decisions", "/api/v1/decisions/a/b", "/api/v2/decisions/a"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(parameters("/", "/"), Some(Vec::new()));
    }

    #[test]
    fn queries_are_decoded_and_the_first_of_a_name_counts() {
        let asked = asked("a=1&client=2001%3adb8%3a%3a1&client=b&text=x+y&flag");
        assert_eq!(asked.query("client").as_deref(), Some("2001:db8::1"));
        assert_eq!(asked.query("text").as_deref(), Some("x y"));
        assert_eq!(asked.query("flag").as_deref(), Some(""));
        assert_eq!(asked.query("b"), None);
    }
}
