//! Serves one client connection in HTTP/1: a complete and unambiguous head within its time, then one request through Pingora,
//! then the next.
//!
//! It stands in the place of Pingora's own loop (the blanket `ServerApp` of every `HttpServerApp`), which has no deadline
//! for a whole head, keeps connections open for ever after the first request, repairs what it should refuse, and loses or
//! trips over pipelined requests. Pingora sees one request at a time, whose head is complete when it begins, and of those only what
//! [`Direct`] leaves to it.
//!
//! What the client did wrong here is counted and answered, never logged line by line: it is the client who decides how
//! often it happens.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use pingora::apps::{HttpPersistentSettings, HttpServerApp};
use pingora::protocols::IO;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use tokio::time::{Instant, timeout};

use super::common::{Edge, HeadVerdict};
use super::connection_info::ConnectionInfo;
use super::limits::ConnectionLimits;
use super::requests::{Connection, Direct, Left};
use super::stream::{EdgeStream, Wire};
use tidegate_http::fault::HeadFault;
use tidegate_http::head::{Body, Head, Version};

/// Serves a connection in HTTP/1 until it ends. `first` are bytes of it that have been read already, `begun` is when it began. `direct`
/// serves what it can.
///
/// What it begins with is made outside of the future, and what is rare or at the end stands in boxes: so that a connection that waits for
/// its next request has room for nothing else.
pub fn serve<'a, A, S>(
    (app, direct): (&'a Arc<A>, Option<&'a dyn Direct<S>>),
    transport: S,
    first: BytesMut,
    begun: Instant,
    info: &'a Arc<ConnectionInfo>,
    edge: &'a Arc<Edge>,
    shutdown: &'a ShutdownWatch,
) -> impl Future<Output = ()> + Send + 'a
where
    A: HttpServerApp + Send + Sync + 'static,
    S: IO + 'static,
{
    let mut wire = Box::new(Wire::new(transport, first, Arc::clone(info), edge.clone()));
    let mut framework = Framework { app, judges: direct.is_none(), judges_again: direct.is_none(), settings: None };
    let mut connection = Connection::new(begun, edge);
    async move {
        let limits = &edge.limits;
        loop {
            let mut requests = connection.requests(&mut wire, edge, shutdown);
            let left = match direct {
                Some(direct) => direct.serve(requests).await,
                None => Box::pin(requests.next()).await.map_or_else(|left| left, |head| Left::Request(head, None)),
            };
            let request = match left {
                Left::Request(head, evaluation) => (head, evaluation),
                ended => {
                    Box::pin(end(&mut wire, limits, ended)).await;
                    // the next connection finds them
                    wire.release_buffers();
                    return;
                }
            };
            match Box::pin(framework.serve(wire, request, &mut connection, edge, shutdown)).await {
                Some(home) => wire = home,
                None => return,
            }
        }
    }
}

/// What requests that go through Pingora have in common.
struct Framework<'a, A> {
    app: &'a Arc<A>,
    /// The next request is judged here, before its session. A flood comes on fresh connections, or goes on after a refusal. All others are
    /// judged in their session: reading the fields here, too, would be dear for a request that is forwarded.
    judges: bool,
    /// One is judged here behind a refusal, too.
    judges_again: bool,
    settings: Option<Box<HttpPersistentSettings>>,
}

