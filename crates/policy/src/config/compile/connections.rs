//! What a listener says about its connections.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::checks::{number32, span};
use super::clients::{WrittenClients, peers};
use super::context::Context;
use super::limits::Limits;
use crate::config::connection_value::{ByteRate, OrNone};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::read::{At, Field, Scalar};
use crate::config::scalar::{Count, duration};
use crate::config::schema::{self, Listener};
use crate::config::settings::{AtAccept, Connections, HeadSize, Pace, ProxyProtocol, RefusedNetworks};
use crate::config::shape::Either;
use crate::config::text::Name;
use crate::units::Bytes;

const MILLIS_100: Duration = Duration::from_millis(100);
const TEN_MINUTES: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(86_400);
const WEEK: Duration = Duration::from_secs(7 * 86_400);
/// What the file may say of counts of connections and requests.
const COUNTS: RangeInclusive<u32> = 1..=1_000_000;

/// The connections of a listener; `trusted` are the peers that may speak for others.
pub fn connections(
    listener: &Listener,
    trusted: &WrittenClients,
    limits: &mut Limits,
    context: &mut Context<'_>,
) -> Connections {
    let mut out = Connections {
        proxy_protocol: proxy_protocol(&listener.proxy_protocol, trusted, context.faults),
        ..Connections::default()
    };
    head(&listener.request_head, &mut out, context.faults);
    if let Some(body) = listener.request_body.value() {
        out.request_body = pace(&body.least_rate, &body.grace, &body.timeout, out.request_body, context.faults);
    }
    if let Some(response) = listener.response.value() {
        out.response = pace(&response.least_rate, &response.grace, &response.timeout, out.response, context.faults);
    }
    if let Some(own) = listener.connections.value() {
        caps(own, &mut out, context.faults);
        if let Some(refuse) = own.refuse.get() {
            let found = peers("`refuse`", &refuse.value, refuse.span, false, context);
            out.refuse = RefusedNetworks { networks: found.networks, unix: found.unix };
        }
        out.refuse_at_accept = at_accept(&own.refuse_at_accept, limits, context.faults);
        idle_words(own, listener, &out, context.faults);
    }
    out
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

fn head(field: &Field<schema::RequestHead>, out: &mut Connections, faults: &mut Faults) {
    let Some(own) = field.value() else { return };
    out.head_timeout = span(&own.timeout, MILLIS_100..=TEN_MINUTES, out.head_timeout, faults);
    out.head = HeadSize {
        bytes: size(&own.size, Bytes(1 << 10)..=Bytes(256 << 10), out.head.bytes, faults),
        line: size(&own.line, Bytes(64)..=Bytes(64 << 10), out.head.line, faults),
        // Pingora's own parser has room for 256, some of which are ours
        fields: number32(&own.fields, 1..=200, out.head.fields, faults),
        twins: own.underscore_twins.value().copied().unwrap_or(out.head.twins),
        escaped_slash: own.escaped_slash.value().copied().unwrap_or(out.head.escaped_slash),
    };
    if let Some(line) = own.line.get().filter(|_| out.head.line > out.head.bytes) {
        faults.push(
            Diagnostic::new(
                Code::IDLE_WORD,
                line.span,
                format!("a line of {} in a head of {}", line.shown, out.head.bytes),
            )
            .label("the head ends first"),
        );
    }
}

fn pace(
    least_rate: &Field<ByteRate>,
    grace: &Field<Duration>,
    timeout: &Field<OrNone<Duration>>,
    default: Pace,
    faults: &mut Faults,
) -> Pace {
    let pace = Pace {
        least_rate: least_rate.value().map_or(default.least_rate, |rate| rate.0),
        grace: span(grace, MILLIS_100..=TEN_MINUTES, default.grace, faults),
        timeout: or_none(timeout, MILLIS_100..=WEEK, default.timeout, duration, faults),
    };
    if let (Some(at), Some(whole)) = (grace.get(), pace.timeout)
        && pace.grace > whole
    {
        faults.push(
            Diagnostic::new(Code::IDLE_WORD, at.span, format!("a grace of {} in {}", at.shown, duration(whole)))
                .label("the time for the whole is over first"),
        );
    }
    pace
}

fn caps(own: &schema::Connections, out: &mut Connections, faults: &mut Faults) {
    out.max = number32(&own.max, COUNTS, out.max, faults);
    let most = Count(u64::from(*COUNTS.end()));
    let default = out.per_client.map(|cap| Count(u64::from(cap)));
    let per_client = or_none(&own.per_client, Count(1)..=most, default, |count| count.0.to_string(), faults);
    out.per_client = per_client.and_then(|count| u32::try_from(count.0).ok());
    out.handshakes = own.handshakes.value().map_or(out.handshakes, |rate| rate.0);
    out.handshake_deadline = span(&own.handshake_deadline, MILLIS_100..=TEN_MINUTES, out.handshake_deadline, faults);
    out.requests = number32(&own.requests, COUNTS, out.requests, faults);
    out.lifetime = or_none(&own.lifetime, MILLIS_100..=WEEK, out.lifetime, duration, faults);
    out.idle = span(&own.idle, MILLIS_100..=DAY, out.idle, faults);
    out.linger = span(&own.linger, Duration::ZERO..=Duration::from_secs(60), out.linger, faults);
}

/// Words that another one leaves without effect.
fn idle_words(own: &schema::Connections, listener: &Listener, out: &Connections, faults: &mut Faults) {
    if let (Some(at), Some(cap)) = (own.per_client.get(), out.per_client)
        && cap > out.max
    {
        faults.push(
            Diagnostic::new(Code::IDLE_WORD, at.span, format!("{} per client of {} in all", at.shown, out.max))
                .label("the listener is full first"),
        );
    }
    let head = listener.request_head.value().and_then(|head| head.timeout.get());
    if let (Some(at), Some(lifetime)) = (own.lifetime.get(), out.lifetime)
        && out.head_timeout > lifetime
    {
        let fault = Diagnostic::new(
            Code::IDLE_WORD,
            at.span,
            format!("a lifetime of {}, below the {} that a head may take", at.shown, duration(out.head_timeout)),
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
        Either::Short(name) => (at.with(name.0.clone()), AtAccept::ABOVE),
        Either::Long(long) => {
            let name = long.limit.get()?;
            (name.with(name.value.0.clone()), span(&long.above, Duration::from_secs(1)..=DAY, AtAccept::ABOVE, faults))
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

/// A size within its range.
pub fn size(field: &Field<Bytes>, range: RangeInclusive<Bytes>, default: Bytes, faults: &mut Faults) -> Bytes {
    let Some(at) = field.get() else { return default };
    within(at, at.value, &range, |bytes| bytes.to_string(), faults).unwrap_or(default)
}

fn or_none<T: Scalar + PartialOrd + Copy>(
    field: &Field<OrNone<T>>,
    range: RangeInclusive<T>,
    default: Option<T>,
    show: impl Fn(T) -> String,
    faults: &mut Faults,
) -> Option<T> {
    let Some(at) = field.get() else { return default };
    within(at, at.value.0?, &range, show, faults).or(default)
}

fn within<A, T: PartialOrd + Copy>(
    at: &At<A>,
    value: T,
    range: &RangeInclusive<T>,
    show: impl Fn(T) -> String,
    faults: &mut Faults,
) -> Option<T> {
    if range.contains(&value) {
        return Some(value);
    }
    faults.push(
        Diagnostic::error(Code::OUT_OF_RANGE, at.span, format!("{} is out of range", at.shown)).label(format!(
            "must be {} to {}",
            show(*range.start()),
            show(*range.end())
        )),
    );
    None
}
