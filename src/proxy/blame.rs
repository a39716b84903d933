//! Finds the fault when a request has no answer of its origin.

use pingora::{Error, ErrorSource, ErrorType};

use crate::answer::Fault;
use crate::edge::answer_deadline::LateAnswer;
use crate::edge::idle_place::GaveWay;
use crate::system::cause::cause_of;
use tidegate_http::fault::AnswerFault;
use tidegate_http::fault::BodyFault;

/// Returns what went wrong, as an answer. Which side failed decides between "the client" and "the origin"; how decides the rest.
pub fn fault_of(e: &Error) -> Fault {
    use ErrorType as Is;
    if let Some(fault) = cause_of::<BodyFault>(e) {
        return fault.into();
    }
    if GaveWay::caused(e) {
        return Fault::ClientTimeout;
    }
    if LateAnswer::caused(e) {
        return Fault::OriginTimeout;
    }
    match cause_of::<AnswerFault>(e) {
        Some(AnswerFault::Protocol) => return Fault::OriginTls,
        Some(AnswerFault::Cut) => return Fault::OriginClosed,
        Some(_) => return Fault::OriginGarbled,
        None => {}
    }
    match (e.esource(), e.etype()) {
        (ErrorSource::Upstream, Is::ConnectTimedout) => Fault::OriginConnectTimeout,
        (ErrorSource::Upstream, Is::ReadTimedout | Is::WriteTimedout) => Fault::OriginTimeout,
        (ErrorSource::Upstream, Is::ConnectRefused) => Fault::OriginRefused,
        (ErrorSource::Upstream, Is::ConnectNoRoute | Is::ConnectError | Is::SocketError | Is::BindError) => {
            Fault::OriginUnreachable
        }
        (ErrorSource::Upstream, Is::TLSHandshakeFailure) => Fault::OriginTls,
        (ErrorSource::Upstream, Is::ReadError | Is::WriteError | Is::ConnectionClosed) => Fault::OriginClosed,
        (ErrorSource::Upstream, _) => Fault::OriginGarbled,
        (ErrorSource::Downstream, Is::ReadTimedout) => Fault::ClientTimeout,
        (ErrorSource::Downstream, Is::ReadError | Is::WriteError | Is::WriteTimedout | Is::ConnectionClosed) => {
            Fault::ClientGone
        }
        (ErrorSource::Downstream, _) => Fault::BadRequest,
        (ErrorSource::Internal | ErrorSource::Unset, _) => Fault::Internal,
    }
}

/// Returns whether attempts that wait for an answer are charged although none came. They are when the client kept the request from
/// one, or else leaving early would be the way not to be counted; and when the origin had the request and said nothing that
/// could be used, as nobody knows what it made of it. They are not when it never reached the origin.
pub fn counts_as_an_attempt(fault: Fault) -> bool {
    matches!(blame(fault), Blame::Client | Blame::Buffers | Blame::OriginAtWork)
}

/// Returns whether the origin is to blame.
pub fn is_of_origin(fault: Fault) -> bool {
    matches!(blame(fault), Blame::OriginAtWork | Blame::OriginNotReached)
}

/// Who is to blame for a request without an answer.
enum Blame {
    Client,
    /// There was no room for what the client sent.
    Buffers,
    /// The origin had the request.
    OriginAtWork,
    OriginNotReached,
    Gate,
}

fn blame(fault: Fault) -> Blame {
    match fault {
        Fault::BadRequest
        | Fault::MethodNotAllowed
        | Fault::ClientTimeout
        | Fault::BodyTooLarge
        | Fault::TargetTooLong
        | Fault::ExpectationFailed
        | Fault::HeadTooLarge
        | Fault::VersionUnsupported
        | Fault::ClientGone => Blame::Client,
        Fault::BuffersFull => Blame::Buffers,
        Fault::OriginClosed | Fault::OriginGarbled | Fault::OriginTimeout => Blame::OriginAtWork,
        Fault::OriginRefused
        | Fault::OriginUnreachable
        | Fault::OriginTls
        | Fault::NoOriginAddress
        | Fault::OriginConnectTimeout => Blame::OriginNotReached,
        Fault::Internal => Blame::Gate,
    }
}
