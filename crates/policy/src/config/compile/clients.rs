//! `trusted_proxies` and `client_ip`.

use std::sync::Arc;

use http::{HeaderName, header};

use super::checks::out_of_place;
use super::context::Context;
use super::own_fields::is_of_the_connection;
use crate::client::address::Translation;
use crate::client::trust::{
    ClientRules, CriticalityField, ForwardHeader, HostBits, ProxySet, Trust, parse_cidr, parse_cidr_or_everyone,
};
use crate::config::conceal::HIDDEN;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::places::Trusted;
use crate::config::preset::{self, Entries};
use crate::config::read::{At, Field};
use crate::config::schema::{ClientIp, File, TrustSource, TrustedProxies};
use crate::config::shape::{Either, List};
use crate::config::span::Span;
use crate::policy::CRITICALITY_FIELD;
use crate::units::{Criticality, Prefix};
use tidegate_http::hearsay::{self, Standing};

/// The value as it may be shown.
fn shown<T: std::fmt::Display>(at: &At<T>) -> String {
    if at.masked { HIDDEN.to_owned() } else { at.value.to_string() }
}

const TRUSTED: &str = "`trusted_proxies`";

/// What of the clients' rules only the text still tells.
#[derive(Debug, Clone, Default)]
pub struct WrittenClients {
    /// The trusted networks, sorted, none inside another.
    pub networks: Vec<Prefix>,
    /// Whether UNIX-socket peers are believed.
    pub unix: bool,
    /// NAT64 prefixes.
    pub translation: Vec<Prefix>,
    /// By which words each network is trusted, in the order of the file; some lie inside others.
    pub as_written: Vec<Trusted>,
    /// Of other lists than `trusted_proxies`: the names of the files, which are not written out.
    pub files: Vec<String>,
    /// The networks of those files.
    pub listed: Vec<Prefix>,
    /// Whether one of them lists `unix`.
    pub listed_unix: bool,
}

/// The rules, and what of them only the text tells.
pub fn clients(file: &File, context: &mut Context<'_>) -> (ClientRules, WrittenClients) {
    let mut rules = ClientRules::default();
    let mut trusted = WrittenClients::default();
    match file.trusted_proxies.value() {
        None => {}
        Some(Either::Short(from)) => {
            let at = file.trusted_proxies.get().map_or(context.start, |at| at.span);
            trusted = peers(TRUSTED, from, at, false, context);
            rules.trust = Trust::Proxies(set(&trusted));
        }
        Some(Either::Long(long)) => {
            if let Some(header) = long.header.value() {
                rules.header = ForwardHeader::from(header.clone());
            }
            (rules.short, rules.degraded) = (long.short(), long.degraded());
            keep_headers(long, &mut rules, context);
            rules.criticality = criticality(long, &rules, context);
            let hops = hops(long, &rules, context);
            if let Some(from) = long.from.get() {
                trusted = peers(TRUSTED, &from.value, from.span, hops.is_some(), context);
            }
            rules.trust = match hops {
                Some(0) => Trust::Off,
                Some(hops) => Trust::Hops { hops, from: set(&trusted) },
                None => Trust::Proxies(set(&trusted)),
            };
        }
    }
    if let Some(client_ip) = file.client_ip.value() {
        trusted.translation = prefixes(client_ip, &mut rules, context);
    }
    (rules, trusted)
}

/// Prefix lengths and translation prefixes; comes back with the latter as written.
fn prefixes(client_ip: &ClientIp, rules: &mut ClientRules, context: &mut Context<'_>) -> Vec<Prefix> {
    rules.ipv4_prefix = u8::try_from(client_ip.ipv4_prefix()).unwrap_or(u8::MAX);
    rules.ipv6_prefix = u8::try_from(client_ip.ipv6_prefix()).unwrap_or(u8::MAX);
    let mut written = Vec::new();
    for entry in client_ip.translation.value().iter().flat_map(|list| &list.items) {
        let Some(prefix) = network(entry, false, context.faults) else { continue };
        match Translation::new(prefix) {
            Ok(translation) => {
                rules.translation.push(translation);
                written.push(prefix);
            }
            Err(out) => context.faults.push(
                Diagnostic::error(Code::BAD_CIDR, entry.span, format!("{} is no translation prefix", entry.shown))
                    .label(out.to_string()),
            ),
        }
    }
    written
}

