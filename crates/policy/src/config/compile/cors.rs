//! `cors` of a route.

use http::{HeaderName, Method, header};

use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::quoted::quoted;
use crate::config::read::{At, Field};
use crate::config::schema;
use crate::config::shape::OneOrMany;
use crate::config::span::Span;
use crate::config::web_origin::OrAny;
use crate::policy::HeaderEdits;
use crate::policy::cors::{AllowedOrigins, Cors, Listed};

/// The most origins of one route: each is compared with the `Origin` of every request.
const MOST: usize = 64;

/// The fields that the gate alone writes on a route with `cors`.
pub const OWN: [HeaderName; 6] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

/// Which pages of other sites may read the answers of a route; `None` where nothing is said, or nothing usable, which has been told.
pub fn cors(field: &Field<schema::Cors>, edits: &HeaderEdits, faults: &mut Faults) -> Option<Cors> {
    let written = field.get()?;
    let at = written.span;
    let written = &written.value;
    let origins = listed(&written.allow_origins, faults)?;
    let methods = listed(&written.allow_methods, faults);
    let headers = listed(&written.allow_headers, faults);
    let expose = listed(&written.expose_headers, faults);
    let credentials = written.allow_credentials();
    let of_any = |field: &'static str, at: Option<Span>, why: &'static str, help: &'static str| {
        Diagnostic::error(
            Code::CONFLICT,
            at.unwrap_or_default(),
            format!("`{field}: \"*\"` beside `allow_credentials`"),
        )
        .label(why)
        .help(help)
    };
    if credentials && origins == Listed::Any {
        let why = "any site could act as the user who visits it";
        faults.push(of_any(
            "allow_origins",
            written.allow_origins.key(),
            why,
            "name the origins: `https://app.example.com`",
        ));
    }
    if credentials && expose == Some(Listed::Any) {
        let why = "browsers take `*` for a field's name then";
        faults.push(of_any("expose_headers", written.expose_headers.key(), why, "name the fields"));
    }
    if let Listed::These(these) = &origins
        && these.len() > MOST
    {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at, format!("{} origins", these.len()))
                .label(format!("allowed are {MOST}"))
                .help("a wildcard takes all hosts below a domain: `https://*.example.com`"),
        );
    }
    let edited = edits.remove.iter().chain(edits.set.iter().chain(&edits.add).map(|(name, _)| name));
    for name in edited.filter(|name| OWN.contains(name)) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, at, format!("`cors` beside an edit of {}", quoted(name.as_str())))
                .label("writes this field itself")
                .help("take the field out of `response_headers`"),
        );
    }
    Some(Cors {
        origins: match origins {
            Listed::Any => AllowedOrigins::Any,
            Listed::These(these) => AllowedOrigins::These(these),
        },
        methods: methods.unwrap_or_else(|| Listed::These(vec![Method::GET, Method::HEAD, Method::POST])),
        headers: headers.unwrap_or_else(|| Listed::These(Vec::new())),
        expose: expose.unwrap_or_else(|| Listed::These(Vec::new())),
        credentials,
        max_age: written.max_age(),
    })
}

/// A list, or `*` alone.
fn listed<T: Clone + PartialEq>(field: &Field<OneOrMany<OrAny<T>>>, faults: &mut Faults) -> Option<Listed<T>> {
    let OneOrMany(list) = field.value()?;
    let mut these: Vec<T> = Vec::new();
    let mut any: Option<&At<OrAny<T>>> = None;
    for item in &list.items {
        match &item.value {
            OrAny::Any => any = Some(item),
            OrAny::This(this) => {
                if these.contains(this) {
                    faults.push(
                        Diagnostic::error(Code::DUPLICATE_NAME, item.span, format!("{} is here twice", item.shown))
                            .label("a second time"),
                    );
                }
                these.push(this.clone());
            }
        }
    }
    match any {
        None => Some(Listed::These(these)),
        Some(item) => {
            if !these.is_empty() {
                faults.push(
                    Diagnostic::error(Code::CONFLICT, item.span, "`*` beside others")
                        .label("takes everything by itself"),
                );
            }
            Some(Listed::Any)
        }
    }
}
