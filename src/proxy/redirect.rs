//! A listener with `redirect: https` serves nothing itself: it sends each client to the same address by TLS.
//!
//! It does so before any limit is asked, as a redirect costs less than a decision. One exception: a request below [`CHALLENGES`] that some
//! route takes goes to that route. Such requests prove to a certificate authority who has the host (RFC 8555 section 8.3)
//! and hold nothing secret. Routes by client do not count, as authorities come from anywhere. Without a route they are redirected too, and authorities follow.

use super::context::RequestContext;
use crate::answer::{self, Answer, Form};
use crate::request::Request;
use crate::running::process::Process;

/// Where authorities look for the answers to their challenges.
pub const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// Returns the answer to a request if its listener redirects. `form` is asked only where the request cannot be redirected.
pub fn answer(
    process: &Process,
    context: &RequestContext,
    request: &Request<'_>,
    form: impl FnOnce() -> Form,
) -> Option<Answer> {
    let redirect = process.settings.listeners.get(context.listener)?.redirect?;
    let routes = &context.generation.engine().policy().routes;
    if request.path.starts_with(CHALLENGES) && routes.find(request, None).is_ok_and(|found| found.is_some()) {
        return None;
    }
    Some(
        answer::to_https(request, redirect.port)
            .unwrap_or_else(|fault| answer::fault(fault, &context.words(form(), None))),
    )
}
