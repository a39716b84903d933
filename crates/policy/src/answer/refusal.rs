//! From the reason why no origin answers to status, problem type and words: the only table of statuses.
//!
//! [`Refusal`]s are verdicts of the policy; [`Fault`]s are requests that cannot be served. Both
//! end as a [`Meaning`]. What a client reads says what happened and what to do, and nothing about the inside.
//!
//! Sources: RFC 9110 §15 (statuses), RFC 6585 §4 and §5 (429, 431), draft-ietf-httpapi-ratelimit-headers-10 §5 (problem
//! types), RFC 9457 (`about:blank`), RFC 9209 §2.3 (Proxy-Status errors), gRPC's statuscodes.md and
//! http-grpc-status-mapping.md.

use http::StatusCode;
use strum::{IntoStaticStr, VariantArray};

use super::own::Own;
use crate::engine::Refusal;
use tidegate_http::fault::{BodyFault, HeadFault};

/// What the gate itself answers when a request or an origin's answer cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Fault {
    /// The request is malformed or ambiguous.
    BadRequest,
    /// The method is one that a reverse proxy does not forward: `CONNECT`, `TRACE`.
    MethodNotAllowed,
    /// The client took too long to send its request.
    ClientTimeout,
    /// The body is larger than the route's `body_limit`.
    BodyTooLarge,
    /// The request's target is too long.
    TargetTooLong,
    /// An `Expect` other than `100-continue`.
    ExpectationFailed,
    /// The request's head is too large or has too many fields.
    HeadTooLarge,
    /// A version of HTTP that is not spoken here.
    VersionUnsupported,
    /// The client left before its answer was complete. Logged as 499; nobody reads an answer.
    ClientGone,
    /// A mistake of ours.
    Internal,
    /// The origin refuses connections.
    OriginRefused,
    /// No connection to the origin could be made for another reason than its refusal.
    OriginUnreachable,
    /// The origin showed no certificate that is to be trusted, or broke off before the connection was secured.
    OriginTls,
    /// The origin closed or reset the connection before its answer was complete.
    OriginClosed,
    /// The origin's answer is no HTTP.
    OriginGarbled,
    /// The origin's name has no address, or none of its addresses is usable.
    NoOriginAddress,
    /// The connection to the origin was not made in time.
    OriginConnectTimeout,
    /// The origin did not answer in time.
    OriginTimeout,
    /// The process buffers as much of bodies as it may.
    BuffersFull,
}

impl Fault {
    /// Every fault.
    pub const ALL: &'static [Fault] = Fault::VARIANTS;

    /// The word in metrics and log.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// What it means to the client.
    pub fn meaning(self) -> Meaning {
        use StatusCode as Is;
        match self {
            Fault::BadRequest => Meaning::client(Is::BAD_REQUEST, None, "The request could not be understood."),
            Fault::MethodNotAllowed => Meaning::client(Is::METHOD_NOT_ALLOWED, None, "This method is not forwarded."),
            Fault::ClientTimeout => Meaning::client(Is::REQUEST_TIMEOUT, None, "The request took too long to arrive."),
            Fault::BodyTooLarge => {
                // what gRPC libraries say themselves of a message over their size limit
                Meaning::client(
                    Is::PAYLOAD_TOO_LARGE,
                    Some(grpc::RESOURCE_EXHAUSTED),
                    "The request's body is too large.",
                )
            }
            Fault::TargetTooLong => Meaning::client(Is::URI_TOO_LONG, None, "The request's target is too long."),
            Fault::ExpectationFailed => Meaning::client(Is::EXPECTATION_FAILED, None, "The expectation cannot be met."),
            Fault::HeadTooLarge => {
                Meaning::client(Is::REQUEST_HEADER_FIELDS_TOO_LARGE, None, "The request's header fields are too large.")
            }
            Fault::VersionUnsupported => {
                Meaning::client(Is::HTTP_VERSION_NOT_SUPPORTED, None, "This version of HTTP is not spoken here.")
            }
            Fault::ClientGone => Meaning {
                // nginx's number; the registry has none for an answer that nobody reads
                status: Is::from_u16(499).unwrap_or(Is::BAD_REQUEST),
                problem: Problem::Blank,
                detail: "The client closed the connection.",
                proxy_error: ProxyError::plain("connection_terminated"),
                grpc: None,
            },
            Fault::Internal => Meaning {
                status: Is::INTERNAL_SERVER_ERROR,
                problem: Problem::Blank,
                detail: "The request could not be served because of a mistake on this side.",
                proxy_error: ProxyError::plain("proxy_internal_error"),
                grpc: Some(grpc::INTERNAL),
            },
            Fault::OriginRefused => Meaning::origin(Is::BAD_GATEWAY, "connection_refused", UNREACHABLE),
            Fault::OriginUnreachable => Meaning::origin(Is::BAD_GATEWAY, "destination_ip_unroutable", UNREACHABLE),
            Fault::OriginTls => Meaning::origin(Is::BAD_GATEWAY, "tls_protocol_error", UNREACHABLE),
            Fault::OriginClosed => Meaning::origin(
                Is::BAD_GATEWAY,
                "connection_terminated",
                "The server broke off before it had answered.",
            ),
            Fault::OriginGarbled => {
                Meaning::origin(Is::BAD_GATEWAY, "http_protocol_error", "The server's answer could not be understood.")
            }
            Fault::NoOriginAddress => {
                Meaning::origin(Is::SERVICE_UNAVAILABLE, "destination_unavailable", "The server is not available now.")
            }
            Fault::OriginConnectTimeout => {
                Meaning::origin(Is::GATEWAY_TIMEOUT, "connection_timeout", "The server could not be reached in time.")
            }
            Fault::OriginTimeout => {
                Meaning::origin(Is::GATEWAY_TIMEOUT, "http_response_timeout", "The server did not answer in time.")
            }
            Fault::BuffersFull => Meaning {
                status: Is::SERVICE_UNAVAILABLE,
                problem: Problem::Blank,
                detail: "The server has no room for this body at the moment.",
                proxy_error: ProxyError::plain("proxy_internal_response"),
                grpc: Some(grpc::RESOURCE_EXHAUSTED),
            },
        }
    }
}

