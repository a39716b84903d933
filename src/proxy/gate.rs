//! Pingora's phases, a few lines each: facts → judge → admission → forward → answer.
//!
//! The order of a request, as Pingora calls it: [`Gate::new_ctx`], [`Gate::request_filter`] (decides; refusals and fixed answers
//! end here), [`Gate::upstream_peer`] once per attempt, [`Gate::upstream_request_filter`] (what the origin sees),
//! [`Gate::request_body_filter`] per piece of body, [`Gate::response_filter`] (what the client sees), [`Gate::fail_to_proxy`]
//! when it went wrong, and in every case [`Gate::logging`].

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use pingora::{Error, ErrorType};

use super::abandoned;
use super::admission::{self, Admission};
use super::attempts;
use super::blame::{counts_as_an_attempt, fault_of};
use super::context::RequestContext;
use super::downstream::{self, answer_due_in, connection_info, edge_stream, is_gone, leave, over_limit};
use super::edits;
use super::observe::{self, Ended};
use super::reply;
use super::request_view::RequestView;
use super::room;
use super::settled;
use super::timing;
use crate::answer::{Answer, Fault};
use crate::engine::{Arrival, DecisionId, Judged, Verdict};
use crate::origins::ring::affinity_seed;
use crate::origins::way::Way;
use crate::origins::{connector, http2};
use crate::policy::{Action, Balance, Protocol, Route};
use crate::proxy::redirect;
use crate::running::process::Shared;
use crate::system::cause::cause_of;
use crate::system::clock::roll;
use crate::units::Timestamp;
use tidegate_http::fault::AnswerFault;

/// How long a body may pause before the client is taken to be gone or hostile, if the route does not say less.
const BODY_PAUSE: Duration = Duration::from_secs(30);

/// The connection layer gives a slow body up first, by the operator's own words; this only catches what it does not see.
const AFTER_GRACE: Duration = Duration::from_secs(10);

/// The proxy.
pub struct Gate {
    shared: Arc<Shared>,
}

impl Gate {
    /// A gate over what all connections share.
    pub fn new(shared: Arc<Shared>) -> Gate {
        Gate { shared }
    }

    /// Finds the verdict, unless that was done before, and charges if it is yes. What is still to do is said by the return
    /// value.
    async fn decide(&self, session: &mut Session, context: &mut RequestContext) -> pingora::Result<Next> {
        let installed = Arc::clone(&context.installed);
        let snapshot = installed.snapshot();
        let client = settled::session(session, snapshot, context.judged.is_none())?;
        if context.judged.is_none() {
            context.started = self.shared.clock.now();
            let info = connection_info(session);
            context.listener = info.map_or(0, |info| info.listener);
            context.conveyed = info.is_some_and(|info| info.conveyed);
            let arrival = Arrival { id: DecisionId(roll()), at: context.started, dice: roll() };
            let judged = context.judged.insert(Judged::new(arrival));
            snapshot.judge_into(
                &RequestView::read(connection_info(session), session.req_header()).request(),
                client,
                judged,
            );
        }
        let Some(judged) = &context.judged else { return Ok(Next::Refuse) };
        let route = judged.decision.route.and_then(|index| snapshot.policy().routes.route(index));
        let origin = match route.map(|route| &route.action) {
            Some(Action::Forward(origin)) => installed.origin(*origin),
            _ => None,
        };
        if let (Some(origin), Some(client)) = (origin, &judged.decision.client)
            && let Balance::Hash(key) = &origin.spec().balance
        {
            let name = route.map_or("", |route| route.name.as_str());
            let facts = RequestView::read(connection_info(session), session.req_header());
            context.balance_key = key.hash(&facts.request(), client, name, &affinity_seed()).unwrap_or_default();
        }
        let Admission { contended, silence, gone } = admission::admit(&self.shared, session, context).await;
        let Some(judged) = &context.judged else { return Ok(Next::Refuse) };
        installed.metrics().decision_over(&judged.decision, contended, context.conveyed);
        observe::decided_about(&self.shared, &installed, judged, session, silence);
        context.counts_bytes = snapshot.counts_bytes(judged);
        let verdict = judged.decision.verdict;
        if let Some(gone) = gone {
            return Err(gone);
        }
        Ok(match (verdict, route) {
            (Verdict::Admitted, Some(route)) if over_limit(session.req_header(), route) => {
                Next::Fault(Fault::BodyTooLarge)
            }
            (Verdict::Admitted, Some(Route { action: Action::Forward(_), .. })) => {
                if room::for_request(session).await {
                    Next::Forward
                } else {
                    Next::Fault(Fault::BuffersFull)
                }
            }
            (Verdict::Admitted, Some(Route { action: Action::Respond(_), .. })) => Next::Respond,
            _ => Next::Refuse,
        })
    }
}

