//! Serves one client connection in HTTP/1: a complete and unambiguous head within its time, then one request through Pingora,
//! then the next.
//!
//! It stands in the place of Pingora's own loop (the blanket `ServerApp` of every `HttpServerApp`), which has no deadline
//! for a whole head, keeps connections open for ever after the first request, repairs what it should refuse, and loses or
//! trips over pipelined requests. Pingora sees one request at a time, whose head is complete when it begins.
//!
//! What the client did wrong here is counted and answered, never logged line by line: it is the client who decides how
//! often it happens.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use pingora::apps::HttpServerApp;
use pingora::protocols::IO;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::common::{Edge, HeadVerdict};
use super::connection_info::ConnectionInfo;
use super::limits::ConnectionLimits;
use super::stream::{EdgeStream, Wire};
use tidegate_http::fault::HeadFault;
use tidegate_http::head::{self, Body, EndScan, Head};

/// Serves a connection in HTTP/1 until it ends. `first` are bytes of it that have been read already, `begun` is when it began.
pub async fn serve<A, S>(
    app: &Arc<A>,
    transport: S,
    first: BytesMut,
    begun: Instant,
    info: Arc<ConnectionInfo>,
    edge: &Arc<Edge>,
    shutdown: &ShutdownWatch,
) where
    A: HttpServerApp + Send + Sync + 'static,
    S: IO + 'static,
{
    let limits = &edge.limits;
    let (stream, mut home) = EdgeStream::new(Wire::new(transport, first, Arc::clone(&info), edge.clone()));
    let mut stream = Box::new(stream);
    let mut patience = Patience::new(begun + limits.head_deadline, shutdown);
    let mut settings = None;
    let mut answered_here = 0;
    let ends = limits.lifetime.map(|lifetime| Instant::now() + lifetime);
    let is_old = || ends.is_some_and(|ends| Instant::now() >= ends);
    // A flood comes on fresh connections, or goes on after a refusal. All others are judged in their session: reading the fields
    // here, too, would be dear for a request that is forwarded.
    let mut judge_here = true;
    loop {
        let Some(wire) = stream.wire() else { return };
        let head = match patience.next_head(wire, edge).await {
            Next::Request(head) => head,
            Next::Refused(fault) => {
                let answer = edge.events.refused(fault, wire.inbox());
                wire.put(&answer);
                edge.events.noticed(fault.reason(), info.peer);
                return linger(wire, limits).await;
            }
            Next::Nothing => return,
        };
        let mut evaluation = None;
        let goes_on = head.keep_alive && !is_old();
        // a refusal here costs less than half of one in a session of Pingora's
        if judge_here && head.body == Body::None && !head.upgrade {
            let stay = goes_on && answered_here + 1 < limits.requests && !*shutdown.borrow();
            match edge.events.judge(&head, wire.inbox(), &info, stay) {
                HeadVerdict::Forward(decision) => evaluation = decision,
                HeadVerdict::Answer { bytes, stay: wanted } => {
                    wire.begin(&head);
                    wire.put(&bytes);
                    if !(stay && wanted) {
                        return linger(wire, limits).await;
                    }
                    if poll_fn(|cx| wire.poll_flush(cx)).await.is_err() {
                        return;
                    }
                    answered_here += 1;
                    continue;
                }
            }
        }
        let prefix = wire.begin(&head);
        let mut session = ServerSession::new_http1(stream);
        match settings.take() {
            Some(settings) => pingora::apps::HttpPersistentSettings::apply_to_session(settings, &mut session),
            None => session.set_keepalive_reuses_remaining(Some(limits.requests.saturating_sub(1))),
        }
        if !goes_on {
            // Pingora reads the first `Connection` field only
            session.set_keepalive_reuses_remaining(Some(0));
        }
        session.set_pipelined_prefix(prefix);
        session.set_connection_user_context(evaluation);
        match app.process_new_http(session, shutdown).await {
            Some(reused) => {
                let (returned, kept) = reused.consume();
                let Ok(returned) = returned.into_any().downcast::<EdgeStream<S>>() else { return };
                stream = returned;
                settings = kept;
                match stream.wire() {
                    Some(wire) if wire.is_between_requests() => judge_here = wire.was_refused(),
                    // Pingora and we disagree about where the request ends: nothing on this connection can be trusted
                    Some(wire) => return linger(wire, limits).await,
                    None => return,
                }
            }
            None => {
                let Ok(mut wire) = home.try_recv() else { return };
                return close(&mut wire, limits).await;
            }
        }
    }
}

