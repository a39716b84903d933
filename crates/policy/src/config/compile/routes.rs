//! `routes`: what each takes, which limits it asks, and what becomes of admitted requests.

use std::collections::{HashMap, HashSet};

use bytes::Bytes as Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::client_list::deny;
use super::context::Context;
use super::cors::cors;
use super::defaults::Defaults;
use super::limits::Limits;
use super::matches::{self, Taken};
use super::origins::Origins;
use super::own_fields::is_of_the_connection;
use super::responses;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::limit_text::LimitText;
use crate::config::quoted::quoted;
use crate::config::read::{At, Field, Scalar, invalid};
use crate::config::schema::{self, File, Respond};
use crate::config::setting::over;
use crate::config::shape::{Keyed, OneOrMany};
use crate::config::span::Span;
use crate::config::text::TemplateText;
use crate::config::tree::Tree;
use crate::policy::route::{Action, FixedAnswer, HostMatch, Match, PathMatch};
use crate::policy::{HeaderEdits, Route, Template};
use tidegate_http::authority::host_name;

/// What of a route only its text still tells: the long forms of its matches and header edits.
#[derive(Debug, Clone)]
pub struct WrittenRoute {
    /// One per alternative.
    pub matches: Vec<Tree>,
    /// `request_headers`.
    pub request_headers: Tree,
    /// `response_headers`.
    pub response_headers: Tree,
    /// Where it begins.
    pub at: Span,
    /// Where each alternative stands.
    pub alternatives: Vec<Span>,
}

