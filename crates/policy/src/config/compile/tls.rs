//! `tls` and `redirect` of a listener, and `tls` of the top level. The files are read here, so that `check` finds what is wrong with
//! them.

use super::context::Context;
use crate::config::certificate::{self, CertificateFault, Part, covers};
use crate::config::dated::UsedCertificate;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::pattern::HostPattern;
use crate::config::read::{At, Field};
use crate::config::schema;
use crate::config::settings::{CertificateFiles, ClientCertificateMode, ClientCertificates, FilePath, Redirect, Tls};
use crate::config::shape::{Either, OneOrMany};
use crate::config::span::Span;
use crate::policy::route::HostMatch;
use crate::policy::{Route, RouteTable};

/// What the top level says for all listeners that say nothing themselves.
pub struct ForAll {
    tls: Option<Tls>,
    used: bool,
}

impl ForAll {
    /// Reads the files, once for all.
    pub fn of(file: &schema::File, context: &mut Context<'_>) -> ForAll {
        let tls = file
            .tls
            .get()
            .map(|list| Tls { certificates: certificates("`tls`", list, context), client_certificates: None });
        ForAll { tls, used: false }
    }

    /// For one more listener.
    pub fn take(&mut self) -> Option<Tls> {
        self.used = true;
        self.tls.clone()
    }

    /// Tells if no listener took it.
    pub fn end(&self, file: &schema::File, faults: &mut Faults) {
        if let Some(at) = file.tls.key().filter(|_| !self.used) {
            faults.push(
                Diagnostic::new(Code::IDLE_WORD, at, "no listener uses this `tls`")
                    .label("all have their own, or `redirect`, or `tls: off`"),
            );
        }
    }
}

/// What a listener does beyond taking connections.
pub fn of_listener(
    listener: &schema::Listener,
    for_all: &mut ForAll,
    context: &mut Context<'_>,
) -> (Option<Tls>, Option<Redirect>) {
    let own = listener.tls.key().filter(|_| !matches!(listener.tls.value(), Some(Either::Short(_))));
    if let (Some(tls), Some(redirect)) = (own, listener.redirect.key()) {
        context.faults.push(
            Diagnostic::error(Code::CONFLICT, redirect, "both `tls` and `redirect`")
                .label("would send clients in a circle")
                .help("redirect from a listener without `tls`, such as one on port 80")
                .related(tls, "this listener does TLS"),
        );
    }
    let tls = match listener.tls.value() {
        Some(Either::Long(tls)) => self::tls(tls, context),
        Some(Either::Short(_)) => None,
        None if listener.tls.is_present() || listener.redirect.is_present() => None,
        None => for_all.take(),
    };
    (tls, listener.redirect.value().copied())
}

/// Whether a listener means to do without TLS, as far as it says something itself.
pub fn is_plain(listener: &schema::Listener) -> bool {
    matches!(listener.tls.value(), Some(Either::Short(_)) | None) && !matches!(listener.tls, Field::Bad { .. })
}

/// A certificate's name, and where it comes from.
struct Claim {
    name: String,
    at: Span,
    written: bool,
}

fn tls(tls: &schema::Tls, context: &mut Context<'_>) -> Option<Tls> {
    let certificates = certificates("`certificates`", tls.certificates.get()?, context);
    let client_certificates = tls.client_certificates.value().and_then(|asked| authorities(asked, context));
    Some(Tls { certificates, client_certificates })
}

/// Reads what stands under this word.
fn certificates(
    word: &str,
    list: &At<OneOrMany<schema::Certificate>>,
    context: &mut Context<'_>,
) -> Vec<CertificateFiles> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut certificates = Vec::new();
    if list.value.0.items.is_empty() && !list.value.0.bad {
        context.faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, list.span, format!("{word} is empty")).label("needs one at least"),
        );
    }
    for (place, item) in list.value.0.items.iter().enumerate() {
        let names = item.value.names.value().map(|names| names.0.items.as_slice()).unwrap_or_default();
        for name in names {
            claim(&mut claims, &name.value.0, name.span, true, context);
        }
        let (Some(cert), Some(key)) = (item.value.cert.get(), item.value.key.get()) else { continue };
        let files = CertificateFiles {
            cert: file(cert, context),
            key: file(key, context),
            names: names.iter().map(|name| name.value.0.clone()).collect(),
        };
        read(&files, cert, key, names, place, &mut claims, context);
        certificates.push(files);
    }
    certificates
}

