//! Counts and logs what the edge reports, and answers heads that the edge refuses.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};

use super::{judge, serialize};
use crate::answer::{self, Answer, Fault, Form};
use crate::edge::common::{EdgeEvents, HeadVerdict};
use crate::edge::connection_info::ConnectionInfo;
use crate::edge::tls::handshake::HandshakeFault;
use crate::edge::tls::secure::Secure;
use crate::observe::client_errors::About;
use crate::proxy::context::RequestContext;
use crate::proxy::observe::{self, Ended};
use crate::request::Peer;
use crate::running::process::Process;
use crate::system::descriptors;
use tidegate_http::fault::{BodyFault, HeadFault};
use tidegate_http::glimpse::Glimpse;
use tidegate_http::h2::frames::Violation;
use tidegate_http::head::Head;

/// Hears the events of one listener.
pub struct Events {
    process: Arc<Process>,
    listener: usize,
}

impl Events {
    /// Returns the events of the listener at this position in the settings.
    pub fn new(process: Arc<Process>, listener: usize) -> Events {
        Events { process, listener }
    }
}

impl Events {
    /// Counts and logs a refused head, and answers it.
    fn answer(&self, fault: HeadFault, form: Form, glimpse: &Glimpse<'_>) -> Answer {
        let context = self.context();
        let answer = answer::fault(fault.into(), &context.words(form, None));
        self.done(&context, fault, glimpse, answer.body.len() as u64);
        answer
    }

    /// Counts and logs a refused head whose answer has a body of this size.
    fn done(&self, context: &RequestContext, fault: HeadFault, glimpse: &Glimpse<'_>, bytes_out: u64) {
        context.generation.metrics().malformed(fault.reason());
        let end = Ended {
            protocol: glimpse.protocol,
            method: glimpse.method,
            host: glimpse.host,
            path: glimpse.path,
            status: Fault::from(fault).meaning().status.as_u16(),
            bytes_out,
            head_fault: Some(fault),
        };
        observe::done(&self.process, context, &end);
    }

    /// A request of which no more is known than that it came now.
    fn context(&self) -> RequestContext {
        let mut context = RequestContext::new(self.process.generation(), self.process.clock.now());
        context.listener = self.listener;
        context
    }
}

impl EdgeEvents for Events {
    fn connection_opened(&self) {
        self.process.generation().metrics().connection_opened(self.listener);
    }

    fn connection_closed(&self) {
        self.process.generation().metrics().connection_closed(self.listener);
    }

    fn accept_failed(&self, error: &io::Error) {
        if descriptors::is_exhaustion(error) {
            descriptors::stopped();
        }
        self.process.generation().metrics().connection_refused(self.listener, "accept_failed");
    }

    fn accept_paused(&self) {
        self.process.generation().metrics().accept_paused(self.listener);
    }

    fn handshake(&self, secure: &Secure) {
        self.process.generation().metrics().handshake(self.listener, secure);
    }

    fn handshake_failed(&self, fault: HandshakeFault, peer: Peer, said_nothing: bool) {
        self.process.generation().metrics().handshake_failed(self.listener, fault);
        // balancers check so that the port is open
        if !(said_nothing && fault == HandshakeFault::Closed) {
            self.process.noise(self.listener).note(About::Handshake, fault.reason(), peer);
        }
    }

    fn refused(&self, fault: HeadFault, bytes: &[u8]) -> Bytes {
        let glimpse = Glimpse::of_bytes(bytes);
        // a client that sent HEAD would take a body for something else (RFC 9110 section 9.3.2)
        let form = if glimpse.method == "HEAD" { Form::of(&Method::HEAD, &HeaderMap::new()) } else { Form::UNKNOWN };
        serialize::written(&self.answer(fault, form, &glimpse), false, Vec::new()).parts().concat().into()
    }

    fn refused_request(&self, fault: HeadFault, head: &Parts) -> Answer {
        self.answer(fault, Form::of(&head.method, &head.headers), &Glimpse::of_parts(head))
    }

    fn refused_elsewhere(&self, fault: HeadFault) {
        self.done(&self.context(), fault, &Glimpse { protocol: "h2", ..Glimpse::default() }, 0);
    }

    fn abused(&self, abuse: Violation, peer: Peer) {
        self.process.generation().metrics().h2_abuse(self.listener, abuse);
        self.process.noise(self.listener).note(About::Http2, abuse.word(), peer);
    }

    fn judge(&self, head: &Head, bytes: &[u8], info: &ConnectionInfo, stay: bool) -> HeadVerdict {
        judge::at_edge(&self.process, info, head, bytes, stay)
    }

    fn body_refused(&self, fault: BodyFault) {
        self.process.generation().metrics().malformed(fault.reason());
    }

    fn refuses_escaped_slashes(&self) -> bool {
        self.process.generation().refuses_escaped_slashes()
    }

    fn noticed(&self, reason: &'static str, peer: Peer) {
        self.process.noise(self.listener).note(About::Request, reason, peer);
    }
}
