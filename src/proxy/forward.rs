//! Takes an admitted request to its origin: an address for each attempt, the head and the body as the origin gets them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::{Version, header};
use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use pingora::{Error, ErrorType};

use super::context::RequestContext;
use super::downstream::{self, Downstream, answer_due_in, connection_info, request_view};
use super::fields::Fields;
use super::request_view::{RequestHead as _, WholeHead as _};
use super::{abandoned, edits, room, timing};
use crate::answer::Fault;
use crate::origins::connector;
use crate::origins::ring::affinity_seed;
use crate::origins::way::Way;
use crate::policy::{Balance, Protocol};
use crate::running::process::Process;
use crate::sketch::KeyHash;

/// How long a body may pause before the client is taken to be gone or hostile, if the route does not say less.
const BODY_PAUSE: Duration = Duration::from_secs(30);

/// The edge gives a slow body up first, by the listener's settings; this catches only what the edge does not see.
const AFTER_GRACE: Duration = Duration::from_secs(10);

/// Says how long the client may take for the rest of the request, and what happens if it leaves.
pub fn begin(process: &Process, session: &mut impl Downstream, context: &mut RequestContext) {
    context.balance_key = balance_key(session, context).unwrap_or_default();
    if let Some(route) = context.route() {
        let listener = process.settings.listeners.get(context.listener);
        let grace = listener.map_or(Duration::ZERO, |listener| listener.request_body.grace);
        downstream::forwarded(session, route, BODY_PAUSE.max(grace + AFTER_GRACE));
    }
    abandoned::expect(session, context);
}

/// The key of an origin with `balance: hash`.
fn balance_key(session: &impl Downstream, context: &RequestContext) -> Option<KeyHash> {
    let Balance::Hash(key) = &context.origin()?.spec().balance else { return None };
    let client = context.evaluation.as_ref()?.decision.client?;
    let name = context.route().map_or("", |route| route.name.as_str());
    Some(key.hash(&request_view(session).request(), &client, name, &affinity_seed()).unwrap_or_default())
}

/// Where the next attempt goes, and how long each of its steps may take.
#[derive(Debug)]
pub struct Target {
    /// The way to the origin.
    pub way: Arc<Way>,
    /// The address.
    pub address: SocketAddr,
    /// Until a connection stands, TLS included.
    pub connect: Duration,
    /// For one read: the whole head of an answer, or a piece of its body.
    pub read: Duration,
    /// For one write.
    pub write: Duration,
    /// How long the connection is kept for another request.
    pub idle: Duration,
}

/// Chooses the address of the next attempt.
///
/// # Errors
/// The origin has none.
pub fn attempt(process: &Process, session: &impl Downstream, context: &mut RequestContext) -> pingora::Result<Target> {
    let (Some(origin), Some(route)) = (context.origin(), context.route()) else {
        return Err(Error::explain(ErrorType::InternalError, "a request without an origin was forwarded"));
    };
    let timeouts = route.timeouts;
    let way = Arc::clone(origin.way());
    let now = timing::stamp(process, context);
    if context.attempts == 0 {
        origin.begun();
    }
    let Some(attempt) = origin.choose(context.balance_key, &context.tried, now.unwrap_or(context.started)) else {
        context.fault = Some(Fault::NoOriginAddress);
        // it counts as one that the origin failed
        context.forwarded = context.forwarded.or(now);
        return Err(Error::explain(ErrorType::ConnectNoRoute, "no address of the origin is known"));
    };
    let address = attempt.address;
    context.address = Some(attempt.name());
    // the attempt before this one, if any, no longer counts
    context.attempt = Some(attempt);
    // no policy asks for a seventh
    let _ = context.tried.try_push(address);
    context.attempts += 1;
    // what came of the body is sent again, as far as it came
    context.body_bytes = 0;
    if context.forwarded.is_none() {
        context.forwarded = now;
    }
    let mut connect = timeouts.connect;
    if let Some((attempt, now)) = timeouts.r#try.zip(now) {
        let attempt = attempt.min(context.left(now));
        connect = connect.min(attempt);
        answer_due_in(session, attempt);
    }
    let read = timeouts.read.min(timeouts.request);
    Ok(Target { way, address, connect, read, write: timeouts.write, idle: timeouts.idle })
}

/// The target as Pingora needs it. `hop_by_hop`: whether the head has fields that concern the client's connection only.
pub fn peer(target: &Target, hop_by_hop: bool) -> Box<HttpPeer> {
    let mut peer = connector::peer(&target.way, target.address);
    peer.options.connection_timeout = Some(target.connect);
    peer.options.total_connection_timeout = Some(target.connect);
    peer.options.read_timeout = Some(target.read);
    peer.options.write_timeout = Some(target.write);
    peer.options.idle_timeout = Some(target.idle);
    if !hop_by_hop {
        // nothing to take out, as the head's strict parser has seen; looking for it again would cost 3 % of a request
        peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
    }
    Box::new(peer)
}

/// Makes the head that the origin gets. `memory` is for values of fields.
///
/// # Errors
/// As [`edits::towards_origin`].
pub fn head(
    session: &impl Downstream,
    upstream: &mut impl Fields,
    context: &mut RequestContext,
    memory: &mut BytesMut,
) -> pingora::Result<()> {
    // from here on the origin may act on it, whatever we hear from it; before, it cannot have
    context.sent();
    if session.head().version() == Version::HTTP_10 {
        // it does not wait for 100, and could not read it (RFC 9110 section 10.1.1)
        upstream.remove(&header::EXPECT);
    }
    let info = connection_info(session).map(AsRef::as_ref);
    edits::towards_origin(info, session.head().fields(), upstream, context, memory)
}

/// Counts a piece of the request's body, by its length. Returns how long to hold it back.
///
/// # Errors
/// The body is over the route's limit, or there is no room for it.
pub fn body(
    process: &Process,
    session: &impl Downstream,
    length: u64,
    context: &mut RequestContext,
) -> pingora::Result<Option<Duration>> {
    if session.was_upgraded() {
        // no body, but bytes all the same
        return Ok(context.carried(length, &process.clock));
    }
    room::for_upload(session, context, length)?;
    context.body_bytes += length;
    let limit = context.route().and_then(|route| route.body_limit);
    if limit.is_some_and(|limit| context.body_bytes > limit.0) {
        context.fault = Some(Fault::BodyTooLarge);
        return Err(Error::explain(ErrorType::HTTPStatus(413), "the body is over the route's limit").into_down());
    }
    Ok(context.uploaded(&process.clock))
}

/// The way to the origin, if HTTP/2 is spoken on it.
pub fn speaks_http2(context: &RequestContext) -> Option<&Way> {
    context.origin().map(|origin| &**origin.way()).filter(|way| way.protocol() == Protocol::Http2)
}
