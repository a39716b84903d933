//! The client's side of a Pingora session: which connection it is, and what the connection layer is to be told of the request.

use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::Session;

use super::request_view::RequestView;
use crate::edge::absence::Absence;
use crate::edge::connection_info::ConnectionInfo;
use crate::edge::h2::streams::Stream;
use crate::edge::stream::EdgeStream;
use crate::edge::transport::Transport;
use crate::policy::Route;
use crate::system::buffers::Share;

/// What is known of the connection.
pub fn connection_info(session: &Session) -> Option<&Arc<ConnectionInfo>> {
    match h2_stream(session) {
        Some(stream) => Some(stream.info()),
        None => edge_stream(session)?.info(),
    }
}

/// The request as decisions read it.
pub fn request_view(session: &Session) -> RequestView<'_> {
    RequestView::of(connection_info(session).map(AsRef::as_ref), session.req_header())
}

/// The client takes its further requests elsewhere: `Connection: close` in HTTP/1, GOAWAY in HTTP/2.
pub fn leave(session: &mut Session) {
    session.set_keepalive(None);
    if let Some(stream) = h2_stream(session) {
        stream.leave();
    }
}

/// By when the answer must have begun, from now.
pub fn answer_due_in(session: &Session, time: Duration) {
    if let Some(stream) = h2_stream(session) {
        stream.answer_due_in(time);
    } else if let Some(stream) = edge_stream(session) {
        stream.answer_due_in(time);
    }
}

/// What the request and its answer hold of the process's buffers.
pub fn share(session: &Session) -> Option<&Share> {
    match h2_stream(session) {
        Some(stream) => Some(stream.share()),
        None => edge_stream(session)?.share(),
    }
}

/// What is said of a client that leaves.
pub fn absence(session: &Session) -> Option<&Absence> {
    match h2_stream(session) {
        Some(stream) => Some(stream.absence()),
        None => edge_stream(session)?.absence(),
    }
}

/// The head that ends the wait for an answer, if it was written: a final one, or a change of protocol, behind which no other comes.
pub fn answer_head(session: &Session) -> Option<&ResponseHeader> {
    session.response_written().filter(|head| !head.status.is_informational() || is_switch(head))
}

/// Whether the connection speaks another protocol by now. How that ends is nobody's fault.
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

/// The request is forwarded: its body may pause for so long, and be as large as its route says; the answer is due.
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
