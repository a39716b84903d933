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
use tidegate_http::head::Body;

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
    let (stream, mut home) = EdgeStream::new(Wire::new(transport, first, Arc::clone(info), edge.clone()));
    let mut stream = Box::new(stream);
    let mut connection = Connection::new(begun, edge, shutdown);
    let mut settings: Option<Box<HttpPersistentSettings>> = None;
    // A flood comes on fresh connections, or goes on after a refusal. All others are judged in their session: reading the fields
    // here, too, would be dear for a request that is forwarded.
    let mut judge_here = direct.is_none();
    async move {
        let limits = &edge.limits;
        loop {
            let Some(wire) = stream.wire() else { return };
            let mut requests = connection.requests(wire, edge, shutdown);
            let left = match direct {
                Some(direct) => direct.serve(requests).await,
                None => Box::pin(requests.next()).await.map_or_else(|left| left, |head| Left::Request(head, None)),
            };
            let (head, mut evaluation) = match left {
                Left::Request(head, evaluation) => (head, evaluation),
                ended => return Box::pin(end(wire, limits, ended)).await,
            };
            let more = connection.more(&head, edge);
            connection.begin();
            // a refusal here costs less than half of one in a session of Pingora's
            if judge_here && head.body == Body::None && !head.upgrade {
                let stay = more > 0 && !*shutdown.borrow();
                match edge.events.judge(&head, wire.inbox(), info, stay) {
                    HeadVerdict::Forward(decision) => evaluation = decision,
                    HeadVerdict::Answer { bytes, stay: wanted } => {
                        wire.begin(&head);
                        wire.put(&bytes);
                        if !(stay && wanted) {
                            // a client that has said that this is its last request sends nothing more
                            let left = if head.keep_alive { Left::Linger } else { Left::Close };
                            return Box::pin(end(wire, limits, left)).await;
                        }
                        if poll_fn(|cx| wire.poll_flush(cx)).await.is_err() {
                            return;
                        }
                        continue;
                    }
                }
            }
            let prefix = wire.begin(&head);
            let kept = settings.take();
            let served = Box::pin(async move {
                let mut session = ServerSession::new_http1(stream);
                if let Some(kept) = kept {
                    kept.apply_to_session(&mut session);
                }
                // Pingora reads the first `Connection` field only
                session.set_keepalive_reuses_remaining(Some(more));
                session.set_pipelined_prefix(prefix);
                session.set_connection_user_context(evaluation);
                app.process_new_http(session, shutdown).await
            });
            match served.await {
                Some(reused) => {
                    let (returned, kept) = reused.consume();
                    let Ok(returned) = returned.into_any().downcast::<EdgeStream<S>>() else { return };
                    stream = returned;
                    settings = kept.map(Box::new);
                    match stream.wire() {
                        Some(wire) if wire.is_between_requests() => judge_here = direct.is_none() && wire.was_refused(),
                        // Pingora and we disagree about where the request ends: nothing on this connection can be trusted
                        Some(wire) => return Box::pin(linger(wire, limits)).await,
                        None => return,
                    }
                }
                None => {
                    let Ok(mut wire) = home.try_recv() else { return };
                    return Box::pin(close(&mut wire, limits)).await;
                }
            }
        }
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
    // mostly nothing is left to send; an answer that was cut short may have left some
    if !matches!(timeout(limits.linger, poll_fn(|cx| wire.poll_flush(cx))).await, Ok(Ok(()))) {
        return;
    }
    let more = wire.has_unread_bytes() || {
        // one look into the kernel's buffer: what lies there unread would turn the close into a reset
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