/// Answers a connection that is not served, and closes it.
pub async fn turn_away<S: IO + 'static>(transport: S, fault: HeadFault, info: Arc<ConnectionInfo>, edge: &Arc<Edge>) {
    let mut wire = Wire::new(transport, BytesMut::new(), info, edge.clone());
    let answer = edge.events.refused(fault, &[]);
    wire.put(&answer);
    linger(&mut wire, &edge.limits).await;
}

/// The outcome of waiting for a request.
enum Next {
    Request(Head),
    Refused(HeadFault),
    /// The client has gone, or sends nothing: close without an answer.
    Nothing,
}

/// The outcome of waiting for bytes.
enum Arrival {
    Bytes,
    End,
    Late,
}

/// Waits for a connection's bytes, until a deadline or the end of the process.
struct Patience {
    timer: Pin<Box<Sleep>>,
    /// Gone once it has come.
    stopping: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// By when the first head must be complete; gone once it has been waited for.
    first: Option<Instant>,
}

impl Patience {
    fn new(first: Instant, shutdown: &ShutdownWatch) -> Patience {
        let mut shutdown = shutdown.clone();
        Patience {
            timer: Box::pin(sleep_until(first)),
            stopping: Some(Box::pin(async move {
                // a vanished sender means that the process is past stopping
                let _ = shutdown.wait_for(|stopping| *stopping).await;
            })),
            first: Some(first),
        }
    }

    /// Waits for a complete head and judges it.
    async fn next_head<S: IO>(&mut self, wire: &mut Wire<S>, edge: &Edge) -> Next {
        let limits = &edge.limits;
        let first = self.first.take();
        let mut begun = first.is_some();
        let mut deadline = first.unwrap_or_else(|| Instant::now() + limits.idle);
        let mut scan: Option<EndScan> = None;
        loop {
            let inbox = wire.inbox();
            let worth_parsing = match &mut scan {
                Some(scan) => scan.is_worth_parsing(inbox, &limits.head),
                None => !inbox.is_empty(),
            };
            if worth_parsing {
                match head::parse(inbox, &edge.head_limits()) {
                    Ok(Some(head)) => {
                        wire.drop_empty_port(&head);
                        return Next::Request(head);
                    }
                    Err(fault) => return Next::Refused(fault),
                    Ok(None) => {}
                }
                scan.get_or_insert_default();
            }
            // an empty line alone is what some clients append to the body before
            let partial = !matches!(inbox, b"" | b"\r" | b"\r\n");
            if partial && !begun {
                begun = true;
                deadline = Instant::now() + limits.head_deadline;
            }
            let idle_while_draining = (!partial).then_some(limits.idle_while_draining);
            match self.bytes(wire, &mut deadline, idle_while_draining).await {
                Arrival::Bytes => {}
                Arrival::End => return Next::Nothing,
                Arrival::Late if !partial => return Next::Nothing,
                Arrival::Late => {
                    return Next::Refused(
                        head::parse(wire.inbox(), &edge.head_limits()).err().unwrap_or(HeadFault::Late),
                    );
                }
            }
        }
    }

    /// Waits for bytes until the deadline, which the end of the process may bring forward.
    async fn bytes<S: IO>(
        &mut self,
        wire: &mut Wire<S>,
        deadline: &mut Instant,
        idle_while_draining: Option<Duration>,
    ) -> Arrival {
        poll_fn(|cx| {
            match wire.poll_fill(cx) {
                Poll::Ready(Ok(1..)) => return Poll::Ready(Arrival::Bytes),
                Poll::Ready(_) => return Poll::Ready(Arrival::End),
                Poll::Pending => wire.release_buffers(),
            }
            if self.stopping.as_mut().is_some_and(|stopping| stopping.as_mut().poll(cx).is_ready()) {
                self.stopping = None;
            }
            if let (None, Some(most)) = (&self.stopping, idle_while_draining) {
                *deadline = (*deadline).min(Instant::now() + most);
            }
            // Setting the timer anew for every request would cost more than the wait: it is only moved forward, and
            // moved back when it rings too early.
            if self.timer.deadline() > *deadline {
                self.timer.as_mut().reset(*deadline);
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                if self.timer.deadline() >= *deadline {
                    return Poll::Ready(Arrival::Late);
                }
                self.timer.as_mut().reset(*deadline);
            }
            Poll::Pending
        })
        .await
    }
}

/// Ends a connection that Pingora has done with.
async fn close<S: IO>(wire: &mut Wire<S>, limits: &ConnectionLimits) {
    let more = wire.has_unread_bytes() || {
        // one look into the kernel's buffer: what lies there unread would turn the close into a reset
        let look = poll_fn(|cx| Poll::Ready(wire.poll_discard(cx))).await;
        matches!(look, Poll::Ready(Ok(1..)))
    };
    if more {
        linger(wire, limits).await;
    } else {
        // mostly nothing is left to send; an answer that was cut short may have left some
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
