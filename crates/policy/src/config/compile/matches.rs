//! `match`: what a route takes, and which routes hide others.

mod paths;

use std::collections::HashMap;

use http::{HeaderName, Method};

use super::checks::exactly_one;
use super::client_list::client_list;
use super::context::Context;
use crate::client::key::is_hop_by_hop;
use crate::client::values::is_blank;
use crate::config::fault::{Code, Diagnostic, Faults, Severity};
use crate::config::networks::clients;
use crate::config::pattern::{ExactText, HostPattern};
use crate::config::quoted::quoted;
use crate::config::read::{At, Field};
use crate::config::schema::{self, TextForm};
use crate::config::shape::{Either, Keyed, List, OneOrMany};
use crate::config::span::Span;
use crate::config::tree::Tree;
use crate::policy::ClientList;
use crate::policy::route::{HostMatch, Match, PathMatch, TextMatch, fold};

/// One alternative of a route, with its long form.
pub struct Alternative {
    /// Compiled.
    pub compiled: Match,
    /// As the effective configuration writes it.
    pub written: Tree,
    /// Where it stands.
    pub at: Span,
}

/// The alternatives of a route; `None` when one of them has faults. Empty means every request.
pub fn alternatives(field: &Field<OneOrMany<schema::Match>>, context: &mut Context<'_>) -> Option<Vec<Alternative>> {
    let Some(at) = field.get() else { return if field.is_present() { None } else { Some(Vec::new()) } };
    let OneOrMany(List { items, bad }) = &at.value;
    if items.is_empty() && !bad {
        context.faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, at.span, "a route that takes nothing")
                .label("needs an alternative")
                .help("remove `match` to take every request"),
        );
        return None;
    }
    let before = context.faults.errors();
    let alternatives = items.iter().map(|item| alternative(item, context)).collect();
    // a part that could not be read would make its match look like a wider one
    let whole = !bad && items.iter().all(|item| is_whole(&item.value));
    (whole && context.faults.errors() == before).then_some(alternatives)
}

/// Whether every part that was written could be read.
fn is_whole(written: &schema::Match) -> bool {
    fn read<T>(field: &Field<T>) -> bool {
        field.is_present() == field.get().is_some()
    }
    fn list<T>(field: &Field<OneOrMany<T>>) -> bool {
        field.value().is_none_or(|OneOrMany(list)| !list.bad)
    }
    fn map<K, V>(field: &Field<Keyed<K, V>>) -> bool {
        field.value().is_none_or(|map| map.0.iter().all(|entry| entry.key.is_some() && entry.value.is_some()))
    }
    let forms = written.path.value().is_none_or(|path| match path {
        Either::Short(_) => true,
        Either::Long(form) => {
            read(&form.exact) && read(&form.prefix) && read(&form.regex) && read(&form.ignore) && list(&form.ignore)
        }
    });
    let clients = written.client.value().is_none_or(|OneOrMany(list)| {
        list.items.iter().all(|item| match &item.value {
            Either::Short(_) => true,
            Either::Long(source) => read(&source.preset) && read(&source.file),
        })
    });
    let fields = read(&written.host) && read(&written.path) && read(&written.method) && read(&written.client);
    forms
        && fields
        && clients
        && list(&written.client)
        && read(&written.headers)
        && read(&written.query)
        && list(&written.method)
        && map(&written.headers)
        && map(&written.query)
}

