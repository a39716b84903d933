//! What a limit counts by, what happens without it, whose values it counts, and the networks around it.

use super::written::{Written, missing_field};
use crate::client::key::{KeyFault, KeyPart, KeySpec, MAX_PARTS, Missing};
use crate::config::compile::checks::out_of_place;
use crate::config::compile::queue;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_text::LimitKey;
use crate::config::read::{At, Field};
use crate::config::shape::{Either, List, OneOrMany};
use crate::config::span::Span;
use crate::config::text::Name;
use crate::policy::Scope;

/// What requests are counted by.
pub struct Key {
    /// The parts that a request has.
    pub spec: KeySpec,
    /// Whether each origin is counted apart.
    pub by_origin: bool,
    /// What is counted exactly, which needs no hash of the key.
    pub exact: Option<Scope>,
    /// The limit that takes requests without the key.
    pub instead: Option<At<Name>>,
}

/// Parts that have been read, with their place.
struct Parts {
    parts: Vec<KeyPart>,
    origin: bool,
    at: Span,
}

impl Parts {
    fn can_be_missing(&self) -> bool {
        self.parts.iter().any(KeyPart::can_be_missing)
    }
}

/// The limit's key: the first of its nodes, if it has some.
pub fn key(written: &Written<'_>, nodes: Option<&[(KeySpec, u32)]>, faults: &mut Faults) -> Option<Key> {
    let limit = written.limit;
    if let Some((own, _)) = nodes?.first() {
        return Some(Key { spec: own.clone(), by_origin: false, exact: None, instead: None });
    }
    let Some(mut parts) = parts(&limit.key, faults) else {
        if limit.key.is_present() {
            return None;
        }
        let default = if written.form.gives_back { KeyPart::Global } else { KeyPart::CLIENT_IP };
        let can_be_missing = of_can_be_missing(written);
        let missing = missing(written, can_be_missing.then_some((default.clone(), of_span(written))), faults)?;
        let exact = written.form.gives_back.then_some(Scope::Global);
        let spec = KeySpec::new([default], missing.0).ok()?;
        return Some(Key { spec, by_origin: false, exact, instead: missing.1 });
    };
    let exact = exact_scope(written, &parts);
    if parts.origin && parts.parts.is_empty() {
        parts.parts.push(KeyPart::Global);
    }
    let lacking = parts.parts.iter().find(|part| part.can_be_missing()).map(|part| (part.clone(), parts.at));
    let lacking = lacking.or_else(|| of_can_be_missing(written).then_some((KeyPart::Global, of_span(written))));
    let (then, instead) = missing(written, lacking, faults)?;
    // the scope says where to count; a hash of the key is of no use then
    let by_origin = parts.origin && exact.is_none();
    let spec = spec(parts.parts, parts.at, then, faults)?;
    Some(Key { spec, by_origin, exact, instead })
}

/// What a limit counts without a sketch: things whose number is fixed here.
fn exact_scope(written: &Written<'_>, parts: &Parts) -> Option<Scope> {
    if !written.form.gives_back {
        return None;
    }
    match (parts.parts.as_slice(), parts.origin) {
        ([], true) => Some(Scope::Origin),
        ([KeyPart::Route], false) => Some(Scope::Route),
        ([KeyPart::Global], false) => Some(Scope::Global),
        _ => None,
    }
}

/// The thing whose values are counted; `Some(None)` for types without `of`.
pub fn of(written: &Written<'_>, faults: &mut Faults) -> Option<Option<KeySpec>> {
    if !written.form.takes("of") {
        return Some(None);
    }
    let of = written.limit.own.key("of");
    if !of.is_present() {
        missing_field(written, "of", faults);
        return None;
    }
    let parts = without_origin(parts(&of, faults)?, "`of` cannot be `origin`", faults)?;
    let then = match written.limit.missing.value() {
        Some(Either::Short(missing)) => Some(*missing),
        Some(Either::Long(_)) => Some(Missing::Allow),
        // its own fault has been told with the key
        None if parts.can_be_missing() => return None,
        None => None,
    };
    spec(parts.parts, parts.at, then.filter(|_| any_can_be_missing(written)), faults).map(Some)
}