impl Gate {
    /// The answer to a request whose listener serves nothing itself.
    fn redirect(&self, session: &Session, context: &mut RequestContext) -> Option<Answer> {
        let info = connection_info(session)?;
        // most listeners do not, and need no second reading of the head
        self.shared.settings.listeners.get(info.listener)?.redirect?;
        let request = RequestView::read(Some(info), session.req_header());
        let answer = redirect::answer(&self.shared, &context.installed, info.listener, &request.request())?;
        context.started = self.shared.clock.now();
        context.listener = info.listener;
        Some(answer)
    }
}

/// Holds a piece of a body back.
async fn pause(time: Option<Duration>) {
    if let Some(time) = time {
        tokio::time::sleep(time).await;
    }
}

/// Where the context lies between Pingora's phases. Empty until somebody asks, as most requests bring one along that was
/// begun before Pingora saw them; boxed, because Pingora moves its context about.
#[derive(Default)]
pub struct Slot(Option<Box<RequestContext>>);

impl Slot {
    fn context(&mut self, gate: &Gate) -> &mut RequestContext {
        self.0.get_or_insert_with(|| Box::new(RequestContext::new(gate.shared.installed(), Timestamp::ZERO)))
    }
}

/// What is to be done with a request whose verdict is known.
enum Next {
    Forward,
    Respond,
    Refuse,
    Fault(Fault),
}

#[async_trait]
impl ProxyHttp for Gate {
    type CTX = Slot;

    fn new_ctx(&self) -> Slot {
        Slot(None)
    }

    fn on_connection_reuse(&self, _session: &mut Session, slot: &mut Slot, known: Box<dyn Any + Send + Sync>) {
        // what the connection layer has found out about this very request, not about the one before
        slot.0 = known.downcast::<RequestContext>().ok();
    }

    fn init_downstream_modules(&self, _modules: &mut pingora::modules::http::HttpModules) {
        // the default is a compression module that is off: nothing to build per request
    }

    async fn request_filter(&self, session: &mut Session, slot: &mut Slot) -> pingora::Result<bool> {
        let context = slot.context(self);
        if let Some(answer) = self.redirect(session, context) {
            if self.shared.draining() {
                session.set_keepalive(None);
            }
            reply::send(session, answer).await?;
            return Ok(true);
        }
        let next = self.decide(session, context).await?;
        if self.shared.draining() {
            leave(session);
        }
        match next {
            Next::Forward => {
                if let Some(route) = context.route() {
                    let listener = self.shared.settings.listeners.get(context.listener);
                    let grace = listener.map_or(Duration::ZERO, |listener| listener.connections.request_body.grace);
                    downstream::forwarded(session, route, BODY_PAUSE.max(grace + AFTER_GRACE));
                }
                abandoned::expect(session, context);
                return Ok(false);
            }
            Next::Respond => reply::fixed(session, context, &self.shared.clock).await?,
            Next::Refuse => {
                context.note_refusal();
                if context.closes() {
                    leave(session);
                }
                if let Some(stream) = edge_stream(session) {
                    stream.note_refusal();
                }
                reply::refusal(session, context).await?;
            }
            Next::Fault(fault) => {
                context.fault = Some(fault);
                reply::fault(session, context, fault).await?;
            }
        }
        Ok(true)
    }

    async fn upstream_peer(&self, session: &mut Session, slot: &mut Slot) -> pingora::Result<Box<HttpPeer>> {
        let context = slot.context(self);
        let (Some(origin), Some(route)) = (context.origin(), context.route()) else {
            return Err(Error::explain(ErrorType::InternalError, "a request without an origin was forwarded"));
        };
        let timeouts = route.timeouts;
        let way = Arc::clone(origin.way());
        let now = timing::stamp(&self.shared, context);
        if context.attempts == 0 {
            origin.begun();
        }
        let Some(attempt) = origin.choose(context.balance_key, &context.tried, now.unwrap_or(context.started)) else {
            context.fault = Some(Fault::NoOriginAddress);
            return Err(Error::explain(ErrorType::ConnectNoRoute, "no address of the origin is known"));
        };
        let address = attempt.address;
        // the attempt before this one, if any, no longer counts
        context.attempt = Some(attempt);
        context.address = Some(address);
        // a seventh is not asked for, and would be tried like the others
        let _ = context.tried.try_push(address);
        context.attempts += 1;
        // what came of the body is sent again, as far as it came
        context.body_bytes = 0;
        if context.forwarded.is_none() {
            context.forwarded = now;
        }
        let mut connect = timeouts.connect;
        if let Some((attempt, now)) = timeouts.attempt.zip(now) {
            let attempt = attempt.min(context.left(now));
            connect = connect.min(attempt);
            answer_due_in(session, attempt);
        }
        let mut peer = connector::peer(&way, address);
        peer.options.connection_timeout = Some(connect);
        peer.options.total_connection_timeout = Some(connect);
        peer.options.read_timeout = Some(timeouts.read.min(timeouts.request));
        peer.options.write_timeout = Some(timeouts.write);
        peer.options.idle_timeout = Some(timeouts.idle);
        if edge_stream(session).is_some_and(|stream| !stream.has_hop_by_hop()) {
            // nothing to take out, as the head's strict parser has seen; looking for it again would cost 3 % of a request
            peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
        }
        Ok(Box::new(peer))
    }