/// `hops`, if it is there.
fn hops(long: &TrustedProxies, rules: &ClientRules, context: &mut Context<'_>) -> Option<u8> {
    if !long.hops.is_present() {
        out_of_place(
            &long.short,
            "`short` without `hops`",
            "without `hops` a chain has no promised length; remove it",
            context.faults,
        );
        return None;
    }
    let hops = long.hops().unwrap_or_default();
    if let (ForwardHeader::Single(name), Some(at), true) = (&rules.header, long.hops.get(), hops > 1) {
        context.faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, format!("`hops` of {} with a header of one address", at.shown))
                .label("must be 1 here")
                .help(format!("`{name}` is read as a single address; only x-forwarded-for and forwarded hold chains")),
        );
    }
    u8::try_from(hops).ok()
}

/// `keep_headers`: names of fields that would be removed otherwise.
fn keep_headers(long: &TrustedProxies, rules: &mut ClientRules, context: &mut Context<'_>) {
    for entry in long.keep_headers.value().iter().flat_map(|list| &list.items) {
        let name = &entry.value;
        if hearsay::standing(name.as_str()) == Some(Standing::Named) {
            rules.keep_headers.push(name.clone());
            continue;
        }
        let what = format!("{} in `keep_headers`", entry.shown);
        let help = match hearsay::standing(name.as_str()) {
            Some(Standing::Nobody) => "no server should read this field; it reaches no origin",
            Some(Standing::Trusted) => "trusted peers may send it anyway; remove it from the list",
            _ => "the list is for fields that are removed otherwise, such as X-Real-IP; this one is not",
        };
        let fault = Diagnostic::error(Code::CONFLICT, entry.span, what).label("has no effect").help(help.to_owned());
        context.faults.push(fault);
    }
}

/// The field in which trusted peers say how much a request matters.
fn criticality(long: &TrustedProxies, rules: &ClientRules, context: &mut Context<'_>) -> Option<CriticalityField> {
    let (name, ceiling) = match long.criticality.get()? {
        At { value: Either::Short(name), span, .. } => ((name, *span), Criticality::Critical),
        At { value: Either::Long(words), .. } => {
            let field = words.field.get()?;
            ((&field.value, field.span), words.ceiling())
        }
    };
    let (name, at) = name;
    const OTHERS: [HeaderName; 6] = [
        header::HOST,
        header::COOKIE,
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        header::FORWARDED,
        HeaderName::from_static("x-forwarded-for"),
    ];
    let is_another = is_of_the_connection(name)
        || OTHERS.contains(name)
        || name == rules.header.name()
        || (hearsay::standing(name.as_str()).is_some() && *name != CRITICALITY_FIELD);
    if is_another {
        context.faults.push(
            Diagnostic::error(Code::CONFLICT, at, format!("`{name}` says something else"))
                .label("read for this and then removed, which its readers would miss")
                .help("name a field of its own, such as `x-criticality`"),
        );
        return None;
    }
    Some(CriticalityField { name: name.clone(), ceiling })
}

fn set(trusted: &WrittenClients) -> ProxySet {
    ProxySet::new(trusted.networks.iter().copied(), trusted.unix)
}

