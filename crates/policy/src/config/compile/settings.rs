//! `listen`, `listeners`, `telemetry`, `server`, `secrets`: what the process is built from.

use super::checks::out_of_place;
use super::clash::clash;
use super::clients::WrittenClients;
use super::connections::connections;
use super::context::Context;
use super::limits::Limits;
use super::pages;
use super::stores::Stores;
use super::tls::ForAll;
use crate::config::fault::{Code, Diagnostic};
use crate::config::read::Field;
use crate::config::schema::{self, File};
use crate::config::secret;
use crate::config::setting::{Values as _, values};
use crate::config::settings::{AccessLog, ListenOn, Listener, Overload, Protocols, Settings, StateFiles};
use crate::config::shape::Either;
use crate::config::span::Span;
use crate::config::word::{Directory, Off};

/// The settings.
pub fn settings(
    file: &File,
    trusted: &WrittenClients,
    limits: &mut Limits,
    stores: &Stores,
    context: &mut Context<'_>,
) -> Settings {
    let sockets = listeners(file, trusted, limits, context);
    let metrics = pages::metrics(file, &sockets, context);
    let admin = pages::admin(file, &sockets, metrics.as_ref(), context);
    let telemetry = file.telemetry.value();
    let access_log = telemetry.and_then(|telemetry| telemetry.access_log.value());
    let access_log = access_log.map(|log| AccessLog {
        to: log.to(),
        format: log.format(),
        client: log.client(),
        sample: values(&log.sample),
    });
    let server = file.server.value().cloned().unwrap_or_default();
    let key = file.secrets.value().and_then(|secrets| secrets.client_hmac.get());
    let (client_hmac, previous_client_hmac) = key.map_or((None, None), |key| secret::key(key, context));
    Settings {
        listeners: sockets.into_iter().map(|(listener, _)| listener).collect(),
        threads: server.threads(),
        max_buffered: server.max_buffered(),
        direct: server.direct(),
        overload: match server.overload.value() {
            None => Some(Overload::default()),
            Some(Either::Short(Off)) => None,
            Some(Either::Long(words)) => Some(Overload::over(words, &Overload::default())),
        },
        drain: values(&server.drain),
        state: server.state.value().and_then(|state| {
            let Directory(directory) = state.directory.value()?.clone();
            Some(StateFiles { directory, every: state.every(), fsync: state.fsync() })
        }),
        metrics,
        admin,
        access_log,
        log: telemetry.map(|telemetry| values(&telemetry.log)).unwrap_or_default(),
        client_hmac,
        previous_client_hmac,
        store_passwords: stores.passwords(),
        watch: file.watch(),
    }
}

fn listeners(
    file: &File,
    trusted: &WrittenClients,
    limits: &mut Limits,
    context: &mut Context<'_>,
) -> Vec<(Listener, Span)> {
    if let (Some(short), Some(long)) = (file.listen.key(), file.listeners.key()) {
        context.faults.push(
            Diagnostic::error(Code::CONFLICT, short, "both `listen` and `listeners`")
                .label("is short for a listener called `main`")
                .related(long, "the long form"),
        );
    }
    let mut for_all = ForAll::of(file, context);
    let mut sockets: Vec<(Listener, Span)> = Vec::new();
    if let Some(at) = file.listen.get() {
        let tls = for_all.take();
        let protocols = Protocols::by_default(tls.is_some());
        sockets.push((Listener { tls, protocols, ..Listener::new("main", at.value.clone()) }, at.span));
    }
    for entry in file.listeners.value().iter().flat_map(|map| &map.0) {
        let (Some(name), Some(listener)) = (&entry.key, &entry.value) else { continue };
        let at = listener.value.address.get();
        // without an address, which is reported as missing, only what its connections may take is looked at
        let address = at.map_or_else(|| ListenOn::Systemd(String::new()), |at| at.value.clone());
        let mut out = Listener::new(&name.0, address);
        connections(&listener.value, &mut out, trusted, limits, context);
        let Some(at) = at else { continue };
        if let Some((first, place)) = sockets.iter().find(|(known, _)| clash(&known.address, &at.value)) {
            context.faults.push(
                Diagnostic::error(Code::ADDRESS_CLASH, at.span, format!("the address {} is taken", at.shown))
                    .label("cannot be bound a second time")
                    .related(*place, format!("by `{}`", first.name)),
            );
        }
        let (tls, redirect) = super::tls::of_listener(&listener.value, &mut for_all, context);
        let own = listener.value.connections.value();
        let plain = tls.is_none() && super::tls::is_plain(&listener.value) && !matches!(file.tls, Field::Bad { .. });
        if let Some(own) = own.filter(|_| plain) {
            out_of_place(
                &own.handshake_deadline,
                "`handshake_deadline` on a listener without `tls`",
                "without TLS there is no handshake",
                context.faults,
            );
        }
        let (protocols, h2) = super::http2::of_listener(&listener.value, tls.is_some(), context.faults);
        permissions(&listener.value, &mut out.address, context);
        sockets.push((Listener { tls, redirect, protocols, h2, ..out }, at.span));
    }
    for_all.end(file, context.faults);
    let none = file.listeners.value().is_none_or(|map| map.0.is_empty());
    let told = matches!(file.listen, Field::Bad { .. }) || matches!(file.listeners, Field::Bad { .. });
    if sockets.is_empty() && none && !told {
        context.faults.push(
            Diagnostic::error(
                Code::NOTHING_SERVED,
                file.listeners.key().unwrap_or(context.start),
                "there is no listener",
            )
            .label("needs `listen` or `listeners`")
            .help("the smallest is `listen: \":8080\"`"),
        );
    }
    sockets
}

/// Gives a UNIX socket the permissions that are written.
fn permissions(listener: &schema::Listener, address: &mut ListenOn, context: &mut Context<'_>) {
    let permissions = &listener.permissions;
    match address {
        ListenOn::Unix { permissions: mode, .. } => *mode = permissions.value().map_or(*mode, |given| given.0),
        ListenOn::Ip(_) | ListenOn::Systemd(_) => out_of_place(
            permissions,
            "only UNIX sockets have `permissions`",
            "of a socket that systemd passes, `SocketMode=` of its unit decides",
            context.faults,
        ),
    }
}