fn alternative(item: &At<schema::Match>, context: &mut Context<'_>) -> Alternative {
    let written = &item.value;
    let client = written.client.get().map(|at| client_list("`client`", &at.value.0, at.span, context));
    let faults = &mut *context.faults;
    let mut tree: Vec<(&str, Tree)> = Vec::new();
    let host = written.host.value().map_or(HostMatch::Any, |host| host.0.clone());
    if let Some(text) = HostPattern::text(&host) {
        tree.push(("host", Tree::text(text)));
    }
    let (path, ignore, path_tree) = paths::path(&written.path, faults);
    tree.extend(path_tree.map(|path| ("path", path)));
    let methods = methods(written, faults);
    if !methods.is_empty() {
        tree.push(("method", Tree::texts(&methods)));
    }
    let (headers, headers_tree) = headers(&written.headers, faults);
    for entry in written.headers.value().iter().flat_map(|map| &map.0) {
        if let Some(name) = &entry.key {
            check_sent_on(name, entry.key_span, faults);
        }
    }
    if !headers.is_empty() {
        tree.push(("headers", headers_tree));
    }
    let mut query = Vec::new();
    let mut query_tree = Vec::new();
    for entry in written.query.value().iter().flat_map(|map| &map.0) {
        if let Some(name) = entry.key.as_deref().filter(|name| is_blank(name)) {
            faults.push(
                Diagnostic::error(Code::BAD_TEXT, entry.key_span, format!("invalid parameter name {}", quoted(name)))
                    .label("blanks are no part of a name, and this one has nothing else")
                    .help("write the name as it stands in the URL, such as `token`"),
            );
        }
        if let (Some(name), Some(at)) = (&entry.key, &entry.value)
            && let Some((value, tree)) = text_match(at, faults)
        {
            query.push((name.clone(), value));
            query_tree.push((name.clone(), tree));
        }
    }
    if !query.is_empty() {
        tree.push(("query", Tree::Map(query_tree)));
    }
    tree.extend(client.as_deref().map(|client| ("client", clients(client))));
    Alternative {
        compiled: Match { host, path, ignore, methods, headers, query, client },
        written: Tree::map(tree),
        at: item.span,
    }
}

fn methods(written: &schema::Match, faults: &mut Faults) -> Vec<Method> {
    let Some(At { value: OneOrMany(list), span, .. }) = written.method.get() else { return Vec::new() };
    let mut methods = Vec::new();
    for item in &list.items {
        if !methods.contains(&item.value) {
            methods.push(item.value.clone());
        }
    }
    if list.items.is_empty() && !list.bad {
        faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, *span, "a list of no methods")
                .label("needs one")
                .help("leave it out to take any method"),
        );
    }
    methods
}

/// Reports a field that no origin gets as it was judged.
pub(super) fn check_sent_on(name: &HeaderName, at: Span, faults: &mut Faults) {
    if is_hop_by_hop(name) {
        faults.push(
            Diagnostic::error(Code::NOT_SENT_ON, at, format!("the field `{name}` never reaches an origin"))
                .label("concerns the client's connection only")
                .help("match by path, or by a field that travels with the request"),
        );
    }
}

type Headers = Vec<(HeaderName, TextMatch)>;

/// Fields by name, and their long forms; those that are here twice are told.
pub(super) fn headers(
    field: &Field<Keyed<HeaderName, Either<ExactText, TextForm>>>,
    faults: &mut Faults,
) -> (Headers, Tree) {
    let mut headers: Headers = Vec::new();
    let mut tree = Vec::new();
    for entry in field.value().iter().flat_map(|map| &map.0) {
        let (Some(name), Some(at)) = (&entry.key, &entry.value) else { continue };
        if headers.iter().any(|(known, _)| known == name) {
            faults.push(
                Diagnostic::error(Code::DUPLICATE_FIELD, entry.key_span, format!("the header `{name}` is here twice"))
                    .label("header names have no case"),
            );
        }
        if let Some((value, text)) = text_match(at, faults) {
            headers.push((name.clone(), value));
            tree.push((name.to_string(), text));
        }
    }
    (headers, Tree::Map(tree))
}

fn text_match(at: &At<Either<ExactText, TextForm>>, faults: &mut Faults) -> Option<(TextMatch, Tree)> {
    let exact = |text: &str| (TextMatch::Exact(text.to_owned()), Tree::map([("exact", Tree::text(text))]));
    match &at.value {
        Either::Short(ExactText(TextMatch::Exact(text))) => Some(exact(text)),
        Either::Short(ExactText(TextMatch::Regex(_))) => None,
        Either::Long(form) => {
            if !exactly_one(&[("exact", form.exact.key()), ("regex", form.regex.key())], at.span, faults) {
                return None;
            }
            match (form.exact.value(), form.regex.value()) {
                (Some(text), _) => Some(exact(text)),
                (_, Some(expression)) => Some((
                    TextMatch::Regex(expression.regex.clone()),
                    Tree::map([("regex", Tree::text(&expression.text))]),
                )),
                _ => None,
            }
        }
    }
}

/// What earlier routes take, to find those that are never reached.
#[derive(Default)]
pub struct Taken {
    seen: HashMap<String, Earlier>,
}