/// A head that the connection layer refuses, as an answer.
impl From<HeadFault> for Fault {
    fn from(fault: HeadFault) -> Fault {
        match fault {
            HeadFault::MethodRefused => Fault::MethodNotAllowed,
            HeadFault::Late => Fault::ClientTimeout,
            HeadFault::TargetTooLong => Fault::TargetTooLong,
            HeadFault::Expectation => Fault::ExpectationFailed,
            HeadFault::TooLarge | HeadFault::TooManyFields => Fault::HeadTooLarge,
            HeadFault::VersionUnsupported => Fault::VersionUnsupported,
            HeadFault::Method
            | HeadFault::Blank
            | HeadFault::Target
            | HeadFault::TargetForm
            | HeadFault::Escape
            | HeadFault::DotSegment
            | HeadFault::EscapedSlash
            | HeadFault::Version
            | HeadFault::LineEnding
            | HeadFault::FieldName
            | HeadFault::FieldValue
            | HeadFault::Folding
            | HeadFault::Host
            | HeadFault::HostMismatch
            | HeadFault::ContentLength
            | HeadFault::TransferEncoding
            | HeadFault::LengthAndEncoding
            | HeadFault::Connection
            | HeadFault::Upgrade
            | HeadFault::UnderscoreTwin
            | HeadFault::Stream => Fault::BadRequest,
        }
    }
}

/// A body that the connection layer cuts short, as an answer.
impl From<BodyFault> for Fault {
    fn from(fault: BodyFault) -> Fault {
        match fault {
            BodyFault::ChunkSize | BodyFault::ChunkExtension | BodyFault::ChunkEnding | BodyFault::Trailer => {
                Fault::BadRequest
            }
            BodyFault::TooLarge => Fault::BodyTooLarge,
            BodyFault::SlowUpload | BodyFault::LateUpload => Fault::ClientTimeout,
            // the answer has begun
            BodyFault::SlowDownload | BodyFault::LateDownload => Fault::ClientGone,
            BodyFault::BuffersFull => Fault::BuffersFull,
        }
    }
}

const UNREACHABLE: &str = "The server could not be reached.";

/// What a refusal means to the client. `own`: what the operator says of its answer, the status among it.
pub fn meaning(refusal: Refusal, own: &Own<'_>) -> Meaning {
    let busy = own.status().unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    match refusal {
        Refusal::Limit => over_quota(own, "Too many requests."),
        Refusal::Concurrency => over_quota(own, "Too many requests at once."),
        // the client must learn that asking again is what keeps it out
        Refusal::Penalty => Meaning {
            problem: Problem::AbnormalUsage,
            ..over_quota(own, "Too many requests, and those that are refused count too.")
        },
        // all exact counters are of the gate, a route or an origin, so they tell of capacity and not of the client; and who
        // is among the heaviest when there is too little for all has not broken any promise of its own
        Refusal::Inflight | Refusal::FairShare | Refusal::Overload => {
            Meaning { problem: Problem::ReducedCapacity, ..Meaning::origin(busy, "proxy_internal_response", BUSY) }
        }
        Refusal::OriginFull => {
            Meaning { problem: Problem::ReducedCapacity, ..Meaning::origin(busy, "connection_limit_reached", BUSY) }
        }
        // our fault, and nothing that the client did (no 429): who asks again soon may find the store back
        Refusal::StoreSilent => Meaning::origin(busy, "proxy_internal_error", BUSY),
        // The request lacks a header, cookie or parameter that this service asks for. Not 401, which must say how to
        // authenticate, and not 403, which would say that sending it does not help. Which one it is stays inside: who
        // may come has been told.
        Refusal::KeyMissing => Meaning::client(
            StatusCode::BAD_REQUEST,
            Some(grpc::INVALID_ARGUMENT),
            "The request lacks something that this service needs to tell its clients apart.",
        ),
        Refusal::AmbiguousValue => Meaning::client(
            StatusCode::BAD_REQUEST,
            Some(grpc::INVALID_ARGUMENT),
            "The request has several values where this service needs one.",
        ),
        Refusal::RepeatedField => Meaning::client(
            StatusCode::BAD_REQUEST,
            Some(grpc::INVALID_ARGUMENT),
            "The request repeats a header field that may stand in it once.",
        ),
        Refusal::NominatedField => Meaning::client(
            StatusCode::BAD_REQUEST,
            Some(grpc::INVALID_ARGUMENT),
            "The request's Connection field names a field that must reach the server.",
        ),
        Refusal::NoRoute => {
            Meaning::client(StatusCode::NOT_FOUND, Some(grpc::UNIMPLEMENTED), "There is nothing under this address.")
        }
        Refusal::ClientUnresolved => Meaning::client(
            StatusCode::BAD_REQUEST,
            Some(grpc::INVALID_ARGUMENT),
            "The request's forwarding header could not be understood.",
        ),
        Refusal::ValueTooLong => Meaning::client(
            StatusCode::BAD_REQUEST,
            Some(grpc::INVALID_ARGUMENT),
            "A header field or parameter of the request is too long.",
        ),
        // nothing about the reason or the end: both are for the operator
        Refusal::Banned | Refusal::Denied => Meaning::client(
            StatusCode::FORBIDDEN,
            Some(grpc::PERMISSION_DENIED),
            "This client may not use the service.",
        ),
    }
}

