//! A request without a body is judged before Pingora sees it.
//!
//! A refusal then costs a read, a verdict and a write: no session, no context, no task of its own. That is what a flood
//! consists of. What is admitted goes on to Pingora with its verdict, so that nothing is judged twice. Both ways decide from
//! the same bytes by the same engine; here only those fields are taken out of the head that a decision may read.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::{redirect, serialize};
use crate::answer::{self, Answer, Context, Form};
use crate::edge::common::Early;
use crate::edge::connection_info::ConnectionInfo;
use crate::engine::{Arrival, DecisionId, Judged, Refusal, Verdict};
use crate::proxy::context::RequestContext;
use crate::proxy::observe::{self, Ended};
use crate::proxy::settled;
use crate::request::Request;
use crate::running::process::Shared;
use crate::system::clock::{roll, wall_nanos};
use tidegate_http::authority::canonical_host;
use tidegate_http::head::Head;

/// Judges the request whose head stands at the front of `bytes`.
pub fn look(shared: &Shared, info: &ConnectionInfo, head: &Head, bytes: &[u8], stay: bool) -> Early {
    let Some((method, path, query)) = request_line(head, bytes) else { return Early::Pass(None) };
    let mut context = RequestContext::new(shared.installed(), shared.clock.now());
    context.listener = info.listener;
    context.conveyed = info.conveyed;
    let snapshot = context.installed.snapshot();
    let mut headers = fields(head, bytes, snapshot.fields().all());
    let client = snapshot.client(info.peer, &headers);
    settled::before_judging(&mut headers, snapshot, info.peer, info.identity()).ok();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = canonical_host(host);
    let request =
        Request { peer: info.peer, method: &method, host: &host, path, query, headers: &headers, tls_sni: info.sni() };
    if let Some(answer) = redirect::answer(shared, &context.installed, info.listener, &request) {
        let stay = stay && !shared.draining();
        return Early::Answer { bytes: send(shared, &context, &answer, &request, stay), stay };
    }
    let arrival = Arrival { id: DecisionId(roll()), at: context.started, dice: roll() };
    let judged = context.judged.insert(Judged::new(arrival));
    context.installed.snapshot().judge_into(&request, client, judged);
    let verdict = judged.decision.verdict;
    if verdict != Verdict::Admitted {
        observe::decided(shared, &context.installed, judged, &request, None);
    }
    match verdict {
        Verdict::Admitted => Early::Pass(Some(Box::new(context))),
        Verdict::Refused(refusal) => {
            context.note_refusal();
            let stay = stay && !shared.draining() && !context.closes();
            let bytes = refuse(shared, &context, refusal, &request, head, bytes, stay);
            Early::Answer { bytes, stay }
        }
    }
}

fn refuse(
    shared: &Shared,
    context: &RequestContext,
    refusal: Refusal,
    request: &Request<'_>,
    head: &Head,
    bytes: &[u8],
    stay: bool,
) -> Bytes {
    let decision = context.judged.as_ref().map(|judged| &judged.decision);
    if let Some(decision) = decision {
        context.installed.metrics().decision_over(decision, None, context.conveyed);
    }
    let asked = fields(head, bytes, &[header::ACCEPT, header::CONTENT_TYPE]);
    let answer = answer::refuse(
        refusal,
        &Context {
            policy: context.installed.snapshot().policy(),
            decision,
            fields: decision.and_then(|decision| context.installed.fields(decision.route?)),
            form: Form::of(request.method, &asked),
            wall_unix_nanos: wall_nanos(),
        },
    );
    send(shared, context, &answer, request, stay)
}

/// The answer in bytes; it has been told of as sent.
fn send(shared: &Shared, context: &RequestContext, answer: &Answer, request: &Request<'_>, stay: bool) -> Bytes {
    let host = request.headers.get(header::HOST).map_or(b"".as_slice(), |host| host.as_bytes());
    let end = Ended {
        protocol: "h1",
        method: request.method.as_str(),
        host,
        path: request.path.as_bytes(),
        status: answer.status.as_u16(),
        bytes_out: answer.body.len() as u64,
        head_fault: None,
    };
    observe::done(shared, context, &end);
    serialize::bytes(answer, stay)
}

/// Method, path and query, the latter two in their canonical form.
fn request_line<'a>(head: &'a Head, bytes: &'a [u8]) -> Option<(Method, &'a str, Option<&'a str>)> {
    let method = Method::from_bytes(bytes.get(head.method.clone())?).ok()?;
    let target = match &head.canonical_target {
        Some(target) => target.as_str(),
        None => std::str::from_utf8(bytes.get(head.target.clone())?).ok()?,
    };
    Some(match target.split_once('?') {
        Some((path, query)) => (method, path, Some(query)),
        None => (method, target, None),
    })
}

/// The fields of these names, line by line. The head has been found valid, so a line is a name, a colon and a value.
fn fields(head: &Head, bytes: &[u8], wanted: &[HeaderName]) -> HeaderMap {
    let mut found = HeaderMap::new();
    let lines = bytes.get(head.target.end..head.end).unwrap_or_default();
    for line in lines.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let Some(name) = wanted.iter().find(|wanted| wanted.as_str().as_bytes().eq_ignore_ascii_case(name)) else {
            continue;
        };
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let Ok(value) = HeaderValue::from_bytes(value) {
            found.append(name.clone(), value);
        }
    }
    found
}
