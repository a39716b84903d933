//! The client's side of a Pingora session.

use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::Session;

use super::request_view::RequestView;
use crate::edge::absence::Absence;
use crate::edge::client_side::ClientSide;
use crate::edge::connection_info::ConnectionInfo;
use crate::edge::h2::streams::Stream;
use crate::edge::stream::EdgeStream;
use crate::edge::transport::Transport;
use crate::policy::Route;
use crate::system::buffers::Share;

/// The client's side of the request.
pub fn client_side(session: &Session) -> Option<&ClientSide> {
    match h2_stream(session) {
        Some(stream) => Some(stream.client()),
        None => edge_stream(session)?.client(),
    }
}

/// What is known of the connection.
pub fn connection_info(session: &Session) -> Option<&Arc<ConnectionInfo>> {
    client_side(session).map(|client| &client.info)
}

/// The request as decisions read it.
pub fn request_view(session: &Session) -> RequestView<'_> {
    RequestView::of(connection_info(session).map(AsRef::as_ref), session.req_header())
}

/// Sends the client elsewhere with its further requests: `Connection: close` in HTTP/1, GOAWAY in HTTP/2.
pub fn leave(session: &mut Session) {
    session.set_keepalive(None);
    if let Some(stream) = h2_stream(session) {
        stream.leave();
    }
}

/// Sets the time within which the answer must begin.
pub fn answer_due_in(session: &Session, time: Duration) {
    if let Some(client) = client_side(session) {
        client.answer_due_in(time);
    }
}

/// What the request and its answer hold of the process's buffers.
pub fn share(session: &Session) -> Option<&Share> {
    client_side(session).map(|client| &client.share)
}

/// What happens when the client leaves.
pub fn absence(session: &Session) -> Option<&Absence> {
    client_side(session).map(|client| &client.absence)
}

/// The head that ended the wait for an answer, if it was written: a final one, or a change of protocol.
pub fn answer_head(session: &Session) -> Option<&ResponseHeader> {
    session.response_written().filter(|head| !head.status.is_informational() || is_switch(head))
}

/// Whether the connection speaks another protocol by now.
pub fn has_switched(session: &Session) -> bool {
    answer_head(session).is_some_and(is_switch)
}

fn is_switch(head: &ResponseHeader) -> bool {
    head.status == StatusCode::SWITCHING_PROTOCOLS
}

/// Whether the client has gone and its answer is awaited all the same.
pub fn is_gone(session: &Session) -> bool {
    absence(session).is_some_and(Absence::is_gone)
}

/// Bounds a request that is forwarded: pauses and size of its body, and the time until its answer begins.
pub fn forwarded(session: &mut Session, route: &Route, pause: Duration) {
    session.set_read_timeout(Some(route.timeouts.request.min(pause)));
    answer_due_in(session, route.timeouts.request);
    if let (Some(limit), Some(stream)) = (route.body_limit, edge_stream(session)) {
        stream.limit_body(limit.0);
    }
}

/// The client's stream, if it speaks HTTP/2.
pub fn h2_stream(session: &Session) -> Option<&Stream> {
    Stream::of(&session.req_header().extensions)
}

/// The client's connection below Pingora, if it speaks HTTP/1.
pub fn edge_stream(session: &Session) -> Option<&EdgeStream<Transport>> {
    session.stream()?.as_any().downcast_ref()
}

/// Whether the declared length is over the route's limit. An undeclared one is counted as it comes.
pub fn over_limit(head: &RequestHeader, route: &Route) -> bool {
    let declared = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    matches!((declared, route.body_limit), (Some(declared), Some(limit)) if declared > limit.0)
}