    fn fail_to_connect(
        &self,
        session: &mut Session,
        _peer: &HttpPeer,
        slot: &mut Slot,
        mut e: Box<Error>,
    ) -> Box<Error> {
        let again = attempts::not_connected(slot.context(self), session, &e, &self.shared.clock);
        e.set_retry(again);
        e
    }

    fn error_while_proxy(
        &self,
        peer: &HttpPeer,
        session: &mut Session,
        e: Box<Error>,
        slot: &mut Slot,
        client_reused: bool,
    ) -> Box<Error> {
        let context = slot.context(self);
        let mut e = e.more_context(format!("Peer: {peer}"));
        e.retry.decide_reuse(client_reused);
        // a connection that was spoilt before anything was sent on it is as good as a closed one
        let stale = e.retry() || cause_of::<AnswerFault>(&e) == Some(AnswerFault::Unasked);
        let again = attempts::broke_off(context, session, &e, stale, &self.shared.clock);
        e.set_retry(again);
        e
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        upstream: &mut RequestHeader,
        slot: &mut Slot,
    ) -> pingora::Result<()> {
        let context = slot.context(self);
        // from here on the origin may act on it, whatever we hear from it; before, it cannot have
        context.sent();
        if upstream.version == Version::HTTP_2 && session.req_header().headers.contains_key(header::TE) {
            // taken out as if it concerned the connection; in HTTP/2 it says that trailers are welcome, and gRPC wants it
            upstream.insert_header(header::TE, "trailers")?;
        }
        edits::towards_origin(connection_info(session), &session.req_header().headers, upstream, context)?;
        if speaks_http2(context).is_some_and(Way::is_encrypted) {
            http2::say_https(upstream);
        }
        Ok(())
    }

