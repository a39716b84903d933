//! What browsers are told about pages of other sites: the fields of the Fetch standard's CORS protocol, and the answer to a preflight.
//!
//! A route with a `cors:` section has one authority for them, the section: on an origin's answer the gate's fields stand in the place
//! of the origin's. An `Origin` that is not allowed is told nothing, and none is sent back but one that was found allowed.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::policy::cors::{AllowedOrigins, Cors, Listed};
use crate::policy::{FieldStyle, Policy, Route};
use crate::request::Preflight;

/// The fields that the gate writes, and an origin's of which it takes away.
pub static OWN: [HeaderName; 6] = [
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
];

/// The longest list of requested header fields that is sent back; a longer one is refused.
const LONGEST_ECHO: usize = 4 << 10;

/// What answers of a route with `cors:` tell, as far as it can be written when the policy is loaded.
#[derive(Debug, Clone)]
pub struct CorsFields {
    cors: Cors,
    exposed: HeaderValue,
    methods: Option<HeaderValue>,
    headers: Option<HeaderValue>,
    max_age: HeaderValue,
}

impl CorsFields {
    /// The fields of a route; `None` for one without `cors:`.
    pub fn new(policy: &Policy, route: &Route) -> Option<CorsFields> {
        let cors = route.cors.as_ref()?;
        let own = told(policy.responses.fields);
        let exposed = match &cors.expose {
            Listed::Any => "*".to_owned(),
            Listed::These(these) => {
                let decision = policy.responses.decision_id.then_some("X-Tidegate-Decision");
                let named = these.iter().map(HeaderName::as_str);
                [own].into_iter().chain(decision).chain(named).collect::<Vec<_>>().join(", ")
            }
        };
        Some(CorsFields {
            exposed: HeaderValue::try_from(exposed).ok()?,
            methods: value(&cors.methods, cors.credentials, |method| method.as_str()),
            headers: value(&cors.headers, cors.credentials, HeaderName::as_str),
            max_age: HeaderValue::from(cors.max_age.as_secs()),
            cors: cors.clone(),
        })
    }