/// All routes in file order; those with faults may be missing.
pub fn routes(
    file: &File,
    defaults: &Defaults,
    limits: &mut Limits,
    origins: &mut Origins,
    context: &mut Context<'_>,
) -> Vec<(Route, WrittenRoute)> {
    let list = file.routes.value();
    let nothing = list.is_none_or(|list| list.items.is_empty() && !list.bad);
    if nothing && (!file.routes.is_present() || list.is_some()) {
        let at = file.routes.key().unwrap_or(context.start);
        context.faults.push(
            Diagnostic::error(Code::NOTHING_SERVED, at, "there are no routes")
                .label("needs one or more")
                .help("the smallest is `routes: [{ origin: \"127.0.0.1:3000\" }]`"),
        );
    }
    let mut names = Names::of(list.iter().flat_map(|list| &list.items), context.faults);
    let mut taken = Taken::default();
    let mut routes = Vec::new();
    for (nth, at) in list.iter().flat_map(|list| &list.items).enumerate() {
        let found = matches::alternatives(&at.value.r#match, context);
        let first = found.as_ref().and_then(|found| found.first()).map(|found| &found.compiled);
        let name = names.name(at, first);
        if let Some(found) = &found {
            let place = at.value.r#match.get().map_or(at.span, |found| found.span);
            taken.add(nth, &name, place, found, context.faults);
        }
        let rules = rules(&name, &at.value, limits, context.faults);
        let action = action(at, origins, defaults, context.faults);
        let (request_headers, request_tree) = edits(&at.value.request_headers, context.faults);
        host(&at.value.request_headers, context.faults);
        let (response_headers, response_tree) = edits(&at.value.response_headers, context.faults);
        let cors = cors(&at.value.cors, &response_headers, context.faults);
        let own = at.value.responses.value().cloned().unwrap_or_default();
        let limited = responses::refusal(&own.limited, context);
        let overloaded = responses::refusal(&own.overloaded, context);
        let deny = deny(&at.value.deny, context);
        let (action, above) = action.unwrap_or_else(|| (stand_in(), defaults.timeouts));
        let found = found.unwrap_or_default();
        let alternatives = found.iter().map(|found| found.at).collect();
        let (compiled, written) = found.into_iter().map(|found| (found.compiled, found.written)).unzip();
        let route = Route {
            name,
            matches: compiled,
            rules,
            action,
            request_headers,
            response_headers,
            cors,
            limited,
            overloaded,
            body_limit: at.value.body_limit.value().map_or(defaults.body_limit, |limit| limit.0),
            timeouts: over(&at.value.timeouts, &above),
            criticality: at.value.criticality(),
            deny,
        };
        let trees = WrittenRoute {
            matches: written,
            request_headers: request_tree,
            response_headers: response_tree,
            at: at.span,
            alternatives,
        };
        routes.push((route, trees));
    }
    routes
}

/// The names of routes, each unlike all others.
struct Names {
    given: HashSet<String>,
    /// The next number of names that several routes would have: a thousand equal routes are named in a thousand steps.
    next: HashMap<String, usize>,
}

impl Names {
    /// The names that routes say themselves.
    fn of<'a>(routes: impl Iterator<Item = &'a At<schema::Route>>, faults: &mut Faults) -> Names {
        let mut said: HashMap<&str, Span> = HashMap::new();
        for name in routes.filter_map(|at| at.value.name.get()) {
            let span = name.span;
            let name = name.value.0.as_str();
            if let Some(first) = said.get(name) {
                faults.push(
                    Diagnostic::error(Code::DUPLICATE_NAME, span, format!("the route {} is here twice", quoted(name)))
                        .label("a second time")
                        .related(*first, "first here"),
                );
            } else {
                said.insert(name, span);
            }
        }
        Names { given: said.into_keys().map(str::to_owned).collect(), next: HashMap::new() }
    }

    /// The name of the route: its own, or one by what it takes, so that counts follow it where routes come and go before it.
    fn name(&mut self, at: &At<schema::Route>, first: Option<&Match>) -> String {
        if let Some(own) = at.value.name.get() {
            return own.value.0.clone();
        }
        let base = first.and_then(by_match).unwrap_or_else(|| "all".to_owned());
        let next = self.next.entry(base.clone()).or_default();
        loop {
            *next += 1;
            let name = if *next == 1 { base.clone() } else { format!("{base}_{next}") };
            if self.given.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// The path as a name, or the host, or the methods; `None` where none of them says anything.
fn by_match(found: &Match) -> Option<String> {
    /// Leaves room for a number and the words of limits.
    const MOST: usize = 24;
    let path = match &found.path {
        PathMatch::Exact(path) | PathMatch::Prefix(path) => path.as_str(),
        // without what makes it match the whole path
        PathMatch::Regex(expression) => expression.as_str().trim_start_matches(r"\A").trim_end_matches(r"\z"),
    };
    let host = match &found.host {
        HostMatch::Exact(host) | HostMatch::Suffix(host) => host.as_str(),
        HostMatch::Any => "",
    };
    let methods: Vec<&str> = found.methods.iter().map(Method::as_str).collect();
    let words = |text: &str| {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("_").to_ascii_lowercase()
    };
    let mut name = [words(path), words(host), words(&methods.join("_"))].into_iter().find(|name| !name.is_empty())?;
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        name.insert_str(0, "route_");
    }
    name.truncate(MOST);
    Some(name.trim_end_matches('_').to_owned())
}

/// Positions of the limits that a route asks.
fn rules(route: &str, written: &schema::Route, limits: &mut Limits, faults: &mut Faults) -> Vec<usize> {
    let mut rules: Vec<(usize, Span)> = Vec::new();
    if let Some(text) = written.limit.get() {
        rules.extend(limits.inline(route, text, faults).map(|rule| (rule, text.span)));
    }
    for item in written.limits.value().iter().flat_map(|list| &list.items) {
        let rule = if item.value.contains(['/', ' ']) {
            match LimitText::parse(&item.value) {
                Ok(text) => limits.inline(route, &item.with(text), faults),
                Err(wrong) => {
                    faults.push(invalid::<LimitText>(wrong, item.span, &item.shown, item.masked));
                    None
                }
            }
        } else {
            limits.find("route", item, faults)
        };
        let Some(rule) = rule else { continue };
        if let Some((_, first)) = rules.iter().find(|(known, _)| *known == rule) {
            faults.push(
                Diagnostic::error(Code::DUPLICATE_NAME, item.span, format!("the limit {} is here twice", item.shown))
                    .label("would be charged twice")
                    .related(*first, "first here"),
            );
        }
        rules.push((rule, item.span));
    }
    let at = written.inflight.get().map(|inflight| inflight.span).unwrap_or_default();
    rules.extend(limits.route_inflight(route, &written.inflight, faults).map(|rule| (rule, at)));
    if let Some((_, at)) = rules.get(Route::MAX_RULES) {
        faults.push(
            Diagnostic::error(Code::TOO_MANY_LIMITS, *at, format!("{} limits on one route", rules.len()))
                .label(format!("allowed are {}", Route::MAX_RULES)),
        );
    }
    let mut shares = rules.iter().filter(|(rule, _)| limits.has_nodes(*rule));
    if let (Some((_, first)), Some((rule, second))) = (shares.next(), shares.next()) {
        let word = limits.rule(*rule).map_or("", |rule| rule.kind.word());
        faults.push(
            Diagnostic::error(Code::TOO_MANY_LIMITS, *second, format!("two limits of type `{word}` on one route"))
                .label("allowed is one")
                .related(*first, "the other"),
        );
    }
    rules.into_iter().map(|(rule, _)| rule).collect()
}

/// Where admitted requests go, and the timeouts that the route's own are put over.
fn action(
    at: &At<schema::Route>,
    origins: &mut Origins,
    defaults: &Defaults,
    faults: &mut Faults,
) -> Option<(Action, crate::policy::Timeouts)> {
    let route = &at.value;
    match (route.origin.key(), route.respond.key()) {
        (Some(origin), Some(respond)) => {
            faults.push(
                Diagnostic::error(Code::NO_ACTION, respond, "both `origin` and `respond`")
                    .label("a route does one thing")
                    .related(origin, "the other"),
            );
            None
        }
        (None, None) => {
            faults.push(
                Diagnostic::error(Code::NO_ACTION, at.span, "a route that does nothing")
                    .label("needs `origin` or `respond`"),
            );
            None
        }
        (Some(_), None) => {
            let (origin, timeouts) = origins.find(route.origin.get()?, faults)?;
            Some((Action::Forward(origin), timeouts))
        }
        (None, Some(_)) => {
            let answer = respond(route.respond.value()?, faults);
            Some((Action::Respond(answer), defaults.timeouts))
        }
    }
}

/// Stands in for an action with faults; never served.
fn stand_in() -> Action {
    Action::Respond(FixedAnswer {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        body: Body::new(),
        headers: HeaderMap::new(),
    })
}

fn respond(respond: &Respond, faults: &mut Faults) -> FixedAnswer {
    let status =
        u16::try_from(respond.status()).ok().and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or_default();
    let body = Body::from(respond.body.value().cloned().unwrap_or_default());
    if let (false, true, Some(at)) = (body.is_empty(), matches!(status.as_u16(), 204 | 205 | 304), respond.body.get()) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, format!("a body with status {}", status.as_u16()))
                .label("answers of this status have none"),
        );
    }
    let mut headers = HeaderMap::new();
    if let Some(kind) = respond.content_type.value() {
        headers.insert(header::CONTENT_TYPE, kind.0.clone());
    } else if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    let mut seen: Vec<&HeaderName> = Vec::new();
    for entry in respond.headers.value().iter().flat_map(|map| &map.0) {
        let (Some(name), Some(values)) = (&entry.key, &entry.value) else { continue };
        if seen.contains(&name) {
            faults.push(twice(name, entry.key_span));
        }
        seen.push(name);
        if *name == header::CONTENT_TYPE {
            faults.push(
                Diagnostic::error(Code::CONFLICT, entry.key_span, "`content-type` among the headers")
                    .help("write it as `content_type`, beside `status`"),
            );
        }
        framing(name, entry.key_span, faults);
        let OneOrMany(list) = &values.value;
        for value in &list.items {
            headers.append(name.clone(), value.value.0.clone());
        }
    }
    FixedAnswer { status, body, headers }
}