    async fn request_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        _end_of_stream: bool,
        slot: &mut Slot,
    ) -> pingora::Result<()> {
        let context = slot.context(self);
        let length = body.as_ref().map_or(0, |piece| piece.len() as u64);
        if session.was_upgraded() {
            // no body, but bytes all the same
            pause(context.carried(length, &self.shared.clock)).await;
            return Ok(());
        }
        room::for_upload(session, context, length)?;
        context.body_bytes += length;
        let limit = context.route().and_then(|route| route.body_limit);
        if limit.is_some_and(|limit| context.body_bytes > limit.0) {
            context.fault = Some(Fault::BodyTooLarge);
            return Err(Error::explain(ErrorType::HTTPStatus(413), "the body is over the route's limit").into_down());
        }
        pause(context.uploaded(&self.shared.clock)).await;
        Ok(())
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        upstream: &mut ResponseHeader,
        slot: &mut Slot,
    ) -> pingora::Result<()> {
        let context = slot.context(self);
        if upstream.status == StatusCode::SWITCHING_PROTOCOLS && !session.as_downstream().is_upgrade_req() {
            // what follows it would be passed on as something that nobody asked for
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, "an unasked change of protocol").into_up());
        }
        if speaks_http2(context).is_some() {
            http2::judge(upstream).map_err(refused)?;
        }
        let switches = upstream.status == StatusCode::SWITCHING_PROTOCOLS;
        if upstream.status.is_informational() && !switches {
            return Ok(());
        }
        if !room::for_response(session, upstream).await {
            return Err(room::full(context));
        }
        context.answered = timing::stamp(&self.shared, context);
        attempts::answered(context, upstream.status.as_u16());
        context.settle(upstream.status, &upstream.headers, &self.shared.clock);
        if switches {
            if context.switch() {
                return Ok(());
            }
            // `fail_to_proxy` answers; the connection to the origin speaks another protocol by now and is dropped
            return Err(Error::explain(ErrorType::InternalError, "no room for another switched connection").into_in());
        }
        let longest = context.route().and_then(|route| route.timeouts.body);
        context.body_due = longest.map(|longest| self.shared.clock.now().after(longest));
        // ours, whatever the origin speaks (RFC 9110 section 2.5)
        upstream.set_version(Version::HTTP_11);
        edits::drop_hop_by_hop(upstream);
        if session.req_header().version == Version::HTTP_10 && upstream.headers.contains_key(header::TRANSFER_ENCODING)
        {
            // it knows no chunks: the end of the connection ends the body (RFC 9112 section 6.1)
            upstream.remove_header(&header::TRANSFER_ENCODING);
            session.set_keepalive(None);
        }
        edits::towards_client(upstream, context)
    }

    fn upstream_response_trailer_filter(
        &self,
        _session: &mut Session,
        trailers: &mut HeaderMap,
        _slot: &mut Slot,
    ) -> pingora::Result<()> {
        http2::judge_trailers(trailers).map_err(refused)
    }

    fn response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        _end_of_stream: bool,
        slot: &mut Slot,
    ) -> pingora::Result<Option<Duration>> {
        let length = body.as_ref().map_or(0, |piece| piece.len() as u64);
        let context = slot.context(self);
        room::for_answer(session, context, length)?;
        // an origin that drips a byte before every deadline for a read would hold its place for ever
        if context.body_due.is_some_and(|due| self.shared.clock.now() > due) {
            return Err(Error::explain(ErrorType::ReadTimedout, "the answer's body takes too long").into_up());
        }
        Ok(context.carried(length, &self.shared.clock))
    }

    async fn fail_to_proxy(&self, session: &mut Session, e: &Error, slot: &mut Slot) -> FailToProxy {
        let context = slot.context(self);
        if context.switch_refused {
            context.note_refusal();
            if let Some(judged) = &context.judged {
                observe::decided_about(&self.shared, &context.installed, judged, session, None);
            }
            context.release();
            session.set_keepalive(None);
            let _ = reply::refusal(session, context).await;
            let status = session.response_written().map_or(499, |head| head.status.as_u16());
            return FailToProxy { error_code: status, can_reuse_downstream: false };
        }
        let mut fault = context.fault.unwrap_or_else(|| fault_of(e));
        if fault == Fault::OriginTimeout && !session.as_downstream_mut().is_body_done() {
            // the origin waits for what the client does not send
            fault = Fault::ClientTimeout;
        }
        context.fault = Some(fault).filter(|fault| *fault != Fault::ClientGone || !downstream::has_switched(session));
        if !counts_as_an_attempt(fault) {
            context.origin_failed();
        }
        abandoned::keep_places(session, context, e, &self.shared.clock);
        // the attempt is over; whoever reads our answer and asks again at once must find the place free
        context.release();
        let begun = downstream::answer_head(session).is_some();
        // an error after this point closes the connection anyway; saying so spares the client a lost request on it
        session.set_keepalive(None);
        if fault != Fault::ClientGone && !begun {
            let _ = reply::fault(session, context, fault).await;
        }
        FailToProxy { error_code: fault.meaning().status.as_u16(), can_reuse_downstream: false }
    }

    fn suppress_error_log(&self, _session: &Session, _slot: &Slot, _error: &Error) -> bool {
        // the access log and the metrics have it; one error line per request would be the attacker's to write
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _slot: &Slot,
        _error: &Error,
        _context: pingora::proxy::ProxyWarnLogContext,
    ) -> bool {
        true
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        reused: bool,
        _peer: &HttpPeer,
        _fd: std::os::unix::io::RawFd,
        _digest: Option<&pingora::protocols::Digest>,
        slot: &mut Slot,
    ) -> pingora::Result<()> {
        let context = slot.context(self);
        observe::connected(context, reused);
        Ok(())
    }

    async fn logging(&self, session: &mut Session, _e: Option<&Error>, slot: &mut Slot) {
        let context = slot.context(self);
        if is_gone(session) {
            context.fault.get_or_insert(Fault::ClientGone);
        }
        attempts::ended(context, &self.shared.clock);
        context.release();
        if let Some(share) = downstream::share(session) {
            share.clear();
        }
        timing::tell_duration(&self.shared, context);
        observe::done(&self.shared, context, &Ended::of(session));
    }
}

/// The way to the origin, if HTTP/2 is spoken on it.
fn speaks_http2(context: &RequestContext) -> Option<&Way> {
    context.origin().map(|origin| &**origin.way()).filter(|way| way.protocol() == Protocol::Http2)
}

/// An answer that is not passed on.
fn refused(fault: AnswerFault) -> Box<Error> {
    Error::because(ErrorType::InvalidHTTPHeader, "the origin's answer", io::Error::from(fault)).into_up()
}

#[cfg(test)]
mod tests;
