//! What the connection layer reports, counted, and the answers to heads that never become a request.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};

use super::{early, written};
use crate::answer::{self, Answer, Context, Fault, Form};
use crate::edge::common::{Early, EdgeEvents};
use crate::edge::door::Door;
use crate::edge::link::Link;
use crate::edge::tls::handshake::HandshakeFault;
use crate::edge::tls::secure::Secure;
use crate::observe::client_errors::About;
use crate::proxy::exchange::Exchange;
use crate::proxy::observe::{self, Ended};
use crate::request::Peer;
use crate::running::process::Shared;
use crate::system::descriptors;
use tidegate_http::fault::{BodyFault, HeadFault};
use tidegate_http::glimpse::Glimpse;
use tidegate_http::h2::frames::Abuse;
use tidegate_http::head::Head;

/// The events of one listener.
pub struct Events {
    shared: Arc<Shared>,
    listener: usize,
    door: Option<Arc<Door>>,
}

impl Events {
    /// Events of the listener at this position in the settings.
    pub fn new(shared: Arc<Shared>, listener: usize) -> Events {
        Events { shared, listener, door: None }
    }

    /// The same with somebody who decides which connections are let in.
    pub fn with_door(self, door: Arc<Door>) -> Events {
        Events { door: Some(door), ..self }
    }
}

impl Events {
    /// Counts a refused head, writes it down and answers it.
    fn answer(&self, fault: HeadFault, form: Form, glimpse: &Glimpse<'_>) -> Answer {
        let installed = self.shared.installed();
        let policy = installed.snapshot().policy();
        let context = Context { policy, decision: None, fields: None, form, wall_unix_nanos: 0 };
        let answer = answer::fault(meant(fault), &context);
        self.tell(fault, glimpse, answer.body.len() as u64);
        answer
    }

    /// Counts a refused head and writes it down: its answer has so many bytes of body.
    fn tell(&self, fault: HeadFault, glimpse: &Glimpse<'_>, bytes_out: u64) {
        let mut exchange = Exchange::new(self.shared.installed(), self.shared.clock.now());
        exchange.listener = self.listener;
        exchange.installed.metrics().malformed(fault.reason());
        let end = Ended {
            protocol: glimpse.protocol,
            method: glimpse.method,
            host: glimpse.host,
            path: glimpse.path,
            status: fault.status(),
            bytes_out,
            head_fault: Some(fault),
        };
        observe::done(&self.shared, &exchange, &end);
    }
}

impl EdgeEvents for Events {
    fn connection_opened(&self) {
        self.shared.installed().metrics().connection_opened(self.listener);
    }

    fn connection_closed(&self) {
        self.shared.installed().metrics().connection_closed(self.listener);
    }

    fn accept_failed(&self, error: &io::Error) {
        if descriptors::is_exhaustion(error) {
            descriptors::stopped();
        }
        self.shared.installed().metrics().connection_refused(self.listener, "accept_failed");
    }

    fn accept_paused(&self) {
        self.shared.installed().metrics().accept_paused(self.listener);
    }

    fn handshake(&self, secure: &Secure) {
        self.shared.installed().metrics().handshake(self.listener, secure);
    }

    fn handshake_failed(&self, fault: HandshakeFault, peer: Peer, said_nothing: bool) {
        self.shared.installed().metrics().handshake_failed(self.listener, fault);
        // balancers look that way whether somebody listens
        if !(said_nothing && fault == HandshakeFault::Closed) {
            self.shared.noise(self.listener).note(About::Handshake, fault.reason(), peer);
        }
    }

    fn refused(&self, fault: HeadFault, bytes: &[u8]) -> Bytes {
        let glimpse = Glimpse::of_bytes(bytes);
        // a client that sent HEAD would take a body for something else (RFC 9110 section 9.3.2)
        let form = if glimpse.method == "HEAD" { Form::of(&Method::HEAD, &HeaderMap::new()) } else { Form::UNKNOWN };
        written::bytes(&self.answer(fault, form, &glimpse), false)
    }

    fn refused_request(&self, fault: HeadFault, head: &Parts) -> Answer {
        self.answer(fault, Form::of(&head.method, &head.headers), &Glimpse::of_parts(head))
    }

    fn refused_elsewhere(&self, fault: HeadFault) {
        self.tell(fault, &Glimpse { protocol: "h2", ..Glimpse::default() }, 0);
    }

    fn abused(&self, abuse: Abuse, peer: Peer) {
        self.shared.installed().metrics().h2_abuse(self.listener, abuse);
        self.shared.noise(self.listener).note(About::Http2, abuse.word(), peer);
    }

    fn early(&self, head: &Head, bytes: &[u8], link: &Link, stay: bool) -> Early {
        early::look(&self.shared, link, head, bytes, stay)
    }

    fn body_refused(&self, fault: BodyFault) {
        self.shared.installed().metrics().malformed(fault.reason());
    }

    fn refuses_escaped_slashes(&self) -> bool {
        self.shared.installed().refuses_escaped_slashes()
    }

    fn noticed(&self, reason: &'static str, peer: Peer) {
        self.shared.noise(self.listener).note(About::Request, reason, peer);
    }

    fn door(&self) -> Option<&Door> {
        self.door.as_deref()
    }
}

/// What a refused head means to the client.
fn meant(fault: HeadFault) -> Fault {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_head_fault_is_answered_with_its_own_status() {
        for fault in HeadFault::ALL {
            assert_eq!(meant(fault).meaning().status.as_u16(), fault.status(), "{fault:?}");
        }
    }
}