/// The key and the networks around it, each with the number of clients that it stands for; none for types without `networks`.
pub fn nodes(written: &Written<'_>, faults: &mut Faults) -> Option<Vec<(KeySpec, u32)>> {
    if !written.form.takes("networks") {
        return Some(Vec::new());
    }
    let key = match parts(&written.limit.key, faults) {
        Some(parts) => {
            let parts = without_origin(parts, "a `fair_share` cannot hold requests together by `origin`", faults)?;
            Some((parts.parts, parts.at))
        }
        None if written.limit.key.is_present() => return None,
        None => None,
    };
    queue::nodes(key, &written.limit.own.networks("networks"), faults)
}

/// The parts of a list; `None` when it is absent or has faults, which have been told.
fn parts(field: &Field<OneOrMany<LimitKey>>, faults: &mut Faults) -> Option<Parts> {
    let at = field.get()?;
    let OneOrMany(List { items, bad }) = &at.value;
    if *bad {
        return None;
    }
    if items.is_empty() {
        faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, at.span, "the key has no part").label("needs one, such as client_ip"),
        );
        return None;
    }
    let mut found = Parts { parts: Vec::with_capacity(items.len()), origin: false, at: at.span };
    for item in items {
        match &item.value {
            LimitKey::Part(part) => found.parts.push(part.clone()),
            LimitKey::Origin if found.origin => {
                faults.push(no_key(at.span, "found origin twice; write it once"));
                return None;
            }
            LimitKey::Origin => found.origin = true,
        }
    }
    if items.len() > MAX_PARTS {
        faults.push(no_key(at.span, &KeyFault::TooMany.to_string()));
        return None;
    }
    Some(found)
}

fn without_origin(parts: Parts, message: &str, faults: &mut Faults) -> Option<Parts> {
    if !parts.origin {
        return Some(parts);
    }
    faults.push(
        Diagnostic::error(Code::KEY_NOT_AVAILABLE, parts.at, message)
            .label("belongs to the `key` of a limit")
            .help("`route` is nearest: a route has one origin"),
    );
    None
}

fn no_key(at: Span, why: &str) -> Diagnostic {
    Diagnostic::error(Code::BAD_KEY, at, "these parts make no key").label(why)
}

fn spec(parts: Vec<KeyPart>, at: Span, missing: Option<Missing>, faults: &mut Faults) -> Option<KeySpec> {
    KeySpec::new(parts, missing).map_err(|fault| faults.push(no_key(at, &fault.to_string()))).ok()
}

/// What happens without the part `lacking`, and the limit that is asked instead. `lacking` is `None` when nothing can be
/// missing; then `missing` is out of place.
fn missing(
    written: &Written<'_>,
    lacking: Option<(KeyPart, Span)>,
    faults: &mut Faults,
) -> Option<(Option<Missing>, Option<At<Name>>)> {
    let field = &written.limit.missing;
    let Some((part, at)) = lacking else {
        out_of_place(
            field,
            "`missing` beside a key that every request has",
            "remove it: only headers, cookies, parameters and `tls_sni` can be missing",
            faults,
        );
        return Some((None, None));
    };
    match field.value() {
        Some(Either::Short(missing)) => Some((Some(*missing), None)),
        Some(Either::Long(other)) => Some((Some(Missing::Allow), Some(other.r#use.get()?.clone()))),
        // its own fault has been told
        None if field.is_present() => None,
        None => {
            let part = if part.can_be_missing() { part.to_string() } else { "the value of `of`".into() };
            faults.push(
                Diagnostic::error(
                    Code::NO_MISSING_RULE,
                    at,
                    format!("limit `{}` does not say what happens without {part}", written.name),
                )
                .label("a request may come without it")
                .help(
                    "add `missing: deny` (refuse it), `missing: allow` (do not count it) or `missing: { use: LIMIT }`",
                ),
            );
            None
        }
    }
}

fn of_span(written: &Written<'_>) -> Span {
    written.limit.own.field("of").get().map_or(written.at, |of| of.span)
}

fn of_can_be_missing(written: &Written<'_>) -> bool {
    written.form.takes("of") && has_missing_part(&written.limit.own.key("of"))
}

fn any_can_be_missing(written: &Written<'_>) -> bool {
    of_can_be_missing(written) || has_missing_part(&written.limit.key)
}

fn has_missing_part(field: &Field<OneOrMany<LimitKey>>) -> bool {
    let items = field.value().into_iter().flat_map(|OneOrMany(list)| &list.items);
    items.into_iter().any(|item| matches!(&item.value, LimitKey::Part(part) if part.can_be_missing()))
}
