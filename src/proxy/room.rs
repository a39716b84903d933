//! Finds room for the bodies of a request and its answer, in [`Buffers`](crate::system::buffers::Buffers).

use http::{Method, StatusCode, header};
use pingora::{Error, ErrorType};

use super::context::RequestContext;
use super::downstream::{Downstream, share};
use super::fields::AnswerHead;
use super::request_view::{RequestHead as _, WholeHead as _};
use crate::answer::Fault;
use crate::policy::Protocol;
use crate::system::buffers::{BUFFERS, Full, Pieces};
use tidegate_http::lines::Lookup;

/// Waits until there is room for the request's body; `false` if there is none. A body whose head does not say its length
/// passes, until it is found not to be light.
pub async fn for_request(session: &impl Downstream) -> bool {
    BUFFERS.room(session.head().content_length().unwrap_or(0)).await.is_ok()
}

/// Waits until there is room for the body of the answer with this head; `false` if there is none.
pub async fn for_response(session: &impl Downstream, head: &impl AnswerHead) -> bool {
    let none = session.head().method() == Method::HEAD || head.status() == StatusCode::NOT_MODIFIED;
    none || BUFFERS.room(length(head.fields())).await.is_ok()
}

fn length(fields: &impl Lookup) -> u64 {
    let length = fields.first(&header::CONTENT_LENGTH);
    length.and_then(|length| std::str::from_utf8(length).ok()?.parse().ok()).unwrap_or(0)
}

/// Counts another piece of the request's body.
pub fn for_upload(session: &impl Downstream, context: &mut RequestContext, bytes: u64) -> pingora::Result<()> {
    let (pieces, bytes) = (if session.is_http2() { Pieces::UP_H2 } else { Pieces::UP }, size(bytes));
    told(share(session).map_or(Ok(()), |share| share.carries_up(pieces, bytes)), context)
}

/// Counts another piece of the answer's body.
pub fn for_answer(session: &impl Downstream, context: &mut RequestContext, bytes: u64) -> pingora::Result<()> {
    let h2 = context.origin().is_some_and(|origin| origin.way().protocol() == Protocol::Http2);
    let (pieces, bytes) = (if h2 { Pieces::DOWN_H2 } else { Pieces::DOWN }, size(bytes));
    told(share(session).map_or(Ok(()), |share| share.carries_down(pieces, bytes)), context)
}

/// Returns the error that ends a request for which there is no room.
pub fn full(context: &mut RequestContext) -> Box<Error> {
    context.fault = Some(Fault::BuffersFull);
    Error::explain(ErrorType::HTTPStatus(503), "no room for the body").into_down()
}

fn told(counted: Result<(), Full>, context: &mut RequestContext) -> pingora::Result<()> {
    counted.map_err(|Full| full(context))
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
