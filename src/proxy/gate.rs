//! The story of a request, as Pingora calls its phases.
//!
//! 1. The edge has accepted its connection ([`accept`](crate::edge::accept)) and read its head
//!    ([`connection`](crate::edge::connection), [`h2`](crate::edge::h2)).
//! 2. [`judge`](super::judge) decides about the head: at the edge, or at the start of [`outcome::decide`].
//! 3. [`admission`](super::admission) waits for what the request needs, takes it and charges its limits.
//! 4. [`forward`] takes it to an address of its origin, again where [`attempts`] allows it.
//! 5. [`response`] takes the origin's answer to the client; [`reply`](super::reply) answers in its place.
//! 6. [`observe`] reports it to metrics and log.
//!
//! A phase calls its step, no more; [`RequestContext`] is what they have in common. Requests that need nothing of Pingora take the
//! same steps without it ([`direct`](super::direct)).

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Version, header};
use pingora::Error;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;

use super::context::RequestContext;
use super::downstream::Downstream;
use super::{attempts, forward, observe, outcome, response};
use crate::edge::h2::session::take_judged;
use crate::origins::door::OriginPlace;
use crate::origins::http2;
use crate::origins::way::Way;
use crate::running::process::Process;

/// The longest that a piece of a body is held back at a time, whatever the limits say: meanwhile nobody sees whether the
/// client is still there. Pingora takes up to four pieces of an answer at once, which makes it four times that, and that is
/// how long the client itself may stall ([`ConnectionLimits`](crate::edge::limits::ConnectionLimits)).
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The proxy.
pub struct Gate {
    process: Arc<Process>,
}

impl Gate {
    /// Returns a gate over what all connections share.
    pub fn new(process: Arc<Process>) -> Gate {
        Gate { process }
    }
}

/// Holds the context between phases. Empty until a phase asks, as a request that was judged at the edge brings its own; boxed, because
/// Pingora moves it about.
#[derive(Default)]
pub struct Slot(Option<Box<RequestContext>>);

impl Slot {
    fn context(&mut self, gate: &Gate) -> &mut RequestContext {
        self.0.get_or_insert_with(|| RequestContext::boxed(gate.process.generation()))
    }
}

#[async_trait]
impl ProxyHttp for Gate {
    type CTX = Slot;

    fn new_ctx(&self) -> Slot {
        Slot::default()
    }

    fn on_connection_reuse(&self, _session: &mut Session, slot: &mut Slot, evaluation: Box<dyn Any + Send + Sync>) {
        // what the edge decided about this request, not about the one before
        slot.0 = evaluation.downcast::<RequestContext>().ok();
    }

    fn init_downstream_modules(&self, _modules: &mut pingora::modules::http::HttpModules) {
        // the default is a compression module that is off: nothing to build per request
    }

    async fn request_filter(&self, session: &mut Session, slot: &mut Slot) -> pingora::Result<bool> {
        if let Some(evaluation) = take_judged(session.req_header_mut().extensions_mut()) {
            // as above, of a request in HTTP/2
            slot.0 = evaluation.downcast::<RequestContext>().ok();
        }
        outcome::decide(&self.process, session, slot.context(self)).await
    }

    async fn upstream_peer(&self, session: &mut Session, slot: &mut Slot) -> pingora::Result<Box<HttpPeer>> {
        let context = slot.context(self);
        if let Some(client) = session.client()
            && let Some(place) = context.place.as_mut().and_then(OriginPlace::lend)
        {
            client.lent.lend(place);
        }
        let mut target = forward::attempt(&self.process, session, context)?;
        if forward::speaks_http2(context).is_some() && !Downstream::is_read(session) {
            // the library waits for the answer while the request is still sent; the time until the answer begins is kept elsewhere
            target.read = context.route().map_or(target.read, |route| target.read.max(route.timeouts.request));
        }
        Ok(forward::peer(&target, session.has_hop_by_hop()))
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
        observe::connected(slot.context(self), reused);
        Ok(())
    }

    fn fail_to_connect(
        &self,
        session: &mut Session,
        _peer: &HttpPeer,
        slot: &mut Slot,
        mut e: Box<Error>,
    ) -> Box<Error> {
        let again = attempts::not_connected(slot.context(self), session, &e, &self.process.clock);
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
        let mut e = e.more_context(format!("Peer: {peer}"));
        e.retry.decide_reuse(client_reused);
        let again = attempts::broke_off(slot.context(self), session, &e, &self.process.clock);
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
        if upstream.version == Version::HTTP_2 && session.req_header().headers.contains_key(header::TE) {
            // taken out as if it concerned the connection; in HTTP/2 it says that trailers are welcome, and gRPC wants it
            upstream.insert_header(header::TE, "trailers")?;
        }
        forward::head(session, upstream, context, &mut BytesMut::new())?;
        if forward::speaks_http2(context).is_some_and(Way::is_encrypted) {
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
        let length = body.as_ref().map_or(0, |piece| piece.len() as u64);
        if let Some(time) = forward::body(&self.process, session, length, slot.context(self))? {
            tokio::time::sleep(time.min(LONGEST_PAUSE)).await;
        }
        Ok(())
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        upstream: &mut ResponseHeader,
        slot: &mut Slot,
    ) -> pingora::Result<()> {
        let context = slot.context(self);
        if forward::speaks_http2(context).is_some() {
            response::judge_http2(upstream)?;
        }
        response::head(&self.process, session, upstream, context, &mut BytesMut::new()).await
    }

    fn response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        slot: &mut Slot,
    ) -> pingora::Result<Option<Duration>> {
        let length = body.as_ref().map_or(0, |piece| piece.len() as u64);
        let context = slot.context(self);
        let time = response::body(&self.process, session, length, context)?;
        if end_of_stream && !session.is_read() {
            // the rest of the request is waited for, but not by the origin
            context.answered_whole();
        }
        Ok(time.map(|time| time.min(LONGEST_PAUSE)))
    }

    fn upstream_response_trailer_filter(
        &self,
        _session: &mut Session,
        trailers: &mut HeaderMap,
        _slot: &mut Slot,
    ) -> pingora::Result<()> {
        response::trailers(trailers)
    }

    async fn fail_to_proxy(&self, session: &mut Session, e: &Error, slot: &mut Slot) -> FailToProxy {
        let status = response::failed(&self.process, session, e, slot.context(self)).await;
        FailToProxy { error_code: status.as_u16(), can_reuse_downstream: false }
    }

    async fn logging(&self, session: &mut Session, _e: Option<&Error>, slot: &mut Slot) {
        response::ended(&self.process, session, slot.context(self));
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
}

#[cfg(test)]
mod tests;
