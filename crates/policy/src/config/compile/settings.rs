//! `listen`, `listeners`, `telemetry`, `server`, `secrets`: what the process is built from.

use std::time::Duration;

use super::checks::{out_of_place, span};
use super::clash::clash;
use super::clients::WrittenClients;
use super::connections::{connections, size};
use super::context::Context;
use super::limits::Limits;
use super::pages;
use super::stores::Stores;
use super::tls::ForAll;
use crate::config::fault::{Code, Diagnostic};
use crate::config::read::Field;
use crate::config::schema::{self, File};
use crate::config::secret;
use crate::config::settings::{
    AccessLog, ClientInLog, Drain, LineFormat, ListenOn, Listener, Log, LogFormat, LogLevel, LogTarget, Protocols,
    Settings,
};
use crate::config::span::Span;
use crate::units::{Bytes, Rate, Share};

/// What a small machine can spare. Some 2,500 stalled answers fit, and light requests beside them.
const MAX_BUFFERED: Bytes = Bytes(256 << 20);

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
    let everything = Share::new(1.0).unwrap_or_else(|_| unreachable!("1 is a share"));
    // some 50 kB of lines a second, whatever a flood sends
    let most_refused = Rate::new(100, Duration::from_secs(1)).ok();
    let telemetry = file.telemetry.value();
    let access_log = telemetry.and_then(|telemetry| telemetry.access_log.value()).map(|log| {
        let sample = log.sample.value();
        AccessLog {
            to: log.to.value().cloned().unwrap_or(LogTarget::Stdout),
            format: log.format.value().copied().unwrap_or(LineFormat::Json),
            client: log.client.value().copied().unwrap_or(ClientInLog::Pseudonym),
            sample_limited: sample.and_then(|sample| sample.limited.value().copied()).unwrap_or(everything),
            sample_other: sample.and_then(|sample| sample.other.value().copied()).unwrap_or(everything),
            most_refused: sample.and_then(|sample| sample.refused.value()).map_or(most_refused, |rate| rate.0),
        }
    });
    let log = telemetry.and_then(|telemetry| telemetry.log.value());
    let server = file.server.value();
    let drain = server.and_then(|server| server.drain.value());
    let mut drain_span = |field: Option<&Field<Duration>>, default| match field {
        Some(field) => span(field, Duration::ZERO..=Duration::from_secs(3_600), default, context.faults),
        None => default,
    };
    let drain = Drain {
        delay: drain_span(drain.map(|drain| &drain.delay), Duration::ZERO),
        // what a browser's user waits at most; systemd kills after 90 s
        timeout: drain_span(drain.map(|drain| &drain.timeout), Duration::from_secs(30)),
    };
    let max_buffered = server.map_or(MAX_BUFFERED, |server| {
        size(&server.max_buffered, Bytes(1 << 20)..=Bytes(1 << 40), MAX_BUFFERED, context.faults)
    });
    let key = file.secrets.value().and_then(|secrets| secrets.client_hmac.get());
    let (client_hmac, previous_client_hmac) = key.map_or((None, None), |key| secret::key(key, context));
    Settings {
        listeners: sockets.into_iter().map(|(listener, _)| listener).collect(),
        threads: server.and_then(|server| server.threads.value()).and_then(|threads| threads.0),
        max_buffered,
        drain,
        metrics,
        admin,
        access_log,
        log: Log {
            level: log.and_then(|log| log.level.value().copied()).unwrap_or(LogLevel::Info),
            format: log.and_then(|log| log.format.value().copied()).unwrap_or(LogFormat::Auto),
        },
        client_hmac,
        previous_client_hmac,
        store_passwords: stores.passwords(),
        watch: watch(file, context),
    }
}

fn watch(file: &File, context: &mut Context<'_>) -> Option<Duration> {
    const SHORTEST: Duration = Duration::from_secs(1);
    file.watch.get()?;
    Some(span(&file.watch, SHORTEST..=Duration::from_secs(3_600), SHORTEST, context.faults))
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
        let connections = connections(&listener.value, trusted, limits, context);
        let Some(at) = listener.value.address.get() else { continue };
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
        let address = address(&listener.value, &at.value, context);
        let listener = Listener { connections, tls, redirect, protocols, h2, ..Listener::new(&name.0, address) };
        sockets.push((listener, at.span));
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

/// Where a listener listens, with the permissions that it is given.
fn address(listener: &schema::Listener, address: &ListenOn, context: &mut Context<'_>) -> ListenOn {
    let permissions = &listener.permissions;
    let mut address = address.clone();
    match &mut address {
        ListenOn::Unix { permissions: mode, .. } => *mode = permissions.value().map_or(*mode, |given| given.0),
        ListenOn::Ip(_) | ListenOn::Systemd(_) => out_of_place(
            permissions,
            "only UNIX sockets have `permissions`",
            "of a socket that systemd passes, `SocketMode=` of its unit decides",
            context.faults,
        ),
    }
    address
}