fn edits(field: &Field<schema::HeaderEdits>, faults: &mut Faults) -> (HeaderEdits, Tree) {
    let Some(written) = field.value() else { return (HeaderEdits::default(), Tree::Map(Vec::new())) };
    let mut edits = HeaderEdits::default();
    let mut tree = Vec::new();
    for item in written.remove.value().iter().flat_map(|list| &list.items) {
        framing(&item.value, item.span, faults);
        if edits.remove.contains(&item.value) {
            faults.push(twice(&item.value, item.span));
        }
        edits.remove.push(item.value.clone());
    }
    if !edits.remove.is_empty() {
        tree.push(("remove", Tree::texts(&edits.remove)));
    }
    let one = |at: &At<TemplateText>| vec![at.value.clone()];
    let set = values(&written.set, one, faults);
    if !set.is_empty() {
        tree.push(("set", Tree::map(set.iter().map(|(name, value)| (name.as_str(), Tree::text(&value.text))))));
    }
    edits.set = templates(set);
    let many = |at: &At<OneOrMany<TemplateText>>| at.value.0.items.iter().map(|item| item.value.clone()).collect();
    let add = values(&written.add, many, faults);
    let mut lines: Vec<(String, Vec<Tree>)> = Vec::new();
    for (name, value) in &add {
        match lines.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, values)) => values.push(Tree::text(&value.text)),
            None => lines.push((name.to_string(), vec![Tree::text(&value.text)])),
        }
    }
    if !lines.is_empty() {
        tree.push(("add", Tree::map(lines.into_iter().map(|(name, values)| (name, Tree::List(values))))));
    }
    edits.add = templates(add);
    (edits, Tree::map(tree))
}