    /// Gives each field of an answer to a request with this `Origin` to `add`, which adds it as a line of its own.
    ///
    /// # Errors
    /// That of `add`.
    pub fn on_answer<E>(
        &self,
        origin: Option<&HeaderValue>,
        mut add: impl FnMut(HeaderName, HeaderValue) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(allowed) = self.allowed(origin, &mut add)? else { return Ok(()) };
        add(ACCESS_CONTROL_ALLOW_ORIGIN, allowed)?;
        if self.cors.credentials {
            add(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"))?;
        }
        add(ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed.clone())
    }

    /// The value of `Access-Control-Allow-Origin`, if the page may read the answer. Says first what the answer varies by.
    fn allowed<E>(
        &self,
        origin: Option<&HeaderValue>,
        add: &mut impl FnMut(HeaderName, HeaderValue) -> Result<(), E>,
    ) -> Result<Option<HeaderValue>, E> {
        if self.cors.origins == AllowedOrigins::Any {
            // the same for all, so a cache may keep it for all
            return Ok(Some(HeaderValue::from_static("*")));
        }
        add(VARY, HeaderValue::from_static("Origin"))?;
        Ok(origin.filter(|origin| self.cors.origins.allow(origin)).cloned())
    }

    /// What a preflight is told: what the page may do. A page that may not do it is told nothing, and its browser does not send the
    /// request.
    pub fn on_preflight(&self, asked: &Preflight<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::with_capacity(8);
        let mut add = |name, value| {
            headers.push((name, value));
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(allowed) = self.allowed(Some(asked.origin), &mut add);
        let echoes = [&self.methods, &self.headers].into_iter().any(Option::is_none);
        if echoes && self.cors.credentials {
            let names = "Access-Control-Request-Method, Access-Control-Request-Headers";
            headers.push((VARY, HeaderValue::from_static(names)));
        }
        let methods = self.methods.clone().unwrap_or_else(|| asked.method.clone());
        if let Some(allowed) = allowed {
            headers.push((ACCESS_CONTROL_ALLOW_ORIGIN, allowed));
            if self.cors.credentials {
                headers.push((ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true")));
            }
            headers.push((ACCESS_CONTROL_ALLOW_METHODS, methods));
            let echoed = asked.headers.filter(|fields| fields.len() <= LONGEST_ECHO);
            let fields = self.headers.clone().or_else(|| echoed.cloned()).filter(|fields| !fields.is_empty());
            headers.extend(fields.map(|fields| (ACCESS_CONTROL_ALLOW_HEADERS, fields)));
            headers.push((ACCESS_CONTROL_MAX_AGE, self.max_age.clone()));
        }
        headers
    }
}

/// The names of the fields that answers tell of limits in, for scripts of other sites to see. One more line adds to an origin's list.
pub fn told(style: FieldStyle) -> &'static str {
    match style {
        FieldStyle::Draft => "RateLimit, RateLimit-Policy, Retry-After",
        FieldStyle::Triple => "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After",
        FieldStyle::Legacy => "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After",
        FieldStyle::Off => "Retry-After",
    }
}

/// The `Origin` of a request; `None` if it has none, or several.
pub fn origin(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut lines = headers.get_all(http::header::ORIGIN).iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// A list as a field's value. `None` for everything where that has no word and what was asked for is sent back: browsers take `*` for
/// a name where there are credentials.
fn value<T>(list: &Listed<T>, credentials: bool, text: impl Fn(&T) -> &str) -> Option<HeaderValue> {
    match list {
        Listed::Any if credentials => None,
        Listed::Any => Some(HeaderValue::from_static("*")),
        Listed::These(these) => HeaderValue::try_from(these.iter().map(text).collect::<Vec<_>>().join(", ")).ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, header};

    use super::*;
    use crate::answer::sample;
    use crate::policy::Responses;
    use crate::policy::cors::WebOrigin;

    fn cors() -> Cors {
        Cors {
            origins: AllowedOrigins::These(vec![WebOrigin::Exact("https://app.test".into())]),
            methods: Listed::These(vec![Method::GET, Method::PUT]),
            headers: Listed::These(vec![header::CONTENT_TYPE]),
            expose: Listed::These(vec![HeaderName::from_static("x-total")]),
            credentials: false,
            max_age: Duration::from_secs(60),
        }
    }

    fn fields(cors: Cors) -> CorsFields {
        let policy = sample::policy(Vec::new(), Responses::default());
        let route = Route { cors: Some(cors), ..policy.routes.route(0).unwrap().clone() };
        CorsFields::new(&policy, &route).unwrap()
    }

    fn told(cors: Cors, origin: &str) -> Vec<String> {
        let mut told = Vec::new();
        let origin = HeaderValue::from_str(origin).unwrap();
        let add = |name, value| {
            told.push((name, value));
            Ok::<(), ()>(())
        };
        fields(cors).on_answer(Some(&origin).filter(|origin| !origin.is_empty()), add).unwrap();
        sample::lines(&told)
    }

    fn preflight(cors: Cors, origin: &str, asked: Option<&str>) -> Vec<String> {
        let (origin, method) = (HeaderValue::from_str(origin).unwrap(), HeaderValue::from_static("DELETE"));
        let asked = asked.map(|asked| HeaderValue::from_str(asked).unwrap());
        let asked = Preflight { origin: &origin, method: &method, headers: asked.as_ref() };
        sample::lines(&fields(cors).on_preflight(&asked))
    }

    const EXPOSED: &str =
        "access-control-expose-headers: RateLimit, RateLimit-Policy, Retry-After, X-Tidegate-Decision, x-total";

    #[test]
    fn an_allowed_page_is_told_that_it_may_read_and_no_other() {
        let all = ["vary: Origin", "access-control-allow-origin: https://app.test", EXPOSED];
        assert_eq!(told(cors(), "https://app.test"), all);
        for origin in ["", "null", "https://evil.test", "http://app.test", "https://app.test.evil.test"] {
            assert_eq!(told(cors(), origin), ["vary: Origin"], "{origin}");
        }
        let credentials = Cors { credentials: true, ..cors() };
        assert!(told(credentials, "https://app.test").contains(&"access-control-allow-credentials: true".to_owned()));
    }

    #[test]
    fn what_is_open_to_all_says_so_and_reflects_nobody() {
        let open = Cors { origins: AllowedOrigins::Any, expose: Listed::Any, ..cors() };
        for origin in ["", "https://evil.test", "null", "no origin at all"] {
            let all = ["access-control-allow-origin: *", "access-control-expose-headers: *"];
            assert_eq!(told(open.clone(), origin), all, "{origin}");
        }
    }

    #[test]
    fn a_preflight_is_told_what_the_page_may_do() {
        assert_eq!(
            preflight(cors(), "https://app.test", Some("x-other")),
            [
                "vary: Origin",
                "access-control-allow-origin: https://app.test",
                "access-control-allow-methods: GET, PUT",
                "access-control-allow-headers: content-type",
                "access-control-max-age: 60",
            ]
        );
        assert_eq!(preflight(cors(), "https://evil.test", None), ["vary: Origin"]);
        let none = Cors { headers: Listed::These(Vec::new()), ..cors() };
        assert!(!preflight(none, "https://app.test", Some("x-a")).iter().any(|line| line.contains("allow-headers")));
    }

    #[test]
    fn everything_is_a_star_or_what_was_asked_where_a_star_is_no_word() {
        let any = Cors { methods: Listed::Any, headers: Listed::Any, ..cors() };
        let open = preflight(any.clone(), "https://app.test", Some("x-a,x-b"));
        assert!(open.contains(&"access-control-allow-methods: *".to_owned()), "{open:?}");
        assert!(open.contains(&"access-control-allow-headers: *".to_owned()), "{open:?}");
        let with = Cors { credentials: true, ..any };
        let echoed = preflight(with.clone(), "https://app.test", Some("x-a,x-b"));
        assert!(echoed.contains(&"access-control-allow-methods: DELETE".to_owned()), "{echoed:?}");
        assert!(echoed.contains(&"access-control-allow-headers: x-a,x-b".to_owned()), "{echoed:?}");
        assert!(echoed.iter().any(|line| line.starts_with("vary: Access-Control-Request-Method")), "{echoed:?}");
        let long = "a".repeat(LONGEST_ECHO + 1);
        assert!(!preflight(with, "https://app.test", Some(&long)).iter().any(|line| line.contains("allow-headers")));
    }
}
