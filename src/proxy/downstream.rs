//! The client's side of one request: Pingora's session, or another that speaks to the client in its place.
//!
//! The steps of a request are written against [`Downstream`], so that each has one text whoever carries the bytes.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, header};
use pingora::Error;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::Session;

use super::fields::AnswerHead;
use super::request_view::{RequestView, WholeHead};
use crate::edge::absence::Absence;
use crate::edge::client_side::ClientSide;
use crate::edge::connection_info::ConnectionInfo;
use crate::edge::h2::streams::Stream;
use crate::edge::stream::EdgeStream;
use crate::edge::transport::Transport;
use crate::policy::Route;
use crate::system::buffers::Share;

/// An unread body up to this size is read and thrown away, so that the client keeps its connection; behind a larger one
/// the connection closes.
const WORTH_DRAINING: u64 = 64 * 1024;

/// How long that may take.
const DRAINING: Duration = Duration::from_secs(2);

/// The client's side of one request.
pub trait Downstream: Send + Sync {
    /// The form of its head.
    type Head: WholeHead;
    /// The form of the head of its answer.
    type Answer: AnswerHead;
    /// The head of the request: as the client sent it, and [settled](super::settled) once it was judged.
    fn head(&self) -> &Self::Head;
    /// The same, to be settled.
    fn head_mut(&mut self) -> &mut Self::Head;
    /// What connection and gate tell each other.
    fn client(&self) -> Option<&ClientSide>;
    /// The client speaks HTTP/2.
    fn is_http2(&self) -> bool;
    /// The request was read to its end.
    fn is_read(&mut self) -> bool;
    /// What was read of the body is still at hand, so that it can be sent again.
    fn can_be_repeated(&self) -> bool;
    /// The head has a field that concerns the client's connection only.
    fn has_hop_by_hop(&self) -> bool;
    /// The client asks for another protocol.
    fn wants_upgrade(&self) -> bool;
    /// Another protocol is spoken by now.
    fn was_upgraded(&self) -> bool;
    /// The status of the last head that was written to the client, an interim one included.
    fn written(&self) -> Option<StatusCode>;
    /// Bytes of the answer's body that were written.
    fn bytes_out(&self) -> u64;
    /// Bounds the rest of the request: the longest pause, and the size of its body.
    fn bound_body(&mut self, pause: Duration, size: Option<u64>);
    /// Closes the connection behind the answer.
    fn close(&mut self);
    /// Sends the client elsewhere with its further requests: `Connection: close` in HTTP/1, GOAWAY in HTTP/2.
    fn leave(&mut self);
    /// Notes that the request was refused.
    fn note_refusal(&self);
    /// Waits until the client has gone, or its answer is late. In Pingora's sessions of HTTP/1 never while a part of the request is still to
    /// be read, as nothing may be taken out of it.
    fn gone(&mut self) -> impl Future<Output = Box<Error>> + Send;
    /// Sends an answer of the gate.
    ///
    /// # Errors
    /// The client has gone.
    fn reply(&mut self, head: Self::Answer, body: Bytes) -> impl Future<Output = pingora::Result<()>> + Send;
}

impl Downstream for Session {
    type Head = RequestHeader;
    type Answer = ResponseHeader;

    fn head(&self) -> &RequestHeader {
        self.req_header()
    }

    fn head_mut(&mut self) -> &mut RequestHeader {
        self.req_header_mut()
    }

    fn client(&self) -> Option<&ClientSide> {
        match h2_stream(self) {
            Some(stream) => Some(stream.client()),
            None => edge_stream(self)?.client(),
        }
    }

    fn is_http2(&self) -> bool {
        h2_stream(self).is_some()
    }

    fn is_read(&mut self) -> bool {
        self.as_downstream_mut().is_body_done()
    }

    fn can_be_repeated(&self) -> bool {
        !self.as_ref().retry_buffer_truncated()
    }

    fn has_hop_by_hop(&self) -> bool {
        edge_stream(self).is_none_or(EdgeStream::has_hop_by_hop)
    }

    fn wants_upgrade(&self) -> bool {
        edge_stream(self).is_some_and(EdgeStream::may_switch) && self.as_downstream().is_upgrade_req()
    }

    fn was_upgraded(&self) -> bool {
        self.as_downstream().was_upgraded()
    }

    fn written(&self) -> Option<StatusCode> {
        self.response_written().map(|head| head.status)
    }

    fn bytes_out(&self) -> u64 {
        self.body_bytes_sent() as u64
    }