impl<A> Framework<'_, A>
where
    A: HttpServerApp + Send + Sync + 'static,
{
    /// Serves the request with this head, and with the decision about it, if it was judged. Gives the wire back; `None`: the connection has
    /// ended.
    async fn serve<S: IO + 'static>(
        &mut self,
        mut wire: Box<Wire<S>>,
        (head, mut evaluation): (Head, Option<Box<dyn Any + Send + Sync>>),
        connection: &mut Connection,
        edge: &Edge,
        shutdown: &ShutdownWatch,
    ) -> Option<Box<Wire<S>>> {
        let limits = &edge.limits;
        let more = connection.more(&head, edge);
        connection.begin();
        // a refusal here costs less than half of one in a session of Pingora's
        if self.judges && head.body == Body::None && !head.upgrade {
            let stay = more > 0 && !*shutdown.borrow();
            let info = Arc::clone(&wire.client().info);
            match edge.events.judge(&head, wire.inbox(), &info, stay) {
                HeadVerdict::Forward(decision) => evaluation = decision,
                HeadVerdict::Answer { bytes, stay: wanted } => {
                    wire.begin(&head);
                    wire.put(&bytes);
                    if !(stay && wanted) {
                        // a client that has said that this is its last request sends nothing more
                        end(&mut wire, limits, if head.keep_alive { Left::Linger } else { Left::Close }).await;
                        return None;
                    }
                    return poll_fn(|cx| wire.poll_flush(cx)).await.is_ok().then_some(wire);
                }
            }
        }
        let prefix = wire.begin(&head);
        let (stream, mut home) = EdgeStream::new(wire);
        let mut session = ServerSession::new_http1(Box::new(stream));
        if let (Version::Http10, ServerSession::H1(session)) = (head.version, &mut session) {
            // it takes the first head for the answer (RFC 9110 section 15.2)
            session.set_ignore_info_resp(true);
        }
        if let Some(kept) = self.settings.take() {
            kept.apply_to_session(&mut session);
        }
        // Pingora reads the first `Connection` field only
        session.set_keepalive_reuses_remaining(Some(more));
        session.set_pipelined_prefix(prefix);
        session.set_connection_user_context(evaluation);
        let Some(reused) = self.app.process_new_http(session, shutdown).await else {
            close(&mut *home.try_recv().ok()?, limits).await;
            return None;
        };
        let (returned, kept) = reused.consume();
        let stream = returned.into_any().downcast::<EdgeStream<S>>().ok()?;
        let mut wire = stream.into_wire()?;
        if !wire.is_between_requests() {
            // Pingora and we disagree about where the request ends: nothing on this connection can be trusted
            linger(&mut wire, limits).await;
            return None;
        }
        self.judges = self.judges_again && wire.was_refused();
        self.settings = kept.map(Box::new);
        Some(wire)
    }
}

/// Ends a connection of which this is left, no request of it.
async fn end<S: IO>(wire: &mut Wire<S>, limits: &ConnectionLimits, left: Left) {
    match left {
        Left::Close => close(wire, limits).await,
        Left::Linger => linger(wire, limits).await,
        Left::Request(..) | Left::Nothing => {}
    }
}

/// Answers a connection that is not served, and closes it.
pub async fn turn_away<S: IO + 'static>(transport: S, fault: HeadFault, info: Arc<ConnectionInfo>, edge: &Arc<Edge>) {
    let mut wire = Wire::new(transport, BytesMut::new(), info, edge.clone());
    let answer = edge.events.refused(fault, &[]);
    wire.put(&answer);
    linger(&mut wire, &edge.limits).await;
}

/// Ends a connection whose last request was served.
async fn close<S: IO>(wire: &mut Wire<S>, limits: &ConnectionLimits) {
    if wire.client().was_cut() {
        // what the kernel takes now; the rest would make it no more complete
        let _ = poll_fn(|cx| Poll::Ready(wire.poll_flush(cx))).await;
        wire.reset();
        return;
    }
    // mostly all goes at once; an answer that was cut short may have left much
    let flushed = match poll_fn(|cx| Poll::Ready(wire.poll_flush(cx))).await {
        Poll::Ready(flushed) => flushed.is_ok(),
        Poll::Pending => matches!(timeout(limits.linger, poll_fn(|cx| wire.poll_flush(cx))).await, Ok(Ok(()))),
    };
    if !flushed {
        return;
    }
    // what lies unread in the kernel's buffer would turn the close into a reset
    let more = wire.has_unread_bytes()
        || wire.may_hold_more() && {
            let look = poll_fn(|cx| Poll::Ready(wire.poll_discard(cx))).await;
            matches!(look, Poll::Ready(Ok(1..)))
        };
    if more {
        linger(wire, limits).await;
    } else if wire.client().info.secure.is_some() {
        // TLS has a goodbye of its own; without it, closing says the same
        let _ = timeout(limits.linger, poll_fn(|cx| wire.poll_shutdown(cx))).await;
    }
}

/// Sends what is left, ends our side, and gives the client a moment to read it before the connection goes
/// (RFC 9112 section 9.6).
async fn linger<S: IO>(wire: &mut Wire<S>, limits: &ConnectionLimits) {
    let farewell = async {
        // a client that has gone ends this early, and nobody needs to know
        if poll_fn(|cx| wire.poll_shutdown(cx)).await.is_err() {
            return;
        }
        let mut drained = 0;
        while drained <= limits.linger_bytes {
            match poll_fn(|cx| wire.poll_discard(cx)).await {
                Ok(0) | Err(_) => return,
                Ok(bytes) => drained += bytes,
            }
        }
    };
    let _ = timeout(limits.linger, farewell).await;
}

#[cfg(test)]
mod tests;
