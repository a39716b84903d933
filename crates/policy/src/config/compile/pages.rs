//! `telemetry.metrics`, `admin`: what operators read, each on an address of its own.

use std::net::SocketAddr;

use super::clash::clash;
use super::context::Context;
use crate::config::fault::{Code, Diagnostic};
use crate::config::pattern::HostPattern;
use crate::config::read::Field;
use crate::config::schema::File;
use crate::config::secret;
use crate::config::settings::{AdminPage, ListenOn, Listener, MetricsPage};
use crate::config::shape::{Either, OneOrMany};
use crate::config::span::Span;
use crate::policy::route::HostMatch;

/// The metrics page.
pub fn metrics(file: &File, sockets: &[(Listener, Span)], context: &mut Context<'_>) -> Option<MetricsPage> {
    let at = file.telemetry.value()?.metrics.get()?;
    let (page, address) = (&at.value, at.value.address());
    let place = page.address.get().map_or(at.span, |own| own.span);
    own_address("the metrics page wants", address, place, sockets, context);
    Some(MetricsPage { address, path: page.path(), hosts: hosts(&page.hosts) })
}

/// Where the admin endpoints can be read.
pub fn admin(
    file: &File,
    sockets: &[(Listener, Span)],
    metrics: Option<&MetricsPage>,
    context: &mut Context<'_>,
) -> Option<AdminPage> {
    let at = file.admin.get()?;
    let (address, place, long) = match &at.value {
        Either::Short(address) => (address.0, at.span, None),
        Either::Long(long) => {
            let address = long.address.get()?;
            (address.value.0, address.span, Some(long))
        }
    };
    let token = long.map(|long| &long.token);
    own_address("`admin` wants", address, place, sockets, context);
    if metrics.is_some_and(|metrics| clash(&ListenOn::Ip(metrics.address), &ListenOn::Ip(address))) {
        let fault = Diagnostic::error(Code::ADDRESS_CLASH, place, format!("`admin` wants {address}, which is taken"));
        context.faults.push(fault.label("the metrics page has it"));
    }
    let given = token.is_some_and(|token| token.is_present());
    if !address.ip().is_loopback() && !given {
        context.faults.push(
            Diagnostic::error(Code::OPEN_ADMIN, place, format!("{address} can be reached from elsewhere"))
                .label("needs a `token`, or an address of this machine alone")
                .help("write `admin: 127.0.0.1:9901`, or `admin: { address: …, token: { file: PATH } }`"),
        );
    }
    let token = token.and_then(|token| token.get()).and_then(|token| secret::secret(token, context));
    let open = long.and_then(|long| long.open.get()).filter(|open| open.value);
    if let Some(open) = open {
        context.faults.push(match given {
            true => Diagnostic::error(Code::CONFLICT, open.span, "both `token` and `open`")
                .label("with a token nothing is open")
                .help("remove one of them"),
            false => Diagnostic::new(
                Code::OPEN_PAGE,
                open.span,
                "each user of this machine can read clients and configuration",
            )
            .label("nobody is asked for a token")
            .help("write `token: { file: PATH }` in its place, or remove it: the admin socket asks for nothing either"),
        });
    }
    Some(AdminPage {
        address,
        token,
        open: open.is_some(),
        hosts: long.map(|long| hosts(&long.hosts)).unwrap_or_default(),
    })
}

fn hosts(field: &Field<OneOrMany<HostPattern>>) -> Vec<HostMatch> {
    field.value().into_iter().flat_map(|list| &list.0.items).map(|item| item.value.0.clone()).collect()
}

/// Reports an address that a listener has.
fn own_address(
    who_wants: &str,
    address: SocketAddr,
    at: Span,
    sockets: &[(Listener, Span)],
    context: &mut Context<'_>,
) {
    let taken = sockets.iter().find(|(listener, _)| clash(&listener.address, &ListenOn::Ip(address)));
    if let Some((listener, place)) = taken {
        context.faults.push(
            Diagnostic::error(Code::ADDRESS_CLASH, at, format!("{who_wants} {address}, which is taken"))
                .label("needs an address of its own")
                .related(*place, format!("by `{}`", listener.name)),
        );
    }
}