#[derive(Default)]
struct Earlier {
    any: Option<Place>,
    methods: HashMap<Method, Place>,
}

#[derive(Clone)]
struct Place {
    route: usize,
    name: String,
    at: Span,
}

impl Taken {
    /// Adds a route in file order; reports it when earlier routes take all of its requests, because they match exactly
    /// the same and so win by order.
    pub fn add(&mut self, route: usize, name: &str, at: Span, alternatives: &[Alternative], faults: &mut Faults) {
        let everything = Match {
            host: HostMatch::Any,
            path: PathMatch::Prefix(String::new()),
            ignore: None,
            methods: Vec::new(),
            headers: Vec::new(),
            query: Vec::new(),
            client: None,
        };
        // what cannot be read may ask for anything: it hides nothing, and nothing hides it
        let unknown = |fault: &Diagnostic| fault.code == Code::UNKNOWN_FIELD;
        if alternatives.is_empty() && faults.within(at, unknown) {
            return;
        }
        let is_error = |fault: &Diagnostic| fault.severity() == Severity::Error;
        let list: Vec<(&Match, Span)> = if alternatives.is_empty() {
            vec![(&everything, at)]
        } else {
            alternatives.iter().map(|alternative| (&alternative.compiled, alternative.at)).collect()
        };
        let mut hidden: Vec<(Span, Place)> = Vec::new();
        for (found, at) in list.iter().filter(|(_, at)| alternatives.is_empty() || !faults.within(*at, is_error)) {
            let place = Place { route, name: name.to_owned(), at: *at };
            let earlier = self.seen.entry(likeness(found)).or_default();
            let taken = if found.methods.is_empty() {
                earlier.any.clone()
            } else {
                let by: Vec<_> = found.methods.iter().map(|method| earlier.methods.get(method).cloned()).collect();
                by.iter().all(Option::is_some).then(|| by.into_iter().flatten().next()).flatten()
            };
            hidden.extend(taken.map(|taken| (*at, taken)));
            if found.methods.is_empty() {
                earlier.any.get_or_insert(place);
            } else {
                for method in &found.methods {
                    earlier.methods.entry(method.clone()).or_insert_with(|| place.clone());
                }
            }
        }
        let all = hidden.len() == list.len() && hidden.iter().all(|(_, taken)| taken.route != route);
        if let (true, Some((_, taken))) = (all, hidden.first()) {
            faults.push(
                Diagnostic::error(Code::UNREACHABLE_ROUTE, at, format!("the route {} is never reached", quoted(name)))
                    .label("no request comes here")
                    .related(taken.at, format!("`{}` takes exactly the same requests, and stands first", taken.name))
                    .help("remove one of the two, or make this one more specific"),
            );
            return;
        }
        for (at, taken) in hidden {
            faults.push(
                Diagnostic::new(Code::HIDDEN_MATCH, at, "this match is never reached")
                    .label("no request comes here")
                    .related(taken.at, format!("`{}` takes exactly the same requests, and stands first", taken.name)),
            );
        }
    }
}

/// A text that two matches share exactly when they take the same requests but for their methods.
fn likeness(found: &Match) -> String {
    let value = |value: &TextMatch| match value {
        TextMatch::Exact(text) => format!("={text:?}"),
        TextMatch::Regex(regex) => format!("~{:?}", regex.as_str()),
    };
    let mut headers: Vec<String> = found.headers.iter().map(|(name, text)| format!("{name}{}", value(text))).collect();
    headers.sort_unstable();
    let mut query: Vec<String> = found.query.iter().map(|(name, text)| format!("{name:?}{}", value(text))).collect();
    query.sort_unstable();
    let ignore = found.ignore.unwrap_or_default();
    let as_asked = |path: &str| fold::pattern(path, ignore).map_or_else(|| path.to_owned(), String::from);
    let path = match &found.path {
        PathMatch::Exact(path) => format!("={} {ignore:?}", as_asked(path)),
        PathMatch::Prefix(path) if path.is_empty() => "^".to_owned(),
        PathMatch::Prefix(path) => format!("^{} {ignore:?}", as_asked(path)),
        PathMatch::Regex(regex) => format!("~{}", regex.as_str()),
    };
    // files by their names: their content may change
    let client = found.client.as_deref().map(ClientList::written);
    format!("{:?} {path:?} {headers:?} {query:?} {client:?}", found.host)
}