/// Reads a certificate and says what is wrong with it.
fn read(
    files: &CertificateFiles,
    cert: &At<String>,
    key: &At<String>,
    names: &[At<crate::config::pattern::CertificateName>],
    place: usize,
    claims: &mut Vec<Claim>,
    context: &mut Context<'_>,
) {
    let read = match certificate::Certificate::read(&files.cert.path, &files.key.path) {
        Ok(read) => read,
        Err(fault) => {
            let at = if fault.part == Part::Key { key } else { cert };
            return context.faults.push(unusable(&fault, at));
        }
    };
    context.certificates.push(UsedCertificate {
        written: files.cert.written.clone(),
        at: cert.span,
        names: if names.is_empty() { read.names.clone() } else { files.names.clone() },
        not_before: read.not_before,
        not_after: read.not_after,
    });
    if read.open_key {
        context.faults.push(
            Diagnostic::new(Code::OPEN_KEY, key.span, format!("everybody can read the key {}", key.shown))
                .label("whoever has it can pass for this site")
                .help("take the right away: `chmod o-r FILE`"),
        );
    }
    for name in names.iter().filter(|name| !is_held(&read.names, &name.value.0)) {
        context.faults.push(
            Diagnostic::new(
                Code::CERTIFICATE_NAMES,
                name.span,
                format!("the certificate does not hold {}", name.shown),
            )
            .label("clients that ask for it will refuse the certificate")
            .help(match read.names.as_slice() {
                [] => "it holds no name at all".to_owned(),
                held => format!("it holds {}", held.join(", ")),
            }),
        );
    }
    if names.is_empty() {
        if read.names.is_empty() && place > 0 {
            context.faults.push(
                Diagnostic::new(Code::CERTIFICATE_NAMES, cert.span, format!("{} holds no names", cert.shown))
                    .label("is never shown: only the first is, without a name")
                    .help("write them: `names: [shop.example.com]`"),
            );
        }
        for name in &read.names {
            claim(claims, name, cert.span, false, context);
        }
    }
}

/// Warns of every certificate that no route's host needs.
pub fn warn_of_idle(routes: &RouteTable, certificates: &[UsedCertificate], faults: &mut Faults) {
    let takes_all =
        |route: &Route| route.matches.is_empty() || route.matches.iter().any(|one| one.host == HostMatch::Any);
    if routes.iter().any(takes_all) {
        return;
    }
    let matches = routes.iter().flat_map(|route| &route.matches);
    let mut hosts: Vec<String> = matches.filter_map(|one| HostPattern::text(&one.host)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let is_needed = |names: &[String]| {
        hosts.iter().any(|host| match host.strip_prefix('*') {
            Some(suffix) => names.iter().any(|name| name.ends_with(suffix)),
            None => covers(names, host),
        })
    };
    let list = |names: &[String]| match names {
        [first, second, third, _, ..] => format!("{first}, {second}, {third} and {} more", names.len() - 3),
        names => names.join(", "),
    };
    for UsedCertificate { written, at, names, .. } in certificates {
        if !names.is_empty() && !is_needed(names) {
            faults.push(
                Diagnostic::new(
                    Code::CERTIFICATE_NAMES,
                    *at,
                    format!("the certificate `{written}` covers no route's host"),
                )
                .label(format!("is for {}", list(names)))
                .help(format!("routes take {}: name another certificate, or give a route this host", list(&hosts))),
            );
        }
    }
}

/// Whether a certificate holds a name as it stands, or one that covers it.
fn is_held(held: &[String], name: &str) -> bool {
    held.iter().any(|one| one == name) || (!name.starts_with('*') && covers(held, name))
}

/// Notes that a certificate is for this name. Names that the operator wrote twice are a fault; one that two certificates happen
/// to share is served by the first, as when one of two sites' certificates also holds the other's name.
fn claim(claims: &mut Vec<Claim>, name: &str, at: Span, written: bool, context: &mut Context<'_>) {
    if let Some(first) = claims.iter().find(|claim| claim.name == name && claim.at != at) {
        let both = written && first.written;
        let code = if both { Code::DUPLICATE_NAME } else { Code::CERTIFICATE_NAMES };
        let fault = Diagnostic::new(code, at, format!("a second certificate for `{name}`"))
            .label(if both { "is never shown for it" } else { "also holds this name" })
            .related(first.at, if both { "the first" } else { "this one is shown for it" });
        context.faults.push(if both { fault } else { fault.help("say which is for what: `names: […]`") });
    }
    claims.push(Claim { name: name.to_owned(), at, written });
}

fn authorities(asked: &schema::ClientCertificates, context: &mut Context<'_>) -> Option<ClientCertificates> {
    let at = asked.ca.get()?;
    let ca = file(at, context);
    if let Err(fault) = certificate::authorities(&ca.path) {
        context.faults.push(unusable(&fault, at));
    }
    let mode = match &asked.mode {
        Field::Absent => ClientCertificateMode::Required,
        mode => *mode.value()?,
    };
    Some(ClientCertificates { ca, mode })
}

fn unusable(fault: &CertificateFault, at: &At<String>) -> Diagnostic {
    let what = match fault.part {
        Part::Certificate => "certificate",
        Part::Key => "key",
        Part::Authorities => "list of authorities",
    };
    Diagnostic::error(Code::BAD_CERTIFICATE, at.span, format!("cannot use the {what} {}", at.shown))
        .label(fault.cause.clone())
        .help(fault.help.clone())
}

fn file(at: &At<String>, context: &Context<'_>) -> FilePath {
    FilePath { path: context.directory.join(&at.value), written: at.value.clone() }
}
