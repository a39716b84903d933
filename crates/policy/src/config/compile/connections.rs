//! What of a listener's connections needs more than its own line: who may connect, and values beside each other.

use std::time::Duration;

use super::client_list::deny;
use super::clients::{WrittenClients, peers};
use super::context::Context;
use super::limits::Limits;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::read::Field;
use crate::config::scalar::duration;
use crate::config::schema;
use crate::config::setting::{Words, values};
use crate::config::settings::{AtAccept, Connections, Listener, ProxyProtocol, RefusedNetworks, RequestHead};
use crate::config::shape::Either;
use crate::config::text::Name;

/// What is said of a listener's connections; `trusted` are the peers that may speak for others.
pub fn connections(
    listener: &schema::Listener,
    out: &mut Listener,
    trusted: &WrittenClients,
    limits: &mut Limits,
    context: &mut Context<'_>,
) {
    out.proxy_protocol = proxy_protocol(&listener.proxy_protocol, trusted, context.faults);
    out.connections = values(&listener.connections);
    out.request_head = values(&listener.request_head);
    out.request_body = values(&listener.request_body);
    out.response = values(&listener.response);
    long_line(&listener.request_head, &out.request_head, context.faults);
    if let Some(body) = listener.request_body.value() {
        long_grace(&body.grace, out.request_body.timeout, context.faults);
    }
    if let Some(response) = listener.response.value() {
        long_grace(&response.grace, out.response.timeout, context.faults);
    }
    out.deny = deny(&listener.deny, context);
    if let Some(own) = listener.connections.value() {
        if let Some(refuse) = own.refuse.get() {
            let found = peers("`refuse`", &refuse.value, refuse.span, false, context);
            out.refuse = RefusedNetworks { networks: found.networks, unix: found.unix };
        }
        out.refuse_at_accept = at_accept(&own.refuse_at_accept, limits, context.faults);
        idle_words(own, listener, out, context.faults);
    }
}

fn proxy_protocol(field: &Field<ProxyProtocol>, trusted: &WrittenClients, faults: &mut Faults) -> ProxyProtocol {
    let Some(at) = field.get() else { return ProxyProtocol::Off };
    if trusted.networks.is_empty() && !trusted.unix {
        let help = "name the proxies in `trusted_proxies`, which may be `[10.0.0.5]`";
        match at.value {
            ProxyProtocol::Off => {}
            ProxyProtocol::Required => faults.push(
                Diagnostic::error(Code::CONFLICT, at.span, "`proxy_protocol: required` without `trusted_proxies`")
                    .label("nobody may send the header, so every connection would be closed")
                    .help(help),
            ),
            ProxyProtocol::Optional => faults.push(
                Diagnostic::new(Code::IDLE_WORD, at.span, "`proxy_protocol: optional` without `trusted_proxies`")
                    .label("nobody may send the header, so it is never read")
                    .help(help),
            ),
        }
    }
    at.value
}

fn long_line(field: &Field<Words<RequestHead>>, head: &RequestHead, faults: &mut Faults) {
    if let Some(line) = field.value().and_then(|own| own.line.get()).filter(|_| head.line > head.size) {
        faults.push(
            Diagnostic::new(Code::IDLE_WORD, line.span, format!("a line of {} in a head of {}", line.shown, head.size))
                .label("the head ends first"),
        );
    }
}

fn long_grace(grace: &Field<Duration>, whole: Option<Duration>, faults: &mut Faults) {
    if let (Some(at), Some(whole)) = (grace.get(), whole)
        && at.value > whole
    {
        faults.push(
            Diagnostic::new(Code::IDLE_WORD, at.span, format!("a grace of {} in {}", at.shown, duration(whole)))
                .label("the time for the whole is over first"),
        );
    }
}

/// Words that another one leaves without effect.
fn idle_words(own: &Words<Connections>, listener: &schema::Listener, out: &Listener, faults: &mut Faults) {
    if let (Some(at), Some(cap)) = (own.per_client.get(), out.connections.per_client)
        && cap > out.connections.max
    {
        faults.push(
            Diagnostic::new(
                Code::IDLE_WORD,
                at.span,
                format!("{} per client of {} in all", at.shown, out.connections.max),
            )
            .label("the listener is full first"),
        );
    }
    let head = listener.request_head.value().and_then(|head| head.timeout.get());
    if let (Some(at), Some(lifetime)) = (own.lifetime.get(), out.connections.lifetime)
        && out.request_head.timeout > lifetime
    {
        let fault = Diagnostic::new(
            Code::IDLE_WORD,
            at.span,
            format!(
                "a lifetime of {}, below the {} that a head may take",
                at.shown,
                duration(out.request_head.timeout)
            ),
        )
        .label("shorter than a single head may take");
        faults.push(match head {
            Some(head) => fault.related(head.span, "the time for a head"),
            None => fault,
        });
    }
}

fn at_accept(
    field: &Field<Either<Name, schema::RefuseAtAccept>>,
    limits: &mut Limits,
    faults: &mut Faults,
) -> Option<AtAccept> {
    let at = field.get()?;
    let (name, above) = match &at.value {
        Either::Short(name) => (at.with(name.0.clone()), schema::RefuseAtAccept::default().above()),
        Either::Long(long) => {
            let name = long.limit.get()?;
            (name.with(name.value.0.clone()), long.above())
        }
    };
    let index = limits.find("listener", &name, faults)?;
    if limits.rule(index).is_some_and(|rule| !rule.keeps_out()) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, name.span, format!("{} cannot refuse connections", name.shown))
                .label("does not refuse every request of a client alike, or not for long")
                .help(
                    "needs `type: recent_average` with `count: all` and `key: client_ip`, enforced for all, without tiers, \
                     exceptions, `delay` and `tag`",
                ),
        );
    }
    Some(AtAccept { limit: name.value, above })
}