const BUSY: &str = "The service is busy.";

/// A limit of the client's own.
fn over_quota(own: &Own<'_>, detail: &'static str) -> Meaning {
    Meaning {
        problem: Problem::QuotaExceeded,
        ..Meaning::client(own.status().unwrap_or(StatusCode::TOO_MANY_REQUESTS), Some(grpc::RESOURCE_EXHAUSTED), detail)
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// The status for clients of HTTP.
    pub status: StatusCode,
    /// The problem's type.
    pub problem: Problem,
    /// What happened, in a sentence.
    pub detail: &'static str,
    /// The error in `Proxy-Status`.
    pub proxy_error: ProxyError,
    /// The status for clients of gRPC; `None` where HTTP itself was not understood, so that nothing may be built on it.
    pub grpc: Option<u8>,
}

impl Meaning {
    /// Something about the request.
    fn client(status: StatusCode, grpc: Option<u8>, detail: &'static str) -> Meaning {
        let proxy_error = ProxyError { token: "http_request_error", with_status: true };
        Meaning { status, problem: Problem::Blank, detail, proxy_error, grpc }
    }

    /// Something behind the gate; to gRPC, worth another try.
    fn origin(status: StatusCode, error: &'static str, detail: &'static str) -> Meaning {
        let proxy_error = ProxyError::plain(error);
        Meaning { status, problem: Problem::Blank, detail, proxy_error, grpc: Some(grpc::UNAVAILABLE) }
    }

    /// The status's own phrase.
    pub fn phrase(&self) -> &'static str {
        match self.status.as_u16() {
            499 => "Client Closed Request",
            _ => self.status.canonical_reason().unwrap_or("Refused"),
        }
    }

    /// The problem's title: the type's own, or the status's phrase, as RFC 9457 §4.2.1 asks of `about:blank`.
    pub fn title(&self) -> &'static str {
        match self.problem {
            Problem::QuotaExceeded => "Request cannot be satisfied as assigned quota has been exceeded",
            Problem::AbnormalUsage => "Request not satisfied due to detection of abnormal request pattern",
            Problem::ReducedCapacity => "Request cannot be satisfied due to temporary server capacity constraints",
            Problem::Blank => self.phrase(),
        }
    }
}

/// A problem's type (RFC 9457 §3.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The client is over a quota.
    QuotaExceeded,
    /// The client goes on although it is refused.
    AbnormalUsage,
    /// There is no room, whoever asks.
    ReducedCapacity,
    /// Nothing beyond the status.
    Blank,
}

impl Problem {
    /// Whether it lies with the client, so that the answer names the limits that were violated.
    pub fn is_of_a_limit(self) -> bool {
        matches!(self, Problem::QuotaExceeded | Problem::AbnormalUsage)
    }

    /// Its URI.
    pub fn uri(self) -> &'static str {
        match self {
            Problem::QuotaExceeded => "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Problem::AbnormalUsage => "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
            Problem::ReducedCapacity => "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            Problem::Blank => "about:blank",
        }
    }
}

/// An error type of RFC 9209 §2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyError {
    /// Its registered name.
    pub token: &'static str,
    /// Whether it takes the status as `status-code`.
    pub with_status: bool,
}

impl ProxyError {
    fn plain(token: &'static str) -> ProxyError {
        ProxyError { token, with_status: false }
    }
}

/// The gRPC statuses in use.
mod grpc {
    pub const INVALID_ARGUMENT: u8 = 3;
    pub const PERMISSION_DENIED: u8 = 7;
    pub const RESOURCE_EXHAUSTED: u8 = 8;
    pub const UNIMPLEMENTED: u8 = 12;
    pub const INTERNAL: u8 = 13;
    pub const UNAVAILABLE: u8 = 14;
}
