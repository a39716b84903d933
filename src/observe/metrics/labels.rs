//! Label values that no policy gives: fixed lists of reasons, faults and refusals, with their words.

use crate::client::{Client, Mark, Source};
use crate::edge::tls::secure::TlsVersion;
use crate::engine::Refusal;
use tidegate_http::fault::{BodyFault, HeadFault};

/// How an attempt at an origin failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginError {
    /// No address is known for the name.
    Resolve,
    /// No connection: refused, unreachable, or not in time.
    Connect,
    /// Connected, then silent for too long.
    Timeout,
    /// Closed or reset before the answer was complete.
    Reset,
    /// No trust, or no agreement on the protocol.
    Tls,
    /// A line of the answer's head is malformed.
    AnswerHead,
    /// The answer's lengths and codings contradict each other or what its status allows.
    AnswerFraming,
    /// A chunk or trailer is malformed.
    AnswerChunks,
    /// The answer's head is too large.
    AnswerSize,
    /// Too many interim answers.
    AnswerInterim,
    /// A switch of protocols that nobody asked for.
    AnswerSwitch,
    /// Bytes came before the request was sent.
    Unasked,
    /// Bytes came behind an answer that was passed on; counted once per connection given up for them.
    Surplus,
    /// The answer was no HTTP in another way.
    Invalid,
    /// Anything else.
    Other,
}

/// Reasons for which a request's form is refused, in the words of the connection layer.
pub(in crate::observe) fn malformed_reasons() -> impl Iterator<Item = &'static str> {
    HeadFault::ALL
        .iter()
        .map(|fault| fault.reason())
        .chain(BodyFault::ALL.iter().map(|fault| fault.reason()))
        .chain(["other"])
}

/// Reasons for which a connection was refused or closed before a request.
pub const CONNECTION_REASONS: &[&str] = &[
    "accept_failed",
    "full",
    "per_client",
    "handshakes",
    "listed",
    "penalty",
    "overload",
    "proxy_untrusted",
    "proxy_missing",
    "proxy_invalid",
    "proxy_late",
    "other",
];

/// Reasons for which a request got no place at an origin: cap reached without a queue, others in the queue lighter, wait over, client gone; or
/// let go of it for others, as its client kept it idle.
pub const SHED_REASONS: &[&str] = &["full", "pushed_out", "queue_timeout", "client_left", "gave_way"];

/// Reasons for which a request got no unit of a `fair_share`: others in the queue lighter, wait over.
pub(super) const RATE_REASONS: &[&str] = &["rate_pushed_out", "rate_timeout"];

/// Handshakes by version and by whether a ticket was resumed, most frequent first.
pub(super) const TLS_KINDS: [(TlsVersion, bool); 4] =
    [(TlsVersion::Tls13, false), (TlsVersion::Tls13, true), (TlsVersion::Tls12, false), (TlsVersion::Tls12, true)];

/// Pairs each word with itself as its label.
pub(super) fn known(words: &'static [&'static str]) -> impl Iterator<Item = (&'static str, &'static str)> {
    words.iter().map(|word| (*word, *word))
}

/// The route label of requests that no route took.
pub(super) const UNMATCHED: &str = "_none";

/// Failed attempts with their words.
pub(super) const ORIGIN_ERRORS: [(OriginError, &str); 15] = [
    (OriginError::Resolve, "resolve"),
    (OriginError::Connect, "connect"),
    (OriginError::Timeout, "timeout"),
    (OriginError::Reset, "reset"),
    (OriginError::Tls, "tls"),
    (OriginError::AnswerHead, "answer_head"),
    (OriginError::AnswerFraming, "answer_framing"),
    (OriginError::AnswerChunks, "answer_chunks"),
    (OriginError::AnswerSize, "answer_size"),
    (OriginError::AnswerInterim, "answer_interim"),
    (OriginError::AnswerSwitch, "answer_switch"),
    (OriginError::Unasked, "unasked"),
    (OriginError::Surplus, "surplus"),
    (OriginError::Invalid, "invalid"),
    (OriginError::Other, "other"),
];

/// Refusals, most frequent first, so that a flood finds its counter at once.
pub(super) const REFUSALS: [Refusal; 17] = [
    Refusal::Limit,
    Refusal::FairShare,
    Refusal::Banned,
    Refusal::Denied,
    Refusal::Penalty,
    Refusal::OriginFull,
    Refusal::Overload,
    Refusal::StoreSilent,
    Refusal::Concurrency,
    Refusal::Inflight,
    Refusal::NoRoute,
    Refusal::KeyMissing,
    Refusal::AmbiguousValue,
    Refusal::RepeatedField,
    Refusal::NominatedField,
    Refusal::ClientUnresolved,
    Refusal::ValueTooLong,
];

/// How a client's address was found, most frequent first, with `source` and `result`.
pub(super) const CLIENTS: [(Found, &str, &str); 9] = [
    (Found::Peer(Mark::Verified), "peer", "verified"),
    (Found::Forwarded(Mark::Verified), "forwarded", "verified"),
    (Found::Conveyed, "proxy_protocol", "verified"),
    (Found::HeaderIgnored, "peer", "ignored_header"),
    (Found::Peer(Mark::Short), "peer", "short"),
    (Found::Peer(Mark::Degraded), "peer", "degraded"),
    (Found::Forwarded(Mark::Degraded), "forwarded", "degraded"),
    (Found::Forwarded(Mark::AllTrusted), "forwarded", "all_trusted"),
    (Found::Rejected, "forwarded", "rejected"),
];

/// How a client's address was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Peer(Mark),
    Conveyed,
    HeaderIgnored,
    Forwarded(Mark),
    Rejected,
}

impl Found {
    pub(super) fn of(client: Option<&Client>, conveyed: bool) -> Found {
        let Some(client) = client else { return Found::Rejected };
        match client.source {
            Source::Peer if client.ignored_header => Found::HeaderIgnored,
            Source::Peer if conveyed && client.mark == Mark::Verified => Found::Conveyed,
            Source::Peer => Found::Peer(client.mark),
            Source::Forwarded => Found::Forwarded(client.mark),
        }
    }
}