    fn bound_body(&mut self, pause: Duration, size: Option<u64>) {
        self.set_read_timeout(Some(pause));
        if let (Some(size), Some(stream)) = (size, edge_stream(self)) {
            stream.limit_body(size);
        }
    }

    fn close(&mut self) {
        self.set_keepalive(None);
    }

    fn leave(&mut self) {
        self.set_keepalive(None);
        if let Some(stream) = h2_stream(self) {
            stream.leave();
        }
    }

    fn note_refusal(&self) {
        if let Some(stream) = edge_stream(self) {
            stream.note_refusal();
        }
    }

    async fn gone(&mut self) -> Box<Error> {
        let downstream = self.as_downstream_mut();
        // a stream of HTTP/2 is watched without taking anything out of it
        if !downstream.is_custom() && !downstream.is_body_done() {
            return pending().await;
        }
        match downstream.read_body_or_idle(true).await {
            Err(error) => error.into_down(),
            // no bytes belong to this request any more; the connection layer hands none out
            Ok(_) => pending().await,
        }
    }

    async fn reply(&mut self, head: ResponseHeader, body: Bytes) -> pingora::Result<()> {
        if leaves_a_small_body(self) {
            self.set_close_on_response_before_downstream_finish(false);
            self.set_total_drain_timeout(Some(DRAINING));
        }
        let ends = body.is_empty();
        self.write_response_header(Box::new(head), ends).await?;
        if !ends {
            self.write_response_body(Some(body), true).await?;
        }
        Ok(())
    }
}

/// Whether what the client is still sending is so little that reading it is cheaper than a new connection. Not for a
/// client that waits for `100 Continue`: it will not send the body after a final answer (RFC 9110 section 10.1.1).
fn leaves_a_small_body(session: &mut Session) -> bool {
    if session.as_downstream_mut().is_body_done() {
        return false;
    }
    let fields = &session.req_header().headers;
    let declared = fields.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    declared.is_some_and(|length| length <= WORTH_DRAINING) && !fields.contains_key(header::EXPECT)
}

/// The client's stream, if it speaks HTTP/2.
fn h2_stream(session: &Session) -> Option<&Stream> {
    Stream::of(&session.req_header().extensions)
}

/// The client's connection below Pingora, if it speaks HTTP/1.
fn edge_stream(session: &Session) -> Option<&EdgeStream<Transport>> {
    session.stream()?.as_any().downcast_ref()
}

/// What is known of the connection.
pub fn connection_info(client: &impl Downstream) -> Option<&Arc<ConnectionInfo>> {
    client.client().map(|client| &client.info)
}

/// The request as decisions read it.
pub fn request_view<D: Downstream>(client: &D) -> RequestView<'_> {
    RequestView::of(connection_info(client).map(AsRef::as_ref), client.head())
}

/// Sets the time within which the answer must begin.
pub fn answer_due_in(client: &impl Downstream, time: Duration) {
    if let Some(client) = client.client() {
        client.answer_due_in(time);
    }
}

/// What the request and its answer hold of the process's buffers.
pub fn share(client: &impl Downstream) -> Option<&Share> {
    client.client().map(|client| &client.share)
}

/// What happens when the client leaves.
pub fn absence(client: &impl Downstream) -> Option<&Absence> {
    client.client().map(|client| &client.absence)
}

/// The status that ended the wait for an answer, if it was written: a final one, or a change of protocol.
pub fn answered_with(client: &impl Downstream) -> Option<StatusCode> {
    client.written().filter(|status| !status.is_informational() || *status == StatusCode::SWITCHING_PROTOCOLS)
}

/// Whether the connection speaks another protocol by now.
pub fn has_switched(client: &impl Downstream) -> bool {
    answered_with(client) == Some(StatusCode::SWITCHING_PROTOCOLS)
}

/// Whether the client has gone and its answer is awaited all the same.
pub fn is_gone(client: &impl Downstream) -> bool {
    absence(client).is_some_and(Absence::is_gone)
}

/// Bounds a request that is forwarded: pauses and size of its body, and the time until its answer begins.
pub fn forwarded(client: &mut impl Downstream, route: &Route, pause: Duration) {
    client.bound_body(route.timeouts.request.min(pause), route.body_limit.map(|limit| limit.0));
    answer_due_in(client, route.timeouts.request);
}

/// Whether the declared length is over the route's limit. An undeclared one is counted as it comes.
pub fn over_limit(head: &impl WholeHead, route: &Route) -> bool {
    matches!((head.content_length(), route.body_limit), (Some(declared), Some(limit)) if declared > limit.0)
}
