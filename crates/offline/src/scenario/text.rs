//! The answer that a client gets: the origin's fields after the operator's edits, and what is told of limits
//! and to pages of other sites.

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::answer::{RouteFields, cors};
use crate::engine::Decision;
use crate::policy::edit::Placeholder;
use crate::policy::{HeaderEdits, Policy, Route, Template};

/// The fields of an answer that passes, as the client gets them. `asked`: the fields of the request. `unix_nanos` is the
/// time of the case.
pub fn fields(
    headers: &HeaderMap,
    status: StatusCode,
    (decision, route): (&Decision, &Route),
    own: Option<&RouteFields>,
    asked: &HeaderMap,
    policy: &Policy,
    unix_nanos: u64,
) -> HeaderMap {
    let mut fields = headers.clone();
    edit(&mut fields, &route.response_headers, decision, route);
    if let Some(own) = own.and_then(RouteFields::cors) {
        cors::OWN.iter().for_each(|name| _ = fields.remove(name));
        let add = |name, value| {
            fields.append(name, value);
            Ok(())
        };
        let _: Result<(), std::convert::Infallible> = own.on_answer(cors::origin(asked), add);
    }
    if let Some(own) = own
        && !decision.readings.is_empty()
    {
        for (name, value) in own.on_answer(decision, policy, status, &fields, (unix_nanos, &mut BytesMut::new())) {
            fields.append(name, value);
        }
    }
    fields
}

/// The operator's edits of an answer.
fn edit(fields: &mut HeaderMap, edits: &HeaderEdits, decision: &Decision, route: &Route) {
    let fact = |placeholder: Placeholder, out: &mut String| {
        let client = decision.client.as_ref();
        match placeholder {
            Placeholder::ClientIp => out.extend(client.map(|client| client.address.to_string())),
            Placeholder::ClientPrefix => out.extend(client.map(|client| client.network.to_string())),
            Placeholder::RequestId => out.push_str(&decision.id.to_string()),
            Placeholder::Route => out.push_str(&route.name),
        }
    };
    for name in &edits.remove {
        fields.remove(name);
    }
    let values = |list: &[(HeaderName, Template)]| -> Vec<(HeaderName, HeaderValue)> {
        list.iter().filter_map(|(name, template)| Some((name.clone(), template.render(fact)?))).collect()
    };
    for (name, value) in values(&edits.set) {
        fields.insert(name, value);
    }
    for (name, value) in values(&edits.add) {
        fields.append(name, value);
    }
}