/// The peers of a list; `what` lists them.
pub fn peers(
    what: &str,
    from: &List<Either<String, TrustSource>>,
    at: Span,
    everyone: bool,
    context: &mut Context<'_>,
) -> WrittenClients {
    let mut trusted = WrittenClients::default();
    for entry in &from.items {
        match &entry.value {
            Either::Short(text) if text == "unix" => trusted.unix = true,
            Either::Short(text) if preset::is_name(text) => {
                trusted.add(&format!("preset {text}"), preset::preset(&entry.with(text.clone()), context));
            }
            Either::Short(text) if what != TRUSTED && is_everyone(text) => context.faults.push(
                Diagnostic::error(Code::BAD_CIDR, entry.span, format!("{what} lists everybody"))
                    .label("must have a length of 1 or more"),
            ),
            Either::Short(text) if !entry.masked && looks_like_file(text) => context.faults.push(
                Diagnostic::error(Code::BAD_CIDR, entry.span, format!("invalid network {}", entry.shown))
                    .label("a file name alone is not an entry")
                    .help(format!("write `{{ file: {text} }}`")),
            ),
            Either::Short(text) => {
                let network = network(&entry.with(text.clone()), everyone, context.faults);
                let written = shown(&entry.with(text));
                trusted.as_written.extend(network.map(|network| Trusted { network, written: written.into() }));
                trusted.networks.extend(network);
            }
            Either::Long(source) => match (&source.preset, &source.file) {
                (Field::Set { at, .. }, Field::Absent) => {
                    trusted.add(&format!("preset {}", shown(at)), preset::preset(at, context))
                }
                (Field::Absent, Field::Set { at, .. }) if what != TRUSTED => {
                    let mut entries = preset::list(at, context);
                    trusted.files.push(shown(at));
                    trusted.listed.append(&mut entries.networks);
                    trusted.listed_unix |= entries.unix;
                }
                (Field::Absent, Field::Set { at, .. }) => {
                    trusted.add(&format!("file {}", shown(at)), preset::file(at, context))
                }
                (Field::Absent, Field::Absent) => context.faults.push(
                    Diagnostic::error(Code::MISSING_FIELD, entry.span, "`preset` or `file` is missing")
                        .label("needs one of them"),
                ),
                (preset, file) if preset.is_present() && file.is_present() => context.faults.push(
                    Diagnostic::error(Code::CONFLICT, entry.span, "both `preset` and `file`")
                        .label("needs one of them"),
                ),
                _ => {}
            },
        }
    }
    if from.items.is_empty() && !from.bad {
        context.faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, at, format!("{what} lists nobody")).label("needs one or more").help(
                match what {
                    TRUSTED => "remove it to trust nobody, or list the networks of your proxies",
                    _ => "remove it, or list networks",
                },
            ),
        );
    }
    trusted.tidy();
    trusted
}

/// Returns whether a text is rather the name of a file than a network or a preset.
fn looks_like_file(text: &str) -> bool {
    const ENDINGS: [&str; 9] = [".txt", ".list", ".lst", ".csv", ".conf", ".cidr", ".netset", ".ipset", ".zone"];
    let lower = text.to_ascii_lowercase();
    ["/", "./", "../"].iter().any(|start| text.starts_with(start)) || ENDINGS.iter().any(|end| lower.ends_with(end))
}

fn is_everyone(text: &str) -> bool {
    parse_cidr_or_everyone(text).is_ok_and(|(prefix, _)| prefix.length() == 0)
}

/// One network written in the policy file.
pub fn network(entry: &At<String>, everyone: bool, faults: &mut Faults) -> Option<Prefix> {
    let read = if everyone { parse_cidr_or_everyone(&entry.value) } else { parse_cidr(&entry.value) };
    match read {
        Ok((prefix, host_bits)) => {
            if host_bits == HostBits::Masked {
                let shown = if entry.masked { String::new() } else { format!("; it stands for {prefix}") };
                faults.push(
                    Diagnostic::new(Code::HOST_BITS, entry.span, format!("{} has host bits", entry.shown))
                        .label(format!("bits behind the length do not count{shown}")),
                );
            }
            if prefix.length() == 0 {
                faults.push(
                    Diagnostic::new(Code::TRUST_EVERYBODY, entry.span, format!("{} trusts everybody", entry.shown))
                        .label("anyone who reaches a listener can name any client"),
                );
            }
            Some(prefix)
        }
        Err(fault) => {
            let told = Diagnostic::error(Code::BAD_CIDR, entry.span, format!("invalid network {}", entry.shown))
                .label(fault.allowed());
            let way_out = fault.way_out().filter(|_| !entry.masked);
            faults.push(match way_out {
                Some(way_out) => told.help(way_out),
                None => told,
            });
            None
        }
    }
}

impl WrittenClients {
    fn add(&mut self, written: &str, entries: Entries) {
        let written: Arc<str> = Arc::from(written);
        let named = |network: &Prefix| Trusted { network: *network, written: Arc::clone(&written) };
        self.as_written.extend(entries.networks.iter().map(named));
        self.networks.extend(entries.networks);
        self.unix |= entries.unix;
    }

    /// Sorted, without those inside others, so that equal trust is equal text.
    fn tidy(&mut self) {
        self.networks.sort_unstable_by_key(|prefix| (prefix.address(), prefix.length()));
        let mut kept: Vec<Prefix> = Vec::with_capacity(self.networks.len());
        for prefix in self.networks.drain(..) {
            if !kept.last().is_some_and(|last| last.length() <= prefix.length() && last.contains(prefix.address())) {
                kept.push(prefix);
            }
        }
        self.networks = kept;
    }
}
