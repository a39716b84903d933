//! How much time and space a connection may take, as its listener says.

use std::time::Duration;

use super::h2;
use super::min_rate::MinRate;
use crate::config::settings::{ListenOn, Listener, Protocols};
use crate::units;
use tidegate_http::head::HeadLimits;

/// How much time and space a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Of TLS: from the first byte to the end of the handshake.
    pub handshake_deadline: Duration,
    /// Size of a head.
    pub head: HeadLimits,
    /// From the first byte of a head to its end; for the first head of a connection, from its start.
    pub head_deadline: Duration,
    /// From the end of an answer to the first byte of the next request.
    pub idle: Duration,
    /// The same once the process is stopping.
    pub idle_while_draining: Duration,
    /// Requests on one connection.
    pub requests: u32,
    /// After this long the next answer is the last, and HTTP/2 takes no new requests; `None`: never.
    pub lifetime: Option<Duration>,
    /// The least speed of request bodies.
    pub least_rate: MinRate,
    /// How long a whole one may take; `None`: any time.
    pub body_time: Option<Duration>,
    /// The least speed at which answers are taken.
    pub least_answer_rate: MinRate,
    /// How long a whole one may take; `None`: any time.
    pub answer_time: Option<Duration>,
    /// After the last answer: how long the client may go on sending before it is cut off.
    pub linger: Duration,
    /// And how much.
    pub linger_bytes: usize,
    /// What is spoken.
    pub protocols: Protocols,
    /// What is particular to HTTP/2.
    pub h2: h2::Limits,
}

impl ConnectionLimits {
    /// As the operator says, who finds the reasons of the defaults there.
    pub fn of(listener: &Listener) -> ConnectionLimits {
        let Listener { connections, request_head, request_body, response, .. } = listener;
        let bytes = |size: units::Bytes| usize::try_from(size.0).unwrap_or(usize::MAX);
        ConnectionLimits {
            handshake_deadline: connections.handshake_deadline,
            head: HeadLimits {
                bytes: bytes(request_head.size),
                request_line: bytes(request_head.line),
                fields: usize::try_from(request_head.fields).unwrap_or(usize::MAX),
                twins: request_head.underscore_twins,
                escaped_slash: request_head.escaped_slash,
            },
            head_deadline: request_head.timeout,
            idle: connections.idle,
            // a busy client sends its next request within this and is told to close; an idle one loses nothing
            idle_while_draining: connections.idle.min(Duration::from_secs(1)),
            requests: connections.requests,
            lifetime: connections.lifetime,
            least_rate: MinRate { grace: request_body.grace, bytes_per_second: request_body.least_rate },
            body_time: request_body.timeout,
            least_answer_rate: MinRate { grace: response.grace, bytes_per_second: response.least_rate },
            answer_time: response.timeout,
            linger: connections.linger,
            linger_bytes: 64 * 1024,
            protocols: listener.protocols,
            h2: h2::Limits::from(&listener.h2),
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits::of(&Listener::new("", ListenOn::Systemd(String::new())))
    }
}
