//! What all connections of a listener share: limits, and the traits by which the edge asks and reports.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;

use super::connection_info::ConnectionInfo;
use super::limits::ConnectionLimits;
use super::tls::acceptor::Acceptor;
use super::tls::handshake::HandshakeFault;
use super::tls::secure::Secure;
use crate::answer::{Answer, Fault};
use crate::limiter::ConnectionPlace;
use crate::request::Peer;
use tidegate_http::fault::{BodyFault, HeadFault};
use tidegate_http::h2::frames::Violation;
use tidegate_http::head::{Head, HeadLimits};
use tidegate_http::path::EscapedSlash;
use tidegate_http::proxy_protocol::Source;

/// What all connections of a listener share.
pub struct Edge {
    /// Position in the settings of the listener that took them.
    pub listener: usize,
    /// Certificates for TLS; `None`: they speak without.
    pub tls: Option<Arc<Acceptor>>,
    /// Bounds of each connection.
    pub limits: ConnectionLimits,
    /// Decides which connections are let in; `None`: all of them.
    pub filter: Option<Arc<dyn AdmissionFilter>>,
    /// Counts and answers what happens to them.
    pub events: Box<dyn EdgeEvents>,
}

impl Edge {
    /// The limits of the next head. What the listener leaves to the policy follows the policy in force.
    pub fn head_limits(&self) -> HeadLimits {
        let head = self.limits.head;
        let walks_round = head.escaped_slash == EscapedSlash::Auto && self.events.refuses_escaped_slashes();
        HeadLimits { escaped_slash: head.escaped_slash.decided(walks_round), ..head }
    }
}

/// Hears what happens at the edge before and beside requests, counts it and answers it. Called on the request path: must not
/// block.
pub trait EdgeEvents: Send + Sync + 'static {
    /// A connection was accepted.
    fn connection_opened(&self) {}
    /// A connection is closed.
    fn connection_closed(&self) {}
    /// A connection could not be accepted; accepting pauses for a moment.
    fn accept_failed(&self, _error: &std::io::Error) {}
    /// A connection waits for a file descriptor that clients may have, and so do all after it.
    fn accept_paused(&self) {}
    /// A TLS handshake succeeded.
    fn handshake(&self, _secure: &Secure) {}
    /// A TLS handshake failed, and its connection is closed. `said_nothing`: the client sent no byte.
    fn handshake_failed(&self, _fault: HandshakeFault, _peer: Peer, _said_nothing: bool) {}
    /// A head was refused, of which these bytes came. Returns the whole answer: status line, fields with `Content-Length` and
    /// `Connection: close`, and body.
    fn refused(&self, fault: HeadFault, bytes: &[u8]) -> Bytes;
    /// A head that came by HTTP/2 was refused. Returns the answer.
    fn refused_request(&self, fault: HeadFault, _head: &Parts) -> Answer {
        Answer { status: Fault::from(fault).meaning().status, headers: Vec::new(), body: Bytes::new() }
    }
    /// A head was refused by the library for HTTP/2, which answered it with the fault's status and no body, or reset its stream.
    fn refused_elsewhere(&self, _fault: HeadFault) {}
    /// A connection that speaks HTTP/2 was ended for what its client did.
    fn abused(&self, _abuse: Violation, _peer: Peer) {}
    /// Judges a request without a body before the proxy sees it. `bytes` begin with its head. `stay`: the connection may
    /// serve another request after it.
    fn judge(&self, _head: &Head, _bytes: &[u8], _info: &ConnectionInfo, _stay: bool) -> HeadVerdict {
        HeadVerdict::Forward(None)
    }
    /// The transfer of a body was cut short. If an answer is still possible, it is the proxy's to give.
    fn body_refused(&self, _fault: BodyFault) {}
    /// A client did something for which the log has a line a minute, in the word under which it was counted.
    fn noticed(&self, _reason: &'static str, _peer: Peer) {}
    /// Whether the policy in force refuses paths with escaped slashes where the listener leaves it to the policy.
    fn refuses_escaped_slashes(&self) -> bool {
        false
    }
}

/// Decides which connections are let in. Called at accept: must not block.
pub trait AdmissionFilter: Send + Sync + 'static {
    /// Lets a connection from `peer`, folded, in. `None`: it is counted as refused, and the caller closes it.
    fn admit(&self, peer: Peer) -> Option<Entry>;
    /// Returns whether a connection from `peer` begins with a PROXY header.
    fn header(&self, peer: Peer) -> Header;
    /// Decides again, for the client that a PROXY header named. `false`: as for [`AdmissionFilter::admit`].
    fn admit_named(&self, entry: &mut Entry, source: Source) -> bool;
    /// A connection is looked at for the first time, after it waited for so long. `false`: as for [`AdmissionFilter::admit`].
    fn begin(&self, _peer: Peer, _waited: Duration) -> bool {
        true
    }
    /// The listener's accept queue was this full a moment ago, 0 to 1.
    fn note_backlog(&self, _share: f64) {}
    /// Counts a connection from `peer` that the caller closes. `reason` is the word in metrics and log.
    fn refused(&self, reason: &'static str, peer: Peer);
}

/// A connection that was let in. Its places come back when this is dropped.
#[derive(Debug, Default)]
pub struct Entry(pub Option<ConnectionPlace>);

/// Whether a connection begins with a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// Never: its first bytes belong to HTTP or TLS.
    Unread,
    /// Perhaps.
    Optional,
    /// Always.
    Required,
}

/// What to do with a request that was judged at the edge.
pub enum HeadVerdict {
    /// The proxy serves it, and finds its decision, if there is one, in the session's user context.
    Forward(Option<Box<dyn Any + Send + Sync>>),
    /// It is answered with these bytes: a whole answer, with `Connection: close` unless the connection is to stay. It stays only
    /// where it may.
    Answer { bytes: Vec<u8>, stay: bool },
}
