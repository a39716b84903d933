//! A listener with `redirect: https` serves nothing itself: whatever comes is sent to the same address by TLS.
//!
//! It is done before any limit is asked: sending a client away costs less than judging it. One exception: a request below
//! [`CHALLENGES`] that some route takes goes to that route. Such requests prove that whoever asks for a certificate has the host
//! (RFC 8555 section 8.3) and hold nothing secret; without a route they are redirected too, which the authorities follow.

use crate::answer::{self, Answer, Context, Form};
use crate::request::Request;
use crate::running::generation::Installed;
use crate::running::process::Shared;

/// Where authorities look for the answers to their challenges.
pub const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// The answer to a request on the listener at this position in the settings, if that one redirects.
pub fn answer(shared: &Shared, installed: &Installed, listener: usize, request: &Request<'_>) -> Option<Answer> {
    let redirect = shared.settings.listeners.get(listener)?.redirect?;
    let policy = installed.snapshot().policy();
    if request.path.starts_with(CHALLENGES) && policy.routes.find(request).is_ok_and(|found| found.is_some()) {
        return None;
    }
    Some(answer::to_https(request, redirect.port).unwrap_or_else(|fault| {
        let form = Form::of(request.method, request.headers);
        answer::fault(fault, &Context { policy, decision: None, fields: None, form, wall_unix_nanos: 0 })
    }))
}