/// Whether each request still has one `Host`, and one that is a host.
fn host(field: &Field<schema::HeaderEdits>, faults: &mut Faults) {
    let Some(written) = field.value() else { return };
    let mut refuse = |at: Span, label: &str| {
        faults.push(
            Diagnostic::error(Code::BAD_HEADER, at, "every request has one `host`")
                .label(label)
                .help("write `set: { host: NAME }` for another one"),
        );
    };
    for item in written.remove.value().iter().flat_map(|list| &list.items) {
        if item.value == header::HOST {
            refuse(item.span, "cannot be removed");
        }
    }
    for entry in written.add.value().iter().flat_map(|map| &map.0) {
        if entry.key == Some(header::HOST) {
            refuse(entry.key_span, "would be a second one");
        }
    }
    for entry in written.set.value().iter().flat_map(|map| &map.0) {
        let (Some(name), Some(value)) = (&entry.key, &entry.value) else { continue };
        let text = &value.value.text;
        // what placeholders become is known only with the request
        let is_bad = !text.contains('{') && (text.is_empty() || host_name(text.as_bytes()).is_none());
        if *name == header::HOST && is_bad {
            refuse(value.span, "must be a host, with or without a port");
        }
    }
}

/// The fields of `set` or `add`, one entry per line.
fn values<V>(
    field: &Field<Keyed<HeaderName, V>>,
    lines: impl Fn(&At<V>) -> Vec<TemplateText>,
    faults: &mut Faults,
) -> Vec<(HeaderName, TemplateText)> {
    let mut found: Vec<(HeaderName, TemplateText)> = Vec::new();
    for entry in field.value().iter().flat_map(|map| &map.0) {
        let (Some(name), Some(at)) = (&entry.key, &entry.value) else { continue };
        framing(name, entry.key_span, faults);
        if found.iter().any(|(known, _)| known == name) {
            faults.push(twice(name, entry.key_span));
        }
        found.extend(lines(at).into_iter().map(|value| (name.clone(), value)));
    }
    found
}

fn templates(values: Vec<(HeaderName, TemplateText)>) -> Vec<(HeaderName, Template)> {
    values.into_iter().map(|(name, value)| (name, value.template)).collect()
}

fn twice(name: &HeaderName, at: Span) -> Diagnostic {
    Diagnostic::error(Code::DUPLICATE_FIELD, at, format!("the header `{name}` is here twice"))
        .label("header names have no case")
}

fn framing(name: &HeaderName, at: Span, faults: &mut Faults) {
    if is_of_the_connection(name) {
        faults.push(
            Diagnostic::error(Code::BAD_HEADER, at, format!("the header `{name}` belongs to the connection"))
                .label("cannot be edited"),
        );
    }
}

/// Checks that the names that are made up here are names.
#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::load_text;
    use crate::config::text::Name;

    fn names(routes: &[&str]) -> Vec<String> {
        let routes: String = routes.iter().map(|route| format!("  - {{ {route}origin: 'a:1' }}\n")).collect();
        let loaded =
            load_text("tidegate.yaml", &format!("listen: ':8080'\nroutes:\n{routes}"), &|_| None, Path::new("."));
        let Ok(config) = loaded.outcome else { panic!("{:?}", loaded.diagnostics) };
        config.policy.routes.iter().map(|route| route.name.clone()).collect()
    }

    #[test]
    fn a_route_without_a_name_gets_one_that_could_have_been_written() {
        let long = format!("match: {{ path: /{} }}, ", "long/".repeat(20));
        let routes = [
            "name: login, match: { path: /a }, ",
            "match: { path: /login }, ",
            "match: { path: { exact: /API/v1/Items } }, ",
            "match: { host: '*.example.com' }, ",
            "match: { path: /2fa }, ",
            &long,
            "match: { path: { regex: '/x[0-9]' } }, ",
            "match: { method: POST }, ",
            "",
            "match: { path: { regex: '/.*' } }, ",
        ];
        let named = names(&routes);
        assert_eq!(
            named,
            [
                "login",
                "login_2",
                "api_v1_items",
                "example_com",
                "route_2fa",
                "long_long_long_long_long",
                "x_0_9",
                "post",
                "all",
                "all_2"
            ]
        );
        assert!(named.iter().all(|name| Name::parse(name).is_ok()));
    }

    #[test]
    fn names_stay_where_others_come_before_them() {
        let before = names(&["match: { path: /login }, "]);
        let behind = names(&[
            "match: { path: /new }, ",
            "match: { host: b.test, path: /login/x }, ",
            "match: { path: /login }, ",
        ]);
        assert_eq!(before.first(), behind.last());
    }
}
